# SPDX-License-Identifier: BSD-3-Clause
import re
from decimal import Decimal

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from bochner.experiments.formats import read_table


class TestTables:
    def test_csv_and_parquet_agree_and_name_what_they_leave_out(self, tmp_path, rng):
        frame = pd.DataFrame({"a": rng.normal(size=9), "city": ["x"] * 9, "n": range(9), "flag": [True] * 9})
        frame.to_csv(tmp_path / "t.csv", index=False)
        frame.to_parquet(tmp_path / "t.parquet")
        for name in ("t.csv", "t.parquet"):
            X, left_out = read_table(tmp_path / name)
            np.testing.assert_allclose(X, frame[["a", "n", "flag"]].to_numpy(dtype=float))
            assert left_out == ["city"]

    def test_npz_prefers_the_usual_name(self, tmp_path, rng):
        np.savez(tmp_path / "t.npz", y=np.arange(5), X_train=np.ones((5, 2), dtype=np.int16), big=np.ones((50, 9)))
        X, left_out = read_table(tmp_path / "t.npz")
        assert X.shape == (5, 2)
        assert X.dtype == np.float64
        assert left_out == ["y", "big"]

    @pytest.mark.parametrize(
        ("name", "content", "message"),
        [
            ("t.txt", "a\n1\n", "is not a table this command reads; give a .csv, .parquet, .npz file"),
            (
                "t.csv",
                "a,b\n1,\n2,3\n",
                "1 missing, infinite or enormous values, the first in data row 1, numeric column 2",
            ),
            ("t.csv", "a\nx\ny\n", "has no numbers in it: 2 rows, 0 numeric columns"),
            ("t.csv", "", "cannot be read"),
            ("t.csv", "a,b\n1,2\n1,2,3\n", "cannot be read"),
            ("t.parquet", "nonsense", "cannot be read"),
            ("t.npz", "nonsense", "cannot be read as an npz file"),
            ("t.npz", "", "cannot be read as an npz file"),
            (
                "t.csv",
                "a,a\n1,inf\n",
                "1 missing, infinite or enormous values, the first in data row 1, numeric column 2",
            ),
            ("t.csv", "a\n1e200\n", "1 missing, infinite or enormous values"),
        ],
    )
    def test_bad_files_get_one_sentence(self, tmp_path, name, content, message):
        (tmp_path / name).write_text(content)
        with pytest.raises(ValueError, match=re.escape(message)):
            read_table(tmp_path / name)

    def test_columns_of_the_same_name_decimals_and_large_integers_are_read(self, tmp_path):
        (tmp_path / "t.csv").write_text(f"a,a\n1,{2**60}\n3,4\n")
        assert read_table(tmp_path / "t.csv")[0].tolist() == [[1, 2.0**60], [3, 4]]
        decimals = pa.table({"d": pa.array([Decimal("1.5"), Decimal("2.5")])})
        pq.write_table(decimals, tmp_path / "t.parquet")
        assert read_table(tmp_path / "t.parquet")[0].tolist() == [[1.5], [2.5]]

    def test_an_object_array_beside_the_table_is_not_unpickled(self, tmp_path):
        np.savez(tmp_path / "t.npz", X=np.ones((3, 2)), y=np.array(["a", None], dtype=object))
        assert read_table(tmp_path / "t.npz")[0].shape == (3, 2)

    def test_a_folder_named_like_a_table(self, tmp_path):
        (tmp_path / "t.csv").mkdir()
        with pytest.raises(ValueError, match="is a folder, not a file"):
            read_table(tmp_path / "t.csv")

    def test_a_missing_file(self, tmp_path):
        with pytest.raises(ValueError, match=r"none\.csv does not exist"):
            read_table(tmp_path / "none.csv")

    def test_an_npz_without_a_table(self, tmp_path):
        np.savez(tmp_path / "t.npz", y=np.arange(5))
        with pytest.raises(ValueError, match="holds no two-dimensional numeric array; it holds y"):
            read_table(tmp_path / "t.npz")
