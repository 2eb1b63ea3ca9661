"""The file of a written model: one message, or for large weights a message and the file of weights beside it."""

from __future__ import annotations

from pathlib import Path

from onnx import ModelProto, TensorProto

from explorer.core.files.atomic_write import Replacement, replacing
from explorer.formats.onnx.writing.written_model import Model

LARGEST = (1 << 31) - (1 << 24)
"""most bytes of weights inside the message, which protocol buffers limit to 2 GB"""
_ALIGNED = 64
"""offsets in the file of weights are multiples of it, so that it can be mapped into memory"""


def write_model(model: Model, whole: ModelProto, path: Path) -> None:
    """Replace a file by a model; weights of more than 2 GB are written to ``path`` + ``.data``."""
    if model.nbytes <= LARGEST:
        for tensor in whole.graph.initializer:
            model.fill(tensor)
        with replacing(path) as file:
            file.write(whole.SerializeToString())
        return
    data_path = path.with_name(f"{path.name}.data")
    with Replacement(path) as graph, Replacement(data_path) as weights:
        for tensor in whole.graph.initializer:
            if tensor.name not in model.elements:  # texts stay in the message
                continue
            _place(tensor, data_path.name, weights.file.tell(), model.elements[tensor.name].nbytes)
            weights.file.write(model.elements[tensor.name].reshape(-1).view("u1").data)
            weights.file.write(bytes(-weights.file.tell() % _ALIGNED))
        graph.file.write(whole.SerializeToString())
        # both are on the disk before either takes its name
        weights.complete()
        graph.complete()
        weights.replace()
        graph.replace()


def _place(tensor: TensorProto, file: str, offset: int, length: int) -> None:
    tensor.data_location = TensorProto.EXTERNAL
    for key, value in (("location", file), ("offset", offset), ("length", length)):
        tensor.external_data.add(key=key, value=str(value))
