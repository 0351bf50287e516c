# SPDX-License-Identifier: BSD-3-Clause
"""Targets, commands, options, modules, parameters and files that the pages name exist."""

import ast
import importlib
import importlib.util
import inspect
import re
from pathlib import Path

import click
import pytest
import typer

import bochner
from bochner.cli import app

ROOT = Path(__file__).parents[2]
PAGES = [
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md")),
    *(
        path
        for path in sorted((ROOT / "docs").rglob("*.md"))
        if "_build" not in path.parts and "gallery" not in path.parts
    ),
]
CODE = re.compile(r"^(`{3,}).*?^\1$|(?<!`)`([^`]+)`(?!`)", re.MULTILINE | re.DOTALL)
GROUP = typer.main.get_command(app)
COMMANDS = {name: GROUP.get_command(click.Context(GROUP), name) for name in GROUP.list_commands(click.Context(GROUP))}
TARGETS = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
MODULES = {path.stem for path in (ROOT / "src/bochner").iterdir() if not path.name.startswith("_")}
SUFFIXES = (".csv", ".lock")
FOLDERS = tuple(f"{path.name}/" for path in ROOT.iterdir() if path.is_dir())


def options(command):
    """Return the options of a command."""
    return {option for parameter in command.params for option in parameter.opts if option.startswith("-")} | {"--help"}


def pieces(page):
    """Return the blocks and words of a page that are code."""
    return [found[2] or found[0] for found in CODE.finditer(page.read_text(encoding="utf-8"))]


def exists(name):
    """Tell whether a dotted name is a module or an attribute of one."""
    parts = name.split(".")
    for n in range(len(parts), 0, -1):
        try:
            found = importlib.import_module(".".join(parts[:n]))
        except ModuleNotFoundError:
            continue
        for part in parts[n:]:
            found = getattr(found, part, None) or getattr(found, "__annotations__", {}).get(part)
        return found is not None
    return False


def unknown_shell_words(code):
    """Yield targets of make, commands and options of bochner, and modules of `python -m` that do not exist."""
    for target in re.findall(r"\bmake ([a-z][a-z-]*)", code):
        if target not in TARGETS:
            yield f"make {target}"
    for name, rest in re.findall(r"^bochner ([a-z]+)\b(.*)", code, re.MULTILINE):
        if name not in COMMANDS:
            yield f"bochner {name}"
        else:
            used = re.findall(r" (--[a-z][a-z-]*)", re.split(r"[|#]", rest)[0])
            yield from (f"bochner {name} {option}" for option in used if option not in options(COMMANDS[name]))
    for option in re.findall(r"^(--[a-z][a-z-]*)", code):
        if not any(option in options(command) for command in (GROUP, *COMMANDS.values())):
            yield option
    for name in re.findall(r"\bpython -m ((?:tests|reproduction|bochner)[\w.]*)", code):
        if importlib.util.find_spec(name) is None:
            yield name


def unknown_names(code):
    """Yield dotted names of modules, their members, and paths that do not exist."""
    names = re.findall(r"\bbochner(?:\.\w+)+(?!\w*[-(])", code)
    if re.fullmatch(r"\w+(\.\w+)+", code) and code.partition(".")[0] in MODULES and not code.endswith(SUFFIXES):
        names.append(f"bochner.{code}")
    yield from (name for name in names if not exists(name))
    is_path = code.startswith(FOLDERS) and "_build" not in code and re.fullmatch(r"[a-z0-9_./-]+", code)
    if is_path and not (ROOT / code).exists():
        yield code


def unknown_parameters(code):
    """Yield keyword arguments in calls of our classes that these do not have."""
    try:
        calls = [node for node in ast.walk(ast.parse(code)) if isinstance(node, ast.Call)]
    except SyntaxError:
        return
    for call in calls:
        called = getattr(bochner, getattr(call.func, "id", ""), None)
        if inspect.isclass(called):
            known = inspect.signature(called).parameters
            yield from (f"{called.__name__}({word.arg}=)" for word in call.keywords if word.arg not in {None, *known})


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_names_exist(page):
    checks = (unknown_shell_words, unknown_names, unknown_parameters)
    assert [name for code in pieces(page) for check in checks for name in check(code)] == []


def test_unknown_names_are_found():
    code = "bochner fit a.csv --headless && make nothing && python -m tests.none"
    assert list(unknown_shell_words(code)) == ["make nothing", "bochner fit --headless", "tests.none"]
    assert list(unknown_shell_words("--no-such-option 3")) == ["--no-such-option"]
    assert [*unknown_names("rows.none"), *unknown_names("docs/none.md")] == ["bochner.rows.none", "docs/none.md"]
    assert list(unknown_parameters("FourierFeatures(width=3)")) == ["FourierFeatures(width=)"]


def test_picture_of_the_architecture_has_all_packages_and_modules():
    picture = (ROOT / "docs/images/architecture.svg").read_text(encoding="utf-8")
    for path in (ROOT / "src/bochner").iterdir():
        if path.suffix == ".py" or (path / "__init__.py").exists():
            name = path.stem if path.suffix else f"{path.name}/"
            assert name.startswith("__") or name in picture, name
