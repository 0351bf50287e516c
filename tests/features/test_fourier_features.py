# SPDX-License-Identifier: BSD-3-Clause
"""`FourierFeatures`: approximation, options, sizes, the prepared map and bad input."""

import pickle
import tracemalloc
from copy import deepcopy
from functools import partial
from itertools import product

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.kernel_approximation import Nystroem, RBFSampler
from sklearn.metrics.pairwise import rbf_kernel

from bochner import FourierFeatures
from bochner.feature_maps import fourier_map
from bochner.kernels import KERNELS, IsotropicKernel, Matern
from bochner.samplers import Orthogonal
from bochner.weightings import WEIGHTINGS, Matrix, Quadrature, Stein
from tests.conftest import COMBINATIONS, COVERING_COMBINATIONS, KERNEL_SAMPLER_PAIRS, VALID_COMBINATIONS, covering_set


def relative_error(features, X):
    exact = features.exact_kernel(X)
    return np.linalg.norm(exact - features.approximate_kernel(X)) / np.linalg.norm(exact)


def held_out_error(features, rows, held_out):
    return relative_error(features.fit(rows), held_out)


def mostly_slow(fast, *factors):
    """Return all combinations of the values, those that are not in `fast` marked as slow."""
    return [pytest.param(*values, marks=[] if values in fast else pytest.mark.slow) for values in product(*factors)]


# Weights that are fitted to targets change the kernel.


@pytest.mark.parametrize(("kernel", "sampler", "weighting"), COMBINATIONS)
def test_approximates_the_exact_kernel(kernel, sampler, weighting, rng):
    """With many frequencies the approximation is close to the kernel, and not to one of another length scale."""
    X = rng.normal(size=(150, 3))
    features = FourierFeatures(
        kernel, sampler=sampler, weighting=weighting, n_frequencies=400, length_scale=2.0, random_state=0
    ).fit(X)
    error = relative_error(features, X)
    assert error < 0.12
    wider = FourierFeatures(kernel, length_scale=2.0 * np.sqrt(2), sampler="mc", n_frequencies=1).fit(X).exact_kernel(X)
    assert np.linalg.norm(wider - features.approximate_kernel(X)) / np.linalg.norm(wider) > 1.5 * error
    assert (features.weights_ >= 0).all()
    assert np.linalg.eigvalsh(features.approximate_kernel(X)).min() > -1e-10


def test_exact_kernel_equals_scikit_learns(rng):
    X, Y = rng.normal(size=(20, 3)), rng.normal(size=(15, 3))
    features = FourierFeatures(length_scale=1.7, n_frequencies=2).fit(X)
    np.testing.assert_allclose(features.exact_kernel(X, Y), rbf_kernel(X, Y, gamma=0.5 / 1.7**2), rtol=1e-10)


def test_error_falls_as_the_root_of_the_number_of_frequencies(digits):
    """The closed form for independent frequencies: squared error = mean variance / M."""
    X = digits[:400]
    squared = {
        m: np.mean(
            [
                relative_error(
                    FourierFeatures(sampler="mc", weighting="uniform", n_frequencies=m, random_state=s).fit(X), X
                )
                ** 2
                for s in range(30)
            ]
        )
        for m in (16, 256)
    }
    features = FourierFeatures(n_frequencies=1, random_state=0).fit(X)
    exact, doubled = features.exact_kernel(X), features.exact_kernel(2 * X)
    variance = np.mean((1 + doubled) / 2 - exact**2) / np.mean(exact**2)
    for m, value in squared.items():
        assert value == pytest.approx(variance / m, rel=0.25)


def test_beats_rbf_sampler_at_equal_width(digits):
    X = digits[:600]
    features = FourierFeatures(n_frequencies=128, random_state=0).fit(X)
    exact = features.exact_kernel(X)
    plain = RBFSampler(gamma=0.5 / features.length_scale_**2, n_components=256, random_state=0).fit_transform(X)
    assert relative_error(features, X) < 0.5 * np.linalg.norm(exact - plain @ plain.T) / np.linalg.norm(exact)


