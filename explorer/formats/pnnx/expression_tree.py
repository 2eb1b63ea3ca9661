"""Syntax tree of a ``pnnx.Expression``: nodes, function arities, traversal and printing.

A tree may be 100,000 levels deep, so no function here is recursive.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from explorer.formats.pnnx.param_values import read_number, write_string, write_value

_UNARY = """
    abs acos acosh asin asinh atan atanh ceil cos cosh erf exp expm1 floor log log10 log1p neg reciprocal round rsqrt
    sign sin sinh sqrt square tan tanh trunc int torch.bool torch.float torch.long
"""
_BINARY = """
    add sub mul div floor_divide fmod remainder pow atan2 max maximum min minimum logaddexp and or xor lshift rshift
"""
ARITY: Mapping[str, tuple[int, int]] = (
    dict.fromkeys(_UNARY.split(), (1, 1)) | dict.fromkeys(_BINARY.split(), (2, 2)) | {"size": (1, 2)}
)
"""minimum and maximum number of arguments; ``size(x)`` returns a shape, and ``size(x,n)`` the length of one axis"""

CONSTANTS: dict[str, bool | None] = {"None": None, "True": True, "False": False}


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class _Node:
    """Base class of nodes. Trees are equal if their printed forms are, so 1, 1.0 and True differ."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Node) and write(self) == write(other)

    def __hash__(self) -> int:
        return hash(write(self))

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {write(self)}>"


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Call(_Node):
    """A call of a function in ``ARITY``."""

    function: str
    arguments: tuple[Node, ...]


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Operand(_Node):
    """An input of the operator, given by its index."""

    index: int


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Literal(_Node):
    """A literal value."""

    value: bool | int | float | complex | str | None


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class ListOf(_Node):
    """A list of values."""

    items: tuple[Node, ...]


Node: TypeAlias = Call | Operand | Literal | ListOf


def preorder(tree: Node) -> Iterator[Node]:
    """Yield all nodes from left to right, each node before its members."""
    stack = [tree]
    while stack:
        node = stack.pop()
        yield node
        stack.extend(reversed(members(node)))


def postorder(tree: Node) -> Iterator[Node]:
    """Yield all nodes from left to right, each node after its members, as a stack machine evaluates them."""
    stack = [(tree, False)]
    while stack:
        node, ready = stack.pop()
        if ready or not members(node):
            yield node
        else:
            stack.append((node, True))
            stack.extend((member, False) for member in reversed(members(node)))


def members(node: Node) -> tuple[Node, ...]:
    """Return the arguments of a call or the items of a list; return () for any other node."""
    return node.arguments if isinstance(node, Call) else node.items if isinstance(node, ListOf) else ()


def write(tree: Node | _Node) -> str:
    """Format a tree as nested calls that the parser can read."""
    pieces: list[str] = []
    stack: list[Node | _Node | str] = [tree]
    while stack:
        node = stack.pop()
        if isinstance(node, str):
            pieces.append(node)
        elif isinstance(node, (Call, ListOf)):
            opening, closing = (f"{node.function}(", ")") if isinstance(node, Call) else ("[", "]")
            pieces.append(opening)
            stack.append(closing)
            for index, member in enumerate(reversed(members(node))):
                stack.extend((",", member) if index else (member,))
        elif isinstance(node, Operand):
            pieces.append(f"@{node.index}")
        elif isinstance(node, Literal):
            pieces.append(_write_literal(node.value))
    return "".join(pieces)


def _write_literal(value: bool | int | float | complex | str | None) -> str:
    if not isinstance(value, str):
        return write_value(value)
    bare = bool(value) and value not in ARITY and value not in CONSTANTS and read_number(value) is None
    return write_string(value, bare=bare and value[0] != "@" and not set('(),[]"') & set(value))
