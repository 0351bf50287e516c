# SPDX-License-Identifier: BSD-3-Clause
r"""Shift-invariant kernels and their spectral laws.

A kernel is a *shape*: k(0) = 1 at unit length scale. Bochner's theorem makes it the characteristic function of a law
of frequencies,

.. math:: k(x - y) = E_w \cos(w \cdot (x - y)),

and a kernel here knows both sides: its exact values, and how uniform numbers become frequencies of that law.

Two families cover the kernels in use. `IsotropicKernel`: a kernel that depends on the Euclidean distance in every
dimension is a mixture of Gaussians (Schoenberg), so an author writes `profile` and, unless it is Gaussian, `mixing`.
`ProductKernel`: one factor a column, so an author writes `factor` and `quantile`.
"""

from abc import ABC, abstractmethod
from numbers import Real
from typing import Any, ClassVar

import numpy as np
from scipy import special
from sklearn.base import BaseEstimator
from sklearn.metrics.pairwise import euclidean_distances, manhattan_distances

from bochner.rows import Floats, in_threads, is_sparse, row_blocks, row_spans, to_dense
from bochner.validation import Interval

__all__ = [
    "KERNELS",
    "Cauchy",
    "Exponential",
    "Gaussian",
    "IsotropicKernel",
    "Kernel",
    "Laplacian",
    "Matern",
    "ProductKernel",
    "RationalQuadratic",
    "kernel_matrix",
]

LARGEST_SCALE = 1e12  # a frequency beyond this is noise on any data; it must only stay finite


class Kernel(BaseEstimator, ABC):
    """A kernel shape with its spectral law; subclass `IsotropicKernel` or `ProductKernel`."""

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {}

    @abstractmethod
    def __call__(self, X: Any, Y: Any = None) -> Floats:
        """Exact kernel matrix k(x_i - y_j), shape (n_x, n_y), in float64; `Y=None` means `X`."""

    @abstractmethod
    def at(self, differences: Floats) -> Floats:
        """Exact k at the rows of `differences`, shape (n,)."""

    @abstractmethod
    def uniform_dim(self, n_features: int) -> int:
        """How many uniform numbers make one frequency."""

    @abstractmethod
    def frequencies(self, uniforms: Floats) -> Floats:
        """Frequencies (n, n_features) of the spectral law from uniforms (n, uniform_dim) inside (0, 1)."""

    @abstractmethod
    def log_embedding(self, frequencies: Floats, bandwidth: float) -> Floats:
        r"""log of :math:`\int e^{-|w - w_m|^2 / (2 s^2)} dP(w)` at the rows w_m of `frequencies`, s the bandwidth."""


