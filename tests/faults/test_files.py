# SPDX-License-Identifier: BSD-3-Clause
"""Files from strangers: each is read or refused by one message; no code is executed, and no path is left."""

import zipfile

import numpy as np
import pandas as pd
import pytest

from bochner.table_models.model_files import load, save
from bochner.table_models.training import fit_table
from bochner.tables import sources
from bochner.tables.file_table import FileTable
from tests.cli.commands import run
from tests.faults import crafted, fuzz
from tests.faults.fuzz import read_table
from tests.table_models.cases import SETTINGS, ignore
from tests.tables.tables import make_table, write_table


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    """A model file, and the table that it was fitted on."""
    folder = tmp_path_factory.mktemp("strangers")
    data = write_table(folder / "y.parquet", make_table().drop_columns("kind")[:200])
    save(fit_table(FileTable(data, "y"), SETTINGS["regression"], ignore).model, folder / "m.skops")
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
        with pytest.raises(
            ValueError, match=r"is damaged or not a file written by|was not written by bochner"
        ) as error:
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


def test_entities_of_an_excel_file_are_not_expanded_without_end(tmp_path):
    pytest.importorskip("openpyxl")
    pd.DataFrame({"a": ["x", "y"], "y": [1, 2]}).to_excel(tmp_path / "a.xlsx", index=False)
    with zipfile.ZipFile(tmp_path / "a.xlsx") as archive:
        entries = {name: archive.read(name) for name in archive.namelist()}
    entities = "".join(f'<!ENTITY e{i + 1} "{f"&e{i};" * 10}">' for i in range(12))
    start = f'<?xml version="1.0"?><!DOCTYPE sst [<!ENTITY e0 "xxxxxxxxxx">{entities}]>'.encode()
    name = "xl/worksheets/sheet1.xml"
    entries[name] = start + entries[name].partition(b"?>")[2].replace(b"<v>1</v>", b"<v>&e12;</v>")
    (tmp_path / "b.xlsx").write_bytes(crafted.zip_content(entries))
    assert fuzz.outcome(lambda path: read_table(path, "y"), tmp_path / "b.xlsx") == "refused"


def test_excel_files_have_a_limit(tmp_path, monkeypatch):
    pytest.importorskip("openpyxl")
    monkeypatch.setattr(sources, "LARGEST_SHEET", 10**4)
    (tmp_path / "a.xlsx").write_bytes(crafted.zip_content({"xl/workbook.xml": bytes(10**5)}, 8))
    with pytest.raises(ValueError, match=r"a\.xlsx cannot be read as xlsx: its contents are 100,000 bytes, more than"):
        read_table(tmp_path / "a.xlsx")


@pytest.mark.parametrize("value", ['{"a":' * 200_000, '{"a": ' + "[" * 200_000, '{"a":\n' * 101])
def test_deeply_nested_json_does_not_end_the_process(tmp_path, value):
    (tmp_path / "a.jsonl").write_text(value)
    with pytest.raises(ValueError, match=r"a\.jsonl cannot be read as jsonl: values are nested more than 100 levels"):
        FileTable(tmp_path / "a.jsonl")


def test_brackets_in_text_are_not_nested_values(tmp_path):
    (tmp_path / "a.jsonl").write_text('{"a": "[[\\"[[{' + "[" * 200 + '", "b": 1}\n{"a": "]", "b": 2}\n')
    assert FileTable(tmp_path / "a.jsonl").names == ["a", "b"]


def test_damaged_file_of_a_folder_is_named(tmp_path):
    write_table(tmp_path / "1.parquet", make_table()[:20])
    (tmp_path / "2.parquet").write_bytes(b"PAR1")
    with pytest.raises(ValueError, match=r"2\.parquet cannot be read as parquet: "):
        FileTable(tmp_path, "y")


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
    options = ("--n-frequencies", "16", "--learn", "--page", tmp_path / "page.html", "--output", tmp_path / "m.skops")
    result = run("fit", data, "--target", "<b>y</b>", *options)
    assert result.exit_code == 0, result.output
    page = (tmp_path / "page.html").read_text()
    assert "&lt;b&gt;y" in page
    for tag in ("<script>alert", "<img", "<b>y", "<script>'", "onerror=alert(1)>"):
        assert tag not in page
