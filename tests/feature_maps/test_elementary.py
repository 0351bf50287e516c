# SPDX-License-Identifier: BSD-3-Clause
"""The compiled sines, cosines and exponentials, compared with extended precision."""

import os
import platform
import re
import subprocess
import sys

import numba
import numpy as np
import pytest

from bochner.feature_maps.elementary import (
    COEFFICIENTS_32,
    LOG2_E,
    _coefficients,
    _rows_32,
    _rows_64,
    _sincos,
    exponential_rows,
    sincos_rows,
)

DTYPES = [np.float64, np.float32]
HALF_PI = np.longdouble("1.57079632679489661923132169163975144")


def exact(turns):
    """Return cos and sin of quarter turns in extended precision."""
    turns = turns.astype(np.longdouble)
    whole = np.rint(turns)
    angle = (turns - whole) * HALF_PI
    cosine, sine, quadrant = np.cos(angle), np.sin(angle), (whole % 4).astype(int)
    return (
        np.choose(quadrant, [cosine, -sine, -cosine, sine]),
        np.choose(quadrant, [sine, cosine, -sine, -cosine]),
    )


def computed(turns, amplitude=1.0):
    turns = np.ascontiguousarray(turns)[None]
    out = np.empty((1, 2 * turns.shape[1]), dtype=turns.dtype)
    sincos_rows(turns, np.full(turns.shape[1], amplitude, dtype=turns.dtype), out)
    return np.split(out[0], 2)


def phases(dtype):
    """Return phases with all exponents of the dtype, and many phases near 0."""
    rng = np.random.default_rng(0)
    info = np.finfo(dtype)
    exponents = rng.uniform(info.minexp - info.nmant, info.maxexp - 1, size=200_000)
    scattered = np.ldexp(rng.uniform(1, 2, size=200_000), exponents.astype(int)) * rng.choice([-1, 1], size=200_000)
    return np.concatenate([scattered, rng.uniform(-8, 8, size=200_000), rng.uniform(-1e5, 1e5, size=100_000)]).astype(
        dtype
    )


@pytest.mark.skipif(np.finfo(np.longdouble).nmant < 60, reason="no extended precision on this platform to compare with")
@pytest.mark.parametrize("dtype", DTYPES)
def test_error_is_below_two_units_in_the_last_place(dtype):
    turns = phases(dtype)
    for value, truth in zip(computed(turns), exact(turns), strict=True):
        unit = np.spacing(np.abs(truth).astype(dtype)).astype(np.longdouble)
        assert (np.abs(value - truth) / unit).max() < 2.0


@pytest.mark.parametrize("dtype", DTYPES)
def test_whole_quarter_turns_are_exact(dtype):
    cosine, sine = computed(np.arange(-9, 10, dtype=dtype))
    np.testing.assert_array_equal(cosine, [0, 1, 0, -1] * 4 + [0, 1, 0])
    np.testing.assert_array_equal(sine, [-1, 0, 1, 0] * 4 + [-1, 0, 1])


@pytest.mark.parametrize("dtype", DTYPES)
def test_extreme_phases(dtype):
    info = np.finfo(dtype)
    huge = np.array([info.max, -info.max, 2.0**info.nmant, 2.0 ** (info.nmant + 1) + 2], dtype=dtype)
    cosine, sine = computed(huge)
    assert np.abs(cosine**2 + sine**2 - 1).max() < 4 * info.eps
    tiny = np.array([info.smallest_subnormal, -info.tiny, 0.0], dtype=dtype)
    cosine, sine = computed(tiny)
    np.testing.assert_array_equal(cosine, 1)
    np.testing.assert_allclose(
        sine, np.pi / 2 * tiny.astype(np.longdouble), rtol=0, atol=float(info.smallest_subnormal)
    )
    assert np.isnan(computed(np.array([np.inf, -np.inf, np.nan], dtype=dtype))).all()


@pytest.mark.parametrize("dtype", DTYPES)
def test_amplitudes_scale_both_halves(dtype, rng):
    turns = rng.normal(size=100).astype(dtype)
    for plain, scaled in zip(computed(turns), computed(turns, 3.0), strict=True):
        np.testing.assert_allclose(scaled, 3 * plain, rtol=4 * np.finfo(dtype).eps)


