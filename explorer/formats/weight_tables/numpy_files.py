"""Readers of NumPy files, ``.npz`` and ``.npy``, as tables of weights.

Opening a table reads only headers. Arrays of objects are listed but never loaded: they are pickles, and loading a
pickle can run code.
"""

from __future__ import annotations

import math
import os
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from explorer.core.errors import FileError
from explorer.core.files.kept_file import KeptFile
from explorer.formats.common.declared_weights import DeclaredWeights
from explorer.formats.common.npz import NpzWeights, read_arrays, read_header
from explorer.formats.common.zip_limits import UNREADABLE, Archive, entry_fault
from explorer.formats.weight_tables.table import StoredTensor, table
from explorer.net.definition.definition import NetDefinition, WeightReference
from explorer.net.definition.operator_definition import memory_dtype

_EXTENSION = ".npy"
_FIX = "save the arrays again: np.savez(path, name=array), or np.save(path, array)"


def read_npz(path: str | os.PathLike[str]) -> NetDefinition:
    """Read the headers of all arrays in a ``.npz`` file; arrays of objects or strings are listed but cannot be read."""
    file = Path(path)
    try:
        archive = Archive(file, "correct the path of the .npz file")
    except FileError:
        raise
    except UNREADABLE as error:
        raise _error(file, f"this is not a readable zip: {error}") from None
    try:
        tensors = [
            _stored_tensor(file, archive, entry) for entry in archive.infolist() if entry.filename.endswith(_EXTENSION)
        ]
        if not tensors:
            raise _error(file, f"none of its {len(archive.infolist())} entries is an array")
        declared = [WeightReference(tensor.name, tensor.shape, tensor.dtype) for tensor in tensors if tensor.dtype]
        return table(file, tensors, NpzWeights(file, declared, archive))
    except BaseException:
        archive.close()
        raise


def _stored_tensor(path: Path, archive: Archive, entry: zipfile.ZipInfo) -> StoredTensor:
    name = entry.filename.removesuffix(_EXTENSION)
    problem = entry_fault(entry, archive.size)
    if problem:
        raise _error(path, f"array {name!r} {problem}")
    try:
        with archive.open(entry) as file:
            shape, dtype, _ = read_header(file)
    except UNREADABLE as error:
        return StoredTensor(name, (), f"no numbers ({error})", entry.file_size, None)
    return StoredTensor(name, shape, dtype.name, math.prod(shape) * dtype.itemsize, _known_dtype(dtype))


def _known_dtype(dtype: np.dtype[Any]) -> str | None:
    """Return the name of ``dtype`` in definitions, or None for strings, dates and records."""
    try:
        return memory_dtype(dtype.name).name
    except TypeError:
        return None


class _NpyWeights(DeclaredWeights):
    """The array of a ``.npy`` file."""

    def __init__(self, file: KeptFile, declared: WeightReference) -> None:
        super().__init__(file.path, [declared])
        self._file = file

    def __getitem__(self, key: str) -> NDArray[Any]:
        reference = self._entry(key)
        self._file.check()
        (array,) = read_arrays(self._file.path).values()
        # Files may be big-endian or in Fortran order, but kernels and fingerprints expect native, row-major arrays.
        array = np.asarray(array, memory_dtype(reference.dtype), order="C")
        array.setflags(write=False)
        return array

    def verify(self, key: str) -> None:
        """Raise FileError if the file has changed since it was opened."""
        self._entry(key)
        self._file.check()


def read_npy(path: str | os.PathLike[str]) -> NetDefinition:
    """Read the header of the array in a ``.npy`` file; the array is named after the file."""
    file = KeptFile(path, "correct the path of the .npy file")
    name = file.path.name.removesuffix(_EXTENSION) or file.path.name
    try:
        stated = _array(file, name)
    except BaseException:
        file.close()
        raise
    assert stated.dtype is not None
    reference = WeightReference(name, stated.shape, stated.dtype)
    return table(file.path, [stated], _NpyWeights(file, reference))


def _array(file: KeptFile, name: str) -> StoredTensor:
    """Return the tensor that a ``.npy`` header describes, after comparing its size with the file's size."""
    try:
        shape, dtype, header = read_header(file.file)
    except UNREADABLE as error:
        raise _error(file.path, f"this is not an array of numbers: {error}") from None
    size = math.prod(shape) * dtype.itemsize
    if header + size != file.size:
        raise _error(file.path, f"the file has {file.size} bytes, but its header requires {header + size}")
    known = _known_dtype(dtype)
    if known is None:
        raise _error(file.path, f"it contains {dtype.name} {shape[:8]}, which are not numbers")
    return StoredTensor(name, shape, dtype.name, size, known)


def _error(path: Path, problem: str) -> FileError:
    return FileError(
        problem, path=str(path), rule="the file must contain arrays of numbers, as NumPy writes them", fix=_FIX
    )
