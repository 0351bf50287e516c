# SPDX-License-Identifier: BSD-3-Clause
"""The reproduction: findings become a page, figure files, a LaTeX and a Markdown table, and lines in the terminal."""

import html
from collections import Counter
from collections.abc import Mapping
from io import BytesIO
from math import log2
from pathlib import Path

from rich.console import Console
from rich.table import Table

from bochner.experiments.figures import compose, grid, panels, svg
from bochner.experiments.findings import Findings, Verdict, percent
from bochner.experiments.pages import fill, html_table, write_atomically
from bochner.experiments.run import Plan
from bochner.experiments.store import Row, Trial
from bochner.experiments.studies import ALL, NYSTROEM, PAPER_ERRORS, TASK_SIZES, Study

__all__ = ["Reproduction"]

PAGE = "index.html"
BADGES = {"reproduced": "reproduced", "not reproduced": "not", "cannot be judged": "cannot"}


class Reproduction:
    """The findings of a run, to be shown.

    Parameters
    ----------
    plan : Plan
        What was run.
    rows : mapping from Trial to Row
        What came of it.
    command : str
        What made it.
    """

    def __init__(self, plan: Plan, rows: Mapping[Trial, Row], command: str) -> None:
        self.plan = plan
        self.tuned = plan.tuned(rows)
        self.command = command
        self.findings = [
            Findings(
                study,
                {name: plan.splits[name] for name in plan.datasets(study)},
                [rows[trial] for trial in plan.trials(study, self.tuned)],
            )
            for study in plan.studies
        ]
        self.verdicts = {found.study.name: found.verdicts() for found in self.findings}
        self.panels = {found.study.name: panels(found) for found in self.findings}

    def write(self, folder: Path) -> None:
        """Write everything into a folder."""
        for figures in self.panels.values():
            for name, chosen in figures.items():
                figure = compose(chosen)
                write_atomically(folder / f"{name}.svg", svg(figure, name))
                buffer = BytesIO()
                figure.savefig(buffer, format="png", dpi=150)
                write_atomically(folder / f"{name}.png", buffer.getvalue())
        for found in self.findings:
            if found.study.name == "table2":
                write_atomically(folder / "table2.tex", _latex(found))
        write_atomically(folder / "results.md", self._markdown())
        write_atomically(folder / PAGE, self._page())

    def show(self, console: Console) -> None:
        """The table and the verdicts, for a terminal."""
        for found in self.findings:
            if found.study.name == "table2":
                head, lines = _table(found)
                table = Table(*head, title="Errors of predictions in %: the paper's and ours, mean ± standard error")
                for line in lines:
                    table.add_row(*line, end_section=line[3] == "ours")
                console.print(table)
            console.print(f"\n{found.study.title}", style="bold", markup=False, highlight=False)
            for verdict in self.verdicts[found.study.name]:
                console.print(_line(verdict), markup=False, highlight=False)
        console.print(f"\n{self._summary()}", markup=False, highlight=False)

    def _summary(self) -> str:
        """How many claims hold, in a sentence."""
        counts: Counter[str] = Counter(verdict.outcome for verdicts in self.verdicts.values() for verdict in verdicts)
        told = ", ".join(f"{counts[outcome]} {outcome}" for outcome in BADGES if counts[outcome])
        return f"Claims of the paper, counted by data set and part: {told}."

    def _page(self) -> str:
        contents = " · ".join(
            f'<a href="#{found.study.name}">{html.escape(found.study.title)}</a>' for found in self.findings
        )
        made = sorted({row.versions for found in self.findings for row in found.rows})
        return fill(
            "reproduction.html",
            "the paper reproduced",
            summary=html.escape(self._summary()),
            contents=contents,
            data=html_table(*self._data()),
            sections="\n".join(self._section(found) for found in self.findings),
            command=html.escape(f"Made by: {self.command}"),
            versions=html.escape("; ".join(made)),
        )

    def _data(self) -> tuple[list[str], list[list[str]]]:
        head = ["data set", "task", "training rows", "test rows", "columns", "median distance", "tuned in favour of MC"]
        splits = {name: split for found in self.findings for name, split in found.splits.items()}
        lines = [
            [
                *(split.name, str(split.task), f"{len(split.X_train):,}", f"{len(split.X_test):,}"),
                *(str(split.X_train.shape[1]), f"{self.plan.medians[name]:g}"),
                f"{self.tuned[name]:g}" if name in self.tuned else "not needed",
            ]
            for name, split in splits.items()
        ]
        return head, lines

    def _section(self, found: Findings) -> str:
        study = found.study
        verdicts = "\n".join(
            f"<li><b>{html.escape(verdict.dataset)}</b>, {html.escape(verdict.part)} "
            f'<span class="badge {BADGES[verdict.outcome]}">'
            f"{verdict.outcome}</span> {html.escape(verdict.sentence)}</li>"
            for verdict in self.verdicts[study.name]
        )
        pictures = grid(self.panels[study.name])
        table = html_table(*_table(found)) if study.name == "table2" else ""
        return (
            f'<section id="{study.name}">\n<h2>{html.escape(study.title)}</h2>\n<p>The paper, in our words:</p>\n'
            f"<blockquote>{html.escape(study.claim)}</blockquote>\n{table}{pictures}\n"
            f'<ul class="verdicts">\n{verdicts}\n</ul>\n'
            f'<p class="lead">{html.escape(_protocol(study, self.plan.tuning))}</p>\n</section>'
        )

    def _markdown(self) -> str:
        """The summary that the documentation has."""
        lines = ["# The paper, reproduced", "", self._summary(), "", f"Made by `{self.command}`.", ""]
        lines += _markdown_table(*self._data())
        for found in self.findings:
            study = found.study
            lines += ["", f"## {study.title}", "", f"> {study.claim}", ""]
            if study.name == "table2":
                lines += [*_markdown_table(*_table(found)), ""]
            lines += [f"![{study.title}]({name}.svg)\n" for name in self.panels[study.name]]
            lines += [f"- {_line(verdict)}" for verdict in self.verdicts[study.name]]
            lines += ["", _protocol(study, self.plan.tuning)]
        return "\n".join(lines) + "\n"


