# SPDX-License-Identifier: BSD-3-Clause
"""Samplers: how the frequencies of a kernel's spectral law are drawn.

Independent draws (`MonteCarlo`) are the baseline. Quasi-Monte Carlo points (`Halton`, `Sobol`, `Lattice`) fill the
unit cube more evenly, and `Orthogonal` frequencies fill the sphere more evenly; all are unbiased.
"""

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from scipy import sparse
from scipy.stats import qmc
from sklearn.base import BaseEstimator

from bochner.kernels import KERNELS, IsotropicKernel, Kernel
from bochner.rows import Floats, Indices, Rows, sample_rows, serial_blas, to_dense

if TYPE_CHECKING:
    from bochner.feature_maps.hadamard import HadamardFrequencies

__all__ = [
    "SAMPLERS",
    "Halton",
    "Lattice",
    "MonteCarlo",
    "Orthogonal",
    "QuasiMonteCarlo",
    "Sampler",
    "Sobol",
    "Sorf",
]

EDGE = 2.0**-53  # uniforms stay this far from 0 and 1, where frequencies are infinite


class Sampler(BaseEstimator, ABC):
    """Draws frequencies for a kernel; subclasses write `sample`."""

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {}

    @abstractmethod
    def sample(
        self, kernel: Kernel, n_frequencies: int, X: Rows, rng: np.random.Generator
    ) -> "Floats | HadamardFrequencies":
        """Frequencies (n_frequencies, n_features) of `kernel`, as an array or in a form that makes one.

        Parameters
        ----------
        kernel : Kernel
            A shape at unit length scale.
        n_frequencies : int
            How many to draw.
        X : rows of shape (n_samples, n_features)
            The data in units of the length scale. Most samplers read only its width.
        rng : numpy.random.Generator
            The only source of randomness.
        """


class MonteCarlo(Sampler):
    """Independent frequencies (Rahimi and Recht, 2007).

    Examples
    --------
    >>> import numpy as np
    >>> from bochner.samplers import MonteCarlo
    >>> from bochner.kernels import Gaussian
    >>> MonteCarlo().sample(Gaussian(), 5, np.zeros((1, 3)), np.random.default_rng(0)).shape
    (5, 3)
    """

    def sample(self, kernel: Kernel, n_frequencies: int, X: Rows, rng: np.random.Generator) -> Floats:
        uniforms = rng.random((n_frequencies, kernel.uniform_dim(X.shape[1])))
        return kernel.frequencies(np.clip(uniforms, EDGE, 1.0 - EDGE))


