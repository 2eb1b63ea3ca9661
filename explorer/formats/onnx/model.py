"""The message that an ONNX file holds: parsed, and refused where it is no model."""

from __future__ import annotations

from google.protobuf.message import DecodeError  # type: ignore[import-untyped]  # Google's package has no types
from onnx import ModelProto

from explorer.core.errors import FileError

_EXPORT = "export the model again, for instance with torch.onnx.export"
_RULE = "an ONNX file is one protocol buffers message, a ModelProto with a graph"


def parse(data: bytes, path: str) -> ModelProto:
    """The model in a file's bytes; raises FileError where they hold none."""
    if not data:
        raise FileError("the file is empty", path=path, rule=_RULE, fix=_EXPORT)
    model = ModelProto()
    try:
        model.ParseFromString(data)
    except DecodeError as error:
        raise FileError(f"this is no whole ONNX model: {error}", path=path, rule=_RULE, fix=_EXPORT) from None
    if not model.HasField("graph") or not (model.graph.node or model.graph.output):
        raise FileError(
            "the model holds no graph" if not model.HasField("graph") else "the graph has no nodes and no outputs",
            path=path,
            rule=_RULE,
            fix=_EXPORT,
        )
    return model
