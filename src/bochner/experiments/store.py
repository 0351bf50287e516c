# SPDX-License-Identifier: BSD-3-Clause
"""The store: tidy rows, one a fit, appended to a CSV file as they finish; a run that was stopped goes on with it."""

import csv
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, fields
from io import StringIO
from pathlib import Path
from typing import Self

__all__ = ["Row", "Store", "Trial"]


@dataclass(frozen=True)
class Trial:
    """One fit: everything that decides its outcome.

    Attributes
    ----------
    study, dataset, method : str
        What is measured, on what, with what.
    n_frequencies : int
        M.
    n_pairs : int
        Sampled pairs (or points) of the weighting; 0 for its own number.
    bandwidth : str
        How the length scale was found.
    length_scale : float
        The length scale.
    seed : int
        Seed of frequencies and weights.
    protocol : str
        Stands for the study's other settings and for the data.
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
    """A trial and its outcome: errors as fractions; weights for the study of weights alone, as text."""

    error: float
    cv_error: float
    penalty: float
    fit_seconds: float
    transform_seconds: float
    weights: str
    versions: str

    @property
    def trial(self) -> Trial:
        """What the row is the outcome of."""
        return Trial(**{field.name: getattr(self, field.name) for field in fields(Trial)})


NAMES = [field.name for field in fields(Row)]


class Store:
    """Rows in a CSV file; opening it drops the half line that a killed process may have left."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.rows: dict[Trial, Row] = {}

    @classmethod
    @contextmanager
    def open(cls, path: Path) -> Iterator[Self]:
        """The store at a path, for one process at a time."""
        store = cls(path)
        with path.open("a+b") as file:
            _lock(file.fileno(), path)
            store._read()
            yield store

    def append(self, rows: Iterable[Row]) -> None:
        """Add rows; they are on the disk when this returns."""
        text = StringIO()
        writer = csv.DictWriter(text, NAMES, lineterminator="\n")
        for row in rows:
            writer.writerow(asdict(row))
            self.rows[row.trial] = row
        self._write(text.getvalue())

    def _write(self, text: str) -> None:
        with self.path.open("a", encoding="utf-8", newline="") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())

    def _read(self) -> None:
        content = self.path.read_bytes()
        whole = content[: content.rfind(b"\n") + 1]
        if len(whole) < len(content):
            os.truncate(self.path, len(whole))
        if not whole:
            self._write(",".join(NAMES) + "\n")
            return
        reader = csv.reader(StringIO(whole.decode("utf-8", errors="replace"), newline=""))
        if next(reader) != NAMES:
            raise ValueError(f"{self.path} has other columns than this version writes; give another --output folder.")
        for cells in reader:
            try:
                row = _row(cells)
            except ValueError:
                raise ValueError(
                    f"{self.path}, line {reader.line_num}, is damaged; delete the line, and its fit will be made again."
                ) from None
            self.rows[row.trial] = row


def _row(cells: list[str]) -> Row:
    """A row from the cells of a line."""
    return Row(*(field.type(cell) for field, cell in zip(fields(Row), cells, strict=True)))  # type: ignore[operator]


def _lock(handle: int, path: Path) -> None:
    """Keep other processes out until this one ends, however it ends; where the system has no such locks, do nothing."""
    with suppress(ImportError):
        import fcntl

        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise ValueError(f"{path} is being written by another run; wait for it or give another --output.") from None
