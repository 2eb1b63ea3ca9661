"""Weights in a ``.npz`` file: a zip of NumPy's own arrays, one a key; never pickled, checked before it is read.

Explorer's own format stores weights so, and commands read inputs from such files. ``numpy.load`` alone would allocate
whatever a header claims before it looks at the data; here every header is compared with the bytes that are there first,
sums of all entries with the memory budget, and checksums are read to the end.
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
from explorer.formats.common.zip_limits import UNREADABLE, Archive, blocks, overclaimed, unsound
from explorer.net.definition.definition import WeightReference, Weights
from explorer.net.definition.operator_definition import memory_dtype, stored_dtype

_DATE = (1980, 1, 1, 0, 0, 0)
"""the earliest that a zip can say: equal nets make equal files"""
_HEADER = 1 << 16
"""bytes that an array's header has at most"""
RULE = "x.npz beside x.json must have an array of the declared shape and dtype for every weight"
AGAIN = "save the net again, and keep the .json and .npz files of one save together"


class NpzWeights(DeclaredWeights):
    """The weights of one ``.npz`` file by key; every look-up reads a fresh, read-only array.

    bfloat16 and complex32, which NumPy lacks, are there as float32 and complex64, narrower elements as their bytes.
    """

    def __init__(self, path: Path, declared: Iterable[WeightReference], archive: Archive | None = None) -> None:
        """Check what the file holds; raises one FileError that lists every missing or misfit weight, reads none.

        ``archive`` is the file where it is open already.
        """
        super().__init__(path, declared)
        try:
            self._archive = Archive(path, AGAIN) if archive is None else archive
        except FileError:
            raise
        except UNREADABLE as error:
            raise self._error(f"this is no readable zip: {error}") from None
        misfits = {key: self._misfit(reference) for key, reference in self._entries.items()}
        problems = [f"weight {key!r} {problem}" for key, problem in misfits.items() if problem]
        members = [self._archive.getinfo(_entry(key)) for key, problem in misfits.items() if not problem]
        if claimed := overclaimed(members):
            problems.append(claimed)
        if problems:
            self._archive.close()
            raise self._error("\n    ".join(problems))

    def __getitem__(self, key: str) -> NDArray[Any]:
        reference = self._entry(key)
        try:
            with self._archive.open(_entry(key)) as entry:
                array: NDArray[Any] = npy.read_array(entry, allow_pickle=False, max_header_size=_HEADER)
                entry.read()  # to its end, where its checksum is compared
        except UNREADABLE as error:
            raise self._error(f"weight {key!r} cannot be read: {error}") from None
        # Files may be big-endian or in Fortran order; kernels and fingerprints expect neither.
        array = np.asarray(array, stored_dtype(reference.dtype), order="C").view(memory_dtype(reference.dtype))
        array.setflags(write=False)
        return array

    def verify(self, key: str) -> None:
        """Read a weight to its end, where its checksum is compared, and keep nothing of it."""
        try:
            for _ in blocks(self._archive, _entry(self._entry(key).key)):
                pass
        except UNREADABLE as error:
            raise self._error(f"weight {key!r} cannot be read: {error}") from None

    def _misfit(self, reference: WeightReference) -> str:
        """Say why an entry does not hold its weight, "" where it does; only its header is read."""
        try:
            info = self._archive.getinfo(_entry(reference.key))
        except KeyError:
            return "is missing"
        if problem := unsound(info, self._archive.size):
            return problem
        try:
            with self._archive.open(info) as entry:
                shape, dtype, header = read_header(entry)
        except UNREADABLE as error:
            return f"cannot be read: {error}"
        wanted = stored_dtype(reference.dtype)
        if shape != reference.shape or dtype.newbyteorder("=") != wanted:
            return f"is {dtype.name} {shape}, declared is {wanted.name} {reference.shape}"
        size = header + math.prod(shape) * dtype.itemsize
        return "" if info.file_size == size else f"has {info.file_size} bytes, its header asks for {size}"

    def _error(self, problem: str) -> FileError:
        return FileError(problem, path=str(self._path), rule=RULE, fix=AGAIN)


def _entry(key: str) -> str:
    return f"{key}.npy"


