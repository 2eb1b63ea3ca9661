"""Decoder of the metadata that TensorFlow Lite's tools store in a model: descriptions of the model and its tensors.

The metadata is a flatbuffer in a buffer of the model, with its own schema (``metadata_schema.fbs``), which the package
``tflite`` does not contain. Fields are therefore read by their numbers. The buffer is untrusted, but only its strings
are read, and reading outside its bytes raises an error.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from importlib import import_module
from typing import Any

NAME = "TFLITE_METADATA"
"""name of the metadata entry of a model"""
_IDENTIFIER = b"M001"
_MODEL = ((0, "name"), (1, "description"), (2, "version"), (4, "author"), (5, "license"), (7, "minimum parser version"))
"""(number, name) of the fields of a model that contain strings"""
_SUBGRAPHS, _INPUTS, _OUTPUTS = 3, 2, 3
_TENSOR_NAME, _TENSOR_DESCRIPTION, _TENSOR_FILES, _FILE_NAME = 0, 1, 6, 0
_MAX_TABLES = 64
"""maximum number of tables of a list that are read"""


def pairs(data: bytes) -> list[tuple[str, str]]:
    """Return the (name, value) pairs that the metadata states; the number of bytes if it cannot be decoded."""
    if data[4:8] == _IDENTIFIER:
        try:
            return [*_pairs(data)]
        except (struct.error, IndexError, TypeError, ValueError, OverflowError):
            return [(NAME, f"{len(data):,} bytes, which are damaged")]
    return [(NAME, f"{len(data):,} bytes")]


def _pairs(data: bytes) -> Iterator[tuple[str, str]]:
    table_type = import_module("flatbuffers.table").Table
    root = table_type(data, int.from_bytes(data[:4], "little"))
    for number, name in _MODEL:
        if text := _string(root, number):
            yield name, text
    for graph in _tables(root, _SUBGRAPHS)[:1]:
        for label, side in (("input", _INPUTS), ("output", _OUTPUTS)):
            for tensor in _tables(graph, side):
                files = [_string(file, _FILE_NAME) for file in _tables(tensor, _TENSOR_FILES)]
                description = _string(tensor, _TENSOR_DESCRIPTION)
                parts = [description, f"files: {', '.join(files)}" if files else ""]
                yield f"{label} {_string(tensor, _TENSOR_NAME)}", " · ".join(filter(None, parts))


def _string(table: Any, number: int) -> str:
    offset = table.Offset(4 + 2 * number)
    return str(table.String(offset + table.Pos).decode("utf-8", "backslashreplace")) if offset else ""


def _tables(table: Any, number: int) -> list[Any]:
    offset = table.Offset(4 + 2 * number)
    if not offset:
        return []
    first, count = table.Vector(offset), table.VectorLen(offset)
    return [type(table)(table.Bytes, table.Indirect(first + 4 * index)) for index in range(min(count, _MAX_TABLES))]
