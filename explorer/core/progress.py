"""Progress of long operations, reported to a callback that may cancel them.

Each part of the work is reported to the current callback before it starts. The callback is a notebook's progress bar, a
terminal line or a user's function; without one, a report only reads a context variable. A callback cancels the work by
raising an exception between two parts, so no part is left incomplete.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from time import monotonic
from typing import ParamSpec, TypeAlias, TypeVar

from explorer.core.late import late

P = ParamSpec("P")
R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class Progress:
    """State of the work: ``done`` of ``total`` parts of ``phase`` are complete, and ``what`` is the next part.

    A ``total`` of 0 means unknown.

    >>> ex.Progress("running", "matmul", done=3, total=10)
    Progress(phase='running', what='matmul', done=3, total=10)
    """

    phase: str
    """one of "reading", "building", "planning", "running", "training" and "writing"
    """
    what: str
    done: int = 0
    total: int = 0


ProgressCallback: TypeAlias = Callable[[Progress], None]


class Cancelled(KeyboardInterrupt):
    """Raised by a progress callback to cancel the work; plans, programs and nets remain usable."""

    def _render_traceback_(self) -> list[str]:
        """Return one sentence for the notebook instead of a traceback, because the user's code has no error."""
        return [f"Cancelled: {self}" if self.args else "Cancelled"]


class _CallbackFailed(BaseException):
    """Failure of a progress callback.

    It is not an Exception, so that error handlers for kernels, files and passes do not catch it.
    """

    def __init__(self, error: Exception) -> None:
        super().__init__(error)
        self.error = error


_current: ContextVar[ProgressCallback | None] = ContextVar("explorer_follower", default=None)


Display: TypeAlias = Callable[[], AbstractContextManager[ProgressCallback] | None]
"""function that returns a progress bar's context, which yields the callback, or None if nothing can be displayed"""

_notebook_bar: Display = late("explorer.in_notebook:progress_bar")
"""default display, if the context has neither a callback nor a display"""
_display: ContextVar[Display | None] = ContextVar("explorer_progress_display", default=None)


@contextmanager
def displayed_by(display: Display) -> Iterator[None]:
    """Show long-running work in the block with ``display``, unless the work has a callback."""
    token = _display.set(display)
    try:
        yield
    finally:
        _display.reset(token)


def current_callback() -> ProgressCallback | None:
    """Return this thread's progress callback, or None if no reports are needed."""
    return _current.get()


@contextmanager
def progress(report: ProgressCallback) -> Iterator[None]:
    """Call ``report`` with a ``Progress`` before each part of the work in the block.

    Reading, building and writing report each operator of a file, planning each pass, running each kernel, and training
    each batch. Another runtime reports only that it runs. An exception raised by ``report`` stops the work and
    propagates unchanged; raise ``Cancelled`` to cancel the work.

    >>> steps = []
    >>> with ex.progress(steps.append):
    ...     value = ex.evaluate(ex.tensor([1.0, 2.0]) + 1)
    >>> steps[-1].phase
    'running'
    """

    def reported(state: Progress) -> None:
        try:
            report(state)
        except Exception as error:
            raise _CallbackFailed(error) from error

    token = _current.set(reported)
    try:
        yield
    except _CallbackFailed as failed:
        raise failed.error from None
    finally:
        _current.reset(token)


def long_running(function: Callable[P, R]) -> Callable[P, R]:
    """Decorate a long-running function to report to the current callback, or else to a notebook's progress bar."""

    @functools.wraps(function)
    def reporting(*args: P.args, **options: P.kwargs) -> R:
        context = None if _current.get() is not None else (_display.get() or _notebook_bar)()
        if context is None:
            return function(*args, **options)
        with context as report, progress(report):
            return function(*args, **options)

    return reporting


@contextmanager
def delayed(
    make: Callable[[], AbstractContextManager[ProgressCallback]], after: float = 1.0, every: float = 0.1
) -> Iterator[ProgressCallback]:
    """Yield a callback that reports nothing for ``after`` seconds, and then at most every ``every`` seconds.

    ``make`` creates the underlying callback.
    """
    due = monotonic() + after
    callback: ProgressCallback | None = None
    with ExitStack() as stack:

        def report(progress: Progress) -> None:
            nonlocal due, callback
            if monotonic() < due:
                return
            if callback is None:
                callback = stack.enter_context(make())
            callback(progress)
            # Measure after the call, so that a slow callback, such as a browser's, is called less often.
            due = monotonic() + every

        yield report