class QuasiMonteCarlo(Sampler):
    """Randomised low-discrepancy points through the inverse distribution function; subclasses write `points`.

    Parameters
    ----------
    rotate : bool, default=False
        Turn the frequencies so that the first, best distributed coordinates lie along the principal axes of the
        data. Only for isotropic kernels, whose law no rotation changes. It lowers the error on some data whose
        spectrum decays and raises it on some other: measure it.
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {"rotate": ["boolean"]}

    def __init__(self, rotate: bool = False) -> None:
        self.rotate = rotate

    @abstractmethod
    def points(self, n_points: int, dim: int, rng: np.random.Generator) -> Floats:
        """`n_points` points of the unit cube, shape (n_points, dim), each of them uniform."""

    def sample(self, kernel: Kernel, n_frequencies: int, X: Rows, rng: np.random.Generator) -> Floats:
        if self.rotate and not isinstance(kernel, IsotropicKernel):
            raise ValueError(
                f"{type(kernel).__name__} is not isotropic, so {type(self).__name__}(rotate=True) would change its "
                f"spectral law; use rotate=False or an isotropic kernel ({_isotropic_names()})."
            )
        uniforms = self.points(n_frequencies, kernel.uniform_dim(X.shape[1]), rng)
        frequencies = kernel.frequencies(np.clip(uniforms, EDGE, 1.0 - EDGE))
        return frequencies @ _principal_axes(X, rng) if self.rotate else frequencies


class Halton(QuasiMonteCarlo):
    """Halton's sequence with scrambled digits: any number of points, any dimension.

    Parameters
    ----------
    rotate : bool, default=False
        Turn the points into the principal axes of the data (isotropic kernels only).

    Examples
    --------
    >>> import numpy as np
    >>> from bochner.samplers import Halton
    >>> Halton().points(4, 2, np.random.default_rng(0)).shape
    (4, 2)
    """

    def points(self, n_points: int, dim: int, rng: np.random.Generator) -> Floats:
        return np.asarray(qmc.Halton(dim, scramble=True, rng=rng).random(n_points))


class Sobol(QuasiMonteCarlo):
    """Sobol's sequence, scrambled and digitally shifted.

    It is balanced when the number of frequencies is a power of two; other numbers take the beginning of the next
    power. It exists in up to 21,201 dimensions.

    Parameters
    ----------
    rotate : bool, default=False
        Turn the points into the principal axes of the data (isotropic kernels only).

    Examples
    --------
    >>> import numpy as np
    >>> from bochner.samplers import Sobol
    >>> np.sort(Sobol().points(4, 1, np.random.default_rng(0))[:, 0] * 4).astype(int)  # one point a quarter
    array([0, 1, 2, 3])
    """

    def points(self, n_points: int, dim: int, rng: np.random.Generator) -> Floats:
        if dim > qmc.Sobol.MAXDIM:
            raise ValueError(
                f"Sobol's sequence exists in up to {qmc.Sobol.MAXDIM} dimensions and this kernel needs {dim} for "
                f"the columns of X; use sampler='orthogonal', 'halton' or 'mc'."
            )
        engine = qmc.Sobol(dim, scramble=True, rng=rng)
        return np.asarray(engine.random_base2((n_points - 1).bit_length())[:n_points])


class Lattice(QuasiMonteCarlo):
    r"""A randomly shifted rank-1 lattice: point i is the fractional part of :math:`i z / M + \Delta`.

    The generating vector has Korobov's form :math:`z_j = a^j \bmod M`; `a` is the best of 64 candidates for the
    worst-case error of smooth periodic functions in which column j weighs 1/j. With more columns than half the
    number of frequencies components repeat, and the lattice loses to the other samplers.

    Parameters
    ----------
    rotate : bool, default=False
        Turn the points into the principal axes of the data (isotropic kernels only).

    Examples
    --------
    >>> import numpy as np
    >>> from bochner.samplers import Lattice
    >>> np.sort(Lattice().points(4, 1, np.random.default_rng(0))[:, 0] * 4).astype(int)  # one point a quarter
    array([0, 1, 2, 3])
    """

    def points(self, n_points: int, dim: int, rng: np.random.Generator) -> Floats:
        steps = np.arange(n_points)[:, None] * _korobov_vector(n_points, dim) % n_points
        return np.asarray((steps / n_points + rng.random(dim)) % 1.0)


class Orthogonal(Sampler):
    """Groups of mutually orthogonal directions with radii of the kernel's own law (Yu et al., 2016).

    The radii are stratified over all frequencies (a Latin hypercube), which keeps their law exact and measures up
    to 6 % better than independent radii. Needs an isotropic kernel.

    Examples
    --------
    >>> import numpy as np
    >>> from bochner.samplers import Orthogonal
    >>> from bochner.kernels import Gaussian
    >>> W = Orthogonal().sample(Gaussian(), 2, np.zeros((1, 8)), np.random.default_rng(0))
    >>> bool(abs(W[0] @ W[1]) < 1e-12)
    True
    """

    @serial_blas()  # no bit of the frequencies depends on the number of threads
    def sample(self, kernel: Kernel, n_frequencies: int, X: Rows, rng: np.random.Generator) -> Floats:
        n_features = X.shape[1]
        radii = _stratified_radii(self, kernel, n_frequencies, n_features, rng)
        directions = [
            np.linalg.qr(rng.standard_normal((n_features, min(n_features, n_frequencies - start))))[0].T
            for start in range(0, n_frequencies, n_features)
        ]
        # LAPACK fixes the signs of the directions; random ones make them uniform on the sphere.
        radii = radii * rng.choice([-1.0, 1.0], size=n_frequencies)
        return np.asarray(np.concatenate(directions) * radii[:, None])


class Sorf(Sampler):
    """Structured orthogonal frequencies, for wide data: `transform` costs O(log d) a frequency instead of O(d).

    Blocks of directions are products of Hadamard matrices and random signs, three of each; the radii are those of
    `Orthogonal`. Signs only imitate a uniform direction, the better the more columns there are, and speed only comes
    with many: below 128 columns the directions are those of `Orthogonal` too. Needs an isotropic kernel.

    Examples
    --------
    >>> import numpy as np
    >>> from bochner.samplers import Sorf
    >>> from bochner.kernels import Gaussian
    >>> W = np.asarray(Sorf().sample(Gaussian(), 2, np.zeros((1, 256)), np.random.default_rng(0)))
    >>> bool(abs(W[0] @ W[1]) < 1e-10)
    True
    """

    def sample(
        self, kernel: Kernel, n_frequencies: int, X: Rows, rng: np.random.Generator
    ) -> "Floats | HadamardFrequencies":
        n_features = X.shape[1]
        if n_features < 128:
            return Orthogonal().sample(kernel, n_frequencies, X, rng)
        from bochner.feature_maps.hadamard import HadamardFrequencies  # numba's import: only who needs it pays for it

        padded = 1 << (n_features - 1).bit_length()
        radii = _stratified_radii(self, kernel, n_frequencies, padded, rng)
        signs = rng.choice([-1.0, 1.0], size=(-(-n_frequencies // padded), 3, padded))
        return HadamardFrequencies(signs, radii, np.ones(n_features))


def _stratified_radii(
    sampler: Sampler, kernel: Kernel, n_frequencies: int, n_features: int, rng: np.random.Generator
) -> Floats:
    """Radii of the kernel's law in `n_features` dimensions, one in each stratum of equal probability."""
    if not isinstance(kernel, IsotropicKernel):
        raise ValueError(
            f"{type(kernel).__name__} is not compatible with sampler {type(sampler).__name__}: it is not isotropic, so "
            f"it has no `radii`; use sampler='mc', 'halton', 'sobol' or 'lattice', or an isotropic kernel "
            f"({_isotropic_names()})."
        )
    uniforms = qmc.LatinHypercube(kernel.radial_dim, rng=rng).random(n_frequencies)
    return kernel.radii(np.clip(uniforms, EDGE, 1.0 - EDGE), n_features)


