# SPDX-License-Identifier: BSD-3-Clause
"""Length scales from data: the unit of distance that a kernel's shape is measured in."""

from collections.abc import Callable
from typing import Any

import numpy as np

from bochner.blocks import ScaledRows, is_sparse, max_abs, pair_differences, row_blocks, sample_pairs

__all__ = ["LENGTH_SCALES", "entry_scale", "median_distance"]

N_PAIRS = 20_000  # the median of so many distances is known to about one percent


def median_distance(X: Any, rng: np.random.Generator) -> float:
    """Median Euclidean distance of sampled pairs of different rows.

    When most rows are equal the median of the positive distances is taken, and 1 when all rows are equal: a length
    scale is never zero.

    Examples
    --------
    >>> import numpy as np
    >>> from bochner.length_scales import median_distance
    >>> median_distance(np.array([[0.0], [1.0], [3.0]]), np.random.default_rng(0))
    2.0
    """
    top = float(max_abs(X).max())
    if top == 0.0:
        return 1.0
    first, second = sample_pairs(X.shape[0], N_PAIRS, rng)
    distances = np.empty(len(first))
    # In units of the largest entry the squares neither overflow nor vanish.
    for pairs, differences in pair_differences(ScaledRows(X, top), first, second):
        distances[pairs] = np.linalg.norm(differences, axis=1)
    positive = distances[distances > 0.0]
    if not len(positive):
        return 1.0
    median = float(np.median(distances))
    return top * (median if median > 0.0 else float(np.median(positive)))


def entry_scale(X: Any, rng: np.random.Generator) -> float:
    """sqrt(n_features * X.var() / 2), which is scikit-learn's ``gamma="scale"``; 1 when X is constant.

    Examples
    --------
    >>> import numpy as np
    >>> from bochner.length_scales import entry_scale
    >>> entry_scale(np.array([[0.0, 2.0], [0.0, 2.0]]), np.random.default_rng(0))
    1.0
    """
    del rng  # every entry counts
    top = float(max_abs(X).max())
    if top == 0.0:
        return 1.0
    values = X.data[:, None] if is_sparse(X) else X
    size = X.shape[0] * X.shape[1]
    blocks = list(row_blocks(values.shape[0], 8 * values.shape[1]))
    rows = ScaledRows(values, top)
    mean = sum(float(rows[block].sum()) for block in blocks) / size
    squares = sum(float(np.square(rows[block] - mean).sum()) for block in blocks)
    squares += (size - values.size) * mean**2  # the zeros that a sparse matrix does not store
    # Below the rounding of the mean a constant X would look like a varying one.
    variance = squares / size if squares > 1e-28 * size else 0.0
    return top * float(np.sqrt(X.shape[1] * variance / 2)) if variance > 0.0 else 1.0


LENGTH_SCALES: dict[str, Callable[[Any, np.random.Generator], float]] = {
    "median": median_distance,
    "scale": entry_scale,
}
