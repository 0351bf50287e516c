# SPDX-License-Identifier: BSD-3-Clause
r"""Kernel ridge regression, or one Newton step of kernel logistic regression from there, in the leaves of a tree.

Up to 5,000 rows, or 7,000 rows with classes, are one leaf. More rows are divided at quantiles of their first principal
direction, until a leaf has at most 2,500 rows, or 3,500 with classes. Each leaf is trained on its rows and on some
beyond each split, so that predictions hardly jump there.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
from scipy import special

from bochner.rows import Array, Floats, Indices, Mask, row_spans
from bochner.scaling.cholesky import factorize, solve_precisely
from bochner.scaling.kernel_values import KernelShape
from bochner.scaling.scale_learning import LearnedScales, learn_scales

__all__ = ["Leaf", "LeafTree", "Split"]

MAX_EXACT_ROWS, MAX_EXACT_CLASS_ROWS = 5_000, 7_000  # leaves of classes do not learn scales, and need more rows
LEAF_ROWS, CLASS_LEAF_ROWS = 2_500, 3_500
MARGIN, TOTAL_MARGIN = 0.1, 0.3  # shares of the rows around one split, and around all splits of a leaf
DIRECTION_ROWS = 4_000
BLOCK_ROWS = 1_024
SCALE_ROWS, SCALE_STEPS = 2_000, 4  # rows and steps of the scales of a leaf
LARGEST_PROBABILITY = 0.98  # of ridge regression, where the Newton step starts


@dataclass(frozen=True)
class Split:
    """A division of rows by a threshold of their product with a direction; children are numbers of nodes."""

    direction: Floats
    threshold: float
    low: int
    high: int


@dataclass
class Leaf:
    """Rows of a leaf and the coefficients of the kernel expansion.

    Attributes
    ----------
    own : ndarray of shape (n_own,)
        Indices of the training rows inside the leaf.
    members : ndarray of shape (n,)
        Indices of the rows that the leaf is trained on, also those beyond its borders.
    rows : ndarray of shape (n, n_columns)
        The scaled rows.
    noise : ndarray of shape (n,)
        The penalties of the rows, inversely proportional to their weights.
    coef : ndarray of shape (n, n_outputs)
        The coefficients.
    scales : ndarray of shape (n_columns,)
        Factors of the columns in this leaf, which move the scales of the member a little.
    """

    own: Indices
    members: Indices
    rows: Array = field(default_factory=lambda: np.empty((0, 0)))
    noise: Floats = field(default_factory=lambda: np.empty(0))
    coef: Floats = field(default_factory=lambda: np.empty((0, 0)))
    scales: Array = field(default_factory=lambda: np.ones(1, np.float32))

    def learn(self, shape: KernelShape, X: Array, Y: Floats, w: Floats, penalty: float) -> None:
        """Move the scales of the columns for this leaf."""
        sample = self.members[:SCALE_ROWS]  # rows are in random order
        start = LearnedScales(np.ones(X.shape[1]), penalty, np.inf)
        learned = learn_scales(shape, X[sample], Y[sample], w[sample], start=start, max_steps=SCALE_STEPS)
        self.scales = learned.scales.astype(np.float32)

    def fit(
        self, shape: KernelShape, X: Array, Y: Floats, w: Floats, penalty: float, log_odds: float | None = None
    ) -> tuple[Floats, Floats]:
        """Solve for the coefficients; return leave-one-out residuals of the own rows, and their variances.

        Variances are relative to that of the kernel, and include the noise of the rows. Rows that the leaf is not
        trained on have NaN. With the `log_odds` of two classes, predictions are logits minus `log_odds`.
        """
        self.rows, self.noise = X[self.members] * self.scales, penalty / w[self.members]
        K, targets = shape.matrix(self.rows), Y[self.members]
        factor = factorize(K, self.noise)
        self.coef = solve_precisely(factor, K, self.noise, targets)
        if log_odds is not None:
            fitted = targets - self.noise[:, None] * self.coef
            targets, curvature = _newton_targets(targets > 0.0, fitted, log_odds)
            self.noise = self.noise / (4.0 * curvature)  # the same as before, where the probability is one half
            factor = factorize(K, self.noise)
            self.coef = solve_precisely(factor, K, self.noise, targets)
        variances = 1.0 / factor.inverse_diagonal()
        left_out = targets - self.coef * variances[:, None]
        where = np.full(len(X), -1)
        where[self.members] = np.arange(len(self.members))
        found = where[self.own]
        is_known = (found >= 0)[:, None]
        residuals = np.where(is_known, Y[self.own] - left_out[found], np.nan)
        return residuals, np.where(is_known[:, 0], variances[found], np.nan)

    def predict(self, shape: KernelShape, X: Array) -> Floats:
        """Return the kernel expansion at rows."""
        X = X * self.scales
        blocks = [shape.matrix(X[span], self.rows) @ self.coef for span in row_spans(len(X), BLOCK_ROWS)]
        return np.concatenate(blocks)

    def variance(self, shape: KernelShape, X: Array, noise: float) -> Floats:
        """Return predictive variances of rows, relative to that of the kernel; the factor is computed again."""
        X, factor = X * self.scales, factorize(shape.matrix(self.rows), self.noise)
        explained = [
            np.square(factor.half_solve(shape.matrix(X[span], self.rows).T), dtype=np.float64).sum(axis=0)
            for span in row_spans(len(X), BLOCK_ROWS)
        ]
        return np.asarray(np.maximum(1.0 - np.concatenate(explained), 0.0) + noise)

    def gradients(self, shape: KernelShape, X: Floats) -> Floats:
        """Return the gradients of the kernel expansion at rows."""
        X, rows = X * self.scales, self.rows.astype(np.float64)
        blocks = [shape.row_gradients(X[span], rows, self.coef) for span in row_spans(len(X), 256)]
        return np.asarray(np.concatenate(blocks) * self.scales[:, None])


def _newton_targets(is_positive: Mask, fitted: Floats, log_odds: float) -> tuple[Floats, Floats]:
    """Return working targets and curvatures of the log loss, from centered predictions of targets of 1 and -1."""
    start = 0.5 * (1.0 + fitted + np.tanh(0.5 * log_odds))
    probabilities = np.clip(start, 1.0 - LARGEST_PROBABILITY, LARGEST_PROBABILITY)
    curvature = probabilities * (1.0 - probabilities)
    targets = special.logit(probabilities) - log_odds + (is_positive - probabilities) / curvature
    return targets, curvature[:, 0]


class LeafTree:
    """A tree that divides rows into leaves.

    Parameters
    ----------
    X : ndarray of shape (n, n_columns)
        Scaled rows in random order.
    max_exact_rows, leaf_rows : int
        Up to so many rows are one leaf; more rows are divided into leaves of at most `leaf_rows`.
    margin : float
        Share of the rows of a node, around its split, that both children are trained on.

    Attributes
    ----------
    nodes : list of Split or Leaf
        The nodes; the first one is the root.
    """

    def __init__(self, X: Array, max_exact_rows: int, leaf_rows: int, margin: float) -> None:
        self.nodes: list[Split | Leaf] = []
        everything = np.arange(len(X))
        if len(X) > max_exact_rows:
            depth = int(np.ceil(np.log2(len(X) / leaf_rows)))
            self._divide(X, everything, everything, leaf_rows, min(margin, TOTAL_MARGIN / depth))
        else:
            self.nodes.append(Leaf(everything, everything))

    def _divide(self, X: Array, own: Indices, members: Indices, leaf_rows: int, margin: float) -> int:
        """Add a node for rows and its descendants, and return its number."""
        number = len(self.nodes)
        n_leaves = int(np.ceil(len(own) / leaf_rows))
        sample = X[own[:DIRECTION_ROWS]].astype(np.float64)
        direction = np.linalg.eigh(np.cov(sample.T).reshape(X.shape[1], -1))[1][:, -1].astype(X.dtype)
        positions = X[own] @ direction
        share = (n_leaves // 2) / n_leaves
        threshold, low, high = np.quantile(
            positions, [share, max(share - margin / 2, 0.0), min(share + margin / 2, 1.0)]
        ).astype(X.dtype)
        is_low = positions <= threshold
        if n_leaves == 1 or is_low.all():
            # Rows with the same position cannot be divided; a leaf of too many of them is trained on some.
            self.nodes.append(Leaf(own, members[: 2 * leaf_rows]))
            return number
        self.nodes.append(Leaf(own, members))  # replaced below, when the numbers of the children are known
        member_positions = X[members] @ direction
        low_child = self._divide(X, own[is_low], members[member_positions <= high], leaf_rows, margin)
        high_child = self._divide(X, own[~is_low], members[member_positions > low], leaf_rows, margin)
        self.nodes[number] = Split(direction, float(threshold), low_child, high_child)
        return number

    @property
    def leaves(self) -> list[Leaf]:
        """The leaves."""
        return [node for node in self.nodes if isinstance(node, Leaf)]

    def route(self, X: Array) -> Iterator[tuple[Leaf, Indices]]:
        """Yield leaves with the indices of the rows inside them."""
        pending = [(0, np.arange(len(X)))]
        while pending:
            number, rows = pending.pop()
            node = self.nodes[number]
            if isinstance(node, Leaf):
                if len(rows):
                    yield node, rows
            else:
                is_low = X[rows] @ node.direction <= node.threshold
                pending += [(node.low, rows[is_low]), (node.high, rows[~is_low])]