def _isotropic_names() -> str:
    return ", ".join(repr(name) for name, kernel in KERNELS.items() if issubclass(kernel, IsotropicKernel))


@serial_blas()
def _principal_axes(X: Rows, rng: np.random.Generator) -> Floats:
    """Principal axes of the rows, one a row, the widest first, from at most 2,000 of them."""
    sample, counts = sample_rows(X, 2_000, rng)
    shares = counts / counts.sum()
    mean = sample.T @ shares
    covariance = to_dense(sample.T @ (sparse.diags_array(shares) @ sample)) - np.outer(mean, mean)
    return np.asarray(np.linalg.eigh(covariance)[1].T[::-1])


def _korobov_vector(n_points: int, dim: int) -> Indices:
    """The generating vector 1, a, a^2, ... (mod n_points) with the smallest worst-case error of 64 candidates."""
    generators = [a for a in range(1, n_points + 1) if np.gcd(a, n_points) == 1]
    chosen = [generators[i] for i in np.unique(np.linspace(0, len(generators) - 1, 64).astype(int))]
    judged = min(dim, 64)  # later columns weigh next to nothing
    relevance = 1.0 / np.arange(1, judged + 1)
    rows = np.arange(n_points)[:, None]

    def worst_case_error(a: int) -> float:
        x = rows * _powers(a, judged, n_points) % n_points / n_points
        bernoulli = x * (x - 1.0) + 1.0 / 6.0
        return float(np.prod(1.0 + relevance * (2.0 * np.pi**2) * bernoulli, axis=1).mean())

    return _powers(min(chosen, key=worst_case_error), dim, n_points)


def _powers(a: int, dim: int, modulus: int) -> Indices:
    return np.array([pow(a, j, modulus) for j in range(dim)], dtype=np.intp)


SAMPLERS: dict[str, type[Sampler]] = {
    "mc": MonteCarlo,
    "halton": Halton,
    "sobol": Sobol,
    "lattice": Lattice,
    "orthogonal": Orthogonal,
    "sorf": Sorf,
}
