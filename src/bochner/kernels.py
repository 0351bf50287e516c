# SPDX-License-Identifier: BSD-3-Clause
r"""Shift-invariant kernels and their spectral distributions.

A kernel here is defined at unit length scale, with k(0) = 1. By Bochner's theorem it is the characteristic function of
a distribution of frequencies, the spectral distribution:

.. math:: k(x - y) = E_w \cos(w \cdot (x - y)).

A kernel object computes exact kernel values, and transforms uniform random numbers into frequencies of that
distribution.

There are two families. An `IsotropicKernel` depends on the Euclidean distance only. If it is a kernel in every
dimension, it is a mixture of Gaussian kernels (Schoenberg's theorem), and a subclass writes `profile` and `mixing`.
A `ProductKernel` has one factor per column, and a subclass writes `factor`, `quantile` and `log_factor_embedding`.

`FunctionKernel` and `PrecomputedKernel` are kernels without a length scale and without frequencies: any function of two
sets of rows, or a matrix, for `LandmarkFeatures`.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from numbers import Real
from typing import Any, ClassVar

import numpy as np
from scipy import special
from sklearn.metrics.pairwise import euclidean_distances, manhattan_distances

from bochner.parameters import Parametrized
from bochner.rows import Floats, is_sparse, row_blocks, to_dense
from bochner.validation import Interval, check_returned, make_part

__all__ = [
    *("KERNELS", "KERNEL_ALIASES", "NAMED_KERNELS", "IsotropicKernel", "Kernel", "ProductKernel", "make_kernel"),
    *("Cauchy", "Exponential", "Gaussian", "Laplacian", "Matern", "PowerExponential", "RationalQuadratic"),
    *("FunctionKernel", "PrecomputedKernel"),
]

LARGEST_SCALE = 1e12  # larger frequencies are noise on any data; the bound only keeps them finite


class Kernel(Parametrized, ABC):
    r"""Base class of kernels: exact values and the spectral distribution.

    Notes
    -----
    **Subclassing**

    Most kernels derive from `IsotropicKernel` or `ProductKernel`, which need less code. Any other shift-invariant
    kernel derives from this class and writes four methods: `at` for exact values, `uniform_dim` and `frequencies` for
    the spectral distribution, and `log_embedding` for ``weighting="quadrature"``. Rows are divided by the length scale
    before they reach a kernel. Parameters follow scikit-learn's conventions: `__init__` stores them unchanged.

    Examples
    --------
    A Gaussian kernel times a cosine along the first column. Its frequencies are standard normal, with a shift of 3 or
    -3 in the first coordinate; one more uniform number chooses the sign.

    >>> import numpy as np
    >>> from bochner import FourierFeatures
    >>> from bochner.kernels import Gaussian, Kernel
    >>> class Wave(Kernel):
    ...     def at(self, differences):
    ...         return Gaussian().at(differences) * np.cos(3 * differences[:, 0])
    ...     def uniform_dim(self, n_features):
    ...         return n_features + 1
    ...     def frequencies(self, uniforms):
    ...         frequencies = Gaussian().frequencies(uniforms[:, :-1])
    ...         frequencies[:, 0] += np.where(uniforms[:, -1] < 0.5, -3, 3)
    ...         return frequencies
    ...     def log_embedding(self, frequencies, bandwidths):
    ...         shift = 3 * np.eye(1, frequencies.shape[1])
    ...         sides = [Gaussian().log_embedding(frequencies + s, bandwidths) for s in (-shift, shift)]
    ...         return np.logaddexp(*sides) - np.log(2)
    >>> X = np.random.default_rng(0).normal(size=(300, 2))
    >>> features = FourierFeatures(Wave(), sampler="sobol", random_state=0).fit(X)
    >>> bool(features.kernel_error(X, random_state=0).error < 0.05)
    True
    """

    def __call__(self, X: Any, Y: Any = None) -> Floats:
        """Return the exact kernel matrix.

        Parameters
        ----------
        X : {ndarray, CSR matrix} of shape (n_x, n_features)
            Rows.
        Y : {ndarray, CSR matrix} of shape (n_y, n_features), default=None
            Other rows; None means `X`.

        Returns
        -------
        ndarray of shape (n_x, n_y)
            The values k(x_i - y_j), in float64.
        """
        X = to_dense(X)
        Y = X if Y is None else to_dense(Y)
        return np.stack([self.at(x - Y) for x in X])

    @abstractmethod
    def at(self, differences: Floats) -> Floats:
        """Return exact kernel values at given differences.

        Parameters
        ----------
        differences : ndarray of shape (n_pairs, n_features)
            One difference x - y per row.

        Returns
        -------
        ndarray of shape (n_pairs,)
            Kernel values.
        """

    def as_isotropic(self) -> "IsotropicKernel | None":
        """Return this kernel as an isotropic one, or None if it is not isotropic."""
        return None

    @abstractmethod
    def uniform_dim(self, n_features: int) -> int:
        """Return how many uniform random numbers determine one frequency.

        Parameters
        ----------
        n_features : int
            Number of columns of the data.

        Returns
        -------
        int
            Number of uniform random numbers per frequency.
        """

    @abstractmethod
    def frequencies(self, uniforms: Floats) -> Floats:
        """Transform uniform random numbers into frequencies of the spectral distribution.

        Parameters
        ----------
        uniforms : ndarray of shape (n_frequencies, uniform_dim)
            Numbers strictly between 0 and 1.

        Returns
        -------
        ndarray of shape (n_frequencies, n_features)
            One frequency per row.
        """

    @abstractmethod
    def log_embedding(self, frequencies: Floats, bandwidths: Sequence[float] | Floats) -> Floats:
        r"""Return the logarithm of :math:`\int e^{-|w - w_m|^2 / (2 s^2)} dP(w)` for each frequency and bandwidth.

        P is the spectral distribution. Bayesian quadrature needs these integrals.

        Parameters
        ----------
        frequencies : ndarray of shape (n_frequencies, n_features)
            The frequencies w_m.
        bandwidths : array-like of shape (n_bandwidths,)
            The bandwidths s.

        Returns
        -------
        ndarray of shape (n_bandwidths, n_frequencies)
            Logarithms of the integrals.
        """


class IsotropicKernel(Kernel):
    r"""Base class of kernels that depend on the Euclidean distance only.

    Such a kernel is a mixture of Gaussian kernels, so that a frequency is :math:`w = c z`, with z standard normal and
    c an independent positive scale.

    Attributes
    ----------
    mixing_dim : int
        Number of uniform random numbers that determine the scale c: 0 for the Gaussian kernel, where c = 1, else
        usually 1.

    Notes
    -----
    **Subclassing**

    Write `profile`, the kernel as a function of the squared distance. Unless the kernel is Gaussian, also set
    ``mixing_dim = 1`` and write `mixing`, the inverse distribution function of the scale c, increasing or decreasing.
    The two must agree: :math:`k(r) = E_c \, e^{-c^2 r^2 / 2}`. With ``weighting="quadrature"``, `mixing` must also be
    continuous.

    Examples
    --------
    The average of the Gaussian kernels :math:`e^{-u r^2 / 2}` over u between 0 and 1.

    >>> import numpy as np
    >>> from scipy.special import exprel
    >>> from bochner import FourierFeatures
    >>> from bochner.kernels import IsotropicKernel
    >>> class Average(IsotropicKernel):
    ...     mixing_dim = 1
    ...     def profile(self, squared_distances):
    ...         return exprel(-squared_distances / 2)
    ...     def mixing(self, uniforms):
    ...         return np.sqrt(uniforms[:, 0])
    >>> X = np.random.default_rng(0).normal(size=(300, 3))
    >>> features = FourierFeatures(Average(), random_state=0).fit(X)
    >>> bool(features.kernel_error(X, random_state=0).error < 0.05)
    True
    """

    mixing_dim: ClassVar[int] = 0

    @abstractmethod
    def profile(self, squared_distances: Floats) -> Floats:
        """Return the kernel as a function of the squared distance.

        Parameters
        ----------
        squared_distances : ndarray
            Squared Euclidean distances, in an array that may be overwritten.

        Returns
        -------
        ndarray
            Kernel values, of the same shape.
        """

    def mixing(self, uniforms: Floats) -> Floats:
        """Return the scales c of frequencies.

        Parameters
        ----------
        uniforms : ndarray of shape (n_frequencies, mixing_dim)
            Numbers strictly between 0 and 1.

        Returns
        -------
        ndarray of shape (n_frequencies,)
            Positive scales; ones by default.
        """
        return np.ones(len(uniforms))

    def as_isotropic(self) -> "IsotropicKernel":
        return self

    def __call__(self, X: Any, Y: Any = None) -> Floats:
        return self.profile(_squared_distances(X, Y))

    def at(self, differences: Floats) -> Floats:
        return self.profile(np.einsum("ij,ij->i", differences, differences))

    def gradient_at(self, differences: Floats) -> Floats:
        """Return gradients of the kernel at given differences; only models' gradients on landmarks need them.

        Parameters
        ----------
        differences : ndarray of shape (n_pairs, n_features)
            One difference x - y per row.

        Returns
        -------
        ndarray of shape (n_pairs, n_features)
            Gradients with respect to x; 0 where the kernel has a kink.
        """
        squared_distances = np.einsum("ij,ij->i", differences, differences)
        return 2.0 * self.slope(squared_distances)[:, None] * differences

    def slope(self, squared_distances: Floats) -> Floats:
        """Return the derivative of `profile`; only gradients of models on landmarks need it.

        Parameters
        ----------
        squared_distances : ndarray
            Squared Euclidean distances.

        Returns
        -------
        ndarray
            Derivatives with respect to the squared distances; 0 at the distance 0 of a kernel with a kink there.
        """
        raise NotImplementedError(f"{type(self).__name__} has no gradients; write its method `slope`.")

    def uniform_dim(self, n_features: int) -> int:
        return n_features + self.mixing_dim

    def frequencies(self, uniforms: Floats) -> Floats:
        n_features = uniforms.shape[1] - self.mixing_dim
        normal = special.ndtri(uniforms[:, :n_features])
        return np.asarray(normal * self._scale(uniforms[:, n_features:])[:, None])

    def radii(self, uniforms: Floats, n_features: int) -> Floats:
        """Return lengths of frequencies: the scale c times a chi-distributed variable.

        Parameters
        ----------
        uniforms : ndarray of shape (n_frequencies, 1 + mixing_dim)
            Numbers strictly between 0 and 1.
        n_features : int
            Number of columns of the data.

        Returns
        -------
        ndarray of shape (n_frequencies,)
            The lengths.
        """
        chi = np.sqrt(2.0 * special.gammaincinv(n_features / 2, uniforms[:, 0]))
        return np.asarray(chi * self._scale(uniforms[:, 1:]))

    def log_embedding(self, frequencies: Floats, bandwidths: Sequence[float] | Floats) -> Floats:
        # The integral is (s^2 / (s^2 + c^2))^(d/2) exp(-|w_m|^2 / (2 (s^2 + c^2))), averaged over the scales c.
        scales, probabilities = self._mixing_rule() if self.mixing_dim else (np.ones(1), np.ones(1))
        squared = np.einsum("ij,ij->i", frequencies, frequencies)[:, None]
        embeddings = np.empty((len(bandwidths), len(frequencies)))
        for row, bandwidth in zip(embeddings, bandwidths, strict=True):
            variances = bandwidth**2 + scales**2
            log_ratios = 2.0 * np.log(bandwidth) - np.log(variances)
            logs = 0.5 * frequencies.shape[1] * log_ratios - squared / (2.0 * variances)
            row[:] = special.logsumexp(logs, b=probabilities, axis=1)
        return embeddings

    def _mixing_rule(self) -> tuple[Floats, Floats]:
        """Return 4,000 scales c, equally spaced in log c, and their probabilities.

        A frequency in d dimensions determines log c to about 1 / sqrt(2 d), also in the tails. The spacing must be
        finer than that.
        """
        x = np.linspace(-36.0, 36.0, 4001)  # the uniforms 1 / (1 + e^-x) are dense at both ends
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

    def slope(self, squared_distances: Floats) -> Floats:
        return np.asarray(-0.5 * np.exp(-0.5 * squared_distances))


class Matern(IsotropicKernel):
    r"""Matern kernel :math:`\frac{2^{1-\nu}}{\Gamma(\nu)} r^\nu K_\nu(r)` with :math:`r = \sqrt{2\nu} |\delta|`.

    Its frequencies follow a multivariate t distribution with 2 nu degrees of freedom.

    Parameters
    ----------
    nu : float, default=1.5
        Smoothness, at most 100. The value 0.5 gives the exponential kernel; large values approach the Gaussian kernel.

    Examples
    --------
    >>> import numpy as np
    >>> from bochner.kernels import Matern
    >>> Matern(nu=2.5).at(np.array([[0.0], [1.0]])).round(4)
    array([1.   , 0.524])
    """

    mixing_dim: ClassVar[int] = 1
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {"nu": [Interval(Real, 1e-6, 100, closed="both")]}

    def __init__(self, nu: float = 1.5) -> None:
        self.nu = nu

    def profile(self, squared_distances: Floats) -> Floats:
        return _matern(self.nu, np.sqrt(2.0 * self.nu * squared_distances))

    def slope(self, squared_distances: Floats) -> Floats:
        r = np.sqrt(2.0 * self.nu * squared_distances)
        if self.nu > 1.0:  # the derivative of r^nu K_nu is -r^nu K_(nu - 1)
            return -self.nu / (2.0 * (self.nu - 1.0)) * _matern(self.nu - 1.0, r)
        apart = r > 0.0
        far = r[apart]
        slopes = np.zeros_like(r)
        slopes[apart] = -self.nu * 2.0 ** (1.0 - self.nu) * far ** (self.nu - 1.0) * special.kv(1.0 - self.nu, far)
        return slopes / special.gamma(self.nu)

    def mixing(self, uniforms: Floats) -> Floats:
        with np.errstate(divide="ignore", over="ignore"):  # an underflow gives a scale that is cut at LARGEST_SCALE
            return np.asarray(np.sqrt(self.nu / special.gammaincinv(self.nu, uniforms[:, 0])))


class Exponential(Matern):
    r"""Exponential kernel :math:`e^{-|\delta|}`, which is the Matern kernel with nu = 1/2.

    Its frequencies follow a multivariate Cauchy distribution.

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

    It is a mixture of Gaussian kernels whose inverse squared length scale has a gamma distribution.

    Parameters
    ----------
    alpha : float, default=1.0
        Shape of the mixture, between 1e-6 and 1e10. Small values mix many length scales; large values approach the
        Gaussian kernel.

    Examples
    --------
    >>> import numpy as np
    >>> from bochner.kernels import RationalQuadratic
    >>> RationalQuadratic(alpha=1.0).at(np.array([[0.0], [2.0]])).round(4)
    array([1.    , 0.3333])
    """

    mixing_dim: ClassVar[int] = 1
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {"alpha": [Interval(Real, 1e-6, 1e10, closed="both")]}

    def __init__(self, alpha: float = 1.0) -> None:
        self.alpha = alpha

    def profile(self, squared_distances: Floats) -> Floats:
        return np.asarray(np.exp(-self.alpha * np.log1p(squared_distances / (2.0 * self.alpha))))

    def slope(self, squared_distances: Floats) -> Floats:
        return np.asarray(-0.5 * np.exp(-(self.alpha + 1.0) * np.log1p(squared_distances / (2.0 * self.alpha))))

    def mixing(self, uniforms: Floats) -> Floats:
        return np.asarray(np.sqrt(special.gammaincinv(self.alpha, uniforms[:, 0]) / self.alpha))


class ProductKernel(Kernel):
    r"""Base class of kernels that are a product of one factor per column.

    Notes
    -----
    **Subclassing**

    Write `factor`, the kernel of one column, `quantile`, the inverse distribution function of one coordinate of a
    frequency, and `log_factor_embedding` for ``weighting="quadrature"``. All three work on arrays of any shape, entry
    by entry. The first two must agree: :math:`k(\delta) = E_u \cos(q(u) \, \delta)`, u uniform between 0 and 1.

    Examples
    --------
    The sinc kernel :math:`\prod_j \sin(\delta_j) / \delta_j`, whose frequencies are uniform between -1 and 1.

    >>> import numpy as np
    >>> from scipy.special import ndtr
    >>> from bochner import FourierFeatures
    >>> from bochner.kernels import ProductKernel
    >>> class Sinc(ProductKernel):
    ...     def factor(self, differences):
    ...         return np.sinc(differences / np.pi)
    ...     def quantile(self, uniforms):
    ...         return 2 * uniforms - 1
    ...     def log_factor_embedding(self, frequencies, bandwidth):
    ...         share = ndtr((1 - frequencies) / bandwidth) - ndtr((-1 - frequencies) / bandwidth)
    ...         return np.log(share * bandwidth * np.sqrt(np.pi / 2))
    >>> X = np.random.default_rng(0).normal(size=(300, 3))
    >>> features = FourierFeatures(Sinc(), sampler="halton", weighting="quadrature", random_state=0).fit(X)
    >>> bool(features.kernel_error(X, random_state=0).error < 0.05)
    True
    """

    @abstractmethod
    def factor(self, differences: Floats) -> Floats:
        """Return the kernel of one column.

        Parameters
        ----------
        differences : ndarray
            Differences x_j - y_j of entries.

        Returns
        -------
        ndarray
            Kernel values, of the same shape.
        """

    @abstractmethod
    def quantile(self, uniforms: Floats) -> Floats:
        """Return the inverse distribution function of one coordinate of a frequency.

        Parameters
        ----------
        uniforms : ndarray
            Numbers strictly between 0 and 1.

        Returns
        -------
        ndarray
            Coordinates of frequencies, of the same shape.
        """

    @abstractmethod
    def log_factor_embedding(self, frequencies: Floats, bandwidth: float) -> Floats:
        """Return the integral of `log_embedding` for the kernel of one column.

        Parameters
        ----------
        frequencies : ndarray
            Coordinates of frequencies.
        bandwidth : float
            The bandwidth s.

        Returns
        -------
        ndarray
            Logarithms of the integrals, of the same shape.
        """

    def __call__(self, X: Any, Y: Any = None) -> Floats:
        return _combine_columns(X, Y, np.multiply, self.factor)

    def at(self, differences: Floats) -> Floats:
        return np.asarray(np.prod(self.factor(differences), axis=1))

    def uniform_dim(self, n_features: int) -> int:
        return n_features

    def frequencies(self, uniforms: Floats) -> Floats:
        return self.quantile(uniforms)

    def log_embedding(self, frequencies: Floats, bandwidths: Sequence[float] | Floats) -> Floats:
        return np.stack([self.log_factor_embedding(frequencies, bandwidth).sum(axis=1) for bandwidth in bandwidths])


class Laplacian(ProductKernel):
    r"""Laplacian kernel :math:`e^{-\sum_j |\delta_j|}` of the L1 distance; its frequencies are Cauchy distributed.

    Examples
    --------
    >>> import numpy as np
    >>> from bochner.kernels import Laplacian
    >>> Laplacian().at(np.array([[0.5, -0.5]])).round(4)
    array([0.3679])
    """

    def __call__(self, X: Any, Y: Any = None) -> Floats:
        return np.asarray(np.exp(-manhattan_distances(X, Y)))

    def factor(self, differences: Floats) -> Floats:
        return np.asarray(np.exp(-np.abs(differences)))

    def quantile(self, uniforms: Floats) -> Floats:
        # The cotangent at the nearer end, because tan(pi (u - 1/2)) loses all digits of a u close to 0 or 1.
        end = np.minimum(uniforms, 1.0 - uniforms)
        return np.asarray(np.where(uniforms < 0.5, -1.0, 1.0) / np.tan(np.pi * end))

    def log_factor_embedding(self, frequencies: Floats, bandwidth: float) -> Floats:
        # The convolution of a Cauchy density with a Gaussian is the Voigt profile.
        profile = special.voigt_profile(frequencies, bandwidth, 1.0)
        return np.asarray(np.log(profile) + 0.5 * np.log(2.0 * np.pi) + np.log(bandwidth))


class Cauchy(ProductKernel):
    r"""Cauchy kernel :math:`\prod_j 1 / (1 + \delta_j^2)`; its frequencies are Laplace distributed.

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
        # The convolution of each side of the Laplace density with a Gaussian is an exponentially modified Gaussian.
        w, s = np.abs(frequencies), bandwidth
        near = -w + special.log_ndtr(w / s - s)
        far = w + special.log_ndtr(-w / s - s)
        return np.asarray(np.logaddexp(near, far) + s**2 / 2 + 0.5 * np.log(np.pi / 2.0) + np.log(s))


