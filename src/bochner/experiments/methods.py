# SPDX-License-Identifier: BSD-3-Clause
"""Methods: the transformers that experiments compare, by the names in tables and legends.

Each method maps rows to 2 M columns, where M is the number of frequencies of plain Fourier features.
"""

from dataclasses import dataclass
from typing import Any, Self
from warnings import catch_warnings

import numpy as np
from sklearn.base import clone
from sklearn.cluster import KMeans
from sklearn.exceptions import ConvergenceWarning
from sklearn.kernel_approximation import Nystroem

from bochner.fourier_features import FourierFeatures
from bochner.landmark_features import LandmarkFeatures
from bochner.rows import Floats
from bochner.weightings import Quadrature, Stein, Weighting

__all__ = [
    *("DEFAULT", "KMEANS_NYSTROEM", "LANDMARKS", "LIMIT", "METHODS", "NYSTROEM", "POOLED_LANDMARKS"),
    *("FourierMethod", "KMeansNystroem", "LandmarkMethod", "NystroemMethod"),
]

LANDMARKS = "landmarks"
POOLED_LANDMARKS = "pooled landmarks"
NYSTROEM = "Nystroem"
KMEANS_NYSTROEM = "k-means Nystroem"
LIMIT = "SVD limit"  # not a method: the lowest error of any matrix of that rank
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
    pool : int
        Frequencies per pair of output columns; more than one are compressed.
    refine : int
        Iterations of refinement.
    text : str
        What the method is, in the words of the paper; empty for the call in Python.
    """

    sampler: str = "orthogonal"
    weighting: str | Weighting = "stein"
    pool: int = 1
    refine: int = 0
    text: str = ""

    @property
    def uses_pairs(self) -> bool:
        """Whether the weighting takes a number of sampled pairs."""
        return not isinstance(self.weighting, str)

    def estimator(self, size: int, length_scale: float, seed: int, X: Floats, n_pairs: int = 0) -> FourierFeatures:
        """Return unfitted features for rows like X."""
        parameters = self._parameters(size) | {
            "sampler": self.sampler_for(X.shape[1]),
            "weighting": self.weighting_with(n_pairs),
        }
        return FourierFeatures(length_scale=length_scale, random_state=seed, **parameters)

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

    def description(self, size: int = 0) -> str:
        """Return the text, or the call that creates the features; 0 stands for any M.

        Examples
        --------
        >>> from bochner.experiments.methods import METHODS
        >>> METHODS["matrix"].description(32)
        "FourierFeatures(weighting='matrix', n_frequencies=768, n_components=64)"
        """
        if self.text:
            return self.text
        parameters = {name: repr(value) for name, value in self._parameters(size).items()}
        if self.sampler == "orthogonal":  # what the default means for the Gaussian kernel
            del parameters["sampler"]
        if not size:
            parameters["n_frequencies"] = "M"
        return f"FourierFeatures({', '.join(f'{name}={value}' for name, value in parameters.items())})"

    def settings(self) -> tuple[Any, ...]:
        """Return the sampler, the weighting with its parameters, the pool and the refinement."""
        if isinstance(self.weighting, str):
            return self.sampler, self.weighting, self.pool, self.refine
        # The repr of an estimator depends on scikit-learn's configuration; its parameters do not.
        parameters = repr(sorted(self.weighting.get_params().items()))
        return self.sampler, type(self.weighting).__name__, parameters, self.pool, self.refine

    def _parameters(self, size: int) -> dict[str, Any]:
        parameters = {"sampler": self.sampler, "weighting": self.weighting, "n_frequencies": self.pool * size}
        compression = {"n_components": 2 * size} if self.pool > 1 else {}
        return parameters | compression | ({"refine": self.refine} if self.refine else {})


@dataclass(frozen=True)
class LandmarkMethod:
    """Landmark features.

    Attributes
    ----------
    pool : int
        Landmarks per output column; more than one are compressed.
    """

    pool: int = 1
    uses_pairs = False

    def estimator(self, size: int, length_scale: float, seed: int, X: Floats, n_pairs: int = 0) -> LandmarkFeatures:
        """Return unfitted features with 2 * size columns."""
        return LandmarkFeatures(length_scale=length_scale, random_state=seed, **self._parameters(size))

    def description(self, size: int = 0) -> str:
        """Return the call that creates the features; 0 stands for any M.

        Examples
        --------
        >>> from bochner.experiments.methods import METHODS
        >>> METHODS["pooled landmarks"].description(32)
        'LandmarkFeatures(n_landmarks=192, n_components=64)'
        """
        if size:
            return f"LandmarkFeatures({', '.join(f'{name}={value}' for name, value in self._parameters(size).items())})"
        return f"LandmarkFeatures with {2 * self.pool} M landmarks and 2 M columns"

    def settings(self) -> tuple[Any, ...]:
        """Return the kind of features and the pool."""
        return "landmarks", self.pool

    def _parameters(self, size: int) -> dict[str, Any]:
        compression = {"n_components": 2 * size} if self.pool > 1 else {}
        return {"n_landmarks": self.pool * 2 * size, **compression}


class KMeansNystroem(Nystroem):
    """Nystroem with the centers of clusters as landmarks instead of sampled rows.

    Examples
    --------
    >>> import numpy as np
    >>> from bochner.experiments.methods import KMeansNystroem
    >>> features = KMeansNystroem(gamma=0.5, n_components=2, random_state=0)
    >>> _ = features.fit(np.array([[0.0], [1.0], [10.0], [11.0]]))
    >>> sorted(features.components_.ravel().tolist())
    [0.5, 10.5]
    """

    def fit(self, X: Any, y: Any = None) -> Self:
        """Fit the clusters, then Nystroem on their centers.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Training rows.
        y : None
            Ignored.

        Returns
        -------
        KMeansNystroem
            The fitted transformer.
        """
        clusters = KMeans(self.n_components, n_init=1, random_state=self.random_state)
        with catch_warnings(action="ignore", category=ConvergenceWarning):  # two centers may be equal to rounding
            centers = clusters.fit(X).cluster_centers_
        super().fit(centers)
        return self


@dataclass(frozen=True)
class NystroemMethod:
    """scikit-learn's Nystroem with sampled rows or the centers of k-means clusters as landmarks."""

    k_means: bool = False
    uses_pairs = False

    def estimator(self, size: int, length_scale: float, seed: int, X: Floats, n_pairs: int = 0) -> Nystroem:
        """Return unfitted Nystroem features for rows like X, with at most one landmark per row."""
        kind, n_rows = (KMeansNystroem, len(np.unique(X, axis=0))) if self.k_means else (Nystroem, len(X))
        return kind(gamma=0.5 / length_scale**2, n_components=min(2 * size, n_rows), random_state=seed)

    def description(self, size: int = 0) -> str:
        """Return what the landmarks are; 0 stands for any M."""
        number = f"{2 * size:,}" if size else "2 M"
        if self.k_means:
            return f"scikit-learn's Nystroem fitted on the centers of {number} k-means clusters of the training rows"
        return f"scikit-learn's Nystroem with {number} training rows, drawn at random, as landmarks"

    def settings(self) -> tuple[Any, ...]:
        """Return the kind of landmarks."""
        return NYSTROEM, self.k_means


