"""Initializers and constants of a file, checked when the file is opened and loaded on first access.

A declared shape is compared with the available bytes before memory is allocated for it. External files are opened only
below the model's folder.
"""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Protocol

import numpy as np
from numpy.typing import NDArray
from onnx import SparseTensorProto, TensorProto, numpy_helper

from explorer.core.errors import FileError
from explorer.core.files.open_untrusted import opened
from explorer.core.memory_budget import AXES, claim_memory
from explorer.core.types.tensor_type import is_addressable
from explorer.formats.common.declared_weights import KeyedWeights
from explorer.formats.common.stored_dtypes import NARROW_BITS, decode, stored_bytes
from explorer.formats.onnx.large_elements import Elements
from explorer.net.definition.definition import Plain, WeightReference
from explorer.net.definition.operator_definition import NARROW, STRING, memory_dtype

_ELEMENT_FIELDS = {
    "float32": "float_data", "float64": "double_data", "int64": "int64_data", "uint32": "uint64_data",
    "uint64": "uint64_data", "complex64": "float_data", "complex128": "double_data",
}  # fmt: skip
"""field of each dtype for elements that are not stored as raw bytes; all other dtypes use ``int32_data``"""
_DTYPE_NAMES = {
    "float": "float32", "double": "float64", "float8e4m3fn": "float8_e4m3fn", "float8e4m3fnuz": "float8_e4m3fnuz",
    "float8e5m2": "float8_e5m2", "float8e5m2fnuz": "float8_e5m2fnuz", "float8e8m0": "float8_e8m0fnu",
    "float4e2m1": "float4_e2m1fn",
}  # fmt: skip
_SUPPORTED = NARROW | frozenset((
    STRING, "float32", "float64", "float16", "bfloat16", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32",
    "uint64", "bool", "complex64", "complex128",
))  # fmt: skip
_EXPORT_AGAIN = "export the model again, or give the file that the exporter wrote"
_DIGITS = 30
"""maximum number of digits of an offset or a length, more than any file needs"""
_ARGUMENT_ELEMENTS = 64
"""maximum number of elements of an integer constant that becomes an operator's argument"""


def dtype_name(code: int) -> str:
    """Return the name of a dtype code: NumPy's name, otherwise ONNX's name (``int4``, ``string``)."""
    try:
        name = str(TensorProto.DataType.Name(code)).lower()
    except ValueError:
        return f"data type {code}"
    return _DTYPE_NAMES.get(name, name)


def is_supported(dtype: str) -> bool:
    """Return whether tensors may have this dtype."""
    return dtype in _SUPPORTED


@dataclass(frozen=True)
class StoredTensor:
    """A tensor in a file: its stored bytes or elements, or their location in an external file."""

    name: str
    shape: tuple[int, ...]
    dtype: str
    data: bytes | tuple[str, ...] | NDArray[Any] | Elements | External | SparseElements | None
    """the stored bytes or elements, or their location; None if the dtype is not supported"""

    @property
    def reference(self) -> WeightReference:
        """Reference to this tensor in a definition."""
        return WeightReference(self.name, self.shape, self.dtype)

    @property
    def size(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)

    def array(self) -> NDArray[Any]:
        """Return the elements, read-only; bfloat16 is widened to float32."""
        assert self.data is not None, f"{self.dtype} has no arrays"
        if isinstance(self.data, np.ndarray):
            array = self.data
        elif isinstance(self.data, SparseElements):
            array = self.data.dense()
        elif isinstance(self.data, tuple):
            # Every element takes as much memory as the longest string, so the array is built only after the caller has
            # claimed this memory.
            array = np.array(self.data, memory_dtype(self.dtype))
        else:
            raw = self.data if isinstance(self.data, bytes) else self.data.read()
            array = decode(np.frombuffer(raw, np.uint8), self.dtype)
        # the last byte of packed narrow elements may have padding
        array = array.reshape(-1)[: self.size].reshape(self.shape)
        array.setflags(write=False)
        return array

    def check(self) -> None:
        """Raise FileError if elements outside memory can no longer be read from their file."""
        if isinstance(self.data, (Elements, External, SparseElements)):
            self.data.check()

    @property
    def plain(self) -> Plain:
        """A number or a few integers as an operator's argument; None for all other tensors."""
        if isinstance(self.data, (Elements, External, SparseElements)) or self.data is None:
            return None
        if 0 in self.shape[:-1]:
            return None  # nested lists cannot represent axes after an empty one
        if (self.dtype == "int64" and self.size <= _ARGUMENT_ELEMENTS) or (
            self.dtype in ("float32", "bool") and not self.shape
        ):
            return _tuples(self.array().tolist())
        return None


