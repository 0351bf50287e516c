# SPDX-License-Identifier: BSD-3-Clause
"""Reports: the findings of a run in the terminal, as a page, and as files of figures and tables."""

from collections import Counter
from collections.abc import Callable, Mapping
from io import BytesIO
from pathlib import Path

from markupsafe import Markup
from rich.console import Console

from bochner.pages import Table, fill_template, paragraph, picture_grid, svg, write_atomically
from reproduction.claims import CLAIMS
from reproduction.figures import compose, draw_alone, panels
from reproduction.findings import Findings, percent
from reproduction.methods import METHODS
from reproduction.paper import PAPER_ERRORS
from reproduction.pieces import bullets, markdown, quote
from reproduction.run import Plan
from reproduction.store import Row, Trial
from reproduction.studies import MEDIAN, TUNED, LengthScale, Study

__all__ = ["PAGE", "TABLES", "Report"]

PAGE = "index.html"


class Report:
    """The findings of a run.

    Parameters
    ----------
    plan : Plan
        The studies and data sets of the run.
    rows : mapping from Trial to Row
        The rows of all trials.
    command : str
        The command that ran it.
    """

    def __init__(self, plan: Plan, rows: Mapping[Trial, Row], command: str) -> None:
        self.command = command
        self.tuning = plan.tuning
        tuned = plan.tuned(rows)
        self.findings = [
            Findings(
                study,
                {name: plan.splits[name] for name in plan.datasets(study)},
                [rows[trial] for trial in plan.trials(study, tuned)],
            )
            for study in plan.studies
        ]
        self.statements = {
            found.study.name: [
                statement
                for name in found.splits
                for kind in found.study.claims
                for statement in CLAIMS[kind](found, name)
            ]
            for found in self.findings
        }
        self.tables = {
            found.study.name: [table for kind in found.study.tables for table in TABLES[kind](found)]
            for found in self.findings
        }
        self.panels = {found.study.name: panels(found) for found in self.findings}

    def show(self, console: Console) -> None:
        """Print the tables and the statements."""
        for found in self.findings:
            for table in self.tables[found.study.name]:
                console.print(table.rich())
            if self.statements[found.study.name]:
                console.print(f"\n{found.study.title}", style="bold", markup=False, highlight=False)
            for statement in self.statements[found.study.name]:
                console.print(str(statement), markup=False, highlight=False)
        console.print(f"\n{' '.join(self.summary())}", markup=False, highlight=False)

    def summary(self) -> list[str]:
        """Return the numbers of claims that are reproduced and not."""
        counts = Counter(statement.outcome for of_study in self.statements.values() for statement in of_study)
        listed = ", ".join(f"{counts[outcome]} {outcome}" for outcome in OUTCOMES if counts[outcome])
        summary = [f"Claims of the paper, counted per data set and part: {listed}."]
        if counts["holds here"] + counts["does not hold here"]:
            summary.append("Claims that hold here or do not were checked on data sets that the paper does not use.")
        return summary

    def page(self, title: str, lead: str, notes: Mapping[str, str]) -> str:
        """Return the page: the summary, one section per study, the methods, the data, and notes."""
        answer, *more = self.summary()
        versions = sorted({row.versions for found in self.findings for row in found.rows})
        sections = {found.study.title: self._section(found) for found in self.findings}
        sections |= {"Methods": self._methods(), "Data": self._data(), **notes}
        footer = f"Written by: {self.command}. {'; '.join(versions)}."
        texts = {"title": title, "lead": lead, "footer": footer, "answer": answer, "more": " ".join(more)}
        return fill_template("page.html", sections=sections, **texts)

    def markdown(self, title: str) -> str:
        """Return the summary, the tables and the statements as Markdown."""
        parts = [f"# {title}", *self.summary(), f"Written by `{self.command}`."]
        for found in self.findings:
            study = found.study
            parts += [f"## {study.title}", f"> {study.claim}", *(markdown(table) for table in self.tables[study.name])]
            parts += [f"![{file}]({file}.svg)" for file in self._files(study)]
            parts.append("\n".join(f"- {statement}" for statement in self.statements[study.name]))
            parts.append(_protocol(found, self.tuning))
        return "\n\n".join(parts) + "\n"

    def write(self, folder: Path, title: str, lead: str, notes: Mapping[str, str]) -> None:
        """Write the page, its text as Markdown, and its figures as SVG and PNG."""
        for found in self.findings:
            name = found.study.name
            for file in self._files(found.study):
                figure = compose([panel for panel in self.panels[name] if panel.file == file])
                write_atomically(folder / f"{file}.svg", svg(figure, file, transparent=False))
                buffer = BytesIO()
                figure.savefig(buffer, format="png", dpi=150)
                write_atomically(folder / f"{file}.png", buffer.getvalue())
        write_atomically(folder / "results.md", self.markdown(title))
        write_atomically(folder / PAGE, self.page(title, lead, notes))

    def _files(self, study: Study) -> list[str]:
        return list(dict.fromkeys(panel.file for panel in self.panels[study.name]))

    def _section(self, found: Findings) -> str:
        study = found.study
        parts = [paragraph("The paper, in our words:"), quote(study.claim)]
        if self.panels[study.name]:
            titles = {panel.title.replace("\n", ", "): panel for panel in self.panels[study.name]}
            pictures = {title: svg(draw_alone(panel), f"{panel.file}: {title}") for title, panel in titles.items()}
            parts.append(picture_grid(pictures))
        parts += [table.html() for table in self.tables[study.name]]
        if claims := self.statements[study.name]:
            parts.append(bullets((f"{claim.dataset}, {claim.part}", claim.outcome, claim.sentence) for claim in claims))
        return Markup("\n").join([*parts, paragraph(_protocol(found, self.tuning), "lead")])

    def _methods(self) -> str:
        names = dict.fromkeys(method for found in self.findings for method in found.study.methods)
        items = [(name, "", METHODS[name].description) for name in names]
        return paragraph("Every method maps rows to 2 M columns.") + bullets(items)

    def _data(self) -> str:
        splits = {name: split for found in self.findings for name, split in found.splits.items()}
        columns: dict[str, list[str]] = {
            "data set": [split.name for split in splits.values()],
            "task": [split.task or "" for split in splits.values()],
            "training rows": [f"{len(split.X_train):,}" for split in splits.values()],
            "test rows": [f"{len(split.X_test):,}" for split in splits.values()],
            "columns": [str(split.X_train.shape[1]) for split in splits.values()],
            "median distance": [self._length_scale(name, MEDIAN) for name in splits],
            "tuned length scale": [self._length_scale(name, TUNED) for name in splits],
        }
        columns = {title: cells for title, cells in columns.items() if any(cells)}
        text = "Columns are standardized: they have zero mean and unit variance in the training rows."
        return paragraph(text) + Table(list(columns), list(zip(*columns.values(), strict=True))).html()

    def _length_scale(self, name: str, scale: LengthScale) -> str:
        values = [found.length_scale(name, scale.label) for found in self.findings if name in found.splits]
        return next((f"{value:.4g}" for value in values if value is not None), "")


