# SPDX-License-Identifier: BSD-3-Clause
import gzip
import re
import sys
from functools import partial

import numpy as np
import pandas as pd
import pytest

from bochner import TableEncoder
from bochner.experiments.formats import (
    DamagedFileError,
    read_arff,
    read_arrays,
    read_idx,
    read_svmlight,
    read_table,
    read_text,
)
from tests.experiments.files import (
    arff_bytes,
    idx_bytes,
    mat_bytes,
    npz_bytes,
    svmlight_bytes,
    text_bytes,
    zip_bytes,
)


class TestTables:
    @pytest.mark.parametrize("name", ["t.csv", "t.parquet"])
    def test_columns_are_encoded_as_by_fit(self, tmp_path, rng, name):
        frame = pd.DataFrame({"a": rng.normal(size=90), "city": ["x"] * 90, "color": ["red", "blue", None] * 30})
        if name == "t.csv":
            frame.to_csv(tmp_path / name, index=False)
        else:
            frame.to_parquet(tmp_path / name)
        table = read_table(tmp_path / name)
        np.testing.assert_array_equal(table.X, TableEncoder().fit_transform(frame))
        assert table.y is None
        assert table.is_encoded
        assert table.messages[-1] == "Left out: city (constant: all cells are 'x'). Use --as to keep one."
        assert read_table(tmp_path / name, drop=["city"]).messages[-1].startswith("Columns with missing cells: color")
        assert read_table(tmp_path / name, kinds={"city": "category"}).X.shape == (90, 5)

    @pytest.mark.parametrize("name", ["t.csv", "t.parquet", "t.npz"])
    @pytest.mark.parametrize("target", ["y", "kind"])
    def test_target_is_numbers_or_text(self, tmp_path, rng, name, target):
        X, y, kind = rng.normal(size=(9, 2)), np.arange(9), ["x", "y", "z"] * 3
        frame = pd.DataFrame(X, columns=["a", "b"]).assign(y=y, kind=kind)
        if name == "t.npz":
            np.savez(tmp_path / name, X=X, y=y, kind=kind)
        elif name == "t.csv":
            frame.to_csv(tmp_path / name, index=False)
        else:
            frame.to_parquet(tmp_path / name)
        table = read_table(tmp_path / name, target)
        assert table.y.tolist() == frame[target].tolist()
        assert table.y.dtype.kind == ("f" if target == "y" else "U")
        # A table uses its other columns; an NPZ file has its rows in one array.
        assert table.X.shape == (9, 2 if name == "t.npz" else 5 if target == "y" else 3)
        assert table.is_encoded == (name != "t.npz")

    def test_rows_without_a_target_are_left_out(self, tmp_path):
        frame = pd.DataFrame({"a": [1.0, 2.0, 3.0, 4.0], "y": [1.0, None, 2.5, 3.0], "kind": ["x", None, None, "z"]})
        frame.to_parquet(tmp_path / "t.parquet")
        table = read_table(tmp_path / "t.parquet", "y")
        assert table.y.tolist() == [1.0, 2.5, 3.0]
        assert table.messages[-1] == "1 rows have no y and are left out."
        assert read_table(tmp_path / "t.parquet", "kind").y.tolist() == ["x", "z"]

    @pytest.mark.parametrize(
        ("arrays", "shape", "left_out"),
        [
            (
                {"y": np.arange(5), "X_train": np.ones((5, 2), dtype=np.int16), "big": np.ones((50, 9))},
                (5, 2),
                ["y", "big"],
            ),
            ({"X": np.ones((5, 2)), "X_train": np.ones((9, 2))}, (5, 2), ["X_train"]),
            ({"small": np.ones((5, 2)), "big": np.ones((50, 9))}, (50, 9), ["small"]),
        ],
    )
    def test_array_in_an_npz_file_has_a_usual_name_or_is_the_largest(self, tmp_path, arrays, shape, left_out):
        np.savez(tmp_path / "t.npz", **arrays)
        table = read_table(tmp_path / "t.npz")
        assert table.X.shape == shape
        assert table.X.dtype == np.float64
        assert table.messages == [f"Arrays of t.npz that are not used: {', '.join(left_out)}."]

    @pytest.mark.parametrize(
        ("name", "content", "message"),
        [
            ("t.txt", "a\n1\n", "t.txt has an unsupported file type; give a .parquet, .csv,"),
            ("t.csv", "a,b\n", "t.csv has no rows"),
            ("t.csv", "", "cannot be read as csv: Empty CSV file"),
            ("t.csv", "a,b\n1,2\n1,2,3\n", "row 2 is malformed"),
            ("t.parquet", "nonsense", "cannot be read as parquet:"),
            ("t.npz", "nonsense", "cannot be read as a .npz file ("),
            ("t.npz", "", "cannot be read as a .npz file ("),
            ("t.csv", "a,a\n1,2\n1,3\n", "has more than one column named 'a'"),
            ("t.csv", "a,b\n1,2\n1,inf\n", "row 2, column 'b': the value is inf"),
        ],
    )
    def test_invalid_file_gives_an_error_message(self, tmp_path, name, content, message):
        (tmp_path / name).write_text(content)
        with pytest.raises(ValueError, match=re.escape(message)) as error:
            read_table(tmp_path / name)
        assert "\n" not in str(error.value)

    def test_npz_file_with_missing_values_is_refused(self, tmp_path):
        np.savez(tmp_path / "t.npz", X=[[1.0, 2.0], [3.0, np.nan]], y=[1.0, 1e200])
        with pytest.raises(ValueError, match="1 missing, infinite or enormous values, the first in data row 2"):
            read_table(tmp_path / "t.npz")
        np.savez(tmp_path / "t.npz", X=[[1.0, 2.0], [3.0, 4.0]], y=[1.0, 1e200])
        with pytest.raises(ValueError, match="column 'y' has 1 missing, infinite or enormous values, the first in dat"):
            read_table(tmp_path / "t.npz", "y")
        with pytest.raises(ValueError, match="has no column named 'z' for --target; its columns are X, y"):
            read_table(tmp_path / "t.npz", "z")

    def test_target_with_another_number_of_rows_is_refused(self, tmp_path):
        np.savez(tmp_path / "t.npz", X=np.ones((9, 2)), y=np.arange(5))
        with pytest.raises(ValueError, match=r"has 9 rows and a target 'y' of shape \(5,\); the target needs one"):
            read_table(tmp_path / "t.npz", "y")

    def test_array_of_objects_is_not_unpickled(self, tmp_path):
        np.savez(tmp_path / "t.npz", X=np.ones((3, 2)), y=np.array(["a", None], dtype=object))
        table = read_table(tmp_path / "t.npz")
        assert table.X.shape == (3, 2)
        assert table.messages == []

    def test_folder_or_missing_file(self, tmp_path):
        (tmp_path / "t.npz").mkdir()
        with pytest.raises(ValueError, match=r"t\.npz is a folder, not a file"):
            read_table(tmp_path / "t.npz")
        with pytest.raises(ValueError, match=r"none\.csv does not exist"):
            read_table(tmp_path / "none.csv")

    def test_missing_pyarrow_is_reported(self, tmp_path, monkeypatch):
        (tmp_path / "t.csv").write_text("a\n1\n")
        monkeypatch.setitem(sys.modules, "pyarrow", None)
        with pytest.raises(ValueError, match=re.escape("pip install 'bochner[table]'")):
            read_table(tmp_path / "t.csv")

    def test_npz_file_without_a_table(self, tmp_path):
        np.savez(tmp_path / "t.npz", y=np.arange(5))
        with pytest.raises(ValueError, match="has no two-dimensional numeric array; it has y"):
            read_table(tmp_path / "t.npz")


