# SPDX-License-Identifier: BSD-3-Clause
import gzip
import hashlib
import re
from dataclasses import replace
from functools import partial
from urllib.error import URLError

import numpy as np
import pytest
from sklearn.datasets import load_digits
from sklearn.preprocessing import StandardScaler

from bochner.experiments import datasets
from bochner.experiments.datasets import NAMES, load
from tests.experiments.files import (
    arff_bytes,
    idx_bytes,
    mat_bytes,
    npz_bytes,
    svmlight_bytes,
    text_bytes,
    zip_bytes,
)


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    """An empty folder of downloads, so that no test reads the user's."""
    monkeypatch.delenv("BOCHNER_DATA", raising=False)
    monkeypatch.setenv("SCIKIT_LEARN_DATA", str(tmp_path / "home"))
    return tmp_path / "home" / "bochner"


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "data").mkdir()
    return tmp_path / "data"


def shrink(monkeypatch, name, **changes):
    """Describe a data set of the paper as a smaller one."""
    monkeypatch.setitem(datasets.SETS, name, replace(datasets.SETS[name], **changes))


def check_same(first, second):
    assert (first.name, first.task, first.paper, first.reduced) == (
        second.name,
        second.task,
        second.paper,
        second.reduced,
    )
    for field in ("X_train", "X_test", "y_train", "y_test"):
        np.testing.assert_allclose(getattr(first, field), getattr(second, field), rtol=1e-12, atol=1e-12)
        assert getattr(first, field).dtype == getattr(second, field).dtype


@pytest.fixture
def load_both(tmp_path):
    """Load a data set from an npz file and from other files, and check that both are the same."""

    def load_both(name, arrays, files):
        folders = [tmp_path / "arrays", tmp_path / "files"]
        for folder, contents in zip(folders, ({f"{name}.npz": npz_bytes(**arrays)}, files), strict=True):
            folder.mkdir(exist_ok=True)
            for file, content in contents.items():
                (folder / file).write_bytes(content)
        expected, data = (load(name, folder) for folder in folders)
        check_same(data, expected)
        for file in files:
            (folders[1] / file).unlink()
        return data

    return load_both


def make_classes(rng, n_train, n_test, n_columns, labels=(-1, 1)):
    n_rows = n_train + n_test
    X, y = rng.integers(200, size=(n_rows, n_columns)), rng.choice(labels, size=n_rows)
    return {"X_train": X[:n_train], "y_train": y[:n_train], "X_test": X[n_train:], "y_test": y[n_train:]}