def test_stein_weights_lower_the_error_and_stay_nonnegative(digits):
    """With 512 independent frequencies the error on held-out rows falls by at least 30 %."""
    train, test = digits[::2], digits[1::2]
    uniform, stein = (
        FourierFeatures(sampler="mc", weighting=w, n_frequencies=512, random_state=0).fit(train)
        for w in ("uniform", "stein")
    )
    np.testing.assert_array_equal(uniform.frequencies_, stein.frequencies_)
    assert relative_error(stein, test) <= 0.70 * relative_error(uniform, test)
    assert (stein.weights_ >= 0).all()
    assert np.linalg.eigvalsh(stein.approximate_kernel(test)).min() >= -1e-10


@pytest.mark.parametrize(
    ("sampler", "n_frequencies"),
    mostly_slow(
        [("mc", 64), ("sobol", 64), ("orthogonal", 256)], ["mc", "halton", "sobol", "lattice", "orthogonal"], [64, 256]
    ),
)
def test_stein_is_never_worse_than_uniform_on_held_out_rows(digits, sampler, n_frequencies):
    for seed in range(3):
        errors = [
            relative_error(
                FourierFeatures(sampler=sampler, weighting=w, n_frequencies=n_frequencies, random_state=seed).fit(
                    digits[::2]
                ),
                digits[1::2],
            )
            for w in ("uniform", "stein")
        ]
        assert errors[1] < errors[0]


@pytest.mark.parametrize(("kernel", "sampler"), KERNEL_SAMPLER_PAIRS)
def test_weighting_does_not_change_the_frequencies(kernel, sampler, rng):
    X, y = rng.normal(size=(30, 3)), rng.normal(size=30)
    fits = [
        FourierFeatures(kernel, sampler=sampler, weighting=w, n_frequencies=8, random_state=0).fit(X, y)
        for w in WEIGHTINGS
    ]
    for fit in fits[1:]:
        np.testing.assert_array_equal(fit.frequencies_, fits[0].frequencies_)
        assert fit.length_scale_ == fits[0].length_scale_


@pytest.mark.parametrize(("kernel", "sampler", "weighting"), COMBINATIONS)
def test_float32_stays_float32_and_close_to_float64(kernel, sampler, weighting, rng):
    X, y = rng.normal(size=(60, 3)), rng.normal(size=60)
    fits = [
        FourierFeatures(kernel, sampler=sampler, weighting=weighting, n_frequencies=8, random_state=0).fit(
            X.astype(dtype), y
        )
        for dtype in (np.float64, np.float32)
    ]
    features = [fit.transform(X.astype(fit.frequencies_.dtype)) for fit in fits]
    assert features[1].dtype == fits[1].weights_.dtype == fits[1].exact_kernel(X).dtype == np.float32
    # A phase of p radians has an error of about 1e-7 p.
    phases = np.abs(X @ fits[0].frequencies_.T)
    assert (np.abs(features[1] - features[0]) <= 1e-6 * (5 + np.tile(phases, 2))).all()


@pytest.mark.parametrize("kernel", KERNELS)
def test_length_scale_per_column_equals_rescaled_columns(kernel, rng):
    X, scales = rng.normal(size=(40, 3)), np.array([0.5, 2.0, 10.0])
    options = {"n_frequencies": 16, "sampler": "sobol", "random_state": 0}
    ard = FourierFeatures(kernel, length_scale=scales, **options).fit(X)
    scaled = FourierFeatures(kernel, length_scale=1.0, **options).fit(X / scales)
    np.testing.assert_allclose(ard.transform(X), scaled.transform(X / scales), atol=1e-10)
    np.testing.assert_allclose(ard.exact_kernel(X), scaled.exact_kernel(X / scales), rtol=1e-10)
    np.testing.assert_array_equal(ard.length_scale_, scales)


