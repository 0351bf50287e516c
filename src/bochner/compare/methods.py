# SPDX-License-Identifier: BSD-3-Clause
"""What is compared: a function of the number of columns, the length scale and the seed for each transformer."""

from collections.abc import Callable
from functools import partial
from typing import Any, Self
from warnings import catch_warnings

from sklearn.cluster import KMeans
from sklearn.exceptions import ConvergenceWarning
from sklearn.kernel_approximation import Nystroem

from bochner.features.fourier_features import FourierFeatures
from bochner.features.landmark_features import LandmarkFeatures

__all__ = ["METHODS", "KMeansNystroem"]


class KMeansNystroem(Nystroem):
    """Nystroem with the centers of clusters as landmarks instead of sampled rows.

    Examples
    --------
    >>> import numpy as np
    >>> from bochner.compare import KMeansNystroem
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
            Training rows, at least one per column.
        y : None
            Ignored.

        Returns
        -------
        KMeansNystroem
            The fitted transformer.
        """
        clusters = KMeans(self.n_components, n_init=1, random_state=self.random_state)
        with catch_warnings(action="ignore", category=ConvergenceWarning):  # fewer distinct rows than clusters
            centers = clusters.fit(X).cluster_centers_
        super().fit(centers)
        return self


def _fourier(n_columns: int, length_scale: float, seed: int | None, *, pool: int = 1, **parameters: Any) -> Any:
    """Return Fourier features; more frequencies than one per pair of columns are compressed."""
    n_components = n_columns if pool > 1 else None
    sizes: dict[str, Any] = {"n_frequencies": pool * n_columns // 2, "n_components": n_components}
    return FourierFeatures(length_scale=length_scale, random_state=seed, **sizes, **parameters)


def _landmarks(n_columns: int, length_scale: float, seed: int | None, **parameters: Any) -> Any:
    """Return landmark features."""
    return LandmarkFeatures(length_scale=length_scale, n_landmarks=n_columns, random_state=seed, **parameters)


def _nystroem(kind: type[Nystroem], n_columns: int, length_scale: float, seed: int | None) -> Nystroem:
    """Return scikit-learn's features for the same Gaussian kernel."""
    return kind(gamma=float(f"{0.5 / length_scale**2:.6g}"), n_components=n_columns, random_state=seed)


METHODS: dict[str, Callable[[int, float, int | None], Any]] = {
    "plain Fourier": partial(_fourier, sampler="mc", weighting="uniform"),
    "stein": partial(_fourier, weighting="stein"),
    "refined stein": partial(_fourier, weighting="stein", refine=60),
    "matrix": partial(_fourier, pool=24, weighting="matrix"),
    "landmarks": partial(_landmarks, refine=0),
    "refined landmarks": _landmarks,
    "Nystroem": partial(_nystroem, Nystroem),
    "k-means Nystroem": partial(_nystroem, KMeansNystroem),
}
