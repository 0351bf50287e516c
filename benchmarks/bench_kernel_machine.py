# SPDX-License-Identifier: BSD-3-Clause
"""Measure the kernel machine beside boosting and xRFM on public tables, all with their defaults.

`make bench-machine` installs the tables and the other libraries, in an environment of their own, and runs this script.
It appends one line per fit to `machine.jsonl` and prints ratios of errors; the same command resumes an interrupted run.
Seconds are processor seconds of one thread. The tables are in two halves that were fixed before any setting of the
machine was changed: settings are chosen on the designing half only.
"""

import json
from argparse import ArgumentParser
from itertools import product
from pathlib import Path
from time import process_time
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from sklearn.metrics import log_loss
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler
from threadpoolctl import threadpool_limits

from bochner import KernelClassifier, KernelRegressor
from tabular.data import TABLES, Division, Table, divide, load

DESIGNING = (
    *("casp", "grid", "compactiv", "concrete", "mortgage", "skillcraft", "diamonds", "chicago", "letter", "spambase"),
    *("phoneme", "penbased"),
)
CONFIRMING = tuple(name for name in TABLES if name not in DESIGNING)
METHODS = ("boosting", "machine", "machine-fast", "lightgbm", "catboost", "xrfm")


class Xrfm(BaseEstimator):
    """xRFM with its defaults on standardized columns; one fifth of the rows are its validation rows."""

    def __init__(self, kind: str, seed: int) -> None:
        self.kind = kind
        self.seed = seed

    def fit(self, X: Any, y: Any) -> "Xrfm":
        """Fit the model."""
        import torch
        from xrfm import xRFM

        torch.set_num_threads(1)
        self.scaler_ = StandardScaler().fit(X)
        y = y.astype(np.int64) if self.kind == "classes" else y.astype(np.float32)[:, None]
        self.center_, self.scale_ = (0, 1) if self.kind == "classes" else (y.mean(), y.std())
        y = y if self.kind == "classes" else (y - self.center_) / self.scale_
        parts = train_test_split(self._rows(X), y, test_size=0.2, random_state=self.seed)
        X_train, X_val, y_train, y_val = (torch.as_tensor(part) for part in parts)
        self.model_ = xRFM(random_state=self.seed, verbose=False, device=torch.device("cpu"))
        self.model_.fit(X_train, y_train, X_val, y_val)
        return self

    def predict(self, X: Any) -> Any:
        """Predict targets or classes."""
        if self.kind == "classes":
            return self.predict_proba(X).argmax(axis=1)
        return np.asarray(self.model_.predict(self._rows(X)))[:, 0] * self.scale_ + self.center_

    def predict_proba(self, X: Any) -> Any:
        """Predict probabilities."""
        return np.asarray(self.model_.predict_proba(self._rows(X)))

    def _rows(self, X: Any) -> Any:
        return self.scaler_.transform(X).astype(np.float32)


def build(method: str, kind: str, seed: int) -> Any:
    """Return a method with its defaults; other libraries are imported only when they are measured."""
    is_regression = kind == "regression"
    if method == "boosting":
        return (HistGradientBoostingRegressor if is_regression else HistGradientBoostingClassifier)(random_state=seed)
    if method == "lightgbm":
        import lightgbm

        model = lightgbm.LGBMRegressor if is_regression else lightgbm.LGBMClassifier
        return model(random_state=seed, n_jobs=1, verbose=-1)
    if method == "catboost":
        import catboost

        model = catboost.CatBoostRegressor if is_regression else catboost.CatBoostClassifier
        return model(random_seed=seed, thread_count=1, verbose=0, allow_writing_files=False)
    if method == "xrfm":
        return Xrfm(kind, seed)
    effort = "fast" if method == "machine-fast" else "default"
    return (KernelRegressor if is_regression else KernelClassifier)(effort=effort, random_state=seed)