class TestPublishedFiles:
    """Every data set of the paper from small files in the formats that it is published in."""

    def test_cpu(self, rng, monkeypatch, load_both):
        shrink(monkeypatch, "cpu", n_train=80, n_test=10, n_columns=4)
        table = np.column_stack([rng.integers(3, size=100), rng.normal(size=(100, 4))])
        train, test = [row for residue in range(8) for row in range(residue, 100, 10)], list(range(9, 100, 10))
        X, y = table[:, :4], table[:, 4] + 1
        arrays = {"X_train": X[train], "Y_train": y[train], "x_test": X[test], "y_test": y[test]}
        transposed = {"Xtrain": X[train].T, "ytrain": y[train], "Xtest": X[test].T, "ytest": y[test]}
        for files in (
            {"cpu_act.arff": arff_bytes(table)},
            {"cpu.npz": npz_bytes(X=X, y=y)},
            {"cpu.mat": mat_bytes(**transposed)},
        ):
            data = load_both("cpu", arrays, files)
        assert (data.name, data.task, data.paper, data.reduced) == ("cpu", "regression", "cpu", "")
        np.testing.assert_array_equal(data.y_train, y[train])

    def test_census_has_the_distinct_columns_of_both_tables_and_the_houses_with_a_price(self, rng, load_both):
        price = np.where(rng.random(100) < 0.2, 0.0, rng.lognormal(size=100))
        columns = np.column_stack([rng.integers(3, size=100), rng.normal(size=(100, 5))])
        files = {
            "house_16H.arff": arff_bytes(np.column_stack([columns[:, [0, 1, 2, 3]], price])),
            "house_8L.arff": arff_bytes(np.column_stack([columns[:, [0, 4, 2, 5]], price])),
        }
        X, y = columns[price > 0], price[price > 0]
        data = load_both("census", {"X": X, "y": y}, files)
        n_rows = len(data.y_train) + len(data.y_test)
        assert data.name == f"census ({n_rows} of 20,459 rows, 6 of 119 columns)"
        np.testing.assert_allclose(data.y_test, np.log(y[9::10]))

    def test_census_tables_of_different_houses_are_refused(self, rng, folder):
        table = rng.lognormal(size=(20, 3))
        (folder / "house_16H.arff").write_bytes(arff_bytes(table))
        (folder / "house_8L.arff").write_bytes(arff_bytes(table[::-1]))
        with pytest.raises(ValueError, match="house_16H and house_8L have different prices; download both"):
            load("census", folder)

    def test_complete_census_is_preferred(self, rng, monkeypatch, folder):
        shrink(monkeypatch, "census", n_train=30, n_test=10)
        X, y = rng.normal(size=(40, 119)), rng.lognormal(size=(40, 1))
        (folder / "census.npz").write_bytes(npz_bytes(X=X[:, :22], y=y))
        assert load("census", folder).name == "census (36 of 40 rows, 22 of 119 columns)"
        (folder / "census.mat").write_bytes(mat_bytes(Xtrain=X[:30], ytrain=y[:30], Xtest=X[30:], ytest=y[30:]))
        data = load("census", folder)
        assert (data.name, data.reduced, data.X_train.shape) == ("census", "", (30, 119))
        np.testing.assert_allclose(data.y_train, np.log(y[:30, 0]))

    def test_years(self, rng, monkeypatch, load_both):
        shrink(monkeypatch, "years", n_train=16, n_test=5, divide=partial(datasets._by_order, 16, 5))
        X, y = rng.normal(size=(21, 90)), rng.integers(1922, 2011, size=21)
        table = text_bytes(np.column_stack([y, X]))
        for files in ({"YearPredictionMSD.txt": table}, {"YearPredictionMSD.txt.zip": zip_bytes(table)}):
            data = load_both("years", {"X": X, "y": y}, files)
        assert data.name == "years"
        np.testing.assert_array_equal(data.y_train, y[:16])
        assert data.y_train.dtype == np.float64

    def test_years_with_another_number_of_rows_are_split_at_random(self, rng, folder):
        y = rng.integers(1922, 2011, size=21)
        (folder / "YearPredictionMSD.txt").write_bytes(text_bytes(np.column_stack([y, rng.normal(size=(21, 90))])))
        data = load("years", folder)
        assert (data.name, data.reduced, data.paper) == ("years (21 of 515,345 rows)", "21 of 515,345 rows", "years")
        np.testing.assert_array_equal(data.y_train, y[np.random.default_rng(0).permutation(21)[:16]])

    def test_adult(self, rng, monkeypatch, load_both):
        shrink(monkeypatch, "adult", n_train=20, n_test=10)
        arrays = make_classes(rng, 20, 10, 123)
        files = {
            "a9a": svmlight_bytes(arrays["X_train"], arrays["y_train"]),
            "a9a.t": svmlight_bytes(arrays["X_test"], arrays["y_test"]),
        }
        data = load_both("adult", arrays, files)
        assert (data.name, data.task) == ("adult", "classification")
        np.testing.assert_array_equal(data.y_test, arrays["y_test"])
        assert data.y_test.dtype == np.int64

    def test_mnist(self, rng, monkeypatch, load_both):
        shrink(monkeypatch, "mnist", n_train=20, n_test=10)
        arrays = make_classes(rng, 20, 10, 784, labels=range(10))
        X_train, y_train, X_test, y_test = arrays.values()
        images = {"train": X_train.reshape(-1, 28, 28), "t10k": X_test.reshape(-1, 28, 28)}
        labels = {"train": y_train, "t10k": y_test}
        idx = {f"{part}-images-idx3-ubyte": idx_bytes(images[part]) for part in images}
        idx |= {f"{part}-labels-idx1-ubyte": idx_bytes(labels[part]) for part in labels}
        for files in (
            idx,
            {f"{name}.gz": gzip.compress(content) for name, content in idx.items()},
            {"mnist.npz": npz_bytes(x_train=images["train"], y_train=y_train, x_test=images["t10k"], y_test=y_test)},
        ):
            data = load_both("mnist", arrays, files)
        assert data.name == "mnist"
        np.testing.assert_array_equal(data.y_train, y_train)

    def test_covtype_is_the_second_class_against_the_others(self, rng, monkeypatch, load_both):
        shrink(monkeypatch, "covtype", n_train=24, n_test=6)
        X, y = rng.integers(200, size=(30, 54)), rng.integers(1, 8, size=30)
        files = {"covtype.data.gz": gzip.compress(text_bytes(np.column_stack([X, y])))}
        data = load_both("covtype", {"X": X, "y": y}, files)
        order = np.random.default_rng(0).permutation(30)
        assert data.name == "covtype"
        np.testing.assert_array_equal(data.y_train, (y == 2)[order[:24]])
        np.testing.assert_array_equal(data.y_test, (y == 2)[order[24:]])


