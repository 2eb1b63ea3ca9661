"""Operator types of files, by format: which are known, and how users add theirs."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from explorer.core.errors import UnknownNameError
from explorer.formats.onnx.operators import TABLE as ONNX
from explorer.formats.pnnx.operators import TABLE as PNNX
from explorer.net.operators.table import Builder, OperatorTable

_Registered = TypeVar("_Registered", bound=Builder)
_TABLES = {table.format: table for table in (PNNX, ONNX)}


def file_operator(*types: str, format: str = "pnnx") -> Callable[[_Registered], _Registered]:
    """Decorate the builder of operator types of a format's files; a type that is known is replaced.

    The builder takes an OperatorContext and returns the operator's value, or a tuple with one value an output. Raises
    DeclarationError where no type is named, UnknownNameError for a format that is none.
    """
    return _table(format).register(*types)


def layer_types(format: str = "pnnx") -> list[str]:
    """The operator types of a format's files (pnnx or onnx) that explorer can run, sorted; file_operator adds some."""
    return _table(format).types()


def _table(format: str) -> OperatorTable:
    try:
        return _TABLES[format]
    except KeyError:
        raise UnknownNameError(format, kind="format of files", known=_TABLES) from None