class TestDataSetFormats:
    @pytest.mark.parametrize("suffix", [".txt", ".gz", ".zip"])
    def test_text(self, tmp_path, rng, suffix):
        table = rng.normal(size=(7, 3))
        table[0] = 1, 2, 3  # a first row of whole numbers does not make a column of integers
        pack = {".txt": bytes, ".gz": gzip.compress, ".zip": zip_bytes}[suffix]
        (tmp_path / f"t{suffix}").write_bytes(pack(text_bytes(table)))
        np.testing.assert_array_equal(read_text(tmp_path / f"t{suffix}"), table)

    def test_byte_order_mark_is_not_a_value(self, tmp_path):
        (tmp_path / "t.txt").write_bytes(b"\xef\xbb\xbf1,2\n3,4\n")
        assert read_text(tmp_path / "t.txt").tolist() == [[1.0, 2.0], [3.0, 4.0]]

    def test_arff(self, tmp_path, rng):
        table = np.column_stack([rng.integers(3, size=9), rng.normal(size=(9, 2))])
        (tmp_path / "t.arff").write_bytes(arff_bytes(table))
        np.testing.assert_array_equal(read_arff(tmp_path / "t.arff"), table)

    def test_svmlight_has_the_given_number_of_columns(self, tmp_path, rng):
        X, y = rng.integers(2, size=(6, 4)) * rng.normal(size=(6, 4)), rng.normal(size=6)
        (tmp_path / "a9a").write_bytes(svmlight_bytes(X, y))
        read_X, read_y = read_svmlight(tmp_path / "a9a", 5)
        np.testing.assert_allclose(read_X, np.pad(X, ((0, 0), (0, 1))), rtol=1e-15)
        np.testing.assert_allclose(read_y, y, rtol=1e-15)

    @pytest.mark.parametrize(("suffix", "pack"), [("", bytes), (".gz", gzip.compress)])
    def test_idx(self, tmp_path, rng, suffix, pack):
        images = rng.integers(256, size=(5, 3, 2))
        path = tmp_path / f"train-images-idx3-ubyte{suffix}"
        path.write_bytes(pack(idx_bytes(images)))
        np.testing.assert_array_equal(read_idx(path), images)

    @pytest.mark.parametrize(("name", "make"), [("t.npz", npz_bytes), ("t.mat", mat_bytes)])
    def test_arrays_by_name(self, tmp_path, rng, name, make):
        X = rng.normal(size=(4, 3))
        (tmp_path / name).write_bytes(make(Xtrain=X, YTRAIN=np.arange(4)))
        arrays = read_arrays(tmp_path / name)
        assert set(arrays) == {"Xtrain", "YTRAIN"}
        np.testing.assert_array_equal(arrays["Xtrain"], X)
        np.testing.assert_array_equal(arrays["YTRAIN"].ravel(), np.arange(4))

    ONES = np.ones((99, 3))
    TEXT = (("t.txt", read_text), ("t.arff", read_arff), ("a9a", partial(read_svmlight, n_columns=3)))
    BINARY = (
        ("t.txt.gz", read_text, gzip.compress(text_bytes(ONES))),
        ("t.txt.zip", read_text, zip_bytes(text_bytes(ONES))),
        ("t-idx1-ubyte", read_idx, idx_bytes(ONES[:, 0])),
        ("t-idx1-ubyte.gz", read_idx, gzip.compress(idx_bytes(ONES[:, 0]))),
        ("t.npz", read_arrays, npz_bytes(X=ONES)),
        ("t.mat", read_arrays, mat_bytes(X=ONES)),
    )

    @pytest.mark.parametrize("content", [b"", b"nonsense", b"\0\0\x08\x03\0", b"@data\n", b"1,2\n3\n", b"1,\n2,3\n"])
    @pytest.mark.parametrize(("name", "read"), [*TEXT, *(reader[:2] for reader in BINARY)])
    def test_damaged_file_gives_an_error_message(self, tmp_path, name, read, content):
        (tmp_path / name).write_bytes(content)
        with pytest.raises(DamagedFileError, match=rf"^[^\n]*{name} cannot be read as [^\n]* \([^\n]+\)\.$"):
            read(tmp_path / name)

    @pytest.mark.parametrize(("name", "read", "content"), BINARY, ids=[reader[0] for reader in BINARY])
    def test_truncated_file_gives_an_error_message(self, tmp_path, name, read, content):
        for n_bytes in (len(content) // 2, len(content) - 9):
            (tmp_path / name).write_bytes(content[:n_bytes])
            with pytest.raises(DamagedFileError, match=rf"{name} cannot be read as "):
                read(tmp_path / name)
