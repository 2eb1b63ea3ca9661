"""TensorFlow Lite (LiteRT), TensorFlow's model format for devices: one flatbuffer, which includes the weights."""

from __future__ import annotations

import os

from explorer.core.files.kept_file import KeptFile
from explorer.formats.tflite.message import Message
from explorer.formats.tflite.operator_options import Schema
from explorer.formats.tflite.reader import definition
from explorer.net.definition.definition import NetDefinition

__all__ = ["read"]


def read(path: str | os.PathLike[str], signature: str | None = None) -> NetDefinition:
    """Read a graph of a ``.tflite`` file with the package ``tflite``. Weights are read on demand.

    ``signature`` is the key of the graph's signature; None selects the first graph. If the file is invalid, has no such
    signature, or the package is not installed, raise FileError with the file, the problem, the rule and the fix.
    """
    file = KeptFile(path, "correct the path of the .tflite file")
    return definition(Message(file, Schema(file.path)).model(), file, signature)