class TestLoad:
    def test_columns_are_standardized_by_the_training_rows(self, rng, folder):
        arrays = make_classes(rng, 20, 10, 4)
        arrays["X_train"][:, 1] = 7
        arrays["X_test"][:, 1] = 7
        (folder / "adult.npz").write_bytes(npz_bytes(**arrays))
        data = load("adult", folder)
        scaler = StandardScaler().fit(arrays["X_train"])
        np.testing.assert_allclose(data.X_test, scaler.transform(arrays["X_test"]))
        np.testing.assert_array_equal(data.X_train[:, 1], 0)
        assert data.name == "adult (30 of 48,842 rows, 4 of 123 columns)"

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
        (folder / "adult.npz").write_bytes(npz_bytes(**make_classes(rng, n_train, n_test, 4)))
        assert load("adult", folder).name == name

    def test_folder_of_the_environment_variable(self, rng, monkeypatch, folder):
        (folder / "adult.npz").write_bytes(npz_bytes(**make_classes(rng, 20, 10, 4)))
        monkeypatch.setenv("BOCHNER_DATA", str(folder))
        check_same(load("adult"), load("adult", str(folder)))

    def test_digits_need_no_folder(self):
        data = load("digits")
        X, y = load_digits(return_X_y=True)
        order = np.random.default_rng(0).permutation(1797)
        np.testing.assert_array_equal(data.y_test, y[order[1198:]])
        np.testing.assert_allclose(data.X_train, StandardScaler().fit_transform(X[order[:1198]]), atol=1e-12)
        assert (data.name, data.task, data.paper, data.reduced) == ("digits", "classification", "", "")

    def test_unknown_name(self):
        with pytest.raises(ValueError, match="no data set 'iris'; the names are cpu, census, years, adult, mnist, cov"):
            load("iris")

    def test_folder_that_does_not_exist_or_is_a_file(self, folder):
        with pytest.raises(ValueError, match=r"The data folder .*none does not exist; give a folder"):
            load("cpu", folder / "none")
        (folder / "cpu.npz").write_bytes(b"")
        with pytest.raises(ValueError, match=r"The data folder .*cpu\.npz is a file; give a folder"):
            load("cpu", folder / "cpu.npz")

    @pytest.mark.parametrize(
        ("arrays", "message"),
        [
            ({"A": np.ones(3)}, r"cpu\.npz has a; it needs X_train, y_train, X_test and y_test, or X and y"),
            (
                {"X": np.ones((4, 3)), "y": np.ones(5)},
                r"cpu\.npz has rows of shape \(4, 3\) and targets of shape \(5,\), which do not match",
            ),
            ({"X": np.full((4, 3), "a"), "y": np.ones(4)}, r"cpu\.npz has rows of shape"),
            ({"X": np.ones((4, 3)), "y": np.ones(4)}, "The file of the data set cpu has too few rows"),
            ({"X": np.full((20, 3), np.nan), "y": np.ones(20)}, "The data set cpu has missing or infinite values"),
            ({"X": np.ones((20, 3)), "y": np.full(20, np.nan)}, "The data set cpu has missing or infinite values"),
            (
                {
                    f"{a}_{b}": np.ones((9, 3 + (b == "test")) if a == "X" else 9)
                    for a in "Xy"
                    for b in ("train", "test")
                },
                "The data set cpu has 3 columns in its training rows and 4 in its test rows",
            ),
        ],
    )
    def test_invalid_arrays_give_an_error_message(self, folder, arrays, message):
        (folder / "cpu.npz").write_bytes(npz_bytes(**arrays))
        with pytest.raises(ValueError, match=message):
            load("cpu", folder)

    @pytest.mark.parametrize(
        ("labels", "message"),
        [(np.ones(20), "a single class"), (np.resize([1.0, np.nan], 20), "missing or infinite values")],
    )
    def test_invalid_labels_give_an_error_message(self, rng, folder, labels, message):
        (folder / "adult.npz").write_bytes(npz_bytes(X=rng.normal(size=(20, 3)), y=labels))
        with pytest.raises(ValueError, match=message):
            load("adult", folder)

    def test_price_of_zero_has_no_logarithm(self, rng, folder):
        (folder / "census.npz").write_bytes(npz_bytes(X=rng.normal(size=(20, 3)), y=np.zeros(20)))
        with pytest.raises(ValueError, match="The data set census has missing or infinite values"):
            load("census", folder)

    def test_damaged_file_in_a_given_folder_is_kept(self, folder):
        (folder / "cpu.npz").write_bytes(b"damaged")
        with pytest.raises(ValueError, match=r"cpu\.npz cannot be read as a \.npz file"):
            load("cpu", folder)
        assert (folder / "cpu.npz").read_bytes() == b"damaged"


