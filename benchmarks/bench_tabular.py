# SPDX-License-Identifier: BSD-3-Clause
"""Compare methods with their default settings on public tables, in the protocol of TabArena.

`make bench-tabular` installs the tables and the other libraries, in an environment of their own, and runs this script:
repeated 3-fold cross-validation; root mean squared error for numbers, 1 - AUC for two classes, log loss for more. One
line per fit is appended to `results.jsonl`; the same command resumes an interrupted run, and deleted lines are fitted
again. Then `tabular.json` (a copy belongs into benchmarks/results) and the page `index.html` are written. Tables are
reduced to 9,000 rows, 6,000 of them for training; `--rows 0` uses all. Seconds are processor seconds of one thread.
`--methods skrub-hgb skrub-bochner` compares the encoders of tables.
"""

import json
import platform
import signal
import warnings
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import version
from itertools import product
from pathlib import Path
from time import process_time
from typing import Any

import numpy as np
from sklearn.metrics import log_loss, roc_auc_score
from threadpoolctl import threadpool_limits

from tabular.data import N_FOLDS, TABLES, Fold, Kind, folds, load
from tabular.methods import ENCODERS, METHODS
from tabular.page import write_page
from tabular.results import REFERENCE, summarize


@contextmanager
def limited(seconds: float) -> Iterator[None]:
    """Raise TimeoutError after so many processor seconds; compiled code ends first."""

    def stop(*_: Any) -> None:
        raise TimeoutError(f"over {seconds:g} processor seconds")

    previous = signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, previous)


def measure(kind: Kind, rows: Fold, method: str, seed: int) -> dict[str, Any]:
    """Fit a method to the training rows of a fold and measure it on the test rows."""
    model = METHODS[method].build(kind == "regression", seed)
    begin = process_time()
    model.fit(rows.X_train, rows.y_train)
    fitted = process_time()
    answer = (model.predict if kind == "regression" else model.predict_proba)(rows.X_test)
    seconds = {
        "fit_seconds": fitted - begin,
        "seconds_of_10000_predictions": (process_time() - fitted) / len(rows.X_test) * 10_000,
    }
    return seconds | errors(kind, np.asarray(answer), rows.y_test) | coverages(model, rows)


def coverages(model: Any, rows: Fold) -> dict[str, float]:
    """Return the shares of test targets in prediction intervals of 80 and 90 %, if the model has them."""
    if not hasattr(model, "predict_interval"):
        return {}
    shares = {}
    for percent in (80, 90):
        lower, upper = model.predict_interval(rows.X_test, coverage=percent / 100).T
        shares[f"coverage_{percent}"] = float(np.mean((lower <= rows.y_test) & (rows.y_test <= upper)))
    return shares


def errors(kind: Kind, predicted: Any, actual: Any) -> dict[str, float]:
    """Return the error of TabArena's protocol, and for classes the error rate, the log loss and the Brier score."""
    if kind == "regression":
        return {"error": float(np.sqrt(np.mean(np.square(np.ravel(predicted) - actual))))}
    labels = np.arange(predicted.shape[1])
    probabilities = np.clip(predicted, 1e-15, 1.0)
    loss = float(log_loss(actual, probabilities / probabilities.sum(axis=1, keepdims=True), labels=labels))
    error = 1.0 - roc_auc_score(actual, predicted[:, 1]) if kind == "binary" else loss
    rate = float(np.mean(predicted.argmax(axis=1) != actual))
    brier = float(np.mean(np.square(predicted - np.eye(len(labels))[actual]).sum(axis=1)))
    return {"error": float(error), "log_loss": loss, "brier": brier, "error_rate": rate}


def run(options: Namespace, done: set[tuple[str, str, int]]) -> Iterator[dict[str, Any]]:
    """Yield one result per fit that is not done: by method, then by fold, then by table."""
    python = f"Python {platform.python_version()}"
    for method, fold in product(options.methods, range(N_FOLDS * options.repeats)):
        for name in options.tables:
            if (name, method, fold) in done:
                continue
            table = load(name, options.rows or None)
            rows = list(folds(table, options.repeats))[fold]
            result = {"table": name, "method": method, "fold": fold, "kind": table.kind, "limit_of_rows": options.rows}
            result |= {"n_train": len(rows.X_train), "n_test": len(rows.X_test), "n_columns": table.X.shape[1]}
            package = METHODS[method].package
            result["versions"] = f"{package} {version(package)}, {python}"
            begin = process_time()
            try:
                with limited(options.seconds), threadpool_limits(1), warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    result |= measure(table.kind, rows, method, fold)
            except Exception as error:  # a failure is a result, which the page shows
                result |= {"failure": f"{type(error).__name__}: {error}", "fit_seconds": process_time() - begin}
            yield result


def arguments() -> Namespace:
    """Return the options of the command line."""
    parser = ArgumentParser(description=__doc__)
    parser.add_argument("--tables", nargs="+", default=list(TABLES), choices=TABLES, metavar="TABLE")
    rated = [method for method in METHODS if method not in ENCODERS]
    parser.add_argument("--methods", nargs="*", default=rated, choices=METHODS, metavar="METHOD")
    parser.add_argument("--repeats", type=int, default=1, help="of 3 folds")
    parser.add_argument("--rows", type=int, default=9_000, help="of a table at most; 0 for all")
    parser.add_argument("--seconds", type=float, default=300.0, help="processor seconds of one fit at most")
    parser.add_argument("--output", type=Path, default=Path("tabular"), help="folder")
    return parser.parse_args()


def main() -> None:
    """Fit what has no result yet and write the page."""
    options = arguments()
    options.output.mkdir(parents=True, exist_ok=True)
    path = options.output / "results.jsonl"
    results = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
    done = {(result["table"], result["method"], result["fold"]) for result in results}
    for result in run(options, done):
        results.append(result)
        with path.open("a") as file:
            file.write(json.dumps(result) + "\n")
        shown = ("method", "fold", "table", "error", "fit_seconds", "failure")
        print(*(result.get(name, "") for name in shown), flush=True)
    summary = summarize(results)
    (options.output / "tabular.json").write_text(json.dumps(summary, indent=1) + "\n")
    if all(result["method"] != REFERENCE for result in results):
        print(f"Wrote {path}; ratings are relative to the random forest: add `--methods {REFERENCE}` for the page.")
        return
    write_page(options.output / "index.html", summary)
    print(f"Wrote {path}, tabular.json and index.html")


if __name__ == "__main__":
    main()
