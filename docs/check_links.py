# SPDX-License-Identifier: BSD-3-Clause
"""Check the links of the built site to its own pages, pictures and anchors: `make linkcheck`."""

import sys
from functools import cache
from pathlib import Path
from urllib.parse import unquote, urlsplit

from bs4 import BeautifulSoup


@cache
def page(path: Path) -> BeautifulSoup:
    """Return a parsed page."""
    return BeautifulSoup(path.read_text(encoding="utf-8"), "html.parser")


@cache
def anchors(path: Path) -> set[str]:
    """Return the names that links to a page can end in."""
    return {str(tag["id"]) for tag in page(path).find_all(id=True)}


def broken_links(site: Path) -> list[str]:
    """Return one line per link of the site that leads nowhere."""
    broken = []
    for path in sorted(site.rglob("*.html")):
        if "_static" in path.parts:  # templates of the theme
            continue
        tags = page(path).find_all(["a", "img", "link", "script"])
        for link in {str(tag.get("href") or tag.get("src") or "") for tag in tags}:
            target = urlsplit(link)
            if target.scheme or target.netloc or not link:
                continue
            file = (path.parent / unquote(target.path)).resolve() if target.path else path
            missing = not file.exists() or (
                target.fragment and file.suffix == ".html" and target.fragment not in anchors(file)
            )
            if missing:
                broken.append(f"{path.relative_to(site)}: {link}")
    return broken


if __name__ == "__main__":
    lines = broken_links(Path(sys.argv[1]).resolve())
    sys.exit("\n".join(lines) or 0)