OUTCOMES = ("reproduced", "not reproduced", "holds here", "does not hold here", "inconclusive")


# Tables.


def _table2(found: Findings) -> list[Table]:
    """Return Table 2: for each data set one line of the paper's errors and one of ours, in %."""
    methods = found.study.methods
    lines, ends = [], set()
    for name, split in found.splits.items():
        paper, size = PAPER_ERRORS.get(name, {}), str(found.study.sizes(name)[0])
        if paper:
            values = (paper.get(method) for method in methods)
            cells = ("" if value is None else f"{value:.{2 if value >= 1.0 else 3}f}" for value in values)
            lines.append([name, size, "", "paper", *cells])
        cells = (percent(found.errors(name, method)[0]) for method in methods)
        lines.append([split.name, size, f"{found.length_scale(name, TUNED.label):g}", "ours", *cells])
        ends.add(len(lines) - 1)
    title = "Test errors in %: the paper's and ours, mean ± standard error"
    return [Table(["data set", "M", "length scale", "", *methods], lines, title, ends=frozenset(ends))]


TABLES: dict[str, Callable[[Findings], list[Table]]] = {"table2": _table2}


# How the rows were made, in sentences.


def _protocol(found: Findings, tuning: Study | None) -> str:
    study = found.study
    seeds = f"Seeds {study.seeds[0]} to {study.seeds[-1]}." if len(study.seeds) > 1 else f"Seed {study.seeds[0]}."
    parts = [seeds, PROTOCOLS[study.measure].format(n_train=study.n_train, n_test=study.n_test)]
    if tuning and TUNED in study.length_scales:
        factors = [scale.factor for scale in tuning.length_scales]
        parts.append(
            f"The tuned length scale is the smallest of the powers of four from {min(factors):g} to {max(factors):g} "
            f"at which the cross-validated error of MC is within one standard error of its lowest "
            f"({len(tuning.seeds)} seeds, at most {tuning.n_train:,} training rows)."
        )
    return " ".join(parts)


PROTOCOLS = {
    "prediction": "All training and test rows are used. The model is ridge regression (error: norm of the residuals "
    "over norm of the targets) or an L2-loss support vector machine (error: share of misclassified rows). Its penalty "
    "has the lowest error over five folds, which are the same for all methods.",
    "kernel": "Fitted on at most {n_train:,} training rows. The kernel error is the relative Frobenius error on at "
    "most {n_test:,} test rows. Bars are one standard error over the seeds.",
    "weights": "Fitted on at most {n_train:,} training rows. Bars are one standard error over the seeds.",
}
