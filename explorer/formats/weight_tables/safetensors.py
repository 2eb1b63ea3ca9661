"""Tables of ``.safetensors`` files: the tensors that the header names, or an index of several files."""

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
from explorer.formats.weight_tables.table import StatedTensor, table
from explorer.net.definition.definition import NetDefinition, WeightReference
from explorer.record.reasons import counted_text

_RULE = "an entry of the header must state dtype, shape and the bytes of its tensor"
_FIX = "save the tensors again: safetensors.numpy.save_file(arrays, path), or download the file again"


def read_safetensors(path: str | os.PathLike[str]) -> NetDefinition:
    """Read the header of a file; raises one FileError that lists all wrong entries."""
    tensors, weights, doc = _stated(Path(path))
    return table(Path(path), tensors, weights, doc)


class _Shards(KeyedWeights[SafetensorsWeights]):
    """Weights by key, each in one of several files."""

    def __getitem__(self, key: str) -> NDArray[Any]:
        return self._entry(key)[key]

    def verify(self, key: str) -> None:
        """Raise FileError where the weight's file has changed since it was opened."""
        self._entry(key).verify(key)


def read_index(path: str | os.PathLike[str]) -> NetDefinition:
    """Read an index of several files in its folder, and their headers; raises FileError for a file elsewhere."""
    index = Path(path)
    shards = _shards(index)
    folders = {os.path.realpath(index.parent), os.path.dirname(os.path.realpath(index))}
    tensors: list[StatedTensor] = []
    weights: dict[str, SafetensorsWeights] = {}
    for shard in sorted({*shards.values()}):
        # a cache of downloads holds links to files in the folder that its index leads to
        is_name = shard.isprintable() and os.path.basename(shard) == shard
        if not is_name or os.path.dirname(os.path.realpath(index.parent / shard)) not in folders:
            raise _index_error(index, f"it names the file {shard!r}", "its files must be next to it")
        stated, own, _ = _stated(index.parent / shard)
        tensors += [tensor for tensor in stated if shards.get(tensor.name) == shard]
        weights.update((key, own) for key in own if shards.get(key) == shard)
    absent = [key for key in shards if key not in {tensor.name for tensor in tensors}]
    if absent:
        shown = shorten(", ".join(absent), 100, placeholder=" …")
        raise _index_error(
            index, f"{counted_text(len(absent), 'tensor')} in no file: {shown}", "its files must hold what it names"
        )
    return replace(table(index.with_suffix("").with_suffix(""), tensors, _Shards(weights)), source=str(index))


def _shards(index: Path) -> dict[str, str]:
    """Return the file of each tensor."""
    data = content(index, "correct the path of the index")
    try:
        shards = json.loads(data)["weight_map"]
    except (ValueError, RecursionError, KeyError, TypeError):
        shards = None
    if not isinstance(shards, dict) or not shards or not all(isinstance(shard, str) for shard in shards.values()):
        raise _index_error(index, "it has no weight_map", 'an index must hold {"weight_map": {tensor: file}}')
    return shards


def _index_error(index: Path, problem: str, rule: str) -> FileError:
    return FileError(problem, path=str(index), rule=rule, fix="download the index and its files again into one folder")


def _stated(path: Path) -> tuple[list[StatedTensor], SafetensorsWeights, list[str]]:
    """Return what a file's header states: its tensors, those that arrays hold, and its metadata line by line."""
    file = SafetensorsFile(path)
    tensors, problems = [], []
    for key in file:
        try:
            entry = file.entry(key)
            problem = file.misplaced(entry)
        except ValueError as error:
            problem = f"cannot be read: {error}"
        if problem:
            problems.append(f"tensor {key!r} {problem}")
        else:
            tensors.append(StatedTensor(key, entry.shape, entry.dtype, entry.size, entry.stored))
    file.kept.close()
    if problems:
        raise file.error("\n    ".join(problems), rule=_RULE, fix=_FIX)
    declared = [WeightReference(tensor.name, tensor.shape, tensor.dtype) for tensor in tensors if tensor.dtype]
    notes = file.metadata.items() if isinstance(file.metadata, dict) else ()
    return tensors, SafetensorsWeights(path, declared), [f"{key}: {value}" for key, value in notes]
