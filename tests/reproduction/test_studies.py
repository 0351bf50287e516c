# SPDX-License-Identifier: BSD-3-Clause
from dataclasses import replace

import pytest
from sklearn import config_context

from bochner.weightings import Stein
from reproduction.claims import CLAIMS
from reproduction.figures import PANELS, STYLE
from reproduction.methods import METHODS, NYSTROEM
from reproduction.paper import BANDWIDTH, PAPER_ERRORS, STUDIES, TASK_SIZES, quick
from reproduction.report import TABLES
from reproduction.studies import LengthScale

ALL_STUDIES = [*STUDIES.values(), BANDWIDTH]


def test_bold_entries_of_table_2_are_the_lowest_of_their_lines():
    bold = {"cpu": "SES", "census": "BQ", "years": "SES", "adult": "SES", "mnist": "MC", "covtype": "SES"}
    assert {name: errors[bold[name]] for name, errors in PAPER_ERRORS.items()} == {
        name: min(errors.values()) for name, errors in PAPER_ERRORS.items()
    }
    sizes = {"cpu": 512, "census": 256, "years": 128, "adult": 64, "mnist": 256, "covtype": 128}
    assert {name: TASK_SIZES[name] for name in sizes} == sizes


def test_nystroem_is_in_every_comparison_of_errors():
    compared = [study for study in ALL_STUDIES if study.measure != "weights" and study is not BANDWIDTH]
    assert all(NYSTROEM in study.methods for study in compared)


@pytest.mark.parametrize("study", ALL_STUDIES, ids=lambda study: study.name)
def test_study_names_only_what_exists(study):
    assert set(study.methods) <= set(METHODS)
    assert set(study.tables) <= set(TABLES)
    assert set(study.figures) <= set(PANELS)
    assert set(study.claims) <= set(CLAIMS)


def test_every_claim_belongs_to_a_study():
    assert set(CLAIMS) == {claim for study in STUDIES.values() for claim in study.claims}


@pytest.mark.parametrize("study", [STUDIES[f"figure{i}"] for i in (1, 3, 4)], ids=lambda s: s.name)
def test_methods_of_a_figure_have_different_markers(study):
    markers = [STYLE[method]["marker"] for method in study.methods]
    assert len(set(markers)) == len(markers)


class TestProtocol:
    def test_changes_only_with_what_changes_a_row(self):
        study = STUDIES["figure1"]
        same = replace(study, seeds=(7,), n_frequencies=(3,), datasets=("digits",), claim="", methods=("MC", "SES"))
        assert same.protocol("SES") == study.protocol("SES")
        assert replace(study, n_test=5).protocol("SES") != study.protocol("SES")
        assert len({study.protocol(method) for method in study.methods}) == len(study.methods)

    def test_includes_the_parameters_of_a_method(self, monkeypatch):
        protocol = STUDIES["figure1"].protocol("SES")
        with config_context(print_changed_only=False):
            assert STUDIES["figure1"].protocol("SES") == protocol
        monkeypatch.setitem(METHODS, "SES", replace(METHODS["SES"], weighting=Stein(n_points=1999)))
        assert STUDIES["figure1"].protocol("SES") != protocol

    def test_includes_the_penalties_of_predictions(self, monkeypatch):
        protocols = {name: STUDIES[name].protocol("SES") for name in ("table2", "figure1")}
        monkeypatch.setattr("reproduction.studies.CS", (1.0,))
        assert STUDIES["table2"].protocol("SES") != protocols["table2"]
        assert STUDIES["figure1"].protocol("SES") == protocols["figure1"]


def test_quick_studies_keep_some_length_scales():
    for study in map(quick, [*STUDIES.values(), BANDWIDTH]):
        assert study.length_scales
        assert study.seeds == (0, 1, 2)
    assert [scale.factor for scale in quick(BANDWIDTH).length_scales] == [1.0, 4.0, 16.0, 64.0]


def test_labels_of_length_scales():
    scales = (LengthScale("median"), LengthScale("median", 0.5), LengthScale("tuned"), LengthScale("grid", 4.0))
    assert [scale.label for scale in scales] == ["median", "0.5 x median", "tuned", "grid"]
