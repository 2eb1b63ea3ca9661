"""The table of PNNX operator types, and how builders of this package enter it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from explorer.net.operators.reads import Ignored
from explorer.net.operators.schema import Count
from explorer.net.operators.table import OperatorTable

_Function = TypeVar("_Function", bound=Callable[..., Any])

TABLE = OperatorTable("pnnx")


def file_operator(
    *types: str, operands: Count | None = None, ignored: Ignored = ()
) -> Callable[[_Function], _Function]:
    """Decorate the function of operator types; it must have a parameter for all that the file says but ``ignored``.

    These are names of arguments and weights, and positions of operands, that change no value.
    """
    return TABLE.register(*types, operands=operands, ignored=ignored)


def layer_types() -> list[str]:
    """The operator types of files that explorer can run, sorted; ``file_operator`` adds to them."""
    return TABLE.types()
