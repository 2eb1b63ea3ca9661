"""Which table knows the operator types of a definition: by the dialect that it names."""

from __future__ import annotations

from explorer.core.errors import FileError
from explorer.net.definition.definition import NetDefinition
from explorer.net.operators.table import OperatorTable

DIALECTS = ("explorer", "onnx", "pnnx")


def table_of(definition: NetDefinition) -> OperatorTable:
    """The table of a definition's dialect; raises FileError that lists those that there are."""
    match definition.dialect:
        case "explorer":
            from explorer.net.operators.caffe2 import TABLE
        case "onnx":
            from explorer.formats.onnx.operators import TABLE
        case "pnnx":
            from explorer.formats.pnnx.operators import TABLE
        case other:
            raise FileError(
                f"the dialect {other!r}",
                path=definition.source,
                rule=f"operator types are those of {', '.join(DIALECTS)}",
                fix="correct the dialect, or read the definition with explorer.net.definition.serialization "
                "and give Net its table",
            )
    return TABLE
