"""Parameters that stand in different places: by name where pnnx knows the operator, else by position."""

from __future__ import annotations

from typing import Any, Final

from explorer.core.errors import OperandError
from explorer.core.ir.expr import Expr
from explorer.net.operators.context import OperatorContext

_REQUIRED: Final = object()


def value(op: OperatorContext, position: int, name: str, default: Any = _REQUIRED) -> Any:
    """A parameter by its name, else the operand at a position, else the default."""
    if op.has(name):
        return op.argument(name)
    if position < len(op.operands) or default is _REQUIRED:
        return op.operand(position, name)
    return default


def tensor_or_none(op: OperatorContext, position: int, name: str) -> Expr | None:
    """A tensor that may be absent."""
    found = value(op, position, name, None)
    if found is None or isinstance(found, Expr):
        return found
    raise OperandError(f"{name}={found!r}", rule=f"{op.definition.type}: {name} is a tensor, or None")


def integer(op: OperatorContext, position: int, name: str, default: Any = _REQUIRED) -> int:
    """A whole number by name or position."""
    found = value(op, position, name, default)
    if isinstance(found, bool) or not isinstance(found, int):
        raise OperandError(f"{name}={found!r}", rule=f"{op.definition.type}: {name} is a whole number")
    return found


def integers(op: OperatorContext, position: int, name: str, default: Any = _REQUIRED) -> tuple[int, ...]:
    """A list of whole numbers by name or position; one number is a list of one."""
    found = value(op, position, name, default)
    items = found if isinstance(found, (tuple, list)) else (found,)
    if not all(isinstance(item, int) and not isinstance(item, bool) for item in items):
        raise OperandError(f"{name}={found!r}", rule=f"{op.definition.type}: {name} is a list of whole numbers")
    return tuple(items)


def flag(op: OperatorContext, position: int, name: str, default: Any = _REQUIRED) -> bool:
    """True or False by name or position."""
    found = value(op, position, name, default)
    if not isinstance(found, bool):
        raise OperandError(f"{name}={found!r}", rule=f"{op.definition.type}: {name} is True or False")
    return found


def sizes(op: OperatorContext, name: str, axes: int, default: Any = _REQUIRED) -> tuple[int, ...]:
    """A parameter that is one whole number for all axes, or one for each of so many."""
    found = op.integers(name) if default is _REQUIRED else op.integers(name, default)
    if len(found) == 1:
        return found * axes
    if len(found) != axes:
        raise OperandError(f"{name}={found!r}", rule=f"{op.definition.type}: {name} is one whole number, or {axes}")
    return found
