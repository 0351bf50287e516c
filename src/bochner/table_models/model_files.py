# SPDX-License-Identifier: BSD-3-Clause
"""Model files and stored trainings, written atomically and read by skops, which executes nothing in them."""

import os
from pathlib import Path
from typing import Any

from bochner.fourier_features import FourierFeatures
from bochner.kernel_features import LEARNERS
from bochner.kernels import KERNELS
from bochner.landmark_features import LandmarkFeatures
from bochner.landmarks import LANDMARKS
from bochner.learning.objectives import OBJECTIVES
from bochner.learning.ridge import RidgeSolution
from bochner.linear_models import FourierLogisticRegression, FourierRidge, FourierRidgeClassifier, FourierSVC
from bochner.linear_models.ridge_moments import RidgeChoice, RidgeMoments
from bochner.linear_models.table_training import TableTraining
from bochner.linear_models.widths import WidthPath
from bochner.robust_standardizer import SoftClipping
from bochner.rows import Metric
from bochner.samplers import SAMPLERS
from bochner.table_models.fitted_model import FittedModel
from bochner.table_models.settings import Settings
from bochner.table_models.training import StoredTraining
from bochner.table_models.trials import Trial
from bochner.tables.columns import Column, NumberStyle
from bochner.tables.encoding import Encoding
from bochner.tables.survey import Sample, Survey
from bochner.tables.tallies import ColumnTally
from bochner.weightings import WEIGHTINGS

__all__ = ["load", "save"]


def save(model: FittedModel | StoredTraining, path: Path) -> None:
    """Write a model or an interrupted training to a file, which is replaced once it is complete."""
    skops_io = _import_skops()
    temporary = path.with_name(path.name + ".new")
    try:
        skops_io.dump(model, temporary)
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


def load(path: Path) -> FittedModel | StoredTraining:
    """Read what `save` has written; damaged files and files of other programs are refused.

    Nothing in the file is executed: skops creates objects of the types in TRUSTED only.
    """
    skops_io = _import_skops()
    if not path.is_file():
        problem = "is a folder" if path.is_dir() else "does not exist"
        raise ValueError(f"{path} {problem}; give a file written by `bochner fit`.")
    try:
        foreign = sorted(set(skops_io.get_untrusted_types(file=path)) - TRUSTED)
        loaded = None if foreign else skops_io.load(path, trusted=sorted(TRUSTED))
    except Exception as error:  # a damaged or crafted file can cause any error in skops and numpy
        raise ValueError(f"{path} is damaged or not a file written by `bochner fit`; fit the model again.") from error
    if not isinstance(loaded, FittedModel | StoredTraining):
        contents = ", ".join(foreign[:3]) or type(loaded).__name__
        raise ValueError(f"{path} was not written by bochner (it contains {contents}); give a file of `bochner fit`.")
    return loaded


def _import_skops() -> Any:
    try:
        import skops.io
    except ImportError as error:
        raise ValueError("Model files need skops: pip install 'bochner[cli]'.") from error
    return skops.io


def _type_names(*kinds: type) -> set[str]:
    return {f"{kind.__module__}.{kind.__qualname__}" for kind in kinds}


# What a model file may contain beside numbers, text and scikit-learn's own estimators.
TRUSTED = _type_names(
    *(FittedModel, StoredTraining, TableTraining, Settings, Survey, Sample, ColumnTally, Encoding, SoftClipping),
    *(Column, NumberStyle, Trial),
    *(
        FourierFeatures,
        LandmarkFeatures,
        FourierLogisticRegression,
        FourierRidge,
        FourierRidgeClassifier,
        FourierSVC,
        RidgeMoments,
        RidgeChoice,
        RidgeSolution,
        WidthPath,
    ),
    *(*KERNELS.values(), *SAMPLERS.values(), *WEIGHTINGS.values(), *LEARNERS.values(), *OBJECTIVES.values()),
    *(*LANDMARKS.values(), Metric),
) | {"bochner.feature_maps.hadamard.HadamardFrequencies"}  # not imported here, because it imports numba
