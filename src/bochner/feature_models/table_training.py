# SPDX-License-Identifier: BSD-3-Clause
"""Training a linear model on a table: the one path from a file to a model, in Python and on the command line.

Two passes over the rows, a survey and the fit; a support vector machine makes more.
"""

from collections.abc import Callable
from dataclasses import dataclass
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
    survey : Survey
        What the first pass has found.
    standardize : {"robust", "plain", "none"}
        How numeric columns are standardized.
    trials : tuple of object
        What was tried to choose the model; only the function that chooses it looks at them.
    survey_seconds : float
        Seconds that the first pass took.
    """

    survey: Survey
    standardize: Standardization = "robust"
    trials: tuple[Any, ...] = ()
    survey_seconds: float = 0.0

    @classmethod
    def begin(cls, table: FileTable, seed: int, standardize: Standardization = "robust") -> "TableTraining":
        """Return a training that has not read any rows; the seed determines the sample of rows."""
        return cls(Survey.of(table, seed), standardize)

    def run(self, table: FileTable, choose_model: Callable[[Survey], Any]) -> Any:
        """Train.

        Parameters
        ----------
        table : FileTable
            The table.
        choose_model : callable
            Returns the unfitted model, given the complete survey.

        Returns
        -------
        LinearModel
            The fitted model.
        """
        with table.unchanged():
            start = monotonic()
            self.survey = table.survey(self.survey)
            table.check_unchanged()  # before settings are compared, which may take minutes
            self.survey_seconds = monotonic() - start
            self.survey.check(table)
            model = choose_model(self.survey)
            candidates = model.fit_table_features(table, self.survey, self.standardize)
            model.fit_table(table.rows(model.encoding_, self.survey.lengths), candidates)
            return model
