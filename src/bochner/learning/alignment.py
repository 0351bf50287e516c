# SPDX-License-Identifier: BSD-3-Clause
r"""Weights of frequencies that align the kernel with the targets.

The alignment of the kernel :math:`\sum_m \beta_m \cos(w_m \cdot (x - x'))` with targets y is its inner product with
:math:`y y^T` over all pairs of rows. It is linear in the weights: each frequency contributes
:math:`\beta_m |\sum_i y_i e^{i w_m \cdot x_i}|^2`.
"""

import numpy as np

from bochner.feature_maps import fourier_map
from bochner.learning.length_scales import LabeledRows
from bochner.rows import Floats, sum_over_spans

__all__ = ["alignments", "maximize_alignment"]

SPAN_ROWS = 512


def alignments(frequencies: Floats, rows: LabeledRows) -> Floats:
    r"""Return the alignment of the cosine of each frequency with the targets.

    .. math:: v_m = \sum_t \Big(\sum_i s_i y_{it} \cos(w_m \cdot x_i)\Big)^2
        + \Big(\sum_i s_i y_{it} \sin(w_m \cdot x_i)\Big)^2

    with sample weights :math:`s_i` and one sum per target t.

    Parameters
    ----------
    frequencies : ndarray of shape (n_frequencies, n_features)
        Frequencies, in the units of the rows.
    rows : LabeledRows
        Rows with standardized targets.

    Returns
    -------
    ndarray of shape (n_frequencies,)
        Non-negative alignments; all are 0 if there are no targets.

    Examples
    --------
    >>> import numpy as np
    >>> from bochner.learning.alignment import alignments
    >>> from bochner.learning.length_scales import LabeledRows
    >>> rows = LabeledRows(np.array([[0.0], [np.pi]]), np.array([[1.0], [-1.0]]))
    >>> alignments(np.array([[1.0], [2.0]]), rows).round(6)
    array([4., 0.])
    """
    n_frequencies = len(frequencies)
    targets = rows.targets if rows.weights is None else rows.targets * rows.weights[:, None]

    def part(span: slice) -> Floats:
        features = fourier_map(rows.X[span], frequencies, np.ones(n_frequencies))
        return np.asarray(features.T @ targets[span])

    squares = np.square(sum_over_spans(part, len(targets), SPAN_ROWS)).sum(axis=1)
    return np.asarray(squares[:n_frequencies] + squares[n_frequencies:])


def maximize_alignment(values: Floats, rho: float) -> Floats:
    r"""Return the maximizer of :math:`v \cdot \beta` over weights close to uniform ones.

    .. math:: \max_\beta \; \sum_m \beta_m v_m \quad \text{with} \quad \beta \ge 0, \; \sum_m \beta_m = 1, \;
        \frac1M \sum_m (M \beta_m - 1)^2 \le \rho

    If the largest values satisfy the bound with equal weights, these are the solution. Otherwise the bound is active,
    and the conditions of optimality give :math:`\beta \propto (v - \tau)_+` with a threshold :math:`\tau`. The
    divergence rises with :math:`\tau`, so that comparing it with :math:`\rho` at the sorted values finds the number k
    of positive weights. With the mean :math:`\mu` and the standard deviation :math:`\sigma` of the k largest values,

    .. math:: \beta_m = \frac1k \Big(1 + \frac{v_m - \mu}{\sigma} \sqrt{k (1 + \rho) / M - 1}\Big).

    Parameters
    ----------
    values : ndarray of shape (n_frequencies,)
        The values v.
    rho : float
        The largest chi-square divergence from uniform weights. 0 gives uniform weights, and ``n_frequencies - 1`` or
        more allows a single positive weight.

    Returns
    -------
    ndarray of shape (n_frequencies,)
        Non-negative weights that sum to 1.

    Examples
    --------
    >>> import numpy as np
    >>> from bochner.learning.alignment import maximize_alignment
    >>> maximize_alignment(np.array([0.0, 1.0, 2.0, 3.0]), 0.2)
    array([0.1, 0.2, 0.3, 0.4])
    """
    n, gaps = len(values), values.max() - values
    n_largest = np.count_nonzero(gaps == 0.0)
    if n <= n_largest * (1.0 + rho):
        return np.asarray((gaps == 0.0) / n_largest)
    gaps /= gaps.max()
    ordered = np.sort(gaps)
    support = ordered[: _support_size(ordered, rho)]
    radius = np.sqrt(max(len(support) * (1.0 + rho) / n - 1.0, 0.0))  # rounding can make a zero negative
    weights = np.maximum(1.0 + radius / support.std() * (support.mean() - gaps), 0.0)
    return np.asarray(weights / weights.sum())


def _support_size(gaps: Floats, rho: float) -> int:
    """Return how many weights are positive, given ascending gaps to the largest value, of which some are positive.

    Bisection finds the smallest gap at which a threshold gives weights with a divergence of at most rho. Only the
    values above this threshold have positive weights. At least one of them has a positive gap.
    """
    low, high = int(np.count_nonzero(gaps == 0.0)) + 1, len(gaps)
    while low < high:
        middle = (low + high) // 2
        weights = gaps[middle] - gaps[:middle]
        if len(gaps) * np.square(weights).sum() <= (1.0 + rho) * weights.sum() ** 2:
            high = middle
        else:
            low = middle + 1
    return high
