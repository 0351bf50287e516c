# SPDX-License-Identifier: BSD-3-Clause
import bz2
import gzip
import hashlib
import io
import lzma
import re
import zipfile
from dataclasses import replace
from functools import partial
from urllib.error import URLError

import numpy as np
import pytest
from scipy.io import savemat
from sklearn.datasets import dump_svmlight_file, load_digits
from sklearn.preprocessing import StandardScaler

from bochner.experiments import datasets
from bochner.experiments.datasets import NAMES, load
from bochner.experiments.formats import read_arrays, read_idx, read_numbers, read_svmlight


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    """The folder of downloads, empty; no test looks into the user's."""
    monkeypatch.delenv("BOCHNER_DATA", raising=False)
    monkeypatch.setenv("SCIKIT_LEARN_DATA", str(tmp_path / "home"))
    return tmp_path / "home" / "bochner"


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "data").mkdir()
    return tmp_path / "data"


def zipped(content, *names):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name in names:
            archive.writestr(name, content if name == names[-1] else b"something else")
    return buffer.getvalue()


PACK = {
    "": bytes,
    ".gz": gzip.compress,
    ".bz2": bz2.compress,
    ".xz": lzma.compress,
    ".zip": lambda content: zipped(content, "any name"),
}


def text(table, separator=","):
    return "".join(separator.join(map(repr, row)) + "\n" for row in np.asarray(table).tolist()).encode()


def arff(table):
    """All columns real but the first, which is nominal and holds numbers."""
    levels = ",".join(sorted({f"{value:g}" for value in table[:, 0]}))
    header = f"% a comment\n@relation r\n@attribute c0 {{{levels}}}\n"
    header += "".join(f"@attribute c{column} real\n" for column in range(1, table.shape[1]))
    rows = "".join(",".join([f"{row[0]:g}", *map(repr, row[1:])]) + "\n" for row in table.tolist())
    return (header + "@data\n" + rows).encode()


def idx(array):
    return bytes([0, 0, 8, array.ndim]) + np.array(array.shape, ">u4").tobytes() + array.astype(np.uint8).tobytes()


def svmlight(X, y):
    buffer = io.BytesIO()
    dump_svmlight_file(X, y, buffer, zero_based=False)
    return buffer.getvalue()


def npz(**arrays):
    buffer = io.BytesIO()
    np.savez(buffer, **arrays)
    return buffer.getvalue()


def mat(**arrays):
    buffer = io.BytesIO()
    savemat(buffer, arrays)
    return buffer.getvalue()


