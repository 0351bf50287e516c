# SPDX-License-Identifier: BSD-3-Clause
import os
import platform
import re
import subprocess
import sys

import numba
import numpy as np
import pytest

from bochner.feature_maps.trigonometry import _coefficients, _sincos, sincos_rows

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
        "import numpy as np; from bochner.feature_maps.trigonometry import _sincos, sincos_rows;"
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
