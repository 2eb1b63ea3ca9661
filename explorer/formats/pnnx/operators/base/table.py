"""The table of PNNX operator types, and how builders of this package enter it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from explorer.net.operators.table import OperatorTable

_Function = TypeVar("_Function", bound=Callable[..., Any])

TABLE = OperatorTable("pnnx")


def file_operator(*types: str) -> Callable[[_Function], _Function]:
    """Decorate the function of operator types; it must have a parameter for all that the file says."""
    return TABLE.register(*types, ignored=())


def layer_types() -> list[str]:
    """The operator types of files that explorer can run, sorted; ``file_operator`` adds to them."""
    return TABLE.types()