class TestDownloads:
    @pytest.fixture
    def adult(self, rng, monkeypatch, server):
        """The arrays of a small adult, whose files are on the server."""
        shrink(monkeypatch, "adult", n_train=20, n_test=10)
        urls = {server.address + "a9a": None, server.address + "a9a.t": None}
        monkeypatch.setitem(datasets.URLS, "adult", urls)
        arrays = make_classes(rng, 20, 10, 123)
        server.files["a9a"] = svmlight_bytes(arrays["X_train"], arrays["y_train"])
        server.files["a9a.t"] = svmlight_bytes(arrays["X_test"], arrays["y_test"])
        return arrays

    def test_files_are_downloaded_once(self, server, adult, cache):
        data = load("adult")
        np.testing.assert_array_equal(data.y_test, adult["y_test"])
        assert data.name == "adult"
        assert sorted(path.name for path in cache.iterdir()) == ["a9a", "a9a.t"]
        check_same(load("adult"), data)
        assert server.requests == ["a9a", "a9a.t"]

    @pytest.mark.usefixtures("adult")
    def test_downloads_do_not_go_to_the_given_folder(self, folder):
        assert load("adult", folder).name == "adult"
        assert list(folder.iterdir()) == []

    @pytest.mark.usefixtures("adult")
    def test_only_missing_files_are_downloaded(self, server, cache):
        cache.mkdir(parents=True)
        (cache / "a9a").write_bytes(server.files["a9a"])
        assert load("adult").name == "adult"
        assert server.requests == ["a9a.t"]

    @pytest.mark.usefixtures("adult")
    def test_damaged_files_are_deleted_and_downloaded_again(self, server, cache):
        content = server.files["a9a"]
        server.files["a9a"] = b"<html>Log in</html>"
        with pytest.raises(ValueError, match="a9a cannot be read as LIBSVM text"):
            load("adult")
        assert list(cache.iterdir()) == []
        server.files["a9a"] = content
        assert load("adult").name == "adult"

    @pytest.mark.usefixtures("adult")
    def test_failure_names_the_folders_the_files_and_the_cause(self, server, folder, cache):
        del server.files["a9a.t"]
        message = (
            f"The data set adult is not in {folder} or {cache} (as adult.npz, or a9a with a9a.t), and the download "
            f"failed: {server.address}a9a.t: HTTP Error 404"
        )
        with pytest.raises(ValueError, match=re.escape(message)):
            load("adult", folder)

    def test_unreachable_server(self, server, adult, monkeypatch):
        address = server.address
        server.shutdown()
        server.server_close()
        with pytest.raises(ValueError, match=rf"and the download failed: {address}a9a: urlopen error .*refused"):
            load("adult")

    def test_years(self, rng, monkeypatch, server):
        shrink(monkeypatch, "years", n_train=16, n_test=5, divide=partial(datasets._by_order, 16, 5))
        table = np.column_stack([rng.integers(1922, 2011, size=21), rng.normal(size=(21, 90))])
        server.files["YearPredictionMSD.txt.zip"] = zip_bytes(text_bytes(table))
        monkeypatch.setitem(datasets.URLS, "years", {server.address + "YearPredictionMSD.txt.zip": None})
        data = load("years")
        assert data.name == "years"
        np.testing.assert_array_equal(data.y_test, table[16:, 0])

    @pytest.fixture
    def mnist(self, rng, monkeypatch, server):
        """The arrays of a small mnist, whose files are on the server."""
        shrink(monkeypatch, "mnist", n_train=20, n_test=10)
        arrays = make_classes(rng, 20, 10, 784, labels=range(10))
        names = [url.rpartition("/")[2] for url in datasets.URLS["mnist"]]
        for name, array in zip(names, arrays.values(), strict=True):
            pixels = array.reshape(-1, 28, 28) if "images" in name else array
            server.files[name] = gzip.compress(idx_bytes(pixels))
        sums = {server.address + name: hashlib.sha256(server.files[name]).hexdigest() for name in names}
        monkeypatch.setitem(datasets.URLS, "mnist", sums)
        return arrays

    def test_mnist(self, mnist):
        data = load("mnist")
        np.testing.assert_array_equal(data.y_train, mnist["y_train"])
        assert data.name == "mnist"

    @pytest.mark.usefixtures("mnist")
    def test_file_with_another_checksum_is_refused(self, server, cache):
        name = "train-images-idx3-ubyte.gz"
        server.files[name] = gzip.compress(idx_bytes(np.zeros((20, 28, 28))))
        with pytest.raises(ValueError, match=f"the download failed: {server.address}{name}: .*SHA256"):
            load("mnist")
        assert list(cache.iterdir()) == []

    def test_cpu_and_census_come_from_openml(self, rng, monkeypatch, cache):
        price = np.where(np.arange(100) % 7 == 0, 0.0, rng.lognormal(size=100))
        X = rng.normal(size=(100, 3))
        tables = {197: (X, price), 574: (X[:, :2], price), 218: (X[:, 1:], price)}

        def fetch_openml(*, data_id, data_home, as_frame, parser, return_X_y):
            assert (data_home, as_frame, parser, return_X_y) == (cache, False, "liac-arff", True)
            return tables[data_id]

        monkeypatch.setattr(datasets, "fetch_openml", fetch_openml)
        cpu, census = load("cpu"), load("census")
        np.testing.assert_allclose(cpu.y_test, price[9::10] + 1)
        np.testing.assert_allclose(census.y_test, np.log(price[price > 0][9::10]))
        assert census.X_train.shape[1] == 3
        assert re.fullmatch(r"census \(\d\d of 20,459 rows, 3 of 119 columns\)", census.name)

    def test_covtype_comes_from_scikit_learn(self, rng, monkeypatch, cache):
        X, y = rng.normal(size=(30, 54)), rng.integers(1, 8, size=30)

        def fetch_covtype(*, data_home, return_X_y):
            assert (data_home, return_X_y) == (cache, True)
            return X, y

        monkeypatch.setattr(datasets, "fetch_covtype", fetch_covtype)
        data = load("covtype")
        np.testing.assert_array_equal(data.y_test, (y == 2)[np.random.default_rng(0).permutation(30)[24:]])
        assert data.name == "covtype (30 of 581,012 rows)"

    @pytest.mark.parametrize("name", ["cpu", "census", "covtype"])
    def test_failure_of_scikit_learn_gives_the_same_message(self, monkeypatch, name):
        def fail(**_):
            raise URLError("no route to host")

        monkeypatch.setattr(datasets, "fetch_openml", fail)
        monkeypatch.setattr(datasets, "fetch_covtype", fail)
        with pytest.raises(
            ValueError, match=rf"The data set {name} is not in .*{name}\.npz.* the download failed: .*no route to host"
        ):
            load(name)

    @pytest.mark.parametrize("name", datasets.URLS)
    def test_downloaded_files_are_a_source_of_the_data_set(self, name):
        assert tuple(url.rpartition("/")[2] for url in datasets.URLS[name]) in datasets.SETS[name].sources


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
    def test_sizes_names_and_units(self, paper_data, name, title, n_train, n_test, n_columns):
        data = load(name, paper_data)
        assert (data.name, data.paper) == (title, name)
        assert data.X_train.shape == (n_train, n_columns)
        assert data.X_test.shape == (n_test, n_columns)
        assert data.y_train.shape == (n_train,)
        assert data.y_test.shape == (n_test,)
        assert data.X_train.dtype == data.X_test.dtype == np.float64
        assert data.y_train.dtype == data.y_test.dtype == (np.float64 if data.task == "regression" else np.int64)
        deviations = data.X_train.std(axis=0)
        np.testing.assert_allclose(data.X_train.mean(axis=0), 0, atol=1e-9)
        np.testing.assert_allclose(deviations[deviations > 0], 1, rtol=1e-9)

    def test_all_data_sets_are_tested(self):
        assert [name for name, *_ in self.SHAPES] == list(NAMES[:-1])


