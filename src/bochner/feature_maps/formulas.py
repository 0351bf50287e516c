# SPDX-License-Identifier: BSD-3-Clause
"""Fitted maps as formulas of named arrays, for torch modules.

The maps of the other modules are compiled for numpy arrays. A formula computes the same numbers by matrix products and
elementary functions of a namespace `xp`, torch or numpy. Estimators return a list of formulas, which are applied one
after the other.
"""

import math
from abc import ABC, abstractmethod
from typing import Any

import numpy as np
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.validation import check_is_fitted

from bochner.kernels import Cauchy, Gaussian, Laplacian, Matern, RationalQuadratic
from bochner.rows import Array, Floats, Metric, Scaling

__all__ = [
    *("Formula", "FourierFormula", "LandmarkFormula", "LinearFormula", "LogisticFormula", "ScalerFormula"),
    "formulas_of",
]

LARGEST_NU = 19.5  # of a Matern kernel; the powers of larger ones leave the range of float32


class Formula(ABC):
    """A fitted map: named numpy arrays, and a function of rows and of these arrays in numpy or torch.

    Attributes
    ----------
    arrays : dict of str to ndarray
        The fitted arrays.
    """

    arrays: dict[str, Array]

    @abstractmethod
    def __call__(self, X: Any, arrays: dict[str, Any], xp: Any) -> Any:
        """Return the map of rows.

        Parameters
        ----------
        X : array of shape (n_rows, n_features)
            Rows.
        arrays : dict of str to array
            Values for the names of `arrays`, of the library, dtype and device of X.
        xp : module
            The library, numpy or torch.
        """


def formulas_of(estimator: Any) -> list[Formula]:
    """Return the formulas of a fitted estimator, to be applied one after the other.

    Parameters
    ----------
    estimator : estimator
        Features or a linear model of bochner, a `StandardScaler`, or a pipeline of these.

    Returns
    -------
    list of Formula
        The formulas.

    Examples
    --------
    >>> import numpy as np
    >>> from bochner import FourierFeatures
    >>> from bochner.feature_maps.formulas import formulas_of
    >>> X = np.random.default_rng(0).normal(size=(100, 3))
    >>> (formula,) = formulas_of(FourierFeatures(random_state=0).fit(X))
    >>> sorted(formula.arrays)
    ['amplitudes', 'frequencies', 'length_scales']
    """
    if isinstance(estimator, Pipeline):
        steps = [step for _, step in estimator.steps if step not in (None, "passthrough")]
        return [formula for step in steps for formula in formulas_of(step)]
    if isinstance(estimator, StandardScaler):
        check_is_fitted(estimator)
        return [ScalerFormula(estimator.mean_ if estimator.with_mean else None, estimator.scale_)]
    if not hasattr(estimator, "_formulas"):
        raise ValueError(
            f"{type(estimator).__name__} has no formula for torch; use FourierFeatures, LandmarkFeatures, a linear "
            f"model of bochner on them, or a pipeline of StandardScaler and these."
        )
    check_is_fitted(estimator)
    formulas: list[Formula] = estimator._formulas()
    return formulas


class FourierFormula(Formula):
    r"""The columns :math:`a_m \cos(w_m \cdot x / \ell)`, then :math:`a_m \sin(w_m \cdot x / \ell)`, times a matrix.

    Parameters
    ----------
    frequencies : ndarray of shape (n_frequencies, n_features)
        The fitted frequencies, which contain the length scale.
    weights : ndarray of shape (n_frequencies,)
        The fitted weights, whose square roots are the array `amplitudes`: trained weights remain non-negative.
    length_scale : float or ndarray of shape (n_features,), default=None
        The length scale. The array `frequencies` has unit length scale then. None means that the frequencies have
        absorbed a metric, and there are no length scales.
    matrix : ndarray of shape (2 * n_frequencies, n_columns), default=None
        The compression; None means that there is none.
    """

    def __init__(
        self,
        frequencies: Array,
        weights: Array,
        length_scale: float | Floats | None = None,
        matrix: Array | None = None,
    ) -> None:
        self.arrays = {"frequencies": frequencies, "amplitudes": np.sqrt(weights)}
        if length_scale is not None:
            scales = np.asarray(length_scale, dtype=frequencies.dtype)
            self.arrays |= {"frequencies": frequencies * scales, "length_scales": scales}
        if matrix is not None:
            self.arrays["matrix"] = matrix

    def __call__(self, X: Any, arrays: dict[str, Any], xp: Any) -> Any:
        rows = X / arrays["length_scales"] if "length_scales" in arrays else X
        phases = rows @ arrays["frequencies"].T
        columns = xp.concat((arrays["amplitudes"] * xp.cos(phases), arrays["amplitudes"] * xp.sin(phases)), axis=1)
        return columns @ arrays["matrix"] if "matrix" in arrays else columns


class LandmarkFormula(Formula):
    """Kernel values at landmarks, times the whitening matrix.

    Parameters
    ----------
    kernel : Kernel
        A kernel at unit length scale.
    landmarks : ndarray of shape (n_landmarks, n_features)
        The landmarks.
    scaling : Scaling
        The map of the rows.
    whitening : ndarray of shape (n_landmarks, n_columns)
        The matrix.
    """

    def __init__(self, kernel: Any, landmarks: Array, scaling: Scaling, whitening: Array) -> None:
        _check_kernel(kernel)
        self.kernel = kernel
        self.arrays = {"landmarks": landmarks, "whitening": whitening}
        if not isinstance(scaling, Metric):
            self.arrays["length_scales"] = np.asarray(scaling.length_scales, dtype=landmarks.dtype)
            return
        self.arrays["directions"] = scaling.directions.astype(landmarks.dtype)
        if scaling.diagonal is not None:
            self.arrays["diagonal"] = scaling.diagonal.astype(landmarks.dtype)

    def __call__(self, X: Any, arrays: dict[str, Any], xp: Any) -> Any:
        # Relative to the mean of the landmarks, squared distances lose no digits to a common offset.
        center = xp.mean(arrays["landmarks"], axis=0)
        rows, landmarks = (_coordinates(points - center, arrays, xp) for points in (X, arrays["landmarks"]))
        return _kernel_values(self.kernel, rows, landmarks, xp) @ arrays["whitening"]


