"""Context of the next recorded node: scope, user's line, policies, and the functions being traced.

Each thread has its own context. Recording reads it from a ``threading.local`` once per node, because context variables
would need one look-up each. ``with`` blocks change the context, and restore it even after an exception.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from itertools import takewhile
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from explorer.core.argument_checks import named
from explorer.core.ir.source_location import IN_FUNCTION, INTERNAL, CalledCode, with_callers
from explorer.core.types.device import Device, cpu
from explorer.record.escape import visible

if TYPE_CHECKING:
    from types import CodeType, FrameType

    from explorer.core.policy import Minor, Policy


class Scope:
    """Named, nestable region of the user's program: a block, a layer, a function, or an operator in a model file."""

    __slots__ = ("kind", "name", "parent", "payload", "ports", "type")

    def __init__(self, name: str, kind: str, parent: Scope | None, type: str = "", payload: Any = None) -> None:
        self.name, self.kind, self.parent, self.type = name, kind, parent, type
        self.payload = payload
        """payload for the recording: a layer's properties, or a gradient scope's forward uid"""
        self.ports: tuple[dict[str, int], dict[str, int]] | None = None
        """uids of the values at a layer's inputs and outputs, by name"""

    def __repr__(self) -> str:
        return f"{self.parent!r}/{visible(self.name)}" if self.parent is not None else visible(self.name)


def operator_of(scope: Scope | None) -> Any:
    """Return the net operator whose scope is or contains ``scope``, or None outside nets."""
    while scope is not None and (scope.kind != "file" or scope.payload is None):
        scope = scope.parent
    return None if scope is None else scope.payload


def common_scope(scopes: Iterable[Scope | None]) -> Scope | None:
    """Return the innermost scope that contains all given scopes; None for the top level."""
    shared: list[Scope] | None = None
    for scope in scopes:
        chain: list[Scope] = []
        while scope is not None:
            chain.append(scope)
            scope = scope.parent
        chain.reverse()
        # compare from the outermost level inwards
        pairs = zip(shared, chain, strict=False) if shared is not None else zip(chain, chain, strict=True)
        shared = [shared_scope for shared_scope, _ in takewhile(lambda pair: pair[0] is pair[1], pairs)]
    return shared[-1] if shared else None


class _State(threading.local):
    scope: Scope | None = None
    origin: tuple[Any, int] | None = None
    """code object and instruction, or place, to which nodes are attributed instead of the user's line"""
    traces: tuple[int, ...] = ()
    """uid of the first node of each function that is being traced"""
    watches_draws: bool = False
    """whether random draws in the traced body cause a warning (tracing/random_draws.py)"""
    policies: Mapping[Minor, Policy] = MappingProxyType({})
    """policies that apply to operations recorded now"""
    device: Device = cpu
    """default device of recorded tensors and constants"""


state = _State()


def line_of(frame: FrameType) -> tuple[CodeType | CalledCode, int]:
    """Return the user's code and instruction that led to ``frame``, in the innermost frame outside explorer.

    A function's code is returned with the calls that led to it.
    """
    code = frame.f_code
    while code.co_filename.startswith(INTERNAL):
        outer = frame.f_back
        if outer is None:
            break
        frame = outer
        code = frame.f_code
    # check the flag here, to avoid a Python call per node outside functions
    return (with_callers(code, frame.f_back) if code.co_flags & IN_FUNCTION else code), frame.f_lasti


@contextmanager
def single_source_line() -> Iterator[None]:
    """Attribute the block's nodes to the user's current line, which is looked up once."""
    outer = state.origin
    state.origin = outer or line_of(sys._getframe(3))  # skip this generator and contextlib's ``__enter__``
    try:
        yield
    finally:
        state.origin = outer


@named
@contextmanager
def scope(name: str, kind: str = "scope", type: str = "", payload: Any = None) -> Iterator[Scope]:
    """Record the block's nodes inside a named scope, which diagrams draw as a box; scopes nest.

    ``kind`` is "scope" for user-defined boxes; layers, functions, files and gradients have their own kinds. ``type`` is
    the class of a layer or operator, and ``payload`` is stored with the box in the recording.

    >>> x = ex.tensor([1.0, 2.0])
    >>> with ex.scope("head"):
    ...     y = ex.tanh(x)
    >>> y.scope, x.scope
    (head, None)
    """
    outer = state.scope
    state.scope = inner = Scope(name, kind, outer, type, payload)
    try:
        yield inner
    finally:
        state.scope = outer


@contextmanager
def placed_on(device: Device) -> Iterator[None]:
    """Record the block's tensors and constants on ``device``, unless they specify another one.

    Operations run on the device of their operands.
    """
    outer = state.device
    state.device = device
    try:
        yield
    finally:
        state.device = outer


@contextmanager
def recording_at(scope: Scope | None, code: Any, instruction: int = 0) -> Iterator[None]:
    """Record the block's nodes in an existing scope (None: top level), attributed to a place or an instruction."""
    outer = state.scope, state.origin
    state.scope, state.origin = scope, (code, instruction)
    try:
        yield
    finally:
        state.scope, state.origin = outer
