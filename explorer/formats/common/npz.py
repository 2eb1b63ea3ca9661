"""Safe reader and writer of ``.npz`` files, zips with one NumPy array for each key.

Explorer's own format stores weights in such files, and commands read inputs from them. ``numpy.load`` allocates
whatever size a header states, so each stated size is first compared with the size of its entry, and their total with
the memory budget. Pickles are rejected, and checksums are verified.
"""

from __future__ import annotations

import math
import os
import zipfile
from collections.abc import Iterable, Sequence
from functools import lru_cache
from io import BytesIO
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from explorer.core.errors import FileError, UnknownNameError
from explorer.core.files.open_untrusted import opened
from explorer.core.memory_budget import AXES, claim_memory
from explorer.core.types.tensor_type import is_addressable
from explorer.formats.common.declared_weights import DeclaredWeights
from explorer.formats.common.zip_limits import UNREADABLE, Archive, blocks, entry_fault, memory_fault
from explorer.net.definition.definition import WeightReference, Weights
from explorer.net.definition.operator_definition import memory_dtype, stored_dtype

_DATE = (1980, 1, 1, 0, 0, 0)
"""date of all zip entries, fixed so that equal nets give equal files; the earliest that a zip can store"""
_HEADER = 1 << 16
"""maximum size of an array's header in bytes"""
RULE = "x.npz next to x.json must have an array of the declared shape and dtype for every weight"
AGAIN = "save the net again, and keep the .json and .npz files of one save together"


class NpzWeights(DeclaredWeights):
    """Weights of one ``.npz`` file by key. Every look-up reads a new, read-only array.

    If NumPy lacks a dtype, a wider dtype is stored: bfloat16 as float32, complex32 as complex64, and elements narrower
    than a byte as bytes.
    """

    def __init__(self, path: Path, declared: Iterable[WeightReference], archive: Archive | None = None) -> None:
        """Check the file's headers; raise one FileError that lists every missing or mismatched weight.

        No weight is read. ``archive`` is the zip if it is already open.
        """
        super().__init__(path, declared)
        try:
            self._archive = Archive(path, AGAIN) if archive is None else archive
        except FileError:
            raise
        except UNREADABLE as error:
            raise self._error(f"this is not a readable zip: {error}") from None
        mismatches = {key: self._mismatch(reference) for key, reference in self._entries.items()}
        problems = [f"weight {key!r} {problem}" for key, problem in mismatches.items() if problem]
        members = [self._archive.getinfo(_entry(key)) for key, problem in mismatches.items() if not problem]
        if claimed := memory_fault(members):
            problems.append(claimed)
        if problems:
            self._archive.close()
            raise self._error("\n    ".join(problems))

    def __getitem__(self, key: str) -> NDArray[Any]:
        reference = self._entry(key)
        try:
            with self._archive.open(_entry(key)) as entry:
                array: NDArray[Any] = npy.read_array(entry, allow_pickle=False, max_header_size=_HEADER)
                entry.read()  # read to the end, where the checksum is verified
        except UNREADABLE as error:
            raise self._error(f"weight {key!r} cannot be read: {error}") from None
        # Files may be big-endian or in Fortran order, but kernels and fingerprints expect native, row-major arrays.
        array = np.asarray(array, stored_dtype(reference.dtype), order="C").view(memory_dtype(reference.dtype))
        array.setflags(write=False)
        return array

    def verify(self, key: str) -> None:
        """Read a weight and discard it, which verifies its checksum."""
        try:
            for _ in blocks(self._archive, _entry(self._entry(key).key)):
                pass
        except UNREADABLE as error:
            raise self._error(f"weight {key!r} cannot be read: {error}") from None

    def _mismatch(self, reference: WeightReference) -> str:
        """Return why an entry does not match its declaration, or ""; only the header is read."""
        try:
            info = self._archive.getinfo(_entry(reference.key))
        except KeyError:
            return "is missing"
        if problem := entry_fault(info, self._archive.size):
            return problem
        try:
            with self._archive.open(info) as entry:
                shape, dtype, header = read_header(entry)
        except UNREADABLE as error:
            return f"cannot be read: {error}"
        expected = stored_dtype(reference.dtype)
        if shape != reference.shape or dtype.newbyteorder("=") != expected:
            return f"is {dtype.name} {shape}, but declared as {expected.name} {reference.shape}"
        size = header + math.prod(shape) * dtype.itemsize
        return "" if info.file_size == size else f"has {info.file_size} bytes, but its header requires {size}"

    def _error(self, problem: str) -> FileError:
        return FileError(problem, path=str(self._path), rule=RULE, fix=AGAIN)


def _entry(key: str) -> str:
    return f"{key}.npy"