class IsotropicKernel(Kernel):
    r"""A kernel of the Euclidean distance: a mixture of Gaussians, so that w = c z with z standard normal.

    Subclasses write `profile`; those other than the Gaussian set ``mixing_dim = 1`` and write `mixing`.
    """

    mixing_dim: ClassVar[int] = 0

    @abstractmethod
    def profile(self, squared_distances: Floats) -> Floats:
        """k as a function of the squared distance; may work in place."""

    def mixing(self, uniforms: Floats) -> Floats:
        """The scale c of a frequency from uniforms (n, mixing_dim), shape (n,)."""
        return np.ones(len(uniforms))

    @property
    def radial_dim(self) -> int:
        """How many uniform numbers make one radius."""
        return 1 + self.mixing_dim

    def __call__(self, X: Any, Y: Any = None) -> Floats:
        return self.profile(_squared_distances(X, Y))

    def at(self, differences: Floats) -> Floats:
        return self.profile(np.einsum("ij,ij->i", differences, differences))

    def uniform_dim(self, n_features: int) -> int:
        return n_features + self.mixing_dim

    def frequencies(self, uniforms: Floats) -> Floats:
        n_features = uniforms.shape[1] - self.mixing_dim
        normal = special.ndtri(uniforms[:, :n_features])
        return np.asarray(normal * self._scale(uniforms[:, n_features:])[:, None])

    def radii(self, uniforms: Floats, n_features: int) -> Floats:
        """Lengths of frequencies in `n_features` dimensions from uniforms (n, radial_dim): c times a chi variable."""
        chi = np.sqrt(2.0 * special.gammaincinv(n_features / 2, uniforms[:, 0]))
        return np.asarray(chi * self._scale(uniforms[:, 1:]))

    def log_embedding(self, frequencies: Floats, bandwidth: float) -> Floats:
        r"""For c = 1, :math:`(s^2/(s^2+1))^{d/2} e^{-|w_m|^2/(2(s^2+1))}`; else its mean over c by quadrature."""
        scales, weights = self._mixing_rule() if self.mixing_dim else (np.ones(1), np.ones(1))
        # Shapes (frequency, scale): a Gaussian of variance c^2 seen through a Gaussian of variance s^2.
        variance = bandwidth**2 + scales**2
        squared = np.einsum("ij,ij->i", frequencies, frequencies)[:, None]
        log_ratio = 2.0 * np.log(bandwidth) - np.log(variance)
        logs = 0.5 * frequencies.shape[1] * log_ratio - squared / (2.0 * variance)
        return np.asarray(special.logsumexp(logs, b=weights, axis=1))

    def _mixing_rule(self) -> tuple[Floats, Floats]:
        """4,000 scales c, evenly spaced in log c, and their probabilities.

        Given a frequency in d dimensions log c is known to about 1 / sqrt(2 d), however far out in the tail: the
        steps must be shorter than that.
        """
        x = np.linspace(-36.0, 36.0, 4001)  # uniforms 1 / (1 + e^-x), dense at both ends
        log_scale = np.log(self._scale(special.expit(x)[:, None]))
        if log_scale[0] > log_scale[-1]:
            x, log_scale = x[::-1], log_scale[::-1]
        rising = np.append(True, np.diff(log_scale) > 0.0)
        edges = np.linspace(log_scale[0], log_scale[-1], 4001)
        uniforms = special.expit(np.interp(edges, log_scale[rising], x[rising]))
        return np.exp((edges[1:] + edges[:-1]) / 2.0), np.abs(np.diff(uniforms))

    def _scale(self, uniforms: Floats) -> Floats:
        return np.minimum(self.mixing(uniforms), LARGEST_SCALE)


class Gaussian(IsotropicKernel):
    r"""Gaussian kernel :math:`e^{-|\delta|^2 / 2}`; its frequencies are standard normal.

    Examples
    --------
    >>> import numpy as np
    >>> from bochner.kernels import Gaussian
    >>> Gaussian().at(np.array([[0.0, 0.0], [1.0, 1.0]])).round(4)
    array([1.    , 0.3679])
    """

    def profile(self, squared_distances: Floats) -> Floats:
        return np.asarray(np.exp(np.multiply(squared_distances, -0.5, out=squared_distances), out=squared_distances))


class Matern(IsotropicKernel):
    r"""Matern kernel :math:`\frac{2^{1-\nu}}{\Gamma(\nu)} r^\nu K_\nu(r)` with :math:`r = \sqrt{2\nu} |\delta|`.

    Its frequencies follow Student's t law with 2 nu degrees of freedom.

    Parameters
    ----------
    nu : float, default=1.5
        Smoothness, at most 100: 0.5 is the exponential kernel, and large values approach the Gaussian one.

    Examples
    --------
    >>> import numpy as np
    >>> from bochner.kernels import Matern
    >>> Matern(nu=2.5).at(np.array([[0.0], [1.0]])).round(4)
    array([1.   , 0.524])
    """

    mixing_dim: ClassVar[int] = 1
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {"nu": [Interval(Real, 0, 100, closed="right")]}

    def __init__(self, nu: float = 1.5) -> None:
        self.nu = nu

    def profile(self, squared_distances: Floats) -> Floats:
        r = np.sqrt(2.0 * self.nu * squared_distances)
        if self.nu == 0.5:
            return np.asarray(np.exp(-r))
        if self.nu == 1.5:
            return np.asarray((1.0 + r) * np.exp(-r))
        if self.nu == 2.5:
            return np.asarray((1.0 + r + r**2 / 3.0) * np.exp(-r))
        # Near 0, where K_nu overflows, two terms of the series are exact to rounding; far away, where it is not a
        # number, the kernel has long vanished.
        values = np.exp(-(r**2) / (4.0 * (self.nu - 1.0))) if self.nu > 10.0 else np.ones_like(r)
        apart = r > (0.1 if self.nu > 10.0 else 1e-10)
        far = np.minimum(r[apart], 1e4)
        # kve is K_nu e^r: the logarithm of the product neither overflows at 0 nor vanishes early.
        logs = self.nu * np.log(far) + np.log(special.kve(self.nu, far)) - far
        logs += (1.0 - self.nu) * np.log(2.0) - special.gammaln(self.nu)
        values[apart] = np.exp(logs)
        return values

    def mixing(self, uniforms: Floats) -> Floats:
        with np.errstate(divide="ignore", over="ignore"):  # an underflow is a scale beyond LARGEST_SCALE
            return np.asarray(np.sqrt(self.nu / special.gammaincinv(self.nu, uniforms[:, 0])))


