# SPDX-License-Identifier: BSD-3-Clause
"""Write the measured figures of README.md and docs from the files in benchmarks/results: `make figures`.

`figures.toml` lists them: a sentence of a page with {} for each figure, and one expression per figure, which can use
the functions of `FUNCTIONS` below. Tables are written in the same way. `--check` writes nothing and fails if a page is
out of date.
"""

import json
import re
import tomllib
from collections.abc import Callable, Sequence
from hashlib import sha256
from pathlib import Path
from statistics import fmean, median
from typing import Annotated, Any, NamedTuple

import typer
from jinja2 import StrictUndefined
from jinja2.nativetypes import NativeEnvironment
from matplotlib.figure import Figure
from PIL import Image

import bench
import bench_machine
import bench_mnist
from tabular import page

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "benchmarks/results"
IMAGES = ROOT / "docs/images"
SENTENCES = ROOT / "benchmarks/figures.toml"
VALUE = r"(\|.+?\||[^\n]{1,40}?)"  # a table, or a short text

Row = dict[str, Any]


def stored(name: str) -> Any:
    """Return the content of a result file: a JSON object, or lines of JSON as the resumable benchmarks write them."""
    lines = RESULTS / f"{name}.jsonl"
    if lines.exists():
        return {"rows": [json.loads(line) for line in lines.read_text(encoding="utf-8").splitlines()]}
    return json.loads((RESULTS / f"{name}.json").read_text(encoding="utf-8"))


def rows(file: str, **where: Any) -> list[Row]:
    """Return the rows of a result file that have the given values; a list means any of its values.

    "bench/memory" is a section of a file; a file without sections has its rows in the list "rows".
    """
    name, _, section = file.partition("/")
    allowed = {column: value if isinstance(value, list) else [value] for column, value in where.items()}
    candidates = stored(name)[section or "rows"]
    found = [row for row in candidates if all(row.get(column) in values for column, values in allowed.items())]
    if not found:
        raise ValueError(f"{file} has no row with {where}.")
    return found


def number(quantity: Any, form: str = "") -> str:
    """Return a number in a format such as ".2f" or ".1%", with a space in front of the percent sign."""
    return re.sub(r"(?<=\d)%$", " %", format(quantity, form))


def value(file: str, column: str, form: str = "", **where: Any) -> str:
    """Return one number of a result file."""
    found = rows(file, **where)
    if len(found) > 1:
        raise ValueError(f"{file} has {len(found)} rows with {where}; name one.")
    return number(found[0][column], form)


def summary(file: str, column: str, statistic: str, form: str = "", over: str | None = None, **where: Any) -> str:
    """Return the mean, median, min or max of a column of a result file, divided by the column `over` if it is given."""
    numbers = [row[column] / (row[over] if over else 1) for row in rows(file, **where)]
    return format({"mean": fmean, "median": median, "min": min, "max": max}[statistic](numbers), form)


def count(file: str, smallest: str | None = None, among: Sequence[str] = (), **where: Any) -> int:
    """Return the number of rows, or of those in which the column `smallest` has the smallest number of `among`."""
    found = rows(file, **where)
    return sum(smallest is None or row[smallest] == min(row[name] for name in (smallest, *among)) for row in found)


def cell(row: Row, name: str, form: str = "") -> str:
    """Return one number of a row, with the standard error in the column NAME_se if there is one."""
    if row.get(name) is None:
        return ""
    error = row.get(f"{name}_se")
    return number(row[name], form) if error is None else f"{row[name]:{form}} ± {error:{form}}"


def table(
    file: str,
    columns: dict[str, str],
    formats: dict[str, str] | None = None,
    best: Sequence[str] = (),
    order: Sequence[str] = (),
    **where: Any,
) -> str:
    """Return rows of a result file as a table, sorted by the columns `order`.

    `columns` maps names in the file to headings, `formats` maps them to formats such as ".2f". In each row, the
    smallest number of the columns `best` is bold. Numbers are followed by their standard errors, see `cell`.
    """
    lines = [list(columns.values()), ["---"] * len(columns)]
    for row in sorted(rows(file, **where), key=lambda row: [row[name] for name in order]):
        smallest = min((row[name] for name in best if row.get(name) is not None), default=None)
        cells = {name: cell(row, name, (formats or {}).get(name, "")) for name in columns}
        bold = {name for name in best if smallest is not None and row.get(name) == smallest}
        lines.append([f"**{cell}**" if name in bold else cell for name, cell in cells.items()])
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def leaderboard() -> str:
    """Return the Elo ratings, mean ranks and seconds of the methods on public tables."""
    lines = [["method", "Elo (95 % interval)", "mean rank", "fit, s", "predict 10,000 rows, s"], ["---"] * 5]
    for row in [row for row in rows("tabular") if row["elo"] is not None]:
        elo = f"{row['elo']:.0f} ({row['elo'] - row['elo-']:.0f} to {row['elo'] + row['elo+']:.0f})"
        seconds = [f"{row['fit_seconds']:.2g}", f"{row['seconds_of_10000_predictions']:.2g}"]
        lines.append([row["label"], elo, f"{row['rank']:.1f}", *seconds])
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def n_behind(rival: str, file: str = "tabular") -> str:
    """Return the number of public tables on which another method has a lower error than ours."""
    return str(sum(row[rival] < row["tables"] for row in rows(f"{file}/tables")))


