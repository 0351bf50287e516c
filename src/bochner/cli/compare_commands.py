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
from bochner.cli.console import Decimal, Drop, FileEncoding, Json, Kinds, Missing, Texts, app, echo
from bochner.compare import compare as measure
from bochner.compare.page import comparison_page, comparison_table, recommend, recommendation
from bochner.pages import write_atomically
from bochner.tables.description import column_messages

if TYPE_CHECKING:
    from pandas import DataFrame


@app.command()
def demo(
    output: Annotated[Path, typer.Option(help="The page to write.")] = Path("bochner-demo.html"),
) -> None:
    """Compare Fourier features, landmark features and Nystroem on the bundled digits: a table and a page with plots."""
    console.check_plots()
    console.check_output(output)
    # Without targets: ridge regression adds nothing to a look at the approximations.
    X = StandardScaler().fit_transform(load_digits().data)
    _report(measure(X, n_components=(32, 128), n_seeds=1, verbose=1), "digits", output)


@app.command()
def compare(
    data: Annotated[Path, typer.Argument(help="A table that `bochner fit` reads: .csv, .parquet, ...")],
    target: Annotated[str | None, typer.Option(help="A column to predict; compares prediction errors, too.")] = None,
    n_components: Annotated[
        Texts, typer.Option(help="Numbers of columns, separated by commas; 64,256 by default.", metavar="N,...")
    ] = None,
    length_scale: Annotated[float | None, typer.Option(help="Of the kernel; the median distance by default.")] = None,
    kinds: Kinds = None,
    drop: Drop = None,
    decimal: Decimal = None,
    missing: Missing = None,
    encoding: FileEncoding = "utf-8",
    seeds: Annotated[int | None, typer.Option(min=1, help="Repetitions; 2 by default, 1 with --quick.")] = None,
    quick: Annotated[bool, typer.Option("--quick", help="At most 1,000 training rows and 64 columns.")] = False,
    output: Annotated[Path, typer.Option(help="The page to write.")] = Path("bochner-comparison.html"),
    as_json: Json = False,
) -> None:
    """Recommend features for your data: Fourier features, landmark features and Nystroem, their errors and times.

    At most 20,000 sampled rows are encoded as by `bochner fit`. Fits run one at a time because their times are
    reported; by default, this takes about a minute.
    """
    console.check_plots()
    console.check_output(output, data)
    sizes = console.comma_separated(n_components)
    wrong = next((text for text in sizes if not text.isdecimal()), None)
    if wrong is not None:
        raise ValueError(f"--n-components {wrong} is not a number; give for example --n-components 64,256.")
    survey = console.table_encoder(kinds, drop, decimal, missing, encoding).survey(data, target)
    survey.check()
    for message in [] if as_json else column_messages(survey):
        echo(message)
    rows, cells = survey.encoding(), survey.sample.cells
    found = measure(
        rows.encode(cells),
        None if target is None else rows.targets(cells),
        n_components=[int(text) for text in sizes] or None,
        length_scale=length_scale,
        n_seeds=seeds or (1 if quick else 2),
        n_train=1_000 if quick else 2_000,
        verbose=1,
    )
    _report(found, data.name, output, as_json)


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