def _tuples(value: Any) -> Plain:
    return tuple(_tuples(item) for item in value) if isinstance(value, list) else value


@dataclass(frozen=True)
class External:
    """Bytes in an external file: ``length`` bytes from ``offset``."""

    tensor: str
    file: Path
    offset: int
    length: int
    folder: Path
    """the model's folder, which must contain the file"""

    def opened(self) -> IO[bytes]:
        """Open the file at ``offset``; raise FileError if it is too short or outside the folder."""
        fix = "put the file of the same export next to the model"
        file = opened(self.file, fix, what=f"weight {self.tensor!r}", within=self.folder)
        size = os.fstat(file.fileno()).st_size
        if self.offset + self.length > size:
            file.close()
            raise self._too_short(size)
        file.seek(self.offset)
        return file

    def check(self) -> None:
        """Raise FileError if the file is too short or outside the folder."""
        self.opened().close()

    def read(self) -> bytes:
        """Read the bytes; raise FileError if the file is too short."""
        with self.opened() as file:
            data = file.read(self.length)
        if len(data) != self.length:  # the file was truncated in the meantime
            raise self._too_short(self.offset + len(data))
        return data

    def _too_short(self, size: int) -> FileError:
        available = max(0, size - self.offset)
        return FileError(
            f"weight {self.tensor!r} needs {self.length} bytes from {self.offset}, but the file has {available} there",
            path=str(self.file),
            rule="a file of weights must be complete, and from the same export as its model",
            fix=_EXPORT_AGAIN,
        )


class StoredWeights(KeyedWeights[StoredTensor]):
    """Mapping of keys to a file's weights. Each lookup returns a read-only array."""

    def __getitem__(self, key: str) -> NDArray[Any]:
        return self._entry(key).array()

    def verify(self, key: str) -> None:
        """Raise FileError if a weight outside memory can no longer be read from its file."""
        self._entry(key).check()


def dense_tensor(tensor: TensorProto, name: str, path: Path, elements: Mapping[bytes, Elements]) -> StoredTensor:
    """Return a file's tensor after checking its dimensions, size and location.

    ``elements`` maps placeholders in messages to raw elements that were left in the file.
    """
    shape, dtype = _shape(name, tensor.dims, path), dtype_name(tensor.data_type)
    if not is_supported(dtype):
        return StoredTensor(name, shape, dtype, None)
    if dtype == STRING:
        return string_tensor(name, tensor.string_data, shape, path)
    count = math.prod(shape)
    size = stored_bytes(dtype, count)
    _check_addressable(name, shape, dtype, path)
    if tensor.data_location == TensorProto.EXTERNAL:
        return StoredTensor(name, shape, dtype, _external(tensor, name, size, path))
    # No known exporter writes segments, and the onnx package does not read them either.
    if tensor.HasField("segment"):
        raise FileError(
            f"tensor {name!r} is stored in segments",
            path=str(path),
            rule="a tensor must be stored in one piece",
            fix=_EXPORT_AGAIN,
        )
    if tensor.HasField("raw_data"):
        raw = elements.get(tensor.raw_data, tensor.raw_data)
        _check_length(name, shape, dtype, raw.size if isinstance(raw, Elements) else len(raw), size, "bytes", path)
        return StoredTensor(name, shape, dtype, raw)
    # real and imaginary parts alternate
    numbers = 2 if dtype.startswith("complex") else 1
    actual = len(getattr(tensor, _ELEMENT_FIELDS.get(dtype, "int32_data")))
    expected = size if dtype in NARROW_BITS else count * numbers
    _check_length(name, shape, dtype, actual, expected, "numbers", path)
    _check_range(tensor, name, dtype, path)
    array = numpy_helper.to_array(tensor)
    return StoredTensor(name, shape, dtype, array.astype(np.float32) if dtype == "bfloat16" else array)


