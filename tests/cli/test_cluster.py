# SPDX-License-Identifier: BSD-3-Clause
"""`bochner fit --dask` and `--scheduler`: several Parquet files on a cluster."""

import json
import logging
import shutil
import subprocess
import sys
from contextlib import contextmanager, nullcontext
from types import SimpleNamespace

import numpy as np
import pytest
import typer

from bochner.cli import cluster, table_commands
from bochner.rows import ClusterError
from bochner.table_models.model_files import load
from bochner.tables.parquet_folder import ParquetFolder
from tests.cli.commands import error_message, run, run_json
from tests.tables.tables import N_ROWS, compute_in_process, make_table, write_parts

dask = pytest.importorskip("dask")
distributed = pytest.importorskip("distributed")
pytestmark = pytest.mark.filterwarnings(
    "ignore:The inplace keyword:DeprecationWarning"
)  # raised by Dask with pandas 3.1

OPTIONS = ("--target", "y", "--drop", "kind", "--n-frequencies", "8")


@pytest.fixture
def in_process(monkeypatch):
    """Compute in this thread instead of starting a cluster."""

    @contextmanager
    def open_cluster(address, report):
        report(f"Dashboard of the cluster: {address}")
        with compute_in_process(monkeypatch):
            yield

    monkeypatch.setattr(table_commands, "open_cluster", open_cluster)


def check_same(first, second):
    """Check that two models are equal up to rounding errors."""
    first, second = load(first), load(second)
    assert second.n_rows == first.n_rows == N_ROWS
    assert second.encoding.columns == first.encoding.columns
    tolerance = 1e-8 * np.abs(first.estimator.coef_).max()
    np.testing.assert_allclose(second.estimator.coef_, first.estimator.coef_, rtol=0, atol=tolerance)
    np.testing.assert_allclose(second.estimator.intercept_, first.estimator.intercept_, rtol=0, atol=tolerance)


@pytest.mark.usefixtures("in_process")
def test_model_of_several_files_equals_that_of_one(table_file, table_folder, tmp_path, monkeypatch):
    with compute_in_process(monkeypatch):  # samples of the same size
        one = run_json("fit", table_file, *OPTIONS, "--output", tmp_path / "one.skops")
    several = run_json("fit", table_folder, *OPTIONS, "--output", tmp_path / "several.skops", "--dask")
    assert several["alpha"] == one["alpha"]
    assert several["kernel_error"] == pytest.approx(one["kernel_error"], rel=1e-8)
    check_same(tmp_path / "one.skops", tmp_path / "several.skops")


@pytest.mark.usefixtures("in_process")
def test_pattern_of_files_and_page(table_folder, tmp_path):
    pytest.importorskip("matplotlib")
    files = ("--output", tmp_path / "m.skops", "--page", tmp_path / "m.html")
    result = run("fit", table_folder / "part-*.parquet", *OPTIONS, "--learn", *files, "--dask")
    assert result.exit_code == 0, result.output
    assert "Dashboard of the cluster: None" in result.stdout
    assert "learning gain: " in result.stdout
    assert "1,600 rows" in (tmp_path / "m.html").read_text()


@pytest.mark.usefixtures("in_process")
def test_invalid_cell_is_located(tmp_path):
    table = make_table()
    values = table["b"].to_pylist()
    values[800] = np.inf
    folder = write_parts(tmp_path / "data", table.set_column(1, "b", [values]))
    message = error_message("fit", folder, *OPTIONS, "--output", tmp_path / "m.skops", "--dask")
    assert f"{folder}/part-10.parquet: row 101, column 'b': the value is inf; correct it" in message
    assert not (tmp_path / "m.skops").exists()


@pytest.mark.usefixtures("in_process")
def test_files_without_rows_are_refused(tmp_path):
    folder = write_parts(tmp_path / "data", make_table()[:0])
    assert f"{folder} has no rows; its columns are 'a', 'b'" in error_message("fit", folder, *OPTIONS, "--dask")


@pytest.mark.usefixtures("in_process")
def test_file_that_a_worker_does_not_find_is_reported(tmp_path, monkeypatch):
    folder = write_parts(tmp_path / "data", make_table())
    partitions = ParquetFolder.partitions

    def hide_from_workers(table):
        result = partitions(table)
        reduce = result.reduce

        def reduce_without_files(*arguments):
            folder.rename(tmp_path / "elsewhere")
            try:
                return reduce(*arguments)
            finally:
                (tmp_path / "elsewhere").rename(folder)

        monkeypatch.setattr(result, "reduce", reduce_without_files)
        return result

    monkeypatch.setattr(ParquetFolder, "partitions", hide_from_workers)
    message = error_message("fit", folder, *OPTIONS, "--output", tmp_path / "m.skops", "--dask")
    assert f"{folder}: a worker does not find a file (" in message
    assert "put the files where all workers see them" in message
    assert not list(tmp_path.glob("*.skops*"))


