# SPDX-License-Identifier: BSD-3-Clause
"""`TableModel`: a fitted linear model with the columns of the table that it was fitted on."""

from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path

from bochner.linear_models import FourierLogisticRegression, FourierRidge, FourierRidgeClassifier, FourierSVC
from bochner.tables.encoding import EncodedTable, Encoding

__all__ = ["Estimator", "TableModel"]

Estimator = FourierRidge | FourierRidgeClassifier | FourierSVC | FourierLogisticRegression


@dataclass(frozen=True)
class TableModel:
    """A model that was fitted on a table.

    Attributes
    ----------
    estimator : FourierRidge, FourierRidgeClassifier, FourierSVC or FourierLogisticRegression
        The fitted linear model.
    task : {"regression", "classification"}
        What it predicts.
    target : str
        The column that it predicts.
    n_rows : int
        Number of rows that it was fitted on.
    version : str
        The version of bochner that fitted it.
    """

    estimator: Estimator
    task: str
    target: str
    n_rows: int
    version: str = field(default_factory=lambda: version("bochner"))

    @property
    def encoding(self) -> Encoding:
        """How the columns of the table become numbers."""
        return self.estimator.encoding_

    def open(self, path: Path, *, with_target: bool) -> EncodedTable:
        """Open another table with the same columns and, if requested, a target of the same kind."""
        source = self.encoding.open(path, self.target if with_target else None)
        is_text = self.task == "classification" and self.estimator.classes_.dtype.kind == "U"
        if with_target and source.table.target_is_text != is_text:
            found, expected = ("numbers", "text") if is_text else ("text", "numbers")
            raise ValueError(
                f"{path}: column {self.target!r} contains {found}, but the model was fitted on {expected}; convert it."
            )
        return source
