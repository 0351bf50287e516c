# SPDX-License-Identifier: BSD-3-Clause
"""Run the models of tables on TabArena-Lite by TabArena's own runner: an entry that has NOT been run.

It needs TabArena (https://github.com/autogluon/tabarena) with AutoGluon, and a network for the tables of OpenML. It was
written after TabArena's example `run_quickstart_tabarena_system.py`. A *system* in its words does its own encoding and
validation, as `TableRegressor` and `TableClassifier` do.
"""

from pathlib import Path
from typing import Any

import pandas as pd
from tabarena.benchmark.exec_models import ExternalSystemModel
from tabarena.benchmark.experiment import TabArenaV0pt1ExperimentBundle
from tabarena.contexts import TabArenaContext
from tabarena.utils.config_utils import SystemConfigGenerator

from bochner import TableClassifier, TableRegressor

FOLDER = Path(__file__).parent / "results"


class BochnerSystem(ExternalSystemModel):
    """The default model of bochner for a table."""

    def __init__(self, *, effort: str = "default", **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.effort = effort

    def _fit_system(
        self, X: pd.DataFrame, y: pd.Series, *, problem_type: str, random_state: int | None, **budget: Any
    ) -> "BochnerSystem":
        del budget  # the default model takes seconds to minutes on two cores
        model = TableRegressor if problem_type == "regression" else TableClassifier
        self._fitted = model(effort=self.effort, random_state=random_state).fit(X, y)
        return self

    def _predict(self, X: pd.DataFrame) -> pd.Series:
        return pd.Series(self._fitted.predict(X), index=X.index)

    def _predict_proba(self, X: pd.DataFrame) -> pd.DataFrame:
        return pd.DataFrame(self._fitted.predict_proba(X), index=X.index, columns=self._fitted.classes_)


if __name__ == "__main__":
    generator = SystemConfigGenerator(model_cls=BochnerSystem, name="bochner", manual_configs=[{}, {"effort": "fast"}])
    experiments = TabArenaV0pt1ExperimentBundle(models=[(generator, 0)], system_experiments=True).build_experiments()
    context = TabArenaContext()
    context.build_and_run_jobs(experiments, expname=str(FOLDER / "runs"), subset=["small", "lite"], debug_mode=True)
    board = context.compare(output_dir=FOLDER / "board")
    print(context.leaderboard_to_website_format(leaderboard=board).to_markdown(index=False))
