"""The few things that low floors ask of high ones; ``explorer/__init__`` fills them, and a test checks that."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any


def _empty(*_: Any, **__: Any) -> Any:
    raise RuntimeError("explorer is not imported as a whole: import explorer, not one of its parts")


@dataclass(slots=True)
class Hooks:
    """What reaches up."""

    evaluate: Callable[..., Any] = _empty
    """expression(s) → read-only array(s)"""
    register: Callable[..., Any] = _empty
    """expression → handle in the thread's default plan"""
    explore: Callable[..., Any] = _empty
    """expression(s), plan or recording → widget"""
    check_view: Callable[..., Any] = _empty
    """options of a view, by name: UnknownNameError for one that is none, before anything is computed for it"""
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
    """() → context manager of who follows work where nobody asked to, or None"""

    def missing(self) -> list[str]:
        """The names of the hooks that nobody filled."""
        return [field.name for field in fields(self) if getattr(self, field.name) is _empty]


hooks = Hooks()
