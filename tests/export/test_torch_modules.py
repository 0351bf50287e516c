# SPDX-License-Identifier: BSD-3-Clause
"""Torch modules compared with estimators: values, gradients, stored modules and training."""

import io
import pickle

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.kernel_approximation import Nystroem
from sklearn.metrics.pairwise import linear_kernel
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from bochner import (
    FeatureClassifier,
    FeatureRegressor,
    FourierFeatures,
    LandmarkFeatures,
    TableEncoder,
)
from bochner.export import to_torch
from bochner.kernels import KERNELS, Gaussian, Matern
from bochner.losses import CLASSIFICATION_LOSSES, Quantile

torch = pytest.importorskip("torch", reason="torch is not installed: pip install 'bochner[torch]'")

X = np.random.default_rng(0).normal(size=(200, 4))
Y = np.random.default_rng(1).normal(size=(30, 4))
TARGETS = np.sin(2.0 * X[:, 0]) + X[:, 1] * X[:, 2]
FEATURES = {
    "fourier": lambda kernel: FourierFeatures(kernel, n_frequencies=32),
    "landmarks": lambda kernel: LandmarkFeatures(kernel, n_landmarks=32),
}


@pytest.fixture(scope="module")
def ridge():
    return FeatureRegressor(FourierFeatures(n_frequencies=32), random_state=0).fit(X, TARGETS)


@pytest.mark.parametrize("kind", FEATURES)
@pytest.mark.parametrize("kernel", KERNELS)
class TestKernels:
    """Every kernel, for Fourier and landmark features."""

    def test_values(self, kernel, kind):
        for dtype, tolerance in ((np.float64, 1e-12), (np.float32, 2e-5)):
            features = FEATURES[kind](kernel).set_params(random_state=0).fit(X.astype(dtype))
            rows = torch.tensor(Y.astype(dtype))
            result = to_torch(features)(rows)
            assert result.dtype == rows.dtype
            np.testing.assert_allclose(result.numpy(), features.transform(Y.astype(dtype)), rtol=0, atol=tolerance)

    def test_gradients_are_finite_differences(self, kernel, kind):
        model = FeatureRegressor(FEATURES[kind](kernel), random_state=0).fit(X, TARGETS)
        rows = torch.tensor(Y, requires_grad=True)
        to_torch(model)(rows).sum().backward()
        step = 1e-5
        steps = step * np.eye(4)
        differences = np.stack([model.predict(Y + e) - model.predict(Y - e) for e in steps], axis=1) / (2.0 * step)
        np.testing.assert_allclose(rows.grad.numpy(), differences, rtol=0, atol=1e-7)
        np.testing.assert_allclose(rows.grad.numpy(), model.gradients(Y)[:, :, 0], rtol=0, atol=1e-11)
        assert torch.autograd.gradcheck(to_torch(model), torch.tensor(Y[:3], requires_grad=True))


def test_gradient_at_a_kink_is_zero():
    features = LandmarkFeatures("exponential", landmarks="uniform", n_landmarks=1, random_state=0).fit(X)
    rows = torch.tensor(features.landmarks_, requires_grad=True)
    to_torch(features)(rows).sum().backward()
    assert (rows.grad == 0.0).all()


