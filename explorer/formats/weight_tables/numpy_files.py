"""Tables of NumPy's files: the arrays of a ``.npz``, the one array of a ``.npy``.

Only headers are read when a table is opened. Elements of object dtype are pickles, which can run code: they are named
and never loaded.
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
from explorer.formats.common.zip_limits import UNREADABLE, Archive, unsound
from explorer.formats.weight_tables.table import StatedTensor, table
from explorer.net.definition.definition import NetDefinition, WeightReference
from explorer.net.definition.operator_definition import memory_dtype

_ENDING = ".npy"
_FIX = "save the arrays again: np.savez(path, name=array), or np.save(path, array)"


def read_npz(path: str | os.PathLike[str]) -> NetDefinition:
    """Read the headers of all arrays; one that holds objects or texts is named and not read."""
    file = Path(path)
    try:
        archive = Archive(file, "correct the path of the .npz file")
    except FileError:
        raise
    except UNREADABLE as error:
        raise _error(file, f"this is no readable zip: {error}") from None
    try:
        tensors = [_stated(file, archive, entry) for entry in archive.infolist() if entry.filename.endswith(_ENDING)]
        if not tensors:
            raise _error(file, f"none of its {len(archive.infolist())} entries is an array")
        declared = [WeightReference(tensor.name, tensor.shape, tensor.dtype) for tensor in tensors if tensor.dtype]
        return table(file, tensors, NpzWeights(file, declared, archive))
    except BaseException:
        archive.close()
        raise


def _stated(path: Path, archive: Archive, entry: zipfile.ZipInfo) -> StatedTensor:
    name = entry.filename.removesuffix(_ENDING)
    problem = unsound(entry, archive.size)
    if problem:
        raise _error(path, f"array {name!r} {problem}")
    try:
        with archive.open(entry) as file:
            shape, dtype, _ = read_header(file)
    except UNREADABLE as error:
        return StatedTensor(name, (), f"no numbers ({error})", entry.file_size, None)
    return StatedTensor(name, shape, dtype.name, math.prod(shape) * dtype.itemsize, _own(dtype))


def _own(dtype: np.dtype[Any]) -> str | None:
    """Return a dtype as definitions name it, None for one of texts, dates or records."""
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
        # Files may be big-endian or in Fortran order; kernels and fingerprints expect neither.
        array = np.asarray(array, memory_dtype(reference.dtype), order="C")
        array.setflags(write=False)
        return array

    def verify(self, key: str) -> None:
        """Raise FileError where the file has changed since it was opened."""
        self._entry(key)
        self._file.check()


def read_npy(path: str | os.PathLike[str]) -> NetDefinition:
    """Read the header of an array, which is named like its file."""
    file = KeptFile(path, "correct the path of the .npy file")
    name = file.path.name.removesuffix(_ENDING) or file.path.name
    try:
        stated = _array(file, name)
    except BaseException:
        file.close()
        raise
    assert stated.dtype is not None
    reference = WeightReference(name, stated.shape, stated.dtype)
    return table(file.path, [stated], _NpyWeights(file, reference))


def _array(file: KeptFile, name: str) -> StatedTensor:
    """Return what the header of an array states, compared with the file's bytes."""
    try:
        shape, dtype, header = read_header(file.file)
    except UNREADABLE as error:
        raise _error(file.path, f"this is no array of numbers: {error}") from None
    size = math.prod(shape) * dtype.itemsize
    if header + size != file.size:
        raise _error(file.path, f"the file has {file.size} bytes, its header asks for {header + size}")
    own = _own(dtype)
    if own is None:
        raise _error(file.path, f"it holds {dtype.name} {shape[:8]}, which are no numbers")
    return StatedTensor(name, shape, dtype.name, size, own)


def _error(path: Path, problem: str) -> FileError:
    return FileError(
        problem, path=str(path), rule="the file must hold arrays of numbers, as NumPy writes them", fix=_FIX
    )
