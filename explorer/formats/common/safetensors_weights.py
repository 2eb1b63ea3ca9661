"""Weights in a ``.safetensors`` file: a header of JSON and raw row-major arrays, checked before anything is read.

assets/decisions/0014 tells why the package of that name is not used.
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
"""the format's dtypes that arrays in memory have; it has floats of 6 bits, too"""
_LENGTH = 8
"""bytes before the header, which state its length"""
_LONGEST = 100_000_000
"""bytes of the longest header that the format allows"""
_METADATA = "__metadata__"
"""the one entry of a header that is no tensor: free texts of the writer"""
_RULE = "the file must hold a tensor of the declared shape and dtype for every weight of the graph"
_FIX = "save the weights again: safetensors.numpy.save_file(arrays, path), or save_file of safetensors.torch"


@dataclass(frozen=True, slots=True)
class SafetensorsEntry:
    """Header entry of a tensor; its bytes are counted from the end of the header."""

    dtype: str
    shape: tuple[int, ...]
    data_offsets: tuple[int, int]

    @property
    def stored(self) -> str | None:
        """Name of the dtype as definitions write it, None for one that arrays in memory do not have."""
        return _DTYPES.get(self.dtype)

    @property
    def size(self) -> int:
        """Bytes that it claims."""
        return self.data_offsets[1] - self.data_offsets[0]


class SafetensorsFile:
    """An open ``.safetensors`` file: its header, and what each entry says; no tensor is read."""

    def __init__(self, path: Path) -> None:
        """Read the header; raises FileError where there is none."""
        self.kept = KeptFile(path, "correct the path of the weights", what="the file of weights")
        try:
            self._header, self._start = self._read()
        except BaseException:
            self.kept.close()
            raise
        self.metadata = self._header.pop(_METADATA, {})

    def _read(self) -> tuple[dict[str, Any], int]:
        """Return the header, and the place of the first byte after it; nothing is read of a length that is wrong."""
        held, file = self.kept.size, self.kept.file
        length = int.from_bytes(file.read(_LENGTH), "little")
        if held < _LENGTH or length > min(held - _LENGTH, _LONGEST):
            raise self.error(
                f"the file has {held} bytes, and states a header of {length}",
                rule=f"a {ENDING} file must begin with the length of its header, of at most {_LONGEST:,} bytes",
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
        """Return what the header says of a tensor; raises ValueError where that is no entry."""
        entry: SafetensorsEntry = decode(self._header[key], SafetensorsEntry, "entry", document="header")
        return entry

    def misplaced(self, entry: SafetensorsEntry) -> str:
        """Say why the bytes of an entry are not those of its tensor, "" where they are."""
        (first, end), available = entry.data_offsets, self.kept.size - self._start
        size = entry.size if entry.stored is None else stored_bytes(entry.stored, math.prod(entry.shape))
        if min(entry.shape, default=0) < 0 or entry.size != size or not 0 <= first <= available - size:
            dtype = entry.dtype if entry.stored is None else memory_dtype(entry.stored).name
            return f"has the bytes {first} to {end} of {available}, {spoken(dtype)} {entry.shape[:8]} takes {size}"
        return ""

    def array(self, entry: SafetensorsEntry) -> NDArray[Any]:
        """Read a tensor, read-only; raises FileError where the file has changed since it was opened."""
        assert entry.stored is not None, f"{entry.dtype} has no arrays"
        raw = self.kept.part(self._start + entry.data_offsets[0], entry.size)
        # the last byte of narrow elements may hold more than the shape says
        array = decode_elements(raw, entry.stored)[: math.prod(entry.shape)].reshape(entry.shape)
        array.setflags(write=False)
        return array

    def error(self, problem: str, *, rule: str = _RULE, fix: str = _FIX) -> FileError:
        """Return an error about the file."""
        return FileError(problem, path=str(self.kept.path), rule=rule, fix=fix)


class SafetensorsWeights(DeclaredWeights):
    """The weights of one ``.safetensors`` file by key; every look-up reads a fresh, read-only array.

    bfloat16 is widened to float32, exactly, also where the graph declares float32.
    """

    def __init__(self, path: Path, declared: Iterable[WeightReference]) -> None:
        """Check what the header states; raises one FileError that lists every missing or misfit weight, reads none."""
        super().__init__(path, declared)
        self._file = file = SafetensorsFile(path)
        self._stored: dict[str, SafetensorsEntry] = {}
        fits = {key: self._place(reference) for key, reference in self._entries.items()}
        problems = [f"weight {key!r} {problem}" for key, problem in fits.items() if problem]
        if problems:
            problems.append(
                f"the file holds {counted_text(len(file), 'tensor')}: {shorten(', '.join(file), 100, placeholder=' …')}"
            )
            file.kept.close()
            raise file.error("\n    ".join(problems))

    def __getitem__(self, key: str) -> NDArray[Any]:
        return self._file.array(self._stored[self._entry(key).key])

    def verify(self, key: str) -> None:
        """Raise FileError where the file has changed since it was opened: it has no checksums."""
        self._entry(key)
        self._file.kept.check()

    def _place(self, reference: WeightReference) -> str:
        """Note where a weight is stored; return the reason why the file does not hold it, "" where it does."""
        if reference.key not in self._file:
            return "is missing"
        try:
            entry = self._file.entry(reference.key)
        except ValueError as error:
            return f"cannot be read: {error}"
        wanted = memory_dtype(reference.dtype)
        if entry.stored is None or memory_dtype(entry.stored) != wanted or entry.shape != reference.shape:
            return f"is {spoken(entry.dtype)} {entry.shape[:8]}, declared is {wanted.name} {reference.shape}"
        self._stored[reference.key] = entry
        return self._file.misplaced(entry)

    def __reduce__(self) -> tuple[Any, ...]:
        return SafetensorsWeights, (self.path, tuple(self._entries.values()))
