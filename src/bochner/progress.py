# SPDX-License-Identifier: BSD-3-Clause
"""Progress on standard error, only when it was asked for: bars in a terminal, lines in logs, pipes and notebooks.

`show_progress` is the one switch. Estimators turn it on for `verbose` > 0 and the command line for every command, so
that the code in between reports its steps without passing a flag along.
"""

import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from time import monotonic
from typing import Any, TypeVar

Item = TypeVar("Item")
FIRST_LINE = 2.0  # seconds after which a task says how far it is; then after twice the time
# Seconds that a task takes at least to be mentioned in lines; None shows neither lines nor bars.
_shortest: ContextVar[float | None] = ContextVar("shortest_task", default=None)


@contextmanager
def show_progress(verbose: int = 1, shortest: float = 0.0) -> Iterator[None]:
    """Show the progress of the code inside when `verbose` > 0; lines mention tasks of at least `shortest` seconds."""
    token = _shortest.set(shortest if verbose > 0 and _shortest.get() is None else _shortest.get())
    try:
        yield
    finally:
        _shortest.reset(token)


@contextmanager
def progress_bar(description: str, total: float | None = None) -> Iterator[Callable[[float], None]]:
    """Open a progress bar, or a task that prints lines, and give a function that advances it.

    Parameters
    ----------
    description : str
        What is going on; without one, no lines are printed.
    total : float, default=None
        The sum of all advances; None means that it is unknown.

    Examples
    --------
    >>> from bochner.progress import progress_bar
    >>> with progress_bar("counting", total=3) as advance:
    ...     for _ in range(3):
    ...         advance(1)
    """
    shortest = _shortest.get()
    if shortest is None or not description:
        yield lambda amount: None
    elif (console := _terminal()) is not None:
        from rich.progress import Progress

        with Progress(console=console, transient=True) as progress:
            task = progress.add_task(description, total=total)
            yield lambda amount: progress.advance(task, amount)
    else:
        lines = _Lines(description, total)
        yield lines.advance
        if (seconds := monotonic() - lines.start) >= shortest:
            lines.write(f"done after {seconds:.1f} s")


def _terminal() -> Any:
    """Return the console of rich if standard error is a terminal, and None if it is not or without rich."""
    try:
        from rich.console import Console
    except ImportError:
        return None
    console = Console(stderr=True)
    return console if console.is_terminal else None


class _Lines:
    """Lines about a task, after 2, 4, 8 and so on seconds: few, however long it takes."""

    def __init__(self, description: str, total: float | None) -> None:
        self.description, self.total = description, total
        self.start, self.done, self.next_line = monotonic(), 0.0, FIRST_LINE

    def advance(self, amount: float) -> None:
        self.done += amount
        seconds = monotonic() - self.start
        if seconds >= self.next_line and self.done != self.total:
            of_total = "" if self.total is None else f" of {self.total:g}"
            self.write(f"{self.done:g}{of_total} after {seconds:.0f} s")
            self.next_line = 2.0 * seconds

    def write(self, text: str) -> None:
        print(f"{self.description}: {text}", file=sys.stderr, flush=True)


def track(items: Iterable[Item], description: str, total: int | None = None) -> Iterator[Item]:
    """Iterate over items with a progress bar.

    Examples
    --------
    >>> from bochner.progress import track
    >>> list(track(range(3), "counting", total=3))
    [0, 1, 2]
    """
    with progress_bar(description, total) as advance:
        for item in items:
            yield item
            advance(1)
