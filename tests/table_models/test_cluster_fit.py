# SPDX-License-Identifier: BSD-3-Clause
"""`bochner fit --dask`: many Parquet files make the model that one file with their rows makes."""

import json
import logging
import shutil
import subprocess
import sys
import time
from contextlib import contextmanager, nullcontext
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet
from sklearn.preprocessing import StandardScaler
from typer.testing import CliRunner

import bochner.cli.cluster
import bochner.cli.table_commands
import bochner.tables.parquet_folder
import bochner.tables.reader
from bochner.cli import app
from bochner.rows import ClusterError
from bochner.table_models import models
from bochner.tables.parquet_folder import EncodedPieces, ParquetFolder
from bochner.tables.reader import Table
from bochner.tables.survey import survey

dask = pytest.importorskip("dask")
distributed = pytest.importorskip("distributed")
pytestmark = pytest.mark.filterwarnings("ignore:The inplace keyword:DeprecationWarning")  # Dask's, with pandas 3.1

N_ROWS = 1600  # more than the least sample
CUTS = {"part-1": (0, 1), "part-2": (1, 700), "part-3": (700, 700), "part-10": (700, N_ROWS)}


@pytest.fixture
def table(rng):
    a, b = rng.normal(size=(2, N_ROWS))
    colour = rng.choice(["red", "green", "blue"], size=N_ROWS)
    y = np.sin(2 * a) + b * (colour == "red") + 0.3 * rng.normal(size=N_ROWS)
    kind = np.where(y > 0.5, "high", np.where(y < -0.5, "low", "middle"))
    count = rng.integers(0, 9, size=N_ROWS)
    return pa.table({"a": 1e3 * a + 1e5, "b": b, "count": count, "colour": colour, "y": y, "kind": kind})


@pytest.fixture
def files(tmp_path, table):
    """One file, and a folder with the same rows in files of all sizes."""
    folder = tmp_path / "data"
    folder.mkdir()
    for name, (begin, end) in CUTS.items():
        parquet.write_table(table[begin:end], folder / f"{name}.parquet", row_group_size=300)
    parquet.write_table(table, tmp_path / "all.parquet", row_group_size=500)
    return tmp_path / "all.parquet", folder


@pytest.fixture
def in_process(monkeypatch):
    """Dask computes in this thread, a row group at a time, and sample and batches are small."""

    @contextmanager
    def cluster(address, say):
        say(f"Dashboard of the cluster: {address}")
        with dask.config.set(scheduler="synchronous"):
            yield

    monkeypatch.setattr(bochner.cli.table_commands, "open_cluster", cluster)
    monkeypatch.setattr(bochner.tables.parquet_folder, "PIECE_BYTES", 1)
    monkeypatch.setattr(bochner.tables.reader, "SAMPLE_ROWS", 1000)


def run(*arguments):
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def answer(*arguments):
    result = run(*arguments, "--json")
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def refusal(*arguments):
    result = run(*arguments)
    assert result.exit_code == 2, result.output
    assert result.stderr.startswith("Error: ")
    assert result.stderr.count("\n") == 1
    return result.stderr


def pieces_of(folder, target):
    table = ParquetFolder(folder, target)
    return table, table.pieces()


def check_same(first, second):
    assert second.n_rows == first.n_rows == N_ROWS
    assert second.encoding.categories == first.encoding.categories
    np.testing.assert_allclose(second.head.features_.weights_, first.head.features_.weights_, rtol=1e-10)
    np.testing.assert_allclose(second.head.features_.length_scale_, first.head.features_.length_scale_, rtol=1e-12)
    tolerance = 1e-8 * np.abs(first.head.coef_).max()
    np.testing.assert_allclose(second.head.coef_, first.head.coef_, rtol=0, atol=tolerance)
    np.testing.assert_allclose(second.head.intercept_, first.head.intercept_, rtol=0, atol=tolerance)


@pytest.mark.usefixtures("in_process")
@pytest.mark.parametrize(
    ("head", "target", "dropped", "scales"),
    [
        ("ridge", "y", "kind", ["--length-scale", "0.7", "--length-scale", "1.5"]),
        ("ridge", "kind", "y", []),
        ("svm", "kind", "y", []),
    ],
)
def test_the_model_is_that_of_one_file(files, tmp_path, head, target, dropped, scales):
    whole, folder = files
    options = ("--target", target, "--drop", dropped, "--head", head, "--n-frequencies", "20", *scales)
    one = answer("fit", whole, *options, "--output", tmp_path / "one.skops")
    many = answer("fit", folder, *options, "--output", tmp_path / "many.skops", "--dask")
    chosen = "C" if head == "svm" else "alpha"
    assert many[chosen] == one[chosen]
    assert many["kernel_error"] == pytest.approx(one["kernel_error"], rel=1e-8)
    check_same(models.load(tmp_path / "one.skops"), models.load(tmp_path / "many.skops"))


