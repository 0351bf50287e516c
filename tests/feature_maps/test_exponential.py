# SPDX-License-Identifier: BSD-3-Clause
"""The compiled exponential of Gaussian kernel values, compared with extended precision."""

import os
import platform
import re
import subprocess
import sys

import numba
import numpy as np
import pytest

from bochner.feature_maps.exponential import COEFFICIENTS_32, LOG2_E, _rows_32, _rows_64, exponential_rows

DTYPES = [np.float64, np.float32]
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
def test_error_is_below_one_and_a_half_units_in_the_last_place(dtype):
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
def test_machine_code_is_vectorized(dtype, function, suffix):
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
def test_machine_code_is_cached_across_processes(tmp_path):
    code = (
        "import numpy as np; from bochner.feature_maps.exponential import _rows_64, exponential_rows;"
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
