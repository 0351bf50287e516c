# SPDX-License-Identifier: BSD-3-Clause
"""Reports: the findings of a run in the terminal, as a page, and as files of figures and tables."""

from collections import Counter
from collections.abc import Callable, Mapping
from io import BytesIO
from pathlib import Path

import numpy as np
from rich.console import Console

from bochner.experiments.claims import CLAIMS
from bochner.experiments.figures import compose, draw_alone, panels, svg
from bochner.experiments.findings import Findings, Statement, percent
from bochner.experiments.methods import METHODS, NystroemMethod
from bochner.experiments.pages import Table, bullets, paragraph, picture_grid, quote, render, write_atomically
from bochner.experiments.paper import PAPER_ERRORS
from bochner.experiments.recommendation import candidates, recommendation
from bochner.experiments.run import Plan
from bochner.experiments.store import Row, Trial
from bochner.experiments.studies import MEDIAN, TUNED, LengthScale, Study

__all__ = ["PAGE", "STATEMENTS", "TABLES", "Report"]

PAGE = "index.html"
STATEMENTS: dict[str, Callable[[Findings, str], list[Statement]]] = CLAIMS | {"recommendation": recommendation}


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
                for statement in STATEMENTS[kind](found, name)
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
            claims = [statement for statement in self.statements[found.study.name] if statement.outcome]
            if claims:
                console.print(f"\n{found.study.title}", style="bold", markup=False, highlight=False)
            for statement in claims:
                console.print(str(statement), markup=False, highlight=False)
        console.print(f"\n{' '.join(self.summary())}", markup=False, highlight=False)

    def summary(self) -> list[str]:
        """Return the recommendation, or the numbers of claims that are reproduced and not."""
        statements = [statement for of_study in self.statements.values() for statement in of_study]
        advice = [statement.sentence for statement in statements if not statement.outcome]
        if advice:
            return advice
        counts: Counter[str] = Counter(statement.outcome for statement in statements)
        listed = ", ".join(f"{counts[outcome]} {outcome}" for outcome in OUTCOMES if counts[outcome])
        summary = [f"Claims of the paper, counted per data set and part: {listed}."]
        if counts["holds here"] + counts["does not hold here"]:
            summary.append("Claims that hold here or do not were checked on data sets that the paper does not use.")
        return summary

    def page(self, title: str, lead: str, notes: Mapping[str, str] | None = None) -> str:
        """Return the page: the summary, one section per study, the methods, the data, and notes."""
        answer, *more = self.summary()
        versions = sorted({row.versions for found in self.findings for row in found.rows})
        sections = {found.study.title: self._section(found) for found in self.findings}
        sections |= {"Methods": self._methods(), "Data": self._data(), **(notes or {})}
        footer = f"Written by: {self.command}. {'; '.join(versions)}."
        return render(title, lead, sections, footer, answer=answer, more=" ".join(more))

    def markdown(self, title: str) -> str:
        """Return the summary, the tables and the statements as Markdown."""
        parts = [f"# {title}", *self.summary(), f"Written by `{self.command}`."]
        for found in self.findings:
            study = found.study
            parts += [f"## {study.title}", f"> {study.claim}", *(table.markdown() for table in self.tables[study.name])]
            parts += [f"![{file}]({file}.svg)" for file in self._files(study)]
            parts.append("\n".join(f"- {statement}" for statement in self.statements[study.name]))
            parts.append(_protocol(found, self.tuning))
        return "\n\n".join(parts) + "\n"

    def write(self, folder: Path, title: str, lead: str, notes: Mapping[str, str]) -> None:
        """Write the page, its text as Markdown, its figures as SVG and PNG, and its tables as LaTeX."""
        for found in self.findings:
            name = found.study.name
            for file in self._files(found.study):
                figure = compose([panel for panel in self.panels[name] if panel.file == file])
                write_atomically(folder / f"{file}.svg", svg(figure, file, transparent=False))
                buffer = BytesIO()
                figure.savefig(buffer, format="png", dpi=150)
                write_atomically(folder / f"{file}.png", buffer.getvalue())
            if self.tables[name]:
                write_atomically(folder / f"{name}.tex", "\n".join(table.latex() for table in self.tables[name]))
        write_atomically(folder / "results.md", self.markdown(title))
        write_atomically(folder / PAGE, self.page(title, lead, notes))

    def _files(self, study: Study) -> list[str]:
        return list(dict.fromkeys(panel.file for panel in self.panels[study.name]))

    def _section(self, found: Findings) -> str:
        study = found.study
        parts = [paragraph("The paper, in our words:"), quote(study.claim)] if study.claim else []
        if self.panels[study.name]:
            titles = {panel.title.replace("\n", ", "): panel for panel in self.panels[study.name]}
            pictures = {title: svg(draw_alone(panel), f"{panel.file}: {title}") for title, panel in titles.items()}
            parts.append(picture_grid(pictures))
        parts += [table.html() for table in self.tables[study.name]]
        claims = [claim for claim in self.statements[study.name] if claim.outcome]
        if claims:
            parts.append(bullets((f"{claim.dataset}, {claim.part}", claim.outcome, claim.sentence) for claim in claims))
        return "\n".join([*parts, paragraph(_protocol(found, self.tuning), "lead")])

    def _methods(self) -> str:
        studies = [found.study for found in self.findings]
        sizes = [found.study.sizes(name)[-1] for found in self.findings for name in found.splits]
        size = sizes[0] if all(study.measure == "comparison" for study in studies) else 0
        names = dict.fromkeys(method for study in studies for method in study.methods)
        items = [(name, "", METHODS[name].description(size) if name in METHODS else LIMIT_TEXT) for name in names]
        text = f"The calls below are for {2 * size:,} columns." if size else "Every method maps rows to 2 M columns."
        return paragraph(text) + bullets(items)

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
LIMIT_TEXT = (
    "the lowest error of any matrix of that rank, from the singular value decomposition of the kernel matrix of the "
    "test rows; it is not a method, because it cannot transform other rows"
)


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


