# SPDX-License-Identifier: BSD-3-Clause
"""Samplers, which draw frequencies from the spectral distribution of a kernel.

`MonteCarlo` draws independent frequencies. The quasi-Monte Carlo samplers `Halton`, `Sobol` and `Lattice` cover the
unit cube more evenly, and `Orthogonal` frequencies cover the sphere more evenly. `Sorf` is a faster variant of
`Orthogonal` for wide data. With every sampler each single frequency follows the spectral distribution (that of `Sorf`
approximately), so that uniform weights give an unbiased kernel estimate.
"""

from abc import ABC, abstractmethod
from typing import Any

import numpy as np
from scipy.stats import qmc
from sklearn.base import BaseEstimator

from bochner.feature_maps.hadamard import HadamardFrequencies
from bochner.kernels import KERNELS, IsotropicKernel, Kernel
from bochner.rows import Floats, Indices, Rows
from bochner.validation import make_part

__all__ = [
    *("SAMPLERS", "Halton", "Lattice", "MonteCarlo", "Orthogonal", "QuasiMonteCarlo", "Sampler", "Sobol", "Sorf"),
    *("make_sampler",),
]

Frequencies = Floats | HadamardFrequencies
EDGE = 2.0**-53  # smallest distance of uniforms from 0 and 1, where frequencies are infinite
FEWEST_COLUMNS = 128  # with fewer columns the structure of `Sorf` saves no time


class Sampler(BaseEstimator, ABC):
    """Base class of samplers.

    Notes
    -----
    **Subclassing**

    Write `sample`. It receives a validated kernel at unit length scale and draws all random numbers from `rng`, so that
    a fit is repeatable. `kernel.uniform_dim` and `kernel.frequencies` turn uniform random numbers into frequencies of
    the spectral distribution; keep the uniforms strictly between 0 and 1. A subclass that only changes the uniform
    points derives from `QuasiMonteCarlo`. A sampler that does not support every kernel overrides `check_kernel` too.

    Examples
    --------
    Pairs of uniform points, the second one shifted by half the unit cube in every coordinate.

    >>> import numpy as np
    >>> from bochner import FourierFeatures
    >>> from bochner.samplers import Sampler
    >>> class ShiftedPairs(Sampler):
    ...     def sample(self, kernel, n_frequencies, X, rng):
    ...         first = rng.random((-(-n_frequencies // 2), kernel.uniform_dim(X.shape[1])))
    ...         uniforms = np.vstack([first, (first + 0.5) % 1])[:n_frequencies]
    ...         return kernel.frequencies(np.clip(uniforms, 2**-53, 1 - 2**-53))
    >>> X = np.random.default_rng(0).normal(size=(300, 3))
    >>> features = FourierFeatures(sampler=ShiftedPairs(), n_frequencies=99, random_state=0).fit(X)
    >>> features.frequencies_.shape
    (99, 3)
    """

    @abstractmethod
    def sample(self, kernel: Kernel, n_frequencies: int, X: Rows, rng: np.random.Generator) -> Frequencies:
        """Draw frequencies from the spectral distribution of a kernel.

        Parameters
        ----------
        kernel : Kernel
            A kernel at unit length scale.
        n_frequencies : int
            Number of frequencies, at least 1.
        X : Rows of shape (n_samples, n_features)
            The data divided by the length scale. Most samplers only use the number of columns.
        rng : numpy.random.Generator
            The only source of randomness.

        Returns
        -------
        ndarray of shape (n_frequencies, n_features) or HadamardFrequencies
            One frequency per row.
        """

    def check_kernel(self, kernel: Kernel) -> None:
        """Refuse a kernel that the sampler does not support, before any work; all are supported unless overridden.

        Parameters
        ----------
        kernel : Kernel
            A kernel at unit length scale.
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
    """Base class of samplers that transform randomized low-discrepancy points.

    Notes
    -----
    **Subclassing**

    Write `points`. Each single point must be uniformly distributed in the unit cube; the points may depend on each
    other. Coordinates of exactly 0 or 1 are allowed.

    Examples
    --------
    Latin hypercube points, stratified in every coordinate.

    >>> import numpy as np
    >>> from scipy.stats import qmc
    >>> from bochner import FourierFeatures
    >>> from bochner.samplers import QuasiMonteCarlo
    >>> class LatinHypercube(QuasiMonteCarlo):
    ...     def points(self, n_points, dim, rng):
    ...         return qmc.LatinHypercube(dim, rng=rng).random(n_points)
    >>> X = np.random.default_rng(0).normal(size=(300, 3))
    >>> features = FourierFeatures(sampler=LatinHypercube(), random_state=0).fit(X)
    >>> features.frequencies_.shape
    (256, 3)
    """

    @abstractmethod
    def points(self, n_points: int, dim: int, rng: np.random.Generator) -> Floats:
        """Return randomized points of the unit cube.

        Parameters
        ----------
        n_points : int
            Number of points, at least 1.
        dim : int
            Dimension of the unit cube.
        rng : numpy.random.Generator
            The only source of randomness.

        Returns
        -------
        ndarray of shape (n_points, dim)
            One point per row, each uniformly distributed.
        """

    def sample(self, kernel: Kernel, n_frequencies: int, X: Rows, rng: np.random.Generator) -> Floats:
        uniforms = self.points(n_frequencies, kernel.uniform_dim(X.shape[1]), rng)
        return kernel.frequencies(np.clip(uniforms, EDGE, 1.0 - EDGE))


class Halton(QuasiMonteCarlo):
    """Halton sequence with scrambled digits, for any number of points and any dimension.

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
    """Sobol sequence, scrambled and digitally shifted.

    The points are balanced if the number of frequencies is a power of two. For other numbers, the first points of the
    next larger power of two are used. The sequence exists in up to 21,201 dimensions.

    Examples
    --------
    >>> import numpy as np
    >>> from bochner.samplers import Sobol
    >>> np.sort(Sobol().points(4, 1, np.random.default_rng(0))[:, 0] * 4).astype(int)  # one point per quarter
    array([0, 1, 2, 3])
    """

    def points(self, n_points: int, dim: int, rng: np.random.Generator) -> Floats:
        if dim > qmc.Sobol.MAXDIM:
            raise ValueError(
                f"The Sobol sequence exists in up to {qmc.Sobol.MAXDIM} dimensions and this kernel needs {dim} for "
                f"the columns of X; use sampler='orthogonal', 'halton' or 'mc'."
            )
        engine = qmc.Sobol(dim, scramble=True, rng=rng)
        return np.asarray(engine.random_base2((n_points - 1).bit_length())[:n_points])