@pytest.mark.usefixtures("in_process")
def test_the_survey_is_that_of_one_file(files):
    whole, folder = files
    one = survey(Table(whole, "kind"), seed=5)
    table, pieces = pieces_of(folder, "kind")
    assert pieces.n_pieces == 7  # row groups
    many = table.survey(pieces, seed=5)
    assert many.n_rows == one.n_rows == N_ROWS
    assert (many.categories, many.target_values, many.single) == (one.categories, one.target_values, one.single)
    for name, values in one.sample.columns.items():
        np.testing.assert_array_equal(many.sample.columns[name], values)
    np.testing.assert_array_equal(many.sample.targets, one.sample.targets)
    np.testing.assert_allclose(many.scaler.mean_, one.scaler.mean_, rtol=1e-13)
    np.testing.assert_allclose(many.scaler.scale_, one.scaler.scale_, rtol=1e-12)


def test_merged_scalers_know_a_constant(rng):
    rows = np.column_stack([np.full(1000, 0.1), 1e8 + rng.normal(size=1000)])
    left, right = StandardScaler().fit(rows[:300]), StandardScaler().fit(rows[300:])
    both, whole = bochner.tables.reader._merged_scaler(left, right), StandardScaler().fit(rows)
    assert both.scale_[0] == whole.scale_[0] == 1.0
    np.testing.assert_allclose(both.mean_, whole.mean_, rtol=1e-13)
    np.testing.assert_allclose(both.scale_, whole.scale_, rtol=1e-9)


@pytest.mark.usefixtures("in_process")
def test_rows_are_encoded_in_batches_and_only_if_wanted(files, monkeypatch):
    whole, folder = files
    monkeypatch.setattr(bochner.tables.parquet_folder, "PIECE_BYTES", 1 << 20)
    table, pieces = pieces_of(folder, "y")
    table.batch_rows = 400
    encoding = table.survey(pieces, seed=0).encoding(standardise=True)
    encoded = EncodedPieces(pieces, table, encoding)
    assert encoded.lengths.tolist() == [1, 400, 299, 400, 400, 100]
    every = dict.fromkeys(range(encoded.n_pieces))
    X = np.vstack(encoded.reduce(lambda _, X: [X], list.__add__, ["X"], every))
    np.testing.assert_array_equal(X, np.vstack([rows for _, rows in encoding.open(whole).batches()]))
    y = np.concatenate(encoded.reduce(lambda _, y: [y], list.__add__, ["y"], {2: None, 4: None}))
    np.testing.assert_array_equal(y, parquet.read_table(whole)["y"].to_numpy()[[*range(401, 700), *range(1100, 1500)]])
    monkeypatch.delattr(bochner.tables.reader.Encoding, "encode")
    assert encoded.reduce(lambda _, y: len(y), int.__add__, ["y"], every) == N_ROWS


@pytest.mark.usefixtures("in_process")
def test_numbers_of_several_types_become_floats(tmp_path):
    for name, values in {"a": pa.array(range(20)), "b": pa.array(np.arange(20) / 2, pa.float32())}.items():
        parquet.write_table(pa.table({"x": values, "y": np.arange(20.0)}), tmp_path / f"{name}.parquet")
    table, pieces = pieces_of(tmp_path, "y")
    found = table.survey(pieces, seed=0)
    assert found.sample.columns["x"].tolist() == [*range(20), *(np.arange(20) / 2)]
    assert not found.single


@pytest.mark.usefixtures("in_process")
@pytest.mark.parametrize("place", [0, 1, 800, N_ROWS - 1])
@pytest.mark.parametrize(("value", "what"), [(None, "is missing"), (np.nan, "is nan"), (np.inf, "is inf")])
def test_a_cell_without_a_number_is_found(files, table, tmp_path, place, value, what):
    _, folder = files
    values = table["b"].to_pylist()
    values[place] = value
    table = table.set_column(1, "b", pa.array(values, pa.float64()))
    for name, (begin, end) in CUTS.items():
        parquet.write_table(table[begin:end], folder / f"{name}.parquet", row_group_size=300)
    name, begin = next((name, begin) for name, (begin, end) in CUTS.items() if begin <= place < end)
    sentence = refusal("fit", folder, "--target", "y", "--output", tmp_path / "m.skops", "--dask")
    assert f"{folder / name}.parquet: row {place - begin + 1}, column 'b' {what};" in sentence
    assert not (tmp_path / "m.skops").exists()