def _comparison_tables(found: Findings) -> list[Table]:
    """Return one table per number of columns, or a single one if there is only one length scale."""
    tables = []
    for name in found.splits:
        sizes, scales = found.study.sizes(name), found.study.length_scales
        by_size = [[(size, scale) for scale in scales] for size in sizes]
        groups = by_size if len(scales) > 1 else [[cell for cells in by_size for cell in cells]]
        tables += [_comparison_table(found, name, group) for group in groups]
    return tables


def _comparison_table(found: Findings, name: str, cells: list[tuple[int, LengthScale]]) -> Table:
    """Return the kernel errors of all methods for pairs of size and length scale; times are those of the last size."""
    study, split = found.study, found.splits[name]
    size, methods = cells[-1][0], candidates(study)
    one_size = len({of_cell for of_cell, _ in cells}) == 1
    columns = {
        f"{scale.factor:g} x median" if one_size else f"{2 * of_cell} columns": {
            method: found.values("kernel_error", name, method, of_cell, scale.label) for method in study.methods
        }
        for of_cell, scale in cells
    }
    if split.task:
        columns["test error"] = {
            method: found.values("test_error", name, method, size, MEDIAN.label) for method in methods
        }
    lowest = [
        (min(range(len(methods)), key=lambda line: float(values[methods[line]].mean())), number)
        for number, values in enumerate(columns.values(), 1)
    ]
    seconds = {
        method: tuple(
            float(np.median(found.values(field, name, method, size, MEDIAN.label)))
            for field in ("fit_seconds", "row_seconds")
        )
        for method in methods
    }
    lines = [
        [
            *(method, *(percent(values[method]) if method in values else "" for values in columns.values())),
            *((f"{seconds[method][0]:.3f}", f"{1e6 * seconds[method][1]:.2f}") if method in seconds else ("", "")),
        ]
        for method in study.methods
    ]
    n_ours = sum(not isinstance(METHODS[method], NystroemMethod) for method in methods)
    n_test = min(len(split.X_test), study.n_test)
    title = f"{2 * size} columns: kernel error" if one_size else "Kernel error"
    seeds = f"mean of {len(study.seeds)} seeds ± standard error" if len(study.seeds) > 1 else "one seed"
    return Table(
        ["method", *columns, "fit, s", "µs per row"],
        lines,
        f"{title} in % on {n_test:,} held-out rows of {split.name}, {seeds}",
        frozenset(lowest),
        frozenset({n_ours - 1, len(methods) - 1}),
    )


TABLES: dict[str, Callable[[Findings], list[Table]]] = {"table2": _table2, "comparison": _comparison_tables}


# How the rows were made, in sentences.


def _protocol(found: Findings, tuning: Study | None) -> str:
    study = found.study
    seeds = f"Seeds {study.seeds[0]} to {study.seeds[-1]}." if len(study.seeds) > 1 else f"Seed {study.seeds[0]}."
    parts = [seeds, PROTOCOLS[study.measure].format(n_train=study.n_train, n_test=study.n_test)]
    if study.measure == "comparison":
        parts += [TEST_ERRORS[split.task] for split in found.splits.values() if split.task]
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
    "comparison": "The kernel error is the relative Frobenius error on held-out rows; the lowest is bold. Bars are one "
    "standard error, and dashed lines are the SVD limit. The recommended method is the fastest of those whose kernel "
    "error is within 10 % of the lowest, at the largest number of columns and the median distance; with a target, of "
    "those whose test error is also within 1 % or one standard error of the lowest. Each seed samples at most "
    "{n_train:,} training rows and {n_test:,} held-out rows. With fewer rows all seeds use the same ones, and the "
    "standard error measures only the randomness of the methods. Times are medians over the seeds at the median "
    "distance and the largest number of columns in a table, measured one fit at a time on the machine that wrote this "
    "page.",
}
TEST_ERRORS = {
    "regression": "The test error is that of a ridge regression on the features, in % of the error of the mean, at the "
    "median distance.",
    "classification": "The test error is the share of misclassified rows, in %, of a linear support vector machine on "
    "the features, at the median distance.",
}
