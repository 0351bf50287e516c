# SPDX-License-Identifier: BSD-3-Clause
from dataclasses import replace

import numpy as np
from sklearn import config_context

from bochner.experiments.studies import BANDWIDTH, METHODS, NYSTROEM, PAPER_ERRORS, STUDIES, TASK_SIZES, quick
from bochner.weightings import Stein


class TestStudies:
    def test_the_papers_table(self):
        """The bold entries of Table 2 are the lowest of their lines."""
        bold = {"cpu": "SES", "census": "BQ", "years": "SES", "adult": "SES", "mnist": "MC", "covtype": "SES"}
        assert {name: errors[bold[name]] for name, errors in PAPER_ERRORS.items()} == {
            name: min(errors.values()) for name, errors in PAPER_ERRORS.items()
        }
        sizes = {"cpu": 512, "census": 256, "years": 128, "adult": 64, "mnist": 256, "covtype": 128}
        assert {name: TASK_SIZES[name] for name in sizes} == sizes

    def test_nystroem_is_in_every_comparison_of_errors(self):
        assert all(NYSTROEM in study.methods for study in STUDIES.values() if study.measure != "weights")

    def test_the_protocol_changes_with_what_changes_a_row_alone(self):
        study = STUDIES["figure1"]
        same = replace(study, seeds=(7,), n_frequencies=(3,), datasets=("digits",), claim="", methods=("MC", "SES"))
        assert same.protocol("SES") == study.protocol("SES")
        assert replace(study, n_test=5).protocol("SES") != study.protocol("SES")
        assert len({study.protocol(method) for method in study.methods}) == len(study.methods)

    def test_the_protocol_knows_defaults_and_penalties(self, monkeypatch):
        before = {name: STUDIES[name].protocol("SES") for name in ("table2", "figure1")}
        with config_context(print_changed_only=False):
            assert STUDIES["figure1"].protocol("SES") == before["figure1"]
        monkeypatch.setattr("bochner.experiments.studies.CS", np.array([1.0]))
        assert STUDIES["table2"].protocol("SES") != before["table2"]
        assert STUDIES["figure1"].protocol("SES") == before["figure1"]
        monkeypatch.setitem(METHODS, "SES", replace(METHODS["SES"], weighting=Stein(n_points=1999)))
        assert STUDIES["figure1"].protocol("SES") != before["figure1"]

    def test_methods_of_one_sequence(self):
        for n_columns, sequence in ((100, "sobol"), (101, "halton")):
            assert {METHODS[name].sampling(n_columns) for name in ("QMC", "BQ", "SES", "SES, pairs")} == {sequence}
        assert METHODS["MC"].sampling(784) == "mc"
        assert METHODS["SES"].weighing(0).sketch == "points"
        assert METHODS["SES"].weighing(99).n_points == 99
        assert METHODS["SES, pairs"].weighing(99).n_pairs == 99
        assert METHODS["SES, row-norm pairs"].weighing(99).sampling == "row-norm"
        assert METHODS["BQ"].weighing(99).n_pairs == 99
        assert METHODS["MC"].weighing(99) == "uniform"
        assert METHODS["SES"].weighing(0).n_points == Stein().n_points  # the table itself is not touched

    def test_quick_studies_need_the_digits_alone(self):
        for study in map(quick, [*STUDIES.values(), BANDWIDTH]):
            assert study.datasets == ("digits",)
            assert study.bandwidths
        assert 16.0 in quick(BANDWIDTH).bandwidths
