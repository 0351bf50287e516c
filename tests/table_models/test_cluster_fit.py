# SPDX-License-Identifier: BSD-3-Clause
"""`bochner fit --dask`: the model of several Parquet files equals the model of one file with their rows."""

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
from typer.testing import CliRunner

import bochner.cli.cluster
import bochner.cli.table_commands
import bochner.tables.parquet_folder
import bochner.tables.survey
from bochner.cli import app
from bochner.rows import ClusterError
from bochner.table_models import models
from bochner.tables.encoding import Encoding
from bochner.tables.parquet_folder import EncodedPieces, ParquetFolder
from bochner.tables.reader import Table
from bochner.tables.survey import survey

dask = pytest.importorskip("dask")
distributed = pytest.importorskip("distributed")
pytestmark = pytest.mark.filterwarnings(
    "ignore:The inplace keyword:DeprecationWarning"
)  # raised by Dask with pandas 3.1

N_ROWS = 1600  # more than the smallest sample
CUTS = {"part-1": (0, 1), "part-2": (1, 700), "part-3": (700, 700), "part-10": (700, N_ROWS)}


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(2, N_ROWS))
    color = rng.choice(["red", "green", "blue"], size=N_ROWS)
    y = np.sin(2 * a) + b * (color == "red") + 0.3 * rng.normal(size=N_ROWS)
    kind = np.where(y > 0.5, "high", np.where(y < -0.5, "low", "middle"))
    count = rng.integers(0, 9, size=N_ROWS)
    return pa.table({"a": 1e3 * a + 1e5, "b": b, "count": count, "color": color, "y": y, "kind": kind})


def write_parts(folder, table):
    for name, (start, stop) in CUTS.items():
        parquet.write_table(table[start:stop], folder / f"{name}.parquet", row_group_size=300)


@pytest.fixture(scope="module")
def files(tmp_path_factory, table):
    """One file, and a folder with the same rows in files of several sizes."""
    parent = tmp_path_factory.mktemp("cluster")
    (parent / "data").mkdir()
    write_parts(parent / "data", table)
    parquet.write_table(table, parent / "all.parquet", row_group_size=500)
    return parent / "all.parquet", parent / "data"


@pytest.fixture
def own_folder(files, tmp_path):
    """A copy of the folder for tests that change it."""
    return shutil.copytree(files[1], tmp_path / "data")


@pytest.fixture
def in_process(monkeypatch):
    """Compute in this thread, one row group per task, with small samples."""

    @contextmanager
    def open_cluster(address, report):
        report(f"Dashboard of the cluster: {address}")
        with dask.config.set(scheduler="synchronous"):
            yield

    monkeypatch.setattr(bochner.cli.table_commands, "open_cluster", open_cluster)
    monkeypatch.setattr(bochner.tables.parquet_folder, "PIECE_BYTES", 1)
    monkeypatch.setattr(bochner.tables.survey, "SAMPLE_ROWS", 1000)


def run(*arguments):
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def answer(*arguments):
    result = run(*arguments, "--json")
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def error_message(*arguments):
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
def test_model_equals_that_of_one_file(files, tmp_path, head, target, dropped, scales):
    whole, folder = files
    options = ("--target", target, "--drop", dropped, "--head", head, "--n-frequencies", "20", *scales)
    one = answer("fit", whole, *options, "--output", tmp_path / "one.skops")
    many = answer("fit", folder, *options, "--output", tmp_path / "many.skops", "--dask")
    chosen = "C" if head == "svm" else "alpha"
    assert many[chosen] == one[chosen]
    assert many["kernel_error"] == pytest.approx(one["kernel_error"], rel=1e-8)
    check_same(models.load(tmp_path / "one.skops"), models.load(tmp_path / "many.skops"))


@pytest.mark.usefixtures("in_process")
def test_survey_equals_that_of_one_file(files):
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
    np.testing.assert_allclose(many.moments.mean, one.moments.mean, rtol=1e-13)
    np.testing.assert_allclose(many.moments.scale, one.moments.scale, rtol=1e-13)


