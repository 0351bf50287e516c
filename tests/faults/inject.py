# SPDX-License-Identifier: BSD-3-Clause
"""Commands that are killed, interrupted, or run out of disk or memory at random moments.

After each fault the files are checked: the output is the old one or the new one, each complete, and nothing is left
besides the temporary file of a killed process. Then the command runs again and has to give the result
of a run without faults.

``python -m tests.faults.inject`` prints a table of commands and faults; ``--output faults.json``
stores it. A child is forked for each command, so that an injection takes about as
long as the command itself.
"""

import argparse
import json
import os
import random
import re
import resource
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from bochner import __main__ as main
from bochner.tables.model_files import load
from tests.tables.tables import write_table

OLD = b"an old file"
FAULTS = ("SIGKILL", "SIGINT", "SIGTERM", "disk", "memory", "pipe", "clock")
SIGNALS = {name: getattr(signal, name) for name in ("SIGKILL", "SIGINT", "SIGTERM")}
CODES = {
    "SIGKILL": {-9},
    "SIGINT": {130},
    "SIGTERM": {143, -15},
    "disk": {2},
    "memory": {2},
    "pipe": {141},
    "clock": set(),
}
SECONDS = 300  # that a command may take on a busy machine


@dataclass(frozen=True)
class Command:
    """A command line, what it writes, and how results are compared.

    Attributes
    ----------
    arguments : tuple of str
        The command and its options, without the folder that it runs in.
    output : str
        The file that it writes.
    result : callable
        Returns what determines the result, from the folder.
    remains : tuple of str
        Files that an interrupted run may leave for the next one.
    prepare : callable
        Puts files into a new folder before the command starts.
    """

    arguments: tuple[str, ...]
    output: str
    result: Callable[[Path], object]
    remains: tuple[str, ...] = ()
    prepare: Callable[[Path], None] = lambda folder: None


@dataclass(frozen=True)
class Ending:
    """How a run has ended: its exit code, minus the number of a signal, and what it has printed."""

    code: int
    output: str
    errors: str
    seconds: float


def run(arguments: tuple[str, ...], folder: Path, fault: str = "", moment: float = 0.0) -> Ending:
    """Run a command in a forked process, in which a fault occurs.

    Parameters
    ----------
    arguments : tuple of str
        The command.
    folder : Path
        The folder that it runs in.
    fault : str
        One of FAULTS; none if it is empty.
    moment : float
        When a signal is sent, in seconds; the bytes that a file or the additional memory may have; or the number of
        lines that are read from a pipe.
    """
    start = time.monotonic()
    with tempfile.TemporaryFile() as output, tempfile.TemporaryFile() as errors:
        reader, writer = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(reader)
            _become(arguments, folder, writer if fault == "pipe" else output.fileno(), errors.fileno(), fault, moment)
        os.close(writer)
        if fault == "pipe":
            _read_lines(reader, int(moment))
        os.close(reader)
        if fault in SIGNALS:
            _wait(child, start + moment)
            _send(child, SIGNALS[fault])
        status = _wait(child, start + SECONDS)
        if status is None:
            _send(child, signal.SIGKILL)
            status = os.waitpid(child, 0)[1]
            raise AssertionError(f"{arguments} did not end within {SECONDS} s after {fault}")
        texts = [_content(file) for file in (output, errors)]
    return Ending(os.waitstatus_to_exitcode(status), *texts, time.monotonic() - start)


_ended: dict[int, int] = {}


def _wait(child: int, deadline: float) -> int | None:
    """Return the status of a process, or None if it still runs at the deadline."""
    while child not in _ended:
        found, status = os.waitpid(child, os.WNOHANG)
        if found:
            _ended[child] = status
        elif time.monotonic() >= deadline:
            return None
        else:
            time.sleep(0.002)
    return _ended[child]


def _send(child: int, number: int) -> None:
    """Send a signal to a command unless it has ended, with its worker processes if it is killed."""
    if child in _ended:
        return
    try:
        (os.killpg if number == signal.SIGKILL else os.kill)(child, number)
    except ProcessLookupError:  # the child has no group of its own yet
        os.kill(child, number)


def _content(file) -> str:
    file.seek(0)
    return file.read().decode(errors="replace")


def _read_lines(reader: int, n_lines: int) -> None:
    """Read as many lines as `head` would."""
    found = b""
    while found.count(b"\n") < n_lines:
        part = os.read(reader, 1)
        if not part:
            return
        found += part


def _become(arguments, folder, output, errors, fault, moment) -> None:
    """Run a command in this process and end it."""
    try:
        os.setsid()
        os.chdir(folder)
        os.dup2(output, 1)
        os.dup2(errors, 2)
        # pytest has replaced both
        sys.stdout, sys.stderr = (os.fdopen(number, "w", closefd=False) for number in (1, 2))
        sys.argv = ["bochner", *arguments]
        signal.signal(signal.SIGINT, signal.default_int_handler)
        _arrange(fault, moment)
        main.main()
        code = 0
    except SystemExit as error:
        code = error.code if isinstance(error.code, int) else 1
    except BaseException:
        sys.excepthook(*sys.exc_info())
        code = 99
    try:
        sys.stdout.flush()
    except OSError:
        code = 120  # as at the end of Python
    os._exit(code)


