# SPDX-License-Identifier: BSD-3-Clause
"""The look of the pictures of the gallery."""

from pathlib import Path
from typing import Any

import matplotlib as mpl
from cycler import cycler

COLORS = (
    "#1f3a5f",
    "#d9601a",
    "#7b9acc",
    "#b5446e",
    "#c9a227",
    "#5f5f5f",
)  # these differ in lightness, for prints in gray


def apply(gallery_conf: dict[str, Any], fname: Path | str) -> None:
    """Set the style before each example."""
    mpl.rcParams.update(
        {
            "axes.prop_cycle": cycler(color=COLORS),
            "axes.spines.right": False,
            "axes.spines.top": False,
            "figure.constrained_layout.use": True,
            "figure.dpi": 110,
            "font.size": 10,
            "image.cmap": "cividis",
            "legend.frameon": False,
        }
    )