@pytest.mark.parametrize("length_scale", ["median", "scale", 2.0])
def test_units_of_the_data_do_not_matter(length_scale, rng):
    X = rng.normal(size=(50, 3))
    other = 2.0e6 if length_scale == 2.0 else length_scale
    small = FourierFeatures(length_scale=length_scale, n_frequencies=16, random_state=0).fit(X)
    large = FourierFeatures(length_scale=other, n_frequencies=16, random_state=0).fit(1e6 * X)
    np.testing.assert_allclose(large.transform(1e6 * X), small.transform(X), atol=1e-9)


def test_sparse_equals_dense(rng):
    X = sparse.random_array((200, 30), density=0.1, rng=rng, format="csr")
    for kernel, sampler in KERNEL_SAMPLER_PAIRS:
        dense, from_csr = (
            FourierFeatures(kernel, sampler=sampler, n_frequencies=8, random_state=0).fit(data)
            for data in (X.toarray(), X)
        )
        np.testing.assert_allclose(from_csr.transform(X), dense.transform(X.toarray()), atol=1e-6)
        np.testing.assert_allclose(from_csr.exact_kernel(X), dense.exact_kernel(X.toarray()), atol=1e-6)


def test_transform_writes_into_out(digits):
    features = FourierFeatures(n_frequencies=8, random_state=0).fit(digits)
    out = np.empty((len(digits), 16))
    assert features.transform(digits, out=out) is out
    np.testing.assert_array_equal(out, features.transform(digits))
    with pytest.raises(ValueError, match="`out` must be"):
        features.transform(digits, out=out[:5])


def test_wide_sparse_data_stay_sparse(rng):
    X = sparse.random_array((2000, 50_000), density=1e-3, rng=rng, format="csr")
    tracemalloc.start()
    FourierFeatures(n_frequencies=16, random_state=0).fit(X).transform(X)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 0.5 * X.shape[0] * X.shape[1] * 8


def test_fit_does_not_copy_many_rows(rng):
    X = rng.normal(size=(200_000, 10))
    features = FourierFeatures(n_frequencies=16, random_state=0)
    tracemalloc.start()
    features.fit(X)
    fitting = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    # The kernel matrix of 2,000 sampled rows and halves of it, but no array with 200,000 rows.
    assert fitting < 160 * 2**20