def _arrange(fault: str, moment: float) -> None:
    """Arrange a fault that is not a signal."""
    if fault == "disk":
        resource.setrlimit(resource.RLIMIT_FSIZE, (int(moment), int(moment)))
    elif fault == "memory":
        used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        limit = used + int(moment)
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    elif fault == "clock":
        jump = random.Random(moment)
        true = time.time
        time.time = lambda: true() + jump.uniform(-1e8, 1e8)  # backwards and forwards by years


# The commands.


def model_predictions(folder: Path) -> object:
    """Return the predictions of a model as bytes."""
    model = load(folder / "m.skops")
    rows = np.linspace(-1.0, 1.0, 4 * 20).reshape(20, 4)
    return model.predict_rows(rows).tobytes()


def file_content(name: str, folder: Path) -> object:
    """Return the content of a file."""
    return (folder / name).read_bytes()


def page_head(name: str, folder: Path) -> object:
    """Return whether a page is complete; its times differ from run to run."""
    text = (folder / name).read_text()
    return text.startswith("<!DOCTYPE html>") and text.rstrip().endswith("</html>")


def make_commands(folder: Path) -> dict[str, Command]:
    """Return the commands by name, with their tables in a folder."""
    rng = np.random.default_rng(0)
    columns = dict(zip("abcd", rng.normal(size=(4, 12_000)), strict=True))
    columns["y"] = np.sin(columns["a"]) + 0.1 * rng.normal(size=12_000)
    data = str(write_table(folder / "rows.parquet", columns, row_group_size=1000))
    few = str(write_table(folder / "few.parquet", {name: values[:3000] for name, values in columns.items()}))
    fewest = str(write_table(folder / "fewest.parquet", {name: values[:150] for name, values in columns.items()}))
    fit = ("fit", fewest, "--target", "y", "--fast", "--output", "m.skops")
    features = ("fit", few, "--target", "y", "--fast", "--model", "features", "--output")
    run((*features, "used.skops"), folder)
    used = str(folder / "used.skops")
    predict = ("predict", used, data, "--interval", "0.9", "--output", "p.csv")
    report = ("report", used, fewest, "--output", "page.html")
    compare = ("compare", fewest, "--n-components", "8", "--seeds", "1", "--output", "out/page.html")
    return {
        "fit": Command(fit, "m.skops", model_predictions),
        "fit --model features": Command((*features, "m.skops"), "m.skops", model_predictions),
        "predict": Command(predict, "p.csv", lambda folder: file_content("p.csv", folder)),
        "compare": Command(
            compare,
            "out/page.html",
            lambda folder: page_head("out/page.html", folder),
            ("out",),
            prepare=lambda folder: (folder / "out").mkdir(exist_ok=True),
        ),
        "report": Command(report, "page.html", lambda folder: page_head("page.html", folder)),
        "export": Command(("export", used, "m.onnx"), "m.onnx", lambda folder: file_content("m.onnx", folder)),
    }


# One injection.


def moment_of(fault: str, whole: Ending, size: int, dice: random.Random) -> float:
    """Draw the moment of a fault: seconds, bytes of a file, bytes of memory, or lines."""
    if fault == "disk":
        return dice.uniform(0.0, 1.2) * size
    if fault == "memory":
        return dice.uniform(30e6, 130e6)
    if fault == "pipe":
        return dice.randrange(0, 2)
    return dice.uniform(0.0, 1.05) * whole.seconds


def inject(command: Command, fault: str, moment: float, expected: object, folder: Path) -> str:
    """Run a command with a fault, check the files, run it again and compare; return how the first run has ended."""
    command.prepare(folder)
    output = folder / command.output
    if not command.remains:
        output.write_bytes(OLD)
    ending = run(command.arguments, folder, fault, moment)
    _check_message(ending, fault)
    _check_files(command, ending, expected, folder, fault)
    second = run(command.arguments, folder)
    assert second.code == 0, f"the second run failed: {second.errors}"
    assert command.result(folder) == expected, "the second run gave another result"
    left = {file.name for file in folder.iterdir()} - {command.output, "out"}
    left = {name for name in left if fault != "SIGKILL" or not name.endswith(".new")}
    assert not left, f"the second run left {left}"
    return "finished" if ending.code == 0 else "crashed" if ending.code not in CODES[fault] else "stopped"


def _check_message(ending: Ending, fault: str) -> None:
    """Check that a stopped run has printed one line."""
    assert "Traceback" not in ending.errors, ending.errors
    assert "Exception ignored" not in ending.errors, ending.errors
    if ending.code > 0 and ending.code in CODES[fault]:
        lines = [line for line in ending.errors.splitlines() if not re.match(r"\d+ of \d+: ", line)]
        assert len(lines) == 1, ending.errors
        assert lines[0].startswith(("Stopped", "Error: ")), ending.errors