@pytest.mark.usefixtures("in_process")
def test_rows_are_encoded_in_batches_and_only_if_requested(files, monkeypatch):
    whole, folder = files
    monkeypatch.setattr(bochner.tables.parquet_folder, "PIECE_BYTES", 1 << 20)
    table, pieces = pieces_of(folder, "y")
    table.batch_rows = 400
    encoding = table.survey(pieces, seed=0).encoding(standardize=True)
    encoded = EncodedPieces(pieces, table, encoding)
    assert encoded.lengths.tolist() == [1, 400, 299, 400, 400, 100]
    every = dict.fromkeys(range(encoded.n_pieces))
    X = np.vstack(encoded.reduce(lambda _, X: [X], list.__add__, ["X"], every))
    np.testing.assert_array_equal(X, np.vstack([rows for _, rows in encoding.open(whole).batches()]))
    y = np.concatenate(encoded.reduce(lambda _, y: [y], list.__add__, ["y"], {2: None, 4: None}))
    np.testing.assert_array_equal(y, parquet.read_table(whole)["y"].to_numpy()[[*range(401, 700), *range(1100, 1500)]])
    monkeypatch.delattr(Encoding, "encode")
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
@pytest.mark.parametrize("row", [0, 1, 800, N_ROWS - 1])
@pytest.mark.parametrize(("value", "shown"), [(None, "missing"), (np.nan, "nan"), (np.inf, "inf")])
def test_invalid_cell_is_located(own_folder, table, tmp_path, row, value, shown):
    values = table["b"].to_pylist()
    values[row] = value
    write_parts(own_folder, table.set_column(1, "b", pa.array(values, pa.float64())))
    name, start = next((name, start) for name, (start, stop) in CUTS.items() if start <= row < stop)
    message = error_message("fit", own_folder, "--target", "y", "--output", tmp_path / "m.skops", "--dask")
    assert f"{own_folder / name}.parquet: row {row - start + 1}, column 'b': the value is {shown};" in message
    assert not (tmp_path / "m.skops").exists()


@pytest.mark.usefixtures("in_process")
def test_limits_apply_to_all_files_together(tmp_path):
    for number in range(2):
        text = [f"{number}-{row}" for row in range(60)]
        columns = {"x": np.arange(60.0), "text": text, "y": 100.0 * number + np.arange(60.0)}
        parquet.write_table(pa.table(columns), tmp_path / f"{number}.parquet")
    options = ("--target", "y", "--output", tmp_path / "m.skops", "--dask")
    assert "text column 'text' has more than 100 distinct values" in error_message("fit", tmp_path, *options)
    report = run("fit", tmp_path / "*.parquet", "--drop", "text", "--n-frequencies", "4", *options)
    assert "Task: regression (column 'y' holds numbers, 120 different values)." in report.stdout
    assert "Dashboard of the cluster: None" in report.stdout


@pytest.mark.usefixtures("in_process")
def test_page_shows_learned_length_scales(files, tmp_path):
    pytest.importorskip("matplotlib")
    _, folder = files
    page = tmp_path / "page.html"
    options = ("--target", "y", "--drop", "kind", "--n-frequencies", "20", "--learn", "--page", page)
    report = answer("fit", folder / "part-*.parquet", *options, "--output", tmp_path / "m.skops", "--dask")
    assert report["learning_gain"] > 0.0
    assert next(iter(report["relevance"])) == "a"
    assert "1,600 rows" in page.read_text()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["data", "--dask", "--resume"], "--resume does not work with --dask or --scheduler"),
        (["none/*.parquet", "--dask"], "none/*.parquet matches no file; give a .parquet file, a folder with some"),
        (["none", "--dask"], "none matches no file"),
        (["empty", "--dask"], "empty/*.parquet matches no file"),
        (["a.csv", "--dask"], "--dask reads .parquet files, and a.csv is none; convert it, or leave --dask out."),
        (["data", "--dask", "--drop", "nix"], "data/part-1.parquet has no column 'nix'"),
        (["data"], "data is a folder; give a single file, or add --dask to read several Parquet files as one table."),
        (["data/*.parquet"], "data/*.parquet is a pattern; give a single file, or add --dask"),
        (["data/part-1.parquet", "data/part-2.parquet"], "Expected one table but got 2, beginning with data/part-1.pa"),
        (["data", "--scheduler", "tcp://127.0.0.1:1"], "--scheduler tcp://127.0.0.1:1 cannot be reached: "),
        (["data", "--scheduler", "nowhere"], "--scheduler nowhere cannot be reached: "),
        (["data", "--scheduler", "tcp:/nowhere:1"], "--scheduler tcp:/nowhere:1 cannot be reached: "),
        (["data", "--scheduler", "post://nowhere:1"], "cannot be reached: unknown address scheme 'post'"),
    ],
)
def test_invalid_input_gives_one_error_message(files, tmp_path, monkeypatch, arguments, message):
    (tmp_path / "data").symlink_to(files[1])
    (tmp_path / "a.csv").write_text("x,y\n1,2\n")
    (tmp_path / "empty").mkdir()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(bochner.cli.cluster, "CONNECT_TIMEOUT_SECONDS", 0.5)
    start = time.monotonic()
    assert message in error_message("fit", "--target", "y", *arguments)
    assert time.monotonic() - start < 10
    assert not list(tmp_path.glob("*.skops*"))


