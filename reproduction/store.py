# SPDX-License-Identifier: BSD-3-Clause
"""The store: one row per fit, appended to a CSV file as fits finish, so that a stopped run can be resumed."""

import csv
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, fields
from io import StringIO
from math import nan
from pathlib import Path
from typing import Self

__all__ = ["Row", "Store", "Trial"]


@dataclass(frozen=True)
class Trial:
    """One fit: everything that determines its outcome.

    Attributes
    ----------
    study, dataset, method : str
        The study, the data set and the method.
    n_frequencies : int
        M; the method maps rows to 2 M columns.
    n_pairs : int
        Sampled pairs (or points) of the weighting; 0 for its default.
    bandwidth : str
        How the length scale was found.
    length_scale : float
        The length scale.
    seed : int
        Seed of the frequencies and weights.
    protocol : str
        A hash of the other settings of the study and of the data.
    """

    study: str
    dataset: str
    method: str
    n_frequencies: int
    n_pairs: int
    bandwidth: str
    length_scale: float
    seed: int
    protocol: str


@dataclass(frozen=True)
class Row(Trial):
    """A trial and its outcome; what the study does not measure is NaN, or empty.

    Attributes
    ----------
    kernel_error, test_error, cv_error : float
        Relative kernel error on the test rows, and the test and cross-validated errors of a linear model, as fractions.
    penalty : float
        The penalty of the linear model with the lowest cross-validated error.
    fit_seconds, row_seconds : float
        Seconds of the fit, and seconds of the transform per row.
    weights : str
        The weights of the frequencies, separated by spaces.
    versions : str
        Versions of Python and of the packages.
    """

    kernel_error: float = nan
    test_error: float = nan
    cv_error: float = nan
    penalty: float = nan
    fit_seconds: float = nan
    row_seconds: float = nan
    weights: str = ""
    versions: str = ""

    @property
    def trial(self) -> Trial:
        """The trial without its outcome."""
        return Trial(**{field.name: getattr(self, field.name) for field in fields(Trial)})


NAMES = [field.name for field in fields(Row)]


class Store:
    """Rows by their trials, in memory or also in a CSV file.

    Parameters
    ----------
    path : Path, default=None
        The file that rows are appended to; None keeps them in memory only.
    """

    def __init__(self, path: Path | None = None) -> None:
        self.path = path
        self.rows: dict[Trial, Row] = {}

    @classmethod
    @contextmanager
    def open(cls, path: Path) -> Iterator[Self]:
        """Open a file for one process at a time and read its rows."""
        store = cls(path)
        with path.open("a+b") as file:
            _lock(file.fileno(), path)
            store._read(path)
            yield store

    def append(self, rows: Iterable[Row]) -> None:
        """Add rows; they are on the disk when this returns."""
        text = StringIO()
        writer = csv.DictWriter(text, NAMES, lineterminator="\n")
        for row in rows:
            writer.writerow(asdict(row))
            self.rows[row.trial] = row
        if self.path is not None:
            _append(self.path, text.getvalue())

    def _read(self, path: Path) -> None:
        content = path.read_bytes()
        complete = content[: content.rfind(b"\n") + 1]
        if len(complete) < len(content):  # a killed process may leave part of a line
            os.truncate(path, len(complete))
        if not complete:
            _append(path, ",".join(NAMES) + "\n")
            return
        reader = csv.reader(StringIO(complete.decode("utf-8", errors="replace"), newline=""))
        if next(reader) != NAMES:
            raise ValueError(f"{path} does not have the columns of this version; move it away.")
        try:
            for cells in reader:
                row = _parse(cells)
                self.rows[row.trial] = row
        except (ValueError, csv.Error):
            raise ValueError(
                f"{path} is damaged in line {reader.line_num}; delete that line to repeat its fit."
            ) from None


def _parse(cells: list[str]) -> Row:
    """Return the row in the cells of a line."""
    return Row(*(field.type(cell) for field, cell in zip(fields(Row), cells, strict=True)))  # type: ignore[operator]


def _append(path: Path, text: str) -> None:
    with path.open("a", encoding="utf-8", newline="") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())


def _lock(handle: int, path: Path) -> None:
    """Keep other processes out until this one ends; do nothing on systems without such locks."""
    with suppress(ImportError):
        import fcntl

        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise ValueError(f"Another run is writing {path}; wait until it ends.") from None
