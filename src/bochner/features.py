# SPDX-License-Identifier: BSD-3-Clause
"""The map from rows to weighted Fourier features: nothing random, nothing fitted."""

from typing import Any

import numpy as np

from bochner.blocks import Array, is_sparse, row_blocks

__all__ = ["fourier_map"]


def fourier_map(X: Any, frequencies: Array, weights: Array) -> Array:
    r"""Columns :math:`\sqrt{\beta_m} \cos(w_m \cdot x)`, then :math:`\sqrt{\beta_m} \sin(w_m \cdot x)`.

    The inner product of two mapped rows is :math:`\sum_m \beta_m \cos(w_m \cdot (x - y))`.

    Parameters
    ----------
    X : {ndarray, CSR matrix} of shape (n_samples, n_features)
        Rows, of the frequencies' dtype.
    frequencies : ndarray of shape (n_frequencies, n_features)
        One frequency a row.
    weights : ndarray of shape (n_frequencies,)
        Non-negative weights.

    Returns
    -------
    ndarray of shape (n_samples, 2 * n_frequencies)
        The features, in the frequencies' dtype.

    Examples
    --------
    >>> import numpy as np
    >>> from bochner.features import fourier_map
    >>> fourier_map(np.array([[np.pi]]), np.array([[1.0]]), np.array([4.0])).round(6)
    array([[-2.,  0.]])
    """
    n_frequencies = len(frequencies)
    features = np.empty((X.shape[0], 2 * n_frequencies), dtype=frequencies.dtype)
    amplitudes = np.tile(np.sqrt(weights), 2)
    for rows in row_blocks(X.shape[0], frequencies.itemsize * n_frequencies):
        block = features[rows]
        phases, sines = block[:, :n_frequencies], block[:, n_frequencies:]
        # The phases are computed where the cosines will stand: no other memory is needed.
        if is_sparse(X):
            phases[...] = X[rows] @ frequencies.T
        else:
            np.matmul(X[rows], frequencies.T, out=phases)
        np.sin(phases, out=sines)
        np.cos(phases, out=phases)
        block *= amplitudes
    return features
