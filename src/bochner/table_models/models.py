# SPDX-License-Identifier: BSD-3-Clause
"""Models of tables: from a file with a target column to a model file, and from there to predictions.

A model knows its columns, how to turn them into numbers, and a fitted head. It is stored with skops: reading a model
file runs nothing of what is in it.
"""

import os
import zipfile
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any, Literal

import numpy as np

from bochner.fourier_features import LEARNERS, FourierFeatures
from bochner.kernel_error import KernelError
from bochner.kernels import KERNELS, IsotropicKernel
from bochner.learning.objectives import OBJECTIVES
from bochner.linear_models.ridge import STATE_TYPES, FourierRidge, FourierRidgeClassifier
from bochner.linear_models.svm import FourierSVC
from bochner.rows import Array, Pieces
from bochner.samplers import SAMPLERS
from bochner.tables.encoding import EncodedTable, Encoding
from bochner.tables.parquet_folder import EncodedPieces, ParquetFolder
from bochner.tables.reader import Chunk, Table
from bochner.tables.survey import ColumnMoments, Sample, Survey
from bochner.weightings import WEIGHTINGS

__all__ = [
    *("ClusterTraining", "Scores", "Settings", "TableModel", "TableTraining", "Training"),
    *("load", "save", "score", "write_predictions"),
]

Head = FourierRidge | FourierRidgeClassifier | FourierSVC
Track = Callable[[Iterable[Any], str, int | None], Iterable[Any]]
N_FOLDS = 5
MOST_WHOLE_NUMBERS = 20  # a target of more different whole numbers is a quantity, not a class


@dataclass(frozen=True)
class Settings:
    """What the user of `bochner fit` decides."""

    head: Literal["ridge", "svm"]
    task: Literal["auto", "regression", "classification"]
    kernel: str
    n_frequencies: int
    length_scales: list[float]
    seed: int
    learn: bool = False

    def new_head(self, task: str) -> Head:
        """The estimator for a task, not yet fitted."""
        if task == "regression" and self.head == "svm":
            raise ValueError("A support vector machine classifies; for regression give --head ridge.")
        features = FourierFeatures(
            self.kernel,
            length_scale="learn" if self.learn else "median",
            n_frequencies=self.n_frequencies,
            sampler="orthogonal" if issubclass(KERNELS[self.kernel], IsotropicKernel) else "halton",
        )
        kind = FourierRidge if task == "regression" else FourierSVC if self.head == "svm" else FourierRidgeClassifier
        return kind(features, cv=N_FOLDS, length_scales=self.length_scales, random_state=self.seed)


@dataclass(frozen=True)
class TableModel:
    """A fitted model of a table.

    Attributes
    ----------
    task : str
        "regression" or "classification".
    target : str
        The column that it predicts.
    encoding : Encoding
        How rows become numbers.
    head : FourierRidge, FourierRidgeClassifier or FourierSVC
        The fitted estimator.
    n_rows : int
        Number of rows it was trained on.
    version : str
        The version of bochner that made it.
    """

    task: str
    target: str
    encoding: Encoding
    head: Head
    n_rows: int
    version: str = field(default_factory=lambda: version("bochner"))

    def open(self, path: Path, *, with_target: bool) -> EncodedTable:
        """Another table with the same columns and, if asked for, a target of the same kind."""
        source = self.encoding.open(path, self.target if with_target else None)
        trained_on_text = self.task == "classification" and self.head.classes_.dtype.kind == "U"
        if with_target and source.table.target_is_text != trained_on_text:
            found, expected = ("numbers", "text") if trained_on_text else ("text", "numbers")
            raise ValueError(f"{path}: column {self.target!r} holds {found}, and the model was trained on {expected}.")
        return source

    def predict(self, rows: Array) -> Array:
        """Predictions for encoded rows."""
        return np.asarray(self.head.predict(rows))


