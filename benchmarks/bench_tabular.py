# SPDX-License-Identifier: BSD-3-Clause
"""Measure errors and seconds on public tables beside boosting, Nystroem and support vector machines.

`make bench-tabular` installs the tables and runs this script. Seconds are those of one core (processor time with one
thread), which another program on the same machine hardly changes. It writes one line per fit to `results.jsonl` and the
page `index.html`. Run the same command again to resume an interrupted run; delete lines to repeat their fits.
"""

import platform
from collections.abc import Iterable
from importlib.metadata import version
from pathlib import Path
from time import process_time
from typing import Annotated

import typer
from rich.console import Console
from threadpoolctl import threadpool_limits

from bochner.pages import write_atomically
from bochner.progress import progress_bar, show_progress
from tabular.data import TABLES, Table, divide, load, missing_packages, n_train
from tabular.methods import METHODS
from tabular.page import markdown, page
from tabular.results import Result, Store, Summary, measure_error

QUICK_TABLES = ("concrete", "airfoil", "mortgage", "phoneme")
QUICK_METHODS = ("boosting", "nystroem", "isotropic-256", "learn-256", "learn-matrix-256", "landmarks-learn")
console = Console() if Console().is_terminal else Console(width=120)


def chosen(option: str, text: str | None, default: Iterable[str], allowed: Iterable[str]) -> list[str]:
    """Return the names in an option, separated by commas, in the order of all names."""
    if text is None:
        return list(default)
    names = {name.strip() for name in text.split(",")}
    for name in sorted(names - set(allowed)):
        raise typer.BadParameter(f"{name!r} is unknown; use names from {', '.join(allowed)}.", param_hint=option)
    return [name for name in allowed if name in names]


def measure(table: Table, method: str, division: int) -> Result:
    """Fit a method to the training rows of a division and measure its error on the test rows."""
    rows = divide(table, division)
    model = METHODS[method].build(table.kind, table.X.shape[1], division)
    with threadpool_limits(1):  # threads that wait for each other would count as time
        begin = process_time()
        model.fit(rows.X_train, rows.y_train)
        seconds = process_time() - begin
    error = measure_error(table.kind, rows, model)
    sizes = len(rows.X_train), len(rows.X_test), table.X.shape[1]
    return Result(table.name, method, division, table.kind, *sizes, error, seconds, versions())


def versions() -> str:
    """Return the versions that a result depends on."""
    packages = (f"{name} {version(name)}" for name in ("bochner", "numpy", "scipy", "scikit-learn"))
    return f"Python {platform.python_version()}, " + ", ".join(packages)


def run(store: Store, tables: list[Table], methods: list[str], n_divisions: int) -> None:
    """Fit what has no result yet; the first division of all tables comes first."""
    fits = [
        (table, method, division)
        for division in range(n_divisions)
        for table in tables
        for method in methods
        if METHODS[method].accepts(n_train(table)) and (table.name, method, division) not in store.results
    ]
    refused: set[str] = set()
    with progress_bar("fitting", len(fits)) as advance:
        for table, method, division in fits:
            if method not in refused:
                try:
                    store.append(measure(table, method, division))
                except ValueError as error:
                    console.print(f"Skipped {method}, which cannot be fitted to {table.name}: {error}", soft_wrap=True)
                    refused.add(method)
            advance(1)


def main(
    tables: Annotated[str | None, typer.Option(help="Names of tables, separated by commas.")] = None,
    methods: Annotated[str | None, typer.Option(help="Names of methods, separated by commas.")] = None,
    divisions: Annotated[int, typer.Option(min=1, help="Number of divisions into training and test rows.")] = 3,
    quick: Annotated[bool, typer.Option("--quick", help="Four small tables, six fast methods, one division.")] = False,
    output: Annotated[Path, typer.Option(help="Folder for results.jsonl and index.html.")] = Path("tabular"),
) -> None:
    """Fit every method to every table and write the page."""
    names = chosen("--tables", tables, QUICK_TABLES if quick else TABLES, TABLES)
    selected = chosen("--methods", methods, QUICK_METHODS if quick else METHODS, METHODS)
    if missing := missing_packages(names):
        message = f"the tables need {', '.join(missing)}, which `make bench-tabular` installs."
        raise typer.BadParameter(message, param_hint="--tables")
    output.mkdir(parents=True, exist_ok=True)
    store = Store(output / "results.jsonl")
    with show_progress():
        run(store, [load(name) for name in names], selected, 1 if quick else divisions)
    summary = Summary(list(store.results.values()), list(METHODS))
    write_atomically(output / "index.html", page(summary))
    print(markdown(summary))
    console.print(f"Wrote {output / 'results.jsonl'} and {output / 'index.html'}", soft_wrap=True)


if __name__ == "__main__":
    typer.run(main)
