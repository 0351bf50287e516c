# SPDX-License-Identifier: BSD-3-Clause
"""The page of a fitted model: errors on held-out rows, importance and effects of columns, what was done with them."""

import warnings
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from sklearn.base import is_classifier
from sklearn.calibration import CalibrationDisplay
from sklearn.inspection import PartialDependenceDisplay, permutation_importance
from sklearn.metrics import ConfusionMatrixDisplay, PredictionErrorDisplay

from bochner.pages import Table, fill_template, picture_grid, subplots, svg, write_atomically
from bochner.rows import Array
from bochner.tables.columns import Column, cell_numbers, cell_text, moments_in_time
from bochner.tables.description import treatment_words
from bochner.tables.evaluation import Evaluation
from bochner.tables.table_models import TableModel

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["write_model_page"]

MOST_COLUMNS = 20  # columns whose importance is shown
STRONGEST = 6  # columns whose partial dependence is shown
MOST_ROWS, DEPENDENCE_ROWS, GRID = 1000, 200, 30
MOST_CATEGORIES, MOST_CLASSES = 12, 20  # that fit into a plot


def write_model_page(
    model: Any, evaluation: Evaluation, path: Path, origin: str, numbers: Mapping[str, str], model_file: Path
) -> None:
    """Write one self-contained HTML file about a fitted model.

    Parameters
    ----------
    model : TableRegressor or TableClassifier
        The model that has predicted the rows.
    evaluation : Evaluation
        Its predictions for rows that it was not fitted on.
    path : path
        The file.
    origin : str
        Which rows these are, in words.
    numbers : mapping from str to str
        Numbers for a table.
    model_file : path
        The model file, for the lines that load it.
    """
    import matplotlib as mpl

    columns = model.encoder_.encoding_.columns
    names = [column.name for column in columns]
    treatments = [(column.name, column.kind, treatment_words(column)) for column in columns]
    treatments += [(name, "", "left out") for name in model.encoder_.feature_names_in_ if name not in names]
    frame = inspection_frame(model, evaluation.cells[:MOST_ROWS])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # empty text where training rows had missing cells
        found = permutation_importance(model, frame, evaluation.observed[:MOST_ROWS], n_repeats=5, random_state=0)
    falls = found.importances[[list(frame.columns).index(name) for name in names]]
    order = np.argsort(-falls.mean(axis=1), kind="stable")[:MOST_COLUMNS]
    with mpl.rc_context({"text.parse_math": False}):  # names of columns may have dollar signs
        pictures = {
            "errors": _class_pictures(evaluation, model) if is_classifier(model) else _error_pictures(evaluation),
            "importance": _importance_picture([names[i] for i in order], falls[order]),
            "dependence": _dependence_pictures(model, frame[:DEPENDENCE_ROWS], [columns[i] for i in order]),
        }
    page = fill_template(
        "model.html",
        model=model,
        evaluation=evaluation,
        origin=origin,
        columns=columns,
        n_shown=MOST_COLUMNS,
        model_file=model_file.name,
        treatments=Table(["column", "taken for", "what was done"], treatments).html("words"),
        numbers=Table(["quantity", "value"], list(numbers.items())).html("words"),
        **{name: picture_grid(drawn) for name, drawn in pictures.items() if drawn},
    )
    write_atomically(path, page)


def inspection_frame(model: TableModel, cells: pa.RecordBatch) -> "pd.DataFrame":
    """Return cells as a data frame for scikit-learn's inspection: numbers, text and dates; others are empty."""
    import pandas as pd

    columns: dict[str, Any] = dict.fromkeys(model.encoder_.feature_names_in_)
    for column in model.encoder_.encoding_.columns:
        values = cells.column(column.name)
        if column.kind in ("date", "time"):
            columns[column.name] = moments_in_time(values, column)
        elif column.kind in ("category", "text"):
            columns[column.name] = np.array(cell_text(values).fill_null("").to_pylist(), dtype=object)
        else:
            columns[column.name] = cell_numbers(values, column)
    return pd.DataFrame(columns, index=range(cells.num_rows))


