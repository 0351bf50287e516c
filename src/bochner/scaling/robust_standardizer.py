# SPDX-License-Identifier: BSD-3-Clause
"""`RobustStandardizer`, the scikit-learn transformer: robust scales of columns, soft clipping of outlying values."""

from numbers import Real
from typing import Any, ClassVar, Self

import numpy as np
from scipy.special import ndtri
from sklearn.base import OneToOneFeatureMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from bochner.parameters import Parametrized
from bochner.rows import Array, Floats, row_spans
from bochner.validation import Interval, fit_context, validate_numbers

__all__ = ["RobustStandardizer", "robust_moments", "soft_clip", "standardize"]

QUARTILE = float(ndtri(0.75))  # of the normal distribution, whose standard deviation is the unit of the scales
SMALLEST_LIMIT = 1e-50  # of clipped values: squares of LARGEST / SMALLEST_LIMIT do not overflow
LARGEST = 1e100  # standardized values beyond are as good as infinite; their squares do not overflow
BLOCK_ROWS = 1 << 14


def soft_clip(Z: Array, limit: float) -> Array:
    r"""Return :math:`z / \sqrt{1 + (z / c)^2}`, which is close to z near 0 and stays between -c and c.

    Parameters
    ----------
    Z : ndarray
        Numbers.
    limit : float
        The bound c; infinity returns the numbers as they are.

    Returns
    -------
    ndarray
        The clipped numbers, in the same order as Z.

    Examples
    --------
    >>> import numpy as np
    >>> from bochner.scaling.robust_standardizer import soft_clip
    >>> soft_clip(np.array([0.0, 0.5, 3.0, 1e9]), 3.0).round(2)
    array([0.  , 0.49, 2.12, 3.  ])
    """
    Z = np.clip(Z, -LARGEST, LARGEST)
    return np.asarray(Z / np.sqrt(1.0 + np.square(Z / limit)))


def robust_moments(X: Array) -> tuple[Floats, Floats]:
    """Return a center and a scale per column that a few outlying rows do not change.

    The center is the median. The scale is the interquartile range, divided by that of the standard normal distribution.
    If at least half of the values of a column are equal, its quartiles may be equal too. Its scale is then the median
    distance from the center of the values that differ from it: an indicator of a rare category has scale 1. A constant
    column has scale 1.

    Parameters
    ----------
    X : ndarray of shape (n_samples, n_features)
        Rows.

    Returns
    -------
    center : ndarray of shape (n_features,)
        The centers, in float64.
    scale : ndarray of shape (n_features,)
        The scales, in float64.

    Examples
    --------
    >>> import numpy as np
    >>> from bochner.scaling.robust_standardizer import robust_moments
    >>> center, scale = robust_moments(np.array([[1.0, 0.0], [2.0, 0.0], [3.0, 0.0], [4.0, 0.0], [1e6, 1.0]]))
    >>> center, scale.round(2)
    (array([3., 0.]), array([1.48, 1.  ]))
    """
    X = np.asarray(X, dtype=np.float64)
    low, center, high = np.quantile(X, [0.25, 0.5, 0.75], axis=0)
    scale = high / (2.0 * QUARTILE) - low / (2.0 * QUARTILE)  # the difference may overflow
    for column in np.flatnonzero(scale <= 0.0):
        distances = np.abs(X[:, column] - center[column])
        distances = distances[distances > 0.0]
        # A sum of two may overflow, and half of the smallest number is 0.
        scale[column] = (2.0 * np.median(distances / 2.0) or distances.max()) if len(distances) else 1.0
    return center, scale


def standardize(X: Array, center: Array, scale: Array) -> Floats:
    """Return (X - center) / scale in float64; values that overflow become infinite, which `soft_clip` accepts.

    Parameters
    ----------
    X : ndarray of shape (n_samples, n_features)
        Rows.
    center, scale : ndarray of shape (n_features,)
        What is subtracted, and what is then divided by.

    Returns
    -------
    ndarray of shape (n_samples, n_features)
        The standardized rows.

    Examples
    --------
    >>> import numpy as np
    >>> from bochner.scaling.robust_standardizer import standardize
    >>> standardize(np.array([[3.0], [5.0]]), np.array([3.0]), np.array([2.0])).ravel()
    array([0., 1.])
    """
    with np.errstate(over="ignore"):
        return np.asarray((X.astype(np.float64) - center) / scale)


class RobustStandardizer(OneToOneFeatureMixin, TransformerMixin, Parametrized):
    r"""Standardize columns by quartiles, and pull outlying values towards the others.

    A value x of a column becomes :math:`z / \sqrt{1 + (z / c)^2}`, where z is x minus the median, divided by the
    interquartile range in units of the standard normal distribution, and c is `limit`. Values near the median are
    standardized, and no value exceeds c. This is the formula of skrub's `SquashingScaler`; the scales differ where
    quartiles are equal.

    Features of a kernel extrapolate badly to rows far from all others. With `StandardScaler`, a few such rows can
    dominate the error of a model and what is learned from the targets.

    Parameters
    ----------
    limit : float, default=3.0
        Bound of the standardized values. Infinity does not clip them.

    Attributes
    ----------
    center_ : ndarray of shape (n_features,)
        The median of each column.
    scale_ : ndarray of shape (n_features,)
        The scale of each column. If its quartiles are equal, it is the median distance from `center_` of the values
        that differ from it, so that indicators 0 and 1 keep their scale; 1 for a constant column.
    n_features_in_ : int
        Number of columns.
    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        Names of the columns, if X has names that are all strings.

    See Also
    --------
    sklearn.preprocessing.StandardScaler : Scale by mean and standard deviation; accepts sparse matrices.
    sklearn.preprocessing.RobustScaler : Scale by median and interquartile range, without clipping.

    References
    ----------
    Holzmueller, Grinsztajn and Steinwart, "Better by default: strong pre-tuned MLPs and boosted trees on tabular data",
    NeurIPS 2024: smooth clipping of robustly scaled columns.

    Examples
    --------
    >>> import numpy as np
    >>> from bochner import RobustStandardizer
    >>> X = np.array([[1.0, 0.0], [2.0, 0.0], [3.0, 0.0], [4.0, 0.0], [1e6, 1.0]])
    >>> RobustStandardizer().fit_transform(X).round(2)
    array([[-1.23,  0.  ],
           [-0.66,  0.  ],
           [ 0.  ,  0.  ],
           [ 0.66,  0.  ],
           [ 3.  ,  0.95]])
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "limit": [Interval(Real, SMALLEST_LIMIT, None, closed="both")]
    }

    center_: Floats
    scale_: Floats

    def __init__(self, limit: float = 3.0) -> None:
        self.limit = limit

    @fit_context
    def fit(self, X: Any, y: Any = None) -> Self:
        """Compute centers and scales.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Training rows.
        y : None
            Ignored.

        Returns
        -------
        self
            The fitted transformer.
        """
        X = validate_numbers(self, X, dtype=[np.float64, np.float32])
        self.center_, self.scale_ = robust_moments(X)
        return self

    def transform(self, X: Any) -> Any:
        """Standardize and clip values.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows.

        Returns
        -------
        ndarray of shape (n_samples, n_features)
            The transformed rows; float32 for float32 rows.
        """
        check_is_fitted(self)
        X = validate_numbers(self, X, dtype=[np.float64, np.float32], reset=False)
        transformed = np.empty(X.shape, dtype=X.dtype)
        for rows in row_spans(len(X), BLOCK_ROWS):
            transformed[rows] = soft_clip(standardize(X[rows], self.center_, self.scale_), self.limit)
        return transformed

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags
