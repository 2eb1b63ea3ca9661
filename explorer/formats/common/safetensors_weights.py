"""Reader of ``.safetensors`` files: a JSON header and raw row-major arrays, checked before any array is read.

assets/decisions/0014 explains why the package safetensors is not used.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from textwrap import shorten
from typing import Any

from numpy.typing import NDArray

from explorer.core.errors import FileError
from explorer.core.files.kept_file import KeptFile
from explorer.formats.common.declared_weights import DeclaredWeights
from explorer.formats.common.stored_dtypes import decode as decode_elements
from explorer.formats.common.stored_dtypes import stored_bytes
from explorer.net.definition.definition import WeightReference
from explorer.net.definition.operator_definition import memory_dtype
from explorer.record.json_form.decoder import decode, spoken
from explorer.record.reasons import counted_text

ENDING = ".safetensors"
_DTYPES = {
    "BOOL": "bool", "U8": "uint8", "U16": "uint16", "U32": "uint32", "U64": "uint64",
    "I8": "int8", "I16": "int16", "I32": "int32", "I64": "int64",
    "BF16": "bfloat16", "F16": "float16", "F32": "float32", "F64": "float64", "C64": "complex64",
    "F8_E4M3": "float8_e4m3fn", "F8_E4M3FNUZ": "float8_e4m3fnuz", "F8_E5M2": "float8_e5m2",
    "F8_E5M2FNUZ": "float8_e5m2fnuz", "F8_E8M0": "float8_e8m0fnu", "F4": "float4_e2m1fn",
}  # fmt: skip
"""the format's dtypes that explorer supports; the format also has 6-bit floats"""
_LENGTH = 8
"""size in bytes of the integer at the start of a file, which is the length of the header"""
_LONGEST = 100_000_000
"""maximum length of a header in bytes, as the format defines it"""
_METADATA = "__metadata__"
"""the only header entry that is not a tensor; it contains arbitrary strings from the program that wrote the file"""
_RULE = "the file must contain a tensor of the declared shape and dtype for every weight of the graph"
_FIX = "save the weights again: safetensors.numpy.save_file(arrays, path), or save_file of safetensors.torch"


@dataclass(frozen=True, slots=True)
class SafetensorsEntry:
    """Header entry of a tensor. ``data_offsets`` are counted from the end of the header."""

    dtype: str
    shape: tuple[int, ...]
    data_offsets: tuple[int, int]

    @property
    def stored(self) -> str | None:
        """Name of the tensor's dtype in definitions, or None if the dtype is not supported."""
        return _DTYPES.get(self.dtype)

    @property
    def size(self) -> int:
        """Size of the tensor in bytes, according to the header."""
        return self.data_offsets[1] - self.data_offsets[0]


