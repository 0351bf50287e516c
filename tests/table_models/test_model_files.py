# SPDX-License-Identifier: BSD-3-Clause
"""Files of models: what they contain, and what is refused."""

import io
import json
import sys
import zipfile
from dataclasses import replace
from importlib import import_module

import numpy as np
import pytest
import skops.io
from sklearn.base import clone
from sklearn.linear_model import Ridge

from bochner import FeatureRegressor, FourierFeatures, LandmarkFeatures
from bochner.kernels import KERNELS
from bochner.rows import to_dense
from bochner.scaling import LearnedLengthScales, LearnedMetric
from bochner.table_models.fitted_model import FittedModel
from bochner.table_models.model_files import TRUSTED, load, save
from bochner.table_models.training import fit_table
from bochner.tables.columns import Column
from bochner.tables.encoding import Encoding
from bochner.tables.file_table import FileTable
from tests.table_models.cases import SETTINGS, fitted_arrays, ignore


@pytest.fixture(scope="module")
def model_file(models, tmp_path_factory):
    path = tmp_path_factory.mktemp("model-files") / "m.skops"
    save(models["regression"], path)
    return path


def schema_of(path):
    with zipfile.ZipFile(path) as archive:
        return json.loads(archive.read("schema.json"))


def rewrite(path, source, schema):
    """Write the file `source` with another schema."""
    with zipfile.ZipFile(source) as old, zipfile.ZipFile(path, "w") as new:
        for name in old.namelist():
            new.writestr(name, json.dumps(schema) if name == "schema.json" else old.read(name))
    return path


def check_contents(path):
    """Check that a file contains only plain arrays and trusted types, nothing pickled and no prepared map."""
    with zipfile.ZipFile(path) as archive:
        names = archive.namelist()
        assert {name.rpartition(".")[2] for name in names} == {"json", "npy"}
        for name in names:
            if name.endswith(".npy"):
                np.load(io.BytesIO(archive.read(name)), allow_pickle=False)
        schema = archive.read("schema.json").decode()
    assert set(skops.io.get_untrusted_types(file=path)) <= TRUSTED
    assert "FourierMap" not in schema
    assert "feature_map_" not in schema
    return skops.io.load(path, trusted=sorted(TRUSTED))


@pytest.mark.parametrize("name", SETTINGS)
def test_loaded_model_predicts_identically(files, models, tmp_path, name):
    save(models[name], tmp_path / "m.skops")
    loaded = load(tmp_path / "m.skops")
    assert isinstance(loaded, FittedModel)
    assert replace(loaded, estimator=None) == replace(models[name], estimator=None)
    np.testing.assert_array_equal(loaded.residuals, models[name].residuals)
    for array, values in fitted_arrays(models[name]).items():
        np.testing.assert_array_equal(fitted_arrays(loaded)[array], values, err_msg=array)
    expected = models[name].estimator.predict(files[name])
    np.testing.assert_array_equal(loaded.estimator.predict(files[name]), expected)


@pytest.mark.parametrize("name", SETTINGS)
def test_model_file_contains_only_arrays_and_trusted_types(models, tmp_path, name):
    save(models[name], tmp_path / "m.skops")
    assert isinstance(check_contents(tmp_path / "m.skops"), FittedModel)


@pytest.mark.parametrize("kernel", KERNELS)
def test_models_with_every_kernel_can_be_loaded(files, tmp_path, kernel):
    settings = replace(SETTINGS["regression"], kernels=[kernel], n_frequencies=4, length_scales=[1.0])
    model = fit_table(FileTable(files["regression"], "y"), settings, ignore).model
    save(model, tmp_path / "m.skops")
    np.testing.assert_array_equal(load(tmp_path / "m.skops").estimator.coef_, model.estimator.coef_)


@pytest.mark.parametrize(("learn", "length_scales"), [("learn", [1.0]), ("learn-matrix", [1.0, 1.5])])
def test_model_with_learned_length_scales_can_be_loaded(files, tmp_path, learn, length_scales):
    settings = replace(SETTINGS["regression"], learn=learn, length_scales=length_scales)
    model = fit_table(FileTable(files["regression"], "y"), settings, ignore).model
    save(model, tmp_path / "m.skops")
    loaded = check_contents(tmp_path / "m.skops")
    np.testing.assert_array_equal(loaded.estimator.features_.relevance_, model.estimator.features_.relevance_)
    np.testing.assert_array_equal(
        loaded.estimator.predict(files["regression"]), model.estimator.predict(files["regression"])
    )
    if learn == "learn-matrix":
        np.testing.assert_array_equal(loaded.estimator.features_.metric_, model.estimator.features_.metric_)


