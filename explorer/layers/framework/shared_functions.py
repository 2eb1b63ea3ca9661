"""What layers record, shared: layers of equal class, arguments and policies are calls of one traced function."""

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
"""what layers record, by their blueprints"""


class _State(threading.local):
    recording: Layer | None = None
    """the layer whose forward is being recorded, in this thread"""


_state = _State()


def shared(layer: Layer) -> Function[..., Any]:
    """The function of all layers with this one's blueprint.

    It is called with inputs by port, then parameters in the order of ``layer.paths()``.
    """
    held = _functions.get(layer.blueprint)
    if held is None:
        held = _functions[layer.blueprint] = Function(_body(layer.skeleton()), type(layer).__name__, "layer")
    return held


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
    """What the layer's forward must not read is refused meanwhile."""
    outer, _state.recording = _state.recording, layer
    try:
        yield
    finally:
        _state.recording = outer


def forbid_in_shared_forward(layer: Layer, what: str) -> None:
    """Raise DeclarationError where a layer's forward reads what others, which share its function, have otherwise."""
    if _state.recording is layer:
        raise DeclarationError(
            f"forward of {layer!r} reads its {what}",
            rule="layers of equal class, arguments and policies share what forward records, whatever that is",
            fix="make it an argument of the layer, or derive an attribute from it in prepare()",
        )


def identity(value: Any) -> Any:
    """A key for an attribute: by value where it can be hashed, through lists and dicts; else by the object itself."""
    if isinstance(value, Mapping):
        return type(value), tuple([(name, identity(item)) for name, item in value.items()])
    if isinstance(value, list | tuple):
        return type(value), tuple(map(identity, value))
    found = exact(value)
    try:
        hash(found)
    except TypeError:
        return _Itself(value)
    return found


class _Itself:
    """An object that equals no other; it is kept alive."""

    def __init__(self, value: Any) -> None:
        self.value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Itself) and other.value is self.value

    def __hash__(self) -> int:
        return id(self.value)
