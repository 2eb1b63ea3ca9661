"""Parsing of ONNX messages.

``onnx.checker`` is not used, because it rejects a whole model for a single invalid operator, although the reader can
show all others. The reader checks everything that it relies on.
"""

from __future__ import annotations

from typing import Any

from google.protobuf.descriptor import FieldDescriptor  # type: ignore[import-untyped]  # Google's package has no types
from google.protobuf.message import DecodeError  # type: ignore[import-untyped]  # as above
from onnx import ModelProto, TensorProto

from explorer.core.errors import FileError

_EXPORT = "export the model again, for instance with torch.onnx.export"
_IR_VERSION_KEY = 8
"""first byte of a model from any exporter: the key of the field ``ir_version``"""
_RULE = "an ONNX file is one protocol buffers message, a ModelProto with a graph"


def parse(data: bytes, path: str, size: int) -> ModelProto:
    """Parse a model without its large weights; raise FileError if it is invalid. ``size`` is the file size in bytes."""
    if not data:
        raise FileError("the file is empty", path=path, rule=_RULE, fix=_EXPORT)
    model = ModelProto()
    try:
        model.ParseFromString(data)
    except DecodeError:
        has_valid_start = data[0] == _IR_VERSION_KEY
        state = "this ONNX model is cut off or damaged" if has_valid_start else "this is not an ONNX model"
        raise FileError(
            f"{state}: {size:,} bytes that begin with {data[:12]!r}",
            path=path,
            rule=_RULE,
            fix=f"compare the size with the original's, and copy or download it again, or {_EXPORT}"
            if has_valid_start
            else _EXPORT,
        ) from None
    if not model.HasField("graph") or not (model.graph.node or model.graph.output):
        raise FileError(
            "the model has no graph" if not model.HasField("graph") else "the graph has no nodes and no outputs",
            path=path,
            rule=_RULE,
            fix=_EXPORT,
        )
    _check_strings(model, path)
    return model


def _check_strings(model: ModelProto, path: str) -> None:
    """Raise FileError if a string is not UTF-8; protocol buffers return such a string as bytes."""
    pending: list[Any] = [model]
    kinds: dict[FieldDescriptor, int] = {}
    """type of each field, cached because reading a descriptor is slower than reading the value"""
    while pending:
        message = pending.pop()
        if isinstance(message, TensorProto):  # other fields are skipped, since they may be large
            fields = [(TensorProto.DESCRIPTOR.fields_by_name["name"], message.name)]
            pending.extend(message.external_data)
        else:
            fields = message.ListFields()
        for field, value in fields:
            kind = kinds.get(field)
            if kind is None:
                kind = kinds[field] = field.type
            if kind not in (FieldDescriptor.TYPE_MESSAGE, FieldDescriptor.TYPE_STRING) or type(value) is str:
                continue
            values = [value] if isinstance(value, bytes) or not hasattr(value, "__len__") else value
            if kind == FieldDescriptor.TYPE_MESSAGE:
                pending.extend(values)
            elif bytes in map(type, values):
                wrong = next(text for text in values if isinstance(text, bytes))
                raise FileError(
                    f"{field.full_name} is {wrong[:80]!r}",
                    path=path,
                    rule="names and strings must be UTF-8",
                    fix=_EXPORT,
                )
