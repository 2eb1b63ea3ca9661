"""Reader of ``.bin`` files: a zip, usually uncompressed, of raw row-major arrays named ``operator.attribute``.

When a file is opened, the zip's directory is compared with the declarations in the ``.param`` file. Arrays are read and
their checksums verified on demand, so a graph can be viewed without reading its weights. ``zipfile`` verifies a
checksum only at the end of an entry, so entries are always read to the end. NumPy lacks bfloat16, so bfloat16 is
widened exactly to float32.
"""

from __future__ import annotations

import math
import zipfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from explorer.core.errors import FileError, OperandError
from explorer.formats.common import stored_dtypes
from explorer.formats.common.declared_weights import DeclaredWeights
from explorer.formats.common.stored_dtypes import decode
from explorer.formats.common.zip_limits import UNREADABLE, Archive, blocks, entry_fault, memory_fault
from explorer.formats.pnnx.param_values import ITEMSIZE
from explorer.net.definition.definition import WeightReference

_AGAIN = "export the model again with pnnx and keep the .param and .bin files of one export together"


class StoredWeights(DeclaredWeights):
    """Weights of one ``.bin`` file by key. Every look-up reads a new, read-only array."""

    def __init__(self, path: Path, declared: Iterable[WeightReference], archive: Archive | None = None) -> None:
        """Open the file and check its directory; raise one FileError that lists every missing or mismatched weight.

        ``archive`` is the zip if it is already open.
        """
        super().__init__(path, declared)
        try:
            self._archive = Archive(path, _AGAIN) if archive is None else archive
        except FileError:
            raise
        except UNREADABLE as error:
            raise FileError(
                f"this is not a readable zip: {error}",
                path=str(path),
                rule="a .bin file must be a zip of weights",
                fix=_AGAIN,
            ) from None
        try:
            self._check_directory()
        except FileError:
            self._archive.close()
            raise

    def _check_directory(self) -> None:
        entries = {info.filename: info for info in self._archive.infolist()}
        missing = [key for key in self._entries if key not in entries]
        problems = [f"{len(missing)} declared weights are missing: {', '.join(missing)}"] if missing else []
        file_bytes = self._archive.size
        claimed = memory_fault(entries[key] for key in self._entries if key in entries)
        problems += [claimed] if claimed else []
        for key, reference in self._entries.items():
            if key in entries and (problem := _mismatch(entries[key], reference, file_bytes)):
                problems.append(f"weight {key!r} {problem}")
        if problems:
            raise FileError(
                "\n    ".join(problems),
                path=str(self._path),
                rule="each weight declared in the .param file must have an entry of its size, named operator.attribute",
                fix=_AGAIN,
            )

    def __getitem__(self, key: str) -> NDArray[Any]:
        reference = self._entry(key)
        if reference.dtype == "complex32":
            raise FileError(
                f"weight {key!r} is complex32",
                path=str(self._path),
                rule="weights must have a NumPy dtype, and NumPy lacks complex32",
                fix="export the model with complex64 weights",
            )
        # read in blocks, since one bytes object would need twice the memory
        raw = np.empty(_size(reference), np.uint8)
        filled = 0
        for block in self._blocks(reference):
            raw[filled : filled + len(block)] = np.frombuffer(block, np.uint8)
            filled += len(block)
        array = decode(raw, reference.dtype).reshape(reference.shape)
        array.setflags(write=False)
        return array

    def verify(self, key: str) -> None:
        """Read a weight and discard it, which verifies its checksum."""
        for _ in self._blocks(self._entry(key)):
            pass

    def _blocks(self, reference: WeightReference) -> Iterator[bytes]:
        """Yield the bytes of a weight in blocks; raise FileError if the entry is cut off or damaged."""
        size, filled = _size(reference), 0
        try:
            for block in blocks(self._archive, reference.key):
                filled += len(block)
                yield block
        except UNREADABLE as error:
            raise FileError(
                f"weight {reference.key!r} cannot be read: {error}",
                path=str(self._path),
                rule="an entry must be complete and match the checksum in the directory",
                fix=_AGAIN,
            ) from None
        if filled < size:
            raise FileError(
                f"weight {reference.key!r} has {filled} of {size} bytes",
                path=str(self._path),
                rule="an entry must have as many bytes as the directory states",
                fix=_AGAIN,
            )

    def __reduce__(self) -> tuple[Any, ...]:
        return StoredWeights, (self._path, tuple(self._entries.values()))

    def close(self) -> None:
        """Close the file. Weights can no longer be read."""
        self._archive.close()


def _size(reference: WeightReference) -> int:
    return math.prod(reference.shape) * ITEMSIZE[reference.dtype]


def _mismatch(entry: zipfile.ZipInfo, reference: WeightReference, file_bytes: int) -> str:
    """Return why an entry does not match its declaration, or ""; only the directory is read."""
    expected = _size(reference)
    problem = entry_fault(entry, file_bytes)
    if entry.file_size == expected or entry.flag_bits & 1:
        return problem
    return f"has {entry.file_size} bytes, but {reference.dtype} {reference.shape} needs {expected}"


def encode(array: NDArray[Any], reference: WeightReference, path: str) -> NDArray[Any]:
    """Return ``array`` as a little-endian, row-major array in the declared dtype.

    Raise FileError if its shape or dtype differs from the declaration, or if the dtype cannot represent its values.
    """
    dtype = "float32" if reference.dtype == "bfloat16" else reference.dtype
    if array.shape != reference.shape or array.dtype.name != dtype:
        raise FileError(
            f"weight {reference.key!r} is {array.dtype.name} {array.shape}",
            path=path,
            rule=f"the array must be {reference.dtype} {reference.shape}, as the definition declares",
            fix="correct the declaration, or convert the array",
        )
    try:
        return stored_dtypes.encode(array, reference.dtype, reference.key)
    except OperandError as error:
        raise FileError(error.given, path=path, rule=error.rule, fix=error.fix) from None
