# SPDX-License-Identifier: BSD-3-Clause
"""Self-contained pages: `document` makes HTML of text and tables, `pictures` draws figures as SVG elements."""

from bochner.pages.document import Table as Table
from bochner.pages.document import bullets as bullets
from bochner.pages.document import code as code
from bochner.pages.document import paragraph as paragraph
from bochner.pages.document import picture_grid as picture_grid
from bochner.pages.document import quote as quote
from bochner.pages.document import render as render
from bochner.pages.document import versions as versions
from bochner.pages.document import write_atomically as write_atomically
from bochner.pages.pictures import subplots as subplots
from bochner.pages.pictures import svg as svg
