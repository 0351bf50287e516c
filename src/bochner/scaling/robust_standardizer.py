# SPDX-License-Identifier: BSD-3-Clause
"""`RobustStandardizer`, the scikit-learn transformer: robust scales of columns, and soft clipping of outlying rows."""

from dataclasses import dataclass
from numbers import Real
from typing import Any, ClassVar, Self

import numpy as np
from scipy.special import ndtri
from sklearn.base import OneToOneFeatureMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from bochner.parameters import Parametrized
from bochner.rows import SMALL_VECTOR, Array, Floats, for_each_span, row_spans, serial_blas
from bochner.validation import Interval, fit_context, validate_numbers

__all__ = ["RobustStandardizer", "SoftClipping", "robust_moments", "soft_clip", "standardize"]

QUARTILE = float(ndtri(0.75))  # of the normal distribution, whose standard deviation is the unit of the scales
ROWS_PER_AXIS = 10  # with fewer rows per column, the principal axes fit the sampled rows and not new ones
SMALLEST_WIDTH = 1e-6  # axes with a smaller share of the largest width are rounding errors
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
    clipped: Array = Z / np.sqrt(1.0 + np.square(Z / limit))
    return clipped


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
        standardized: Floats = (X.astype(np.float64) - center) / scale
    return standardized


@dataclass(frozen=True)
class SoftClipping:
    """Soft clipping of robustly scaled rows, per column and along the principal axes of the clipped columns.

    Columns may be closely related, such as the length and the width of things. Then each value of a row can be usual
    and the row still be far from all others. Such a row is outlying along a principal axis of small width.

    Parameters
    ----------
    limit, joint_limit : float
        Bounds of the values of columns, and of the root mean square of the coordinates of a row along the principal
        axes, as multiples of their widths.
    columns : ndarray of shape (n_joint,)
        Indices of the columns that have principal axes; empty if rows are clipped per column only.
    axes : ndarray of shape (n_joint, n_joint)
        The principal axes, one per column of the array.
    center, width : ndarray of shape (n_joint,)
        Center and scale of the coordinates along the axes, as computed by `robust_moments`.

    Examples
    --------
    >>> import numpy as np
    >>> from bochner.scaling.robust_standardizer import SoftClipping
    >>> x = np.random.default_rng(0).normal(size=1000)
    >>> clipping = SoftClipping.fit(np.column_stack([x, x]), limit=3.0, joint_limit=5.0)
    >>> rows = np.array([[1.0, 1.0], [1.0, -1.0]])  # the columns are equal in all other rows
    >>> np.abs(clipping.apply(rows)).round(2)
    array([[0.94, 0.94],
           [0.07, 0.07]])
    """

    limit: float
    joint_limit: float
    columns: Array
    axes: Array
    center: Array
    width: Array

    @classmethod
    @serial_blas
    def fit(cls, Z: Floats, limit: float, joint_limit: float) -> "SoftClipping":
        """Fit the principal axes to robustly scaled rows.

        Columns with equal quartiles have no part in the axes, because the values of a rare category are not outliers.
        There are no axes if there are too few rows per column.

        Parameters
        ----------
        Z : ndarray of shape (n_samples, n_features)
            Rows.
        limit, joint_limit : float
            The bounds.

        Returns
        -------
        SoftClipping
            The fitted clipping.
        """
        clipped = soft_clip(Z, limit)
        low, high = np.quantile(clipped, [0.25, 0.75], axis=0)
        columns = np.flatnonzero(high > low)
        if not len(columns) or len(Z) < ROWS_PER_AXIS * len(columns) or np.isinf(joint_limit):
            return cls(limit, joint_limit, np.empty(0, dtype=np.intp), np.empty((0, 0)), np.empty(0), np.empty(0))
        clipped = clipped[:, columns]
        axes = np.linalg.eigh(np.atleast_2d(np.cov(clipped, rowvar=False)))[1]
        center, width = robust_moments(clipped @ axes)
        return cls(limit, joint_limit, columns, axes, center, np.maximum(width, SMALLEST_WIDTH * width.max()))

    def apply(self, Z: Floats) -> Floats:
        """Clip robustly scaled rows.

        Parameters
        ----------
        Z : ndarray of shape (n_samples, n_features)
            Rows.

        Returns
        -------
        ndarray of shape (n_samples, n_features)
            The clipped rows.
        """
        clipped: Floats = soft_clip(Z, self.limit)
        if len(self.columns):
            coordinates = (clipped[:, self.columns] @ self.axes - self.center) / self.width
            # One factor per row: a row that is outlying along one axis tells little about the other axes too.
            norm = np.sqrt(np.square(coordinates).mean(axis=1, keepdims=True))
            coordinates /= np.sqrt(1.0 + np.square(norm / self.joint_limit))
            clipped[:, self.columns] = (self.center + self.width * coordinates) @ self.axes.T
        return clipped


