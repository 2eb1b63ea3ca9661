"""Registry of operations and of the functions that record them, by name.

Lower packages reach operations of higher ones through it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

from explorer.core.argument_checks import checked
from explorer.core.errors import DeclarationError
from explorer.core.registry_base import Registry

if TYPE_CHECKING:
    from explorer.core.ir.operation import Operation

_Function = TypeVar("_Function", bound=Callable[..., Any])

operations: Registry[str, type[Operation]] = Registry("operation")
"""operation name → its class"""
extensions: Registry[str, list[type[Operation]]] = Registry("extended operation")
"""operation name → extensions that are asked, in order, for operands that it rejects"""
functions: Registry[str, Callable[..., Any]] = Registry("operation")
"""function name → the recording function; a class without attributes registers itself"""


def public(function: _Function) -> _Function:
    """Register a recording function under its name; the name of another module's function raises DeclarationError.

    Arguments annotated as numbers, booleans, strings or policies are checked at each call.
    """
    name = function.__name__
    if (registered := functions.get(name)) and getattr(registered, "__module__", None) != function.__module__:
        raise DeclarationError(
            f"a second function {name!r}", rule="a function's name must be unique", fix=f"def {name}_2(…), for instance"
        )
    function = functions[name] = checked(function)
    return function


def function(name: str) -> Callable[..., Any]:
    """Return the recording function of a name; raises UnknownNameError with the nearest valid ones."""
    return functions.find(name)


def operation(name: str) -> type[Operation]:
    """Return the operation class of a name; raises UnknownNameError with the nearest valid ones.

    >>> ex.operation("tanh").elementwise
    True
    """
    return operations.find(name)
