# SPDX-License-Identifier: BSD-3-Clause
r"""Frequencies moved by the data: the kernel error minimised over frequencies and weights together.

With Z the weighted features of n points, the objective and its gradient in Z are

.. math:: |K - Z Z^T|_F^2 = |K|_F^2 - 2 \, \mathrm{tr}(Z^T K Z) + |Z^T Z|_F^2, \quad 4 (Z Z^T Z - K Z),

and one step further back lie the phases :math:`w_m \cdot x` and the amplitudes :math:`\sqrt{\beta_m}`.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.optimize import minimize

from bochner.feature_maps import fourier_map
from bochner.kernels import Kernel, kernel_matrix
from bochner.rows import Floats, Rows, shuffled_sample, sum_over_spans

__all__ = ["KernelObjective", "refine"]

N_POINTS = 2000  # a quarter of them judge what the others have learned
LEAST_GAIN = 0.99  # of the error at the start, on the points that judge: less is taken for chance
MOST_LOSS = 1.02  # of the smallest error there: more is taken for learning by heart
PATIENCE = 20  # iterations beyond that before all is lost
SPAN_ROWS = 128
AMPLITUDE_STEP = 0.2  # the weights start at their optimum and the frequencies do not: those are to move
LEAST_WEIGHT = 0.1  # of 1/M: a frequency of weight zero would have no gradient


def refine(
    frequencies: Floats, weights: Floats, kernel: Kernel, X: Rows, n_iterations: int, rng: np.random.Generator
) -> tuple[Floats, Floats]:
    """Move frequencies and weights to a smaller kernel error by L-BFGS; a dense map costs the same afterwards.

    A quarter of the sampled points is held out. The last iterate is kept whose error there is within 2 % of the
    smallest (which of those is the smallest is chance), and none at all unless it is 1 % below the one at the start.

    Parameters
    ----------
    frequencies : ndarray of shape (n_frequencies, n_features)
        Where to start.
    weights : ndarray of shape (n_frequencies,)
        Their weights.
    kernel : Kernel
        A shape at unit length scale.
    X : rows of shape (n_samples, n_features)
        The data in units of the length scale.
    n_iterations : int
        The most iterations; they end earlier when the held-out error has stopped to fall.
    rng : numpy.random.Generator
        Chooses the points.

    Returns
    -------
    frequencies : ndarray of shape (n_frequencies, n_features)
        The frequencies in their new places.
    weights : ndarray of shape (n_frequencies,)
        Their weights, none negative.

    Examples
    --------
    >>> import numpy as np
    >>> from bochner.kernels import Gaussian
    >>> from bochner.learning.refinement import refine
    >>> rng = np.random.default_rng(0)
    >>> start, X = rng.normal(size=(4, 2)), rng.normal(size=(200, 2))
    >>> frequencies, weights = refine(start, np.full(4, 0.25), Gaussian(), X, 20, rng)
    >>> frequencies.shape, bool(weights.min() >= 0)
    ((4, 2), True)
    """
    points, counts = shuffled_sample(X, N_POINTS, rng)
    n_points = points.shape[0]
    if n_points < 4:  # no quarter to hold out
        return frequencies, weights
    seen, held = slice(n_points // 4, None), slice(0, n_points // 4)
    objective = KernelObjective.of(kernel, points[seen], counts[seen])
    judge = KernelObjective.of(kernel, points[held], counts[held])
    start = _Step(frequencies, np.sqrt(np.maximum(weights, LEAST_WEIGHT / len(weights))))

    unit = objective.value(frequencies, np.sqrt(weights)) or 1.0
    worst = least = LEAST_GAIN**2 * judge.value(frequencies, np.sqrt(weights), X.shape[0])
    best, since = (frequencies, weights), 0

    def loss(flat: Floats) -> tuple[float, Floats]:
        value, *gradients = objective.with_gradient(*start.at(flat))
        return value / unit, start.gradient(*gradients) / unit

    def keep_best(flat: Floats) -> None:
        nonlocal best, least, since
        moved, amplitudes = start.at(flat)
        risk = judge.value(moved, amplitudes, X.shape[0])
        since += 1
        if risk < min(worst, MOST_LOSS**2 * least):
            best, least, since = (moved, np.square(amplitudes)), min(least, risk), 0
        if since >= PATIENCE:
            raise StopIteration

    options: Any = {"maxiter": n_iterations, "maxcor": 20, "ftol": 1e-6, "gtol": 0.0}
    callback: Any = keep_best
    minimize(loss, start.zero(), jac=True, method="L-BFGS-B", callback=callback, options=options)
    return best


@dataclass(frozen=True)
class _Step:
    """From the flat vector that the optimiser moves, zero at the start, to frequencies and amplitudes."""

    frequencies: Floats
    amplitudes: Floats

    def zero(self) -> Floats:
        return np.zeros(self.frequencies.size + len(self.amplitudes))

    def at(self, flat: Floats) -> tuple[Floats, Floats]:
        moves, stretches = flat[: self.frequencies.size], flat[self.frequencies.size :]
        return (
            self.frequencies + moves.reshape(self.frequencies.shape),
            self.amplitudes + self._unit * stretches,
        )

    def gradient(self, in_frequencies: Floats, in_amplitudes: Floats) -> Floats:
        return np.concatenate([in_frequencies.ravel(), self._unit * in_amplitudes])

    @property
    def _unit(self) -> float:
        return AMPLITUDE_STEP / float(np.sqrt(len(self.amplitudes)))


@dataclass(frozen=True)
class KernelObjective:
    """The squared kernel error of a few points, as a function of frequencies and amplitudes (roots of weights)."""

    points: Any
    roots: Floats
    exact: Floats
    energy: float

    @classmethod
    def of(cls, kernel: Kernel, points: Any, counts: Floats) -> "KernelObjective":
        """The objective for points that count `counts` times."""
        roots = np.sqrt(counts)
        exact = kernel_matrix(kernel, points)
        exact *= roots[:, None] * roots
        return cls(points, roots, exact, float(np.square(exact).sum()))

    def value(self, frequencies: Floats, amplitudes: Floats, n_rows: int | None = None) -> float:
        """The squared error; with `n_rows`, the diagonal has the share that it has in a matrix of so many rows."""
        features = self._features(frequencies) * np.tile(amplitudes, 2)
        products = sum_over_spans(self._energy_part(features), len(features), SPAN_ROWS)
        value = float(self.energy - 2.0 * products[0] + np.square(self._gram(features)).sum())
        size = len(features)
        if n_rows is None or size == 1:
            return value
        diagonal = float(np.square(np.diagonal(self.exact) - np.square(features).sum(axis=1)).sum())
        return (value - diagonal) * (n_rows - 1) / (size - 1) + diagonal

    def with_gradient(self, frequencies: Floats, amplitudes: Floats) -> tuple[float, Floats, Floats]:
        """The squared error, its gradient in the frequencies, its gradient in the amplitudes."""
        m = len(amplitudes)
        plain = self._features(frequencies)
        features = plain * np.tile(amplitudes, 2)
        gram = self._gram(features)

        def part(span: slice) -> Floats:
            product = self.exact[span] @ features
            slope = 4.0 * (features[span] @ gram - product)
            towards = slope * plain[span]
            in_amplitudes = towards.sum(axis=0)
            cosines, sines = plain[span, :m], plain[span, m:]
            in_phases = amplitudes * (slope[:, m:] * cosines - slope[:, :m] * sines)
            in_frequencies = np.asarray((self.points[span].T @ in_phases).T)
            return np.concatenate(
                [[np.vdot(features[span], product)], in_amplitudes[:m] + in_amplitudes[m:], in_frequencies.ravel()]
            )

        sums = sum_over_spans(part, len(features), SPAN_ROWS)
        value = float(self.energy - 2.0 * sums[0] + np.square(gram).sum())
        return value, sums[1 + m :].reshape(frequencies.shape), sums[1 : 1 + m]

    def _features(self, frequencies: Floats) -> Floats:
        return fourier_map(self.points, frequencies, np.ones(len(frequencies))) * self.roots[:, None]

    def _gram(self, features: Floats) -> Floats:
        return sum_over_spans(lambda span: features[span].T @ features[span], len(features), 4 * SPAN_ROWS)

    def _energy_part(self, features: Floats) -> Any:
        return lambda span: np.array([np.vdot(features[span], self.exact[span] @ features)])
