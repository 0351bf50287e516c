# SPDX-License-Identifier: BSD-3-Clause
"""The look of the pictures of the gallery, and thumbnails that show one panel of them."""

import shutil
from pathlib import Path
from typing import Any

import matplotlib as mpl
import matplotlib.pyplot as plt
from cycler import cycler
from matplotlib.figure import Figure
from sphinx.application import Sphinx
from sphinx_gallery.scrapers import matplotlib_scraper

COLORS = (
    "#1f3a5f",
    "#d9601a",
    "#7b9acc",
    "#b5446e",
    "#c9a227",
    "#5f5f5f",
)  # these differ in lightness, for prints in gray

# The figure and the panel of an example that are its thumbnail, unless it is the first panel of the first figure.
PANELS = {
    "plot_clustering": (0, 1),
    "plot_decision_regions": (0, 5),
    "plot_kernel_error": (1, 0),
    "plot_learned_length_scales": (0, 1),
    "plot_table_model": (0, 1),
    "plot_target_weights": (0, 1),
    "plot_two_samples": (1, 1),
}


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


def scrape(block: Any, block_vars: dict[str, Any], gallery_conf: dict[str, Any]) -> str:
    """Save the figures of a block, and the panel that is the thumbnail of the example."""
    images, name = block_vars["image_path_iterator"], Path(block_vars["src_file"]).stem
    chosen, panel = PANELS.get(name, (0, 0))
    for place, number in enumerate(plt.get_fignums(), start=len(images)):
        if place == chosen:
            path = Path(images.image_path).parent / f"{name}_main.png"
            _save_panel(plt.figure(number), panel, path)
    return matplotlib_scraper(block, block_vars, gallery_conf)


def _save_panel(figure: Figure, panel: int, path: Path) -> None:
    """Save one of the axes of a figure without its labels and legends, which a thumbnail is too small for."""
    axes = figure.axes[panel]
    figure.canvas.draw()  # which moves the axes to their places
    figure.set_layout_engine("none")
    extent = axes.get_window_extent().padded(6).transformed(figure.dpi_scale_trans.inverted())
    legends = [*figure.legends, *filter(None, [axes.get_legend()])]
    for legend in legends:
        legend.set_visible(False)
    figure.savefig(path, bbox_inches=extent, dpi=480 / extent.width)
    for legend in legends:
        legend.set_visible(True)


def replace_thumbnails(app: Sphinx) -> None:
    """Replace thumbnails of whole figures, in which nothing can be read, by those of one panel."""
    for path in (app.srcdir / "gallery").glob("*/images/*_main.png"):
        name = path.name.replace("_main", "_thumb")
        shutil.copy(path, path.parent / "thumb" / f"sphx_glr_{name}")


def setup(app: Sphinx) -> dict[str, bool]:
    """Connect the event, after the gallery's own."""
    app.connect("builder-inited", replace_thumbnails, priority=900)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
