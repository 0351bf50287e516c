# SPDX-License-Identifier: BSD-3-Clause
import re
from dataclasses import replace
from functools import partial
from urllib.error import URLError

import numpy as np
import pytest
from sklearn.datasets import dump_svmlight_file, load_digits
from sklearn.preprocessing import StandardScaler

from reproduction import datasets
from reproduction.datasets import NAMES, load


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """The folder of BOCHNER_DATA; downloads fail unless a test replaces them."""

    def fail(*_, **__):
        raise URLError("no route to host")

    for name in ("fetch_openml", "fetch_covtype", "fetch_file"):
        monkeypatch.setattr(datasets, name, fail)
    monkeypatch.setenv("SCIKIT_LEARN_DATA", str(tmp_path / "home"))
    (tmp_path / "data").mkdir()
    monkeypatch.setenv("BOCHNER_DATA", str(tmp_path / "data"))
    return tmp_path / "data"


def make_classes(rng, n_train, n_test, n_columns, labels=(-1, 1)):
    n_rows = n_train + n_test
    X, y = rng.integers(200, size=(n_rows, n_columns)), rng.choice(labels, size=n_rows)
    return {"X_train": X[:n_train], "y_train": y[:n_train], "X_test": X[n_train:], "y_test": y[n_train:]}


def shrink(monkeypatch, name, **changes):
    """Describe a data set of the paper as a smaller one."""
    monkeypatch.setitem(datasets.SETS, name, replace(datasets.SETS[name], **changes))


class TestFolder:
    def test_rows_and_targets_are_split_and_standardized_by_the_training_rows(self, rng, monkeypatch, folder):
        shrink(monkeypatch, "cpu", n_train=80, n_test=10, n_columns=4)
        X, y = 5 + 3 * rng.normal(size=(100, 4)), rng.normal(size=100)
        np.savez(folder / "cpu.npz", X=X, y=y[:, None])
        data = load("cpu")
        train = [row for residue in range(8) for row in range(residue, 100, 10)]
        scaler = StandardScaler().fit(X[train])
        np.testing.assert_allclose(data.X_test, scaler.transform(X[9::10]))
        np.testing.assert_array_equal(data.y_train, y[train])
        assert (data.name, data.task, data.paper, data.reduced) == ("cpu", "regression", "cpu", "")

    def test_images_become_rows_of_pixels(self, rng, monkeypatch, folder):
        shrink(monkeypatch, "mnist", n_train=20, n_test=10)
        arrays = make_classes(rng, 20, 10, 784, labels=range(10))
        X_train, y_train, X_test, y_test = arrays.values()
        images = {"x_train": X_train.reshape(-1, 28, 28), "x_test": X_test.reshape(-1, 28, 28)}
        np.savez(folder / "mnist.npz", y_train=y_train, y_test=y_test, **images)
        data = load("mnist")
        np.testing.assert_allclose(data.X_test, StandardScaler().fit(X_train).transform(X_test))
        assert (data.name, data.y_test.dtype) == ("mnist", np.int64)

    def test_target_of_census_is_the_logarithm_of_the_price(self, rng, folder):
        y = rng.lognormal(size=40)
        np.savez(folder / "census.npz", X=rng.normal(size=(40, 22)), y=y)
        data = load("census")
        np.testing.assert_allclose(data.y_test, np.log(y[9::10]))
        assert data.name == "census (36 of 20,459 rows, 22 of 119 columns)"

    def test_covtype_is_the_second_class_against_the_others(self, rng, folder):
        y = rng.integers(1, 8, size=30)
        np.savez(folder / "covtype.npz", X=rng.normal(size=(30, 54)), y=y)
        np.testing.assert_array_equal(load("covtype").y_test, (y == 2)[np.random.default_rng(0).permutation(30)[24:]])

    @pytest.mark.parametrize(
        ("n_train", "n_test", "name"),
        [
            (20, 10, "adult"),
            (20, 12, "adult"),
            (20, 9, "adult (29 of 30 rows)"),
            (19, 11, "adult (19 of 20 training rows)"),
            (40, 10, "adult (50 of 30 rows)"),
        ],
    )
    def test_incomplete_data_have_another_name(self, rng, monkeypatch, folder, n_train, n_test, name):
        shrink(monkeypatch, "adult", n_train=20, n_test=10, n_columns=4)
        np.savez(folder / "adult.npz", **make_classes(rng, n_train, n_test, 4))
        assert load("adult").name == name

    @pytest.mark.parametrize(
        ("name", "arrays", "message"),
        [
            ("cpu", {"A": np.ones(3)}, r"cpu\.npz has a; it needs X_train, y_train, X_test and y_test, or X and y"),
            ("cpu", {"X": np.ones((4, 3)), "y": np.ones(4)}, "The file of the data set cpu has too few rows"),
            ("cpu", {"X": np.full((20, 3), np.nan), "y": np.ones(20)}, "cpu has missing or infinite values"),
            ("census", {"X": np.ones((20, 3)), "y": np.zeros(20)}, "census has missing or infinite values"),
            ("adult", {"X": np.ones((20, 3)), "y": np.ones(20)}, "adult have a single class"),
        ],
    )
    def test_invalid_arrays_give_an_error_message(self, folder, name, arrays, message):
        np.savez(folder / f"{name}.npz", **arrays)
        with pytest.raises(ValueError, match=message):
            load(name)

    def test_folder_that_does_not_exist(self, folder, monkeypatch):
        monkeypatch.setenv("BOCHNER_DATA", str(folder / "none"))
        with pytest.raises(ValueError, match=r"BOCHNER_DATA is .*none, which is not a folder; give a folder with"):
            load("cpu")