def sparse_tensor(tensor: SparseTensorProto, name: str, path: Path, elements: Mapping[bytes, Elements]) -> StoredTensor:
    """Return a file's sparse tensor after checking the shapes of its elements and indices."""
    shape = _shape(name, tensor.dims, path)
    values = dense_tensor(tensor.values, f"{name}.values", path, elements)
    indices = dense_tensor(tensor.indices, f"{name}.indices", path, elements)
    if (
        len(values.shape) != 1
        or indices.dtype != "int64"
        or indices.shape not in (values.shape, (*values.shape, len(shape)))
    ):
        raise FileError(
            f"sparse tensor {name!r} of shape {shape} has elements of shape {values.shape} "
            f"at indices of {indices.dtype}, shape {indices.shape}",
            path=str(path),
            rule="elements of a sparse tensor must be a vector, and each must have one int64 index, or one per axis",
            fix=_EXPORT_AGAIN,
        )
    if values.data is None:
        return StoredTensor(name, shape, values.dtype, None)
    _check_addressable(name, shape, values.dtype, path)
    return StoredTensor(name, shape, values.dtype, SparseElements(name, shape, values, indices, path))


def string_tensor(name: str, data: Sequence[bytes], shape: tuple[int, ...], path: Path) -> StoredTensor:
    """Return a tensor of strings; raise FileError if one is not UTF-8 or ends with the character 0."""
    _check_length(name, shape, STRING, len(data), math.prod(shape), "strings", path)
    try:
        decoded = [text.decode() for text in data]
    except UnicodeDecodeError as error:
        raise FileError(
            f"tensor {name!r}: {error}", path=str(path), rule="strings must be encoded as UTF-8", fix=_EXPORT_AGAIN
        ) from None
    if any(text.endswith("\0") for text in decoded):
        raise FileError(
            f"tensor {name!r} has a string that ends with the character 0",
            path=str(path),
            rule="a string must not end with the character 0, with which NumPy pads strings",
            fix=_EXPORT_AGAIN,
        )
    longest = max(map(len, decoded), default=0)
    return StoredTensor(name, shape, f"text{max(longest, 1)}", tuple(decoded))


def _shape(name: str, dims: Sequence[int], path: Path) -> tuple[int, ...]:
    """Return a tensor's dimensions; raise FileError if one is negative, which the message's signed fields allow."""
    if any(size < 0 for size in dims):
        raise FileError(
            f"tensor {name!r} has shape {tuple(dims)}",
            path=str(path),
            rule="sizes must not be negative",
            fix=_EXPORT_AGAIN,
        )
    return tuple(dims)


def _check_addressable(name: str, shape: tuple[int, ...], dtype: str, path: Path) -> None:
    if not is_addressable(shape, memory_dtype(dtype)):
        raise FileError(
            f"tensor {name!r} has {len(shape)} axes: {shape[:AXES]}",
            path=str(path),
            rule=f"an array must have at most {AXES} axes and, without empty axes, at most 2⁶³ − 1 bytes",
            fix=_EXPORT_AGAIN,
        )


def _check_length(
    name: str, shape: tuple[int, ...], dtype: str, actual: int, expected: int, unit: str, path: Path
) -> None:
    if actual != expected:
        raise FileError(
            f"tensor {name!r} has {actual} {unit}, but {shape} of {dtype} needs {expected}",
            path=str(path),
            rule="a tensor must have as many elements as its shape requires",
            fix=_EXPORT_AGAIN,
        )


