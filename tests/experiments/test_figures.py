# SPDX-License-Identifier: BSD-3-Clause
import re
from dataclasses import replace

import numpy as np
import pytest

from bochner.experiments.figures import Panel, compose, draw_alone, panels, svg
from bochner.experiments.methods import LIMIT
from bochner.experiments.studies import COMPARISON, MEDIAN
from tests.experiments.examples import make_findings

pytest.importorskip("matplotlib")


def draw_line(ax):
    ax.plot([1, 2], label="a line")


def make_comparison(error, n_train=120):
    """Return findings of a comparison at the median distance, with a function of the trial that gives its error."""

    def outcome(trial):
        return {"kernel_error": error(trial), "fit_seconds": 0.5, "row_seconds": 1e-6 * trial.n_frequencies}

    study = replace(COMPARISON, n_frequencies=(8, 16), length_scales=(MEDIAN,), seeds=(0, 1))
    found = make_findings(study, outcome, "noise", task=None)
    found.splits["noise"] = replace(found.splits["noise"], X_train=np.zeros((n_train, 1)))
    return found


def check_text_is_inside(figure):
    figure.draw_without_rendering()
    box, (width, height) = figure.get_tightbbox(), figure.get_size_inches()
    assert box.x0 >= 0.0
    assert box.y0 >= 0.0
    assert box.x1 <= width
    assert box.y1 <= height


@pytest.mark.parametrize(("n_panels", "rows", "columns"), [(1, 1, 1), (3, 1, 3), (4, 2, 2), (5, 2, 3)])
def test_panels_are_composed_in_a_grid_with_one_legend(n_panels, rows, columns):
    figure = compose([Panel("file", f"panel {number}", draw_line) for number in range(n_panels)])
    assert [ax.get_title() for ax in figure.axes] == [f"panel {number}" for number in range(n_panels)]
    assert figure.axes[0].get_gridspec().get_geometry() == (rows, columns)
    (legend,) = figure.legends
    assert [text.get_text() for text in legend.get_texts()] == ["a line"]


def test_reduction_of_a_data_set_has_its_own_line_in_the_title():
    (ax,) = draw_alone(Panel("file", "years (5 of 9 rows), M = 4", draw_line)).axes
    assert ax.get_title() == "years\n(5 of 9 rows), M = 4"


def test_svg_has_a_title_and_its_own_identifiers():
    texts = [svg(draw_alone(Panel("file", "panel", draw_line)), f"Figure {number}: <a>") for number in (1, 1, 2)]
    assert texts[0] == texts[1]
    assert texts[0].startswith("<svg")
    assert "<title>Figure 1: &lt;a&gt;</title>" in texts[0]
    first, second = (set(re.findall(r'\bid="([^"]*)"', text)) for text in texts[1:])
    assert first
    assert not first & second


@pytest.mark.slow
def test_no_text_of_a_reproduction_is_cut_off(small_report):
    for study, drawn in small_report.panels.items():
        for panel in drawn:
            check_text_is_inside(draw_alone(panel))
        if drawn:
            check_text_is_inside(compose([panel for panel in drawn if panel.file == study]))


def test_no_text_of_a_comparison_is_cut_off():
    for panel in panels(make_comparison(lambda trial: 0.01 * (1 + trial.seed), n_train=2_000)):
        check_text_is_inside(draw_alone(panel))


class TestComparison:
    def draw(self, error):
        methods, times = (draw_alone(panel).axes[0] for panel in panels(make_comparison(error)))
        return methods, times

    def test_one_line_per_method_in_the_order_of_the_study(self):
        methods, _ = self.draw(lambda trial: 0.1 / trial.n_frequencies)
        assert [label.get_text() for label in methods.get_yticklabels()] == list(COMPARISON.methods)
        assert methods.yaxis_inverted()
        assert methods.get_legend_handles_labels()[1] == ["16 columns", "32 columns"]

    def test_errors_and_times_of_a_method(self):
        _, times = self.draw(lambda trial: 0.1 / trial.n_frequencies)
        lines = {line.get_label(): line.get_xydata().tolist() for line in times.get_lines()}
        assert list(lines) == [method for method in COMPARISON.methods if method != LIMIT]
        # 0.5 s for the fit and 8 or 16 microseconds for each of 100,000 rows.
        assert lines["matrix"] == [pytest.approx([1.3, 0.0125]), pytest.approx([2.1, 0.00625])]

    def test_axis_shows_a_limit_unless_it_is_far_below_all_errors(self):
        near, _ = self.draw(lambda trial: 0.005 if trial.method == LIMIT else 0.1)
        far, _ = self.draw(lambda trial: 1e-8 if trial.method == LIMIT else 0.1)
        assert near.get_xlim() == pytest.approx((0.005 / 1.4, 0.1 * 1.4))
        assert far.get_xlim() == pytest.approx((0.001 / 1.4, 0.1 * 1.4))

    @pytest.mark.parametrize(
        ("lowest", "labels"), [(0.02, ["2 %", "5 %", "10 %"]), (1e-5, ["0.001 %", "0.01 %", "0.1 %", "1 %", "10 %"])]
    )
    def test_errors_are_labeled_in_percent(self, lowest, labels):
        _, times = self.draw(lambda trial: lowest if trial.method == "matrix" else 0.1)
        times.figure.draw_without_rendering()
        low, high = times.get_ylim()
        ticks = zip(times.get_yticks(), times.get_yticklabels(), strict=True)
        assert [text.get_text() for value, text in ticks if low <= value <= high] == labels
