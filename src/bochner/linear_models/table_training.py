# SPDX-License-Identifier: BSD-3-Clause
"""Training a linear model on a table: the one path from a file to a model, in Python and on the command line.

Two passes over the rows, a survey and the fit; a support vector machine makes more. A training can be stored between
row groups, and an interrupted one continues there.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from time import monotonic
from typing import Any

from bochner.tables.file_table import FileTable
from bochner.tables.survey import Standardization, Survey

__all__ = ["TableTraining"]


@dataclass
class TableTraining:
    """The state of a training on a table.

    Attributes
    ----------
    fingerprint : list of str
        Identifies the table, to recognize it when the training is resumed.
    survey : Survey
        What the first pass has found so far.
    standardize : {"robust", "plain", "none"}
        How numeric columns are standardized.
    model : LinearModel or None
        The model, once the survey is complete.
    candidates : list of transformer
        Its fitted features.
    statistic : object or None
        What the second pass has accumulated of the row groups before `next_group`.
    next_group : int
        The row group that the current pass continues at.
    is_surveyed : bool
        Whether the survey is complete.
    trials : tuple of object
        What was tried so far to choose the model; only the function that chooses it looks at them.
    survey_seconds : float
        Seconds that the first pass took, those before an interrupt included.
    """

    fingerprint: list[str]
    survey: Survey
    standardize: Standardization = "robust"
    model: Any = None
    candidates: list[Any] = field(default_factory=list)
    statistic: Any = None
    next_group: int = 0
    is_surveyed: bool = False
    trials: tuple[Any, ...] = ()
    survey_seconds: float = 0.0

    @classmethod
    def begin(cls, table: FileTable, seed: int, standardize: Standardization = "robust") -> "TableTraining":
        """Return a training that has not read any rows; the seed determines the sample of rows."""
        return cls(table.fingerprint(), Survey.of(table, seed), standardize)

    def run(
        self,
        table: FileTable,
        choose_model: Callable[[Survey], Any],
        checkpoint: "Callable[[TableTraining], None] | None" = None,
    ) -> Any:
        """Train, or continue an interrupted training.

        Parameters
        ----------
        table : FileTable
            The table.
        choose_model : callable
            Returns the unfitted model, given the complete survey.
        checkpoint : callable, default=None
            Called with the training between row groups, whenever it can be stored.

        Returns
        -------
        LinearModel
            The fitted model.
        """
        with table.unchanged():
            return self._run(table, choose_model, checkpoint)

    def _run(
        self,
        table: FileTable,
        choose_model: Callable[[Survey], Any],
        checkpoint: "Callable[[TableTraining], None] | None",
    ) -> Any:
        """Train on a table that does not change."""
        if self.model is None:
            if not self.is_surveyed:
                self._complete_survey(table, checkpoint)
            self.survey.check(table)
            self.model = choose_model(self.survey)
            self.candidates = self.model.fit_table_features(table, self.survey, self.standardize)
            self.next_group = 0
        resume: dict[str, Any] = {}
        if self.model.is_resumable and checkpoint is not None:
            resume = {"first_group": self.next_group, "initial": self.statistic}
            resume["checkpoint"] = self._checkpoint("statistic", checkpoint)
        self.model.fit_table(table.rows(self.model.encoding_, self.survey.lengths, **resume), self.candidates)
        return self.model

    def _complete_survey(self, table: FileTable, checkpoint: "Callable[[TableTraining], None] | None") -> None:
        """Read the rows from `next_group` on, and measure the time."""
        start, store = monotonic() - self.survey_seconds, self._checkpoint("survey", checkpoint)

        def store_with_time(next_group: int, survey: Any) -> None:
            self.survey_seconds = monotonic() - start
            store(next_group, survey)

        self.survey = table.survey(self.survey, self.next_group, store_with_time)
        table.check_unchanged()  # before settings are compared, which may take minutes
        self.survey_seconds = monotonic() - start
        self.is_surveyed = True

    def _checkpoint(
        self, name: str, checkpoint: "Callable[[TableTraining], None] | None"
    ) -> Callable[[int, Any], None]:
        """Return a function that keeps the state of a pass in the attribute `name` and offers it to be stored."""

        def store(next_group: int, state: Any) -> None:
            self.next_group = next_group
            setattr(self, name, state)
            if checkpoint is not None:
                checkpoint(self)

        return store