@pytest.mark.usefixtures("in_process")
def test_limits_hold_for_all_files_together(tmp_path):
    for number in range(2):
        text = [f"{number}-{row}" for row in range(60)]
        columns = {"x": np.arange(60.0), "text": text, "y": 100.0 * number + np.arange(60.0)}
        parquet.write_table(pa.table(columns), tmp_path / f"{number}.parquet")
    options = ("--target", "y", "--output", tmp_path / "m.skops", "--dask")
    assert "column 'text' holds text with more than 100 different values" in refusal("fit", tmp_path, *options)
    report = run("fit", tmp_path / "*.parquet", "--drop", "text", "--n-frequencies", "4", *options)
    assert "Task: regression (column 'y' holds numbers, 120 different values)." in report.stdout
    assert "Dashboard of the cluster: local" in report.stdout


@pytest.mark.usefixtures("in_process")
def test_learned_length_scales_and_the_page(files, tmp_path):
    pytest.importorskip("matplotlib")
    _, folder = files
    page = tmp_path / "page.html"
    options = ("--target", "y", "--drop", "kind", "--n-frequencies", "20", "--learn", "--page", page)
    report = answer("fit", folder / "part-*.parquet", *options, "--output", tmp_path / "m.skops", "--dask")
    assert report["learning_gain"] > 0.0
    assert next(iter(report["relevance"])) == "a"
    assert "1,600 rows" in page.read_text()


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["data", "--dask", "--resume"], "--resume is for one file"),
        (["none/*.parquet", "--dask"], "none/*.parquet matches no file; give a .parquet file, a folder with some"),
        (["none", "--dask"], "none matches no file"),
        (["empty", "--dask"], "empty/*.parquet matches no file"),
        (["a.csv", "--dask"], "--dask reads .parquet files, and a.csv is none; convert it, or leave --dask out."),
        (["data", "--dask", "--drop", "nix"], "data/part-1.parquet has no column 'nix'"),
        (["data"], "data is a folder; give one file, or --dask to read Parquet files together."),
        (["data/*.parquet"], "data/*.parquet is a pattern; give one file, or --dask"),
        (["data/part-1.parquet", "data/part-2.parquet"], "are more than one table; give a pattern of Parquet files in"),
        (["--dask", "data"], "--dask data is not the address of a scheduler such as tcp://host:8786; put the table"),
        (["data", "--dask", "tcp://127.0.0.1:1"], "--dask tcp://127.0.0.1:1 cannot be reached: "),
        (["data", "--dask", "tcp:/nowhere:1"], "--dask tcp:/nowhere:1 is not the address"),
        (["data", "--dask", "post://nowhere:1"], "--dask post://nowhere:1 cannot be reached: unknown address scheme"),
    ],
)
def test_bad_input_gets_one_sentence(files, tmp_path, monkeypatch, arguments, sentence):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(bochner.cli.cluster, "CONNECTING_SECONDS", 0.5)
    (tmp_path / "a.csv").write_text("x,y\n1,2\n")
    (tmp_path / "empty").mkdir()
    begin = time.monotonic()
    assert sentence in refusal("fit", "--target", "y", *arguments)
    assert time.monotonic() - begin < 10
    assert not list(tmp_path.glob("*.skops*"))


def test_files_of_other_columns_are_refused(files, table):
    _, folder = files
    last = folder / "part-10.parquet"
    parquet.write_table(table.drop_columns("b"), last)
    options = ("fit", folder, "--target", "y", "--dask")
    assert f"part-1.parquet has a column 'b' and {last} has none; give files with the same" in refusal(*options)
    parquet.write_table(table.append_column("z", table["b"]), last)
    assert f"{last} has a column 'z' and {folder / 'part-1.parquet'} has none" in refusal(*options)
    parquet.write_table(table.set_column(1, "b", table["colour"]), last)
    sentence = refusal(*options)
    assert f"{last}: column 'b' holds text, and in {folder / 'part-1.parquet'} it holds numbers; make them" in sentence