@pytest.mark.skipif(platform.machine() not in ("x86_64", "AMD64"), reason="the test looks for x86-64 instructions")
@pytest.mark.parametrize(("dtype", "suffix"), [(np.float64, "pd"), (np.float32, "ps")])
def test_machine_code_is_vectorized(dtype, suffix):
    """The inner loop has packed multiplications and roundings; scalar code would be several times slower."""
    compiled = numba.njit(nogil=True, fastmath={"contract", "nsz", "arcp"}, error_model="numpy")(_sincos.py_func)
    block = np.zeros((2, 8), dtype=dtype)
    compiled(block, block[0], *_coefficients(block.dtype), np.empty((2, 16), dtype=dtype))
    (assembly,) = compiled.inspect_asm().values()
    assert len(re.findall(rf"\bv?(?:mul|fmadd\d+|fmsub\d+|fnmadd\d+){suffix}\b", assembly)) >= 10
    assert len(re.findall(rf"\bv?(?:round|rndscale){suffix}\b", assembly)) >= 3  # the latter with AVX-512
    if dtype == np.float32:  # there is no conversion to float64
        assert not re.search(r"\bv?cvtps2pd\b", assembly)


@pytest.mark.slow
def test_machine_code_is_cached_across_processes(tmp_path):
    code = (
        "import numpy as np; from bochner.feature_maps.elementary import _sincos, sincos_rows;"
        "block = np.ones((2, 4)); sincos_rows(block, block[0], np.empty((2, 8)));"
        "print(sum(_sincos.stats.cache_hits.values()), sum(_sincos.stats.cache_misses.values()))"
    )
    environment = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path)}
    runs = [
        subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True).stdout
        for _ in range(2)
    ]
    assert [run.split() for run in runs] == [["0", "1"], ["1", "0"]]


def test_importing_the_package_does_not_import_numba():
    code = "import sys, bochner; sys.exit('numba' in sys.modules or 'matplotlib' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


# Powers of 2 below these exponents are not normal numbers; the values stop there.
SMALLEST = {np.float64: -1021.0, np.float32: -125.0}


def powers(exponents):
    """Return 2 ** exponents, computed in place."""
    values = np.ascontiguousarray(exponents)[None].copy()
    zero = np.zeros(1, dtype=values.dtype)
    exponential_rows(values, zero, np.zeros(values.shape[1], dtype=values.dtype), values)
    return values[0]


@pytest.mark.skipif(np.finfo(np.longdouble).nmant < 60, reason="no extended precision on this platform to compare with")
@pytest.mark.parametrize("dtype", DTYPES)
def test_error_of_powers_is_below_one_and_a_half_units_in_the_last_place(dtype):
    rng = np.random.default_rng(0)
    spread = rng.uniform(SMALLEST[dtype], 0.0, size=300_000)
    near = -np.ldexp(rng.uniform(1, 2, size=100_000), rng.integers(-60, 5, size=100_000))
    halves = np.arange(SMALLEST[dtype], 0.5, 0.5)  # where the rounded exponent changes
    exponents = np.concatenate([spread, near, halves, np.nextafter(halves, -np.inf)]).astype(dtype)
    exponents = np.maximum(exponents, dtype(SMALLEST[dtype]))
    truth = np.exp2(exponents.astype(np.longdouble))
    unit = np.spacing(truth.astype(dtype)).astype(np.longdouble)
    assert (np.abs(powers(exponents) - truth) / unit).max() < 1.5


@pytest.mark.parametrize("dtype", DTYPES)
def test_whole_exponents_are_exact(dtype):
    exponents = np.arange(SMALLEST[dtype], 1.0, dtype=dtype)
    np.testing.assert_array_equal(powers(exponents), np.exp2(exponents))


