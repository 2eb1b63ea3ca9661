"""Weights in a ``.safetensors`` file: a header of JSON and raw row-major arrays, checked before anything is read.

assets/decisions/0014 tells why the package of that name is not used.
"""

from __future__ import annotations

import json
import math
import os
import weakref
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from textwrap import shorten
from typing import Any

import numpy as np
from numpy.typing import NDArray

from explorer.core.errors import FileError
from explorer.core.files.open_untrusted import opened
from explorer.formats.common.declared_weights import DeclaredWeights
from explorer.formats.common.stored_dtypes import decode as decode_elements
from explorer.net.definition.definition import WeightReference
from explorer.net.definition.operator_definition import memory_dtype
from explorer.record.decoder import decode, spoken

ENDING = ".safetensors"
_DTYPES = {
    "BOOL": "bool", "U8": "uint8", "U16": "uint16", "U32": "uint32", "U64": "uint64",
    "I8": "int8", "I16": "int16", "I32": "int32", "I64": "int64",
    "BF16": "bfloat16", "F16": "float16", "F32": "float32", "F64": "float64", "C64": "complex64",
}  # fmt: skip
"""the format's dtypes that arrays in memory have; it has narrower floats, too"""
_LENGTH = 8
"""bytes before the header, which state its length"""
_PART = 1 << 30
"""bytes that are asked for at a time: Linux gives at most 2³¹"""
_LONGEST = 100_000_000
"""bytes of the longest header that the format allows"""
_RULE = "the file must hold a tensor of the declared shape and dtype for every weight of the graph"
_FIX = "save the weights again: safetensors.numpy.save_file(arrays, path), or save_file of safetensors.torch"


@dataclass(frozen=True, slots=True)
class _Entry:
    """Header entry of a tensor; its bytes are counted from the end of the header."""

    dtype: str
    shape: tuple[int, ...]
    data_offsets: tuple[int, int]


class SafetensorsWeights(DeclaredWeights):
    """The weights of one ``.safetensors`` file by key; every look-up reads a fresh, read-only array.

    bfloat16 is widened to float32, exactly, also where the graph declares float32.
    """

    def __init__(self, path: Path, declared: Iterable[WeightReference]) -> None:
        """Check what the header states; raises one FileError that lists every missing or misfit weight, reads none."""
        super().__init__(path, declared)
        self._file = opened(path, "correct the path of the weights", what="the file of weights")
        # open for as long as a net keeps the weights
        weakref.finalize(self, self._file.close)
        self._stored: dict[str, tuple[int, int, str]] = {}
        """key → first byte, number of bytes, dtype as stored"""
        try:
            header, start = self._header()
            available = os.fstat(self._file.fileno()).st_size - start
            fits = {key: self._place(reference, header, start, available) for key, reference in self._entries.items()}
            problems = [f"weight {key!r} {problem}" for key, problem in fits.items() if problem]
            if problems:
                problems.append(
                    f"the file holds {len(header)} tensors: {shorten(', '.join(header), 100, placeholder=' …')}"
                )
                raise self._error("\n    ".join(problems))
        except BaseException:
            self._file.close()
            raise

    def __getitem__(self, key: str) -> NDArray[Any]:
        reference = self._entry(key)
        first, size, dtype = self._stored[reference.key]
        raw = self._bytes(first, size)
        if len(raw) != size:
            raise self._cut(key, len(raw), size)
        array = decode_elements(np.frombuffer(raw, np.uint8), dtype).reshape(reference.shape)
        array.setflags(write=False)
        return array

    def verify(self, key: str) -> None:
        """Raise FileError where the file has become too short for a weight: it has no checksums."""
        first, size, _ = self._stored[self._entry(key).key]
        held = os.fstat(self._file.fileno()).st_size - first
        if held < size:
            raise self._cut(key, max(held, 0), size)

    def _bytes(self, first: int, size: int) -> bytes:
        """Return a part of the file, or less where it ends; the file's position is shared with forked processes."""
        if not hasattr(os, "pread"):  # on Windows, which has no fork: a position of this call's own
            with opened(self._path, "correct the path of the weights", what="the file of weights") as file:
                file.seek(first)
                return file.read(size)
        parts, end = [], first + size
        while first < end and (part := os.pread(self._file.fileno(), min(end - first, _PART), first)):
            parts.append(part)
            first += len(part)
        return b"".join(parts)

    def _header(self) -> tuple[dict[str, Any], int]:
        """Return the header, and the place of the first byte after it; nothing is read of a length that is wrong."""
        held = os.fstat(self._file.fileno()).st_size
        length = int.from_bytes(self._file.read(_LENGTH), "little")
        if held < _LENGTH or length > min(held - _LENGTH, _LONGEST):
            raise self._error(
                f"the file has {held} bytes, and states a header of {length}",
                rule=f"a {ENDING} file must begin with the length of its header, of at most {_LONGEST:,} bytes",
            )
        try:
            header = json.loads(self._file.read(length))
        except (ValueError, RecursionError) as error:
            reason = "it is nested too deeply" if isinstance(error, RecursionError) else error
            raise self._error(f"the header cannot be read as JSON: {reason}") from None
        if not isinstance(header, dict):
            raise self._error(f"the header is {spoken(header)}", rule="the header must be an object of tensors")
        # free texts of the writer, the one entry that is no tensor
        header.pop("__metadata__", None)
        return header, _LENGTH + length

    def _place(self, reference: WeightReference, header: dict[str, Any], start: int, available: int) -> str:
        """Note where a weight is stored; return the reason why the file does not hold it, "" where it does."""
        if reference.key not in header:
            return "is missing"
        try:
            entry: _Entry = decode(header[reference.key], _Entry, "entry", kind="header")
        except ValueError as error:
            return f"cannot be read: {error}"
        wanted = memory_dtype(reference.dtype)
        stored = _DTYPES.get(entry.dtype)
        if stored is None or memory_dtype(stored) != wanted or entry.shape != reference.shape:
            return f"is {spoken(entry.dtype)} {entry.shape[:8]}, declared is {wanted.name} {reference.shape}"
        first, end = entry.data_offsets
        size = math.prod(entry.shape) * (2 if stored == "bfloat16" else wanted.itemsize)
        if end - first != size or not 0 <= first <= available - size:
            return f"has the bytes {first} to {end} of {available}, {wanted.name} {reference.shape} takes {size}"
        self._stored[reference.key] = start + first, size, stored
        return ""

    def _cut(self, key: str, held: int, size: int) -> FileError:
        return self._error(
            f"weight {key!r} has {held} of {size} bytes",
            rule="the file must stay as it is while its model is open",
            fix="open the model again",
        )

    def _error(self, given: str, *, rule: str = _RULE, fix: str = _FIX) -> FileError:
        return FileError(given, path=str(self.path), rule=rule, fix=fix)

    def __reduce__(self) -> tuple[Any, ...]:
        return SafetensorsWeights, (self.path, tuple(self._entries.values()))