@dataclass
class TableTraining:
    """What all trainings share: the survey of a table, what it says about the task, the head."""

    settings: Settings
    survey: Survey
    task: str = ""
    head: Head | None = None

    @property
    def sample(self) -> Array:
        """Sampled rows, encoded."""
        return self.encoding.encode(self.survey.sample.cells())

    @property
    def encoding(self) -> Encoding:
        """How rows become numbers."""
        return self.survey.encoding(standardize=True)

    def model(self, table: Table) -> TableModel:
        """The model, once the training is through."""
        assert self.head is not None
        return TableModel(self.task, str(table.target), self.encoding, self.head, self.survey.n_rows)

    def _decide(self, table: Table) -> Iterator[str]:
        """Decide on the task by what the survey has found; yields sentences about it."""
        self.task, reason = _task(table, self.survey)
        if self.settings.task != "auto":
            self.task, reason = self.settings.task, "as asked for"
        self._check_target(table)
        yield f"Task: {self.task} ({reason})."
        if table.text:
            listed = ", ".join(f"{name} ({len(self.survey.categories[name])})" for name in table.text)
            yield f"Columns with text, one column a category: {listed}."

    def _check_target(self, table: Table) -> None:
        """Refuse a target that there is nothing to learn from."""
        values = self.survey.target_values
        if values is not None and len(values) == 1:
            raise ValueError(
                f"{table.path}: column {table.target!r} has one value only, {values[0]!r}, in all {self.survey.n_rows} "
                f"rows: there is nothing to learn."
            )
        if self.task == "regression" and table.target_is_text:
            raise ValueError(f"{table.path}: column {table.target!r} holds text; give --task classification.")
        if self.task == "classification":
            self.survey.classes(table)
        if self.survey.n_rows < N_FOLDS:
            raise ValueError(
                f"{table.path} has {self.survey.n_rows} rows; at least {N_FOLDS} are needed to learn from."
            )

    def _classes(self, table: Table) -> list[Any] | None:
        return self.survey.classes(table) if self.task == "classification" else None

    def _learn(self, table: Table, source: EncodedTable | Pieces) -> None:
        """Learn from all rows, with progress bars."""
        assert self.head is not None
        self.head.set_params(verbose=1)._learn(source, self.sample, self.survey.sample.targets, self._classes(table))
        self.head.set_params(verbose=0)


@dataclass(kw_only=True)
class Training(TableTraining):
    """The training of a model, which can be stored at the end of any group of rows and taken up again there.

    Two passes: a survey of the table, then the sums of ridge regression; a support vector machine reads the table
    again for every step instead, and is not stored in between.
    """

    fingerprint: list[str]
    next_group: int = 0

    @classmethod
    def of(cls, table: Table, settings: Settings) -> "Training":
        """A training that has not begun."""
        return cls(settings, Survey.of(table, settings.seed), fingerprint=table.fingerprint())

    def run(self, table: Table, track: Track, checkpoint: Callable[["Training"], None]) -> Iterator[str]:
        """Train; yields sentences about what is going on, and leaves the finished head in `head`."""
        if self.head is None:
            self._look(table, track, checkpoint)
            yield from self._decide(table)
            self.head = self.settings.new_head(self.task)
            self.next_group = 0
            if not isinstance(self.head, FourierSVC):
                self.head.set_params(verbose=1).fit_features(self.sample, self.survey.sample.targets)
                self.head.set_params(verbose=0)
        if isinstance(self.head, FourierSVC):
            self._learn(table, EncodedTable(table, self.encoding))
            return
        classes = self._classes(table)
        total = table.n_chunks(self.next_group)
        for chunk, rows in track(EncodedTable(table, self.encoding).batches(self.next_group), "training", total):
            self._store_if_due(chunk, checkpoint)
            options = {} if classes is None else {"classes": classes}
            self.head.partial_fit(rows, table.target_values(chunk), **options)
        self.head.settle()

    def _look(self, table: Table, track: Track, checkpoint: Callable[["Training"], None]) -> None:
        for chunk in track(table.chunks(self.next_group), "reading", table.n_chunks(self.next_group)):
            self._store_if_due(chunk, checkpoint)
            self.survey.add(table, chunk)
        self.survey.check_not_empty(table)

    def _store_if_due(self, chunk: Chunk, checkpoint: Callable[["Training"], None]) -> None:
        """At the beginning of a group all rows before it are in: a good place to stop."""
        if chunk.group > self.next_group:
            self.next_group = chunk.group
            checkpoint(self)