class Exponential(Matern):
    r"""Exponential kernel :math:`e^{-|\delta|}`: Matern with nu = 1/2, multivariate Cauchy frequencies.

    Examples
    --------
    >>> import numpy as np
    >>> from bochner.kernels import Exponential
    >>> Exponential().at(np.array([[3.0, 4.0]])).round(4)
    array([0.0067])
    """

    nu = 0.5
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {}

    def __init__(self) -> None:
        pass


class RationalQuadratic(IsotropicKernel):
    r"""Rational quadratic kernel :math:`(1 + |\delta|^2 / (2\alpha))^{-\alpha}`.

    Its frequencies are normal with a gamma-distributed precision of the length scale.

    Parameters
    ----------
    alpha : float, default=1.0
        Small values mix many length scales; large values approach the Gaussian kernel.

    Examples
    --------
    >>> import numpy as np
    >>> from bochner.kernels import RationalQuadratic
    >>> RationalQuadratic(alpha=1.0).at(np.array([[0.0], [2.0]])).round(4)
    array([1.    , 0.3333])
    """

    mixing_dim: ClassVar[int] = 1
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {"alpha": [Interval(Real, 0, None, closed="neither")]}

    def __init__(self, alpha: float = 1.0) -> None:
        self.alpha = alpha

    def profile(self, squared_distances: Floats) -> Floats:
        return np.asarray(np.exp(-self.alpha * np.log1p(squared_distances / (2.0 * self.alpha))))

    def mixing(self, uniforms: Floats) -> Floats:
        return np.asarray(np.sqrt(special.gammaincinv(self.alpha, uniforms[:, 0]) / self.alpha))


class ProductKernel(Kernel):
    """A kernel that is a product over columns; subclasses write `factor`, `quantile` and `log_factor_embedding`."""

    @abstractmethod
    def factor(self, differences: Floats) -> Floats:
        """The one-column kernel at each entry."""

    @abstractmethod
    def quantile(self, uniforms: Floats) -> Floats:
        """The inverse distribution function of one coordinate of a frequency, at each entry."""

    @abstractmethod
    def log_factor_embedding(self, frequencies: Floats, bandwidth: float) -> Floats:
        """`log_embedding` of the one-column kernel, at each entry."""

    def __call__(self, X: Any, Y: Any = None) -> Floats:
        X = to_dense(X)
        Y = X if Y is None else to_dense(Y)
        values = np.ones((len(X), len(Y)))
        for rows in row_blocks(len(X), values[:1].nbytes):
            block = values[rows]
            for x, y in zip(X[rows].T, Y.T, strict=True):
                block *= self.factor(np.subtract.outer(x, y))
        return values

    def at(self, differences: Floats) -> Floats:
        return np.asarray(np.prod(self.factor(differences), axis=1))

    def uniform_dim(self, n_features: int) -> int:
        return n_features

    def frequencies(self, uniforms: Floats) -> Floats:
        return self.quantile(uniforms)

    def log_embedding(self, frequencies: Floats, bandwidth: float) -> Floats:
        return np.asarray(self.log_factor_embedding(frequencies, bandwidth).sum(axis=1))


