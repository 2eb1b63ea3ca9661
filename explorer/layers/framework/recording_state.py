"""State of this thread's recording of layers: the layer whose shared forward is traced, and the expander at work.

Two parts of a layer depend on it. Its name and other individual values must not be read while a function is traced that
equal layers will share; and a call is recorded as its operations instead while the layer is expanded.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Protocol

from explorer.core.errors import DeclarationError
from explorer.core.ir.expr import Expr


class Expander(Protocol):
    """Recorder of a layer's operations in place of the call of its shared function."""

    def call(self, layer: Any, values: Mapping[str, Expr], parameters: Mapping[str, Expr | None]) -> dict[str, Expr]:
        """Record the outputs by port from inputs by port and parameters by path."""


class _State(threading.local):
    recording: object = None
    """layer whose forward is being recorded in this thread"""
    expander: Expander | None = None


_state = _State()


@contextmanager
def recording_forward(layer: object) -> Iterator[None]:
    """Forbid reads of individual values while the layer's shared forward is recorded."""
    outer, _state.recording = _state.recording, layer
    try:
        yield
    finally:
        _state.recording = outer


def forbid_in_shared_forward(layer: object, what: str) -> None:
    """Raise DeclarationError if a layer's forward reads a value in which layers that share its function differ."""
    if _state.recording is layer:
        raise DeclarationError(
            f"forward of {layer!r} reads its {what}",
            rule="forward must not read it, because layers of equal class, arguments and policies share one function",
            fix="make it an argument of the layer, or derive an attribute from it in prepare()",
        )


def current_expander() -> Expander | None:
    """Return the expander at work in this thread, if any."""
    return _state.expander


@contextmanager
def expanding(expander: Expander) -> Iterator[None]:
    """Record the calls of the block by an expander."""
    outer, _state.expander = _state.expander, expander
    try:
        yield
    finally:
        _state.expander = outer