class TestMatrix:
    def test_width_and_names(self, digits):
        features = FourierFeatures(n_frequencies=40, n_components=7, weighting="matrix", random_state=0).fit(digits)
        assert features.transform(digits[:3]).shape == (3, 7)
        assert len(features.get_feature_names_out()) == 7
        assert features.matrix_.shape == (80, 7)
        assert clone(features).set_params(n_components=None).fit(digits).transform(digits[:3]).shape == (3, 80)

    def test_columns_are_weighted_features_times_the_matrix(self, digits):
        features = FourierFeatures(n_frequencies=40, n_components=7, weighting="matrix", random_state=0).fit(digits)
        plain = fourier_map(digits, features.frequencies_, features.weights_)
        np.testing.assert_allclose(features.transform(digits), plain @ features.matrix_, atol=1e-12)

    @pytest.mark.parametrize("weighting", ["uniform", "stein"])
    def test_other_weightings_keep_the_principal_components(self, digits, weighting):
        features = FourierFeatures(n_frequencies=40, weighting=weighting, random_state=0).fit(digits)
        whole = features.transform(digits)
        few = features.set_params(n_components=7).fit(digits).transform(digits)
        values = np.linalg.svd(whole, compute_uv=False)
        assert np.linalg.norm(whole @ whole.T - few @ few.T) == pytest.approx(np.linalg.norm(values[7:] ** 2))

    def test_auto_uses_twelve_frequencies_per_given_column(self, digits):
        features = FourierFeatures(n_frequencies="auto", n_components=5, weighting="matrix", random_state=0)
        assert features.fit(digits).matrix_.shape == (120, 5)

    def test_every_level_of_adaptivity_lowers_the_error(self, digits):
        """With 32 columns, each level has a lower error than the one before, and a matrix a lower one than Nystroem."""
        rows, held_out = digits[::2], digits[1::2]
        nystroem = Nystroem(gamma=0.5 / 64, n_components=32, random_state=0).fit(rows).transform(held_out)
        build = partial(FourierFeatures, length_scale=8.0, random_state=0)
        uniform, stein, refined, matrix, both = (
            held_out_error(features, rows, held_out)
            for features in (
                build(n_frequencies=16, weighting="uniform"),
                build(n_frequencies=16),
                build(n_frequencies=16, refine=60),
                build(n_frequencies=256, n_components=32, weighting="matrix"),
                build(n_frequencies=256, n_components=32, weighting="matrix", refine=20),
            )
        )
        exact = rbf_kernel(held_out, gamma=0.5 / 64)
        landmarks = np.linalg.norm(exact - nystroem @ nystroem.T) / np.linalg.norm(exact)
        assert stein <= uniform
        assert refined <= 0.8 * stein
        assert matrix <= 0.5 * refined
        assert both <= matrix
        assert matrix <= 0.8 * landmarks

    @pytest.mark.parametrize(("n", "bound"), [(4, 1.1), (20, 1.02), (60, 1.0), (200, 1.0)])
    def test_few_rows_do_not_make_it_worse_than_uniform_weights(self, n, bound):
        """At full width, a matrix that is fitted on few rows stays close to the identity."""
        ratios = []
        for seed in range(5):
            X = np.random.default_rng(seed).normal(size=(n + 500, 4))
            matrix, plain = (
                held_out_error(
                    FourierFeatures(length_scale=2.0, n_frequencies=32, weighting=weighting, random_state=seed),
                    X[:n],
                    X[n:],
                )
                for weighting in ("matrix", "uniform")
            )
            ratios.append(matrix / plain)
        assert np.mean(ratios) < bound

    @pytest.mark.parametrize("refine", [0, 5])
    @pytest.mark.parametrize("dtype", [np.float64, np.float32])
    def test_positive_semidefinite_in_both_precisions(self, digits, dtype, refine):
        X = digits[:300].astype(dtype)
        features = FourierFeatures(n_frequencies=60, n_components=20, weighting="matrix", refine=refine, random_state=0)
        approximate = features.fit(X).approximate_kernel(X)
        assert approximate.dtype == features.matrix_.dtype == dtype
        values = np.linalg.eigvalsh(approximate.astype(float))
        assert values.min() > -10 * np.finfo(dtype).eps * values.max()

    def test_transform_does_not_hold_the_pool_of_all_rows(self, rng):
        X = rng.normal(size=(20_000, 4))
        features = FourierFeatures(n_frequencies=512, n_components=8, weighting="matrix", random_state=0).fit(X[:500])
        features.transform(X[:10])
        tracemalloc.start()
        out = features.transform(X)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < out.nbytes + 16 * 2**20 < X.shape[0] * 1024 * 8 / 8

    def test_sparse_equals_dense(self, rng):
        X = sparse.random_array((300, 20), density=0.2, format="csr", rng=rng)
        features = FourierFeatures(n_frequencies=30, n_components=9, weighting="matrix", refine=3, random_state=0)
        dense = clone(features).fit(X.toarray())
        np.testing.assert_allclose(
            features.fit(X).approximate_kernel(X), dense.approximate_kernel(X.toarray()), atol=1e-6
        )

    def test_length_scale_per_column_equals_rescaled_columns(self, rng):
        X, scales = rng.normal(size=(200, 3)), np.array([0.5, 1.0, 20.0])
        features = FourierFeatures(length_scale=scales, n_frequencies=60, weighting="matrix", refine=5, random_state=0)
        in_units = clone(features).set_params(length_scale=1.0).fit(X / scales)
        np.testing.assert_allclose(features.fit(X).transform(X), in_units.transform(X / scales), atol=1e-8)


def test_structured_frequencies_that_are_not_refined_stay_fast(rng):
    X = rng.normal(size=(3, 512))
    features = FourierFeatures(sampler="sorf", n_frequencies=512, refine=1, random_state=0).fit(X)
    assert features._frequencies.is_fast


def test_refinement_does_not_depend_on_the_scale_of_sample_weights(digits):
    X, counts = digits[:300], np.arange(300) % 3 + 1.0
    once, scaled = (
        FourierFeatures(n_frequencies=16, refine=10, random_state=0).fit(X, sample_weight=counts * scale)
        for scale in (1.0, 1 / 64)
    )
    np.testing.assert_allclose(once.frequencies_, scaled.frequencies_, rtol=1e-6, atol=1e-8)