@pytest.mark.parametrize("dtype", DTYPES)
def test_smaller_exponents_give_the_smallest_power(dtype):
    """The value of rows that are far apart is zero to rounding, and neither subnormal nor negative."""
    far = np.array([SMALLEST[dtype] - 0.25, 2 * SMALLEST[dtype], -1e6, -np.finfo(dtype).max, -np.inf], dtype=dtype)
    np.testing.assert_array_equal(powers(far), np.full(5, 2.0 ** SMALLEST[dtype], dtype=dtype))
    assert 2.0 ** SMALLEST[dtype] >= np.finfo(dtype).tiny


@pytest.mark.parametrize("dtype", DTYPES)
def test_positive_exponents_give_one(dtype):
    """A squared distance of zero may come out as a negative number, and as a large one far from the origin."""
    exponents = np.array([0.0, -0.0, 4 * np.finfo(dtype).eps, 1e-3, 2000.0, 3e30], dtype=dtype)
    np.testing.assert_array_equal(powers(exponents), 1.0)


@pytest.mark.parametrize("in_place", [False, True])
@pytest.mark.parametrize("dtype", DTYPES)
def test_terms_of_rows_and_columns_are_subtracted(rng, dtype, in_place):
    """With inner products and half the squared norms, values are those of the Gaussian kernel."""
    X, Y = rng.normal(size=(37, 3)), rng.normal(size=(53, 3))
    products = (LOG2_E * (X @ Y.T)).astype(dtype)
    row_terms, column_terms = ((0.5 * LOG2_E * np.square(rows).sum(axis=1)).astype(dtype) for rows in (X, Y))
    given = products.copy()
    out = products if in_place else np.full_like(products, np.nan)
    exponential_rows(products, row_terms, column_terms, out)
    expected = np.exp(-0.5 * np.square(X[:, None] - Y).sum(axis=2))
    np.testing.assert_allclose(out, expected, atol=8 * np.finfo(dtype).eps)
    if not in_place:
        np.testing.assert_array_equal(products, given)


@pytest.mark.parametrize("dtype", DTYPES)
def test_not_a_number_is_kept(dtype):
    """Rows with NaN are refused before; if one gets here, its kernel values must not look right."""
    assert np.isnan(powers(np.array([np.nan, -1.0, -np.nan], dtype=dtype))).tolist() == [True, False, True]


@pytest.mark.skipif(platform.machine() not in ("x86_64", "AMD64"), reason="the test looks for x86-64 instructions")
@pytest.mark.parametrize(("dtype", "function", "suffix"), [(np.float64, _rows_64, "pd"), (np.float32, _rows_32, "ps")])
def test_machine_code_is_vectorized_of_powers(dtype, function, suffix):
    """The inner loop has packed multiplications and shifts of exponents; scalar code would be several times slower."""
    compiled = numba.njit(nogil=True, fastmath={"contract", "nsz", "arcp"}, error_model="numpy")(function.py_func)
    block = np.zeros((2, 8), dtype=dtype)
    compiled(block, block[:, 0].copy(), block[0], block)
    (assembly,) = compiled.inspect_asm().values()
    n_products = len(re.findall(rf"\bv?(?:mul|fmadd\d+){suffix}\b", assembly))
    assert n_products >= len(COEFFICIENTS_32) - 1
    assert re.search(rf"\bv?psll{'q' if dtype == np.float64 else 'd'}\b", assembly)
    if dtype == np.float32:  # there is no conversion to float64
        assert not re.search(r"\bv?cvtps2pd\b", assembly)


@pytest.mark.slow
def test_machine_code_is_cached_across_processes_of_powers(tmp_path):
    code = (
        "import numpy as np; from bochner.feature_maps.elementary import _rows_64, exponential_rows;"
        "block = np.ones((2, 4)); exponential_rows(block, block[:, 0].copy(), block[0].copy(), np.empty((2, 4)));"
        "stats = _rows_64.stats;"
        "print(sum(stats.cache_hits.values()), sum(stats.cache_misses.values()))"
    )
    environment = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path)}
    runs = [
        subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True).stdout
        for _ in range(2)
    ]
    assert [run.split() for run in runs] == [["0", "1"], ["1", "0"]]
