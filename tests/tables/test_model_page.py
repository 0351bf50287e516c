# SPDX-License-Identifier: BSD-3-Clause
"""Pages of models: what they contain, and how they look in a browser."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from bochner import TableEncoder
from bochner.tables.evaluation import held_out
from bochner.tables.model_page import write_model_page
from tests.browser import assert_stands_alone, needs_chromium, open_page
from tests.tables.models import quick_classifier, quick_regressor

pytest.importorskip("matplotlib")

HOSTILE = '<script>alert("$x^$")</script>'


def make_frame(n_rows=400):
    """Return a table with a column of each kind, names that are special in HTML and in matplotlib, and two targets."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({HOSTILE: rng.normal(size=n_rows), "日付 & more": rng.normal(size=n_rows)})
    frame["city"] = rng.choice(["Paris", "<b>Nice</b>", "Lyon"], size=n_rows)
    frame["day"] = pd.Timestamp("2022-01-01") + pd.to_timedelta(rng.integers(0, 700, size=n_rows), unit="D")
    frame["note"] = [f"<u>note</u> {i}" for i in range(n_rows)]
    frame["price"] = 4.0 * frame[HOSTILE] + 6.0 * (frame["city"] == "Paris") + rng.normal(size=n_rows)
    frame["kind"] = np.where(frame["price"] > 3, "<i>high</i>", np.where(frame["price"] < 0, "low", "middle"))
    frame["two"] = frame["price"] > 3
    return frame


def write_page(target, path):
    frame = make_frame()
    encoder = TableEncoder(drop=[name for name in ("price", "kind", "two") if name != target])
    model = quick_regressor(encoder=encoder) if target == "price" else quick_classifier(encoder=encoder)
    survey = encoder.survey(frame, target)
    other, evaluation = held_out(model.fit(survey, target), survey)
    write_model_page(other, evaluation, path, "80 rows", {"rows": "400"}, Path("a'b.skops"))
    return path.read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    folder = tmp_path_factory.mktemp("model-pages")
    return {target: write_page(target, folder / f"{target}.html") for target in ("price", "kind", "two")}


class TestContent:
    @pytest.mark.parametrize(
        ("target", "titles"),
        [
            ("price", ["Observed and predicted", "Residuals and predicted"]),
            ("kind", ["Confusion of classes", "Calibration"]),
            ("two", ["Confusion of classes", "Calibration"]),
        ],
    )
    def test_page_has_everything(self, pages, target, titles):
        page = pages[target]
        assert_stands_alone(page)
        for title in (*titles, "Importance", "city", "日付 &amp; more"):
            assert f'aria-label="{title}"' in page
        assert page.count("<svg") == page.count("<figure") == 6
        assert "The plots show 80 rows." in page
        assert "load(&#34;a&#39;b.skops&#34;)" in page
        assert "<tr><th>city</th><td>category</td><td>one-hot encoded: 3 categories</td></tr>" in page

    def test_names_are_escaped(self, pages):
        for page in pages.values():
            assert "<script" not in page
            assert "<b>Nice" not in page
            assert "<i>high" not in page
            assert "<u>note" not in page
            assert "&lt;script&gt;alert" in page

    def test_answer_names_the_error(self, pages):
        assert "On new rows R² is 0.9" in pages["price"]
        assert "of new rows is predicted correctly; the most frequent class is that of" in pages["kind"]


@pytest.mark.slow
@needs_chromium
class TestBrowser:
    @pytest.fixture(scope="class", params=["price", "kind"])
    @classmethod
    def opened(cls, request, pages, tmp_path_factory):
        return open_page(pages[request.param], tmp_path_factory.mktemp("browser"))

    @pytest.mark.parametrize("width", [1280, 400])
    def test_nothing_overflows(self, opened, width):
        opened.check_width(width)

    @pytest.mark.parametrize("width", [1280, 400])
    def test_figures_are_large_enough(self, opened, width):
        opened.check_figures(width, least=(250, 140))

    def test_console_is_silent(self, opened):
        assert opened.messages == []

    def test_dark_page_is_readable(self, opened):
        opened.check_contrast()
