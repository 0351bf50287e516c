# SPDX-License-Identifier: BSD-3-Clause
import errno
import os
import signal
import time
from importlib.metadata import version

import pytest

from bochner.cli import console, table_commands
from bochner.cli.console import check_output, comma_separated, echo
from tests.cli.commands import run


def test_version():
    assert run("--version").stdout == f"bochner {version('bochner')}\n"


def test_help_lists_the_commands():
    result = run("--help")
    assert result.exit_code == 0
    for command in ("demo", "compare", "fit", "predict", "error"):
        assert f" {command} " in result.stdout


@pytest.mark.parametrize(
    ("values", "items"),
    [(None, []), (["a,b", "c"], ["a", "b", "c"]), (["a, b"], ["a", "b"]), (['"price, EUR",b'], ["price, EUR", "b"])],
)
def test_comma_separated(values, items):
    assert comma_separated(values) == items


def raise_sigterm():
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(10.0)


def raise_sigint():
    raise KeyboardInterrupt


def raise_closed_pipe():
    raise BrokenPipeError(errno.EPIPE, "Broken pipe")


def raise_full_disk():
    raise OSError(errno.ENOSPC, "No space left on device", "a.csv")


def raise_memory():
    raise MemoryError("Unable to allocate 72. TiB")


@pytest.fixture
def interruptible():
    """Let SIGINT raise KeyboardInterrupt, which it does not in background jobs: shells start them with it ignored."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("interruptible")
@pytest.mark.parametrize(
    ("fail", "exit_code", "message"),
    [
        (raise_sigint, 130, "Stopped.\n"),
        (raise_sigterm, 143, "Stopped.\n"),
        (raise_closed_pipe, 141, "Stopped: the program that reads the output has ended.\n"),
        (raise_full_disk, 2, "Error: [Errno 28] No space left on device: 'a.csv'\n"),
        (raise_memory, 2, "Error: There is not enough memory (Unable to allocate 72. TiB); close other programs, or"),
    ],
)
def test_stopped_command_prints_one_line(tmp_path, monkeypatch, fail, exit_code, message):
    monkeypatch.setattr(console, "_discard_output", lambda: None)
    monkeypatch.setattr(table_commands, "load", lambda path: fail())
    before = signal.getsignal(signal.SIGTERM)
    (tmp_path / "a.csv").write_text("a\n1\n")
    result = run("error", tmp_path / "m.skops", tmp_path / "a.csv")
    assert result.exit_code == exit_code
    assert result.stderr.startswith(message)
    assert result.stderr.count("\n") == 1
    assert signal.getsignal(signal.SIGTERM) is before


def test_control_characters_of_a_table_do_not_reach_the_terminal(capsys):
    echo("a\x1b]0;title\x07b\nc")
    assert capsys.readouterr().out == "a?]0;title?b\nc\n"


def test_output_through_a_link_does_not_overwrite_an_input(tmp_path):
    (tmp_path / "input.csv").write_text("x")
    (tmp_path / "link.csv").symlink_to(tmp_path / "input.csv")
    with pytest.raises(ValueError, match="would overwrite an input file; give another name"):
        check_output(tmp_path / "link.csv", tmp_path / "input.csv")
    check_output(tmp_path / "new.csv", tmp_path / "input.csv")
