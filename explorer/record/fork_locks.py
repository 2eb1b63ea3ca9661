"""Forked processes: a child has the locks that threads of its parent held, and none of the threads to let them go.

Whoever has a lock, or a state that threads change, is entered here, and makes both anew in a child.
"""

from __future__ import annotations

import os
from typing import Protocol
from weakref import WeakSet


class Renewable(Protocol):
    """Holds a lock, and what it protects."""

    def renew(self) -> None:
        """Make the lock anew, and the state that a thread may have left half changed."""
        ...


_held: WeakSet[Renewable] = WeakSet()


def renew_in_children(owner: Renewable) -> None:
    """Have an object make its lock anew in every process that is forked from now on, for as long as it lives."""
    _held.add(owner)


def _renew() -> None:
    for owner in list(_held):
        owner.renew()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew)
