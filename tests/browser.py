# SPDX-License-Identifier: BSD-3-Clause
"""How tests open pages in a browser."""

import html
import json
import re
import shutil
import subprocess
from dataclasses import dataclass

import pytest

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
WIDTHS = (1280, 400)
# The page is measured in frames of given widths, because the window of a browser has a minimum width.
HARNESS = """<!doctype html><meta charset="utf-8"><body style="margin:0"><script>
const page = %s, widths = %s, found = {};
let left = widths.length;
for (const width of widths) {
  const frame = document.createElement("iframe");
  frame.style = `width: ${width}px; height: 900px; border: 0`;
  frame.onload = () => {
    const inside = frame.contentDocument;
    const box = (element) => element.getBoundingClientRect();
    const wide = [...inside.querySelectorAll("body *")].filter(
      (e) => (e.matches("caption") || !e.closest(".scroll, svg")) && box(e).right > width + 0.5);
    const style = (element, name) => frame.contentWindow.getComputedStyle(element)[name];
    const figure = inside.querySelector("figure svg");
    const texts = [...inside.querySelectorAll("figure svg text")];
    found[width] = {
      scroll: inside.documentElement.scrollWidth,
      wide: wide.map((e) => e.outerHTML.slice(0, 80)),
      figures: [...inside.querySelectorAll("figure svg")].map((e) => [box(e).width, box(e).height]),
      letters: texts.map((e) => parseFloat(style(e, "fontSize")) * e.getCTM().a).filter((size) => size > 0),
      text: inside.body.innerText.length,
      ink: style(inside.body, "color"),
      paper: style(inside.body, "backgroundColor"),
      filter: figure ? style(figure, "filter") : "none",
    };
    if (--left === 0) document.body.innerHTML = "<pre id=found>" + JSON.stringify(found) + "</pre>";
  };
  frame.srcdoc = page;
  document.body.append(frame);
}
</script>"""
OPTIONS = (
    "--headless --no-sandbox --disable-gpu --disable-quic --disable-background-networking --disable-component-update "
    "--disable-sync --no-first-run --enable-logging=stderr --window-size=1400,1000 --virtual-time-budget=20000 "
    "--dump-dom"
)

needs_chromium = pytest.mark.skipif(
    CHROMIUM is None, reason="no Chromium to open the page with; install the package chromium"
)


@dataclass(frozen=True)
class OpenedPage:
    """Measurements of a page in a browser, light and dark, and messages of the console."""

    found: dict
    dark: dict
    messages: list
    n_figures: int

    def check_width(self, width):
        assert self.found[width]["scroll"] <= width
        assert self.found[width]["wide"] == []

    def check_figures(self, width, least=(250, 200)):
        """Check that no figure is a thumbnail and that their letters can be read."""
        figures = self.found[width]["figures"]
        assert len(figures) == self.n_figures
        assert all(wide >= least[0] and high >= least[1] for wide, high in figures)
        assert min(self.found[width]["letters"]) > 6.0

    def check_contrast(self):
        """Check that text is dark on light, and light on dark where that is preferred, and that figures follow."""
        for found, is_dark in ((self.found, False), (self.dark, True)):
            ink, paper = (_lightness(found[1280][name]) for name in ("ink", "paper"))
            assert (ink > paper) == is_dark
            assert abs(ink - paper) > 150
            assert ("invert" in found[1280]["filter"]) == is_dark


def assert_stands_alone(page):
    """Check that a page needs no other file, and that its links and identifiers fit together."""
    assert not re.search(r"(src|href)=.(https?:|//|file:)", page)
    names = re.findall(r'\bid="([^"]*)"', page)
    assert len(names) == len(set(names))
    assert set(re.findall(r'(?:href="#|url\(#)([^")]*)', page)) <= set(names)


def _lightness(color):
    return sum(map(int, re.findall(r"\d+", color)[:3])) / 3


def open_page(page, folder):
    """Open a page in a browser, in light and dark colors."""
    text = json.dumps(page).replace("</", "<\\/")
    (folder / "harness.html").write_text(HARNESS % (text, list(WIDTHS)), encoding="utf-8")
    light, messages = _open(folder, 1)
    dark, more = _open(folder, 0)
    return OpenedPage(light, dark, messages + more, page.count("<figure"))


def _open(folder, color_scheme):
    options = [f"--user-data-dir={folder / str(color_scheme)}", f"--blink-settings=preferredColorScheme={color_scheme}"]
    done = subprocess.run(
        [CHROMIUM, *OPTIONS.split(), *options, f"file://{folder / 'harness.html'}"],
        capture_output=True,
        text=True,
        timeout=300,
        check=True,
    )
    found = re.search(r'<pre id="found">(.*?)</pre>', done.stdout, re.S)
    assert found, done.stdout[-500:]
    measured = {int(width): values for width, values in json.loads(html.unescape(found[1])).items()}
    return measured, [line for line in done.stderr.splitlines() if "CONSOLE" in line]
