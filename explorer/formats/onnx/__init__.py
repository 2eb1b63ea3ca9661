"""ONNX, the open exchange format of neural networks: one protocol buffers message, with weights in it or beside it."""

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
    """Read an ONNX file; its large weights, in it or beside it, are read when they are asked for.

    Nothing outside the file's folder is read. Raises FileError with the file, the problem, the rule and the fix.
    """
    model_path = Path(path)
    file = KeptFile(model_path, "correct the path of the .onnx file")
    from explorer.formats.onnx import proto, reader  # the onnx package is slow to import, and only these files need it
    from explorer.formats.onnx.large_elements import LightMessage
    from explorer.formats.onnx.operators import TABLE
    from explorer.formats.onnx.opset_upgrade import upgraded_model

    light = LightMessage(file)
    upgrade = upgraded_model(proto.parse(light.data, str(model_path), file.size))
    return reader.definition(upgrade.model, model_path, TABLE, upgrade.remark, elements=light.elements)


def save(definition: NetDefinition, path: Path) -> None:
    """Write a definition of ONNX's operator types with its weights; reading the file gives equal operators.

    Nothing is replaced where an operator cannot be written, which an OperandError names.
    """
    from explorer.formats.onnx.writing import definition_writer, model_file  # slow to import, as above

    model_file.write_model(*definition_writer.written(definition), path)


def save_net(net: Net, path: Path) -> None:
    """Write a net of any dialect by the expressions that it records; unknown lengths of its inputs stay unknown.

    Nothing is replaced where an operation cannot be written, which an OperandError names.
    """
    from explorer.formats.onnx.writing import model_file, net_writer  # slow to import, as above

    model_file.write_model(*net_writer.written(net), path)


def save_expressions(name: str, what: Any, inputs: Mapping[str, Any] | None, path: Path) -> None:
    """Write expressions, or a layer or function recorded for ``inputs``; raises OperandError where ONNX lacks one."""
    from explorer.formats.onnx.writing import function_writer, model_file  # slow to import, as above

    model_file.write_model(*function_writer.written(name, what, inputs), path)
