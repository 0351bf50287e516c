# SPDX-License-Identifier: BSD-3-Clause
"""Kernel methods for scikit-learn: models of tables, kernel machines, and kernel features with linear models.

Estimators, displays and `KernelError` are imported from here; the parts that estimators are made of have modules of
their own: `bochner.kernels`, `bochner.samplers`, `bochner.weightings`, `bochner.landmarks`, `bochner.losses`,
`bochner.scaling`.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from bochner.feature_models.classifier import FeatureClassifier as FeatureClassifier
    from bochner.feature_models.regressor import FeatureRegressor as FeatureRegressor
    from bochner.features.fourier_features import FourierFeatures as FourierFeatures
    from bochner.features.landmark_features import LandmarkFeatures as LandmarkFeatures
    from bochner.inspection.displays import ImportanceDisplay as ImportanceDisplay
    from bochner.inspection.displays import KernelErrorDisplay as KernelErrorDisplay
    from bochner.inspection.displays import WeightsDisplay as WeightsDisplay
    from bochner.inspection.importance import ColumnImportance as ColumnImportance
    from bochner.inspection.importance import column_importance as column_importance
    from bochner.inspection.kernel_error import KernelError as KernelError
    from bochner.kernel_models import KernelClassifier as KernelClassifier
    from bochner.kernel_models import KernelRegressor as KernelRegressor
    from bochner.scaling.robust_standardizer import RobustStandardizer as RobustStandardizer
    from bochner.tables.table_encoder import TableEncoder as TableEncoder
    from bochner.tables.table_models import TableClassifier as TableClassifier
    from bochner.tables.table_models import TableRegressor as TableRegressor

    __version__: str

_MODULES = {
    "ColumnImportance": "inspection.importance",
    "FeatureClassifier": "feature_models.classifier",
    "FeatureRegressor": "feature_models.regressor",
    "FourierFeatures": "features.fourier_features",
    "ImportanceDisplay": "inspection.displays",
    "KernelClassifier": "kernel_models",
    "KernelError": "inspection.kernel_error",
    "KernelErrorDisplay": "inspection.displays",
    "KernelRegressor": "kernel_models",
    "LandmarkFeatures": "features.landmark_features",
    "RobustStandardizer": "scaling.robust_standardizer",
    "TableClassifier": "tables.table_models",
    "TableEncoder": "tables.table_encoder",
    "TableRegressor": "tables.table_models",
    "WeightsDisplay": "inspection.displays",
    "column_importance": "inspection.importance",
}
__all__ = [*_MODULES]


def __getattr__(name: str) -> Any:
    """Import a name, a module or the version when it is first used, so that `import bochner` takes no time."""
    value: Any
    if name == "__version__":
        value = import_module("importlib.metadata").version("bochner")
    elif name in _MODULES:
        value = getattr(import_module(f"bochner.{_MODULES[name]}"), name)
    else:
        try:
            return import_module(f"bochner.{name}")
        except ModuleNotFoundError as error:
            if error.name != f"bochner.{name}":
                raise  # the module exists and needs something that is not installed
            raise AttributeError(f"module 'bochner' has no attribute {name!r}") from None
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