class ClusterTraining(TableTraining):
    """The training of a model by Dask; the model is that of one file with the same rows, and nothing is stored."""

    @classmethod
    def of(cls, table: ParquetFolder, settings: Settings) -> "ClusterTraining":
        """A training that has not begun."""
        return cls(settings, Survey.of(table, settings.seed))

    def run(self, table: ParquetFolder) -> Iterator[str]:
        """Train; yields sentences about what is going on, and leaves the finished head in `head`."""
        pieces = table.pieces()
        self.survey = table.survey(pieces, self.settings.seed, verbose=1)
        yield from self._decide(table)
        self.head = self.settings.new_head(self.task)
        self._learn(table, EncodedPieces(pieces, table, self.encoding))
        if not isinstance(self.head, FourierSVC):
            self.head.settle()


def _task(table: Table, survey: Survey) -> tuple[str, str]:
    """What kind of target the table has, and why."""
    values = survey.target_values
    name = repr(table.target)
    if table.target_is_text:
        return "classification", f"column {name} holds text, {len(values or [])} different values"
    if values is None:
        return "regression", f"column {name} holds numbers with more than a thousand different values"
    if all(isinstance(value, bool) for value in values):
        return "classification", f"column {name} holds true and false"
    if _are_whole(values) and len(values) <= MOST_WHOLE_NUMBERS:
        return "classification", f"column {name} holds {len(values)} different whole numbers"
    return "regression", f"column {name} holds numbers, {len(values)} different values"


def _are_whole(values: list[Any]) -> bool:
    return all(float(value).is_integer() for value in values)


@dataclass(frozen=True)
class Scores:
    """How well a model does on a table.

    Attributes
    ----------
    n_rows : int
        Number of rows.
    kernel_error : KernelError
        Relative error of the approximate kernel on a sample of the rows, with its 95 % interval.
    measures : dict of str to float
        Of a regression its root mean squared error and R2, of a classification the share of errors; empty without
        targets.
    """

    n_rows: int
    kernel_error: KernelError
    measures: dict[str, float]


def score(model: TableModel, path: Path, track: Track) -> Scores:
    """Measure a model on a table, with the target if the table has it."""
    with_target = model.target in model.open(path, with_target=False).table.names
    source = model.open(path, with_target=with_target)
    sample = Sample.of(source.table, 0)
    sums = np.zeros(4)  # losses, targets and their squares, less the first target
    origin: Any = None
    for chunk, rows in track(source.batches(), "measuring", source.table.n_chunks()):
        sample.add(chunk.cells)
        if with_target:
            actual, guess = source.table.target_values(chunk), model.predict(rows)
            if model.task == "classification":
                sums[0] += float((actual != guess).sum())
            else:
                origin = actual[0] if origin is None else origin
                offset = actual.astype(np.float64) - origin
                sums[:3] += np.square(actual - guess).sum(), offset.sum(), np.square(offset).sum()
    if not sample.n_rows:
        raise ValueError(f"{path} has no rows to measure on.")
    error = model.head.features_.kernel_error(model.encoding.encode(sample.cells()), random_state=0)
    return Scores(sample.n_rows, error, _measures(model.task, sums, sample.n_rows) if with_target else {})


def _measures(task: str, sums: Array, n_rows: int) -> dict[str, float]:
    if task == "classification":
        return {"error": float(sums[0] / n_rows)}
    variance = sums[2] / n_rows - (sums[1] / n_rows) ** 2
    mean_square = float(sums[0] / n_rows)
    return {"rmse": mean_square**0.5, "r2": 1.0 - mean_square / variance if variance > 0.0 else float("nan")}


