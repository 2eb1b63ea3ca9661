"""Per-thread state of layer recording: the layer whose shared function is being traced, and the active expander.

While a function that equal layers share is traced, nothing that differs between these layers may be read, such as a
layer's name. While a layer is expanded, its operations are recorded instead of a call.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Protocol

from explorer.core.errors import DeclarationError
from explorer.core.ir.expr import Expr


class Expander(Protocol):
    """Object that records a layer's operations instead of a call of its shared function."""

    def call(self, layer: Any, values: Mapping[str, Expr], parameters: Mapping[str, Expr | None]) -> dict[str, Expr]:
        """Record the outputs, given inputs and parameters by port and path; return them by port."""


class _State(threading.local):
    recording: object = None
    """layer whose forward is being recorded in this thread"""
    expander: Expander | None = None


_state = _State()


@contextmanager
def recording_forward(layer: object) -> Iterator[None]:
    """Forbid reading values specific to ``layer`` while its shared function is traced."""
    outer, _state.recording = _state.recording, layer
    try:
        yield
    finally:
        _state.recording = outer


def forbid_in_shared_forward(layer: object, what: str) -> None:
    """Raise DeclarationError if the forward of ``layer`` is being traced.

    ``what`` names a value that may differ between the layers that share the function.
    """
    if _state.recording is layer:
        raise DeclarationError(
            f"forward of {layer!r} reads its {what}",
            rule="forward must not read it, because layers with equal class, arguments and policies share one function",
            fix="make it an argument of the layer, or derive an attribute from it in prepare()",
        )


def current_expander() -> Expander | None:
    """Return this thread's active expander, or None."""
    return _state.expander


@contextmanager
def expanding(expander: Expander) -> Iterator[None]:
    """Let ``expander`` record the operations of layers that are called in the block."""
    outer, _state.expander = _state.expander, expander
    try:
        yield
    finally:
        _state.expander = outer