@pytest.mark.parametrize("rank", [None, 1])
@pytest.mark.parametrize("features", [FourierFeatures(n_frequencies=8), LandmarkFeatures(n_landmarks=8)])
def test_model_with_a_learned_metric_can_be_loaded(models, tmp_path, features, rank, rng):
    X = rng.normal(size=(60, 3))
    start = LearnedLengthScales(n_rows=100, n_iterations=2)
    part = LearnedMetric(n_rounds=1, rank=rank, length_scales=start)
    features = clone(features).set_params(length_scale=part)
    # Candidates have the metric as their parameter too.
    estimator = FeatureRegressor(features, length_scale_factors=[1.0, 2.0], random_state=0).fit(
        X, np.sin(X[:, 0] + X[:, 1])
    )
    estimator.finalize()
    columns, target = [Column(name, "number") for name in "abc"], Column("y", "number")
    estimator.encoding_ = Encoding(columns, np.zeros(3), np.ones(3), single=False, target=target)
    save(replace(models["regression"], estimator=estimator), tmp_path / "m.skops")
    check_contents(tmp_path / "m.skops")
    loaded = load(tmp_path / "m.skops").estimator
    np.testing.assert_array_equal(to_dense(loaded.features_.metric_), to_dense(estimator.features_.metric_))
    assert loaded.without_encoding().predict(X).tobytes() == estimator.without_encoding().predict(X).tobytes()


def test_model_is_small(models, model_file):
    assert not hasattr(models["regression"].estimator, "_accumulator")
    assert model_file.stat().st_size < 100_000


def test_failed_save_keeps_the_old_file(models, model_file, tmp_path, monkeypatch):
    path = tmp_path / "m.skops"
    path.write_bytes(model_file.read_bytes())

    def dump_a_part(model, file):
        file.write_bytes(b"PK")
        raise OSError("The disk is full.")

    monkeypatch.setattr(skops.io, "dump", dump_a_part)
    with pytest.raises(OSError, match="disk is full"):
        save(models["svm"], path)
    assert path.read_bytes() == model_file.read_bytes()
    assert [file.name for file in tmp_path.iterdir()] == ["m.skops"]


def test_load_needs_a_file(tmp_path):
    with pytest.raises(ValueError, match=r"none\.skops does not exist; give a file written by `bochner fit`"):
        load(tmp_path / "none.skops")
    with pytest.raises(ValueError, match="is a folder; give a file written by `bochner fit`"):
        load(tmp_path)


@pytest.mark.parametrize("share", [0.0, 0.001, 0.1, 0.5, 0.999])
def test_truncated_file_is_refused(model_file, tmp_path, share):
    contents = model_file.read_bytes()
    (tmp_path / "m.skops").write_bytes(contents[: int(share * len(contents))])
    with pytest.raises(ValueError, match="is damaged or not a file written by `bochner fit`; fit the model again"):
        load(tmp_path / "m.skops")


def test_file_of_another_program_is_refused(tmp_path):
    skops.io.dump(Ridge().fit([[0.0], [1.0]], [0.0, 1.0]), tmp_path / "m.skops")
    with pytest.raises(ValueError, match=r"was not written by bochner \(it contains Ridge\); give a file of"):
        load(tmp_path / "m.skops")


@pytest.mark.parametrize(
    ("module", "name", "loader"),
    [("os", "system", "TypeNode"), ("builtins", "eval", "FunctionNode"), ("nothing.here", "Model", "ObjectNode")],
)
def test_crafted_file_runs_no_code(model_file, tmp_path, module, name, loader):
    schema = schema_of(model_file)
    crafted = {"__class__": name, "__module__": module, "__loader__": loader, "__id__": 1, "content": {}}
    schema["content"]["content"]["task"] = crafted
    path = rewrite(tmp_path / "m.skops", model_file, schema)
    with pytest.raises(ValueError, match=r"m\.skops (was not written by bochner|is damaged)"):
        load(path)


def walk(node):
    """Yield every entry of a schema: a dictionary or list with a key or an index."""
    children = node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ()
    for key, child in children:
        yield node, key
        yield from walk(child)


def test_changed_schemas_load_or_give_one_message(model_file, tmp_path):
    """Every twentieth entry of the schema is replaced, one at a time."""
    messages = []
    for position in range(0, len(list(walk(schema_of(model_file)))), 20):
        schema = schema_of(model_file)
        node, key = list(walk(schema))[position]
        node[key] = [None, -1, "os", {}, "MethodNode"][position // 20 % 5]
        try:
            load(rewrite(tmp_path / "m.skops", model_file, schema))
        except ValueError as error:
            messages.append(str(error))
    assert len(messages) > 5
    assert all("m.skops is damaged" in message or "was not written by bochner" in message for message in messages)


def test_changed_array_header_is_refused(model_file, tmp_path):
    path = tmp_path / "m.skops"
    with zipfile.ZipFile(model_file) as old, zipfile.ZipFile(path, "w") as new:
        for name in old.namelist():
            new.writestr(name, old.read(name).replace(b" \n", b"{\n", 1) if name.endswith("npy") else old.read(name))
    with pytest.raises(ValueError, match="is damaged"):
        load(path)


def test_error_message_without_skops(models, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "skops.io", None)
    with pytest.raises(ValueError, match=r"Model files need skops: pip install 'bochner\[cli\]'"):
        save(models["svm"], tmp_path / "m.skops")


def test_trusted_types_exist():
    for name in TRUSTED:
        module, _, attribute = name.rpartition(".")
        assert hasattr(import_module(module), attribute)