def _check_range(tensor: TensorProto, name: str, dtype: str, path: Path) -> None:
    """Raise FileError if numbers stored in a wider field exceed the range of their dtype."""
    wide = tensor.uint64_data if dtype == "uint32" else tensor.int32_data
    # dtypes that are as wide as their field need no check
    if not wide or dtype in ("int32", "uint64", "float32"):
        return
    # float16 elements are stored as bits, in the low half of an int32.
    bits = {"float16": "uint16", "bfloat16": "uint16", "bool": "uint8"}.get(dtype, dtype)
    bits = "uint8" if dtype in NARROW else bits
    if np.dtype(bits).kind not in "iu":  # the elements are in another field
        return
    low, high = int(np.iinfo(bits).min), int(np.iinfo(bits).max)
    if min(wide) < low or max(wide) > high:
        raise FileError(
            f"tensor {name!r} of {dtype} has elements from {min(wide)} to {max(wide)}",
            path=str(path),
            rule=f"elements of this dtype must be in {low} … {high}",
            fix=_EXPORT_AGAIN,
        )


def _external(tensor: TensorProto, name: str, expected: int, path: Path) -> External:
    entries = {entry.key: entry.value for entry in tensor.external_data}
    location = entries.get("location", "")
    folder = Path(os.path.realpath(path)).parent
    # realpath resolves links first, so that a link in the folder cannot point outside it.
    file = Path(os.path.realpath(folder / location)) if "\0" not in location else folder
    if not location or file == folder or not file.is_relative_to(folder):
        raise FileError(
            f"tensor {name!r} is stored in {location!r}",
            path=str(path),
            rule="external weights must be in files below the model's folder",
            fix="put the file of weights next to the model, and store its relative path in the model",
        )
    try:
        offset, length = (
            int(entries.get(key, "")[:_DIGITS] or default) for key, default in (("offset", 0), ("length", expected))
        )
    except ValueError:
        offset = length = -1
    if offset < 0 or length != expected:
        position = ", ".join(
            f"{key}={value[:_DIGITS]}" for key, value in entries.items() if key in ("offset", "length")
        )
        raise FileError(
            f"tensor {name!r} is stored with {position}",
            path=str(path),
            rule=f"offset must not be negative, and length must be {expected} bytes for {tuple(tensor.dims)}",
            fix=_EXPORT_AGAIN,
        )
    return External(name, file, offset, length, folder)


class _Stored(Protocol):
    def array(self) -> NDArray[Any]: ...
    def check(self) -> None: ...


@dataclass(frozen=True)
class SparseElements:
    """The stored elements of a sparse tensor; all other elements are zeros or empty strings."""

    tensor: str
    shape: tuple[int, ...]
    values: _Stored
    indices: _Stored
    path: Path

    def check(self) -> None:
        """Raise FileError if elements or indices can no longer be read from their file."""
        self.values.check()
        self.indices.check()

    def dense(self) -> NDArray[Any]:
        """Return the dense tensor.

        Raise FileError if an index is outside the tensor or repeated, BudgetError if memory is insufficient.
        """
        values, indices = self.values.array(), self.indices.array()
        claim_memory(f"sparse tensor {self.tensor!r}", math.prod(self.shape) * values.itemsize)
        lengths = self.shape if indices.ndim == 2 else (math.prod(self.shape),)
        positions = indices.reshape(values.size, len(lengths))
        outside = ((positions < 0) | (positions >= np.array(lengths, np.int64))).any(axis=1)
        if outside.any():
            inside = f"indices must be in {', '.join([f'0 … {length - 1}' for length in lengths])}"
            empty = "a sparse tensor must have no elements if one of its sizes is 0"
            raise self._error(f"an element at {positions[outside][0].tolist()}", empty if 0 in lengths else inside)
        strides = [math.prod(lengths[axis + 1 :]) for axis in range(len(lengths))]
        offsets = positions @ np.array(strides, np.int64)
        order = np.argsort(offsets, kind="stable")
        duplicates = order[1:][offsets[order[1:]] == offsets[order[:-1]]]
        if duplicates.size:
            raise self._error(
                f"two elements at {positions[duplicates[0]].tolist()}",
                "a sparse tensor must have at most one element at each index",
            )
        array = np.zeros(math.prod(self.shape), values.dtype)
        array[offsets] = values
        return array.reshape(self.shape)

    def _error(self, fault: str, rule: str) -> FileError:
        return FileError(
            f"sparse tensor {self.tensor!r} of shape {self.shape} has {fault}",
            path=str(self.path),
            rule=rule,
            fix="export the model again, or give the file that the exporter wrote",
        )
