"""Plan methods that only one thread at a time may use.

A second thread gets an error instead of waiting, since sharing a plan is a mistake.
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
    """Lock of a plan, held by the thread that uses the plan."""

    def __init__(self) -> None:
        self.renew()
        renew_in_children(self)

    def renew(self) -> None:
        """Create a new lock in a forked process, where the thread that held the old lock does not exist."""
        self.lock = threading.RLock()


class _Used(Protocol):
    """Plan that has a lock."""

    _use: Use


_Plan = TypeVar("_Plan", bound=_Used)


def by_one_thread(method: Callable[Concatenate[_Plan, _P], _R]) -> Callable[Concatenate[_Plan, _P], _R]:
    """Decorate a method of a plan: it raises StateError while another thread runs such a method of the same plan."""

    @functools.wraps(method)
    def call(plan: _Plan, /, *args: _P.args, **kwargs: _P.kwargs) -> _R:
        lock = plan._use.lock
        if not lock.acquire(blocking=False):
            raise StateError(
                f"{method.__name__}() of a plan that another thread is using",
                rule="only one thread may use a plan at a time: its registrations, run and values belong together",
                fix="make a plan in each thread, ex.EvalPlan(), or call ex.evaluate(x)",
            )
        try:
            return method(plan, *args, **kwargs)
        finally:
            lock.release()

    return call
