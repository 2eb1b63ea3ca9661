"""How far long work is, told while it goes on to who follows it; who follows may cancel it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from time import monotonic
from typing import TypeAlias

from explorer.core.hooks import hooks


@dataclass(frozen=True, slots=True)
class Progress:
    """Where work is: ``done`` of ``total`` parts of ``phase`` are over, ``what`` comes next; ``total`` 0 is unknown."""

    phase: str
    """reading, building, planning or running"""
    what: str
    done: int = 0
    total: int = 0


ProgressCallback: TypeAlias = Callable[[Progress], None]


class Cancelled(KeyboardInterrupt):
    """Work was cancelled by who follows it; like an interrupt it leaves plans, programs and nets ready for more."""


_current: ContextVar[ProgressCallback | None] = ContextVar("explorer_follower", default=None)


def current_callback() -> ProgressCallback | None:
    """Who follows the work of this thread, None for nobody: then nothing need be told."""
    return _current.get()


@contextmanager
def progress(report: ProgressCallback) -> Iterator[None]:
    """Follow what is read, built, planned and run inside: ``report`` is called with a ``Progress`` before each part.

    Parts are a file's operators, passes, and kernels. Whatever ``report`` raises stops the work there; raise
    ``Cancelled`` to cancel it.
    """
    token = _current.set(report)
    try:
        yield
    finally:
        _current.reset(token)


@contextmanager
def long_running() -> Iterator[None]:
    """One piece of work that may be long: followed by who follows already, else by whom a notebook brings."""
    made = None if _current.get() is not None else hooks.progress_callback()
    if made is None:
        yield
        return
    with made as report, progress(report):
        yield


@contextmanager
def delayed(
    make: Callable[[], AbstractContextManager[ProgressCallback]], after: float = 1.0, every: float = 0.1
) -> Iterator[ProgressCallback]:
    """Who follows work only when it takes longer than ``after`` seconds, and is told every ``every`` seconds."""
    due = monotonic() + after
    made: ProgressCallback | None = None
    with ExitStack() as stack:

        def report(progress: Progress) -> None:
            nonlocal due, made
            if monotonic() < due:
                return
            if made is None:
                made = stack.enter_context(make())
            made(progress)
            due = monotonic() + every

        yield report
