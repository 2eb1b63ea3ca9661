"""Per-thread state of layer recording: the layer whose shared forward is being traced, and the active expander.

While a function that equal layers share is traced, a layer's name and other individual values must not be read. While a
layer is expanded, its operations are recorded instead of a call.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Protocol

from explorer.core.errors import DeclarationError
from explorer.core.ir.expr import Expr


class Expander(Protocol):
    """Recorder of a layer's operations instead of the call of its shared function."""

    def call(self, layer: Any, values: Mapping[str, Expr], parameters: Mapping[str, Expr | None]) -> dict[str, Expr]:
        """Record the outputs by port from inputs by port and parameters by path."""


class _State(threading.local):
    recording: object = None
    """layer whose forward is being recorded in this thread"""
    expander: Expander | None = None


_state = _State()


@contextmanager
def recording_forward(layer: object) -> Iterator[None]:
    """Forbid reading the layer's individual values while its shared forward is recorded."""
    outer, _state.recording = _state.recording, layer
    try:
        yield
    finally:
        _state.recording = outer


def forbid_in_shared_forward(layer: object, what: str) -> None:
    """Raise DeclarationError if a layer's forward reads a value that differs between layers that share its function."""
    if _state.recording is layer:
        raise DeclarationError(
            f"forward of {layer!r} reads its {what}",
            rule="forward must not read it, because layers with equal class, arguments and policies share one function",
            fix="make it an argument of the layer, or derive an attribute from it in prepare()",
        )


def current_expander() -> Expander | None:
    """Return this thread's active expander, if any."""
    return _state.expander


@contextmanager
def expanding(expander: Expander) -> Iterator[None]:
    """Record the calls in the block with an expander."""
    outer, _state.expander = _state.expander, expander
    try:
        yield
    finally:
        _state.expander = outer
