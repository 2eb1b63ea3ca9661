"""Readers of ``.safetensors`` files, and of index files that list several such files, as tables of weights."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path
from textwrap import shorten
from typing import Any

from numpy.typing import NDArray

from explorer.core.errors import FileError
from explorer.core.files.open_untrusted import content
from explorer.formats.common.declared_weights import KeyedWeights
from explorer.formats.common.safetensors_weights import SafetensorsFile, SafetensorsWeights
from explorer.formats.weight_tables.table import StoredTensor, table
from explorer.net.definition.definition import NetDefinition, WeightReference
from explorer.record.reasons import counted_text

_RULE = "a header entry must state the dtype, shape and byte range of its tensor"
_FIX = "save the tensors again: safetensors.numpy.save_file(arrays, path), or download the file again"


def read_safetensors(path: str | os.PathLike[str]) -> NetDefinition:
    """Read a file's header and return a table of its weights; raise one FileError that lists all damaged entries."""
    tensors, weights, metadata = _read_file(Path(path))
    return table(Path(path), tensors, weights, metadata)


class _Shards(KeyedWeights[SafetensorsWeights]):
    """Weights by key, distributed over several files."""

    def __getitem__(self, key: str) -> NDArray[Any]:
        return self._entry(key)[key]

    def verify(self, key: str) -> None:
        """Raise FileError if the file of this weight has changed since it was opened."""
        self._entry(key).verify(key)


def read_index(path: str | os.PathLike[str]) -> NetDefinition:
    """Read an index file, and the headers of the files that it lists, as one table of weights.

    Raise FileError if the index lists a file outside its folder.
    """
    index = Path(path)
    shards = _shards(index)
    folders = {os.path.realpath(index.parent), os.path.dirname(os.path.realpath(index))}
    tensors: list[StoredTensor] = []
    weights: dict[str, SafetensorsWeights] = {}
    metadata = [("files", str(len({*shards.values()})))]
    for shard in sorted({*shards.values()}):
        # in a download cache, the index and the files are symbolic links to another folder
        is_name = shard.isprintable() and os.path.basename(shard) == shard
        if not is_name or os.path.dirname(os.path.realpath(index.parent / shard)) not in folders:
            raise _index_error(index, f"it names the file {shard!r}", "its files must be in the same folder")
        stored, shard_weights, stated = _read_file(index.parent / shard)
        metadata += [pair for pair in stated if pair not in metadata]
        tensors += [tensor for tensor in stored if shards.get(tensor.name) == shard]
        weights.update((key, shard_weights) for key in shard_weights if shards.get(key) == shard)
    missing = [key for key in shards if key not in {tensor.name for tensor in tensors}]
    if missing:
        names = shorten(", ".join(missing), 100, placeholder=" …")
        raise _index_error(
            index, f"{counted_text(len(missing), 'tensor')} in no file: {names}", "its files must contain all tensors"
        )
    return replace(table(index.with_suffix("").with_suffix(""), tensors, _Shards(weights), metadata), source=str(index))


def _shards(index: Path) -> dict[str, str]:
    """Return the file name of each tensor."""
    data = content(index, "correct the path of the index")
    try:
        shards = json.loads(data)["weight_map"]
    except (ValueError, RecursionError, KeyError, TypeError):
        shards = None
    if not isinstance(shards, dict) or not shards or not all(isinstance(shard, str) for shard in shards.values()):
        raise _index_error(index, "it has no weight_map", 'an index must contain {"weight_map": {tensor: file}}')
    return shards


def _index_error(index: Path, problem: str, rule: str) -> FileError:
    return FileError(problem, path=str(index), rule=rule, fix="download the index and its files again into one folder")


def _read_file(path: Path) -> tuple[list[StoredTensor], SafetensorsWeights, list[tuple[str, str]]]:
    """Return the tensors of a file, the readable weights among them, and the metadata."""
    file = SafetensorsFile(path)
    tensors, problems = [], []
    for key in file:
        try:
            entry = file.entry(key)
            problem = file.range_fault(entry)
        except ValueError as error:
            problem = f"cannot be read: {error}"
        if problem:
            problems.append(f"tensor {key!r} {problem}")
        else:
            tensors.append(StoredTensor(key, entry.shape, entry.dtype, entry.size, entry.stored))
    file.kept.close()
    if problems:
        raise file.error("\n    ".join(problems), rule=_RULE, fix=_FIX)
    declared = [WeightReference(tensor.name, tensor.shape, tensor.dtype) for tensor in tensors if tensor.dtype]
    metadata = file.metadata.items() if isinstance(file.metadata, dict) else ()
    return tensors, SafetensorsWeights(path, declared), [(key, str(value)) for key, value in metadata]
