# SPDX-License-Identifier: BSD-3-Clause
r"""Gradient outer products of linear models on features: along which directions a model changes.

The average gradient outer product of functions f is :math:`G = \frac{1}{n} \sum_i \sum_f \nabla f(x_i) \nabla
f(x_i)^T`. Directions with large eigenvalues matter most to the model; a direction that no f depends on has none.
"""

from typing import Any

import numpy as np
from scipy import linalg

from bochner.feature_maps import FeatureMap
from bochner.rows import Floats, sum_over_spans

__all__ = ["gradient_factor", "gradient_outer_product"]

BLOCK_ROWS = 256


def gradient_factor(frequencies: Floats, coef: Floats, gram: Floats) -> Floats:
    r"""Return L with :math:`L^T L = G` for linear functions of Fourier features, without reading rows.

    The gradient of :math:`f(x) = a^T \cos(W x) + b^T \sin(W x)` is :math:`W^T (b * \cos - a * \sin)`, a linear function
    of the features. So G follows from their second moments: :math:`G = W^T H W`, where H is the sum over functions of
    :math:`T S T^T` with :math:`T = [\mathrm{diag}(b), -\mathrm{diag}(a)]`.

    Parameters
    ----------
    frequencies : ndarray of shape (n_frequencies, n_features)
        Frequencies W.
    coef : ndarray of shape (2 * n_frequencies, n_functions)
        Coefficients a of the cosines, above the coefficients b of the sines.
    gram : ndarray of shape (2 * n_frequencies, 2 * n_frequencies)
        Mean outer products S of the features.

    Returns
    -------
    ndarray of shape (n_frequencies, n_features)
        The factor L.

    Examples
    --------
    >>> import numpy as np
    >>> from bochner.scaling.gradients import gradient_factor
    >>> coef, gram = np.array([[0.0], [1.0]]), np.diag([0.5, 0.5])  # f(x) = sin(3 x), cosines have the mean square 1/2
    >>> factor = gradient_factor(np.array([[3.0]]), coef, gram)
    >>> (factor.T @ factor).round(6)
    array([[4.5]])
    """
    m = len(frequencies)
    a, b = coef[:m], coef[m:]
    crossed = (b @ a.T) * gram[:m, m:]
    inner = (b @ b.T) * gram[:m, :m] - crossed - crossed.T + (a @ a.T) * gram[m:, m:]
    values, vectors = linalg.eigh(inner, driver="evd", check_finite=False)
    return np.sqrt(np.maximum(values, 0.0))[:, None] * (vectors.T @ frequencies)


def gradient_outer_product(feature_map: FeatureMap, X: Any, coef: Floats, weights: Floats | None = None) -> Floats:
    """Return the average gradient outer product G of linear functions of any features with gradients.

    Parameters
    ----------
    feature_map : FeatureMap
        The map to features.
    X : {ndarray, CSR matrix} of shape (n_samples, n_features)
        Rows to average over.
    coef : ndarray of shape (width, n_functions)
        Coefficients of the functions.
    weights : ndarray of shape (n_samples,), default=None
        Sample weights; None means 1 for every row.

    Returns
    -------
    ndarray of shape (n_features, n_features)
        The matrix G.

    Examples
    --------
    >>> import numpy as np
    >>> from bochner.feature_maps import FourierMap
    >>> from bochner.scaling.gradients import gradient_outer_product
    >>> sine = FourierMap(np.array([[3.0]]), np.ones(1)), np.array([[0.0], [1.0]])  # f(x) = sin(3 x)
    >>> gradient_outer_product(sine[0], np.array([[0.0]]), sine[1])  # f'(0) = 3
    array([[9.]])
    """
    counts = np.ones(X.shape[0]) if weights is None else weights

    def part(span: slice) -> Floats:
        gradients = feature_map.gradients(X[span], coef) * np.sqrt(counts[span])[:, None, None]
        flat = np.moveaxis(gradients, 1, 2).reshape(-1, X.shape[1])
        return flat.T @ flat

    return np.asarray(sum_over_spans(part, X.shape[0], BLOCK_ROWS) / counts.sum())
