# SPDX-License-Identifier: BSD-3-Clause
"""Write the measured figures of README.md and docs from the files in benchmarks/results: `make figures`.

A page marks each figure by a comment in front of it that says where it comes from, and an empty comment behind it::

    SVC has an error of <!--= value("mnist", "error", method="SVC") -->1.63<!----> %.

The text between the two comments is replaced by the value of the expression, which can use the functions of
`FUNCTIONS` below. Tables are written in the same way. `--check` writes nothing and fails if a page is out of date.
"""

import json
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from jinja2 import StrictUndefined
from jinja2.nativetypes import NativeEnvironment

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "benchmarks/results"
FIGURE = re.compile(r"<!--= (?P<expression>.*?) -->(?P<text>.*?)<!---->", re.DOTALL)

Row = dict[str, Any]


def rows(file: str, **where: Any) -> list[Row]:
    """Return the rows of a result file that have the given values."""
    stored = json.loads((RESULTS / f"{file}.json").read_text(encoding="utf-8"))
    found = [row for row in stored["rows"] if all(row.get(name) == value for name, value in where.items())]
    if not found:
        raise ValueError(f"{file}.json has no row with {where}.")
    return found


def value(file: str, column: str, form: str = "", **where: Any) -> str:
    """Return one number of a result file, in a format such as ".2f"."""
    found = rows(file, **where)
    if len(found) > 1:
        raise ValueError(f"{file}.json has {len(found)} rows with {where}; name one.")
    return format(found[0][column], form)


def table(
    file: str, columns: dict[str, str], formats: dict[str, str] | None = None, best: Sequence[str] = (), **where: Any
) -> str:
    """Return rows of a result file as a table.

    `columns` maps names in the file to headings, `formats` maps them to formats such as ".2f". In each row, the
    smallest number of the columns `best` is bold.
    """
    lines = [list(columns.values()), ["---"] * len(columns)]
    for row in rows(file, **where):
        smallest = min((row[name] for name in best if row.get(name) is not None), default=None)
        cells = {
            name: "" if row.get(name) is None else format(row[name], (formats or {}).get(name, "")) for name in columns
        }
        bold = {name for name in best if smallest is not None and row.get(name) == smallest}
        lines.append([f"**{cell}**" if name in bold else cell for name, cell in cells.items()])
    return "\n" + "\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n"


FUNCTIONS: dict[str, Callable[..., Any]] = {"rows": rows, "value": value, "table": table}


def rendered(page: str) -> str:
    """Return a page with the current figures."""
    environment = NativeEnvironment(undefined=StrictUndefined)

    def render(match: re.Match[str]) -> str:
        figure = environment.compile_expression(match["expression"], undefined_to_none=False)(**FUNCTIONS)
        return f"<!--= {match['expression']} -->{figure}<!---->"

    return FIGURE.sub(render, page)


def pages() -> list[Path]:
    """Return the pages that can have figures."""
    return [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")), *sorted((ROOT / "docs").glob("*/*.md"))]


def main(
    check: Annotated[bool, typer.Option("--check", help="Write nothing; fail if a page is out of date.")] = False,
) -> None:
    """Write the figures of all pages."""
    for page in pages():
        before = page.read_text(encoding="utf-8")
        after = rendered(before)
        if check and after != before:
            raise SystemExit(f"{page.relative_to(ROOT)} has figures that are out of date; run `make figures`.")
        if after != before:
            page.write_text(after, encoding="utf-8")


if __name__ == "__main__":
    typer.run(main)
