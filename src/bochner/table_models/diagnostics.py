# SPDX-License-Identifier: BSD-3-Clause
"""What the page of a model shows: its errors on held-out rows, the importance of columns and their effects."""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from bochner.inspection.importance import ColumnImportance, column_importance
from bochner.table_models.fitted_model import FittedModel
from bochner.table_models.held_out import HeldOut, hold_out, observed_targets
from bochner.table_models.learning_curves import LearningCurve, learning_curves
from bochner.table_models.partial_dependence import PartialDependence, partial_dependence
from bochner.table_models.permutation import PermutationImportance, permutation_importance
from bochner.table_models.predictions import Evaluation
from bochner.tables.columns import import_pyarrow
from bochner.tables.survey import Survey

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["Diagnostics", "diagnose_table", "diagnose_training"]

IMPORTANCE_ROWS = 2_000
MOST_COLUMNS = 25  # columns whose importance is shown
STRONGEST = 6  # columns whose partial dependence is shown


@dataclass(frozen=True)
class Diagnostics:
    """What is known about a fitted model beyond its numbers.

    Attributes
    ----------
    model : FittedModel
        The model.
    origin : str
        Which rows these are, in words.
    measures : dict of str to float
        Measures of the errors on held-out rows; empty if there are none.
    held_out : HeldOut or None
        Held-out rows with predictions; None if there are none with a target.
    importance : ColumnImportance
        Importance of the columns, from gradients.
    permutation : PermutationImportance or None
        Importance of the most important columns, from shuffled cells.
    dependence : list of PartialDependence
        Effects of the strongest columns.
    curves : list of LearningCurve
        Errors against the numbers of rows and features; empty without training rows.
    """

    model: FittedModel
    origin: str
    measures: dict[str, float]
    held_out: HeldOut | None
    importance: ColumnImportance
    permutation: PermutationImportance | None
    dependence: list[PartialDependence]
    curves: list[LearningCurve] = field(default_factory=list)

    @property
    def has_learned(self) -> bool | None:
        """Whether predictions are better than chance on held-out rows; None if there are none."""
        return None if self.held_out is None else self.held_out.has_learned


def diagnose_training(model: FittedModel, survey: Survey, seed: int = 0) -> Diagnostics:
    """Describe a model by the rows of its training table, a fifth of which are held out from a second fit.

    Parameters
    ----------
    model : FittedModel
        The model, which was fitted on all rows.
    survey : Survey
        The survey of the table.
    seed : int, default=0
        Seed of the division of the rows.
    """
    split = hold_out(model, survey, seed)
    curves = [] if split is None else learning_curves(split)
    held_out = None if split is None else split.held_out
    origin = "a sample of the training rows"
    if held_out is not None:
        n_all = len(held_out.targets) + len(split.targets if split is not None else [])
        kind = "the rows" if n_all == model.n_rows else f"a sample of {n_all:,} rows"
        origin = f"a held-out fifth of {kind} ({len(held_out.targets):,} rows)"
    cells = _shuffled(survey.sample.cells, seed)
    return _diagnose(model, cells, held_out, origin, {} if held_out is None else held_out.measures, curves)


def diagnose_table(model: FittedModel, evaluation: Evaluation, name: str) -> Diagnostics:
    """Describe a model by the rows of another table.

    Parameters
    ----------
    model : FittedModel
        The model.
    evaluation : Evaluation
        Its errors on that table, and a sample of the rows.
    name : str
        The name of the table.
    """
    cells = _shuffled(evaluation.sample, 0)
    held_out = None
    if evaluation.measures:
        held_out = HeldOut(model, model.estimator, cells, observed_targets(model, cells))
    origin = f"the {evaluation.n_rows:,} rows of {name}"
    if evaluation.n_rows > cells.num_rows:
        origin += f", plots on a sample of {cells.num_rows:,}"
    return _diagnose(model, cells, held_out, origin, evaluation.measures, [])


def _diagnose(
    model: FittedModel,
    cells: "pa.RecordBatch",
    held_out: HeldOut | None,
    origin: str,
    measures: dict[str, float],
    curves: list[LearningCurve],
) -> Diagnostics:
    importance = column_importance(
        model.estimator.without_encoding(),
        model.encoding.encode(cells[:IMPORTANCE_ROWS]),
        groups=model.encoding.origins,
    )
    shown = importance.ranking[:MOST_COLUMNS]
    has_learned = held_out is None or held_out.has_learned
    permutation = permutation_importance(held_out, shown) if held_out is not None and has_learned else None
    found = [partial_dependence(model, cells, name) for name in (shown[:STRONGEST] if has_learned else [])]
    dependence = [part for part in found if part is not None]
    return Diagnostics(model, origin, measures, held_out, importance, permutation, dependence, curves)


def _shuffled(cells: Any, seed: int) -> "pa.RecordBatch":
    return cells.take(import_pyarrow().array(np.random.default_rng(seed).permutation(cells.num_rows)))
