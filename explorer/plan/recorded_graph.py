"""Watcher of recorded graphs: it is called with the first graph that is planned in a block, before any pass has run.

Planning takes longer than recording. Meanwhile a notebook can show the graph as it was recorded, and the planner needs
to know nothing of notebooks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TypeAlias

from explorer.plan.graph.plan_graph import PlanGraph

Watcher: TypeAlias = Callable[[PlanGraph], None]

_watcher: ContextVar[Watcher | None] = ContextVar("explorer_recorded_graph", default=None)


@contextmanager
def watching(watcher: Watcher) -> Iterator[None]:
    """Call ``watcher`` with the first graph that is planned inside the block; its first stage is closed."""
    token = _watcher.set(watcher)
    try:
        yield
    finally:
        _watcher.reset(token)


def report(graph: PlanGraph) -> None:
    """Call the watcher, if there is one that has not been called yet."""
    watcher = _watcher.get()
    if watcher is not None:
        _watcher.set(None)  # bodies of functions are planned inside
        watcher(graph)
