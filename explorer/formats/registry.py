"""Operator types by dialect: the table that knows those of a definition, and how users add theirs to a format's files.

A table is imported when it is asked for, since each takes its operators along. Files have the dialects of ``FILES``;
the dialect "explorer" is that of nets that are written by hand, whose types ``net_operator`` adds.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import TypeVar

from explorer.core.errors import FileError, UnknownNameError
from explorer.net.definition.definition import NetDefinition
from explorer.net.operators.table import Builder, OperatorTable

_Registered = TypeVar("_Registered", bound=Builder)

FILES = {"onnx": "explorer.formats.onnx.operators", "pnnx": "explorer.formats.pnnx.operators"}
"""format of files → the package of its operators, whose TABLE knows their types"""
DIALECTS = {"explorer": "explorer.net.operators.caffe2", **FILES}
"""dialect of definitions → the package of its operators"""


def operator_table(dialect: str) -> OperatorTable:
    """Return the table of one of the ``DIALECTS``."""
    table: OperatorTable = import_module(DIALECTS[dialect]).TABLE
    return table


def table_of(definition: NetDefinition) -> OperatorTable:
    """Return the table of a definition's dialect; raises FileError that lists those that there are."""
    if definition.dialect not in DIALECTS:
        raise FileError(
            f"the dialect {definition.dialect!r}",
            path=definition.source,
            rule=f"operator types are those of {', '.join(DIALECTS)}",
            fix="correct the dialect, or read the definition with explorer.net.definition.serialization "
            "and give Net its table",
        )
    return operator_table(definition.dialect)


def file_operator(*types: str, format: str = "pnnx") -> Callable[[_Registered], _Registered]:
    """Decorate the builder of operator types of a format's files; a type that is known is replaced.

    The builder takes an OperatorContext and returns the operator's value, or a tuple with one value an output. Raises
    DeclarationError where no type is named, UnknownNameError for a format that is none.
    """
    return _table_of_files(format).register(*types)


def layer_types(format: str = "pnnx") -> list[str]:
    """The operator types of a format's files (pnnx or onnx) that explorer can run, sorted; file_operator adds some."""
    return _table_of_files(format).types()


def _table_of_files(format: str) -> OperatorTable:
    if format not in FILES:
        raise UnknownNameError(format, kind="format of files", known=FILES)
    return operator_table(format)