class TestSplit:
    def test_halves_are_standardized_by_the_training_rows(self, rng):
        data = datasets.split("t", 5 + 3 * rng.normal(size=(9001, 2)))
        assert (data.X_train.shape, data.X_test.shape) == ((4501, 2), (4500, 2))
        np.testing.assert_allclose(data.X_train.mean(axis=0), 0, atol=1e-12)
        np.testing.assert_allclose(data.X_train.std(axis=0), 1)
        assert abs(data.X_test.mean()) > 1e-6
        assert data.task is None
        with pytest.raises(ValueError, match="t has no targets to predict"):
            _ = data.targets

    @pytest.mark.parametrize(
        ("y", "task"),
        [
            (np.arange(40) % 20, "classification"),
            (np.arange(42) % 21, "regression"),
            (np.arange(40) % 2 + 0.5, "regression"),
            (np.resize(["no", "yes"], 40), "classification"),
        ],
    )
    def test_task_is_recognized_by_the_target(self, y, task):
        X = np.arange(len(y), dtype=float)[:, None]
        data = datasets.split("t", X, y if y.dtype.kind == "U" else y.astype(float))
        assert data.task == task
        y_train, _ = data.targets
        assert y_train.dtype == (np.float64 if task == "regression" else np.int64)
        # Rows and targets stay together: the rows are standardized values of 0, 1, 2 and so on.
        values = np.unique(y)
        rows = np.concatenate([data.X_train, data.X_test])[:, 0].argsort().argsort()
        labels = np.concatenate(data.targets)
        expected = y[rows] if task == "regression" else np.searchsorted(values, y)[rows]
        np.testing.assert_array_equal(labels, expected)

    @pytest.mark.parametrize(
        ("y", "message"),
        [
            (np.full(2000, "x"), "All targets of t are equal to x; choose another --target."),
            (np.ones(2000), "All targets of t are equal to 1.0; choose another --target."),
            (np.arange(2000).astype(str), "The target of t is text with 2000 different values, more than the 1000"),
        ],
    )
    def test_target_without_a_task_is_refused(self, rng, y, message):
        with pytest.raises(ValueError, match=re.escape(message)):
            datasets.split("t", rng.normal(size=(2000, 1)), y)

    def test_too_few_rows_are_refused(self):
        with pytest.raises(ValueError, match="t has 3 rows; at least 4 are needed"):
            datasets.split("t", np.ones((3, 2)))