class TestFormats:
    """What is written is read back, packed in every way."""

    @pytest.fixture(params=PACK)
    def write(self, request, tmp_path):
        def write(name, content):
            path = tmp_path / (name + request.param)
            path.write_bytes(PACK[request.param](content))
            return path

        return write

    @pytest.mark.parametrize("header", ["", "a{0}a{0}c\n", '"1 a"{0}"b"{0}"c"\n'])
    @pytest.mark.parametrize(("name", "separator"), [("t.csv", ","), ("t.csv", ";"), ("t.tsv", "\t"), ("t.data", ",")])
    def test_separated_text(self, write, rng, header, name, separator):
        table = rng.normal(size=(7, 3))
        table[0] = 1, 2, 3  # looks like integers
        content = header.format(separator).encode() + text(table, separator)
        np.testing.assert_array_equal(read_numbers(write(name, content)), table)

    @pytest.mark.parametrize("header", [b"", b"a b c\n"])
    def test_text_separated_by_blanks(self, write, rng, header):
        table = rng.normal(size=(7, 3))
        np.testing.assert_array_equal(read_numbers(write("t.txt", header + text(table, "   "))), table)

    def test_arff(self, write, rng):
        table = np.column_stack([rng.integers(3, size=9), rng.normal(size=(9, 2))])
        np.testing.assert_array_equal(read_numbers(write("t.arff", arff(table))), table)

    def test_svmlight(self, write, rng):
        X, y = rng.integers(2, size=(6, 4)) * rng.normal(size=(6, 4)), rng.normal(size=6)
        read_X, read_y = read_svmlight(write("a9a", svmlight(X, y)), 5)
        np.testing.assert_allclose(read_X, np.pad(X, ((0, 0), (0, 1))), rtol=1e-15)
        np.testing.assert_allclose(read_y, y, rtol=1e-15)

    def test_idx(self, write, rng):
        images = rng.integers(256, size=(5, 3, 2))
        np.testing.assert_array_equal(read_idx(write("train-images-idx3-ubyte", idx(images))), images)

    @pytest.mark.parametrize(("name", "make"), [("t.npz", npz), ("t.mat", mat)])
    def test_arrays(self, write, rng, name, make):
        X = rng.normal(size=(4, 3))
        arrays = read_arrays(write(name, make(Xtrain=X, YTRAIN=np.arange(4))))
        assert set(arrays) == {"xtrain", "ytrain"}
        np.testing.assert_array_equal(arrays["xtrain"], X)
        np.testing.assert_array_equal(arrays["ytrain"].ravel(), np.arange(4))

    def test_a_zip_file_with_several_members_has_one_of_its_name(self, tmp_path):
        (tmp_path / "t.csv.zip").write_bytes(zipped(b"1,2\n", "readme", "t.csv"))
        assert read_numbers(tmp_path / "t.csv.zip").tolist() == [[1, 2]]
        (tmp_path / "t.csv.zip").write_bytes(zipped(b"1,2\n", "readme", "u.csv"))
        with pytest.raises(ValueError, match=r"t\.csv\.zip cannot .*it holds 2 files, none of them t\.csv"):
            read_numbers(tmp_path / "t.csv.zip")

    READERS = (
        ("t.csv", read_numbers, text(np.ones((99, 3)))),
        ("t.arff", read_numbers, arff(np.ones((99, 3)))),
        ("a9a", partial(read_svmlight, n_columns=3), svmlight(np.ones((99, 3)), np.ones(99))),
        ("t-idx1-ubyte", read_idx, idx(np.ones(99))),
        ("t.npz", read_arrays, npz(X=np.ones((99, 3)))),
        ("t.mat", read_arrays, mat(X=np.ones((99, 3)))),
    )

    @pytest.mark.parametrize("packing", [".gz", ".bz2", ".xz", ".zip"])
    @pytest.mark.parametrize(("name", "read", "content"), READERS)
    def test_cut_packed_files_get_one_sentence(self, tmp_path, name, read, content, packing):
        packed = PACK[packing](content)
        path = tmp_path / (name + packing)
        for n_bytes in (0, len(packed) // 2, len(packed) - 9):
            path.write_bytes(packed[:n_bytes])
            with pytest.raises(ValueError, match=rf"^[^\n]*{name}{packing} cannot be read as [^\n]*; get it again\.$"):
                read(path)

    @pytest.mark.parametrize("content", [b"", b"nonsense", b"\0\0\x08\x03\0", b"@data\n", b"1,2\n3\n", b"1,\n2,3\n"])
    @pytest.mark.parametrize(("name", "read"), [reader[:2] for reader in READERS])
    def test_damaged_files_get_one_sentence(self, tmp_path, name, read, content):
        (tmp_path / name).write_bytes(content)
        with pytest.raises(ValueError, match=rf"^[^\n]*{name} cannot be read as [^\n]*; get it again\.$"):
            read(tmp_path / name)

    @pytest.mark.parametrize(("name", "read", "content"), READERS[3:])
    def test_cut_binary_files_get_one_sentence(self, tmp_path, name, read, content):
        (tmp_path / name).write_bytes(content[: len(content) // 2])
        with pytest.raises(ValueError, match=rf"{name} cannot be read as [^\n]*; get it again\.$"):
            read(tmp_path / name)


def shrink(monkeypatch, name, **changes):
    """Describe a set of the paper's as a smaller one."""
    monkeypatch.setitem(datasets.SETS, name, replace(datasets.SETS[name], **changes))


def assert_same(one, other):
    assert (one.name, one.task, one.paper, one.reduced) == (other.name, other.task, other.paper, other.reduced)
    for field in ("X_train", "X_test", "y_train", "y_test"):
        np.testing.assert_allclose(getattr(one, field), getattr(other, field), rtol=1e-12, atol=1e-12)
        assert getattr(one, field).dtype == getattr(other, field).dtype


@pytest.fixture
def compare(tmp_path):
    """Load a set from an npz file and from others; they must agree."""

    def compare(name, arrays, files):
        home = tmp_path / "as arrays"
        home.mkdir(exist_ok=True)
        (home / f"{name}.npz").write_bytes(npz(**arrays))
        expected = load(name, home)
        home = tmp_path / "as files"
        home.mkdir(exist_ok=True)
        for file, content in files.items():
            (home / file).write_bytes(content)
        assert_same(load(name, home), expected)
        for file in files:
            (home / file).unlink()
        return expected

    return compare


def make_classes(rng, n_train, n_test, n_columns, labels=(-1, 1)):
    n_rows = n_train + n_test
    X, y = rng.integers(200, size=(n_rows, n_columns)), rng.choice(labels, size=n_rows)
    return {"X_train": X[:n_train], "y_train": y[:n_train], "X_test": X[n_train:], "y_test": y[n_train:]}


class TestOriginalFormats:
    """Every set from the files that it is published in, in miniature."""

    def test_cpu(self, rng, monkeypatch, compare):
        shrink(monkeypatch, "cpu", n_train=80, n_test=10, n_columns=4)
        table = np.column_stack([rng.integers(3, size=100), rng.normal(size=(100, 4))])
        train, test = [row for residue in range(8) for row in range(residue, 100, 10)], list(range(9, 100, 10))
        X, y = table[:, :4], table[:, 4] + 1
        arrays = {"X_train": X[train], "Y_train": y[train], "x_test": X[test], "y_test": y[test]}
        sideways = {"Xtrain": X[train].T, "ytrain": y[train], "Xtest": X[test].T, "ytest": y[test]}
        header = b"a\tb\tc\td\tusr\n"
        for files in (
            {"cpu_act.arff": arff(table)},
            {"cpu_act.csv.gz": gzip.compress(text(table))},
            {"cpu_act.tsv": header + text(table, "\t")},
            {"cpu.npz": npz(X=X, y=y)},
            {"cpu.mat": mat(**sideways)},
        ):
            data = compare("cpu", arrays, files)
        assert (data.name, data.task, data.paper, data.reduced) == ("cpu", "regression", "cpu", "")
        np.testing.assert_array_equal(data.y_train, y[train])

    @pytest.mark.parametrize("ending", ["arff", "csv"])
    def test_census_from_two_tables_has_the_distinct_columns_and_the_houses_with_a_price(self, rng, compare, ending):
        price = np.where(rng.random(100) < 0.2, 0.0, rng.lognormal(size=100))
        columns = np.column_stack([rng.integers(3, size=100), rng.normal(size=(100, 5))])
        write = arff if ending == "arff" else text
        files = {
            f"house_16H.{ending}": write(np.column_stack([columns[:, [0, 1, 2, 3]], price])),
            f"house_8L.{ending}": write(np.column_stack([columns[:, [0, 4, 2, 5]], price])),
        }
        X, y = columns[price > 0], price[price > 0]
        data = compare("census", {"X": X, "y": y}, files)
        n_rows = len(data.y_train) + len(data.y_test)
        assert data.name == f"census ({n_rows} of 20,459 rows, 6 of 119 columns)"
        np.testing.assert_allclose(data.y_test, np.log(y[9::10]))

    def test_houses_in_another_order_do_not_match(self, rng, folder):
        table = rng.lognormal(size=(20, 3))
        (folder / "house_16H.csv").write_bytes(text(table))
        (folder / "house_8L.csv").write_bytes(text(table[::-1]))
        with pytest.raises(ValueError, match="house_16H and house_8L do not have the same prices in the same order"):
            load("census", folder)

    def test_the_complete_census_is_preferred_and_has_the_bare_name(self, rng, monkeypatch, folder):
        shrink(monkeypatch, "census", n_train=30, n_test=10)
        X, y = rng.normal(size=(40, 119)), rng.lognormal(size=(40, 1))
        (folder / "census.npz").write_bytes(npz(X=X[:, :22], y=y))
        assert load("census", folder).name == "census (36 of 40 rows, 22 of 119 columns)"
        (folder / "census.mat").write_bytes(mat(Xtrain=X[:30], ytrain=y[:30], Xtest=X[30:], ytest=y[30:]))
        data = load("census", folder)
        assert (data.name, data.reduced, data.X_train.shape) == ("census", "", (30, 119))
        np.testing.assert_allclose(data.y_train, np.log(y[:30, 0]))

    def test_years(self, rng, monkeypatch, compare):
        changes = {"n_train": 16, "n_test": 5, "divide": partial(datasets._by_order, 16, 5)}
        shrink(monkeypatch, "years", **changes)
        X, y = rng.normal(size=(21, 90)), rng.integers(1922, 2011, size=21)
        table = text(np.column_stack([y, X]))
        for files in (
            {"YearPredictionMSD.txt": table},
            {"YearPredictionMSD.txt.zip": zipped(table, "YearPredictionMSD.txt")},
            {"YearPredictionMSD.csv": b"year" + b",x" * 90 + b"\n" + table},
            {
                "YearPredictionMSD.bz2": bz2.compress(svmlight(X[:16], y[:16])),
                "YearPredictionMSD.t.bz2": bz2.compress(svmlight(X[16:], y[16:])),
            },
        ):
            data = compare("years", {"X": X, "y": y}, files)
        assert data.name == "years"
        np.testing.assert_array_equal(data.y_train, y[:16])
        assert data.y_train.dtype == np.float64

    def test_years_with_another_number_of_rows_are_split_at_random(self, rng, folder):
        y = rng.integers(1922, 2011, size=21)
        (folder / "YearPredictionMSD.txt").write_bytes(text(np.column_stack([y, rng.normal(size=(21, 90))])))
        data = load("years", folder)
        assert (data.name, data.reduced, data.paper) == ("years (21 of 515,345 rows)", "21 of 515,345 rows", "years")
        np.testing.assert_array_equal(data.y_train, y[np.random.default_rng(0).permutation(21)[:16]])

    def test_adult(self, rng, monkeypatch, compare):
        shrink(monkeypatch, "adult", n_train=20, n_test=10)
        arrays = make_classes(rng, 20, 10, 123)
        train, test = (svmlight(arrays[f"X_{part}"], arrays[f"y_{part}"]) for part in ("train", "test"))
        for files in (
            {"a9a": train, "a9a.t": test},
            {"a9a.txt": train, "a9a.t.gz": gzip.compress(test)},
        ):
            data = compare("adult", arrays, files)
        assert (data.name, data.task) == ("adult", "classification")
        np.testing.assert_array_equal(data.y_test, arrays["y_test"])
        assert data.y_test.dtype == np.int64

    def test_mnist(self, rng, monkeypatch, compare):
        shrink(monkeypatch, "mnist", n_train=20, n_test=10)
        arrays = make_classes(rng, 20, 10, 784, labels=range(10))
        X_train, y_train, X_test, y_test = arrays.values()
        images = {"train": X_train.reshape(-1, 28, 28), "t10k": X_test.reshape(-1, 28, 28)}
        labels = {"train": y_train, "t10k": y_test}
        pixels = b"label" + b",p" * 784 + b"\n"
        for files in (
            {f"{part}-images-idx3-ubyte": idx(images[part]) for part in images}
            | {f"{part}-labels-idx1-ubyte": idx(labels[part]) for part in labels},
            {f"{part}-images.idx3-ubyte.gz": gzip.compress(idx(images[part])) for part in images}
            | {f"{part}-labels.idx1-ubyte.gz": gzip.compress(idx(labels[part])) for part in labels},
            {
                "mnist_train.csv": pixels + text(np.column_stack([y_train, X_train])),
                "mnist_test.csv": text(np.column_stack([y_test, X_test])),
            },
            {"mnist.bz2": bz2.compress(svmlight(X_train, y_train)), "mnist.t": svmlight(X_test, y_test)},
            {"mnist.scale": svmlight(X_train, y_train), "mnist.scale.t": svmlight(X_test, y_test)},
            {"mnist.npz": npz(x_train=images["train"], y_train=y_train, x_test=images["t10k"], y_test=y_test)},
        ):
            data = compare("mnist", arrays, files)
        assert data.name == "mnist"
        np.testing.assert_array_equal(data.y_train, y_train)

    def test_covtype_is_the_second_class_against_the_others(self, rng, monkeypatch, compare):
        shrink(monkeypatch, "covtype", n_train=24, n_test=6)
        X, y = rng.integers(200, size=(30, 54)), rng.integers(1, 8, size=30)
        table = text(np.column_stack([X, y]))
        for files in (
            {"covtype.data.gz": gzip.compress(table)},
            {"covtype.csv": table},
            {"covtype.libsvm.binary.bz2": bz2.compress(svmlight(X, np.where(y == 2, 2, 1)))},
        ):
            data = compare("covtype", {"X": X, "y": y}, files)
        order = np.random.default_rng(0).permutation(30)
        assert data.name == "covtype"
        np.testing.assert_array_equal(data.y_train, (y == 2)[order[:24]])
        np.testing.assert_array_equal(data.y_test, (y == 2)[order[24:]])
        assert set(data.y_train) <= {0, 1}


class TestLoad:
    def test_columns_are_standardised_by_the_training_rows(self, rng, folder):
        arrays = make_classes(rng, 20, 10, 4)
        arrays["X_train"][:, 1] = 7
        arrays["X_test"][:, 1] = 7
        (folder / "adult.npz").write_bytes(npz(**arrays))
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
    def test_only_the_papers_rows_have_the_papers_name(self, rng, monkeypatch, folder, n_train, n_test, name):
        shrink(monkeypatch, "adult", n_train=20, n_test=10, n_columns=4)
        (folder / "adult.npz").write_bytes(npz(**make_classes(rng, n_train, n_test, 4)))
        assert load("adult", folder).name == name

    def test_the_folder_may_come_from_the_environment(self, rng, monkeypatch, folder):
        (folder / "adult.npz").write_bytes(npz(**make_classes(rng, 20, 10, 4)))
        monkeypatch.setenv("BOCHNER_DATA", str(folder))
        assert_same(load("adult"), load("adult", str(folder)))

    def test_digits_need_no_folder(self):
        data = load("digits")
        X, y = load_digits(return_X_y=True)
        order = np.random.default_rng(0).permutation(1797)
        np.testing.assert_array_equal(data.y_test, y[order[1198:]])
        np.testing.assert_allclose(data.X_train, StandardScaler().fit_transform(X[order[:1198]]), atol=1e-12)
        assert (data.name, data.task, data.paper, data.reduced) == ("digits", "classification", "", "")

    def test_an_unknown_name(self):
        with pytest.raises(ValueError, match="no data set 'iris'; the names are cpu, census, years, adult, mnist, cov"):
            load("iris")

    def test_a_folder_that_does_not_exist(self, tmp_path):
        with pytest.raises(ValueError, match=r"The data folder .*none does not exist; give one"):
            load("cpu", tmp_path / "none")

    @pytest.mark.parametrize(
        ("arrays", "message"),
        [
            ({"A": np.ones(3)}, r"cpu\.npz holds a; it must hold X_train, y_train, X_test, y_test, or X and y"),
            (
                {"X": np.ones((4, 3)), "y": np.ones(5)},
                r"cpu\.npz has rows of shape \(4, 3\) for targets of shape \(5,\)",
            ),
            ({"X": np.full((4, 3), "a"), "y": np.ones(4)}, r"cpu\.npz has rows of shape"),
            ({"X": np.ones((4, 3)), "y": np.ones(4)}, "The data set cpu has too few rows here"),
            ({"X": np.full((20, 3), np.nan), "y": np.ones(20)}, "The data set cpu has missing or infinite values"),
            ({"X": np.ones((20, 3)), "y": np.full(20, np.nan)}, "The data set cpu has missing or infinite values"),
            (
                {
                    f"{a}_{b}": np.ones((9, 3 + (b == "test")) if a == "X" else 9)
                    for a in "Xy"
                    for b in ("train", "test")
                },
                "The data set cpu has 3 columns to train on and 4 to test on here",
            ),
        ],
    )
    def test_bad_arrays_get_one_sentence(self, folder, arrays, message):
        (folder / "cpu.npz").write_bytes(npz(**arrays))
        with pytest.raises(ValueError, match=message):
            load("cpu", folder)

    @pytest.mark.parametrize(
        ("labels", "message"),
        [(np.ones(20), "a single class"), (np.resize([1.0, np.nan], 20), "missing or infinite values")],
    )
    def test_labels_that_are_none(self, rng, folder, labels, message):
        (folder / "adult.npz").write_bytes(npz(X=rng.normal(size=(20, 3)), y=labels))
        with pytest.raises(ValueError, match=message):
            datasets.load("adult", folder)

    def test_a_file_for_a_folder(self, folder):
        (folder / "cpu.npz").write_bytes(b"")
        with pytest.raises(ValueError, match=r"The data folder .*cpu\.npz is a file; give one"):
            datasets.load("cpu", folder / "cpu.npz")

    def test_a_byte_order_mark_is_no_header(self, tmp_path):
        (tmp_path / "t.csv").write_bytes(b"\xef\xbb\xbf1,2\n3,4\n")
        assert read_numbers(tmp_path / "t.csv").tolist() == [[1.0, 2.0], [3.0, 4.0]]

    def test_a_price_of_nothing_has_no_logarithm(self, rng, folder):
        (folder / "census.npz").write_bytes(npz(X=rng.normal(size=(20, 3)), y=np.zeros(20)))
        with pytest.raises(ValueError, match="The data set census has missing or infinite values"):
            load("census", folder)


class TestDownloads:
    """Sets that are in no folder come from the web, once."""

    @pytest.fixture
    def adult(self, rng, monkeypatch, site):
        shrink(monkeypatch, "adult", n_train=20, n_test=10)
        monkeypatch.setitem(datasets.URLS, "adult", {site.url("a9a"): None, site.url("a9a.t"): None})
        arrays = make_classes(rng, 20, 10, 123)
        site.files["a9a"] = svmlight(arrays["X_train"], arrays["y_train"])
        site.files["a9a.t"] = svmlight(arrays["X_test"], arrays["y_test"])
        return arrays

    def test_files_are_fetched_once_with_progress(self, site, adult, cache):
        seen = []

        def track(items, description, total):
            seen.append((description, total))
            return items

        data = load("adult", track=track)
        np.testing.assert_array_equal(data.y_test, adult["y_test"])
        assert data.name == "adult"
        assert seen == [(f"fetching {name}", -(-len(site.files[name]) // 1000)) for name in ("a9a", "a9a.t")]
        assert sorted(path.name for path in cache.iterdir()) == ["a9a", "a9a.t"]
        assert_same(load("adult"), data)
        assert len(site.requests) == 2

    def test_a_folder_without_the_set_is_no_hindrance(self, site, adult, folder):
        assert load("adult", folder).name == "adult"
        assert list(folder.iterdir()) == []

    def test_what_a_stopped_run_has_fetched_is_kept(self, site, adult, cache):
        cache.mkdir(parents=True)
        (cache / "a9a").write_bytes(site.files["a9a"])
        (cache / "a9a.t.part").write_bytes(site.files["a9a.t"][:99])
        assert load("adult").name == "adult"
        assert site.requests == [("a9a.t", "bytes=99-")]

    @pytest.mark.parametrize(
        ("content", "message"),
        [(b"<html>Log in</html>", "a9a cannot be read as LIBSVM text"), (b"1 1:1\n", "gave 11 rows of 123 columns")],
    )
    def test_files_of_something_else_are_not_kept(self, site, adult, cache, content, message):
        site.files["a9a"] = content
        with pytest.raises(ValueError, match=message):
            load("adult")
        assert list(cache.iterdir()) == []

    def test_failure_says_what_was_looked_for_where_and_why(self, site, adult, folder, cache):
        del site.files["a9a.t"]
        message = (
            f"The data set adult is not in {folder}, {cache}, looked for as adult.npz, a9a or a9a.txt with a9a.t or "
            f"a9a.t.txt (packed or not), and the download failed: {site.url('a9a.t')} cannot be fetched (HTTP Error 404"
        )
        with pytest.raises(ValueError, match=re.escape(message)):
            load("adult", folder)

    def test_years(self, rng, monkeypatch, site):
        shrink(monkeypatch, "years", n_train=16, n_test=5, divide=partial(datasets._by_order, 16, 5))
        table = np.column_stack([rng.integers(1922, 2011, size=21), rng.normal(size=(21, 90))])
        site.files["YearPredictionMSD.txt.zip"] = zipped(text(table), "YearPredictionMSD.txt")
        monkeypatch.setitem(datasets.URLS, "years", {site.url("YearPredictionMSD.txt.zip"): None})
        data = load("years")
        assert data.name == "years"
        np.testing.assert_array_equal(data.y_test, table[16:, 0])

    def test_mnist(self, rng, monkeypatch, site):
        shrink(monkeypatch, "mnist", n_train=20, n_test=10)
        arrays = make_classes(rng, 20, 10, 784, labels=range(10))
        names = [url.rpartition("/")[2] for url in datasets.URLS["mnist"]]
        for name, array in zip(names, arrays.values(), strict=True):
            pixels = array.reshape(-1, 28, 28) if "images" in name else array
            site.files[name] = gzip.compress(idx(pixels))
        sums = {site.url(name): hashlib.sha256(site.files[name]).hexdigest() for name in names}
        monkeypatch.setitem(datasets.URLS, "mnist", sums)
        data = load("mnist")
        np.testing.assert_array_equal(data.y_train, arrays["y_train"])
        assert data.name == "mnist"

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
        monkeypatch.setattr(datasets, "fetch_covtype", lambda *, data_home, return_X_y: (X, y))
        data = load("covtype")
        np.testing.assert_array_equal(data.y_test, (y == 2)[np.random.default_rng(0).permutation(30)[24:]])
        assert data.name == "covtype (30 of 581,012 rows)"

    @pytest.mark.parametrize("name", ["cpu", "census", "covtype"])
    def test_scikit_learns_failures_get_the_same_sentence(self, monkeypatch, name):
        def fail(**_):
            raise URLError("no route to host")

        monkeypatch.setattr(datasets, "fetch_openml", fail)
        monkeypatch.setattr(datasets, "fetch_covtype", fail)
        with pytest.raises(
            ValueError, match=rf"The data set {name} is not in .*{name}\.npz.* the download failed: .*no ro"
        ):
            load(name)

    def test_every_set_can_be_downloaded_under_a_name_that_is_looked_for(self):
        for name, urls in datasets.URLS.items():
            known = [file for source in datasets.SETS[name].sources for names in source.files for file in names]
            for url in urls:
                file = url.rpartition("/")[2]
                assert file in known or file.rpartition(".")[0] in known


class TestRealData:
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

    def test_all_sets_are_here(self):
        assert [name for name, *_ in self.SHAPES] == list(NAMES[:-1])


class TestSplit:
    def test_split_is_standardised_by_the_training_rows(self, rng):
        data = datasets.split("t", 5 + 3 * rng.normal(size=(9001, 2)))
        assert data.X_train.shape == data.X_test.shape == (2000, 2)
        np.testing.assert_allclose(data.X_train.mean(axis=0), 0, atol=1e-12)
        np.testing.assert_allclose(data.X_train.std(axis=0), 1)
        assert abs(data.X_test.mean()) > 1e-6
