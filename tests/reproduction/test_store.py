# SPDX-License-Identifier: BSD-3-Clause
import pytest

from reproduction.store import Store
from tests.reproduction.examples import make_row


def test_rows_are_read_as_they_were_written(tmp_path):
    rows = [make_row(seed=seed, length_scale=0.1 + 0.2) for seed in range(3)]
    with Store.open(tmp_path / "rows.csv") as store:
        store.append(rows[:2])
        store.append(rows[2:])
    with Store.open(tmp_path / "rows.csv") as store:
        assert list(store.rows) == [row.trial for row in rows]
        assert [repr(row) for row in store.rows.values()] == [repr(row) for row in rows]


def test_incomplete_last_line_is_dropped(tmp_path):
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


def test_incomplete_heading_is_written_again(tmp_path):
    (tmp_path / "rows.csv").write_text("study,data")
    with Store.open(tmp_path / "rows.csv") as store:
        store.append([make_row()])
    with Store.open(tmp_path / "rows.csv") as store:
        assert len(store.rows) == 1


def test_cell_without_end_is_reported_with_its_line(tmp_path):
    path = tmp_path / "rows.csv"
    with Store.open(path) as store:
        store.append([make_row()])
    path.write_text(path.read_text() + "x" * 200_000 + "\n")
    with pytest.raises(ValueError, match="is damaged in line 3; delete that line to repeat its fit"), Store.open(path):
        pass


def test_file_with_other_columns_is_rejected_and_kept(tmp_path):
    (tmp_path / "rows.csv").write_text("a,b\n1,2\n")
    with (
        pytest.raises(ValueError, match="does not have the columns of this version"),
        Store.open(tmp_path / "rows.csv"),
    ):
        pass
    assert (tmp_path / "rows.csv").read_text() == "a,b\n1,2\n"


@pytest.mark.parametrize(
    "damage",
    [lambda line: line + ",1", lambda line: line.replace("0.1", "x", 1), lambda _: "\0"],
    ids=["cells", "number", "zero"],
)
def test_damaged_line_is_reported(tmp_path, damage):
    path = tmp_path / "rows.csv"
    with Store.open(path) as store:
        store.append([make_row(seed=0), make_row(seed=1)])
    lines = path.read_text().splitlines()
    lines[1] = damage(lines[1])
    path.write_text("\n".join(lines) + "\n")
    with pytest.raises(ValueError, match=r"rows\.csv is damaged in line 2; delete that line"), Store.open(path):
        pass


def test_second_run_cannot_open_the_file(tmp_path):
    pytest.importorskip("fcntl", reason="this system has no file locks")
    with (
        Store.open(tmp_path / "rows.csv"),
        pytest.raises(ValueError, match="Another run is writing"),
        Store.open(tmp_path / "rows.csv"),
    ):
        pass


def test_store_without_a_path_keeps_rows_in_memory():
    store = Store()
    store.append([make_row()])
    assert list(store.rows) == [make_row().trial]
