# SPDX-License-Identifier: BSD-3-Clause
"""`FittedModel`: a fitted linear model with the columns of the table that it was fitted on, as in model files."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

import numpy as np

from bochner.feature_models.classifier import FeatureClassifier
from bochner.feature_models.regressor import FeatureRegressor
from bochner.rows import Floats
from bochner.tables.columns import import_pyarrow, parse_numbers
from bochner.tables.encoding import EncodedTable, Encoding
from bochner.tables.reader import Table

if TYPE_CHECKING:
    from bochner.table_models.trials import Trial

__all__ = ["Estimator", "FittedModel"]

Estimator = FeatureRegressor | FeatureClassifier


@dataclass(frozen=True)
class FittedModel:
    """A model that was fitted on a table.

    Attributes
    ----------
    estimator : FeatureRegressor or FeatureClassifier
        The fitted linear model.
    task : {"regression", "classification"}
        What it predicts.
    target : str
        The column that it predicts.
    n_rows : int
        Number of rows that it was fitted on.
    residuals : ndarray of shape (n_residuals,) or None
        Studentized residuals of training rows for the prediction intervals of a regression.
    version : str
        The version of bochner that fitted it.
    center : ndarray of shape (n_encoded_columns,) or None
        The mean of the encoded training rows in the sample; None in older model files.
    trials : tuple of Trial
        The settings that were compared by cross-validation, in the order of their trials; empty for a single pass.
    """

    estimator: Estimator
    task: str
    target: str
    n_rows: int
    residuals: Floats | None = field(default=None, compare=False)
    version: str = field(default_factory=lambda: version("bochner"))
    center: Floats | None = field(default=None, compare=False)
    trials: "tuple[Trial, ...]" = ()

    @property
    def encoding(self) -> Encoding:
        """How the columns of the table become numbers."""
        return self.estimator.encoding_

    @property
    def baseline(self) -> Floats:
        """The encoded row that contributions start from: the mean training row, or medians in older model files."""
        return np.zeros(len(self.encoding.names)) if self.center is None else np.asarray(self.center)

    def open(self, data: Any, *, with_target: bool, label: str | None = None, keep: Sequence[str] = ()) -> EncodedTable:
        """Open another table with the same columns, others to keep and, if requested, a target of the same kind."""
        source = self.encoding.open(data, with_target=with_target, label=label, keep=keep)
        if with_target:
            self._check_target(source.table)
        return source

    def _check_target(self, table: Table) -> None:
        """Refuse text instead of numbers, and numbers instead of text unless the classes are numbers too."""
        target = self.encoding.target
        assert target is not None
        fitted_on_text, is_text = target.kind == "category", table.is_text(target.name)
        if fitted_on_text and not is_text:
            classes = import_pyarrow().array(self.estimator.classes_.tolist())
            is_text = parse_numbers(classes, self.encoding.style) is not None
        if fitted_on_text != is_text and table.storages[target.name] != "null":
            found, expected = ("numbers", "text") if fitted_on_text else ("text", "numbers")
            raise ValueError(
                f"{table.path}: column {self.target!r} contains {found}, but the model was fitted on {expected}; "
                f"convert it."
            )
