# SPDX-License-Identifier: BSD-3-Clause
"""How tests run commands in this process."""

import json

from typer.testing import CliRunner

from bochner.cli import app


def run(*arguments):
    """Run a command."""
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def run_json(*arguments):
    """Run a command that succeeds with --json, and return what it prints."""
    result = run(*arguments, "--json")
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def error_message(*arguments):
    """Run a command that fails with one line on standard error, and return the line."""
    result = run(*arguments)
    assert result.exit_code == 2, result.output
    assert result.stderr.startswith("Error: ")
    assert result.stderr.count("\n") == 1
    return result.stderr
