# SPDX-License-Identifier: BSD-3-Clause
"""Training rows in an order of their own, copies merged, and the scaling of their columns."""

from dataclasses import dataclass

import numpy as np

from bochner.rows import Array, Floats, Indices, Mask

__all__ = ["ColumnScaling", "merge_copies", "sampling_order"]

MAX_KNOTS = 1_000
SOFT_LIMIT = 3.0  # standardized values approach this limit


def merge_copies(X: Floats, Y: Floats, w: Floats) -> tuple[Indices, Floats, Indices]:
    """Return the row indices of one copy of each row of positive weight, and the total weights of its copies.

    The third array has the number of its copy for each row, and -1 for rows of weight 0. Copies are equal in X and Y.
    Rows are sorted by a hash, so that neither their order nor the difference between copies and weights changes a
    model.
    """
    bits = (np.hstack([X, Y]) + 0.0).view(np.uint64)  # -0.0 becomes 0.0
    hashes = np.zeros(len(bits), np.uint64)
    for number, column in enumerate(bits.T):
        mixed = column * np.uint64(0x9E3779B97F4A7C15)
        mixed ^= mixed >> np.uint64(32)  # integers have zeros in all low bits
        hashes = (hashes ^ mixed) * np.uint64(0xBF58476D1CE4E5B9) + np.uint64(number)
        hashes ^= hashes >> np.uint64(29)
    positive = np.flatnonzero(w > 0.0)
    order = positive[np.argsort(hashes[positive], kind="stable")]
    is_first = np.append(True, (bits[order[1:]] != bits[order[:-1]]).any(axis=1))
    copy_of = np.full(len(X), -1)
    copy_of[order] = np.cumsum(is_first) - 1
    return order[is_first], np.add.reduceat(w[order], np.flatnonzero(is_first)), copy_of


def sampling_order(labels: Indices | None, n_rows: int, n_sample: int, rng: np.random.Generator) -> Indices:
    """Return a random order of rows whose beginnings are samples; of classes, stratified ones.

    Each class has its share of the rows in every sample. Rare classes have up to one half of an equal share, as far as
    the first `n_sample` rows do not use up their rows: otherwise nothing could be learned about them.
    """
    order = rng.permutation(n_rows)
    if labels is None:
        return order
    counts = np.bincount(labels)
    shares = counts / n_rows
    enriched = np.maximum(shares, np.minimum(0.5 / len(counts), counts / min(n_sample, n_rows)))
    positions = np.empty(n_rows)
    for label, share in enumerate(enriched / enriched.sum()):
        rows = order[labels[order] == label]
        positions[rows] = (np.arange(len(rows)) + rng.random(len(rows))) / max(share, 1e-300)
    return np.argsort(positions, kind="stable")


@dataclass(frozen=True)
class ColumnScaling:
    r"""Map of the columns before the scales are learned.

    Plain scaling is :math:`z = (x - m) / s`. The other one is half :math:`z / \sqrt{1 + z^2 / 9}`, which limits
    outliers, and half the standardized rank of x among the training rows.

    Attributes
    ----------
    centers, deviations : ndarray of shape (n_features,)
        Means m and standard deviations s.
    knots : tuple of (ndarray, ndarray)
        Per column, values and their standardized ranks; empty for plain scaling.
    """

    centers: Floats
    deviations: Floats
    knots: tuple[tuple[Floats, Floats], ...] = ()

    @classmethod
    def from_rows(cls, X: Floats, w: Floats, uses_ranks: bool) -> "ColumnScaling":
        """Fit the scaling to weighted rows; constant columns become zeros."""
        largest = np.maximum(np.abs(X).max(axis=0), np.finfo(np.float64).tiny)  # squares must not overflow
        centers = np.average(X / largest, axis=0, weights=w)
        deviations = np.sqrt(np.average(np.square(X / largest - centers), axis=0, weights=w))
        deviations[deviations < 1e-10 * np.abs(centers)] = 0.0
        deviations = np.where(deviations > 0.0, deviations, np.inf)
        knots = tuple(_rank_knots(column, w) for column in X.T) if uses_ranks else ()
        return cls(centers * largest, deviations * largest, knots)

    def __call__(self, X: Array) -> Floats:
        """Return scaled rows in float64."""
        z = (X.astype(np.float64) - self.centers) / self.deviations
        if not self.knots:
            return np.asarray(z)
        z *= 0.5 / np.sqrt(1.0 + np.square(z / SOFT_LIMIT))
        for column, x, (values, ranks) in zip(z.T, X.T, self.knots, strict=True):
            column += 0.5 * np.interp(x, values, ranks)
        return np.asarray(z)

    def slopes(self, X: Array) -> Floats:
        """Return the derivatives of the scaled columns."""
        z = (X.astype(np.float64) - self.centers) / self.deviations
        slopes = np.broadcast_to(1.0 / self.deviations, z.shape)
        if not self.knots:
            return slopes
        slopes = 0.5 * slopes * (1.0 + np.square(z / SOFT_LIMIT)) ** -1.5
        for column, x, (values, ranks) in zip(slopes.T, X.T, self.knots, strict=True):
            right = np.searchsorted(values, x, side="right")
            inside: Mask = (right > 0) & (right < len(values))
            right = right[inside]
            column[inside] += 0.5 * (ranks[right] - ranks[right - 1]) / (values[right] - values[right - 1])
        return slopes


def _rank_knots(column: Floats, w: Floats) -> tuple[Floats, Floats]:
    """Return distinct values of a column and their mean ranks, centered and with unit variance."""
    values, inverse = np.unique(column, return_inverse=True)
    weights = np.bincount(inverse, w)
    ranks = (np.cumsum(weights) - 0.5 * weights) / weights.sum() - 0.5
    deviation = np.sqrt(np.average(np.square(ranks), weights=weights))
    ranks /= deviation if deviation > 0.0 else 1.0
    kept = np.unique(np.linspace(0, len(values) - 1, min(len(values), MAX_KNOTS)).round().astype(np.intp))
    return values[kept], ranks[kept]
