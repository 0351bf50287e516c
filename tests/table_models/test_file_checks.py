# SPDX-License-Identifier: BSD-3-Clause
"""Checks of loaded models: every part that is wrong is found before the model is used."""

from copy import copy, deepcopy
from dataclasses import replace

import numpy as np
import pytest

from bochner.table_models.file_checks import check_fields, check_model
from bochner.tables.columns import Column
from bochner.tables.encoding import Encoding
from tests.table_models.cases import SETTINGS


@pytest.mark.parametrize("name", SETTINGS)
def test_fitted_models_pass(models, name):
    check_model(models[name])


@pytest.mark.parametrize(
    "change",
    [
        {"estimator": 3},
        {"task": "classification"},
        {"task": 1},
        {"target": "other"},
        {"n_rows": "many"},
        {"version": None},
        {"residuals": np.array([np.nan])},
    ],
    ids=str,
)
def test_wrong_fields_of_a_model_are_refused(models, change):
    with pytest.raises((TypeError, ValueError, AttributeError)):
        check_model(replace(models["regression"], **change))


@pytest.mark.parametrize(
    "change",
    [
        {"mean": np.zeros(1)},
        {"scale": np.zeros(2)},
        {"mean": np.array([0.0, np.inf])},
        {"single": "no"},
        {"columns": "text"},
        {"columns": [Column("a", "id")] * 2},
        {"columns": []},
        {"clipping": 1.0},
        {"target": None},
        {"style": "comma"},
    ],
    ids=range(10),
)
def test_wrong_encodings_are_refused(models, change):
    estimator = copy(models["regression"].estimator)
    estimator.encoding_ = replace(estimator.encoding_, **change)
    with pytest.raises((TypeError, ValueError, AttributeError)):
        check_model(replace(models["regression"], estimator=estimator))


@pytest.mark.parametrize("name", ["regression", "logistic"])
@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_models_that_predict_no_numbers_are_refused(models, name, value):
    estimator = deepcopy(models[name].estimator)
    weights = estimator.features_.weights_
    weights[...] = value
    estimator.features_.__dict__.pop("feature_map_", None)
    with pytest.raises(Exception, match=r"."):
        check_model(replace(models[name], estimator=estimator))


def test_numbers_of_numpy_are_numbers():
    check_fields(Column("a", "number", other=np.True_, fill=np.float32(1.0)))
    check_fields(Encoding([], np.zeros(0), np.zeros(0), single=False))
    with pytest.raises(TypeError, match=r"Column\.fill"):
        check_fields(Column("a", "number", fill=float("nan")))
    with pytest.raises(TypeError, match=r"Column\.categories"):
        check_fields(Column("a", "category", categories=("a", 1)))
