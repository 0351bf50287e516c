# SPDX-License-Identifier: BSD-3-Clause
"""Progress bars: drawn in a terminal, and only when they were asked for.

`show_progress` is the one switch. Estimators turn it on for `verbose` > 0 and the command line for every command, so
that the code in between reports its steps without passing a flag along.
"""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TypeVar

__all__ = ["hide_progress", "is_progress_shown", "progress_bar", "show_progress", "track"]

Item = TypeVar("Item")
_shown: ContextVar[bool] = ContextVar("show_progress", default=False)


@contextmanager
def show_progress(verbose: int = 1) -> Iterator[None]:
    """Draw the progress bars of the code inside when `verbose` > 0 and standard error is a terminal."""
    token = _shown.set(_shown.get() or verbose > 0)
    try:
        yield
    finally:
        _shown.reset(token)


@contextmanager
def hide_progress() -> Iterator[None]:
    """Draw no progress bars of the code inside, which is a step of a longer one."""
    token = _shown.set(False)
    try:
        yield
    finally:
        _shown.reset(token)


def is_progress_shown() -> bool:
    """Return whether progress bars were asked for."""
    return _shown.get()


@contextmanager
def progress_bar(description: str, total: float | None = None) -> Iterator[Callable[[float], None]]:
    """Open a progress bar and give a function that advances it.

    Parameters
    ----------
    description : str
        What is going on.
    total : float, default=None
        The sum of all advances; None draws a bar without an end.

    Examples
    --------
    >>> from bochner.progress import progress_bar
    >>> with progress_bar("counting", total=3) as advance:
    ...     for _ in range(3):
    ...         advance(1)
    """
    if not _shown.get():
        yield lambda amount: None
        return
    try:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
    except ImportError:
        raise ValueError("`verbose` > 0 draws progress bars with rich: pip install rich.") from None
    console = Console(stderr=True)
    if not console.is_terminal:
        yield lambda amount: None
        return
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task(description, total=total)
        yield lambda amount: progress.advance(task, amount)


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