def test_files_with_different_columns_are_refused(own_folder, table):
    first, last = own_folder / "part-1.parquet", own_folder / "part-10.parquet"
    options = ("fit", own_folder, "--target", "y", "--dask")
    parquet.write_table(table.drop_columns("b"), last)
    assert f"part-1.parquet has a column 'b' and {last} has none; give files with the same" in error_message(*options)
    parquet.write_table(table.append_column("z", table["b"]), last)
    assert f"{last} has a column 'z' and {first} has none" in error_message(*options)
    parquet.write_table(table.set_column(1, "b", table["color"]), last)
    assert f"{last}: column 'b' holds text, and in {first} it holds numbers; make them" in error_message(*options)


@pytest.mark.usefixtures("in_process")
def test_files_without_rows_are_refused(own_folder, table):
    write_parts(own_folder, table[:0])
    message = error_message("fit", own_folder, "--target", "y", "--dask")
    assert f"{own_folder} has no rows; its columns are 'a', 'b'" in message


def test_error_message_without_dask(files, monkeypatch):
    monkeypatch.setattr(bochner.cli.table_commands, "find_spec", lambda name: None)
    message = error_message("fit", files[1], "--target", "y", "--dask")
    assert "--dask and --scheduler need Dask: pip install 'bochner[dask]'." in message


@pytest.mark.usefixtures("in_process")
def test_error_message_for_a_deleted_file(own_folder, monkeypatch):
    pieces = ParquetFolder.pieces

    def delete_files(table):
        result = pieces(table)
        shutil.rmtree(own_folder)
        return result

    monkeypatch.setattr(ParquetFolder, "pieces", delete_files)
    assert "a worker does not find a file" in error_message("fit", own_folder, "--target", "y", "--dask")


def raise_killed_worker():
    raise ClusterError("chunks") from distributed.KilledWorker("a task", None, 3)


def raise_no_worker():
    raise distributed.scheduler.NoWorkerError("a task", 30.0)


def raise_connection_lost():
    raise ClusterError("The connection is lost.")


@pytest.mark.parametrize(
    ("fail", "message"),
    [
        (raise_killed_worker, "One partition ended several workers, most likely because it did not fit into their"),
        (raise_no_worker, "All workers have died, most likely because they ran out of memory; close other programs"),
        (raise_connection_lost, "The connection is lost."),
    ],
)
def test_cluster_failure_gives_one_error_message(files, tmp_path, monkeypatch, fail, message):
    client = SimpleNamespace(dashboard_link="nowhere", scheduler_info=lambda: {"workers": {}})
    monkeypatch.setattr(bochner.cli.cluster, "_start_local", lambda: nullcontext(client))
    monkeypatch.setattr(ParquetFolder, "pieces", lambda _: fail())
    result = run("fit", files[1], "--target", "y", "--output", tmp_path / "m.skops", "--dask")
    assert result.exit_code == 2
    assert "The cluster has no workers yet; waiting for one." in result.stdout
    assert result.stderr.startswith(f"Error: {message}")
    assert not list(tmp_path.glob("m.skops*"))


@pytest.mark.parametrize(
    ("options", "address"),
    [
        (["--dask"], None),
        (["--scheduler", "tcp://host:1"], "tcp://host:1"),
        (["--dask", "--scheduler=host:8786"], "host:8786"),
    ],
)
def test_options_choose_the_cluster(files, monkeypatch, options, address):
    addresses = []

    def open_cluster(address, report):
        addresses.append(address)
        raise ValueError("stopped")

    monkeypatch.setattr(bochner.cli.table_commands, "open_cluster", open_cluster)
    assert "stopped" in error_message("fit", *options, files[1], "--target", "y")
    assert addresses == [address]


def test_columns_to_drop_may_be_separated_by_commas(files, tmp_path):
    whole, _ = files
    options = ("--target", "y", "--n-frequencies", "4", "--output", tmp_path / "m.skops")
    assert answer("fit", whole, *options, "--drop", "kind,color", "--drop", "count")["columns"] == 2


def test_logs_are_silent_within_the_context_only():
    loggers = [logging.getLogger(name) for name in ("distributed.scheduler", "distributed.client")]
    levels = [logger.getEffectiveLevel() for logger in loggers]
    with bochner.cli.cluster._silence_logs():
        assert not any(logger.isEnabledFor(logging.ERROR) for logger in loggers)
    assert [logger.getEffectiveLevel() for logger in loggers] == levels


@pytest.mark.slow
def test_local_cluster(files, tmp_path):
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
    assert len(others) == 2, done.stderr  # messages about the task and the text columns, and no log of Dask
    one = answer("fit", whole, *options, "--output", tmp_path / "one.skops")
    assert json.loads(done.stdout)["alpha"] == one["alpha"]
    check_same(models.load(tmp_path / "one.skops"), models.load(tmp_path / "many.skops"))