def _check_files(command: Command, ending: Ending, expected: object, folder: Path, fault: str) -> None:
    """Check that the output is the old or the new one, and that nothing else is left ."""
    output = folder / command.output
    if ending.code == 0:
        assert command.result(folder) == expected, "finished with another result"
    if output.exists() and output.read_bytes() != OLD:
        assert command.result(folder) == expected, "the output is neither the old nor the new one"
    if not command.remains:
        assert output.exists(), "the old output is lost"
    left = {str(file.relative_to(folder)) for file in folder.rglob("*") if file.is_file()}
    left -= {command.output, *command.remains} | {name for name in left if name.startswith("out/")}
    if ending.code > 0 and ending.code in CODES[fault]:
        assert not any(name.endswith(".new") for name in left), f"left {left}"
    assert not {name for name in left if not name.endswith(".new")}, f"left {left}"


def inject_all() -> int:
    """Inject faults into all commands and print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--times", type=int, default=6, help="injections per command and fault")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", default="", help="commands, separated by commas")
    parser.add_argument("--faults", default=",".join(FAULTS))
    parser.add_argument(
        "--output", type=Path, default=None, help="a JSON file; a second run of the same commit adds what is missing"
    )
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        commands = make_commands(Path(temporary))
        faults, totals = options.faults.split(","), Counter()
        print(f"| command | {' | '.join(faults)} |\n|---|{'---|' * len(faults)}", flush=True)
        for name in options.only.split(",") if options.only else commands:
            cells = _stored_cells(options.output, name)
            for fault in faults:
                if fault not in cells:
                    dice = random.Random(f"{options.seed}, {name}, {fault}")
                    cells[fault] = dict(inject_some(commands[name], fault, options.times, dice, Path(temporary)))
                    _store(options.output, name, cells)
                totals += Counter(cells[fault])
            print(f"| `bochner {name}` | {' | '.join(_describe(cells[fault]) for fault in faults)} |", flush=True)
    print(f"{totals.total()} injections, {totals['lost']} lost or half-written")
    return int(totals["lost"] > 0)


def _describe(counts: dict[str, int]) -> str:
    """Return how often runs have ended in which way."""
    return ", ".join(f"{count} {ending}" for ending, count in sorted(counts.items(), reverse=True))


def _stored(path: Path | None) -> dict[str, Any]:
    """Return what was stored about this commit; results of other commits are dropped."""
    commit = subprocess.run(("git", "rev-parse", "--short", "HEAD"), capture_output=True, text=True, check=True)
    empty = {"about": {"command": "python -m tests.faults.inject", "commit": commit.stdout.strip()}, "counts": {}}
    stored = json.loads(path.read_text()) if path is not None and path.exists() else empty
    return stored if stored["about"] == empty["about"] else empty


def _stored_cells(path: Path | None, name: str) -> dict[str, dict[str, int]]:
    """Return the endings by fault of a command that earlier runs have stored."""
    return dict(_stored(path)["counts"].get(name, {}))


def _store(path: Path | None, name: str, cells: dict[str, dict[str, int]]) -> None:
    """Store the endings of a command, with the rows of the page and the totals."""
    if path is None:
        return
    stored = _stored(path)
    stored["counts"][name] = cells
    described = {
        name: {fault: _describe(endings) for fault, endings in row.items()} for name, row in stored["counts"].items()
    }
    stored["rows"] = [{"command": f"`bochner {name}`"} | row for name, row in described.items()]
    endings = sum((Counter(cell) for row in stored["counts"].values() for cell in row.values()), Counter())
    stored["totals"] = [{"injections": endings.total(), "lost": endings["lost"]}]
    path.write_text(json.dumps(stored, indent=1) + "\n")


def inject_some(command: Command, fault: str, n_times: int, dice: random.Random, folder: Path) -> Counter[str]:
    """Inject a fault several times and count the endings."""
    expected, whole, size = reference(command, folder)
    found: Counter[str] = Counter()
    for _ in range(n_times):
        moment = moment_of(fault, whole, size, dice)
        with tempfile.TemporaryDirectory(dir=folder) as place:
            try:
                found[inject(command, fault, moment, expected, Path(place))] += 1
            except AssertionError as error:
                found["lost"] += 1
                print(f"{command.arguments[0]}, {fault} at {moment:.6g}: {error}", file=sys.stderr, flush=True)
    return found


_references: dict[Command, tuple[object, Ending, int]] = {}


def reference(command: Command, folder: Path) -> tuple[object, Ending, int]:
    """Return the result of a run without faults, its ending and the size of its output."""
    if command not in _references:
        with tempfile.TemporaryDirectory(dir=folder) as place:
            command.prepare(Path(place))
            whole = run(command.arguments, Path(place))
            assert whole.code == 0, whole.errors
            found = command.result(Path(place)), whole, (Path(place) / command.output).stat().st_size
        _references[command] = found
    return _references[command]


if __name__ == "__main__":
    sys.exit(inject_all())
