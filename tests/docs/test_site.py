# SPDX-License-Identifier: BSD-3-Clause
"""The site builds without a warning, its links lead somewhere, and its pages can be read in a browser."""

import html
import json
import re
import shutil
import subprocess
import sys
import threading
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from tests.browser import CHROMIUM, OPTIONS, needs_chromium

pytest.importorskip("sphinx_gallery", reason="the packages of the documentation are not installed")
pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
EXAMPLE = "plot_quantiles"  # the one example that runs here; `make docs` runs all
PAGES = (
    "index.html",
    "get-started/story.html",
    "guide/scikit-learn-tools.html",
    "guide/fourier-features.html",
    "choosing.html",
    "performance.html",
    "gallery/index.html",
    "api/index.html",
    "api/generated/bochner.FourierFeatures.html",
    f"gallery/models/{EXAMPLE}.html",
)
THEME_LOG = re.compile(r'"\[PST\]|"Got invalid theme mode')  # what the theme tells its own developers
HARNESS = """<!doctype html><meta charset="utf-8"><body style="margin:0"><script>
const pages = %s, found = [];
const wait = (milliseconds) => new Promise((resolve) => setTimeout(resolve, milliseconds));
async function open(page, width) {
  const frame = document.createElement("iframe");
  frame.style = `width: ${width}px; height: 900px; border: 0`;
  frame.src = page;
  const loaded = new Promise((resolve) => { frame.onload = resolve; });
  document.body.append(frame);
  await loaded;
  return frame;
}
async function run() {
  for (const page of pages) for (const width of [1280, 400]) {
    const frame = await open(page, width), inside = frame.contentDocument;
    for (const image of inside.images) image.loading = "eager";
    for (let i = 0; i < 100 && [...inside.images].some((e) => !e.complete); i++) await wait(50);
    const style = frame.contentWindow.getComputedStyle(inside.body);
    found.push({page, width, scroll: inside.documentElement.scrollWidth, ink: style.color,
      text: inside.querySelector("article").innerText.length,
      paper: style.backgroundColor,
      images: [...inside.images].filter((e) => !e.naturalWidth).map((e) => e.src), n_images: inside.images.length});
    frame.remove();
  }
  const frame = await open("search.html?q=length_scale", 1280);
  let hits = [];
  for (let i = 0; i < 100 && !hits.length; i++) {
    await wait(100);
    hits = [...frame.contentDocument.querySelectorAll("#search-results li a")].map((e) => e.href);
  }
  document.body.innerHTML = "<pre id=found></pre>";
  document.body.firstChild.textContent = JSON.stringify({found, hits});
}
run();
</script>"""


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The site, built from a copy of the sources with one example of the gallery."""
    folder = tmp_path_factory.mktemp("repository")
    generated = shutil.ignore_patterns("_build", "generated", "gallery", "__pycache__")
    for name in ("docs", "examples"):
        shutil.copytree(ROOT / name, folder / name, ignore=generated)
    for name in ("CHANGELOG.md", "CONTRIBUTING.md"):
        shutil.copy(ROOT / name, folder)
    command = "sphinx --quiet --nitpicky --fail-on-warning docs site -D"
    setting = f"sphinx_gallery_conf.filename_pattern={EXAMPLE}"
    arguments = [sys.executable, "-m", *command.split(), setting]
    done = subprocess.run(arguments, cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]
    return folder / "site"


@pytest.fixture(scope="module", params=["light", "dark"])
def opened(request, site, tmp_path_factory):
    """The color scheme, measurements of the pages and hits of the search in a browser, and messages of its console."""
    (site / "harness.html").write_text(HARNESS % json.dumps(PAGES), encoding="utf-8")
    handler = type("Quiet", (SimpleHTTPRequestHandler,), {"log_message": lambda *arguments: None})
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(handler, directory=site)) as server:
        threading.Thread(target=server.serve_forever).start()
        options = [
            f"--user-data-dir={tmp_path_factory.mktemp('browser')}",
            f"--blink-settings=preferredColorScheme={int(request.param == 'light')}",
            f"http://127.0.0.1:{server.server_port}/harness.html",
        ]
        command = [CHROMIUM, *OPTIONS.replace("budget=20000", "budget=120000").split(), *options]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=240, check=True)
        finally:
            server.shutdown()
    text = re.search(r'<pre id="found">(.*?)</pre>', done.stdout, re.S)
    assert text, done.stdout[-500:]
    lines = [line for line in done.stderr.splitlines() if "CONSOLE" in line]
    messages = [line for line in lines if not THEME_LOG.search(line)]
    return request.param, json.loads(html.unescape(text[1])), messages


def test_links_lead_somewhere(site):
    command = [sys.executable, ROOT / "docs/check_links.py", site]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_a_broken_link_is_found(tmp_path):
    (tmp_path / "page.html").write_text('<a href="#here" id="here"></a><a href="page.html#there"></a><img src="x.png">')
    done = subprocess.run([sys.executable, ROOT / "docs/check_links.py", tmp_path], capture_output=True, text=True)
    assert sorted(done.stderr.split()) == ["page.html#there", "page.html:", "page.html:", "x.png"]
    assert done.returncode == 1


@needs_chromium
def test_pages_open_in_a_browser(opened):
    scheme, measured, messages = opened
    assert messages == []
    assert len(measured["found"]) == 2 * len(PAGES)
    for page in measured["found"]:
        assert page["scroll"] <= page["width"], page
        assert page["images"] == [], page
        assert page["text"] > 200, page
        ink, paper = (sum(map(int, re.findall(r"\d+", page[name])[:3])) for name in ("ink", "paper"))
        assert (ink > paper) == (scheme == "dark"), page


@needs_chromium
def test_the_search_finds_a_parameter(opened):
    _, measured, _ = opened
    assert any("bochner.FourierFeatures" in hit for hit in measured["hits"])
