"""Stored tensors: initializers and constants of a file, checked when it is opened, read when they are asked for.

The reader keeps what the file states (name, shape, dtype, place); arrays are made from it at the first look. Lengths
are compared with the bytes that are there before anything is allocated by a claimed shape, and files beside the model
are opened below its folder only.
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

_FIELDS = {
    "float32": "float_data", "float64": "double_data", "int64": "int64_data", "uint32": "uint64_data",
    "uint64": "uint64_data", "complex64": "float_data", "complex128": "double_data",
}  # fmt: skip
"""dtype → the field of elements that are not stored as raw bytes; other dtypes have theirs in int32_data"""
_NAMES = {
    "float": "float32", "double": "float64", "float8e4m3fn": "float8_e4m3fn", "float8e4m3fnuz": "float8_e4m3fnuz",
    "float8e5m2": "float8_e5m2", "float8e5m2fnuz": "float8_e5m2fnuz", "float8e8m0": "float8_e8m0fnu",
    "float4e2m1": "float4_e2m1fn",
}  # fmt: skip
_SUPPORTED = NARROW | frozenset((
    STRING, "float32", "float64", "float16", "bfloat16", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32",
    "uint64", "bool", "complex64", "complex128",
))  # fmt: skip
_AGAIN = "export the model again, or give the file that the exporter wrote"
_DIGITS = 30
"""digits of an offset or a length that are read; no file is as long"""
_SHOWN = 64
"""elements of a whole-number constant that are written among an operator's arguments"""


def dtype_name(code: int) -> str:
    """Return the dtype of ONNX's number for it: NumPy's name, else ONNX's (``int4``, ``string``)."""
    try:
        name = str(TensorProto.DataType.Name(code)).lower()
    except ValueError:
        return f"data type {code}"
    return _NAMES.get(name, name)


def is_supported(dtype: str) -> bool:
    """Whether tensors may have this dtype."""
    return dtype in _SUPPORTED


@dataclass(frozen=True)
class StoredTensor:
    """A tensor of a file: bytes or elements as they are stored, or where they are found in a file beside it."""

    name: str
    shape: tuple[int, ...]
    dtype: str
    data: bytes | tuple[str, ...] | NDArray[Any] | Elements | External | SparseElements | None
    """None for a dtype that is not supported"""

    @property
    def reference(self) -> WeightReference:
        """Return the reference that a definition has of it."""
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
            # each takes the memory of the longest one: not before somebody asks for it, who claims that memory
            array = np.array(self.data, memory_dtype(self.dtype))
        else:
            raw = self.data if isinstance(self.data, bytes) else self.data.read()
            array = decode(np.frombuffer(raw, np.uint8), self.dtype)
        # the last byte of narrow elements may have more than the shape says
        array = array.reshape(-1)[: self.size].reshape(self.shape)
        array.setflags(write=False)
        return array

    def check(self) -> None:
        """Raise FileError where elements that are not in memory cannot be read from their file any more."""
        if isinstance(self.data, (Elements, External, SparseElements)):
            self.data.check()

    @property
    def plain(self) -> Plain:
        """A number, or a few whole ones, as an operator's arguments hold them; None for other tensors."""
        if isinstance(self.data, (Elements, External, SparseElements)) or self.data is None:
            return None
        if 0 in self.shape[:-1]:
            return None  # nested lists have no axes behind one without elements
        if (self.dtype == "int64" and self.size <= _SHOWN) or (self.dtype in ("float32", "bool") and not self.shape):
            return _tuples(self.array().tolist())
        return None


def _tuples(value: Any) -> Plain:
    return tuple(_tuples(item) for item in value) if isinstance(value, list) else value


@dataclass(frozen=True)
class External:
    """Bytes in a file beside the model's: ``length`` of them from ``offset``."""

    tensor: str
    file: Path
    offset: int
    length: int
    folder: Path
    """the model's, in which the file lies"""

    def opened(self) -> IO[bytes]:
        """Open the file where the bytes begin; raises FileError if it has fewer, or lies elsewhere by now."""
        fix = "put the file of the same export beside the model"
        file = opened(self.file, fix, what=f"weight {self.tensor!r}", within=self.folder)
        size = os.fstat(file.fileno()).st_size
        if self.offset + self.length > size:
            file.close()
            raise self._short(size)
        file.seek(self.offset)
        return file

    def check(self) -> None:
        """Raise FileError if the file has fewer bytes, or lies elsewhere by now."""
        self.opened().close()

    def read(self) -> bytes:
        """Read the bytes; raises FileError if the file has fewer."""
        with self.opened() as file:
            data = file.read(self.length)
        if len(data) != self.length:  # it became shorter
            raise self._short(self.offset + len(data))
        return data

    def _short(self, size: int) -> FileError:
        available = max(0, size - self.offset)
        return FileError(
            f"weight {self.tensor!r} takes {self.length} bytes from {self.offset}, the file has {available} there",
            path=str(self.file),
            rule="a file of weights must be whole, and of the same export as its model",
            fix=_AGAIN,
        )