class TestModels:
    """Modules of linear models and pipelines."""

    @pytest.mark.parametrize("n_targets", [1, 2])
    def test_ridge(self, n_targets):
        targets = TARGETS if n_targets == 1 else np.stack([TARGETS, X[:, 3]], axis=1)
        model = FeatureRegressor(FourierFeatures(n_frequencies=32), random_state=0).fit(X, targets)
        expected = model.predict(Y)
        result = to_torch(model)(torch.tensor(Y))
        assert result.shape == expected.shape
        np.testing.assert_allclose(result.numpy(), expected, rtol=0, atol=1e-12)

    def test_several_quantiles_are_refused(self):
        model = FeatureRegressor(FourierFeatures(n_frequencies=16), loss=Quantile([0.1, 0.9]), cv=3).fit(X, TARGETS)
        with pytest.raises(ValueError, match="no model of 2 quantiles at once; fit one model per level"):
            to_torch(model)

    @pytest.mark.parametrize("loss", ["gamma", Quantile(0.9)], ids=repr)
    def test_losses_of_regressions(self, loss):
        model = FeatureRegressor(FourierFeatures(n_frequencies=16), loss=loss, cv=3, random_state=0)
        expected = model.fit(X, TARGETS - TARGETS.min() + 0.1).predict(Y)
        result = to_torch(model)(torch.tensor(Y))
        np.testing.assert_allclose(result.numpy(), expected, rtol=1e-12, atol=1e-12)

    @pytest.mark.parametrize("loss", CLASSIFICATION_LOSSES)
    @pytest.mark.parametrize("n_classes", [2, 10])
    def test_classifiers(self, loss, n_classes):
        digits, labels = load_digits(return_X_y=True)
        labels = labels if n_classes == 10 else labels > 4
        model = FeatureClassifier(FourierFeatures(n_frequencies=32), loss=loss, cv=3, random_state=0)
        model.fit(digits[:500], labels[:500])
        rows = torch.tensor(digits[500:600])
        scores = to_torch(model)(rows)
        np.testing.assert_allclose(scores.numpy(), model.decision_function(digits[500:600]), rtol=0, atol=1e-12)
        if loss == "log_loss":
            for method in ("predict_proba", "predict_log_proba"):
                result, expected = getattr(to_torch(model), method)(rows), getattr(model, method)(digits[500:600])
                np.testing.assert_allclose(result.numpy(), expected, rtol=0, atol=1e-12)

    def test_pipeline(self):
        model = make_pipeline(
            StandardScaler(), FeatureRegressor(FourierFeatures(n_frequencies=32), random_state=0)
        ).fit(X, TARGETS)
        result = to_torch(model)(torch.tensor(Y))
        np.testing.assert_allclose(result.numpy(), model.predict(Y), rtol=0, atol=1e-12)

    def test_pipeline_as_features(self):
        features = make_pipeline(StandardScaler(with_mean=False), "passthrough", LandmarkFeatures(n_landmarks=16))
        model = FeatureRegressor(features, random_state=0).fit(X, TARGETS)
        np.testing.assert_allclose(to_torch(model)(torch.tensor(Y)).numpy(), model.predict(Y), rtol=0, atol=1e-11)


@pytest.mark.parametrize(
    "features",
    [
        FourierFeatures(length_scale=[1.0, 2.0, 0.5, 3.0]),
        FourierFeatures(length_scale="learn-matrix", n_frequencies=16),
        FourierFeatures(weighting="matrix", n_frequencies=32, n_components=10),
        LandmarkFeatures(length_scale=[1.0, 2.0, 0.5, 3.0], n_landmarks=16),
        LandmarkFeatures(length_scale="learn-matrix", n_landmarks=16),
        *(LandmarkFeatures(Matern(nu), n_landmarks=16) for nu in (2.5, 3.5, 19.5)),
    ],
    ids=repr,
)
def test_fitted_arrays_of_features(features):
    features = clone(features).set_params(random_state=0).fit(X, TARGETS)
    np.testing.assert_allclose(to_torch(features)(torch.tensor(Y)).numpy(), features.transform(Y), rtol=0, atol=1e-12)


class Own(Gaussian):
    """A kernel of a user."""


@pytest.mark.parametrize(
    ("estimator", "message"),
    [
        (LandmarkFeatures(linear_kernel, n_landmarks=5), "has no formula in torch"),
        (LandmarkFeatures(Own(), n_landmarks=5), r"The kernel Own\(\) has no formula in torch; use"),
        (LandmarkFeatures(Matern(0.7), n_landmarks=5), r"Matern\(nu=0.7\) has no formula in torch"),
        (FeatureRegressor(Nystroem(n_components=5)), "Nystroem has no torch module; give FourierFeatures"),
        (TableEncoder(), "TableEncoder has no torch module"),
    ],
)
def test_estimators_without_a_module(estimator, message):
    with pytest.raises(ValueError, match=message):
        to_torch(clone(estimator).fit(X, TARGETS))


class TestModules:
    """What torch does with modules."""

    def test_state_round_trip(self, ridge):
        other = to_torch(FeatureRegressor(FourierFeatures(n_frequencies=32), random_state=1).fit(X, -TARGETS))
        file = io.BytesIO()
        torch.save(to_torch(ridge, trainable=("frequencies",)).state_dict(), file)
        file.seek(0)
        other.load_state_dict(torch.load(file))
        assert torch.equal(other(torch.tensor(Y)), to_torch(ridge)(torch.tensor(Y)))

    def test_pickle(self, ridge):
        module = to_torch(ridge)
        assert torch.equal(pickle.loads(pickle.dumps(module))(torch.tensor(Y)), module(torch.tensor(Y)))

    def test_conversion_to_float32(self, ridge):
        result = to_torch(ridge).float()(torch.tensor(Y, dtype=torch.float32))
        assert result.dtype == torch.float32
        np.testing.assert_allclose(result.numpy(), ridge.predict(Y), rtol=0, atol=1e-4)

    def test_fitted_arrays(self, ridge):
        module = to_torch(ridge)
        features = ridge.features_
        np.testing.assert_array_equal(module.coef.numpy()[:, 0], ridge.coef_)
        np.testing.assert_allclose((module.features.amplitudes**2).numpy(), features.weights_, rtol=1e-14)
        frequencies = (module.features.frequencies / module.features.length_scales).numpy()
        np.testing.assert_allclose(frequencies, features.frequencies_, rtol=1e-14)

    def test_trainable_arrays_are_parameters(self, ridge):
        assert not list(to_torch(ridge).parameters())
        module = to_torch(ridge, trainable=("frequencies", "weights", "coef"))
        names = {name for name, _ in module.named_parameters()}
        assert names == {"features.frequencies", "features.amplitudes", "coef"}

    def test_training_does_not_change_the_estimator(self, ridge):
        before = ridge.predict(Y)
        module = to_torch(ridge, trainable=("frequencies", "coef"))
        with torch.no_grad():
            for parameter in module.parameters():
                parameter.zero_()
        np.testing.assert_array_equal(ridge.predict(Y), before)

    def test_unknown_name(self, ridge):
        with pytest.raises(ValueError, match="`trainable` contains 'landmarks', which this estimator does not have"):
            to_torch(ridge, trainable=("landmarks",))

    def test_representation(self, ridge):
        assert "frequencies=(32, 4), amplitudes=(32,), length_scales=()" in repr(to_torch(ridge))


def train(module, loss_of, n_steps=100):
    """Minimize a loss by Adam and return its first and its last value."""
    optimizer = torch.optim.Adam(module.parameters(), lr=0.02)
    losses = []
    for _ in range(n_steps):
        optimizer.zero_grad()
        loss = loss_of(module)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses[0], losses[-1]


@pytest.mark.parametrize(
    ("features", "name"),
    [(FourierFeatures(n_frequencies=8), "frequencies"), (LandmarkFeatures(n_landmarks=8), "landmarks")],
    ids=["frequencies", "landmarks"],
)
def test_training_a_model_lowers_its_loss(features, name):
    rows = np.random.default_rng(0).uniform(-1.0, 1.0, size=(500, 2))
    tensor, targets = torch.tensor(rows), torch.tensor(np.sin(6.0 * rows[:, 0] * rows[:, 1]))
    model = FeatureRegressor(features, random_state=0).fit(rows, targets)

    def loss_of(module):
        return torch.mean((module(tensor) - targets) ** 2)

    linear = ("coef", "intercept")
    first, without = train(to_torch(model, trainable=linear), loss_of)
    _, last = train(to_torch(model, trainable=(name, *linear)), loss_of)
    assert without > 0.99 * first  # the coefficients are at their optimum already
    assert last < 0.9 * first


def test_training_approximates_another_kernel():
    rows = torch.tensor(Y)
    exact = torch.tensor(FourierFeatures(length_scale=1.5).fit(Y).exact_kernel(Y))
    features = FourierFeatures(n_frequencies=256, length_scale=3.0, random_state=0).fit(X)

    def loss_of(module):
        return torch.mean((module(rows) @ module(rows).T - exact) ** 2)

    module = to_torch(features, trainable=("length_scales",))
    first, last = train(module, loss_of, n_steps=200)
    assert last < 0.01 * first
    assert module.length_scales.item() == pytest.approx(1.5, rel=0.05)
    first, last = train(to_torch(features, trainable=("weights",)), loss_of)
    assert last < 0.1 * first
