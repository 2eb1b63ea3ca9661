"""Locks in forked processes: a child process inherits locks held by threads of its parent, but not those threads.

Objects with a lock, or with state that threads change, register here and recreate both in each child process.
"""

from __future__ import annotations

import os
from typing import Protocol
from weakref import WeakSet


class Renewable(Protocol):
    """Object that owns a lock and the state that the lock protects."""

    def renew(self) -> None:
        """Create the lock again, and also the state, which a thread may have left partly changed."""
        ...


_owners: WeakSet[Renewable] = WeakSet()


def renew_in_children(owner: Renewable) -> None:
    """Register ``owner``, by weak reference: its ``renew`` is called in every process forked from now on."""
    _owners.add(owner)


def _renew() -> None:
    for owner in list(_owners):
        owner.renew()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew)