def _line(verdict: Verdict) -> str:
    return f"{verdict.dataset}, {verdict.part}: {verdict.outcome}. {verdict.sentence}"


def _table(found: Findings) -> tuple[list[str], list[list[str]]]:
    """Table 2: for every data set a line of the paper's errors and one of ours, in %."""
    methods = found.study.methods
    head = ["data set", "M", "length scale", "", *methods]
    lines = []
    for name, split in found.splits.items():
        paper = PAPER_ERRORS.get(name, {})
        if paper:
            lines.append([name, str(TASK_SIZES[name]), "", "paper", *(_given(paper.get(method)) for method in methods)])
        cells = [percent(found.errors(name, method)[0]) for method in methods]
        lines.append([split.name, str(TASK_SIZES[name]), f"{found.length_scale(name, 'tuned'):g}", "ours", *cells])
    return head, lines


def _given(value: float | None) -> str:
    return "" if value is None else f"{value:.{2 if value >= 1.0 else 3}f}"


def _latex(found: Findings) -> str:
    """Table 2 for a paper that uses booktabs."""
    head, lines = _table(found)
    escape = str.maketrans({"%": r"\%", "&": r"\&", "_": r"\_", "±": r"$\pm$"})
    rows: list[str] = []
    for line in lines:
        if line[3] == "paper" and rows:
            rows.append(r"\midrule")
        rows.append(" & ".join(cell.translate(escape) for cell in line) + r" \\")
    columns = "lrrl" + "r" * (len(head) - 4)
    titles = " & ".join(title.translate(escape) for title in head) + r" \\"
    return "\n".join(
        [
            rf"\begin{{tabular}}{{{columns}}}",
            r"\toprule",
            titles,
            r"\midrule",
            *rows,
            r"\bottomrule",
            r"\end{tabular}",
            "",
        ]
    )


def _markdown_table(head: list[str], lines: list[list[str]]) -> list[str]:
    return ["| " + " | ".join(line) + " |" for line in (head, ["---"] * len(head), *lines)]


def _protocol(study: Study, tuning: Study) -> str:
    """How the rows were made, in sentences."""
    powers = [log2(float(scale)) for scale in tuning.bandwidths]
    tuned = (
        f"The tuned length scale is the smallest of the powers of four from 2^{min(powers):g} to 2^{max(powers):g} at "
        f"which the cross-validated error of MC is within one standard error of its lowest ({len(tuning.seeds)} seeds, "
        f"at most {tuning.n_train:,} training rows)."
    )
    seeds = f"Seeds {study.seeds[0]} to {study.seeds[-1]}" if len(study.seeds) > 1 else f"Seed {study.seeds[0]}"
    if study.measure == "prediction":
        return (
            f"{seeds}. All training and test rows. Ridge regression (error: norm of the residuals over norm of the "
            "targets) or L2-loss support vector machine (error: share of wrong labels); its penalty has the lowest "
            f"error over five folds, the same folds for all methods. {tuned}"
        )
    kept = "" if study.n_train == ALL else f" Fitted on at most {study.n_train:,} training rows"
    measured = f" and measured on at most {study.n_test:,} test rows" if study.measure == "kernel" else ""
    beside = f" {NYSTROEM} keeps 2 M training rows." if NYSTROEM in study.methods else ""
    last = f" {tuned}" if "tuned" in study.bandwidths else ""
    return f"{seeds}.{kept}{measured}.{beside} Bars are one standard error over the seeds.{last}"
