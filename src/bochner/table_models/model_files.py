# SPDX-License-Identifier: BSD-3-Clause
"""Model files, written atomically and read by skops, which executes nothing in them."""

from io import BytesIO
from pathlib import Path
from typing import Any
from zipfile import ZipFile

from bochner.atomic_files import replaced_file
from bochner.feature_models.classifier import FeatureClassifier
from bochner.feature_models.path_choice import PathChoice
from bochner.feature_models.regressor import FeatureRegressor
from bochner.feature_models.ridge import RidgeSolution
from bochner.feature_models.ridge_moments import RidgeChoice
from bochner.features.fourier_features import FourierFeatures
from bochner.features.kernel_features import LEARNERS
from bochner.features.landmark_features import LandmarkFeatures
from bochner.kernels import KERNELS
from bochner.landmarks import LANDMARKS
from bochner.losses import CLASSIFICATION_LOSSES, LOSSES
from bochner.rows import LengthScales, Metric, Unscaled
from bochner.samplers import SAMPLERS
from bochner.scaling.objectives import OBJECTIVES
from bochner.scaling.robust_standardizer import SoftClipping
from bochner.table_models.file_checks import check_model
from bochner.table_models.fitted_model import FittedModel
from bochner.table_models.settings import Settings
from bochner.table_models.trials import Trial
from bochner.tables.archives import check_archive
from bochner.tables.columns import Column, NumberStyle
from bochner.tables.encoding import Encoding
from bochner.weightings import WEIGHTINGS

__all__ = ["load", "save"]

LARGEST_NESTED = 1 << 30  # bytes of an archive in a model file, such as a sparse matrix
ZIP_MAGIC = b"PK\x03\x04"


def save(model: FittedModel, path: Path) -> None:
    """Write a model to a file, which is replaced once it is complete."""
    skops_io = _import_skops()
    with replaced_file(path) as temporary:
        skops_io.dump(model, temporary)


def load(path: Path) -> FittedModel:
    """Read what `save` has written; damaged files and files of other programs are refused.

    Nothing in the file is executed: skops creates objects of the types in TRUSTED only. What it has created is checked
    by `file_checks`, so that a model that was loaded can be used.
    """
    skops_io = _import_skops()
    if not path.is_file():
        problem = "is a folder" if path.is_dir() else "does not exist"
        raise ValueError(f"{path} {problem}; give a file written by `bochner fit`.")
    try:
        _check_sizes(path)
        foreign = sorted(set(skops_io.get_untrusted_types(file=path)) - TRUSTED)
        loaded = None if foreign else skops_io.load(path, trusted=sorted(TRUSTED))
        if isinstance(loaded, FittedModel):
            check_model(loaded)
    except Exception as error:  # a damaged or crafted file can cause any error in skops, numpy and the checks
        raise ValueError(f"{path} is damaged or not a file written by `bochner fit`; fit the model again.") from error
    if not isinstance(loaded, FittedModel):
        contents = ascii(", ".join(foreign[:3]) or type(loaded).__name__)[1:-1]
        raise ValueError(
            f"{path} was not written by bochner (it contains {contents:.200}); give a file of `bochner fit`."
        )
    return loaded


def _check_sizes(path: Path) -> None:
    """Refuse compressed contents, which `save` does not write; archives in the file may be compressed, to a limit."""
    check_archive(path, limit=path.stat().st_size)
    with ZipFile(path) as archive:
        for name in archive.namelist():
            with archive.open(name) as file:
                nested = file.read() if file.read(len(ZIP_MAGIC)) == ZIP_MAGIC else b""
            if nested:
                check_archive(BytesIO(ZIP_MAGIC + nested), LARGEST_NESTED)


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
    *(FittedModel, Settings, Encoding, SoftClipping, Column, NumberStyle, Trial),
    *(
        FourierFeatures,
        LandmarkFeatures,
        FeatureClassifier,
        FeatureRegressor,
        RidgeChoice,
        RidgeSolution,
        PathChoice,
    ),
    *(*KERNELS.values(), *SAMPLERS.values(), *WEIGHTINGS.values(), *LEARNERS.values(), *OBJECTIVES.values()),
    *(*LANDMARKS.values(), *LOSSES.values(), *CLASSIFICATION_LOSSES.values()),
    *(LengthScales, Metric, Unscaled),
) | {"bochner.feature_maps.hadamard.HadamardFrequencies"}  # not imported here, because it imports numba
