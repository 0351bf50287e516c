# SPDX-License-Identifier: BSD-3-Clause
"""`bochner demo` and `compare`: kernel approximations side by side."""

import json
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from sklearn.datasets import load_digits
from sklearn.preprocessing import StandardScaler

from bochner.cli import console
from bochner.cli.console import Decimal, Drop, Json, Kinds, app, check_output, echo
from bochner.compare import compare as measure
from bochner.compare.page import comparison_page, comparison_table, recommend, recommendation
from bochner.pages import write_atomically
from bochner.rows import Array, Floats
from bochner.tables.description import column_messages
from bochner.tables.table_encoder import TableEncoder

if TYPE_CHECKING:
    from pandas import DataFrame

PAGE = Path("bochner-comparison.html")


@app.command()
def demo(
    output: Annotated[Path, typer.Option(help="The page to write.")] = Path("bochner-demo.html"),
) -> None:
    """Compare Fourier features, landmark features and Nystroem on the bundled digits: a table and a page with plots."""
    with console.error_messages():
        console.check_plots()
        check_output(output)
        # Without targets: ridge regression adds nothing to a look at the approximations.
        X = StandardScaler().fit_transform(load_digits().data)
        found = measure(X, n_components=(32, 128), n_seeds=1, verbose=1)
        _report(found, "digits", output)


@app.command()
def compare(
    data: Annotated[Path, typer.Argument(help="A table that `bochner fit` reads: .csv, .parquet, ...")],
    target: Annotated[str | None, typer.Option(help="A column to predict; compares prediction errors, too.")] = None,
    n_components: Annotated[
        list[str] | None,
        typer.Option(help="Numbers of columns, separated by commas; 64,256 by default.", metavar="N,..."),
    ] = None,
    length_scale: Annotated[float | None, typer.Option(help="Of the kernel; the median distance by default.")] = None,
    kinds: Kinds = None,
    drop: Drop = None,
    decimal: Decimal = None,
    seeds: Annotated[int | None, typer.Option(min=1, help="Repetitions; 2 by default, 1 with --quick.")] = None,
    quick: Annotated[bool, typer.Option("--quick", help="At most 1,000 training rows and 64 columns.")] = False,
    output: Annotated[Path, typer.Option(help="The page to write.")] = PAGE,
    as_json: Json = False,
) -> None:
    """Recommend features for your data: Fourier features, landmark features and Nystroem, their errors and times.

    Fits run one at a time because their times are reported; by default, this takes about a minute.
    """
    with console.error_messages():
        console.check_plots()
        check_output(output, data)
        given, left_out = console.column_kinds(kinds), console.comma_separated(drop)
        encoder = TableEncoder(kinds=given, drop=left_out, decimal=decimal)
        X, y, messages = _read(encoder, data, target)
        if messages and not as_json:
            echo("\n".join(messages))
        found = measure(
            X,
            y,
            n_components=_sizes(n_components),
            length_scale=length_scale,
            n_seeds=seeds or (1 if quick else 2),
            n_train=1_000 if quick else 2_000,
            verbose=1,
        )
        _report(found, data.name, output, as_json)


def _read(encoder: TableEncoder, data: Path, target: str | None) -> tuple[Floats, Array | None, list[str]]:
    """Return up to 20,000 sampled rows of a table as `bochner fit` encodes them, their targets, and messages."""
    survey = encoder.survey(data, target)
    survey.check()
    encoding, cells = survey.encoding(), survey.sample.cells
    assert cells is not None
    y = None if target is None else encoding.targets(cells)
    return encoding.encode(cells), y, column_messages(survey)


def _sizes(values: list[str] | None) -> list[int] | None:
    """Return the numbers of the option --n-components."""
    texts = console.comma_separated(values)
    for text in texts:
        if not text.isdecimal():
            raise ValueError(f"--n-components {text} is not a number; give for example --n-components 64,256.")
    return [int(text) for text in texts] or None


def _report(found: "DataFrame", name: str, output: Path, as_json: bool = False) -> None:
    """Write the page and print the result."""
    write_atomically(output, comparison_page(found, name, shlex.join(["bochner", *sys.argv[1:]])))
    if as_json:
        chosen, lines = recommend(found), json.loads(found.to_json(orient="records", double_precision=15))
        call = found.loc[found["method"] == chosen, "call"].iloc[-1]
        result = {"recommended": chosen, "call": call, "length_scale": found.attrs["length_scale"], "results": lines}
        typer.echo(json.dumps(result | {"page": str(output)}))
        return
    terminal = console.report_console(width=120)
    terminal.print(comparison_table(found, name).rich())
    terminal.print(f"\n{' '.join(recommendation(found))}", markup=False, highlight=False)
    terminal.print(f"The page: {output}", soft_wrap=True, highlight=False)