PLAIN = "all weights equal to 1/M"
SAME = "the same sequence with non-negative weights"
METHODS: dict[str, FourierMethod | LandmarkMethod | NystroemMethod] = {
    **{
        f"{sampler} + {weighting}": FourierMethod(sampler, weighting)
        for sampler in ("mc", "halton", "sobol", "orthogonal")
        for weighting in ("uniform", "shrinkage", "quadrature", "stein")
    },
    "refined stein": FourierMethod(refine=60),
    "matrix": FourierMethod(weighting="matrix", pool=24),
    "refined matrix": FourierMethod(weighting="matrix", pool=8, refine=20),
    LANDMARKS: LandmarkMethod(),
    POOLED_LANDMARKS: LandmarkMethod(pool=3),
    NYSTROEM: NystroemMethod(),
    KMEANS_NYSTROEM: NystroemMethod(k_means=True),
    # The paper's methods under the paper's names.
    "MC": FourierMethod("mc", "uniform", text=f"independent frequencies, {PLAIN}"),
    "QMC": FourierMethod(
        QMC,
        "uniform",
        text=f"a scrambled quasi-Monte Carlo sequence, {PLAIN}: Sobol's for data with up to {MOST_SOBOL_COLUMNS} "
        "columns, Halton's for more columns, where the first points of Sobol's are worse than independent points",
    ),
    "BQ": FourierMethod(
        QMC, Quadrature(), text=f"{SAME} from Bayesian quadrature, tuned on 4 M sampled pairs unless stated otherwise"
    ),
    "SES": FourierMethod(
        QMC,
        Stein(),
        text=f"the paper's method: {SAME} from ridge regression, here on all pairs of 2,000 sampled rows; the paper "
        "uses a few M sampled pairs, and Figure 3 compares the two",
    ),
    "SES, pairs": FourierMethod(QMC, Stein(sketch="pairs"), text="SES on uniformly sampled pairs, as in the paper"),
    "SES, row-norm pairs": FourierMethod(
        QMC,
        Stein(sketch="pairs", sampling="row-norm"),
        text="SES on pairs sampled with probability proportional to the norm of their row of the regression",
    ),
    "MC, uniform shrinkage": FourierMethod(
        "mc", "shrinkage", text="MC with all weights multiplied by one shrinkage factor"
    ),
    "MC, SES weights": FourierMethod("mc", "stein", text="MC with one weight per frequency, as in SES"),
}