def test_refinement_moves_frequencies(digits):
    plain, refined = (FourierFeatures(n_frequencies=16, refine=n, random_state=0).fit(digits) for n in (0, 10))
    assert (plain.frequencies_ != refined.frequencies_).any()
    assert plain.length_scale_ == refined.length_scale_
    assert refined.weights_.min() >= 0.0


@pytest.mark.parametrize(
    ("kernel", "length_scale"),
    mostly_slow([("gaussian", 0.5), ("gaussian", 2.0), ("laplacian", 1.0), ("matern", 1.0)], KERNELS, [0.5, 1.0, 2.0]),
)
def test_refinement_is_never_worse_on_held_out_rows(digits, kernel, length_scale):
    sampler = "orthogonal" if issubclass(KERNELS[kernel], IsotropicKernel) else "sobol"
    rows, held_out = digits[::2], digits[1::2]
    features = FourierFeatures(
        kernel, sampler=sampler, length_scale=10 * length_scale, n_frequencies=24, random_state=0
    )
    before = held_out_error(features, rows, held_out)
    assert held_out_error(features.set_params(refine=25), rows, held_out) <= before


class TestSuggestion:
    @pytest.fixture
    def rows(self, digits):
        return digits[:400]

    def test_suggested_size_reaches_the_tolerance_and_is_not_much_larger(self, digits):
        rows, held_out = digits[::2], digits[1::2]
        size = FourierFeatures(random_state=0).suggest(rows, tolerance=0.05).n_frequencies

        def errors(n_frequencies):
            return [
                held_out_error(FourierFeatures(n_frequencies=n_frequencies, random_state=seed), rows, held_out)
                for seed in range(1, 9)
            ]

        assert np.mean(np.array(errors(size)) <= 0.05) >= 0.8
        assert np.mean(errors(int(size / 1.5))) > 0.05

    def test_auto_uses_the_suggestion(self, rows):
        features = FourierFeatures(n_frequencies="auto", tolerance=0.1, random_state=3)
        suggested = features.suggest(rows)
        assert len(features.fit(rows).weights_) == suggested.n_frequencies
        assert features.kernel_error(rows, random_state=0).error < 0.1

    def test_tolerance_of_the_estimator_is_the_default(self, rows):
        features = FourierFeatures(tolerance=0.2, random_state=0)
        assert features.suggest(rows) == features.suggest(rows, 0.2)
        assert features.suggest(rows).n_frequencies < features.suggest(rows, tolerance=0.1).n_frequencies

    def test_auto_with_a_matrix_chooses_the_number_of_columns(self, rows):
        features = FourierFeatures(n_frequencies="auto", tolerance=0.05, weighting="matrix", random_state=0).fit(rows)
        n_frequencies, n_components, error = features.suggest(rows)
        assert features.transform(rows[:2]).shape[1] == n_components
        assert n_frequencies == 12 * n_components
        assert error < 0.05
        assert features.kernel_error(rows, random_state=0).error < 0.05

    def test_suggest_leaves_the_estimator_unfitted(self, rows):
        features = FourierFeatures(random_state=0)
        features.suggest(rows, tolerance=0.2)
        with pytest.raises(NotFittedError):
            features.transform(rows)

    @pytest.mark.parametrize("weighting", ["stein", "matrix"])
    def test_size_does_not_depend_on_the_scale_of_sample_weights(self, rng, weighting):
        """The chosen size also reaches the tolerance on rows that were not used for the choice."""
        X, others = rng.normal(size=(2, 300, 6))
        options = {"n_frequencies": "auto", "tolerance": 0.2, "length_scale": 2.0, "weighting": weighting}
        sizes = []
        for scale in (1e-3, 1.0, 2.0):
            features = FourierFeatures(**options, random_state=0).fit(X, sample_weight=np.full(300, scale))
            sizes.append(len(features.weights_))
            assert relative_error(features, others) <= 0.2
        assert sizes[0] == sizes[1] == sizes[2]

    def test_few_rows_leave_the_pool_of_a_matrix_uncompressed(self, rng):
        X = rng.normal(size=(12, 3))
        features = FourierFeatures(weighting="matrix", n_frequencies="auto", tolerance=0.1, random_state=0).fit(X)
        assert features.matrix_.shape == (2 * len(features.weights_),) * 2
        assert features.kernel_error(X, random_state=0).error < 0.1

    def test_given_number_of_columns_is_kept(self, rows):
        features = FourierFeatures(n_frequencies="auto", tolerance=0.3, n_components=60, random_state=0).fit(rows)
        assert features.transform(rows[:2]).shape[1] == 60

    @pytest.mark.parametrize("arguments", [{"tolerance": 0.0}, {"tolerance": "2 %"}, {"confidence": 1.0}])
    def test_bad_arguments_are_named(self, rows, arguments):
        with pytest.raises(ValueError, match=f"`{next(iter(arguments))}` must be between 0 and 1"):
            FourierFeatures().suggest(rows, **arguments)

    def test_unreachable_tolerance(self, digits):
        with pytest.raises(ValueError, match=r"An error of 0\.0001 needs about \d+ frequencies"):
            FourierFeatures(sampler="mc", weighting="uniform", random_state=0).suggest(digits, tolerance=1e-4)


