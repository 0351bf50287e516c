# SPDX-License-Identifier: BSD-3-Clause
"""A model that `bochner export` has written, for rows that arrive as JSON; it needs numpy and onnxruntime only."""

import json
from pathlib import Path
from types import NoneType
from typing import Any

import numpy as np
import onnxruntime

MOST_ROWS = 1000
NUMBER_TYPES = {"tensor(double)": np.float64, "tensor(float)": np.float32, "tensor(int64)": np.int64}


class RefusedRows(ValueError):
    """Rows that the model cannot predict; the message says what to change."""


class ServedModel:
    """Predict rows of JSON.

    Parameters
    ----------
    path : Path
        The ONNX file.
    """

    def __init__(self, path: Path) -> None:
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1  # one row needs no second thread, and requests are many
        self._session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
        self._types = {column.name: column.type for column in self._session.get_inputs()}
        self._outputs = [output.name for output in self._session.get_outputs()]

    @property
    def columns(self) -> list[str]:
        """The columns that a row must have."""
        return list(self._types)

    def predict(self, content: bytes) -> dict[str, list[Any]]:
        """Return the outputs of the model for a JSON list of rows, or for a single row.

        Parameters
        ----------
        content : bytes
            Objects with a value per column; null is a missing value. Other columns are ignored.
        """
        rows = _parse(content)
        columns = {name: self._column(name, rows) for name in self._types}
        results = self._session.run(None, columns)
        return {
            name: values.ravel().tolist() if values.ndim < 2 or values.shape[1] == 1 else values.tolist()
            for name, values in zip(self._outputs, results, strict=True)
        }

    def _column(self, name: str, rows: list[dict[str, Any]]) -> Any:
        """Return the values of a column of all rows, of the type that the model needs."""
        kind = NUMBER_TYPES.get(self._types[name])
        values = np.empty((len(rows), 1), dtype=object if kind is None else kind)
        for number, row in enumerate(rows, 1):
            if name not in row:
                raise RefusedRows(f"Row {number} has no column {name!r}; the columns are {', '.join(self._types)}.")
            value = row[name]
            try:
                values[number - 1, 0] = _text(value) if kind is None else _number(value, kind)
            except (TypeError, ValueError, OverflowError):
                expected = "text" if kind is None else "a number"
                raise RefusedRows(f"Row {number}, column {name!r}: {value!r:.50} is not {expected}.") from None
        return values


def _parse(content: bytes) -> list[dict[str, Any]]:
    """Return the rows of a request."""
    try:
        rows = json.loads(content)
    except (ValueError, RecursionError):
        raise RefusedRows("The request is not JSON; send a list of objects with one value per column.") from None
    rows = [rows] if isinstance(rows, dict) else rows
    if not isinstance(rows, list) or not rows or not all(isinstance(row, dict) for row in rows):
        raise RefusedRows("The request is not a list of rows; send a list of objects with one value per column.")
    if len(rows) > MOST_ROWS:
        raise RefusedRows(f"The request has {len(rows)} rows; send at most {MOST_ROWS} at a time.")
    return rows


def _number(value: Any, kind: Any) -> Any:
    """Return a number; a missing one is NaN."""
    if value is None:
        value = np.nan
    if not isinstance(value, int | float) or (isinstance(value, float) and np.isinf(value)):
        raise TypeError
    return kind(value)


def _text(value: Any) -> str:
    """Return a category; a missing one is empty."""
    if not isinstance(value, str | int | NoneType):
        raise TypeError
    return "" if value is None else str(value)