class StoredWeights(KeyedWeights[StoredTensor]):
    """The weights of a file by key; every look-up gives a read-only array."""

    def __getitem__(self, key: str) -> NDArray[Any]:
        return self._entry(key).array()

    def verify(self, key: str) -> None:
        """Raise FileError where a weight that is not in memory cannot be read from its file any more."""
        self._entry(key).check()


def stored(tensor: TensorProto, name: str, path: Path, elements: Mapping[bytes, Elements]) -> StoredTensor:
    """Return a tensor of a file, with its dimensions, its number of bytes or elements and their place checked.

    ``elements`` are raw elements that were left in the file, by the marks that stand for them in messages.
    """
    shape, dtype = _shape(name, tensor.dims, path), dtype_name(tensor.data_type)
    if not is_supported(dtype):
        return StoredTensor(name, shape, dtype, None)
    if dtype == STRING:
        return texts(name, tensor.string_data, shape, path)
    count = math.prod(shape)
    size = stored_bytes(dtype, count)
    _check_addressable(name, shape, dtype, path)
    if tensor.data_location == TensorProto.EXTERNAL:
        return StoredTensor(name, shape, dtype, _external(tensor, name, size, path))
    # No exporter is known to write segments, and the onnx package does not read them either.
    if tensor.HasField("segment"):
        raise FileError(
            f"tensor {name!r} is stored in segments", path=str(path), rule="a tensor must be stored whole", fix=_AGAIN
        )
    if tensor.HasField("raw_data"):
        raw = elements.get(tensor.raw_data, tensor.raw_data)
        _check_length(name, shape, dtype, raw.size if isinstance(raw, Elements) else len(raw), size, "bytes", path)
        return StoredTensor(name, shape, dtype, raw)
    # real and imaginary parts alternate
    numbers = 2 if dtype.startswith("complex") else 1
    held = len(getattr(tensor, _FIELDS.get(dtype, "int32_data")))
    expected = size if dtype in NARROW_BITS else count * numbers
    _check_length(name, shape, dtype, held, expected, "numbers", path)
    _check_range(tensor, name, dtype, path)
    array = numpy_helper.to_array(tensor)
    return StoredTensor(name, shape, dtype, array.astype(np.float32) if dtype == "bfloat16" else array)


def sparse(tensor: SparseTensorProto, name: str, path: Path, elements: Mapping[bytes, Elements]) -> StoredTensor:
    """Return a sparse tensor of a file, with the shapes of its elements and their places checked."""
    shape = _shape(name, tensor.dims, path)
    values = stored(tensor.values, f"{name}.values", path, elements)
    indices = stored(tensor.indices, f"{name}.indices", path, elements)
    if (
        len(values.shape) != 1
        or indices.dtype != "int64"
        or indices.shape not in (values.shape, (*values.shape, len(shape)))
    ):
        raise FileError(
            f"sparse tensor {name!r} of shape {shape} has elements of shape {values.shape} "
            f"at places of {indices.dtype}, shape {indices.shape}",
            path=str(path),
            rule="a sparse tensor must have one axis of elements, and a place (int64), or one an axis, for each",
            fix=_AGAIN,
        )
    if values.data is None:
        return StoredTensor(name, shape, values.dtype, None)
    _check_addressable(name, shape, values.dtype, path)
    return StoredTensor(name, shape, values.dtype, SparseElements(name, shape, values, indices, path))


def texts(name: str, data: Sequence[bytes], shape: tuple[int, ...], path: Path) -> StoredTensor:
    """Return a tensor of texts, whose dtype has the length of the longest; raises FileError for other bytes."""
    _check_length(name, shape, STRING, len(data), math.prod(shape), "texts", path)
    try:
        decoded = [text.decode() for text in data]
    except UnicodeDecodeError as error:
        raise FileError(
            f"tensor {name!r}: {error}", path=str(path), rule="texts must be encoded as UTF-8", fix=_AGAIN
        ) from None
    if any(text.endswith("\0") for text in decoded):
        raise FileError(
            f"tensor {name!r} has a text that ends with the character 0",
            path=str(path),
            rule="NumPy pads texts with that character, so that none can end with it",
            fix=_AGAIN,
        )
    longest = max(map(len, decoded), default=0)
    return StoredTensor(name, shape, f"text{max(longest, 1)}", tuple(decoded))


def _shape(name: str, dims: Sequence[int], path: Path) -> tuple[int, ...]:
    """Return the dimensions of a tensor, which are signed in the message; raises FileError for negative ones."""
    if any(size < 0 for size in dims):
        raise FileError(
            f"tensor {name!r} has shape {tuple(dims)}", path=str(path), rule="sizes must not be negative", fix=_AGAIN
        )
    return tuple(dims)


