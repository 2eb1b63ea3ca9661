"""The table of PNNX operator types, and the decorator that adds builders to it."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any, TypeVar

from explorer.formats.common.type_documentation import docstring_texts
from explorer.net.operators.table import OperatorTable
from explorer.record import OperatorType

_Function = TypeVar("_Function", bound=Callable[..., Any])

_PAGE = "https://docs.pytorch.org/docs/stable/generated/{name}.html"
_MODULES = {"nn": "torch.nn", "F": "torch.nn.functional", "torch": "torch", "Tensor": "torch.Tensor"}
"""prefix of the operator types that are named after functions and modules of torch → module"""


def _document(type: str) -> OperatorType:
    return _documented(type, TABLE.version)


TABLE = OperatorTable("pnnx", document=_document)


def file_operator(*types: str) -> Callable[[_Function], _Function]:
    """Decorate the builder of operator types; it must have a parameter for everything that a file may contain."""
    return TABLE.register(*types, ignored=())


def layer_types() -> list[str]:
    """Return the sorted operator types that explorer can run; ``file_operator`` adds types."""
    return TABLE.types()


@lru_cache(maxsize=4096)
def _documented(type: str, version: int) -> OperatorType:
    """Return the documentation of a type; ``version`` counts the registrations in the table."""
    prefix, _, name = type.partition(".")
    url = ""
    if prefix in _MODULES and type in TABLE and TABLE.is_own(type):
        url = _PAGE.format(name=f"{_MODULES[prefix]}.{name}")
    text, description = docstring_texts(TABLE, type)
    return OperatorType(type, "PNNX, which has no operator versions", text, url, description=description)