class Lattice(QuasiMonteCarlo):
    r"""Randomly shifted rank-1 lattice, whose point i is the fractional part of :math:`i z / M + \Delta`.

    The generating vector has Korobov's form :math:`z_j = a^j \bmod M`. The generator a is the best of 64 candidates for
    the worst-case error of smooth periodic functions, where column j has weight 1/j. With more columns than half the
    number of frequencies, components of z repeat, and the other samplers have a lower error.

    Examples
    --------
    >>> import numpy as np
    >>> from bochner.samplers import Lattice
    >>> np.sort(Lattice().points(4, 1, np.random.default_rng(0))[:, 0] * 4).astype(int)  # one point per quarter
    array([0, 1, 2, 3])
    """

    def points(self, n_points: int, dim: int, rng: np.random.Generator) -> Floats:
        steps = np.arange(n_points)[:, None] * _korobov_vector(n_points, dim) % n_points
        return np.asarray((steps / n_points + rng.random(dim)) % 1.0)


class Orthogonal(Sampler):
    """Groups of mutually orthogonal frequencies (Yu et al., 2016), for isotropic kernels.

    The lengths of the frequencies follow the kernel's exact radial distribution. They are stratified over all
    frequencies (a Latin hypercube), which lowers the kernel error by up to 6 % compared with independent lengths.

    Examples
    --------
    >>> import numpy as np
    >>> from bochner.samplers import Orthogonal
    >>> from bochner.kernels import Gaussian
    >>> W = Orthogonal().sample(Gaussian(), 2, np.zeros((1, 8)), np.random.default_rng(0))
    >>> bool(abs(W[0] @ W[1]) < 1e-12)
    True
    """

    def check_kernel(self, kernel: Kernel) -> None:
        if kernel.as_isotropic() is None:
            names = (repr(name) for name, kind in KERNELS.items() if issubclass(kind, IsotropicKernel))
            raise ValueError(
                f"{type(kernel).__name__} is not compatible with sampler {type(self).__name__}, because it is not "
                f"isotropic; use sampler='mc', 'halton', 'sobol' or 'lattice', or an isotropic kernel "
                f"({', '.join(names)})."
            )

    def sample(self, kernel: Kernel, n_frequencies: int, X: Rows, rng: np.random.Generator) -> Frequencies:
        n_features = X.shape[1]
        radii = self._stratified_radii(kernel, n_frequencies, n_features, rng)
        directions = [
            np.linalg.qr(rng.standard_normal((n_features, min(n_features, n_frequencies - start))))[0].T
            for start in range(0, n_frequencies, n_features)
        ]
        # LAPACK fixes the signs of the directions; random signs make them uniform on the sphere.
        radii = radii * rng.choice([-1.0, 1.0], size=n_frequencies)
        return np.asarray(np.concatenate(directions) * radii[:, None])

    def _stratified_radii(self, kernel: Kernel, n_frequencies: int, n_features: int, rng: Any) -> Floats:
        """Return lengths of frequencies in `n_features` dimensions, one in each stratum of equal probability."""
        self.check_kernel(kernel)
        isotropic: Any = kernel.as_isotropic()
        uniforms = qmc.LatinHypercube(1 + isotropic.mixing_dim, rng=rng).random(n_frequencies)
        return np.asarray(isotropic.radii(np.clip(uniforms, EDGE, 1.0 - EDGE), n_features))


