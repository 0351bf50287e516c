# SPDX-License-Identifier: BSD-3-Clause
"""Pages of models: what they contain, and how they look in a browser."""

import numpy as np
import pandas as pd
import pytest

from bochner.table_models.diagnostics import diagnose_table, diagnose_training
from bochner.table_models.model_page import column_lines, format_values, write_model_page
from bochner.table_models.predictions import evaluate
from bochner.table_models.training import Settings, fit_table
from bochner.tables.reader import Table
from tests.browser import assert_stands_alone, needs_chromium, open_page

pytest.importorskip("matplotlib")

HOSTILE = '<script>alert("$x^$")</script>'


class Trial:
    """What was tried before a model was chosen."""

    def summary(self):
        return {"kernel": "gaussian", "rmse": 0.91234, "chosen": True}


def make_frame(n_rows=400):
    """Return a table with a column of each kind, names that are special in HTML and in matplotlib, and two targets."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({HOSTILE: rng.normal(size=n_rows), "日付 & more": rng.normal(size=n_rows)})
    frame["city"] = rng.choice(["Paris", "<b>Nice</b>", "Lyon"], size=n_rows)
    frame["day"] = pd.Timestamp("2022-01-01") + pd.to_timedelta(rng.integers(0, 700, size=n_rows), unit="D")
    frame["price"] = 4.0 * frame[HOSTILE] + 6.0 * (frame["city"] == "Paris") + rng.normal(size=n_rows)
    frame["kind"] = np.where(frame["price"] > 3, "<i>high</i>", np.where(frame["price"] < 0, "low", "middle"))
    return frame


def fit(target, n_rows=400, **options):
    frame = make_frame(n_rows).drop(columns={"price": "kind", "kind": "price"}[target])
    settings = Settings("ridge", "auto", ["gaussian"], 32, [1.0], 0)
    return fit_table(Table(frame, target), Settings(**vars(settings) | options), lambda _: None)


def write_page(fitted, path, **report):
    found = diagnose_training(fitted.model, fitted.survey)
    columns = column_lines(fitted.model.encoding.columns)
    write_model_page(found, {"rows": fitted.model.n_rows, **report}, path, columns=columns, model_file="a'b.skops")
    return path.read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    folder = tmp_path_factory.mktemp("model-pages")
    return {target: write_page(fit(target), folder / f"{target}.html") for target in ("price", "kind")}


class TestContent:
    @pytest.mark.parametrize(
        ("target", "titles"),
        [
            ("price", ["Observed against predicted", "Residuals against prediction", "Error by decile of"]),
            ("kind", ["Confusion matrix", "ROC curve", "Calibration"]),
        ],
    )
    def test_page_has_everything(self, pages, target, titles):
        page = pages[target]
        assert_stands_alone(page)
        figures = [*titles, "Importance from gradients", "Importance from shuffled cells"]
        figures += ["Error against the number of training rows", "Error against the number of features"]
        for title in figures:
            assert f'aria-label="{title}' in page
        assert page.count("<svg") == page.count("<figure") == len(figures) + 4
        assert "a held-out fifth of the rows (80 rows)" in page
        assert 'TableModel.load("a\'b.skops")' in page

    def test_names_are_escaped(self, pages):
        for page in pages.values():
            assert "<script" not in page
            assert "<b>Nice" not in page
            assert "<i>high" not in page
            assert "&lt;script&gt;alert" in page
            assert "日付 &amp; more" in page

    def test_answer_names_the_error_and_the_columns(self, pages):
        assert "On new rows R² is 0.9" in pages["price"]
        assert "The columns that matter most are &lt;script&gt;" in pages["price"]
        assert "of new rows is predicted correctly; the most frequent class is that of" in pages["kind"]

    def test_columns_are_described(self, pages):
        assert "<tr><th>city</th><td>category</td><td>one-hot encoded: 3 categories</td></tr>" in pages["price"]
        assert "linear trend in days, sine and cosine of the year, sine and cosine of the week" in pages["price"]

    @pytest.mark.slow
    def test_same_model_makes_the_same_page(self, pages, tmp_path):
        assert write_page(fit("price"), tmp_path / "again.html") == pages["price"]

    def test_page_of_another_table_without_the_target(self, tmp_path):
        model = fit("price").model
        frame = make_frame(100).drop(columns=["price", "kind"])
        found = diagnose_table(model, evaluate(model, frame), "<new>.csv")
        write_model_page(found, {}, tmp_path / "a.html", columns=[])
        page = (tmp_path / "a.html").read_text(encoding="utf-8")
        assert "It is not known how well this model predicts rows that it has not seen." in page
        assert 'aria-label="Importance from gradients"' in page
        assert "shuffled" not in page
        assert "Observed against predicted" not in page

    def test_page_of_another_table(self, tmp_path):
        model = fit("price").model
        found = diagnose_table(model, evaluate(model, make_frame(350)), "<new>.csv")
        write_model_page(found, {}, tmp_path / "a.html", columns=[])
        page = (tmp_path / "a.html").read_text(encoding="utf-8")
        assert "the 350 rows of &lt;new&gt;.csv" in page
        assert "rows per hexagon" in page

    def test_nothing_is_ranked_where_nothing_was_learned(self, tmp_path):
        noise = np.random.default_rng(2).normal(size=400)
        frame = make_frame().drop(columns="kind").assign(price=noise)
        settings = Settings("ridge", "regression", ["gaussian"], 16, [1.0], 0, "learn")
        fitted = fit_table(Table(frame, "price"), settings, lambda _: None)
        page = write_page(fitted, tmp_path / "noise.html", learning_gain=0.0)
        assert "It has learned nothing that predicts new rows." in page
        assert "A ranking of the columns would show noise, so there is none." in page
        assert "matter most" not in page
        assert "Importance from" not in page
        assert "keep their initial length scale" in page

    @pytest.mark.slow
    @pytest.mark.parametrize("trial", [Trial(), Trial().summary()])
    def test_trials_are_listed(self, tmp_path, trial):
        fitted = fit("price", n_rows=100)
        object.__setattr__(fitted.model, "trials", [trial])
        page = write_page(fitted, tmp_path / "a.html")
        assert "What was tried" in page
        assert '<tr><th>gaussian</th><td class="bold">0.9123</td></tr>' in page


def test_kernel_error_has_a_unit():
    report = {"kernel_error": 0.0123, "kernel_error_low": 0.012, "kernel_error_high": 0.0126}
    assert format_values(report) == {
        "kernel error": "1.23 % of the exact kernel matrix (95 % interval 1.2 % to 1.26 %)"
    }


@pytest.mark.slow
@needs_chromium
class TestBrowser:
    @pytest.fixture(scope="class", params=["price", "kind", "svm"])
    @classmethod
    def opened(cls, request, pages, tmp_path_factory):
        folder = tmp_path_factory.mktemp("browser")
        if request.param == "svm":
            fitted = fit("kind", n_frequencies=16, head="svm", learn="learn-matrix")
            return open_page(write_page(fitted, folder / "svm.html", learning_gain=0.1), folder)
        return open_page(pages[request.param], folder)

    @pytest.mark.parametrize("width", [1280, 400])
    def test_nothing_overflows(self, opened, width):
        opened.check_width(width)

    @pytest.mark.parametrize("width", [1280, 400])
    def test_figures_are_large_enough(self, opened, width):
        opened.check_figures(width, least=(250, 140))

    def test_figures_fill_the_width(self, opened):
        for width, per_line in ((1280, 3), (400, 1)):
            assert min(wide for wide, _ in opened.found[width]["figures"]) > 0.85 * min(width - 32, 1056) / per_line

    def test_console_is_silent(self, opened):
        assert opened.messages == []

    def test_dark_page_is_readable(self, opened):
        opened.check_contrast()
