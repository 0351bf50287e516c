# SPDX-License-Identifier: BSD-3-Clause
import pytest

from bochner.experiments.store import Row, Store, Trial


def make_row(**fields):
    trial = Trial("figure1", "cpu", "MC", 16, 0, "median", 4.5, 0, "p")
    outcome = {"error": 0.1, "cv_error": float("nan"), "penalty": 1.0, "fit_seconds": 0.1, "transform_seconds": 0.2}
    return Row(**(vars(trial) | outcome | {"weights": "0.5 0.25", "versions": 'numpy 2, "x"'} | fields))


class TestStore:
    def test_rows_come_back_as_they_were(self, tmp_path):
        rows = [make_row(seed=seed, length_scale=0.1 + 0.2) for seed in range(3)]
        with Store.open(tmp_path / "rows.csv") as store:
            store.append(rows[:2])
            store.append(rows[2:])
        with Store.open(tmp_path / "rows.csv") as store:
            assert list(store.rows) == [row.trial for row in rows]
            assert [repr(row) for row in store.rows.values()] == [repr(row) for row in rows]

    def test_half_a_line_is_dropped_and_the_file_goes_on_after_it(self, tmp_path):
        path = tmp_path / "rows.csv"
        with Store.open(path) as store:
            store.append([make_row(seed=0), make_row(seed=1)])
        path.write_bytes(path.read_bytes()[:-9])
        with Store.open(path) as store:
            assert [trial.seed for trial in store.rows] == [0]
            store.append([make_row(seed=1)])
        with Store.open(path) as store:
            assert [trial.seed for trial in store.rows] == [0, 1]
        assert len(path.read_text().splitlines()) == 3

    def test_half_a_heading_is_written_again(self, tmp_path):
        (tmp_path / "rows.csv").write_text("study,data")
        with Store.open(tmp_path / "rows.csv") as store:
            store.append([make_row()])
        with Store.open(tmp_path / "rows.csv") as store:
            assert len(store.rows) == 1

    def test_a_file_of_another_kind_is_refused(self, tmp_path):
        (tmp_path / "rows.csv").write_text("a,b\n1,2\n")
        with pytest.raises(ValueError, match="other columns"), Store.open(tmp_path / "rows.csv"):
            pass
        assert (tmp_path / "rows.csv").read_text() == "a,b\n1,2\n"

    @pytest.mark.parametrize(
        "damage",
        [lambda line: line + ",1", lambda line: line.replace("0.1", "x", 1), lambda _: "\0"],
        ids=["cells", "number", "zero"],
    )
    def test_a_damaged_line_is_named(self, tmp_path, damage):
        path = tmp_path / "rows.csv"
        with Store.open(path) as store:
            store.append([make_row(seed=0), make_row(seed=1)])
        lines = path.read_text().splitlines()
        lines[1] = damage(lines[1])
        path.write_text("\n".join(lines) + "\n")
        with pytest.raises(ValueError, match=r"rows\.csv, line 2, is damaged"), Store.open(path):
            pass

    def test_one_run_at_a_time(self, tmp_path):
        pytest.importorskip("fcntl", reason="this system has no file locks")
        with (
            Store.open(tmp_path / "rows.csv"),
            pytest.raises(ValueError, match="another run"),
            Store.open(tmp_path / "rows.csv"),
        ):
            pass