def by_kind() -> str:
    """Return our errors on public tables relative to those of boosting, by the kind of the target."""
    rivals = {"hgb": "HistGradientBoosting", "catboost": "CatBoost"}
    heads = [head for label in rivals.values() for head in (f"ratio to {label}", "it wins on")]
    lines = [["target", "tables", *heads], ["---"] * 6]
    for kind, label in {"regression": "a number", "binary": "two classes", "multiclass": "more classes"}.items():
        found = rows("tabular/tables", kind=kind)
        cells = []
        for rival in rivals:
            ratios = [row["tables"] / row[rival] for row in found]
            cells += [f"{median(ratios):.2f}", str(sum(ratio > 1 for ratio in ratios))]
        lines.append([label, str(len(found)), *cells])
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


FUNCTIONS: dict[str, Callable[..., Any]] = {
    function.__name__: function
    for function in (number, stored, rows, value, summary, count, cell, table, leaderboard, by_kind, n_behind)
}


def listed() -> dict[str, list[Row]]:
    """Return the sentences with figures by page."""
    by_page: dict[str, list[Row]] = {}
    for figure in tomllib.loads(SENTENCES.read_text(encoding="utf-8"))["figure"]:
        by_page.setdefault(figure["page"], []).append(figure)
    return by_page


def rendered(text: str, figures: list[Row]) -> str:
    """Return a page with the current figures."""
    environment = NativeEnvironment(undefined=StrictUndefined)
    for figure in figures:
        parts = [r"\s+".join(map(re.escape, part.split(" "))) for part in figure["sentence"].split("{}")]
        found = list(re.finditer(VALUE.join(f"({part})" for part in parts), text, re.DOTALL))
        if len(found) != 1:
            raise ValueError(
                f"{figure['page']} has {len(found)} places with {figure['sentence']!r}; mend figures.toml."
            )
        texts = list(found[0].groups())
        for number, value_ in enumerate(figure["values"]):
            expression = environment.compile_expression(value_, undefined_to_none=False)
            texts[2 * number + 1] = str(expression(**FUNCTIONS))
        text = text[: found[0].start()] + "".join(texts) + text[found[0].end() :]
    return text


class Picture(NamedTuple):
    """A picture of docs/images: the result file it is drawn from, its size, and the function that draws it."""

    file: str
    size: tuple[float, float]
    draw: Callable[[Figure], None]


PICTURES = {
    "tabular.png": Picture("tabular", page.FIGURE_SIZE, lambda figure: page.draw(figure, stored("tabular"))),
    "machine.png": Picture(
        "machine", bench_machine.FIGURE_SIZE, lambda figure: bench_machine.draw(figure, rows("machine"))
    ),
    "mnist.png": Picture("mnist", bench_mnist.FIGURE_SIZE, lambda figure: bench_mnist.draw(figure, rows("mnist"))),
    "bench.png": Picture("bench", bench.FIGURE_SIZE, lambda figure: bench.draw(figure, stored("bench"))),
}


def digest(file: str) -> str:
    """Return a text that changes with a result file; pictures have it among their metadata."""
    return sha256(json.dumps(stored(file)).encode()).hexdigest()


def draw(name: str) -> None:
    """Draw a picture."""
    picture = PICTURES[name]
    figure = Figure(figsize=picture.size, layout="constrained")
    picture.draw(figure)
    figure.savefig(IMAGES / name, dpi=160, metadata={"Source": digest(picture.file)})


def is_current(name: str) -> bool:
    """Tell whether a picture was drawn from the result file as it is."""
    path = IMAGES / name
    if not path.exists():
        return False
    with Image.open(path) as image:
        return image.info.get("Source") == digest(PICTURES[name].file)


def main(
    check: Annotated[bool, typer.Option("--check", help="Write nothing; fail if a figure is out of date.")] = False,
) -> None:
    """Write the figures of all pages, and draw the pictures."""
    written = {
        ROOT / name: rendered((ROOT / name).read_text(encoding="utf-8"), found) for name, found in listed().items()
    }
    outdated = [path for path, text in written.items() if path.read_text(encoding="utf-8") != text]
    pictures = [name for name in PICTURES if not is_current(name)]
    if check and outdated + pictures:
        names = [*(str(path.relative_to(ROOT)) for path in outdated), *pictures]
        raise SystemExit(f"Out of date: {', '.join(names)}; run `make figures`.")
    for path in outdated:
        path.write_text(written[path], encoding="utf-8")
    for name in pictures:
        draw(name)


if __name__ == "__main__":
    typer.run(main)
