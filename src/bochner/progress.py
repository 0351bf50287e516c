# SPDX-License-Identifier: BSD-3-Clause
"""Progress bars, in a terminal and only for who asks for them."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

__all__ = ["cluster_bar", "stepping", "tracked"]

Item = TypeVar("Item")


def tracked(items: Iterable[Item], description: str, verbose: int, total: int | None = None) -> Iterable[Item]:
    """The items, with a progress bar in a terminal when there is something to be said."""
    if not verbose:
        return items
    try:
        from rich.console import Console
        from rich.progress import track
    except ImportError:
        raise ValueError("`verbose` draws its progress bar with rich: pip install rich.") from None
    console = Console(stderr=True)
    return track(items, description, total=total, transient=True, console=console, disable=not console.is_terminal)


@contextmanager
def stepping(n_steps: int, description: str, verbose: int) -> Iterator[Callable[[], None]]:
    """A function to call after each step of what calls back instead of being iterated over."""
    steps = (step for step in tracked(range(n_steps), description, verbose))

    def step() -> None:
        next(steps, None)

    try:
        yield step
    finally:
        steps.close()


def cluster_bar(future: Any, description: str) -> None:
    """Distributed's bar of the tasks behind a future, drawn by rich, in a terminal."""
    from distributed.diagnostics.progressbar import TextProgressBar
    from rich.console import Console
    from rich.progress import Progress

    console = Console(stderr=True)
    if not console.is_terminal:
        return
    with Progress(console=console, transient=True) as progress:
        task = progress.add_task(description, total=None)

        class RichBar(TextProgressBar):
            def _draw_bar(self, remaining: int, all: int, **_: Any) -> None:
                progress.update(task, total=all, completed=all - remaining)

            def _draw_stop(self, **_: Any) -> None:
                pass

        draw: Any = RichBar
        draw([future], interval="200ms")