def _check_addressable(name: str, shape: tuple[int, ...], dtype: str, path: Path) -> None:
    if not is_addressable(shape, memory_dtype(dtype)):
        raise FileError(
            f"tensor {name!r} has {len(shape)} axes: {shape[:AXES]}",
            path=str(path),
            rule=f"an array must have at most {AXES} axes, and 2⁶³ − 1 bytes with its empty axes left out",
            fix=_AGAIN,
        )


def _check_length(
    name: str, shape: tuple[int, ...], dtype: str, actual: int, expected: int, unit: str, path: Path
) -> None:
    if actual != expected:
        raise FileError(
            f"tensor {name!r} has {actual} {unit}, {shape} of {dtype} takes {expected}",
            path=str(path),
            rule="a tensor must hold as many elements as its shape says",
            fix=_AGAIN,
        )


def _check_range(tensor: TensorProto, name: str, dtype: str, path: Path) -> None:
    """Refuse numbers that are stored wider than their dtype and do not fit it."""
    wide = tensor.uint64_data if dtype == "uint32" else tensor.int32_data
    # dtypes that are as wide as their field need no check
    if not wide or dtype in ("int32", "uint64", "float32"):
        return
    # Halves are stored as their bits, in the low half of an int32.
    bits = {"float16": "uint16", "bfloat16": "uint16", "bool": "uint8"}.get(dtype, dtype)
    bits = "uint8" if dtype in NARROW else bits
    if np.dtype(bits).kind not in "iu":  # its elements stand in another field, and this one is not read
        return
    low, high = int(np.iinfo(bits).min), int(np.iinfo(bits).max)
    if min(wide) < low or max(wide) > high:
        raise FileError(
            f"tensor {name!r} of {dtype} holds {min(wide)} to {max(wide)}",
            path=str(path),
            rule=f"its elements must lie in {low} … {high}",
            fix=_AGAIN,
        )


def _external(tensor: TensorProto, name: str, expected: int, path: Path) -> External:
    entries = {entry.key: entry.value for entry in tensor.external_data}
    location = entries.get("location", "")
    folder = Path(os.path.realpath(path)).parent
    # realpath resolves links first, so that a link in the folder cannot lead out of it.
    file = Path(os.path.realpath(folder / location)) if "\0" not in location else folder
    if not location or file == folder or not file.is_relative_to(folder):
        raise FileError(
            f"tensor {name!r} is stored in {location!r}",
            path=str(path),
            rule="weights outside the model's file must be in files below its folder",
            fix="put the file of weights beside the model, and name it so in the model",
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
            rule=f"an offset must not be negative, and length must be {expected}, the bytes of {tuple(tensor.dims)}",
            fix=_AGAIN,
        )
    return External(name, file, offset, length, folder)


class _Stored(Protocol):
    def array(self) -> NDArray[Any]: ...
    def check(self) -> None: ...


@dataclass(frozen=True)
class SparseElements:
    """The elements of a tensor that are not zero, as a file has them; all others are zero, or empty texts."""

    tensor: str
    shape: tuple[int, ...]
    values: _Stored
    indices: _Stored
    path: Path

    def check(self) -> None:
        """Raise FileError where elements or places cannot be read from their file any more."""
        self.values.check()
        self.indices.check()

    def dense(self) -> NDArray[Any]:
        """Return the whole tensor.

        Raises FileError for a place outside it and for one with two elements, BudgetError where memory has no room.
        """
        values, indices = self.values.array(), self.indices.array()
        claim_memory(f"sparse tensor {self.tensor!r}", math.prod(self.shape) * values.itemsize)
        lengths = self.shape if indices.ndim == 2 else (math.prod(self.shape),)
        places = indices.reshape(values.size, len(lengths))
        outside = ((places < 0) | (places >= np.array(lengths, np.int64))).any(axis=1)
        if outside.any():
            inside = f"places must lie in {', '.join([f'0 … {length - 1}' for length in lengths])}"
            empty = "a sparse tensor must have no element where one of its sizes is 0"
            raise self._error(f"an element at {places[outside][0].tolist()}", empty if 0 in lengths else inside)
        steps = [math.prod(lengths[axis + 1 :]) for axis in range(len(lengths))]
        numbers = places @ np.array(steps, np.int64)
        order = np.argsort(numbers, kind="stable")
        twice = order[1:][numbers[order[1:]] == numbers[order[:-1]]]
        if twice.size:
            raise self._error(
                f"two elements at {places[twice[0]].tolist()}", "a sparse tensor must have one element at each place"
            )
        array = np.zeros(math.prod(self.shape), values.dtype)
        array[numbers] = values
        return array.reshape(self.shape)

    def _error(self, fault: str, rule: str) -> FileError:
        return FileError(
            f"sparse tensor {self.tensor!r} of shape {self.shape} has {fault}",
            path=str(self.path),
            rule=rule,
            fix="export the model again, or give the file that the exporter wrote",
        )