def measure(table: Table, method: str, seed: int) -> dict[str, Any]:
    """Fit a method to the training rows of a division and measure it on the test rows."""
    rows = divide(table, seed)
    model = build(method, table.kind, seed)
    with threadpool_limits(1):
        begin = process_time()
        model.fit(rows.X_train, rows.y_train)
        seconds = process_time() - begin
        begin = process_time()
        predictions = np.ravel(model.predict(rows.X_test))  # CatBoost returns a column of classes
        prediction = (process_time() - begin) / len(rows.X_test) * 10_000
        if table.kind == "classes":
            error = float(np.mean(predictions != rows.y_test))
        else:
            error = float(np.sqrt(np.mean(np.square(predictions - rows.y_test))) / np.std(rows.y_test))
        result = {"table": table.name, "method": method, "division": seed, "error": error}
        result |= {"seconds": seconds, "seconds_of_10000_predictions": prediction}
        return result | extra_figures(table, rows, model)


def extra_figures(table: Table, rows: Division, model: Any) -> dict[str, float]:
    """Return log loss and Brier score of a classifier, and the coverage of the machine's intervals."""
    if table.kind == "classes":
        probabilities = np.clip(model.predict_proba(rows.X_test), 1e-15, 1.0)
        indicators = np.eye(probabilities.shape[1])[rows.y_test]
        brier = float(np.square(probabilities - indicators).sum(axis=1).mean())
        loss = log_loss(rows.y_test, probabilities / probabilities.sum(axis=1, keepdims=True))
        return {"log_loss": float(loss), "brier": brier}
    if not isinstance(model, KernelRegressor):
        return {}
    figures = {}
    for coverage in (0.8, 0.9):
        lower, upper = model.predict_interval(rows.X_test, coverage).T
        figures[f"coverage_{coverage}"] = float(np.mean((lower <= rows.y_test) & (rows.y_test <= upper)))
    return figures


def summarize(results: list[dict[str, Any]]) -> str:
    """Return the median ratios of errors to those of each rival, on the divisions that both have, by half."""
    errors: dict[tuple[str, str], dict[int, float]] = {}
    for result in results:
        errors.setdefault((result["table"], result["method"]), {})[result["division"]] = max(result["error"], 1e-6)
    lines = []
    for ours, rival in product(("machine", "machine-fast"), METHODS):
        ratios = {}
        for name in TABLES:
            own, other = errors.get((name, ours), {}), errors.get((name, rival), {})
            common = own.keys() & other.keys()
            if common:
                ratios[name] = np.mean([own[d] for d in common]) / np.mean([other[d] for d in common])
        for half, names in (("designing half", DESIGNING), ("confirming half", CONFIRMING), ("all", tuple(TABLES))):
            found = np.array([ratios[name] for name in names if name in ratios])
            if len(found) and ours != rival:
                lines.append(
                    f"{ours} / {rival}, {half}: median {np.median(found):.3f}, geometric mean "
                    f"{np.exp(np.log(found).mean()):.3f}, {np.sum(found > 1.05)} of {len(found)} above 1.05"
                )
    return "\n".join(lines)


def main() -> None:
    """Fit what has no result yet and print the summary."""
    parser = ArgumentParser(description=__doc__)
    parser.add_argument("--tables", default=",".join(TABLES), help="names, separated by commas")
    parser.add_argument("--methods", default=",".join(METHODS), help="names, separated by commas")
    parser.add_argument("--divisions", type=int, default=3)
    parser.add_argument("--output", type=Path, default=Path("machine.jsonl"))
    options = parser.parse_args()
    lines = options.output.read_text().splitlines() if options.output.exists() else []
    results = [json.loads(line) for line in lines]
    done = {(result["table"], result["method"], result["division"]) for result in results}
    for division in range(options.divisions):
        for name in options.tables.split(","):
            missing = [m for m in options.methods.split(",") if (name, m, division) not in done]
            table = load(name) if missing else None
            for method in missing:
                results.append(measure(table, method, division))
                with options.output.open("a") as file:
                    file.write(json.dumps(results[-1]) + "\n")
                print(results[-1], flush=True)
    print(summarize(results))


if __name__ == "__main__":
    main()
