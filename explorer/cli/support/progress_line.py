"""A line on a terminal that tells how far long work is, and is gone when the work is over."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager

from explorer.cli.support.terminal import Outlet
from explorer.core.hooks import hooks
from explorer.core.progress import Progress, ProgressCallback, delayed
from explorer.record.escape import visible

_WIDTH = 24


@contextmanager
def followed(stream: Outlet) -> Iterator[None]:
    """Inside, each piece of work that takes longer than a second is told on ``stream``, where that is a terminal."""
    before = hooks.progress_callback
    hooks.progress_callback = lambda: delayed(lambda: line(stream)) if stream.isatty() else None
    try:
        yield
    finally:
        hooks.progress_callback = before


@contextmanager
def line(stream: Outlet) -> Iterator[ProgressCallback]:
    """Draw on a terminal what is told, one over the other; nothing is left in the end."""

    def draw(progress: Progress) -> None:
        stream.draw_over(said(progress)[: shutil.get_terminal_size().columns - 1])

    try:
        yield draw
    finally:
        stream.draw_over("")


def said(progress: Progress) -> str:
    """Where work is, as text: with a bar where it is known how much there is."""
    told = f"{progress.phase} {visible(progress.what)}"
    if not progress.total:
        return told
    full = _WIDTH * progress.done // progress.total
    return f"▕{'█' * full}{' ' * (_WIDTH - full)}▏ {progress.done}/{progress.total} {told}"
