"""Shared functions of layers: equal class, arguments and policies give calls of one traced function."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from types import MethodType
from typing import TYPE_CHECKING, Any
from weakref import WeakValueDictionary

from explorer.core.bit_keys import exact
from explorer.core.errors import DeclarationError
from explorer.core.ir.expr import Expr
from explorer.core.tracing.captures import note
from explorer.core.tracing.decorator import Function

if TYPE_CHECKING:
    from explorer.layers.framework.layer import Layer

_functions: WeakValueDictionary[Any, Function[..., Any]] = WeakValueDictionary()
"""traced functions by blueprint"""


class _State(threading.local):
    recording: Layer | None = None
    """layer whose forward is being recorded in this thread"""


_state = _State()


def shared(layer: Layer) -> Function[..., Any]:
    """Return the function of all layers with this one's blueprint.

    It is called with inputs by port, then parameters in the order of ``layer.paths()``.
    """
    traced = _functions.get(layer.blueprint)
    if traced is None:
        traced = _functions[layer.blueprint] = Function(_body(layer.skeleton()), type(layer).__name__, "layer")
    return traced


def _body(layer: Layer) -> Any:
    def body(**operands: Expr) -> Any:
        values = {port: operands.pop(port) for port in layer.inputs}
        parameters = dict(zip(layer.paths(), operands.values(), strict=True))
        note(lambda: type(layer).forward)
        with recording_forward(layer):
            return layer.outputs_of(layer.expand(values, parameters))

    body.__wrapped__ = MethodType(type(layer).forward, layer)  # type: ignore[attr-defined]  # what it reads is watched
    return body


@contextmanager
def recording_forward(layer: Layer) -> Iterator[None]:
    """Forbid reads of individual values while the layer's shared forward is recorded."""
    outer, _state.recording = _state.recording, layer
    try:
        yield
    finally:
        _state.recording = outer


def forbid_in_shared_forward(layer: Layer, what: str) -> None:
    """Raise DeclarationError if a layer's forward reads a value in which layers that share its function differ."""
    if _state.recording is layer:
        raise DeclarationError(
            f"forward of {layer!r} reads its {what}",
            rule="forward must not read it, because layers of equal class, arguments and policies share one function",
            fix="make it an argument of the layer, or derive an attribute from it in prepare()",
        )


def identity(value: Any) -> Any:
    """Return a key for an attribute: by value if hashable, through lists and dicts; else by identity."""
    if isinstance(value, Mapping):
        return type(value), tuple([(name, identity(item)) for name, item in value.items()])
    if isinstance(value, list | tuple):
        return type(value), tuple(map(identity, value))
    key = exact(value)
    try:
        hash(key)
    except TypeError:
        return _ByIdentity(value)
    return key


class _ByIdentity:
    """Key that equals only keys of the same object, which it keeps alive."""

    def __init__(self, value: Any) -> None:
        self.value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _ByIdentity) and other.value is self.value

    def __hash__(self) -> int:
        return id(self.value)
