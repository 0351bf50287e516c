# SPDX-License-Identifier: BSD-3-Clause
"""Run the studies of the paper and write `bochner-results`: the rows, the page and the figures."""

import argparse
import sys
from collections.abc import Sequence
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path

from rich.console import Console

from bochner.progress import progress_bar, show_progress
from reproduction import paper
from reproduction.datasets import NAMES, Split, load
from reproduction.report import PAGE, Report
from reproduction.run import Plan
from reproduction.store import Store

OUTPUT = Path("bochner-results")


def main(arguments: Sequence[str] | None = None) -> None:
    """Run studies; each finished fit is stored, and the same command resumes a stopped run."""
    parser = argparse.ArgumentParser(prog="python -m reproduction", description=__doc__)
    parser.add_argument(
        "studies", nargs="*", metavar="STUDY", help=f"any of {', '.join(paper.STUDIES)}; all by default"
    )
    parser.add_argument("--quick", action="store_true", help="the bundled digits and few repetitions: a minute or two")
    options = parser.parse_args(arguments)
    try:
        reproduce(options.studies, options.quick, Console(width=None if sys.stdout.isatty() else 150))
    except (ValueError, OSError) as error:
        raise SystemExit(f"Error: {error}") from None
    except (KeyboardInterrupt, BrokenProcessPool) as error:
        reason = (
            "Stopped" if isinstance(error, KeyboardInterrupt) else "A process was killed, perhaps for lack of memory"
        )
        raise SystemExit(f"{reason}. Finished fits are stored; run the same command to resume.") from None


def reproduce(names: Sequence[str], quick: bool, console: Console) -> None:
    """Run the studies of the given names, or all, and write the page."""
    unknown = [name for name in names if name not in paper.STUDIES]
    if unknown:
        raise ValueError(f"{unknown[0]} is not one of {', '.join(paper.STUDIES)}.")
    studies = [study for study in paper.STUDIES.values() if not names or study.name in names]
    studies = [paper.quick(study) for study in studies] if quick else studies
    tuning = paper.quick(paper.BANDWIDTH, paper.BANDWIDTH.seeds) if quick else paper.BANDWIDTH
    needed = ["digits"] if quick else [name for name in NAMES if any(name in study.datasets for study in studies)]
    plan = Plan(studies, _load(needed, console), tuning)
    OUTPUT.mkdir(exist_ok=True)
    with Store.open(OUTPUT / "rows.csv") as store:
        n_stored, n_fits = plan.progress(store)
        console.print(f"{n_fits:,} fits, of which {n_stored:,} are stored in {store.path}.", highlight=False)
        with show_progress(), progress_bar("fitting", n_fits) as advance:
            advance(n_stored)
            for n_finished in plan.run(store):
                advance(n_finished)
        report = Report(plan, store.rows, " ".join(["python -m reproduction", *names, *["--quick"] * quick]))
    report.write(OUTPUT, paper.TITLE, paper.LEAD, paper.NOTES)
    report.show(console)
    console.print(f"The page: {OUTPUT / PAGE}", highlight=False)


def _load(names: Sequence[str], console: Console) -> dict[str, Split]:
    """Load data sets; those that are not available are reported and left out."""
    splits = {}
    for name in names:
        try:
            splits[name] = load(name)
        except ValueError as error:
            console.print(f"Left out: {error}", markup=False, highlight=False)
            continue
        if reduced := splits[name].reduced:
            message = f"Reduced: {name} has only {reduced}; its results are not comparable with the paper."
            console.print(message, markup=False, highlight=False)
    if not splits:
        raise ValueError("None of the data sets is available; set BOCHNER_DATA to a folder that has them.")
    return splits


if __name__ == "__main__":
    main()
