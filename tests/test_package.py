# SPDX-License-Identifier: BSD-3-Clause
"""What can be imported from `bochner` itself."""

import importlib
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import bochner


def test_every_public_name_is_imported_when_it_is_used():
    for name in bochner.__all__:
        value = getattr(bochner, name)
        assert value.__name__ == name
        assert name in dir(bochner)
    assert bochner.__version__ == importlib.metadata.version("bochner")


def test_modules_are_attributes():
    assert bochner.kernels.Matern is importlib.import_module("bochner.kernels").Matern


def test_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="module 'bochner' has no attribute 'FourierRige'"):
        _ = bochner.FourierRige


def test_import_of_the_package_loads_none_of_its_modules():
    code = "import sys, bochner; print([name for name in sys.modules if name.startswith(('bochner.', 'sklearn'))])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


@pytest.mark.parametrize("missing", ["typer", "skops"])
def test_command_line_reports_missing_packages(missing):
    code = f"import sys; sys.modules[{missing!r}] = None; from bochner.__main__ import main; main()"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr == f"Error: the command line needs {missing}: pip install 'bochner[cli]'.\n"


def test_package_runs_as_a_module():
    done = subprocess.run([sys.executable, "-m", "bochner", "-h"], capture_output=True, text=True, check=True)
    assert "Usage: bochner [OPTIONS] COMMAND" in done.stdout


def test_display_reports_that_matplotlib_is_missing(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    display = bochner.KernelErrorDisplay([16], {"a": [[0.1]]})
    with pytest.raises(ImportError, match=r"Displays need matplotlib: pip install 'bochner\[plot\]'"):
        display.plot()


class TestRelease:
    """Files for releases repeat what pyproject.toml says."""

    root = Path(__file__).parent.parent

    @pytest.fixture
    def project(self):
        return tomllib.loads((self.root / "pyproject.toml").read_text("utf-8"))["project"]

    def test_version(self, project):
        assert f"version: {project['version']}\n" in (self.root / "CITATION.cff").read_text("utf-8")
        assert f'version: "{project["version"]}"\n' in (self.root / "conda" / "recipe.yaml").read_text("utf-8")

    def test_requirements_of_the_conda_recipe(self, project):
        recipe = (self.root / "conda" / "recipe.yaml").read_text("utf-8")
        for requirement in project["dependencies"]:
            name, _, version = requirement.partition(">=")
            assert f"    - {name} >={version}\n" in recipe