class TestPreparedMap:
    """`feature_map_` is made once per fit and is not part of the stored state."""

    def test_columns_and_dtype(self, digits):
        features = FourierFeatures(n_frequencies=8, n_components=5, random_state=0).fit(digits[:100].astype(np.float32))
        assert features.feature_map_.n_columns == 5
        assert features.feature_map_.dtype == np.float32
        assert not hasattr(FourierFeatures(), "feature_map_")

    @pytest.mark.parametrize("options", [{}, {"weighting": "matrix"}, {"sampler": "sorf"}], ids=str)
    @pytest.mark.parametrize("duplicate", [deepcopy, lambda fitted: pickle.loads(pickle.dumps(fitted))])
    @pytest.mark.usefixtures("structured_sorf")
    def test_copies_have_a_map_of_their_own(self, digits, options, duplicate):
        features = FourierFeatures(n_frequencies=8, random_state=0, **options).fit(digits[:100])
        assert "feature_map_" not in features.__getstate__()
        other = duplicate(features)
        assert other.feature_map_ is not features.feature_map_
        np.testing.assert_array_equal(other.transform(digits[:10]), features.transform(digits[:10]))
        assert other.get_feature_names_out().tolist() == features.get_feature_names_out().tolist()

    def test_unfitted_copies_and_clones_have_none(self, digits):
        features = FourierFeatures(n_frequencies=8, random_state=0)
        assert not hasattr(pickle.loads(pickle.dumps(features)), "feature_map_")
        assert not hasattr(deepcopy(features), "feature_map_")
        assert not hasattr(clone(features.fit(digits[:100])), "feature_map_")

    def test_refit_replaces_the_map(self, digits):
        features = FourierFeatures(n_frequencies=8, random_state=0).fit(digits[:100])
        first = features.feature_map_
        features.set_params(n_frequencies=3).fit(digits[:100, :20])
        assert features.feature_map_ is not first
        assert features.feature_map_.n_columns == 6
        assert features.transform(digits[:10, :20]).shape == (10, 6)
        assert first.n_columns == 16


X = np.random.default_rng(0).normal(size=(20, 3))
DEGENERATE = {
    "one row": [[1.0, 2.0, 3.0]],
    "one column": [[1.0], [2.0], [4.0]],
    "one value": [[7.0]],
    "equal rows": np.ones((6, 2)),
    "zeros": np.zeros((6, 2)),
    "constant column": np.column_stack([X[:, 0], np.ones(20)]),
    "huge values": 1e30 * X,
    "tiny values": 1e-30 * X,
    "huge float32": 1e30 * X.astype(np.float32),
    "integers": np.arange(12).reshape(6, 2),
    "booleans": X > 0,
    "objects": X.astype(object),
}
SIZES = [1, 50]
# The fast lane has every pair of a part, or a number of frequencies, and data.
FAST_DEGENERATE = set(
    covering_set([(*parts, name, size) for parts, name, size in product(COVERING_COMBINATIONS, DEGENERATE, SIZES)])
)


