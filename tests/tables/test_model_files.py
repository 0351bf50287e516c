# SPDX-License-Identifier: BSD-3-Clause
"""Files of models: what they contain, and what is refused; `tests.faults` damages them in every way."""

import io
import json
import sys
import zipfile

import numpy as np
import pytest
import skops.io
from sklearn.linear_model import Ridge

from bochner import FeatureRegressor, FourierFeatures, TableClassifier, TableEncoder, TableRegressor
from bochner.tables.model_files import load, save
from tests.tables.models import make_frame, make_targets, quick_classifier, quick_regressor

FRAME = make_frame()
Y, LABELS = make_targets(FRAME)
FOURIER = FeatureRegressor(FourierFeatures("matern", n_frequencies=8, weighting="matrix"), random_state=0)
MODELS = {
    "landmarks": (quick_regressor(), Y),
    "classes": (quick_classifier(class_weight="balanced"), LABELS),
    "fourier": (
        TableRegressor(FOURIER, encoder=TableEncoder(drop=["day"], kinds={"ok": "category"}, standardize="none")),
        Y,
    ),
    "machine": (TableRegressor(effort="fast", random_state=0), np.exp(2 * Y)),
    "class machine": (TableClassifier(effort="fast", random_state=0), LABELS),
    "scikit-learn": (TableRegressor(Ridge()), Y),
}


@pytest.fixture(scope="module")
def fitted():
    """Models that are not changed by tests."""
    return {name: model.fit(FRAME.assign(target=y), "target") for name, (model, y) in MODELS.items()}


@pytest.fixture(scope="module")
def model_file(fitted, tmp_path_factory):
    path = tmp_path_factory.mktemp("model-files") / "m.skops"
    fitted["landmarks"].save(path)
    return path


def rewrite(path, source, **entries):
    """Write the file `source` with other entries."""
    with zipfile.ZipFile(source) as old, zipfile.ZipFile(path, "w") as new:
        for name in old.namelist():
            content = entries.get(name.partition(".")[0], old.read(name))
            new.writestr(name, content if isinstance(content, bytes) else json.dumps(content))
    return path


def schema_of(path):
    with zipfile.ZipFile(path) as archive:
        return json.loads(archive.read("schema.json"))


@pytest.mark.parametrize("name", MODELS)
def test_loaded_model_is_the_same(fitted, tmp_path, name):
    model = fitted[name]
    model.save(tmp_path / "m.skops")
    loaded = type(model).load(tmp_path / "m.skops")
    assert repr(loaded) == repr(model)  # with the parameters of its encoder
    np.testing.assert_array_equal(loaded.predict(FRAME), model.predict(FRAME))
    for method in ("predict_interval", "predict_proba"):
        if hasattr(model, method):
            np.testing.assert_array_equal(getattr(loaded, method)(FRAME), getattr(model, method)(FRAME))
    with zipfile.ZipFile(tmp_path / "m.skops") as archive:
        for entry in archive.namelist():
            if entry.endswith(".npy"):
                np.load(io.BytesIO(archive.read(entry)), allow_pickle=False)  # nothing is pickled


def test_other_class_is_named(model_file):
    with pytest.raises(ValueError, match=r"m\.skops has a TableRegressor; read it by TableRegressor\.load"):
        TableClassifier.load(model_file)


def test_name_of_a_model_file(fitted, tmp_path):
    with pytest.raises(ValueError, match=r"must end in \.skops, and .*model\.bin does not"):
        fitted["landmarks"].save(tmp_path / "model.bin")


def test_failed_save_keeps_the_old_file(fitted, model_file, tmp_path, monkeypatch):
    path = tmp_path / "m.skops"
    path.write_bytes(model_file.read_bytes())

    def dump_a_part(model, file):
        file.write_bytes(b"PK")
        raise OSError("The disk is full.")

    monkeypatch.setattr(skops.io, "dump", dump_a_part)
    with pytest.raises(OSError, match="disk is full"):
        save(fitted["classes"], path)
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
    with pytest.raises(ValueError, match="is not a model file; give a file written by `bochner fit`"):
        load(tmp_path / "m.skops")


def test_file_of_another_program_is_refused(tmp_path):
    skops.io.dump(Ridge().fit([[0.0], [1.0]], [0.0, 1.0]), tmp_path / "m.skops")
    with pytest.raises(ValueError, match=r"cannot be used; .* it contains a Ridge and no model of a table"):
        load(tmp_path / "m.skops")


def test_versions_are_named(model_file, tmp_path, monkeypatch):
    schema = schema_of(model_file)
    schema["content"]["content"]["effort"] = {"__class__": "New", "__module__": "bochner.tables", "__loader__": "x"}
    path = rewrite(tmp_path / "m.skops", model_file, schema=schema, bochner={"version": "7.5"})
    with pytest.raises(ValueError, match=r"was written by bochner 7\.5, and this is 0\.1\.0; fit the model again"):
        load(path)
    assert load(rewrite(tmp_path / "m.skops", model_file, bochner={"version": "7.5"})).score(FRAME, Y) > 0.5


@pytest.mark.parametrize(
    ("module", "name", "loader"),
    [
        ("os", "system", "TypeNode"),
        ("builtins", "eval", "FunctionNode"),
        ("nothing.here", "Model", "TypeNode"),
        ("bochner.atomic_files", "replaced_file", "FunctionNode"),
        ("bochner.tables.model_files", "Path", "TypeNode"),
    ],
)
def test_crafted_file_runs_no_code(model_file, tmp_path, module, name, loader):
    schema = schema_of(model_file)
    crafted = {"__class__": name, "__module__": module, "__loader__": loader, "__id__": 1, "content": {}}
    schema["content"]["content"]["effort"] = crafted
    with pytest.raises(ValueError, match=rf"m\.skops cannot be used; .* unknown type {module}\.{name}"):
        load(rewrite(tmp_path / "m.skops", model_file, schema=schema))


def test_changed_array_header_is_refused(model_file, tmp_path):
    path = tmp_path / "m.skops"
    with zipfile.ZipFile(model_file) as old, zipfile.ZipFile(path, "w") as new:
        for name in old.namelist():
            new.writestr(name, old.read(name).replace(b" \n", b"{\n", 1) if name.endswith("npy") else old.read(name))
    with pytest.raises(ValueError, match="cannot be used"):
        load(path)


def test_error_message_without_skops(fitted, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "skops.io", None)
    monkeypatch.delitem(sys.modules, "bochner.tables.model_files")
    with pytest.raises(ImportError, match=r"Model files need skops: pip install 'bochner\[cli\]'"):
        fitted["landmarks"].save(tmp_path / "m.skops")
