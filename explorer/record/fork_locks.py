"""Locks in forked processes: a child inherits locks that threads of its parent held, but not those threads.

Owners of a lock, or of state that threads change, register here and recreate both in each child.
"""

from __future__ import annotations

import os
from typing import Protocol
from weakref import WeakSet


class Renewable(Protocol):
    """Owner of a lock and of the state that the lock protects."""

    def renew(self) -> None:
        """Recreate the lock, and the state that a thread may have left partly changed."""
        ...


_owners: WeakSet[Renewable] = WeakSet()


def renew_in_children(owner: Renewable) -> None:
    """Register an object, by weak reference, to recreate its lock in every process forked from now on."""
    _owners.add(owner)


def _renew() -> None:
    """Recreate all registered locks."""
    for owner in list(_owners):
        owner.renew()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew)
