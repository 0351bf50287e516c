# SPDX-License-Identifier: BSD-3-Clause
"""Statistics of the results: Elo ratings and ranks with bootstrap intervals, ratios of errors, seconds.

A fit that failed or took too long counts as one of the random forest, as in TabArena.
"""

from itertools import product
from typing import Any

import numpy as np
import pandas as pd

from tabular.data import GROUPS, TABLES
from tabular.methods import METHODS

__all__ = ["REFERENCE", "summarize"]

REFERENCE = "forest"  # its Elo rating is 1,000
RIVALS = ("hgb", "catboost")
ROUNDS = 200
MEASURES = {
    "error": "TabArena's measure",
    "rate": "RMSE or error rate",
    "log_loss": "log loss",
    "brier": "Brier score",
}
SMALLEST = 1e-6  # a table without a single error would otherwise have no ratio

Row = dict[str, Any]


def summarize(results: list[Row]) -> dict[str, Any]:
    """Return what the page and the documentation show, as JSON."""
    frame = pd.DataFrame(results)
    frame["failure"] = frame.get("failure", pd.Series(dtype=object))
    frame["rate"] = frame["error_rate"].fillna(frame["error"]) if "error_rate" in frame else frame["error"]
    failures = frame[frame["failure"].notna()]
    methods = [method for method in METHODS if method in set(frame["method"])]
    errors = _filled(frame, "error", methods)
    measures = {column: label for column, label in MEASURES.items() if column in frame}
    return {
        "rows": _leaderboard(frame, errors, methods),
        "ratios": [r for column, label in measures.items() for r in _ratios(_filled(frame, column, methods), label)],
        "coverage": _coverage(frame),
        "tables": _tables(frame, errors),
        "failures": failures[["method", "table", "fold", "failure"]].to_dict("records"),
        "limit_of_rows": int(frame["limit_of_rows"].max()),
        "versions": sorted(frame["versions"].unique()),
    }


def _filled(frame: pd.DataFrame, column: str, methods: list[str]) -> pd.DataFrame:
    """Return errors by table and fold, and by method; those of the reference stand in for failed fits."""
    errors = frame.pivot(index=["table", "fold"], columns="method", values=column)[methods]
    if REFERENCE not in methods:
        return errors.clip(lower=SMALLEST)
    failed = frame.assign(failed=frame["failure"].notna()).pivot(
        index=["table", "fold"], columns="method", values="failed"
    )[methods]
    return errors.where(~failed.fillna(False).astype(bool), errors[REFERENCE], axis=0).clip(lower=SMALLEST)


def _leaderboard(frame: pd.DataFrame, errors: pd.DataFrame, methods: list[str]) -> list[Row]:
    """Return one row per method, the best one first; only methods with all fits have ratings and ranks.

    Ratings are relative to the reference; without it there are none.
    """
    complete = errors.loc[:, errors.notna().all()]
    elo = _elo(complete) if REFERENCE in complete else pd.DataFrame(columns=["elo", "elo+", "elo-"], index=methods)
    ratings = elo.join(_ranks(complete)).reindex(methods).astype(object)
    ratings = ratings.where(ratings.notna(), None)
    means = frame[frame["failure"].isna()].groupby(["method", "table"])[["fit_seconds", "seconds_of_10000_predictions"]]
    seconds = means.mean().groupby("method").median()
    n_tables = errors.groupby("table").mean().notna().sum()
    rows = [
        {
            "method": method,
            "label": METHODS[method].label,
            **ratings.loc[method].to_dict(),
            **{name: float(seconds.loc[method, name]) for name in seconds},
            "n_tables": int(n_tables[method]),
            "n_fits": int(errors[method].notna().sum()),
            "n_failures": int((frame["failure"].notna() & (frame["method"] == method)).sum()),
        }
        for method in methods
    ]
    return sorted(rows, key=lambda row: (-(row["elo"] or 0.0), row["rank"] or np.inf))


def _elo(errors: pd.DataFrame) -> pd.DataFrame:
    """Return Elo ratings of TabArena's package, from wins on single folds; the bootstrap resamples tables."""
    from bencheval.evaluator import BenchmarkEvaluator

    long = errors.stack().rename("metric_error").reset_index().rename(columns={"table": "task"})
    evaluator = BenchmarkEvaluator(seed_column="fold", columns_to_agg_extra=[])
    return evaluator.compute_elo(long, calibration_framework=REFERENCE, calibration_elo=1000, BOOTSTRAP_ROUNDS=ROUNDS)


def _ranks(errors: pd.DataFrame) -> pd.DataFrame:
    """Return mean ranks (1 is best) over tables and their 95 % bootstrap intervals."""
    ranks = errors.groupby("table").mean().rank(axis=1)
    rng = np.random.default_rng(0)
    draws = pd.DataFrame([ranks.iloc[rng.integers(len(ranks), size=len(ranks))].mean() for _ in range(ROUNDS)])
    return pd.DataFrame({"rank": ranks.mean(), "rank_low": draws.quantile(0.025), "rank_high": draws.quantile(0.975)})


def _ratios(errors: pd.DataFrame, measure: str) -> list[Row]:
    """Return medians over tables of our errors over those of a rival, on the folds that both have."""
    rows = []
    groups = {"all": TABLES, **GROUPS}
    for method, rival, group in product([m for m in METHODS if m in errors], RIVALS, groups):
        if method == rival or rival not in errors:
            continue
        both = errors[[method, rival]].dropna().groupby("table").mean()
        both = both[both.index.isin(groups[group])]
        ratios = both[method] / both[rival]
        if len(ratios):
            row = {"method": method, "rival": rival, "tables": group, "measure": measure, "n_tables": len(ratios)}
            row |= {"median": float(ratios.median()), "mean": float(np.exp(np.log(ratios).mean()))}
            rows.append(row | {"above": int((ratios > 1.05).sum()), "lower": int((ratios < 1).sum())})
    return rows


def _coverage(frame: pd.DataFrame) -> list[Row]:
    """Return the shares of targets in prediction intervals of methods that have them: means over folds, by table."""
    rows = []
    for column in frame.filter(like="coverage_"):
        means = frame.dropna(subset=column).groupby(["method", "table"])[column].mean()
        for method, shares in means.groupby("method"):
            row = {"method": method, "percent": int(column.removeprefix("coverage_")), "n_tables": len(shares)}
            rows.append(row | {"low": shares.min(), "median": shares.median(), "high": shares.max()})
    return rows


def _tables(frame: pd.DataFrame, errors: pd.DataFrame) -> list[Row]:
    """Return the sizes of the tables and the mean errors of all methods."""
    means = errors.groupby("table").mean()
    rows = []
    for group, names in GROUPS.items():
        for name in [name for name in names if name in means.index]:
            first = frame[frame["table"] == name].iloc[0]
            row = {"table": name, "group": group, "kind": first["kind"]}
            row |= {"n_train": int(first["n_train"]), "n_columns": int(first["n_columns"])}
            rows.append(row | {m: None if np.isnan(value) else float(value) for m, value in means.loc[name].items()})
    return rows