def read_header(file: IO[bytes]) -> tuple[tuple[int, ...], np.dtype[Any], int]:
    """Return the shape and dtype in the header of an array, and the size of the header in bytes.

    Raise ValueError or another error of ``UNREADABLE`` if there is no header or the header describes no valid array.
    """
    version = npy.read_magic(file)
    # version 3 only adds UTF-8 field names of records, and numeric arrays have no fields
    if version not in ((1, 0), (2, 0)):
        raise ValueError(f"version {version} of the format, which arrays of numbers do not use")
    length = file.read(2 if version == (1, 0) else 4)
    shape, dtype = _stated(version, length + file.read(min(int.from_bytes(length, "little"), _HEADER)))
    if dtype.hasobject or min(shape, default=0) < 0 or not is_addressable(shape, dtype):
        raise ValueError(f"its header states {dtype} of shape {shape[:AXES]}, which is not an array of numbers")
    return shape, dtype, file.tell()


@lru_cache(1024)
def _stated(version: tuple[int, int], header: bytes) -> tuple[tuple[int, ...], np.dtype[Any]]:
    """Return the shape and dtype in a header, cached because many arrays in a file have equal headers."""
    read = npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0
    shape, _, dtype = read(BytesIO(header), max_header_size=_HEADER)
    return shape, dtype


def read_array(file: IO[bytes], name: str, size: int) -> NDArray[Any]:
    """Read the array in ``file``, after comparing its header with ``size``, the number of bytes in the file.

    Raise BudgetError if the array is larger than the memory budget. Raise ValueError or another error of ``UNREADABLE``
    if the file contains no valid array.
    """
    shape, dtype, header = read_header(file)
    needed = math.prod(shape) * dtype.itemsize
    if header + needed > size:
        raise ValueError(f"{name} has {size} bytes, but its header requires {header + needed}")
    claim_memory(name, needed)
    file.seek(0)
    array: NDArray[Any] = npy.read_array(file, allow_pickle=False, max_header_size=_HEADER)
    return array


def read_arrays(path: Path, keys: Sequence[str] = ()) -> dict[str, NDArray[Any]]:
    """Return the arrays of a ``.npz`` file by key, or the array of a ``.npy`` file under the file's name.

    If ``keys`` is not empty, only these arrays of a ``.npz`` file are read. Raise FileError if the file is missing,
    UnknownNameError if a key is unknown, and an error of ``UNREADABLE`` if the file has another format.
    """
    with opened(path) as file:
        magic = file.read(len(npy.MAGIC_PREFIX))
        file.seek(0)
        if magic == npy.MAGIC_PREFIX:
            return {path.stem: read_array(file, path.name, os.fstat(file.fileno()).st_size)}
        if magic[:2] != b"PK":
            raise ValueError("it is neither a .npz archive nor a .npy array")
    with Archive(path, "correct the path") as archive:
        entries = {info.filename.removesuffix(".npy"): info for info in archive.infolist()}
        for key in keys:
            if key not in entries:
                raise UnknownNameError(key, kind=f"array of {path}", known=entries)
        return {key: _read_entry(archive, entries[key], key) for key in keys or entries}


def read_database(path: Path) -> dict[str, NDArray[Any]]:
    """Return all arrays of a ``.npz`` file by key; raise FileError if the file has another format."""
    try:
        return read_arrays(path)
    except UNREADABLE as error:
        raise FileError(
            f"it contains no arrays: {error}",
            path=str(path),
            rule="a database of this type must be a .npz file",
            fix="write it with net.Save(…, db=path) or np.savez(path, …)",
        ) from None


def _read_entry(archive: Archive, info: zipfile.ZipInfo, key: str) -> NDArray[Any]:
    if problem := entry_fault(info, archive.size) or memory_fault([info]):
        raise ValueError(f"{key!r} {problem}")
    with archive.open(info) as entry:
        array = read_array(entry, repr(key), info.file_size)
        entry.read()  # read to the end, where the checksum is verified
    return array


def write_weights(
    file: IO[bytes], weights: Weights, declared: Iterable[WeightReference], path: str, comment: bytes = b""
) -> None:
    """Write every declared weight once; raise FileError if a weight is missing or does not match its declaration."""
    with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
        archive.comment = comment
        for key, reference in {reference.key: reference for reference in declared}.items():
            try:
                array = weights[key]
            except KeyError:
                raise FileError(
                    f"weight {key!r} has no value",
                    path=path,
                    rule="every declared weight must have a value",
                    fix="add it to the definition's weights first",
                ) from None
            dtype = memory_dtype(reference.dtype)
            if array.shape != reference.shape or array.dtype != dtype:
                raise FileError(
                    f"weight {key!r} is {array.dtype.name} {array.shape}",
                    path=path,
                    rule=f"the array must be {dtype.name} {reference.shape}, as the definition declares",
                    fix="correct the declaration, or convert the array",
                )
            if not key or not key.isprintable():
                raise FileError(
                    f"the weight key {key!r}",
                    path=path,
                    rule="a key must be a printable string",
                    fix="rename it",
                )
            entry = zipfile.ZipInfo(_entry(key), _DATE)
            # always ZIP64, so that the layout does not depend on the size
            with archive.open(entry, "w", force_zip64=True) as target:
                plain = stored_dtype(reference.dtype)
                elements = array if plain == dtype else np.ascontiguousarray(array).view(plain)
                npy.write_array(target, elements.astype(plain.newbyteorder("<"), copy=False), allow_pickle=False)
