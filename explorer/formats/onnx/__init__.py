"""ONNX, the open exchange format of neural networks: one protocol buffers message, with weights in it or beside it."""

from __future__ import annotations

import os
from pathlib import Path

from explorer.core.files.open_untrusted import content
from explorer.net.definition.definition import NetDefinition

__all__ = ["read"]


def read(path: str | os.PathLike[str]) -> NetDefinition:
    """Read an ONNX file; weights that are stored beside it are read when they are asked for.

    Nothing outside the file's folder is read. Raises FileError naming the file, what was found, the rule and the fix.
    """
    model_path = Path(path)
    data = content(model_path, "correct the path of the .onnx file")
    from explorer.formats.onnx import proto, reader  # the onnx package is slow to import, and only these files need it
    from explorer.formats.onnx.operators import TABLE
    from explorer.formats.onnx.opset_upgrade import upgraded_model

    upgrade = upgraded_model(proto.parse(data, str(model_path)))
    return reader.definition(upgrade.model, model_path, TABLE, upgrade.remark)
