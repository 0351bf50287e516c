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
import bench_mnist

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "benchmarks/results"
IMAGES = ROOT / "docs/images"
FIGURE = re.compile(r"(?P<comment><!--=\s(?P<expression>.*?)-->)(?P<text>.*?)<!---->", re.DOTALL)

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
    return "\n" + "\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n"


FUNCTIONS: dict[str, Callable[..., Any]] = {
    function.__name__: function for function in (number, rows, value, summary, count, cell, table)
}


def rendered(page: str) -> str:
    """Return a page with the current figures."""
    environment = NativeEnvironment(undefined=StrictUndefined)

    def render(match: re.Match[str]) -> str:
        figure = environment.compile_expression(match["expression"], undefined_to_none=False)(**FUNCTIONS)
        return f"{match['comment']}{figure}<!---->"

    return FIGURE.sub(render, page)


def front(figure: Figure) -> None:
    """Draw the test error on mnist against seconds: the picture of the first page."""
    axes = figure.subplots()
    series = {
        "exact kernel, SVC(C=10)": ('SVC(kernel="rbf")', {"color": "#1b1b1b", "marker": "*", "markersize": 14}),
        "Nystroem, LinearSVC(C=10)": ("Nystroem, LinearSVC", {"color": "#8a8a8a", "marker": "s", "linestyle": "--"}),
        "Fourier, SVC(C=10)": ("FourierFeatures, FeatureClassifier", {"color": "#3182bd", "marker": "D"}),
        "landmarks, SVC(C=10)": ("LandmarkFeatures, FeatureClassifier", {"color": "#d9601a", "marker": "o"}),
    }
    for name, (label, style) in series.items():
        found = sorted(rows("mnist", series=name), key=lambda row: int(row["width"]))
        found = [row for row in found if row["error"] < 0.03]
        n_columns = 2 if name.startswith("Fourier") else 1  # per frequency or landmark
        seconds, errors = [row["fit"] + row["predict"] for row in found], [100 * row["error"] for row in found]
        axes.plot(seconds, errors, label=label, **style)
        for row, x, y in zip(found, seconds, errors, strict=True):
            if row["width"]:
                text = f"{n_columns * row['width']:,}"
                shift = (6, 5) if row["width"] < 8192 else (-36, -10)  # beside the star
                axes.annotate(text, (x, y), xytext=shift, textcoords="offset points", fontsize=8)
    axes.set(xscale="log", xlabel="seconds of fit and prediction, two cores", ylabel="test error, %", ylim=(1.4, 2.9))
    axes.set_xticks([10, 30, 100, 300], ["10", "30", "100", "300"])
    axes.minorticks_off()
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(color="#dddddd", linewidth=0.6)
    axes.legend(frameon=False, title="mnist, 60,000 rows; numbers are columns", alignment="left")


class Picture(NamedTuple):
    """A picture of docs/images: the result file it is drawn from, its size, and the function that draws it."""

    file: str
    size: tuple[float, float]
    draw: Callable[[Figure], None]


PICTURES = {
    "front.png": Picture("mnist", (7.0, 3.8), front),
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


def pages() -> list[Path]:
    """Return the pages that can have figures."""
    return [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")), *sorted((ROOT / "docs").glob("*/*.md"))]


def main(
    check: Annotated[bool, typer.Option("--check", help="Write nothing; fail if a figure is out of date.")] = False,
) -> None:
    """Write the figures of all pages, and draw the pictures."""
    outdated = [path for path in pages() if rendered(text := path.read_text(encoding="utf-8")) != text]
    pictures = [name for name in PICTURES if not is_current(name)]
    if check and outdated + pictures:
        names = [*(str(path.relative_to(ROOT)) for path in outdated), *pictures]
        raise SystemExit(f"Out of date: {', '.join(names)}; run `make figures`.")
    for path in outdated:
        path.write_text(rendered(path.read_text(encoding="utf-8")), encoding="utf-8")
    for name in pictures:
        draw(name)


if __name__ == "__main__":
    typer.run(main)
