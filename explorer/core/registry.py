"""Names to operations and to the functions that record them: how a low floor reaches a family on a higher one."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

from explorer.core.argument_checks import checked
from explorer.core.errors import DeclarationError, UnknownNameError

if TYPE_CHECKING:
    from explorer.core.ir.operation import Operation

_Function = TypeVar("_Function", bound=Callable[..., Any])

operations: dict[str, type[Operation]] = {}
"""operation name → its class"""
extensions: dict[str, list[type[Operation]]] = {}
"""operation name → the operations that are asked, in order, where it refuses its operands"""
functions: dict[str, Callable[..., Any]] = {}
"""function name → what records it; a class without attributes enters itself"""


def public(function: _Function) -> _Function:
    """Enter a function that records expressions under its name; another module's name raises DeclarationError.

    Its arguments that are annotated as numbers, truth values, strings and policies are checked when it is called.
    """
    name = function.__name__
    if (held := functions.get(name)) and getattr(held, "__module__", None) != function.__module__:
        raise DeclarationError(
            f"a second function {name!r}", rule="a function's name is unique", fix="choose another name"
        )
    function = functions[name] = checked(function)
    return function


def function(name: str) -> Callable[..., Any]:
    """The recording function of a name; raises UnknownNameError with the nearest valid ones."""
    try:
        return functions[name]
    except KeyError:
        raise UnknownNameError(name, kind="operation", known=functions) from None


def operation(name: str) -> type[Operation]:
    """The operation class of a name; raises UnknownNameError with the nearest valid ones."""
    try:
        return operations[name]
    except KeyError:
        raise UnknownNameError(name, kind="operation", known=operations) from None