class Sorf(Orthogonal):
    """Structured orthogonal frequencies for wide data and isotropic kernels (Yu et al., 2016).

    With d columns, `transform` costs O(log d) per frequency instead of O(d). Blocks of directions are products of three
    Hadamard matrices and three diagonal matrices of random signs; the lengths are those of `Orthogonal`. The directions
    are uniform on the sphere only approximately, and the more columns, the closer. With fewer than 128 columns the
    structure saves no time, and this sampler is the same as `Orthogonal`.

    Examples
    --------
    >>> import numpy as np
    >>> from bochner.samplers import Sorf
    >>> from bochner.kernels import Gaussian
    >>> W = np.asarray(Sorf().sample(Gaussian(), 2, np.zeros((1, 256)), np.random.default_rng(0)))
    >>> bool(abs(W[0] @ W[1]) < 1e-10)
    True
    """

    def sample(self, kernel: Kernel, n_frequencies: int, X: Rows, rng: np.random.Generator) -> Frequencies:
        n_features = X.shape[1]
        if n_features < FEWEST_COLUMNS:
            return super().sample(kernel, n_frequencies, X, rng)
        padded = 1 << (n_features - 1).bit_length()
        radii = self._stratified_radii(kernel, n_frequencies, padded, rng)
        signs = rng.choice([-1.0, 1.0], size=(-(-n_frequencies // padded), 3, padded))
        return HadamardFrequencies(signs, radii, np.ones(n_features))


def _korobov_vector(n_points: int, dim: int) -> Indices:
    """Return the vector 1, a, a^2, ... (mod n_points) with the smallest worst-case error of 64 generators a."""
    generators = [a for a in range(1, n_points + 1) if np.gcd(a, n_points) == 1]
    candidates = np.unique(np.linspace(0, len(generators) - 1, 64).astype(int))
    n_columns = min(dim, 64)  # the weights 1/j of later columns are negligible

    def worst_case_error(a: int) -> float:
        x = np.arange(n_points)[:, None] * _powers(a, n_columns, n_points) % n_points / n_points
        bernoulli = x * (x - 1.0) + 1.0 / 6.0
        return float(np.prod(1.0 + 2.0 * np.pi**2 / np.arange(1, n_columns + 1) * bernoulli, axis=1).mean())

    return _powers(min((generators[i] for i in candidates), key=worst_case_error), dim, n_points)


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


def make_sampler(name_or_sampler: Any, kernel: Kernel) -> Sampler:
    """Return a sampler for a kernel.

    Parameters
    ----------
    name_or_sampler : str or Sampler
        A name among `SAMPLERS`; an instance; or "auto": `Orthogonal` for isotropic kernels, `Halton` for all others.
    kernel : Kernel
        The kernel.

    Returns
    -------
    Sampler
        The sampler, a copy of a given one.

    Examples
    --------
    >>> from bochner.kernels import Gaussian, Laplacian
    >>> from bochner.samplers import make_sampler
    >>> make_sampler("auto", Gaussian()), make_sampler("auto", Laplacian())
    (Orthogonal(), Halton())
    """
    if name_or_sampler == "auto":
        name_or_sampler = "halton" if kernel.as_isotropic() is None else "orthogonal"
    sampler: Sampler = make_part(name_or_sampler, SAMPLERS)
    return sampler