def read_header(file: IO[bytes]) -> tuple[tuple[int, ...], np.dtype[Any], int]:
    """Return the shape and dtype that an array's header states, and the header's length in bytes.

    Raises ValueError, or another error of ``UNREADABLE``, if there is none, or if no array has that type.
    """
    version = npy.read_magic(file)
    # version 3 has field names in UTF-8, for records; an array of numbers has none
    if version not in ((1, 0), (2, 0)):
        raise ValueError(f"version {version} of the format, which no array of numbers needs")
    length = file.read(2 if version == (1, 0) else 4)
    shape, dtype = _stated(version, length + file.read(min(int.from_bytes(length, "little"), _HEADER)))
    if dtype.hasobject or min(shape, default=0) < 0 or not is_addressable(shape, dtype):
        raise ValueError(f"its header states {dtype} of shape {shape[:AXES]}, which is no array of numbers")
    return shape, dtype, file.tell()


@lru_cache(1024)
def _stated(version: tuple[int, int], header: bytes) -> tuple[tuple[int, ...], np.dtype[Any]]:
    """Return the shape and dtype of a header; most arrays of a file have one of a few headers."""
    read = npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0
    shape, _, dtype = read(BytesIO(header), max_header_size=_HEADER)
    return shape, dtype


def read_array(file: IO[bytes], name: str, size: int) -> NDArray[Any]:
    """Read the array in a file of ``size`` bytes, with which its header is compared before anything is allocated.

    Raises BudgetError for one larger than granted, and ValueError, or another error of ``UNREADABLE``, for no array.
    """
    shape, dtype, header = read_header(file)
    needed = math.prod(shape) * dtype.itemsize
    if header + needed > size:
        raise ValueError(f"{name} has {size} bytes, its header asks for {header + needed}")
    claim_memory(name, needed)
    file.seek(0)
    array: NDArray[Any] = npy.read_array(file, allow_pickle=False, max_header_size=_HEADER)
    return array


def read_arrays(path: Path, keys: Sequence[str] = ()) -> dict[str, NDArray[Any]]:
    """Read the arrays of a ``.npz`` file by key, all or the named ones, or the one of a ``.npy`` file by its name.

    Raises an error of ``UNREADABLE`` for a file that is neither, FileError for no file, UnknownNameError for a key.
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
    """Read all arrays of a ``.npz`` file; raises FileError for any other file."""
    try:
        return read_arrays(path)
    except UNREADABLE as error:
        raise FileError(
            f"it holds no arrays: {error}",
            path=str(path),
            rule="a database of this type must be a .npz file",
            fix="write it by net.Save(…, db=path), or np.savez(path, …)",
        ) from None


def _read_entry(archive: Archive, info: zipfile.ZipInfo, key: str) -> NDArray[Any]:
    wrong = unsound(info, archive.size) or overclaimed([info])
    if wrong:
        raise ValueError(f"{key!r} {wrong}")
    with archive.open(info) as entry:
        array = read_array(entry, repr(key), info.file_size)
        entry.read()  # to its end, where its checksum is compared
    return array


def write_weights(
    file: IO[bytes], weights: Weights, declared: Iterable[WeightReference], path: str, comment: bytes = b""
) -> None:
    """Write every declared weight once; raises FileError for one without a value, or of another shape or dtype."""
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
                    fix="set it in the definition's weights first",
                ) from None
            dtype = memory_dtype(reference.dtype)
            if array.shape != reference.shape or array.dtype != dtype:
                raise FileError(
                    f"weight {key!r} is {array.dtype.name} {array.shape}",
                    path=path,
                    rule=f"the array must be {dtype.name} {reference.shape}, as the definition declares",
                    fix="declare the weight as it is, or convert the array",
                )
            if not key or not key.isprintable():
                raise FileError(
                    f"the weight key {key!r}",
                    path=path,
                    rule="a key must be a text that can be printed",
                    fix="rename it",
                )
            entry = zipfile.ZipInfo(_entry(key), _DATE)
            # ZIP64 always: whether a zip needs it depends on sizes, and equal nets make equal files.
            with archive.open(entry, "w", force_zip64=True) as target:
                plain = stored_dtype(reference.dtype)
                elements = array if plain == dtype else np.ascontiguousarray(array).view(plain)
                npy.write_array(target, elements.astype(plain.newbyteorder("<"), copy=False), allow_pickle=False)
