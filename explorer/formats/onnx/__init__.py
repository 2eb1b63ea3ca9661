"""ONNX files: a protocol buffer message, with weights in the message or in files next to it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from explorer.core.files.kept_file import KeptFile
from explorer.net import Net
from explorer.net.definition.definition import NetDefinition

__all__ = ["read", "save", "save_expressions", "save_net"]


def read(path: str | os.PathLike[str]) -> NetDefinition:
    """Read an ONNX file; raise FileError if it is damaged.

    Large weights are loaded on first use. Files outside the model's folder are never read.
    """
    model_path = Path(path)
    file = KeptFile(model_path, "correct the path of the .onnx file")
    from explorer.formats.onnx import proto, reader  # the onnx package is slow to import, so it is imported on demand
    from explorer.formats.onnx.large_elements import MessageWithoutElements
    from explorer.formats.onnx.operators import TABLE
    from explorer.formats.onnx.opset_upgrade import upgraded_model

    light = MessageWithoutElements(file)
    upgrade = upgraded_model(proto.parse(light.data, str(model_path), file.size))
    return reader.definition(
        upgrade.model, model_path, TABLE, upgrade.remark, upgraded_from=upgrade.upgraded_from, elements=light.elements
    )


def save(definition: NetDefinition, path: Path) -> None:
    """Write a definition whose operator types are ONNX's; ``read`` returns equal operators.

    If an operator cannot be written, raise OperandError and leave an existing file unchanged.
    """
    from explorer.formats.onnx.writing import definition_writer, model_file

    model_file.write_model(*definition_writer.model_of(definition), path)


def save_net(net: Net, path: Path) -> None:
    """Write the expressions recorded by a net of any dialect. Unknown input lengths stay unknown.

    If an operation cannot be written, raise OperandError and leave an existing file unchanged.
    """
    from explorer.formats.onnx.writing import model_file, net_writer

    model_file.write_model(*net_writer.model_of(net), path)


def save_expressions(name: str, what: Any, inputs: Mapping[str, Any] | None, path: Path) -> None:
    """Write expressions, or record and write a layer or function; raise OperandError if ONNX lacks an operation."""
    from explorer.formats.onnx.writing import function_writer, model_file

    model_file.write_model(*function_writer.model_of(name, what, inputs), path)