def write_predictions(model: TableModel, path: Path, output: Path, track: Track, *, deviations: bool) -> int:
    """Predict every row of a table into a CSV or Parquet file; returns the number of rows.

    The file appears when it is complete.
    """
    import pyarrow as pa
    from pyarrow import csv, parquet

    writers = {".csv": csv.CSVWriter, ".parquet": parquet.ParquetWriter}
    if output.suffix.lower() not in writers:
        raise ValueError(f"--output {output} must end in .csv or .parquet.")
    if deviations and not isinstance(model.head, FourierRidge):
        raise ValueError("Standard deviations are for regressions; leave --std out.")
    source = model.open(path, with_target=False)
    temporary = output.with_name(output.name + ".new")
    n_rows, writer = 0, None
    try:
        for _, rows in track(source.batches(), "predicting", source.table.n_chunks()):
            if isinstance(model.head, FourierRidge) and deviations:
                guesses, spreads = model.head.predict(rows, return_std=True)
                columns = {model.target: guesses, f"{model.target}_std": spreads}
            else:
                columns = {model.target: model.predict(rows)}
            batch = pa.RecordBatch.from_pydict(columns)
            writer = writers[output.suffix.lower()](temporary, batch.schema) if writer is None else writer
            writer.write_batch(batch)
            n_rows += len(rows)
        if writer is None:
            raise ValueError(f"{path} has no rows to predict.")
        writer.close()
        os.replace(temporary, output)
    finally:
        temporary.unlink(missing_ok=True)
    return n_rows


def save(model: TableModel | Training, path: Path) -> None:
    """Write a model, or a training in progress, to a file; whoever reads it never sees half a file."""
    skops_io = _skops()
    temporary = path.with_name(path.name + ".new")
    try:
        skops_io.dump(model, temporary)
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


def load(path: Path) -> Any:
    """Read what `save` wrote; a file of another origin, or a damaged one, is refused.

    Nothing in the file is executed: skops builds objects of the types that bochner uses and of no other.
    """
    skops_io = _skops()
    if not path.is_file():
        raise ValueError(
            f"{path} {'is a folder' if path.is_dir() else 'does not exist'}; give a file of `bochner fit`."
        )
    try:
        foreign = sorted(set(skops_io.get_untrusted_types(file=path)) - TRUSTED)
        loaded = None if foreign else skops_io.load(path, trusted=sorted(TRUSTED))
    except (zipfile.BadZipFile, OSError, EOFError, KeyError, ValueError, TypeError, AttributeError) as error:
        raise ValueError(f"{path} is damaged, or not a file of `bochner fit`; make it again.") from error
    if not isinstance(loaded, TableModel | Training):
        held = ", ".join(foreign[:3]) or type(loaded).__name__
        raise ValueError(f"{path} was not made by bochner: it holds {held}; give a file of `bochner fit`.")
    return loaded


def _skops() -> Any:
    try:
        import skops.io
    except ImportError as error:
        raise ValueError("Model files need skops: pip install 'bochner[cli]'.") from error
    return skops.io


def _names(*kinds: type) -> set[str]:
    return {f"{kind.__module__}.{kind.__qualname__}" for kind in kinds}


# What a model file may hold beside numbers, text and scikit-learn's own estimators.
TRUSTED = _names(
    *(TableModel, Training, Settings, Survey, Sample, ColumnMoments, Encoding, FourierFeatures),
    *(FourierRidge, FourierRidgeClassifier, FourierSVC, *STATE_TYPES),
    *(*KERNELS.values(), *SAMPLERS.values(), *WEIGHTINGS.values(), *LEARNERS.values(), *OBJECTIVES.values()),
) | {"bochner.feature_maps.hadamard.HadamardFrequencies"}
