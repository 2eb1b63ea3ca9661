"""Late-bound functions that lower packages call in higher ones.

``explorer/__init__`` fills them in, and a test checks that none is missing. They keep the imports going one way.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any


def _empty(*_: Any, **__: Any) -> Any:
    raise RuntimeError("explorer is not imported as a whole: import explorer, not one of its parts")


@dataclass(slots=True)
class Hooks:
    """Table of the functions of higher packages, by name."""

    evaluate: Callable[..., Any] = _empty
    """expression(s) → read-only array(s)"""
    register: Callable[..., Any] = _empty
    """expression → handle in the thread's default plan"""
    explore: Callable[..., Any] = _empty
    """expression(s), plan or recording → widget"""
    check_view: Callable[..., Any] = _empty
    """check a view's options by name: UnknownNameError for an unknown one, before anything is computed"""
    explain: Callable[..., Any] = _empty
    """plan, expression or None → text"""
    to_graphviz: Callable[..., Any] = _empty
    """plan, stage → graphviz.Digraph"""
    compare: Callable[..., Any] = _empty
    """two plans → their comparison"""
    open: Callable[..., Any] = _empty
    """path, weights= → the net in a model's file"""
    save: Callable[..., Any] = _empty
    """net, path → a model's file"""
    call_gradient: Callable[..., Any] = _empty
    """gradients of a call's operands"""
    batch_call: Callable[..., Any] = _empty
    """the batched form of a call"""

    progress_callback: Callable[..., Any] = _empty
    """() → context manager with the default progress callback, or None"""

    def missing(self) -> list[str]:
        """Return the names of the hooks that are not filled in."""
        return [field.name for field in fields(self) if getattr(self, field.name) is _empty]


hooks = Hooks()