class Laplacian(ProductKernel):
    r"""Laplacian kernel :math:`e^{-\sum_j |\delta_j|}` (the city-block distance); Cauchy frequencies.

    Examples
    --------
    >>> import numpy as np
    >>> from bochner.kernels import Laplacian
    >>> Laplacian().at(np.array([[0.5, -0.5]])).round(4)
    array([0.3679])
    """

    def __call__(self, X: Any, Y: Any = None) -> Floats:
        return np.asarray(np.exp(-manhattan_distances(*_float64(X, Y))))

    def factor(self, differences: Floats) -> Floats:
        return np.asarray(np.exp(-np.abs(differences)))

    def quantile(self, uniforms: Floats) -> Floats:
        # cot, from the nearer end: tan(pi (u - 1/2)) loses all digits of a u close to 0 or 1.
        end = np.minimum(uniforms, 1.0 - uniforms)
        return np.asarray(np.where(uniforms < 0.5, -1.0, 1.0) / np.tan(np.pi * end))

    def log_factor_embedding(self, frequencies: Floats, bandwidth: float) -> Floats:
        # A Cauchy law seen through a Gaussian is the Voigt profile.
        profile = special.voigt_profile(frequencies, bandwidth, 1.0)
        return np.asarray(np.log(profile) + 0.5 * np.log(2.0 * np.pi) + np.log(bandwidth))


class Cauchy(ProductKernel):
    r"""Cauchy kernel :math:`\prod_j 1 / (1 + \delta_j^2)`; Laplace-distributed frequencies.

    Examples
    --------
    >>> import numpy as np
    >>> from bochner.kernels import Cauchy
    >>> Cauchy().at(np.array([[1.0, 2.0]]))
    array([0.1])
    """

    def factor(self, differences: Floats) -> Floats:
        return np.asarray(1.0 / (1.0 + np.square(differences)))

    def quantile(self, uniforms: Floats) -> Floats:
        end = np.minimum(uniforms, 1.0 - uniforms)
        return np.asarray(np.where(uniforms < 0.5, 1.0, -1.0) * np.log(2.0 * end))

    def log_factor_embedding(self, frequencies: Floats, bandwidth: float) -> Floats:
        # Each side of the Laplace law seen through a Gaussian is an exponentially modified Gaussian.
        w, s = np.abs(frequencies), bandwidth
        near = -w + special.log_ndtr(w / s - s)
        far = w + special.log_ndtr(-w / s - s)
        return np.asarray(np.logaddexp(near, far) + s**2 / 2 + 0.5 * np.log(np.pi / 2.0) + np.log(s))


def _float64(X: Any, Y: Any) -> tuple[Any, Any]:
    return X.astype(np.float64, copy=False), None if Y is None else Y.astype(np.float64, copy=False)


def _squared_distances(X: Any, Y: Any) -> Floats:
    """Squared distances by one matrix product; dense rows are centred first, so that an offset costs no digits.

    Sparse rows far from the origin, compared with the unit of distance, are made dense for that.
    """
    X, Y = _float64(X, Y)
    if is_sparse(X) and np.square(X.data).sum() > 1e6 * X.shape[0]:
        X, Y = to_dense(X), None if Y is None else to_dense(Y)
    if not is_sparse(X) and not is_sparse(Y):
        centre = X.mean(axis=0)
        X, Y = X - centre, None if Y is None else Y - centre
    return np.asarray(euclidean_distances(X, Y, squared=True))


def kernel_matrix(kernel: Kernel, points: Any) -> Floats:
    """The exact kernel matrix of a few points, dense or CSR, made in threads."""
    n_points = points.shape[0]
    exact = np.empty((n_points, n_points))

    def work(span: slice) -> None:
        exact[span] = kernel(points[span], points)

    list(in_threads(work, row_spans(n_points, 128)))  # pieces that do not depend on the number of threads
    return exact


KERNELS: dict[str, type[Kernel]] = {
    "gaussian": Gaussian,
    "laplacian": Laplacian,
    "cauchy": Cauchy,
    "exponential": Exponential,
    "matern": Matern,
    "rational_quadratic": RationalQuadratic,
}
