"""Files of a written model: one message, and a separate file if weights are large."""

from __future__ import annotations

from pathlib import Path

from onnx import ModelProto, TensorProto

from explorer.core.files.atomic_write import Replacement, replacing
from explorer.formats.onnx.writing.written_model import Model

LARGEST = (1 << 31) - (1 << 24)
"""maximum size in bytes of weights in the message, because protocol buffers are limited to 2 GB"""
_ALIGNMENT = 64
"""byte alignment of weights in a separate file, so that they can be memory-mapped"""


def write_model(model: Model, model_proto: ModelProto, path: Path) -> None:
    """Replace the file ``path`` with a model.

    Weights of more than 2 GB are written to ``path`` + ``.data``.
    """
    if model.nbytes <= LARGEST:
        for tensor in model_proto.graph.initializer:
            model.fill(tensor)
        with replacing(path) as file:
            file.write(model_proto.SerializeToString())
        return
    data_path = path.with_name(f"{path.name}.data")
    with Replacement(path) as graph, Replacement(data_path) as weights:
        for tensor in model_proto.graph.initializer:
            if tensor.name not in model.elements:  # strings stay in the message
                continue
            _set_location(tensor, data_path.name, weights.file.tell(), model.elements[tensor.name].nbytes)
            weights.file.write(model.elements[tensor.name].reshape(-1).view("u1").data)
            weights.file.write(bytes(-weights.file.tell() % _ALIGNMENT))
        graph.file.write(model_proto.SerializeToString())
        # complete both files on disk before renaming either
        weights.complete()
        graph.complete()
        weights.replace()
        graph.replace()


def _set_location(tensor: TensorProto, file: str, offset: int, length: int) -> None:
    tensor.data_location = TensorProto.EXTERNAL
    for key, value in (("location", file), ("offset", offset), ("length", length)):
        tensor.external_data.add(key=key, value=str(value))
