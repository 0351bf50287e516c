# SPDX-License-Identifier: BSD-3-Clause
"""Configuration of the documentation site: `make docs` builds it in docs/_build/html."""

import re
import sys
from importlib.metadata import version as installed_version
from pathlib import Path

from sphinx.application import Sphinx

sys.path.insert(0, str(Path(__file__).parent / "_extensions"))

project = "bochner"
author = "The bochner developers"
copyright = author
version = release = installed_version("bochner")

extensions = [
    "commands",
    "gallery_style",
    "mathml",
    "myst_parser",
    "numpydoc",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx_copybutton",
    "sphinx_design",
    "sphinx_gallery.gen_gallery",
    "typography",
]
exclude_patterns = ["_build", "**/GALLERY_HEADER.rst", "guide/reproduction-report.md"]
templates_path = ["_templates"]
nitpicky = True
smartquotes = False  # options such as --fast and values in quotes are shown as they are typed
default_role = "autolink"  # a link where the name is public, and italics where it is not

# Pages in Markdown
myst_enable_extensions = ["amsmath", "attrs_block", "colon_fence", "deflist", "dollarmath"]
myst_heading_anchors = 4
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True

# Reference, from the docstrings
autosummary_generate = True
autodoc_typehints = "none"
toc_object_entries_show_parents = "hide"
numpydoc_show_class_members = False
numpydoc_class_members_toctree = False
# Pages of other projects are not linked, to build without a network; nor are internal packages that docstrings name.
nitpick_ignore_regex = [(r"py:.*", r"(?!bochner).*|bochner\.(rows|feature_maps|compression)\..*")]

# Members that estimators and their parts have for each other, for subclasses or from scikit-learn's machinery are not
# for users; nor are fitted attributes repeated, which the docstring of the class lists.
INTERNAL = {
    *("fit_length_scales", "fit_rows", "size_parameters"),
    *("finalize", "gradients"),
    *("get_metadata_routing", "set_output", "count", "index"),
    *("gradient_at", "log_embedding", "log_factor_embedding", "slope", "mixing", "profile", "factor"),
    *("quantile", "radii", "uniform_dim", "check_kernel", "points", "compress"),
}


def skip_member(app: Sphinx, what: str, name: str, member: object, *rest: object) -> bool | None:
    """Tell autodoc to leave out a member; None keeps the default."""
    is_absent = name == "predict_proba" and isinstance(member, property)  # FeatureClassifier has none, and says so
    return True if is_absent or name in INTERNAL or name.endswith(("_", "_request")) else None


def drop_labels(app: Sphinx, what: str, name: str, obj: object, options: object, lines: list[str]) -> None:
    """Replace links to labels of scikit-learn's site, in docstrings that are inherited from it, by their text."""
    lines[:] = [re.sub(r":ref:`([^`<]*?)\s*(?:<[^>]*>)?`", r"\1", line) for line in lines]


def write_llms(app: Sphinx, exception: Exception | None) -> None:
    """Write llms.txt, an overview for language models: the facts of docs/llms.txt and a list of all pages."""
    if exception is None and app.builder.format == "html":
        titles = {name: title.astext() for name, title in app.env.titles.items() if "generated/" not in name}
        pages = [f"- [{title}]({name}.html)" for name, title in sorted(titles.items())]
        facts = (app.srcdir / "llms.txt").read_text(encoding="utf-8")
        (app.outdir / "llms.txt").write_text("\n".join([facts, "## Pages", "", *pages, ""]), encoding="utf-8")


def setup(app: Sphinx) -> None:
    """Connect the events of the build."""
    app.connect("build-finished", write_llms)
    app.connect("autodoc-skip-member", skip_member)
    app.connect("autodoc-process-docstring", drop_labels)


# Gallery
sphinx_gallery_conf = {
    "examples_dirs": ["../examples"],
    "gallery_dirs": ["gallery"],
    "filename_pattern": r"/plot_",
    "ignore_pattern": r"/serve/|__init__\.py",
    "subsection_order": [f"../examples/{name}" for name in ("models", "learning", "approximation", "scale", "beyond")],
    "within_subsection_order": "FileNameSortKey",
    "reset_modules": ("gallery_style.apply",),
    "image_scrapers": ("gallery_style.scrape",),
    "backreferences_dir": "api/generated/backreferences",
    "doc_module": ("bochner",),
    "remove_config_comments": True,
    "download_all_examples": False,
    "show_signature": False,
    "write_computation_times": False,
    "min_reported_time": 60,
    "abort_on_example_error": True,
    "capture_repr": (),  # examples print what they show
}

# Look
html_theme = "pydata_sphinx_theme"
html_title = "bochner"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_show_sourcelink = False
html_math_renderer = "mathml"
html_theme_options = {
    "logo": {"text": "bochner"},
    "navbar_align": "left",
    "header_links_before_dropdown": 7,
    "navbar_end": ["theme-switcher"],
    "secondary_sidebar_items": ["page-toc"],
    "footer_start": ["copyright"],
    "footer_end": [],
    "show_prev_next": False,
    "show_toc_level": 2,
    "pygments_light_style": "a11y-high-contrast-light",
    "pygments_dark_style": "a11y-high-contrast-dark",
}
html_sidebars = {"index": [], "choosing": [], "faq": [], "performance": [], "changelog": []}

# Links: `make linkcheck`
linkcheck_ignore = [r"https?://"]  # the network is not always there; only files of the site are checked
