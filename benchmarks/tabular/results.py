# SPDX-License-Identifier: BSD-3-Clause
"""Results: one line of JSON per fit, appended as fits finish, and the statistics of complete runs."""

import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator

from tabular.data import Division, Kind

__all__ = ["Ratios", "Result", "Store", "Summary", "measure_error"]

SMALLEST = 1e-6  # a table without a single error would otherwise have no ratio


@dataclass(frozen=True)
class Result:
    """The outcome of one fit.

    Attributes
    ----------
    table, method : str
        Names of the table and of the method.
    division : int
        Seed of the division into training and test rows, and of the method.
    kind : {"regression", "classes"}
        The kind of target.
    n_train, n_test, n_columns : int
        Numbers of training rows, of test rows and of columns.
    error : float
        Root mean squared error on the test rows in standard deviations of their targets, or the share of test rows
        that are misclassified.
    seconds : float
        Processor seconds of the fit.
    versions : str
        Versions of Python and of the packages.
    """

    table: str
    method: str
    division: int
    kind: Kind
    n_train: int
    n_test: int
    n_columns: int
    error: float
    seconds: float
    versions: str

    @property
    def fit(self) -> tuple[str, str, int]:
        """What was fitted: table, method and division."""
        return self.table, self.method, self.division


class Store:
    """Results by what was fitted, and the file that they are appended to.

    Parameters
    ----------
    path : Path
        A file with one line of JSON per result; it is created with the first one.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.results: dict[tuple[str, str, int], Result] = {}
        if path.exists():
            self._read()

    def append(self, result: Result) -> None:
        """Add a result; it is on the disk when this returns."""
        self.results[result.fit] = result
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(asdict(result)) + "\n")
            file.flush()
            os.fsync(file.fileno())

    def _read(self) -> None:
        content = self.path.read_bytes()
        complete = content[: content.rfind(b"\n") + 1]
        if len(complete) < len(content):  # a killed process may leave part of a line
            os.truncate(self.path, len(complete))
        for number, line in enumerate(complete.decode("utf-8", errors="replace").splitlines(), 1):
            try:
                result = Result(**json.loads(line))
            except (TypeError, ValueError):
                raise ValueError(
                    f"{self.path} is damaged in line {number}; delete that line to repeat its fit."
                ) from None
            self.results[result.fit] = result


def measure_error(kind: Kind, division: Division, model: BaseEstimator) -> float:
    """Return the error of a fitted model on the test rows."""
    predictions: NDArray[Any] = model.predict(division.X_test)
    if kind == "classes":
        return float(np.mean(predictions != division.y_test))
    return float(np.sqrt(np.mean(np.square(predictions - division.y_test))) / np.std(division.y_test))


@dataclass(frozen=True)
class Ratios:
    """Errors of one method over those of another one, on the tables that both have results for."""

    mean: float
    median: float
    best: float
    best_table: str
    worst: float
    worst_table: str
    n_tables: int


class Summary:
    """Means over the divisions, and statistics over the tables.

    The methods of a table are compared on the divisions that all of them have; a table without such a division is left
    out.

    Parameters
    ----------
    results : list of Result
        Results of any tables and methods.
    order : list of str
        Names of all methods, in the order to show them.

    Attributes
    ----------
    tables, methods : list of str
        Names with results.
    n_divisions : dict from str to int
        The number of divisions of each table.
    errors, seconds : ndarray of shape (n_tables, n_methods)
        Mean errors and mean seconds; NaN where a method was not run.
    """

    def __init__(self, results: list[Result], order: list[str]) -> None:
        divisions: dict[str, dict[str, set[int]]] = {}
        for result in results:
            divisions.setdefault(result.table, {}).setdefault(result.method, set()).add(result.division)
        common = {table: set.intersection(*methods.values()) for table, methods in divisions.items()}
        self.results = [result for result in results if result.division in common[result.table]]
        self.tables = [table for table in divisions if common[table]]
        self.n_divisions = {table: len(common[table]) for table in self.tables}
        self.methods = [method for method in order if method in {result.method for result in self.results}]
        self.errors = self._means("error")
        self.seconds = self._means("seconds")

    def _means(self, name: str) -> NDArray[np.float64]:
        """Return the means of an attribute over the divisions."""
        sums = np.full((len(self.tables), len(self.methods)), np.nan)
        for result in self.results:
            cell = self.tables.index(result.table), self.methods.index(result.method)
            sums[cell] = np.nansum([sums[cell], getattr(result, name) / self.n_divisions[result.table]])
        return sums

    def n_tables(self) -> list[int]:
        """Return the number of tables that each method has results for."""
        return [int(n) for n in (~np.isnan(self.errors)).sum(axis=0)]

    def error(self, method: str) -> NDArray[np.float64]:
        """Return the errors of a method by table."""
        return self.errors[:, self.methods.index(method)]

    def facts(self, table: str) -> Result:
        """Return any result of a table, for the numbers of its rows and columns."""
        return next(result for result in self.results if result.table == table)

    def mean_ranks(self) -> NDArray[np.float64]:
        """Return the mean rank of each method, 1 for the lowest error; equal errors share the mean of their ranks.

        Ranks count the methods with results for all tables. A method that lacks some tables is ranked against those
        on the tables that it has.
        """
        complete = ~np.isnan(self.errors).any(axis=0)
        ranks = np.full(self.errors.shape, np.nan)
        for column in range(len(self.methods)):
            rivals = self.errors[:, complete & (np.arange(len(self.methods)) != column)]
            own = self.errors[:, [column]]
            ranks[:, column] = 1.0 + (rivals < own).sum(axis=1) + 0.5 * (rivals == own).sum(axis=1)
        ranks[np.isnan(self.errors)] = np.nan
        return np.nanmean(ranks, axis=0)

    def typical_seconds(self) -> NDArray[np.float64]:
        """Return the geometric mean of the seconds of each method over its tables."""
        return np.exp(np.nanmean(np.log(self.seconds), axis=0))

    def ratios(self, method: str, other: str) -> Ratios | None:
        """Compare the errors of two methods; None if they have no table in common.

        The mean is the geometric one: a ratio of 2 and a ratio of 1/2 cancel.
        """
        if not {method, other} <= set(self.methods):
            return None
        ratios = np.maximum(self.error(method), SMALLEST) / np.maximum(self.error(other), SMALLEST)
        known = np.flatnonzero(~np.isnan(ratios))
        if not len(known):
            return None
        best, worst = known[np.argmin(ratios[known])], known[np.argmax(ratios[known])]
        return Ratios(
            float(np.exp(np.mean(np.log(ratios[known])))),
            float(np.median(ratios[known])),
            float(ratios[best]),
            self.tables[best],
            float(ratios[worst]),
            self.tables[worst],
            len(known),
        )