def _picture(
    title: str, draw: Callable[..., Any], size: tuple[float, float] = (4.8, 3.6), **options: Any
) -> dict[str, str]:
    """Return a picture by its title; `draw` draws it on the axes `ax`."""
    figure, axes = subplots(1, 1, size)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        draw(ax=axes[0, 0], **options)
    return {title: svg(figure, title)}


def _error_pictures(evaluation: Evaluation) -> dict[str, str]:
    """Draw observed against predicted numbers, and residuals."""
    options = {"random_state": 0, "scatter_kwargs": {"s": 8, "alpha": 0.5}}
    draw = partial(PredictionErrorDisplay.from_predictions, evaluation.observed, evaluation.predicted, **options)
    observed = _picture("Observed and predicted", draw, kind="actual_vs_predicted")
    return observed | _picture("Residuals and predicted", draw, kind="residual_vs_predicted")


def _class_pictures(evaluation: Evaluation, model: Any) -> dict[str, str]:
    """Draw confused classes, and the calibration of the second of two classes or of the predicted class."""
    observed, predicted, classes = evaluation.observed, evaluation.predicted, list(model.classes_)
    names = [_short(str(label)) for label in classes]
    pictures: dict[str, str] = {}
    if len(classes) <= MOST_CLASSES:
        draw = partial(ConfusionMatrixDisplay.from_predictions, observed, predicted, labels=classes)
        style = {"xticks_rotation": 45, "include_values": len(classes) <= 8, "colorbar": False, "cmap": "Blues"}
        pictures |= _picture("Confusion of classes", draw, (4.8, 4.2), display_labels=names, **style)
    if evaluation.proba is not None:
        right, probability, name = observed == predicted, evaluation.proba.max(axis=1), "predicted class"
        if len(classes) == 2:
            right, probability, name = observed == classes[1], evaluation.proba[:, 1], f"class {names[1]}"
        if len(np.unique(right)) == 2:
            draw = partial(CalibrationDisplay.from_predictions, right, probability, n_bins=10, strategy="quantile")
            pictures |= _picture("Calibration", draw, name=name)
    return pictures


def _importance_picture(names: list[str], scores: Array) -> dict[str, str]:
    """Draw how much the score falls if the cells of a column are shuffled."""

    def draw(ax: Any) -> None:
        positions = np.arange(len(names))[::-1]
        ax.barh(positions, scores.mean(axis=1), xerr=scores.std(axis=1), color="#4477aa", ecolor="#888888")
        ax.set_yticks(positions, [_short(name) for name in names])
        ax.set_xlabel("fall of the score")

    return _picture("Importance", draw, (5.2, 1.4 + 0.26 * len(names)))


def _dependence_pictures(model: Any, frame: "pd.DataFrame", columns: Sequence[Column]) -> dict[str, str]:
    """Draw the partial dependence on the first columns that have numbers or few categories."""
    pictures: dict[str, str] = {}
    target = None
    if is_classifier(model) and len(model.classes_) > 2:
        target = model.classes_[int(np.argmax(model.predict_proba(frame).mean(axis=0)))]
    for column in columns:
        values = frame[column.name]
        if column.kind == "category" and 1 < values.nunique() <= MOST_CATEGORIES:
            options: dict[str, Any] = {"categorical_features": [column.name]}
        elif column.kind in ("number", "boolean", "duration") and values.nunique() > 1:
            levels = np.unique(np.nanquantile(values, np.linspace(0.05, 0.95, GRID)))
            options = {"custom_values": {column.name: levels}}
            frame = frame.fillna({column.name: values.median()})  # scikit-learn draws no deciles of missing cells
        else:
            continue
        draw = partial(PartialDependenceDisplay.from_estimator, model, frame, [column.name], target=target)
        pictures |= _picture(column.name, draw, (4.0, 3.0), **options)
        if len(pictures) == STRONGEST:
            break
    return pictures


def _short(text: str) -> str:
    return text if len(text) <= 24 else f"{text[:23]}…"