def test_digits_need_no_folder():
    data = load("digits")
    X, y = load_digits(return_X_y=True)
    order = np.random.default_rng(0).permutation(1797)
    np.testing.assert_array_equal(data.y_test, y[order[1198:]])
    np.testing.assert_allclose(data.X_train, StandardScaler().fit_transform(X[order[:1198]]), atol=1e-12)
    assert (data.name, data.task, data.paper, data.reduced) == ("digits", "classification", "", "")


def test_unknown_name():
    with pytest.raises(ValueError, match="no data set 'iris'; the names are cpu, census, years, adult, mnist, cov"):
        load("iris")


@pytest.mark.usefixtures("folder")
class TestDownloads:
    def test_tables_of_openml(self, rng, monkeypatch):
        price = np.where(np.arange(100) % 7 == 0, 0.0, rng.lognormal(size=100))
        X = rng.normal(size=(100, 3))
        tables = {197: (X, price), 574: (X[:, :2], price), 218: (X[:, 1:], price)}
        monkeypatch.setattr(datasets, "fetch_openml", lambda *, data_id, **_: tables[data_id])
        cpu, census = load("cpu"), load("census")
        np.testing.assert_allclose(cpu.y_test, price[9::10] + 1)
        np.testing.assert_allclose(census.y_test, np.log(price[price > 0][9::10]))
        assert census.X_train.shape[1] == 3  # distinct columns of both tables

    def test_mnist_has_its_first_rows_for_training(self, rng, monkeypatch):
        shrink(monkeypatch, "mnist", n_train=20, n_test=10, divide=partial(datasets._by_order, 20, 10))
        y = np.resize(np.arange(10), 30)
        monkeypatch.setattr(datasets, "fetch_openml", lambda **_: (rng.normal(size=(30, 784)), y.astype(str)))
        np.testing.assert_array_equal(load("mnist").y_test, y[20:])

    @pytest.mark.parametrize("name", ["adult", "years"])
    def test_training_and_test_rows_of_libsvm(self, rng, monkeypatch, tmp_path, name):
        n_columns = datasets.SETS[name].n_columns
        shrink(monkeypatch, name, n_train=20, n_test=10)
        arrays = make_classes(rng, 20, 10, n_columns)

        def fetch_file(url, folder, file):
            part = "test" if ".t" in file else "train"
            dump_svmlight_file(arrays[f"X_{part}"], arrays[f"y_{part}"], str(tmp_path / part), zero_based=False)
            return tmp_path / part

        monkeypatch.setattr(datasets, "fetch_file", fetch_file)
        data = load(name)
        np.testing.assert_array_equal(data.y_test, arrays["y_test"])
        assert data.X_train.shape == (20, n_columns)
        assert data.name == name

    @pytest.mark.parametrize("name", NAMES[:-1])
    def test_failure_names_the_folder_and_the_cause(self, folder, name):
        message = f"The data set {name} is not in the folder of BOCHNER_DATA ({folder}) as {name}.npz, and the download"
        with pytest.raises(ValueError, match=re.escape(message) + ".*no route to host"):
            load(name)


class TestPaperData:
    SHAPES = (
        ("cpu", "cpu", 6554, 819, 21),
        ("census", "census (22 of 119 columns)", 18186, 2273, 22),
        ("years", "years (5,831 of 515,345 rows, 54 of 90 columns)", 4664, 1167, 54),
        ("adult", "adult", 32561, 16281, 123),
        ("mnist", "mnist", 60000, 10000, 784),
        ("covtype", "covtype", 464809, 116203, 54),
    )

    @pytest.mark.parametrize(("name", "title", "n_train", "n_test", "n_columns"), SHAPES)
    @pytest.mark.usefixtures("paper_data")
    def test_sizes_names_and_units(self, name, title, n_train, n_test, n_columns):
        data = load(name)
        assert (data.name, data.paper) == (title, name)
        assert data.X_train.shape == (n_train, n_columns)
        assert data.X_test.shape == (n_test, n_columns)
        assert data.y_train.shape == (n_train,)
        deviations = data.X_train.std(axis=0)
        np.testing.assert_allclose(data.X_train.mean(axis=0), 0, atol=1e-9)
        np.testing.assert_allclose(deviations[deviations > 0], 1, rtol=1e-9)

    def test_all_data_sets_are_tested(self):
        assert [name for name, *_ in self.SHAPES] == list(NAMES[:-1])
