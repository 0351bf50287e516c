# SPDX-License-Identifier: BSD-3-Clause
from importlib.metadata import version

import pytest

from bochner.cli.console import check_output, comma_separated
from tests.cli.commands import run


def test_version():
    assert run("--version").stdout == f"bochner {version('bochner')}\n"


def test_help_lists_the_commands():
    result = run("--help")
    assert result.exit_code == 0
    for command in ("demo", "compare", "reproduce", "fit", "predict", "error"):
        assert f" {command} " in result.stdout


@pytest.mark.parametrize(
    ("values", "items"),
    [(None, []), (["a,b", "c"], ["a", "b", "c"]), (["a, b"], ["a", "b"]), (['"price, EUR",b'], ["price, EUR", "b"])],
)
def test_comma_separated(values, items):
    assert comma_separated(values) == items


def test_output_through_a_link_does_not_overwrite_an_input(tmp_path):
    (tmp_path / "input.csv").write_text("x")
    (tmp_path / "link.csv").symlink_to(tmp_path / "input.csv")
    with pytest.raises(ValueError, match="would overwrite an input file; give another name"):
        check_output(tmp_path / "link.csv", tmp_path / "input.csv")
    check_output(tmp_path / "new.csv", tmp_path / "input.csv")