class RobustStandardizer(OneToOneFeatureMixin, TransformerMixin, Parametrized):
    r"""Standardize columns by quartiles, and pull outlying rows towards the others.

    A value x of a column becomes :math:`z / \sqrt{1 + (z / c)^2}`, where z is x minus the median, divided by the
    interquartile range in units of the standard normal distribution, and c is `limit`. Values near the median are
    standardized, and no value exceeds c. Then each row is clipped in the same way along the principal axes of the
    clipped columns: its coordinates, in units of the widths of the axes, are divided by :math:`\sqrt{1 + (r / c)^2}`,
    where r is their root mean square and c is `joint_limit`. A row whose values contradict each other moves to the
    center.

    Features of a kernel extrapolate badly to rows far from all others. With `StandardScaler`, a few such rows can
    dominate the error of a model and what is learned from the targets.

    Parameters
    ----------
    limit : float, default=3.0
        Bound of the standardized values of a column. Infinity does not clip columns.
    joint_limit : float, default=5.0
        Bound of the root mean square of the coordinates of a row along the principal axes, in units of their widths.
        Infinity clips columns only; so does a number of rows below ten times the number of columns.

    Attributes
    ----------
    center_ : ndarray of shape (n_features,)
        The median of each column.
    scale_ : ndarray of shape (n_features,)
        The scale of each column. If its quartiles are equal, it is the median distance from `center_` of the values
        that differ from it, so that indicators 0 and 1 keep their scale; 1 for a constant column.
    clipping_ : SoftClipping
        The limits and the principal axes. Columns with equal quartiles have no part in the axes.
    n_features_in_ : int
        Number of columns.
    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        Names of the columns, if X has names that are all strings.

    See Also
    --------
    sklearn.preprocessing.StandardScaler : Scale by mean and standard deviation; accepts sparse matrices.
    sklearn.preprocessing.RobustScaler : Scale by median and interquartile range, without clipping.

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
        "limit": [Interval(Real, SMALLEST_LIMIT, None, closed="both")],
        "joint_limit": [Interval(Real, SMALLEST_LIMIT, None, closed="both")],
    }

    center_: Floats
    scale_: Floats
    clipping_: SoftClipping

    def __init__(self, limit: float = 3.0, joint_limit: float = 5.0) -> None:
        self.limit = limit
        self.joint_limit = joint_limit

    @fit_context
    def fit(self, X: Any, y: Any = None) -> Self:
        """Compute centers, scales and principal axes.

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
        self.clipping_ = SoftClipping.fit(standardize(X, self.center_, self.scale_), self.limit, self.joint_limit)
        return self

    def transform(self, X: Any) -> Any:
        """Standardize and clip rows.

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

        def work(span: slice) -> None:
            for rows in row_spans(span.stop - span.start, BLOCK_ROWS):
                standardized = standardize(X[span][rows], self.center_, self.scale_)
                transformed[span][rows] = self.clipping_.apply(standardized)

        for_each_span(work, len(X), BLOCK_ROWS, SMALL_VECTOR // max(1, self.clipping_.axes.size))
        return transformed

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags
