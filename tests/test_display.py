# SPDX-License-Identifier: BSD-3-Clause
import matplotlib as mpl

mpl.use("Agg")

import matplotlib.pyplot as plt
import numpy as np
import pytest
from sklearn.exceptions import NotFittedError

from bochner import FourierFeatures, FourierRidge, KernelErrorDisplay, WeightsDisplay, WidthDisplay


@pytest.fixture(autouse=True)
def close_figures():
    yield
    plt.close("all")


def test_kernel_errors_of_estimators(digits):
    estimators = {"plain": FourierFeatures(weighting="uniform"), "stein": FourierFeatures()}
    display = KernelErrorDisplay.from_estimators(
        estimators, digits[::4], digits[1::4], n_frequencies=[8, 32], n_repeats=2
    )
    assert display.n_columns.tolist() == [16, 64]
    assert {name: values.shape for name, values in display.errors.items()} == {"plain": (2, 2), "stein": (2, 2)}
    assert (display.errors["stein"].mean(axis=1) < display.errors["plain"].mean(axis=1)).all()
    assert (np.diff(display.errors["plain"], axis=0) < 0).all()
    assert estimators["stein"].n_frequencies == 256


def test_kernel_error_plot_has_labels():
    display = KernelErrorDisplay([16, 32], {"one": [[0.2], [0.1]], "two": [[0.15], [0.05]]}).plot()
    assert display.ax_.get_ylabel() == "relative kernel error"
    assert [text.get_text() for text in display.ax_.get_legend().get_texts()] == ["one", "two"]
    display.figure_.canvas.draw()
    assert "10 %" in [label.get_text() for label in display.ax_.get_yticklabels()]


def test_lines_have_distinct_markers():
    errors = {str(i): [[0.1 * (i + 1)], [0.05 * (i + 1)]] for i in range(6)}
    lines = KernelErrorDisplay([2, 4], errors).plot().ax_.get_lines()
    assert len({line.get_marker() for line in lines if line.get_marker() not in ("", "None")}) == 6


def test_weights_histogram_counts_all_frequencies(rng):
    features = FourierFeatures(n_frequencies=40, random_state=0).fit(rng.normal(size=(100, 3)))
    ax = plt.figure().subplots()
    display = WeightsDisplay.from_estimator(features, ax=ax)
    assert display.ax_ is ax
    assert sum(patch.get_height() for patch in ax.patches) == 40
    assert ax.get_lines()[0].get_xdata()[0] == pytest.approx(1 / 40)


def test_unfitted_estimator_is_rejected():
    with pytest.raises(NotFittedError):
        WeightsDisplay.from_estimator(FourierFeatures())


def test_errors_against_widths(digits):
    y = digits[:200, 20] + digits[:200, 30]
    model = FourierRidge(widths=(4, 16, 64), random_state=0).fit(digits[:200], y)
    display = WidthDisplay.from_estimator(model)
    (line,) = (container[0] for container in display.ax_.containers)
    np.testing.assert_allclose(line.get_ydata(), model.width_errors_.mean(axis=1))
    assert line.get_xdata().tolist() == [4, 16, 64]
    bars = display.ax_.containers[0][2][0].get_segments()
    half = (bars[0][1, 1] - bars[0][0, 1]) / 2
    assert half == pytest.approx(model.width_errors_[0].std(ddof=1) / np.sqrt(5))
    labels = [text.get_text() for text in display.ax_.get_legend().get_texts()]
    assert f"chosen: {model.width_}" in labels


def test_errors_against_widths_of_one_fold():
    display = WidthDisplay([4, 16], [[2.0], [1.0]]).plot()
    assert display.ax_.get_xlabel() == "width"