def check_finite(features, X):
    Z = features.fit_transform(X, np.arange(len(X)))  # targets, for weightings that need them
    assert np.isfinite(Z).all()
    assert np.isfinite(features.exact_kernel(X)).all()
    assert np.isfinite(features.kernel_error(X)).all()


@pytest.mark.parametrize(
    ("kernel", "sampler", "weighting", "data", "n_frequencies"),
    [
        pytest.param(*case, marks=[] if case in FAST_DEGENERATE else pytest.mark.slow)
        for case in [(*parts, name, size) for parts, name, size in product(VALID_COMBINATIONS, DEGENERATE, SIZES)]
    ],
)
def test_degenerate_data_give_finite_features(kernel, sampler, weighting, data, n_frequencies):
    features = FourierFeatures(
        kernel, sampler=sampler, weighting=weighting, n_frequencies=n_frequencies, random_state=0
    )
    check_finite(features, DEGENERATE[data])


class TestBadInput:
    """Bad input raises an error message that names the parameter and the value; few rows give finite features."""

    X = X

    @pytest.mark.parametrize("n_components", [1, 7])
    @pytest.mark.parametrize("n_rows", [1, 2, 4, 6])
    def test_few_rows_give_finite_features(self, n_rows, n_components):
        options = {"weighting": "matrix", "n_frequencies": 5, "n_components": n_components, "refine": 3}
        check_finite(FourierFeatures(**options, random_state=0), self.X[:n_rows])
        check_finite(FourierFeatures(**options, random_state=0), np.ones((n_rows, 2)))
        check_finite(FourierFeatures(n_frequencies="auto", tolerance=0.3, random_state=0), self.X[:n_rows])

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            ({"n_components": 9, "weighting": "matrix", "n_frequencies": 4}, "is more than the 8 columns of"),
            ({"n_components": 0}, "'n_components' parameter"),
            ({"n_frequencies": "many"}, "'n_frequencies' parameter"),
            ({"refine": -1}, "'refine' parameter"),
            ({"refine": 1.5}, "'refine' parameter"),
            ({"tolerance": 0}, "'tolerance' parameter"),
            ({"weighting": Matrix(alphas=[-1.0])}, "`alphas` must be a non-empty sequence of non-negative"),
        ],
    )
    def test_invalid_options(self, options, message):
        with pytest.raises(ValueError, match=message):
            FourierFeatures(**options).fit(self.X)

    @pytest.mark.parametrize(("value", "message"), [(np.nan, "contains NaN"), (np.inf, "contains infinity")])
    def test_missing_and_infinite_values(self, value, message):
        X = self.X.copy()
        X[3, 1] = value
        with pytest.raises(ValueError, match=message):
            FourierFeatures().fit(X)
        with pytest.raises(ValueError, match=message):
            FourierFeatures(n_frequencies=2).fit(self.X).transform(X)

    @pytest.mark.parametrize("dtype", [np.float64, np.float32])
    def test_values_too_large_for_the_length_scale(self, dtype):
        X = self.X.astype(dtype)
        X[3, 1] = 1e30
        message = r"X contains values up to 1e\+30 in column 1, which is .* times the length scale.*[Rr]escale"
        with pytest.raises(ValueError, match=message):
            FourierFeatures().fit(X)
        fitted = FourierFeatures(n_frequencies=2).fit(self.X.astype(dtype))
        for method in (fitted.transform, fitted.exact_kernel, fitted.approximate_kernel, fitted.kernel_error):
            with pytest.raises(ValueError, match=message):
                method(X)

    @pytest.mark.parametrize(("dtype", "factor"), [(np.float64, 1e-320), (np.float32, 1e-44)])
    def test_subnormal_values(self, dtype, factor):
        with pytest.raises(ValueError, match=r"length scale .* is so short that frequencies overflow"):
            FourierFeatures().fit((self.X.astype(np.longdouble) * factor).astype(dtype))

    def test_text(self):
        with pytest.raises(ValueError, match=r"Column 0 contains 'a', which is not a number"):
            FourierFeatures().fit([["a", "b"], ["c", "d"]])

    def test_wrong_number_of_columns(self):
        with pytest.raises(ValueError, match="X has 2 features, but FourierFeatures is expecting 3"):
            FourierFeatures(n_frequencies=2).fit(self.X).transform(self.X[:, :2])

    @pytest.mark.parametrize("n_frequencies", [0, -1, 2.5, "many"])
    def test_number_of_frequencies(self, n_frequencies):
        with pytest.raises(ValueError, match=r"'n_frequencies' parameter .* Got"):
            FourierFeatures(n_frequencies=n_frequencies).fit(self.X)

    @pytest.mark.parametrize(
        ("parameter", "known"),
        [
            ("kernel", "rational_quadratic"),
            ("sampler", "orthogonal"),
            ("weighting", "quadrature"),
            ("length_scale", "median"),
        ],
    )
    def test_unknown_names_list_the_known_ones(self, parameter, known):
        with pytest.raises(ValueError, match=f"'{parameter}' parameter .*'{known}'.* Got 'unknown' instead"):
            FourierFeatures(**{parameter: "unknown"}).fit(self.X)

    @pytest.mark.parametrize("length_scale", [0, -1.0, np.nan, np.inf, None])
    def test_length_scale_out_of_range(self, length_scale):
        with pytest.raises(ValueError, match=r"'length_scale' parameter .* Got"):
            FourierFeatures(length_scale=length_scale).fit(self.X)

    @pytest.mark.parametrize("length_scale", [[1.0, 2.0], [], [[1.0, 1.0, 1.0]]])
    def test_length_scale_of_the_wrong_shape(self, length_scale):
        with pytest.raises(ValueError, match=r"`length_scale` has shape .* and X has 3 columns"):
            FourierFeatures(length_scale=length_scale).fit(self.X)

    @pytest.mark.parametrize("length_scale", [[1.0, 0.0, 1.0], [1.0, -2.0, 1.0], [1.0, np.nan, 1.0]])
    def test_length_scale_that_is_not_positive(self, length_scale):
        with pytest.raises(ValueError, match="`length_scale` must contain positive, finite numbers only"):
            FourierFeatures(length_scale=length_scale).fit(self.X)

    def test_length_scale_with_text(self):
        with pytest.raises(ValueError, match="`length_scale` must contain numbers only"):
            FourierFeatures(length_scale=["a", "b", "c"]).fit(self.X)

    @pytest.mark.parametrize("kernel", ["laplacian", "cauchy"])
    def test_incompatible_parts(self, kernel):
        with pytest.raises(ValueError, match=r"not compatible with sampler Orthogonal.*not isotropic"):
            FourierFeatures(kernel, sampler="orthogonal").fit(self.X)

    @pytest.mark.parametrize(
        ("parameter", "part", "name"),
        [
            ("kernel", Matern(nu=-1), "nu"),
            ("weighting", Stein(sketch="rows"), "sketch"),
            ("weighting", Stein(n_points=0), "n_points"),
            ("weighting", Stein(sampling="leverage"), "sampling"),
            ("weighting", Quadrature(n_pairs=0), "n_pairs"),
        ],
    )
    def test_parameters_of_parts(self, parameter, part, name):
        with pytest.raises(ValueError, match=f"'{name}' parameter of {type(part).__name__} must"):
            FourierFeatures(**{parameter: part}).fit(self.X)

    @pytest.mark.parametrize(("parameter", "kind"), [("kernel", Matern), ("sampler", Orthogonal), ("weighting", Stein)])
    def test_class_instead_of_a_part(self, parameter, kind):
        with pytest.raises(ValueError, match=f"'{parameter}' parameter .* or an instance of .* Got <class"):
            FourierFeatures(**{parameter: kind}).fit(self.X)
