# SPDX-License-Identifier: BSD-3-Clause
"""The page of a fitted model: errors on held-out rows, importance and effects of columns, what was done with them."""

import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from markupsafe import Markup
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

    used = {column.name: column for column in model.encoder_.encoding_.columns}
    left_out = [(name, "", "left out") for name in model.encoder_.feature_names_in_ if name not in used]
    treatments = [(column.name, column.kind, treatment_words(column)) for column in used.values()]
    with mpl.rc_context({"text.parse_math": False}):  # names of columns may have dollar signs
        pictures = _pictures(model, evaluation, list(used.values()))
    page = fill_template(
        "model.html",
        model=model,
        evaluation=evaluation,
        origin=origin,
        columns=used,
        n_shown=MOST_COLUMNS,
        model_file=model_file.name,
        treatments=Table(["column", "taken for", "what was done"], treatments + left_out).html("words"),
        numbers=Table(["quantity", "value"], list(numbers.items())).html("words"),
        **pictures,
    )
    write_atomically(path, page)


def _pictures(model: Any, evaluation: Evaluation, columns: Sequence[Column]) -> dict[str, Markup]:
    """Draw errors, the importance of columns, and the effects of the most important ones."""
    frame = inspection_frame(model, evaluation.cells[:MOST_ROWS])
    scores = _importance(model, frame, evaluation.observed[:MOST_ROWS], [column.name for column in columns])
    order = np.argsort(-scores.mean(axis=1), kind="stable")[:MOST_COLUMNS]
    columns = [columns[i] for i in order]
    pictures = {
        "errors": _error_pictures(model, evaluation),
        "importance": _importance_picture([column.name for column in columns], scores[order]),
        "dependence": _dependence_pictures(model, frame[:DEPENDENCE_ROWS], columns),
    }
    return {name: picture_grid(drawn) for name, drawn in pictures.items() if drawn}


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


def _importance(model: Any, frame: "pd.DataFrame", observed: Array, names: list[str]) -> Array:
    """Return the loss of score by shuffling each of the used columns, one column of the array per repetition."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # empty text where training rows had missing cells
        found = permutation_importance(model, frame, observed, n_repeats=5, random_state=0)
    return np.asarray(found.importances[[list(frame.columns).index(name) for name in names]])


@contextmanager
def _picture(pictures: dict[str, str], title: str, size: tuple[float, float] = (4.8, 3.6)) -> Iterator[Any]:
    """Give axes that become a picture."""
    figure, axes = subplots(1, 1, size)
    yield axes[0, 0]
    pictures[title] = svg(figure, title)


def _error_pictures(model: Any, evaluation: Evaluation) -> dict[str, str]:
    """Draw observed against predicted numbers and residuals, or confused classes and calibration."""
    observed, predicted = evaluation.observed, evaluation.predicted
    pictures: dict[str, str] = {}
    if not is_classifier(model):
        options = {"random_state": 0, "scatter_kwargs": {"s": 8, "alpha": 0.5}}
        kinds = {"Observed and predicted": "actual_vs_predicted", "Residuals and predicted": "residual_vs_predicted"}
        for title, kind in kinds.items():
            with _picture(pictures, title) as ax:
                PredictionErrorDisplay.from_predictions(observed, predicted, kind=kind, ax=ax, **options)
        return pictures
    classes = list(model.classes_)
    if len(classes) <= MOST_CLASSES:
        with _picture(pictures, "Confusion of classes", (4.8, 4.2)) as ax:
            names = [_short(str(label)) for label in classes]
            show = {"display_labels": names, "xticks_rotation": 45, "include_values": len(classes) <= 8}
            ConfusionMatrixDisplay.from_predictions(
                observed, predicted, labels=classes, ax=ax, colorbar=False, cmap="Blues", **show
            )
    if evaluation.proba is not None:
        is_binary = len(classes) == 2
        right = observed == classes[1] if is_binary else observed == predicted
        probability = evaluation.proba[:, 1] if is_binary else evaluation.proba.max(axis=1)
        name = f"class {_short(str(classes[1]))}" if is_binary else "predicted class"
        if np.ptp(right.astype(int)):
            with _picture(pictures, "Calibration") as ax:
                CalibrationDisplay.from_predictions(
                    right, probability, n_bins=10, strategy="quantile", name=name, ax=ax
                )
    return pictures


def _importance_picture(names: list[str], scores: Array) -> dict[str, str]:
    pictures: dict[str, str] = {}
    with _picture(pictures, "Importance", (5.2, 1.4 + 0.26 * len(names))) as ax:
        positions = np.arange(len(names))[::-1]
        ax.barh(positions, scores.mean(axis=1), xerr=scores.std(axis=1), color="#4477aa", ecolor="#888888")
        ax.set_yticks(positions, [_short(name) for name in names])
        ax.set_xlabel("fall of the score")
    return pictures


def _dependence_pictures(model: Any, frame: "pd.DataFrame", columns: Sequence[Column]) -> dict[str, str]:
    """Draw the partial dependence on the first columns that have numbers or few categories."""
    pictures: dict[str, str] = {}
    target = None
    if is_classifier(model) and len(model.classes_) > 2:
        target = model.classes_[int(np.argmax(model.predict_proba(frame).mean(axis=0)))]
    for column in columns:
        values = frame[column.name]
        options: dict[str, Any] = {}
        if column.kind == "category" and 1 < values.nunique() <= MOST_CATEGORIES:
            options = {"categorical_features": [column.name]}
        elif column.kind in ("number", "boolean", "duration") and values.nunique() > 1:
            levels = np.unique(np.nanquantile(values, np.linspace(0.05, 0.95, GRID)))
            options = {"custom_values": {column.name: levels}}
            frame = frame.fillna({column.name: values.median()})  # scikit-learn draws no deciles of missing cells
        if not options or len(next(iter(options.values()))) == 0:
            continue
        with _picture(pictures, column.name, (4.0, 3.0)) as ax, warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            PartialDependenceDisplay.from_estimator(model, frame, [column.name], target=target, ax=ax, **options)
        if len(pictures) == STRONGEST:
            break
    return pictures


def _short(text: str) -> str:
    return text if len(text) <= 24 else f"{text[:23]}…"
