"""Constants of a TensorFlow Lite file: their places are checked when it is opened, elements read when asked for.

A file is somebody's, and may be wrong or hostile: shapes are compared with the bytes that are there before anything is
allocated for them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from numpy.typing import NDArray

from explorer.core.errors import FileError
from explorer.core.files.kept_file import KeptFile
from explorer.core.types.tensor_type import is_addressable
from explorer.formats.common.declared_weights import KeyedWeights
from explorer.formats.common.stored_dtypes import decode, stored_bytes
from explorer.formats.tflite.model_parts import FileTensor, Place
from explorer.formats.tflite.sparsity import Sparsity
from explorer.net.definition.definition import WeightReference
from explorer.net.definition.operator_definition import memory_dtype

_SUPPORTED = frozenset((
    "float32", "float64", "float16", "bfloat16", "int4", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32",
    "uint64", "bool", "complex64", "complex128",
))  # fmt: skip


def is_supported(dtype: str) -> bool:
    """Whether arrays can have this dtype."""
    return dtype in _SUPPORTED


@dataclass(frozen=True, slots=True)
class StoredTensor:
    """A constant of a file: its name there, shape and dtype, and the place of its elements.

    Of a sparse one these are its elements but zeros, and ``sparsity`` says where they stand.
    """

    name: str
    shape: tuple[int, ...]
    dtype: str
    place: Place
    sparsity: Sparsity | None = None

    @property
    def reference(self) -> WeightReference:
        """Return the reference that a definition has of it."""
        return WeightReference(self.name, self.shape, self.dtype)

    def array(self, file: KeptFile) -> NDArray[Any]:
        """Return the elements, read-only; raises FileError where the file has changed since it was opened."""
        raw = file.part(self.place.first, self.place.size)
        array = decode(raw, self.dtype)
        if self.sparsity is not None:
            array = self.sparsity.dense(array, self.shape)
        # the last byte of narrow elements may have more than the shape says
        array = array.reshape(-1)[: math.prod(self.shape)].reshape(self.shape)
        array.setflags(write=False)
        return array


class StoredWeights(KeyedWeights[StoredTensor]):
    """The constants of a file by key; every look-up reads a fresh, read-only array."""

    def __init__(self, file: KeptFile, tensors: Mapping[str, StoredTensor]) -> None:
        super().__init__(tensors)
        self._file = file

    def __getitem__(self, key: str) -> NDArray[Any]:
        return self._entry(key).array(self._file)

    def verify(self, key: str) -> None:
        """Raise FileError where the file has changed since it was opened: it has no checksums."""
        self._entry(key)
        self._file.check()


def stored(tensor: FileTensor, name: str, file: KeptFile) -> StoredTensor:
    """Return a constant under a name; raises FileError where its bytes are not as many as its shape says."""
    shape, place = tensor.shape or (), tensor.data or Place(0, 0)
    if any(length < 0 for length in shape) or not is_addressable(shape, memory_dtype(tensor.dtype)):
        raise FileError(
            f"tensor {name!r} has shape {shape}",
            path=str(file.path),
            rule="the lengths of a constant must not be negative, and its bytes must be at most 2⁶³ − 1",
            fix="convert the model again",
        )
    size = stored_bytes(tensor.dtype, math.prod(shape))
    if tensor.sparsity is not None and place.size % stored_bytes(tensor.dtype, 1) == 0:
        return StoredTensor(name, shape, tensor.dtype, place, tensor.sparsity)
    if size != place.size:
        raise FileError(
            f"tensor {name!r} has {place.size} bytes, {shape} of {tensor.dtype} takes {size}",
            path=str(file.path),
            rule="a constant must hold as many elements as its shape says",
            fix="convert the model again",
        )
    return StoredTensor(name, shape, tensor.dtype, place)