@pytest.mark.usefixtures("in_process")
def test_file_that_is_deleted_meanwhile_is_reported(tmp_path, monkeypatch):
    folder, echo = write_parts(tmp_path / "data", make_table()), typer.echo

    def print_and_delete(message, **options):
        if message.startswith("Task: "):
            shutil.rmtree(folder)
        echo(message, **options)

    monkeypatch.setattr(typer, "echo", print_and_delete)
    message = error_message("fit", folder, *OPTIONS, "--output", tmp_path / "m.skops", "--dask")
    assert message == f"Error: {folder} changed while it was read; try again when nothing writes to it.\n"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["data", "--dask", "--resume"], "--resume does not work with --dask or --scheduler"),
        (["none/*.parquet", "--dask"], "none/*.parquet matches no file; give a .parquet file, a folder of them, or a"),
        (["none", "--dask"], "none does not exist"),
        (["empty", "--dask"], "empty/*.parquet matches no file"),
        (["a.csv", "--dask"], "--dask reads .parquet files only, not a.csv; convert it, or omit --dask."),
        (["data", "--dask", "--drop", "nix"], "data has no column 'nix'"),
        (["empty"], "empty/*.parquet matches no file; give a .parquet file, a folder of them, or a quoted pattern"),
        (["data/part-1.parquet", "data/part-2.parquet"], "Expected one table but got 2, starting with data/part-1.p"),
        (["data", "--scheduler", "tcp://127.0.0.1:1"], "--scheduler tcp://127.0.0.1:1 cannot be reached: "),
        (["data", "--scheduler", "nowhere"], "--scheduler nowhere cannot be reached: "),
        (["data", "--scheduler", "tcp:/nowhere:1"], "--scheduler tcp:/nowhere:1 cannot be reached: "),
        (["data", "--scheduler", "post://nowhere:1"], "cannot be reached: unknown address scheme 'post'"),
    ],
)
def test_invalid_input_gives_one_error_message(table_folder, tmp_path, monkeypatch, arguments, message):
    (tmp_path / "data").symlink_to(table_folder)
    (tmp_path / "a.csv").write_text("x,y\n1,2\n")
    (tmp_path / "empty").mkdir()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(cluster, "CONNECT_TIMEOUT_SECONDS", 0.5)
    assert message in error_message("fit", "--target", "y", *arguments)
    assert not list(tmp_path.glob("*.skops*"))
    assert dask.config.get("scheduler", None) is None  # no client is left behind


def test_error_message_without_dask(table_folder, monkeypatch):
    monkeypatch.setattr(table_commands, "find_spec", lambda name: None)
    message = error_message("fit", table_folder, "--target", "y", "--dask")
    assert "--dask and --scheduler need Dask: pip install 'bochner[dask]'." in message


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
def test_cluster_failure_gives_one_error_message(table_folder, tmp_path, monkeypatch, fail, message):
    client = SimpleNamespace(dashboard_link="nowhere", scheduler_info=lambda: {"workers": {}})
    monkeypatch.setattr(cluster, "_start_local", lambda: nullcontext(client))
    monkeypatch.setattr(ParquetFolder, "partitions", lambda _: fail())
    result = run("fit", table_folder, "--target", "y", "--output", tmp_path / "m.skops", "--dask")
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
def test_options_choose_the_cluster(table_folder, monkeypatch, options, address):
    addresses = []

    def open_cluster(address, report):
        addresses.append(address)
        raise ValueError("stopped")

    monkeypatch.setattr(table_commands, "open_cluster", open_cluster)
    assert "stopped" in error_message("fit", *options, table_folder, "--target", "y")
    assert addresses == [address]


def test_logs_are_silent_within_the_context_only():
    loggers = [logging.getLogger(name) for name in ("distributed.scheduler", "distributed.client")]
    levels = [logger.getEffectiveLevel() for logger in loggers]
    with cluster._silence_logs():
        assert not any(logger.isEnabledFor(logging.ERROR) for logger in loggers)
    assert [logger.getEffectiveLevel() for logger in loggers] == levels


@pytest.mark.slow
def test_local_cluster(table_file, table_folder, tmp_path):
    code = "if __name__ == '__main__':\n    from bochner.cli import app; app()"
    command = [sys.executable, "-c", code, "fit", table_folder, *OPTIONS, "--fast", "--json", "--dask"]
    done = subprocess.run(
        [*command, "--output", tmp_path / "several.skops"], capture_output=True, text=True, timeout=600
    )
    assert done.returncode == 0, done.stderr
    dashboard, *others = done.stderr.splitlines()
    assert dashboard.startswith("Dashboard of the cluster: http://127.0.0.1:")
    assert len(others) == 2, done.stderr  # messages about the task and the text columns, and no log of Dask
    one = run_json("fit", table_file, *OPTIONS, "--output", tmp_path / "one.skops")
    assert json.loads(done.stdout)["alpha"] == one["alpha"]
    check_same(tmp_path / "one.skops", tmp_path / "several.skops")


KILL_A_WORKER = """
if __name__ == "__main__":
    import os, signal, threading, time
    from distributed import get_client
    from bochner.cli import app
    from bochner.tables import parquet_folder

    def kill_a_worker():
        client = get_client()
        os.kill(next(iter(client.run(os.getpid).values())), signal.SIGKILL)

    survey = parquet_folder.ParquetFolder.survey

    def survey_and_kill(table, *arguments):
        kill_a_worker()
        return survey(table, *arguments)

    parquet_folder.ParquetFolder.survey = survey_and_kill
    app()
"""


@pytest.mark.slow
def test_killed_worker_is_replaced(table_file, table_folder, tmp_path):
    (tmp_path / "kill.py").write_text(KILL_A_WORKER)
    command = [sys.executable, tmp_path / "kill.py", "fit", table_folder, *OPTIONS, "--fast", "--dask"]
    done = subprocess.run(
        [*command, "--output", tmp_path / "several.skops"], capture_output=True, text=True, timeout=600
    )
    assert done.returncode == 0, done.stderr
    run_json("fit", table_file, *OPTIONS, "--output", tmp_path / "one.skops")
    check_same(tmp_path / "one.skops", tmp_path / "several.skops")