class PowerExponential(Kernel):
    r"""Power exponential kernel :math:`e^{-|\delta|_p^q}` with :math:`|\delta|_p^p = \sum_j |\delta_j|^p`.

    The pair (1, 1) is the Laplacian kernel, (2, 1) the exponential kernel, and (2, 2) the Gaussian kernel with the
    length scale :math:`\sqrt{1/2}`. A frequency is :math:`w_j = A^{1/p} Z_j`. The positive A has the stable
    distribution with :math:`E \, e^{-A s} = e^{-s^{q/p}}`, the :math:`Z_j` are independent with the symmetric stable
    distribution :math:`E \cos(Z t) = e^{-|t|^p}`.

    Parameters
    ----------
    p : float, default=1.5
        Power of the differences, at most 2.
    q : float, default=1.0
        Power of the distance, at most p.

    References
    ----------
    J. M. Chambers, C. L. Mallows and B. W. Stuck, A method for simulating stable random variables, Journal of the
    American Statistical Association 71, 1976.

    Examples
    --------
    >>> import numpy as np
    >>> from bochner.kernels import PowerExponential
    >>> PowerExponential(p=1.5, q=1.0).at(np.array([[1.0, 0.0], [1.0, 1.0]])).round(4)
    array([0.3679, 0.2045])
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "p": [Interval(Real, 0.1, 2, closed="both")],
        "q": [Interval(Real, 0.1, 2, closed="both", note="and at most p")],
    }

    def __init__(self, p: float = 1.5, q: float = 1.0) -> None:
        self.p = p
        self.q = q

    def _validate_params(self) -> None:
        super()._validate_params()
        if self.q > self.p:
            raise ValueError(f"`q`={self.q:g} of PowerExponential exceeds `p`={self.p:g}; use `q` of at most `p`.")

    def __call__(self, X: Any, Y: Any = None) -> Floats:
        sums = _combine_columns(X, Y, np.add, lambda differences: np.abs(differences) ** self.p)
        return np.asarray(np.exp(-(sums ** (self.q / self.p))))

    def at(self, differences: Floats) -> Floats:
        return np.asarray(np.exp(-((np.abs(differences) ** self.p).sum(axis=1) ** (self.q / self.p))))

    def as_isotropic(self) -> IsotropicKernel | None:
        return _StableMixture(self.q) if self.p == 2.0 else None

    def uniform_dim(self, n_features: int) -> int:
        return 2 * n_features + 2

    def frequencies(self, uniforms: Floats) -> Floats:
        angles, exponentials = np.hsplit(uniforms[:, :-2], 2)
        angles = np.pi * (angles - 0.5)
        logs = (1.0 - self.p) / self.p * np.log(np.cos((1.0 - self.p) * angles) / -np.log(exponentials))
        logs -= np.log(np.cos(angles)) / self.p
        logs += _log_positive_stable(self.q / self.p, uniforms[:, -2:])[:, None] / self.p
        return np.asarray(np.sin(self.p * angles) * np.exp(np.minimum(logs, np.log(LARGEST_SCALE))))

    def log_embedding(self, frequencies: Floats, bandwidths: Sequence[float] | Floats) -> Floats:
        raise ValueError("PowerExponential has no integrals for weighting='quadrature'; use another weighting.")


class FunctionKernel:
    """A kernel that is any function of two sets of rows; it has no length scale and no frequencies.

    Parameters
    ----------
    function : callable
        Returns the kernel matrix of two sets of rows. The matrix of a set with itself must be positive semidefinite.

    Examples
    --------
    >>> import numpy as np
    >>> from bochner.kernels import FunctionKernel
    >>> def common_letters(words, others):
    ...     return [[len(set(word) & set(other)) for other in others] for word in words]
    >>> FunctionKernel(common_letters)(np.array(["ab", "abc"]))
    array([[2., 2.],
           [2., 3.]])
    """

    def __init__(self, function: Callable[[Any, Any], Any]) -> None:
        self.function = function

    def __call__(self, X: Any, Y: Any = None) -> Floats:
        """Return the kernel matrix of two sets of rows; None means `X`.

        Parameters
        ----------
        X : array-like of shape (n_x, ...)
            Rows.
        Y : array-like of shape (n_y, ...), default=None
            Other rows.

        Returns
        -------
        ndarray of shape (n_x, n_y)
            Kernel values.
        """
        Y = X if Y is None else Y
        values = to_dense(self.function(X, Y))
        if values.shape != (X.shape[0], Y.shape[0]):
            raise ValueError(
                f"`kernel` must return one row and one column per given row. It returned shape {values.shape} for "
                f"{X.shape[0]} and {Y.shape[0]} rows."
            )
        if not np.isfinite(values).all():
            raise ValueError("`kernel` must return finite numbers. It returned NaN or infinity for some pairs of rows.")
        return values


class PrecomputedKernel(FunctionKernel):
    """A kernel matrix; rows are given by their indices.

    Parameters
    ----------
    matrix : ndarray of shape (n_samples, n_samples), default=None
        The kernel matrix of the training rows; None after the fit, which does not need it any more.

    Examples
    --------
    >>> import numpy as np
    >>> from bochner.kernels import PrecomputedKernel
    >>> PrecomputedKernel(np.eye(3))(np.array([0, 2]), np.array([2]))
    array([[0.],
           [1.]])
    """

    def __init__(self, matrix: Floats | None = None) -> None:
        self.matrix = matrix

    def function(self, X: Any, Y: Any) -> Floats:
        """Return the entries of the matrix for two sets of row indices.

        Parameters
        ----------
        X, Y : ndarray of int
            Row indices.

        Returns
        -------
        ndarray of shape (len(X), len(Y))
            Entries of the matrix.
        """
        if self.matrix is None:
            raise ValueError("The values of a precomputed kernel between new rows are not known; compute them.")
        return np.asarray(self.matrix[np.ix_(X, Y)])


class _StableMixture(IsotropicKernel):
    """The kernel exp(-r^q), which samplers of isotropic kernels use for `PowerExponential` with p = 2."""

    mixing_dim: ClassVar[int] = 2

    def __init__(self, q: float) -> None:
        self.q = q

    def profile(self, squared_distances: Floats) -> Floats:
        return np.asarray(np.exp(-(squared_distances ** (self.q / 2.0))))

    def mixing(self, uniforms: Floats) -> Floats:
        return np.asarray(np.sqrt(2.0) * np.exp(0.5 * _log_positive_stable(self.q / 2.0, uniforms)))


def _log_positive_stable(power: float, uniforms: Floats) -> Floats:
    """Return logarithms of the positive variable A with E exp(-A s) = exp(-s^power), from two uniforms each."""
    if power == 1.0:
        return np.zeros(len(uniforms))
    angle, exponential = np.pi * uniforms[:, 0], -np.log(uniforms[:, 1])
    logs = np.log(np.sin(power * angle)) - np.log(np.sin(angle)) / power
    return np.asarray(logs + (1.0 - power) / power * np.log(np.sin((1.0 - power) * angle) / exponential))


def _matern(nu: float, r: Floats) -> Floats:
    """Return the Matern kernel as a function of r, the distance times sqrt(2 nu)."""
    if nu == 0.5:
        return np.asarray(np.exp(-r))
    if nu == 1.5:
        return np.asarray((1.0 + r) * np.exp(-r))
    if nu == 2.5:
        return np.asarray((1.0 + r + r**2 / 3.0) * np.exp(-r))
    dtype, r = r.dtype, r.astype(np.float64)  # K_nu overflows float32 far from 0
    # Near 0, K_nu overflows, and a few terms of the series are exact to rounding. Far from 0, K_nu is NaN, and the
    # kernel is zero to rounding. The terms of r^(2 nu), which the series leaves out, vanish slowly for a small nu.
    values, quarter = np.ones_like(r), np.square(np.minimum(r, 0.1)) / 4.0
    for k in range(5, 0, -1) if nu > 10.0 else ():  # the sum of (r^2 / 4)^k / (k! (1 - nu) ... (k - nu))
        values = 1.0 + values * quarter / (k * (k - nu))
    apart = r > (0.1 if nu > 10.0 else 1e-10 if nu > 1.0 else 1e-300)
    far = np.minimum(r[apart], 1e4)
    # kve is K_nu e^r, so that the logarithm neither overflows near 0 nor underflows early.
    logs = nu * np.log(far) + np.log(special.kve(nu, far)) - far
    logs += (1.0 - nu) * np.log(2.0) - special.gammaln(nu)
    values[apart] = np.exp(logs)
    return values.astype(dtype)


def _combine_columns(X: Any, Y: Any, combine: np.ufunc, function: Callable[[Floats], Floats]) -> Floats:
    """Return the sum or the product over the columns of a function of all differences of their entries."""
    X = to_dense(X)
    Y = X if Y is None else to_dense(Y)
    values = np.full((len(X), len(Y)), float(combine.identity))
    for rows in row_blocks(len(X), values[:1].nbytes):
        for x, y in zip(X[rows].T, Y.T, strict=True):
            combine(values[rows], function(np.subtract.outer(x, y)), out=values[rows])
    return values


def _squared_distances(X: Any, Y: Any) -> Floats:
    """Return squared distances, computed by one matrix product.

    Dense rows are centered first, because an offset would cancel digits. Sparse rows whose norm is large compared with
    the length scale are converted to dense rows for the same reason.
    """
    X, Y = X.astype(np.float64, copy=False), None if Y is None else Y.astype(np.float64, copy=False)
    if is_sparse(X) and np.square(X.data).sum() > 1e6 * X.shape[0]:
        X, Y = to_dense(X), None if Y is None else to_dense(Y)
    if not is_sparse(X) and not is_sparse(Y):
        center = X.mean(axis=0)
        X, Y = X - center, None if Y is None else Y - center
    return np.asarray(euclidean_distances(X, Y, squared=True))


KERNELS: dict[str, type[Kernel]] = {
    "gaussian": Gaussian,
    "laplacian": Laplacian,
    "cauchy": Cauchy,
    "exponential": Exponential,
    "matern": Matern,
    "rational_quadratic": RationalQuadratic,
}

KERNEL_ALIASES = {"rbf": "gaussian"}  # names in scikit-learn with the same meaning
NAMED_KERNELS = KERNELS | {alias: KERNELS[name] for alias, name in KERNEL_ALIASES.items()}


def make_kernel(name_or_kernel: Any, n_features: int) -> Any:
    """Return a kernel, and refuse one whose values at a few rows do not have the right shape or are not finite.

    Parameters
    ----------
    name_or_kernel : str, Kernel or callable
        A name among `NAMED_KERNELS`; an instance; or a function of two sets of rows.
    n_features : int
        Number of columns of the data.

    Returns
    -------
    Kernel or FunctionKernel
        The kernel, a copy of a given one.

    Examples
    --------
    >>> from bochner.kernels import make_kernel
    >>> make_kernel("rbf", 3)
    Gaussian()
    """
    if not isinstance(name_or_kernel, str) and not hasattr(name_or_kernel, "uniform_dim"):
        return FunctionKernel(name_or_kernel)
    kernel: Kernel = make_part(name_or_kernel, NAMED_KERNELS)
    if not isinstance(name_or_kernel, str):
        rows, name = np.eye(3, n_features), f"`kernel` {type(kernel).__name__}"
        check_returned(f"{name}.at", kernel.at(rows), (3,), "one finite number per difference")
        check_returned(f"{name}.__call__", kernel(rows, rows[:2]), (3, 2), "one finite number per pair of rows")
    return kernel
