# SPDX-License-Identifier: BSD-3-Clause
"""The compiled map from rows to weighted Fourier features."""

from typing import Any

import numpy as np

from bochner.feature_maps.elementary import sincos_rows
from bochner.feature_maps.feature_map import FeatureMap, map_rows
from bochner.feature_maps.hadamard import HadamardFrequencies
from bochner.rows import Array, Floats, Scaling, Unscaled, is_sparse
from bochner.rows.block_sizes import SMALL_MATRIX

__all__ = ["FourierMap", "fourier_map"]

QUARTER_TURNS = 2.0 / np.pi  # quarter turns per radian
UNSCALED = Unscaled()
PHASE_BYTES = 1 << 19  # the phases of a block stay in the second-level cache


class FourierMap(FeatureMap):
    r"""The map to :math:`\sqrt{\beta_m} \cos(w_m \cdot x)`, then :math:`\sqrt{\beta_m} \sin(w_m \cdot x)`.

    One matrix product gives the phases of a block of rows, in quarter turns; one compiled pass writes their cosines and
    sines where they belong.

    Parameters
    ----------
    frequencies : ndarray of shape (n_frequencies, n_features) or HadamardFrequencies
        One frequency per row.
    weights : ndarray of shape (n_frequencies,)
        Non-negative weights.
    scaling : Scaling, default=Unscaled()
        The map that the frequencies contain, with whose length scales `check` compares rows.
    """

    def __init__(self, frequencies: Array | HadamardFrequencies, weights: Array, scaling: Scaling = UNSCALED) -> None:
        self._structured = None if isinstance(frequencies, np.ndarray) or not frequencies.is_fast else frequencies
        turns = np.asarray(frequencies, dtype=np.float64) * QUARTER_TURNS
        self._turns = np.ascontiguousarray(turns.T, dtype=frequencies.dtype)
        self._amplitudes = np.sqrt(weights)
        self._scaling = scaling
        self.dtype = self._turns.dtype
        self.n_columns = 2 * self._turns.shape[1]
        self.block_rows = max(16, PHASE_BYTES // self._turns[:1].nbytes)
        self.small_rows = max(1, SMALL_MATRIX // self._turns.size)

    def check(self, X: Any) -> None:
        """Raise a ValueError for NaN, infinity, and values too large for the length scale and the dtype."""
        self._scaling.check(X, "FourierFeatures")

    def gradients(self, X: Any, coef: Floats) -> Floats:
        features = self.features(X).astype(np.float64)
        m = self.n_columns // 2
        # The derivatives with respect to the phases, of shape (n_rows, n_frequencies, n_functions).
        slopes = features[:, :m, None] * coef[m:] - features[:, m:, None] * coef[:m]
        frequencies = self._turns.astype(np.float64) / QUARTER_TURNS
        return np.asarray(np.einsum("jm,nmk->njk", frequencies, slopes, optimize=True))

    def write_block(self, block: Any, out: Array) -> None:
        turns = np.empty((block.shape[0], self._turns.shape[1]), dtype=self.dtype)
        if is_sparse(block):
            turns[...] = block @ self._turns
        elif self._structured is not None:
            self._structured.multiply(block, QUARTER_TURNS, turns)
        else:
            np.matmul(block, self._turns, out=turns)
        sincos_rows(turns, self._amplitudes, out)


def fourier_map(X: Any, frequencies: Array | HadamardFrequencies, weights: Array, out: Array | None = None) -> Array:
    r"""Map rows to Fourier features whose inner products are :math:`\sum_m \beta_m \cos(w_m \cdot (x - y))`.

    Parameters
    ----------
    X : {ndarray, CSR matrix} of shape (n_samples, n_features)
        Rows, of the frequencies' dtype.
    frequencies : ndarray of shape (n_frequencies, n_features) or HadamardFrequencies
        One frequency per row.
    weights : ndarray of shape (n_frequencies,)
        Non-negative weights.
    out : ndarray of shape (n_samples, 2 * n_frequencies), default=None
        Where to write; see `map_rows`.

    Returns
    -------
    ndarray of shape (n_samples, 2 * n_frequencies)
        The features, in the frequencies' dtype.

    Examples
    --------
    >>> import numpy as np
    >>> from bochner.feature_maps import fourier_map
    >>> fourier_map(np.array([[np.pi]]), np.array([[1.0]]), np.array([4.0])).round(6) + 0.0
    array([[-2.,  0.]])
    """
    return map_rows(FourierMap(frequencies, weights), X, out)
