# SPDX-License-Identifier: BSD-3-Clause
"""Methods: the transformers that the studies compare, by the names in tables and legends.

Each method maps rows to 2 M columns, where M is the number of frequencies.
"""

from dataclasses import dataclass
from typing import Any

from sklearn.base import clone
from sklearn.kernel_approximation import Nystroem

from bochner import FourierFeatures
from bochner.rows import Floats
from bochner.weightings import Quadrature, Stein, Weighting

__all__ = ["DEFAULT", "METHODS", "NYSTROEM", "FourierMethod", "NystroemMethod"]

NYSTROEM = "Nystroem"
DEFAULT = "orthogonal + stein"
QMC = "quasi-Monte Carlo"
MOST_SOBOL_COLUMNS = 100  # with more columns, the first points of Sobol's sequence are worse than independent points


@dataclass(frozen=True)
class FourierMethod:
    """Fourier features with a sampler and a weighting.

    Attributes
    ----------
    sampler : str
        Name of a sampler, or `QMC` for the better sequence at the number of columns.
    weighting : str or Weighting
        The weighting. The number of sampled pairs can be set for an instance, not for a name.
    description : str
        What the method is, in the words of the paper.
    """

    sampler: str
    weighting: str | Weighting
    description: str

    @property
    def uses_pairs(self) -> bool:
        """Whether the weighting takes a number of sampled pairs."""
        return not isinstance(self.weighting, str)

    def estimator(self, size: int, length_scale: float, seed: int, X: Floats, n_pairs: int = 0) -> FourierFeatures:
        """Return unfitted features for rows like X."""
        return FourierFeatures(
            n_frequencies=size,
            sampler=self.sampler_for(X.shape[1]),
            weighting=self.weighting_with(n_pairs),
            length_scale=length_scale,
            random_state=seed,
        )

    def sampler_for(self, n_columns: int) -> str:
        """Return the name of the sampler for rows of `n_columns` columns."""
        if self.sampler != QMC:
            return self.sampler
        return "sobol" if n_columns <= MOST_SOBOL_COLUMNS else "halton"

    def weighting_with(self, n_pairs: int) -> str | Weighting:
        """Return the weighting with a number of sampled pairs, or of points if it uses all their pairs."""
        if not n_pairs or isinstance(self.weighting, str):
            return self.weighting
        all_pairs = isinstance(self.weighting, Stein) and self.weighting.sketch == "points"
        weighting: Weighting = clone(self.weighting)
        weighting.set_params(**{"n_points" if all_pairs else "n_pairs": n_pairs})
        return weighting

    def settings(self) -> tuple[Any, ...]:
        """Return the sampler and the weighting with its parameters; one frequency per column pair, none refined."""
        if isinstance(self.weighting, str):
            return self.sampler, self.weighting, 1, 0
        # The repr of an estimator depends on scikit-learn's configuration; its parameters do not.
        parameters = repr(sorted(self.weighting.get_params().items()))
        return self.sampler, type(self.weighting).__name__, parameters, 1, 0


@dataclass(frozen=True)
class NystroemMethod:
    """scikit-learn's Nystroem with sampled rows as landmarks."""

    description = "scikit-learn's Nystroem with 2 M training rows, drawn at random, as landmarks"
    uses_pairs = False

    def estimator(self, size: int, length_scale: float, seed: int, X: Floats, n_pairs: int = 0) -> Nystroem:
        """Return unfitted Nystroem features for rows like X, with at most one landmark per row."""
        return Nystroem(gamma=0.5 / length_scale**2, n_components=min(2 * size, len(X)), random_state=seed)

    def settings(self) -> tuple[Any, ...]:
        """Return the kind of landmarks; no k-means."""
        return NYSTROEM, False


PLAIN = "all weights equal to 1/M"
SAME = "the same sequence with non-negative weights"
METHODS: dict[str, FourierMethod | NystroemMethod] = {
    "MC": FourierMethod("mc", "uniform", f"independent frequencies, {PLAIN}"),
    "QMC": FourierMethod(
        QMC,
        "uniform",
        f"a scrambled quasi-Monte Carlo sequence, {PLAIN}: Sobol's for data with up to {MOST_SOBOL_COLUMNS} columns, "
        "Halton's for more columns, where the first points of Sobol's are worse than independent points",
    ),
    "BQ": FourierMethod(
        QMC, Quadrature(), f"{SAME} from Bayesian quadrature, tuned on 4 M sampled pairs unless stated otherwise"
    ),
    "SES": FourierMethod(
        QMC,
        Stein(),
        f"the paper's method: {SAME} from ridge regression, here on all pairs of 2,000 sampled rows; the paper uses a "
        "few M sampled pairs, and Figure 3 compares the two",
    ),
    "SES, pairs": FourierMethod(QMC, Stein(sketch="pairs"), "SES on uniformly sampled pairs, as in the paper"),
    "SES, row-norm pairs": FourierMethod(
        QMC,
        Stein(sketch="pairs", sampling="row-norm"),
        "SES on pairs sampled with probability proportional to the norm of their row of the regression",
    ),
    "MC, uniform shrinkage": FourierMethod("mc", "shrinkage", "MC with all weights multiplied by one shrinkage factor"),
    "MC, SES weights": FourierMethod("mc", "stein", "MC with one weight per frequency, as in SES"),
    DEFAULT: FourierMethod("orthogonal", "stein", "FourierFeatures(weighting='stein', n_frequencies=M)"),
    NYSTROEM: NystroemMethod(),
}
