# SPDX-License-Identifier: BSD-3-Clause
"""Reference errors on the paper's data: relative Frobenius error of the kernel on held-out rows."""

import numpy as np
import pytest
from sklearn.kernel_approximation import Nystroem
from sklearn.preprocessing import StandardScaler

from bochner import FourierFeatures

# (data set, number of frequencies) -> errors with uniform weights and with Stein weights, for each of SAMPLERS: means
# over four seeds. The length scale is the median distance, the weights are fitted on all pairs of 2,000 training rows,
# and the errors are those on 2,000 held-out rows.
SAMPLERS = ("mc", "halton", "sobol", "orthogonal")
REFERENCE = {
    ("cpu", 64): [(0.0837, 0.0643), (0.0817, 0.0650), (0.0811, 0.0628), (0.0662, 0.0521)],
    ("cpu", 256): [(0.0434, 0.0267), (0.0412, 0.0250), (0.0325, 0.0240), (0.0348, 0.0241)],
    ("adult", 64): [(0.1033, 0.0978), (0.0987, 0.0924), (0.0982, 0.0945), (0.0812, 0.0783)],
    ("adult", 256): [(0.0527, 0.0473), (0.0470, 0.0430), (0.0373, 0.0352), (0.0283, 0.0268)],
    ("covtype", 64): [(0.0985, 0.0801), (0.0922, 0.0751), (0.0942, 0.0804), (0.0654, 0.0520)],
    ("covtype", 256): [(0.0504, 0.0323), (0.0404, 0.0291), (0.0252, 0.0208), (0.0280, 0.0217)],
}


def load(folder, name):
    """Return standardized training and test rows; the rows of covtype are split at random, as it has no test set."""
    with np.load(folder / f"{name}.npz") as archive:
        if "X" in archive:
            X = archive["X"][np.random.default_rng(0).permutation(len(archive["X"]))].astype(float)
            train, test = X[:20_000], X[20_000:40_000]
        else:
            train, test = (
                next(archive[key] for key in archive if key.lower() == f"x_{part}") for part in ("train", "test")
            )
    scaler = StandardScaler().fit(train)
    return scaler.transform(train), scaler.transform(test)


@pytest.mark.parametrize(("name", "n_frequencies"), REFERENCE, ids=lambda value: str(value))
def test_errors_equal_the_reference_errors(paper_data, name, n_frequencies):
    """A mean over four seeds varies by up to 6 %, here and in the reference, so the bound is 20 %."""
    train, test = load(paper_data, name)
    for sampler, reference in zip(SAMPLERS, REFERENCE[name, n_frequencies], strict=True):
        errors = np.empty((4, 2))
        for seed in range(4):
            rng = np.random.default_rng(seed)
            rows = train[rng.choice(len(train), 2000, replace=False)]
            held_out = test[rng.choice(len(test), min(2000, len(test)), replace=False)]
            for j, weighting in enumerate(("uniform", "stein")):
                features = FourierFeatures(
                    n_frequencies=n_frequencies, sampler=sampler, weighting=weighting, random_state=seed
                ).fit(rows)
                exact = features.exact_kernel(held_out)
                errors[seed, j] = np.linalg.norm(exact - features.approximate_kernel(held_out)) / np.linalg.norm(exact)
        assert (errors[:, 1] < errors[:, 0]).all()
        np.testing.assert_allclose(errors.mean(axis=0), reference, rtol=0.2)


def sample_rows(folder, name, seed):
    """Return a sample of 2,000 training rows and of 2,000 held-out rows, or all rows if there are fewer."""
    train, test = load(folder, name)
    rng = np.random.default_rng(seed)
    return tuple(X[rng.choice(len(X), min(2000, len(X)), replace=False)] for X in (train, test))


def held_out_error(features, rows, held_out):
    exact = features.fit(rows).exact_kernel(held_out)
    return np.linalg.norm(exact - features.approximate_kernel(held_out)) / np.linalg.norm(exact)


@pytest.mark.parametrize("name", ["cpu", "adult", "covtype"])
def test_refinement_lowers_the_error(paper_data, name):
    """The mean ratio over four seeds is 0.54 to 0.59, and 0.32 on covtype; a single seed differs by a tenth."""
    rows, held_out = sample_rows(paper_data, name, 0)
    features = FourierFeatures(n_frequencies=32, random_state=0)
    unrefined = held_out_error(features, rows, held_out)
    assert held_out_error(features.set_params(refine=60), rows, held_out) < 0.7 * unrefined


@pytest.mark.parametrize("name", ["cpu", "adult", "covtype"])
def test_error_of_a_matrix_is_below_nystroem_and_near_the_best_rank(paper_data, name):
    rows, held_out = sample_rows(paper_data, name, 0)
    scale = FourierFeatures(n_frequencies=1, weighting="uniform", random_state=0).fit(rows).length_scale_
    features = FourierFeatures(
        length_scale=scale, n_frequencies=768, n_components=64, weighting="matrix", random_state=0
    )
    error = held_out_error(features, rows, held_out)
    landmarks = Nystroem(gamma=0.5 / scale**2, n_components=64, random_state=0).fit(rows).transform(held_out)
    exact = features.exact_kernel(held_out)
    values = np.linalg.eigvalsh(exact)[::-1]
    assert error < 0.8 * np.linalg.norm(exact - landmarks @ landmarks.T) / np.linalg.norm(exact)
    assert error < 3.0 * np.linalg.norm(values[64:]) / np.linalg.norm(values)