class SafetensorsFile:
    """An open ``.safetensors`` file and its header. Iteration yields the names of the tensors."""

    def __init__(self, path: Path) -> None:
        """Read the header; raise FileError if it is missing or damaged."""
        self.kept = KeptFile(path, "correct the path of the weights", what="the file of weights")
        try:
            self._header, self._start = self._read()
        except BaseException:
            self.kept.close()
            raise
        self.metadata = self._header.pop(_METADATA, {})

    def _read(self) -> tuple[dict[str, Any], int]:
        """Return the header and the offset of the first byte after it. The length is checked before reading."""
        size, file = self.kept.size, self.kept.file
        length = int.from_bytes(file.read(_LENGTH), "little")
        if size < _LENGTH or length > min(size - _LENGTH, _LONGEST):
            raise self.error(
                f"the file has {size} bytes, but declares a header of {length} bytes",
                rule=f"a {ENDING} file must begin with the header's length, which must be at most {_LONGEST:,} bytes",
            )
        try:
            header = json.loads(file.read(length))
        except (ValueError, RecursionError) as error:
            reason = "it is nested too deeply" if isinstance(error, RecursionError) else error
            raise self.error(f"the header cannot be read as JSON: {reason}") from None
        if not isinstance(header, dict):
            raise self.error(f"the header is {spoken(header)}", rule="the header must be an object of tensors")
        return header, _LENGTH + length

    def __contains__(self, key: str) -> bool:
        return key in self._header

    def __iter__(self) -> Iterator[str]:
        return iter(self._header)

    def __len__(self) -> int:
        return len(self._header)

    def entry(self, key: str) -> SafetensorsEntry:
        """Return the header entry of the tensor ``key``; raise ValueError if it is damaged."""
        entry: SafetensorsEntry = decode(self._header[key], SafetensorsEntry, "entry", document="header")
        return entry

    def range_fault(self, entry: SafetensorsEntry) -> str:
        """Return why the byte range of ``entry`` cannot contain its tensor, or ""."""
        (first, end), available = entry.data_offsets, self.kept.size - self._start
        size = entry.size if entry.stored is None else stored_bytes(entry.stored, math.prod(entry.shape))
        if min(entry.shape, default=0) < 0 or entry.size != size or not 0 <= first <= available - size:
            dtype = entry.dtype if entry.stored is None else memory_dtype(entry.stored).name
            return f"has the bytes {first} to {end} of {available}, but {spoken(dtype)} {entry.shape[:8]} needs {size}"
        return ""

    def array(self, entry: SafetensorsEntry) -> NDArray[Any]:
        """Return a tensor as a read-only array; raise FileError if the file has changed since it was opened."""
        assert entry.stored is not None, f"{entry.dtype} is not supported"
        raw = self.kept.part(self._start + entry.data_offsets[0], entry.size)
        # if elements are narrower than a byte, the last byte may contain unused elements
        array = decode_elements(raw, entry.stored)[: math.prod(entry.shape)].reshape(entry.shape)
        array.setflags(write=False)
        return array

    def error(self, problem: str, *, rule: str = _RULE, fix: str = _FIX) -> FileError:
        """Return an error about the file."""
        return FileError(problem, path=str(self.kept.path), rule=rule, fix=fix)


class SafetensorsWeights(DeclaredWeights):
    """Weights of one ``.safetensors`` file by key. Every look-up reads a new, read-only array.

    bfloat16 is widened exactly to float32, so a bfloat16 tensor also matches a weight declared as float32.
    """

    def __init__(self, path: Path, declared: Iterable[WeightReference]) -> None:
        """Check the header; raise one FileError that lists every missing or mismatched weight. No weight is read."""
        super().__init__(path, declared)
        self._file = file = SafetensorsFile(path)
        self._stored: dict[str, SafetensorsEntry] = {}
        mismatches = {key: self._locate(reference) for key, reference in self._entries.items()}
        problems = [f"weight {key!r} {problem}" for key, problem in mismatches.items() if problem]
        if problems:
            names = shorten(", ".join(file), 100, placeholder=" …")
            problems.append(f"the file contains {counted_text(len(file), 'tensor')}: {names}")
            file.kept.close()
            raise file.error("\n    ".join(problems))

    def __getitem__(self, key: str) -> NDArray[Any]:
        return self._file.array(self._stored[self._entry(key).key])

    def verify(self, key: str) -> None:
        """Raise FileError if the file has changed since it was opened; the format has no checksums."""
        self._entry(key)
        self._file.kept.check()

    def _locate(self, reference: WeightReference) -> str:
        """Record the header entry of a weight; return why it does not match the declaration, or ""."""
        if reference.key not in self._file:
            return "is missing"
        try:
            entry = self._file.entry(reference.key)
        except ValueError as error:
            return f"cannot be read: {error}"
        expected = memory_dtype(reference.dtype)
        if entry.stored is None or memory_dtype(entry.stored) != expected or entry.shape != reference.shape:
            return f"is {spoken(entry.dtype)} {entry.shape[:8]}, but declared as {expected.name} {reference.shape}"
        self._stored[reference.key] = entry
        return self._file.range_fault(entry)

    def __reduce__(self) -> tuple[Any, ...]:
        return SafetensorsWeights, (self.path, tuple(self._entries.values()))
