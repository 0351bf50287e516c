# SPDX-License-Identifier: BSD-3-Clause
"""The page about the architecture names modules that exist, and its picture all packages."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "bochner"
PAGE = (ROOT / "docs" / "contributing" / "architecture.md").read_text(encoding="utf-8")
PICTURE = (ROOT / "docs" / "images" / "architecture.svg").read_text(encoding="utf-8")


def test_modules_exist():
    names = set(re.findall(r"`([a-z_]+\.[a-z_]+)`", PAGE))
    assert len(names) > 30
    for name in names:
        path = Path(*name.split(".")).with_suffix(".py")
        assert (SOURCE / path).exists() or (ROOT / path).exists(), name


def test_picture_has_all_packages_and_modules():
    for path in SOURCE.iterdir():
        if path.suffix == ".py" or (path / "__init__.py").exists():
            name = path.stem if path.suffix else f"{path.name}/"
            assert name.startswith("__") or name == "function_kernels" or name in PICTURE, name
