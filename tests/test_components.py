# SPDX-License-Identifier: BSD-3-Clause
"""What user-written samplers, weightings, landmark selections, kernels and learners return is checked."""

import re

import numpy as np
import pytest
from scipy import sparse
from sklearn.metrics.pairwise import linear_kernel

from bochner import FourierFeatures, LandmarkFeatures
from bochner.kernels import Gaussian, Kernel
from bochner.landmarks import LandmarkSelection
from bochner.rows import Metric
from bochner.samplers import Sampler
from bochner.weightings import Weighting

X, Y = np.random.default_rng(0).normal(size=(40, 3)), np.arange(40.0)


class Own(Weighting, Sampler, LandmarkSelection):
    """A component of any kind that returns a given value."""

    def __init__(self, value, compressed=None):
        self.value = value
        self.compressed = compressed

    def give(self, *arguments):
        return self.value

    weigh = sample = select = learn = give

    def compress(self, *arguments):
        return self.compressed


class OwnKernel(Kernel):
    """A Gaussian kernel with given values, or given frequencies."""

    def __init__(self, values=None, frequency=None):
        self.values = values
        self.frequency = frequency

    def at(self, differences):
        return Gaussian().at(differences) if self.values is None else self.values(differences)

    def uniform_dim(self, n_features):
        return n_features

    def frequencies(self, uniforms):
        return Gaussian().frequencies(uniforms) if self.frequency is None else np.full(uniforms.shape, self.frequency)

    log_embedding = None


def fourier(**parameters):
    return FourierFeatures(n_frequencies=8, random_state=0, **parameters)


def one_nan(*shape):
    array = np.ones(shape)
    array.flat[-1] = np.nan
    return array


WEIGHTS = "return one non-negative, finite number per frequency, as an array of shape (8,)."
FREQUENCIES = "return one frequency of finite numbers per row, as an array of shape (8, 3)."


@pytest.mark.parametrize(
    ("features", "message"),
    [
        (
            fourier(weighting=Own(np.ones(3))),
            f"`weighting` Own.weigh returned an array of shape (3,); {WEIGHTS}",
        ),
        (fourier(weighting=Own(np.ones((8, 1)))), f"Own.weigh returned an array of shape (8, 1); {WEIGHTS}"),
        (fourier(weighting=Own(-np.ones(8))), f"Own.weigh returned negative numbers; {WEIGHTS}"),
        (fourier(weighting=Own(one_nan(8))), f"Own.weigh returned NaN or infinity; {WEIGHTS}"),
        (fourier(weighting=Own(None)), f"Own.weigh returned None; {WEIGHTS}"),
        (fourier(weighting=Own("equal")), f"Own.weigh returned 'equal'; {WEIGHTS}"),
        (
            fourier(weighting=Own(np.ones(8), np.ones((8, 2))), n_components=2),
            "Own.compress returned an array of shape (8, 2); return finite numbers, as an array of shape (16, 2).",
        ),
        (
            fourier(sampler=Own(np.ones((8, 2)))),
            f"`sampler` Own.sample with `kernel` Gaussian returned an array of shape (8, 2); {FREQUENCIES}",
        ),
        (fourier(sampler=Own(np.ones((7, 3)))), f"returned an array of shape (7, 3); {FREQUENCIES}"),
        (fourier(sampler=Own(one_nan(8, 3))), f"returned NaN or infinity; {FREQUENCIES}"),
        (fourier(sampler=Own(np.ones((8, 2))), length_scale="learn"), f"shape (8, 2); {FREQUENCIES}"),
        (
            fourier(kernel=OwnKernel(frequency=np.inf)),
            f"`sampler` Halton.sample with `kernel` OwnKernel returned NaN or infinity; {FREQUENCIES}",
        ),
        (
            fourier(kernel=OwnKernel(lambda differences: 0.5)),
            "`kernel` OwnKernel.at returned 0.5; return one finite number per difference",
        ),
        (
            LandmarkFeatures(OwnKernel(lambda differences: differences)),
            "`kernel` OwnKernel.at returned an array of shape (3, 3); return one finite number per difference",
        ),
        (LandmarkFeatures(OwnKernel(lambda differences: one_nan(len(differences)))), "OwnKernel.at returned NaN"),
        (
            LandmarkFeatures(landmarks=Own(X[:6, :2]), n_landmarks=9),
            "`landmarks` Own.select returned an array of shape (6, 2); return 1 to 9 rows of finite numbers, as an "
            "array of shape (6, 3).",
        ),
        (LandmarkFeatures(landmarks=Own(X[:6]), n_landmarks=5), "Own.select returned an array of shape (6, 3)"),
        (LandmarkFeatures(landmarks=Own(X[:0])), "Own.select returned an array of shape (0, 3); return 1 to 256 rows"),
        (LandmarkFeatures(landmarks=Own(sparse.csr_array(one_nan(2, 3)))), "Own.select returned NaN or infinity"),
        (
            fourier(length_scale=Own((np.ones(2), 0.0))),
            "`length_scale` Own.learn returned (array([1., 1.]), 0.0) for 3 columns; return one positive, finite",
        ),
        (fourier(length_scale=Own((one_nan(3), 0.0))), "Own.learn returned (array([ 1.,  1., nan]), 0.0)"),
        (fourier(length_scale=Own((-np.ones(3), 0.0))), "Own.learn returned (array([-1., -1., -1.]), 0.0)"),
        (fourier(length_scale=Own((Metric(np.eye(2)), 0.0))), "Own.learn returned (Metric("),
        (LandmarkFeatures(length_scale=Own(np.ones(3))), "Own.learn returned array([1., 1., 1.]) for 3 columns"),
    ],
)
def test_invalid_results_are_refused(features, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        features.fit(X, Y)


@pytest.mark.parametrize(
    "features",
    [
        fourier(weighting=Own([0, 1] * 4, np.ones((16, 2)).tolist()), n_components=2),
        fourier(sampler=Own(np.ones((8, 3), dtype=int).tolist())),
        fourier(kernel=OwnKernel()),
        fourier(length_scale=Own(([1, 2, 3], 0))),
        fourier(length_scale=Own((Metric(np.eye(3)), 0))),
        LandmarkFeatures(OwnKernel(), landmarks=Own(X[:6].tolist())),
        LandmarkFeatures(linear_kernel, landmarks=Own(X[:6])),
        LandmarkFeatures(landmarks=Own(sparse.csr_array(X[:6]))),
    ],
)
def test_lists_and_integers_are_accepted(features):
    assert np.isfinite(features.fit(X, Y).transform(X)).all()