@pytest.mark.usefixtures("in_process")
def test_files_without_rows_are_refused(files, table):
    _, folder = files
    for name in CUTS:
        parquet.write_table(table[:0], folder / f"{name}.parquet")
    assert f"{folder} has no rows; its columns are 'a', 'b'" in refusal("fit", folder, "--target", "y", "--dask")


def test_missing_dask_gets_one_sentence(files, monkeypatch):
    monkeypatch.setattr(bochner.cli.table_commands, "find_spec", lambda name: None)
    assert "--dask needs Dask: pip install 'bochner[dask]'." in refusal("fit", files[1], "--target", "y", "--dask")


@pytest.mark.usefixtures("in_process")
def test_a_file_that_has_gone_gets_one_sentence(files, monkeypatch):
    _, folder = files
    pieces = ParquetFolder.pieces

    def vanishing(table):
        found = pieces(table)
        shutil.rmtree(folder)
        return found

    monkeypatch.setattr(ParquetFolder, "pieces", vanishing)
    assert "a worker does not find a file" in refusal("fit", folder, "--target", "y", "--dask")


def killed():
    raise ClusterError("chunks") from distributed.KilledWorker("a task", None, 3)


def deserted():
    raise distributed.scheduler.NoWorkerError("a task", 30.0)


def disconnected():
    raise ClusterError("The connection is lost.")


@pytest.mark.parametrize(
    ("fail", "sentence"),
    [
        (killed, "Some rows have brought down one worker after the other, most likely for want of memory; write files"),
        (deserted, "All workers have died, most likely for want of memory; close other programs"),
        (disconnected, "The connection is lost."),
    ],
)
def test_a_failing_cluster_gets_one_sentence(files, tmp_path, monkeypatch, fail, sentence):
    client = SimpleNamespace(dashboard_link="nowhere", scheduler_info=lambda: {"workers": {}})
    monkeypatch.setattr(bochner.cli.cluster, "_local", lambda: nullcontext(client))
    monkeypatch.setattr(ParquetFolder, "pieces", lambda _: fail())
    result = run("fit", files[1], "--target", "y", "--output", tmp_path / "m.skops", "--dask")
    assert result.exit_code == 2
    assert "The cluster has no workers yet: waiting for one." in result.stdout
    assert result.stderr.startswith(f"Error: {sentence}")
    assert not list(tmp_path.glob("m.skops*"))


@pytest.mark.parametrize(
    ("words", "address"),
    [
        (["data", "--target", "y", "--dask"], "local"),
        (["data", "--dask", "--target", "y"], "local"),
        (["--dask", "--target", "y", "data"], "local"),
        (["--target", "y", "--dask", "--", "data"], "local"),
        (["data", "--dask", "tcp://host:1", "--target", "y"], "tcp://host:1"),
        (["data", "--target", "y", "--dask=host:8786"], "host:8786"),
    ],
)
def test_the_address_may_be_left_out(files, tmp_path, monkeypatch, words, address):
    seen = []
    monkeypatch.chdir(tmp_path)

    def cluster(address, say):
        seen.append(address)
        raise ValueError("enough")

    monkeypatch.setattr(bochner.cli.table_commands, "open_cluster", cluster)
    assert "enough" in refusal("fit", *words)
    assert seen == [address]


def test_the_log_is_quiet_for_the_command_alone():
    handlers = logging.getLogger("distributed").handlers
    before = [handler.level for handler in handlers]
    with bochner.cli.cluster._quiet_log():
        assert all(handler.level >= logging.CRITICAL for handler in handlers)
    assert [handler.level for handler in handlers] == before


def test_a_cluster_of_this_computer(files, tmp_path):
    whole, folder = files
    options = ("--target", "kind", "--drop", "y", "--n-frequencies", "20")
    command = [
        sys.executable,
        "-c",
        "if __name__ == '__main__':\n    from bochner.cli import app; app()",
        "fit",
        folder,
    ]
    done = subprocess.run(
        [*command, *options, "--output", tmp_path / "many.skops", "--json", "--dask"],
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    dashboard, *others = done.stderr.splitlines()
    assert dashboard.startswith("Dashboard of the cluster: http://127.0.0.1:")
    assert len(others) == 2, done.stderr  # the task and the text: nothing of Dask's log
    one = answer("fit", whole, *options, "--output", tmp_path / "one.skops")
    assert json.loads(done.stdout)["alpha"] == one["alpha"]
    check_same(models.load(tmp_path / "one.skops"), models.load(tmp_path / "many.skops"))
