"""Progress line on a terminal, erased when the work is done."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager

from explorer.cli.support.terminal import Outlet
from explorer.core.progress import Progress, ProgressCallback, delayed, displayed_by
from explorer.record.escape import visible

_WIDTH = 24


@contextmanager
def progress_shown(stream: Outlet) -> Iterator[None]:
    """Show the progress of work that takes longer than a second on ``stream``, if that is a terminal."""
    with displayed_by(lambda: delayed(lambda: line(stream)) if stream.isatty() else None):
        yield


@contextmanager
def line(stream: Outlet) -> Iterator[ProgressCallback]:
    """Draw progress on one line of a terminal; erase it at the end."""

    def draw(progress: Progress) -> None:
        stream.draw_over(progress_text(progress)[: shutil.get_terminal_size().columns - 1])

    try:
        yield draw
    finally:
        stream.draw_over("")


def progress_text(progress: Progress) -> str:
    """Return a description of progress, with a bar if the total is known."""
    text = f"{progress.phase} {visible(progress.what)}"
    if not progress.total:
        return text
    full = _WIDTH * progress.done // progress.total
    return f"▕{'█' * full}{' ' * (_WIDTH - full)}▏ {progress.done}/{progress.total} {text}"
