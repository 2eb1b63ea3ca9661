"""Methods of a plan that one thread at a time may use: a second thread is refused, and does not wait.

What a user shares by mistake is then an error at once, and never a mixture of two programs.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable
from typing import Concatenate, ParamSpec, Protocol, TypeVar

from explorer.core.errors import StateError
from explorer.record.fork_locks import renew_in_children

_P = ParamSpec("_P")
_R = TypeVar("_R")


class Use:
    """Use of a plan by a thread: a lock."""

    def __init__(self) -> None:
        self.renew()
        renew_in_children(self)

    def renew(self) -> None:
        """Recreate the lock, in a forked process too: the thread that held it does not exist there."""
        self.lock = threading.RLock()


class _Used(Protocol):
    """A plan."""

    _use: Use


_Plan = TypeVar("_Plan", bound=_Used)


def by_one_thread(method: Callable[Concatenate[_Plan, _P], _R]) -> Callable[Concatenate[_Plan, _P], _R]:
    """Make a method of a plan raise StateError while another thread is in such a method of the same plan."""

    @functools.wraps(method)
    def call(plan: _Plan, /, *args: _P.args, **kwargs: _P.kwargs) -> _R:
        lock = plan._use.lock
        if not lock.acquire(blocking=False):
            raise StateError(
                f"{method.__name__}() of a plan that another thread is using",
                rule="one thread at a time may use a plan: its registrations, its run and its values belong together",
                fix="make a plan in each thread, ex.EvalPlan(), or call ex.evaluate(x)",
            )
        try:
            return method(plan, *args, **kwargs)
        finally:
            lock.release()

    return call
