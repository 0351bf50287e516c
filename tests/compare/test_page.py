# SPDX-License-Identifier: BSD-3-Clause
"""What a comparison recommends, and its table and page, for given fits."""

import html
from itertools import product

import numpy as np
import pandas as pd
import pytest

from bochner.compare.comparison import LIMIT
from bochner.compare.methods import METHODS
from bochner.compare.page import comparison_page, comparison_table, recommend, recommendation
from tests.browser import assert_stands_alone, needs_chromium, open_page


def make_comparison(errors, seconds, test_errors=None, n_components=(16,)):
    """Return a comparison with given errors and times by method; other methods are much worse."""
    lines = []
    for size, method in product(n_components, (*METHODS, LIMIT)):
        time = np.nan if method == LIMIT else seconds.get(method, 50.0)
        line = {"n_components": size, "method": method, "kernel_error": errors.get(method, 0.9), "kernel_error_se": 0.0}
        if test_errors is not None:
            test_error = np.nan if method == LIMIT else test_errors.get(method, 0.9)
            line |= {"test_error": test_error, "test_error_se": 0.0}
        lines.append(line | {"fit_seconds": time / 2, "transform_seconds": time / 2, "call": f"Call({method!r})"})
    found = pd.DataFrame(lines)
    task = None if test_errors is None else "regression"
    sizes = {"n_rows": 240, "n_columns": 3, "n_train": 120, "n_test": 120, "n_seeds": 2}
    found.attrs = {"task": task, "length_scale": 2.5, **sizes}
    return found


class TestRecommendation:
    def test_lowest_error_beside_nystroem(self):
        errors = {"matrix": 0.013, "Nystroem": 0.024, "stein": 0.1, LIMIT: 0.001}
        (sentence,) = recommendation(make_comparison(errors, {"matrix": 1.9, "Nystroem": 0.3}))
        assert sentence == (
            "Use Call('matrix'): 1.3 % error at 16 columns, compared with 2.4 % for Nystroem. Fitting on 120 rows and "
            "transforming 100,000 rows takes about 1.9 s, and 0.3 s with Nystroem."
        )

    def test_nystroem_beside_ours(self):
        errors = {"landmarks": 0.03, "Nystroem": 0.02, LIMIT: 0.001}
        sentence = recommendation(make_comparison(errors, {}))[0]
        assert sentence.startswith("Use Call('Nystroem'): 2 % error at 16 columns, compared with 3 % for landmarks.")

    def test_fastest_method_within_ten_percent_of_the_lowest_error(self):
        errors = {"matrix": 0.0200, "Nystroem": 0.0219}
        assert recommend(make_comparison(errors, {"matrix": 2.0, "Nystroem": 0.3})) == "Nystroem"
        assert recommend(make_comparison(errors, {"matrix": 0.2, "Nystroem": 0.3})) == "matrix"
        errors["Nystroem"] = 0.0221
        assert recommend(make_comparison(errors, {"matrix": 2.0, "Nystroem": 0.3})) == "matrix"

    def test_first_of_methods_with_equal_errors(self):
        """Refinement without success has the error of its start; noise can make its measured time shorter."""
        found = make_comparison({"stein": 0.05, "refined stein": 0.05}, {"stein": 1.1, "refined stein": 1.0})
        assert recommend(found) == "stein"

    def test_only_methods_that_predict_well(self):
        errors, seconds = {"matrix": 0.02, "Nystroem": 0.021}, {"matrix": 2.0, "Nystroem": 0.3}
        found = make_comparison(errors, seconds, {"matrix": 0.10, "Nystroem": 0.12})
        assert recommend(found) == "matrix"  # Nystroem is as good by its kernel error, and faster
        assert "has a test error of 10 %; the lowest is 10 %, with matrix" in recommendation(found)[-1]
        found = make_comparison(errors, seconds, {"matrix": 0.10, "Nystroem": 0.1009})
        assert recommend(found) == "Nystroem"
        assert "has a test error of 10.1 %; the lowest is 10 %, with matrix" in recommendation(found)[-1]


class TestTable:
    def test_lowest_errors_are_bold_and_the_limit_is_not(self):
        found = make_comparison({"matrix": 0.01, LIMIT: 0.001}, {}, {"Nystroem": 0.1}, (8, 16))
        table = comparison_table(found, "noise")
        assert list(table.head) == ["method", "columns", "kernel error", "test error", "fit, s", "100,000 rows, s"]
        assert table.title == "Errors in % on 120 held-out rows of noise, mean of 2 seeds ± standard error"
        bold = {(*table.lines[line][:2], table.head[column]) for line, column in table.bold}
        expected = {("matrix", "kernel error"), ("Nystroem", "test error")}
        assert bold == {(method, size, column) for method, column in expected for size in ("8", "16")}
        assert table.lines[-1] == [LIMIT, "16", "0.100", "", "", ""]


class TestPage:
    @pytest.fixture(scope="class")
    @classmethod
    def page(cls):
        pytest.importorskip("matplotlib")
        errors = {"matrix": 0.01, "landmarks": 0.0, "Nystroem": 0.05, LIMIT: 0.0}
        found = make_comparison(errors, {"matrix": 1.0}, {"matrix": 0.2}, (8, 16))
        return found, comparison_page(found, "<noise>", "bochner compare <noise>")

    def test_page_has_everything(self, page):
        found, text = page
        assert_stands_alone(text)
        assert "<h1>Which features to use on &lt;noise&gt;?</h1>" in text
        assert "Written by: bochner compare &lt;noise&gt;." in text
        assert text.count("<svg") == text.count("<figure") == 1
        assert "ridge regression on the features" in text
        assert f"numpy {np.__version__}" in text
        assert recommendation(found)[0] in html.unescape(text)
        for method in found["method"]:
            assert html.escape(method) in text

    @pytest.mark.slow
    @needs_chromium
    def test_page_in_a_browser(self, page, tmp_path):
        opened = open_page(page[1], tmp_path)
        for width in (1280, 400):
            opened.check_width(width)
            opened.check_figures(width)
        opened.check_contrast()
        assert opened.messages == []