class LinearFormula(Formula):
    """Scores of a linear model: features times coefficients, plus intercepts.

    Parameters
    ----------
    coef : ndarray of shape (width, n_columns)
        Coefficients.
    intercept : ndarray of shape (n_columns,)
        Intercepts.
    is_flat : bool
        Whether predictions have one axis, as those of a single target or of two classes.
    link : {"identity", "log"}, default="identity"
        The function of predictions that the scores are.
    """

    def __init__(self, coef: Floats, intercept: Floats, is_flat: bool, link: str = "identity") -> None:
        self.arrays = {"coef": coef, "intercept": intercept}
        self.is_flat = is_flat
        self.link = link

    def __call__(self, X: Any, arrays: dict[str, Any], xp: Any) -> Any:
        return X @ arrays["coef"] + arrays["intercept"]


class LogisticFormula(LinearFormula):
    """Scores of a logistic regression, which has probabilities too."""


class ScalerFormula(Formula):
    """The columns minus their means, divided by their scales, as scikit-learn's `StandardScaler` computes them.

    Parameters
    ----------
    mean : ndarray of shape (n_features,) or None
        The means; None means 0.
    scale : ndarray of shape (n_features,) or None
        The scales; None means 1.
    """

    def __init__(self, mean: Floats | None, scale: Floats | None) -> None:
        self.arrays = {name: values for name, values in (("mean", mean), ("scale", scale)) if values is not None}

    def __call__(self, X: Any, arrays: dict[str, Any], xp: Any) -> Any:
        X = X - arrays["mean"] if "mean" in arrays else X
        return X / arrays["scale"] if "scale" in arrays else X


def _check_kernel(kernel: Any) -> None:
    """Refuse kernels without a formula."""
    if type(kernel) in (Gaussian, RationalQuadratic, Laplacian, Cauchy):
        return
    if not isinstance(kernel, Matern):
        raise ValueError(
            f"The kernel {kernel!r} is a function of numpy arrays, which torch cannot compute; use a kernel of bochner."
        )
    if (kernel.nu - 0.5) % 1.0 or kernel.nu > LARGEST_NU:
        raise ValueError(
            f"Matern(nu={kernel.nu}) needs Bessel functions, which torch does not have; use nu=0.5, 1.5, 2.5, ... "
            f"up to {LARGEST_NU}, or FourierFeatures."
        )


def _coordinates(rows: Any, arrays: dict[str, Any], xp: Any) -> Any:
    """Return scaled rows."""
    if "length_scales" in arrays:
        return rows / arrays["length_scales"]
    along = rows @ arrays["directions"].T
    return xp.concat((rows * arrays["diagonal"], along), axis=1) if "diagonal" in arrays else along


def _kernel_values(kernel: Any, X: Any, Y: Any, xp: Any) -> Any:
    # One column at a time needs as much memory as the kernel values.
    differences = (X[:, j][:, None] - Y[:, j][None, :] for j in range(X.shape[1]))
    if isinstance(kernel, Laplacian):
        return xp.exp(-sum(xp.abs(difference) for difference in differences))
    if isinstance(kernel, Cauchy):
        return 1.0 / math.prod(1.0 + difference * difference for difference in differences)
    if isinstance(kernel, Matern) and kernel.nu == 0.5:
        # A kink at zero would turn the rounding error of a matrix product into the root of it.
        return _profile(kernel, sum(difference * difference for difference in differences), xp)
    squares = xp.sum(X * X, axis=1)[:, None] + xp.sum(Y * Y, axis=1)[None, :]
    return _profile(kernel, xp.maximum(squares - 2.0 * (X @ Y.T), xp.zeros_like(squares)), xp)


def _profile(kernel: Any, squared_distances: Any, xp: Any) -> Any:
    """Return a kernel as a function of the squared distance; see the classes in `bochner.kernels`."""
    if isinstance(kernel, Gaussian):
        return xp.exp(-0.5 * squared_distances)
    if isinstance(kernel, RationalQuadratic):
        return xp.exp(-kernel.alpha * xp.log1p(squared_distances / (2.0 * kernel.alpha)))
    # The root has no derivative at 0, where gradients shall be 0, as those of `Kernel.gradient_at`.
    apart = squared_distances > 0.0
    positive = xp.where(apart, 2.0 * kernel.nu * squared_distances, xp.ones_like(squared_distances))
    r = xp.where(apart, xp.sqrt(positive), xp.zeros_like(squared_distances))
    return _matern_polynomial(kernel.nu, r) * xp.exp(-r)


def _matern_polynomial(nu: float, r: Any) -> Any:
    r"""Return the factor of :math:`e^{-r}` in a Matern kernel with half-integer nu, by Horner's rule.

    With p = nu - 1/2 it is :math:`\sum_j \frac{p! (2p - j)!}{(2p)! (p - j)! j!} (2r)^j`.
    """
    p = round(nu - 0.5)
    factors = [math.comb(p, j) / math.perm(2 * p, j) * 2.0**j for j in range(p + 1)]
    total = factors[-1]
    for factor in reversed(factors[:-1]):
        total = total * r + factor
    return total
