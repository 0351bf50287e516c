# SPDX-License-Identifier: BSD-3-Clause
import pytest

from reproduction.figures import Panel, compose, draw_alone

pytest.importorskip("matplotlib")


def draw_line(ax):
    ax.plot([1, 2], label="a line")


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


@pytest.mark.slow
def test_no_text_of_a_reproduction_is_cut_off(small_report):
    for study, drawn in small_report.panels.items():
        for panel in drawn:
            check_text_is_inside(draw_alone(panel))
        if drawn:
            check_text_is_inside(compose([panel for panel in drawn if panel.file == study]))
