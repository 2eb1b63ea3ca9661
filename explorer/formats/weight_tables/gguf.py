"""Reader of ``.gguf`` files as tables of weights. Quantised blocks are converted to floats when they are read.

NumPy reads unquantised tensors. The optional package ``gguf`` reads quantised blocks.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from explorer.core.errors import FileError
from explorer.core.files.kept_file import KeptFile
from explorer.core.memory_budget import claim_memory
from explorer.formats.common.declared_weights import KeyedWeights
from explorer.formats.common.stored_dtypes import decode
from explorer.formats.weight_tables.gguf_header import TYPES, GgufHeader, GgufTensor
from explorer.formats.weight_tables.table import StoredTensor, table
from explorer.net.definition.definition import NetDefinition

_NUMBERS = {
    "F32": "float32", "F16": "float16", "BF16": "bfloat16", "F64": "float64",
    "I8": "int8", "I16": "int16", "I32": "int32", "I64": "int64",
}  # fmt: skip
"""dtypes of the GGUF types without quantisation; all other types are read as float32"""
_PACKAGE = "gguf"


class GgufWeights(KeyedWeights[GgufTensor]):
    """Tensors of a ``.gguf`` file by name. Every look-up reads a new, read-only array."""

    def __init__(self, file: KeptFile, tensors: Iterable[GgufTensor]) -> None:
        super().__init__({tensor.name: tensor for tensor in tensors})
        self._file = file

    @property
    def path(self) -> Path:
        """Path of the file of weights."""
        return self._file.path

    def __getitem__(self, key: str) -> NDArray[Any]:
        tensor = self._entry(key)
        raw = self._file.part(tensor.first, tensor.size)
        dtype = _NUMBERS.get(tensor.type_name)
        array = self._floats(tensor, raw) if dtype is None else decode(raw, dtype)
        array = array.reshape(tensor.shape)
        array.setflags(write=False)
        return array

    def verify(self, key: str) -> None:
        """Raise FileError if the file has changed since it was opened; the format has no checksums."""
        self._entry(key)
        self._file.check()

    def _floats(self, tensor: GgufTensor, raw: NDArray[np.uint8]) -> NDArray[Any]:
        if find_spec(_PACKAGE) is None:
            raise self._unreadable(
                tensor, f"the package {_PACKAGE} must be installed", "pip install 'explorer-graphs[gguf]'"
            )
        from gguf import GGMLQuantizationType, dequantize

        _, block, block_bytes = TYPES[tensor.type]
        claim_memory(f"tensor {tensor.name!r}", raw.size // block_bytes * block * 4)
        try:
            # reshaped to blocks, not rows, since a tensor without elements has no rows
            with np.errstate(all="ignore"):  # the scale of a block may be ∞ or NaN
                floats: NDArray[Any] = dequantize(raw.reshape(-1, block_bytes), GGMLQuantizationType(tensor.type))
        except (NotImplementedError, ValueError):
            fix = "pip install -U gguf, or convert the file: llama-quantize --allow-requantize x.gguf y.gguf Q8_0"
            raise self._unreadable(tensor, f"the package {_PACKAGE} must support the type", fix) from None
        return floats

    def _unreadable(self, tensor: GgufTensor, rule: str, fix: str) -> FileError:
        problem = f"tensor {tensor.name!r} has blocks of {tensor.type_name}"
        return FileError(problem, path=str(self._file.path), rule=f"to see their values, {rule}", fix=fix)


def read_gguf(path: str | os.PathLike[str]) -> NetDefinition:
    """Read a file's header and return a table of its weights. Arrays in the metadata are described by their lengths."""
    file = KeptFile(path, "correct the path of the .gguf file")
    try:
        header = GgufHeader(file)
    except BaseException:
        file.close()
        raise
    tensors = [
        StoredTensor(
            tensor.name,
            tensor.shape,
            tensor.type_name,
            tensor.size,
            _NUMBERS.get(tensor.type_name, "float32") if tensor.is_known else None,
        )
        for tensor in header.tensors
    ]
    weights = GgufWeights(file, filter(lambda tensor: tensor.is_known, header.tensors))
    metadata = [("GGUF version", str(header.version)), *[(key, str(value)) for key, value in header.metadata.items()]]
    return table(file.path, tensors, weights, metadata)
