"""The table of PNNX operator types, and the decorator that adds builders to it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from explorer.net.operators.table import OperatorTable

_Function = TypeVar("_Function", bound=Callable[..., Any])

TABLE = OperatorTable("pnnx")


def file_operator(*types: str) -> Callable[[_Function], _Function]:
    """Decorate the builder of operator types; it must have a parameter for everything that a file may contain."""
    return TABLE.register(*types, ignored=())


def layer_types() -> list[str]:
    """Return the sorted operator types that explorer can run; ``file_operator`` adds types."""
    return TABLE.types()
