# SPDX-License-Identifier: BSD-3-Clause
"""Files from strangers: each is read or refused by one message; no code is executed, and no path is left."""

import numpy as np
import pytest

from bochner.tables.model_files import load
from bochner.tables.reader import Table
from tests.cli.commands import run
from tests.faults import crafted, fuzz
from tests.faults.fuzz import read_table
from tests.tables.models import quick_regressor
from tests.tables.tables import make_table, write_table


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    """A model file, and the table that it was fitted on."""
    folder = tmp_path_factory.mktemp("strangers")
    data = write_table(folder / "y.parquet", make_table().drop_columns("kind")[:200])
    quick_regressor().fit(data, "y").save(folder / "m.skops")
    return folder / "m.skops", data


@pytest.fixture
def canary(tmp_path):
    """A file that crafted files would create; it must not exist afterwards."""
    path = tmp_path / "canary"
    yield path
    assert not path.exists()


def test_crafted_model_files_are_refused(model, canary, tmp_path):
    path, data = model
    n_files = 0
    for name, content in crafted.model_files(path, canary):
        (tmp_path / name).write_bytes(content)
        with pytest.raises(ValueError, match=r"is not a model file|cannot be used") as error:
            load(tmp_path / name)
        assert type(error.value) is ValueError
        assert "\n" not in str(error.value)
        n_files += 1
    assert n_files >= 20
    result = run("predict", tmp_path / "encoding.skops", data, "--output", tmp_path / "p.csv")
    assert result.exit_code == 2
    assert result.stderr.count("\n") == 1
    assert not (tmp_path / "p.csv").exists()


def test_extension_types_of_parquet_files_are_not_unpickled(canary, tmp_path):
    (tmp_path / "a.parquet").write_bytes(crafted.parquet_with_code(canary))
    fuzz.outcome(lambda path: read_table(path, "y"), tmp_path / "a.parquet")


def test_damaged_file_of_a_folder_is_named(tmp_path):
    write_table(tmp_path / "1.parquet", make_table()[:20])
    (tmp_path / "2.parquet").write_bytes(b"PAR1")
    with pytest.raises(ValueError, match=r"2\.parquet cannot be read as parquet: "):
        Table(tmp_path, "y")


@pytest.mark.parametrize("step", [600, pytest.param(8, marks=pytest.mark.slow)])
def test_damaged_files_are_read_or_refused_by_one_message(tmp_path, step):
    n_tried = 0
    for case in fuzz.cases(tmp_path):
        outcomes = fuzz.fuzz(case, step, tmp_path)
        assert set(outcomes) <= {"read", "refused"}, (case[0], outcomes)
        n_tried += outcomes.total()
    assert n_tried > 100


@pytest.mark.slow
def test_names_of_columns_are_text_on_pages(tmp_path, rng):
    names = ["<script>alert(1)</script>", "</svg><img src=x onerror=alert(1)>", "$\\frac{$"]
    columns = dict(zip(names, rng.normal(size=(3, 150)), strict=True))
    columns["<b>y</b>"] = np.sin(columns[names[0]])
    columns["kind"] = np.where(rng.random(150) < 0.5, "</text><script>", "plain")
    data = write_table(tmp_path / "a.parquet", columns)
    options = ("--fast", "--page", tmp_path / "page.html", "--output", tmp_path / "m.skops")
    result = run("fit", data, "--target", "<b>y</b>", *options)
    assert result.exit_code == 0, result.output
    page = (tmp_path / "page.html").read_text()
    assert "&lt;b&gt;y" in page
    for tag in ("<script>alert", "<img", "<b>y", "<script>'", "onerror=alert(1)>"):
        assert tag not in page
