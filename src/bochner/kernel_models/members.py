# SPDX-License-Identifier: BSD-3-Clause
"""Members of a kernel machine: a kernel with its scales, fitted in the leaves of a tree; predictions are averaged."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from bochner.kernel_models.leaves import (
    BLOCK_ROWS,
    CLASS_LEAF_ROWS,
    LEAF_ROWS,
    MARGIN,
    MAX_EXACT_CLASS_ROWS,
    MAX_EXACT_ROWS,
    Leaf,
    LeafTree,
)
from bochner.kernel_models.training_rows import ColumnScaling
from bochner.kernels import Kernel
from bochner.progress import track
from bochner.rows import Array, Floats, Indices, in_threads, row_spans
from bochner.scaling.kernel_values import KernelShape, kernel_shape
from bochner.scaling.scale_learning import scaled_rows

__all__ = ["KernelMember", "fit_members", "mean_gradients", "mean_prediction", "predictive_variance"]

MAX_ENTRY = 1e15  # of scaled rows


@dataclass
class KernelMember:
    """A kernel with learned scales and its leaves.

    Attributes
    ----------
    kernel : Kernel
        The kernel at unit length scale.
    scaling : ColumnScaling
        The map of the columns before the scales.
    scales : ndarray of shape (n_features,) or (n_features, n_features)
        Factors of the scaled columns, or the matrix that they are multiplied by.
    penalty : float
        The penalty of kernel ridge regression.
    validation_error : float
        Root mean squared error on validation rows, relative to the error of predicting the mean.
    tree : LeafTree
        The tree; a single leaf for up to 5,000 rows.
    """

    kernel: Kernel
    scaling: ColumnScaling
    scales: Floats
    penalty: float
    validation_error: float
    tree: LeafTree = field(init=False, repr=False)

    @property
    def length_scale_(self) -> Floats | None:
        """Length scales in standard deviations of the columns, shape (n_features,); None with a matrix."""
        return 1.0 / self.scales if self.scales.ndim == 1 else None

    @property
    def metric_(self) -> Floats | None:
        """The matrix, shape (n_features, n_features), that scaled rows are multiplied by; None with length scales."""
        return self.scales if self.scales.ndim == 2 else None

    @property
    def shape(self) -> KernelShape:
        """The compiled form of the kernel."""
        return kernel_shape(self.kernel)

    def rows(self, X: Array) -> Array:
        """Return rows as the kernel gets them, in float32, whose squares must not overflow."""
        return scaled_rows(self.scaling(X), self.scales).clip(-MAX_ENTRY, MAX_ENTRY).astype(np.float32)


def fit_members(
    members: Sequence[KernelMember],
    X: Floats,
    Y: Floats,
    w: Floats,
    has_classes: bool = False,
    log_odds: float | None = None,
) -> tuple[Floats, Floats]:
    """Fit all leaves in threads; return the mean leave-one-out residuals, and variances of the first member.

    Without classes, each of several leaves has scales of its own. Two classes have `log_odds`, which are subtracted
    from all logits. Residuals and variances of rows that no leaf was trained on are NaN.
    """
    sizes = (MAX_EXACT_CLASS_ROWS, CLASS_LEAF_ROWS) if has_classes else (MAX_EXACT_ROWS, LEAF_ROWS)
    tasks: list[tuple[int, KernelMember, Leaf, Array]] = []
    for number, member in enumerate(members):
        rows = member.rows(X)
        member.tree = LeafTree(rows, *sizes, MARGIN)
        tasks += [(number, member, leaf, rows) for leaf in member.tree.leaves]
    tasks.sort(key=lambda task: -len(task[2].members))

    def fit(task: tuple[int, KernelMember, Leaf, Array]) -> tuple[Floats, Floats]:
        _, member, leaf, rows = task
        if not has_classes and len(member.tree.nodes) > 1:
            leaf.learn(member.shape, rows, Y, w, member.penalty)
        return leaf.fit(member.shape, rows, Y, w, member.penalty, log_odds)

    # A single leaf leaves all threads to BLAS.
    results = map(fit, tasks) if len(tasks) == 1 else in_threads(fit, tasks)
    residuals, variances = np.zeros_like(Y), np.empty(len(Y))
    for (number, _, leaf, _), (leaf_residuals, leaf_variances) in zip(
        tasks, track(results, "fitting leaves", len(tasks)), strict=True
    ):
        residuals[leaf.own] += leaf_residuals / len(members)
        if number == 0:
            variances[leaf.own] = leaf_variances
    return residuals, variances


def mean_prediction(members: Sequence[KernelMember], X: Array) -> Floats:
    """Return the mean of the members' predictions, shape (n_samples, n_outputs)."""
    return _mean_over_members(members, X, lambda member, leaf, rows, _: leaf.predict(member.shape, rows))


def mean_gradients(members: Sequence[KernelMember], X: Array) -> Floats:
    """Return the mean of the members' gradients, shape (n_samples, n_features, n_outputs)."""

    def differentiate(member: KernelMember, leaf: Leaf, rows: Array, numbers: Indices) -> Floats:
        gradients = leaf.gradients(member.shape, rows.astype(np.float64))
        matrix = member.scales if member.scales.ndim == 2 else np.diag(member.scales)
        slopes = member.scaling.slopes(X[numbers])
        return np.asarray(np.einsum("ij,jk,iko->ijo", slopes, matrix, gradients, optimize=True))

    return _mean_over_members(members, X, differentiate)


def predictive_variance(member: KernelMember, X: Array) -> Floats:
    """Return predictive variances of a member, relative to the variance of its kernel."""

    def vary(member: KernelMember, leaf: Leaf, rows: Array, _: Indices) -> Floats:
        return leaf.variance(member.shape, rows, member.penalty)

    return _mean_over_members([member], X, vary, block_rows=len(X))  # each leaf is factorized once


def _mean_over_members(
    members: Sequence[KernelMember],
    X: Array,
    compute: Callable[[KernelMember, Leaf, Array, Indices], Floats],
    block_rows: int = BLOCK_ROWS,
) -> Floats:
    """Return the mean over the members of a function of the rows in each leaf, computed in threads."""
    tasks = []
    for member in members:
        rows = member.rows(X)
        for leaf, inside in member.tree.route(rows):
            tasks += [(member, leaf, rows, inside[span]) for span in row_spans(len(inside), block_rows)]

    def work(task: tuple[KernelMember, Leaf, Array, Indices]) -> Floats:
        member, leaf, rows, numbers = task
        return compute(member, leaf, rows[numbers], numbers)

    total: Floats | None = None
    for (_, _, _, numbers), values in zip(tasks, in_threads(work, tasks), strict=True):
        if total is None:
            total = np.zeros((len(X), *values.shape[1:]))
        total[numbers] += values / len(members)
    assert total is not None
    return total
