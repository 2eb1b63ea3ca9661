"""Tables of ``.safetensors`` files: the tensors that the header names."""

from __future__ import annotations

import os
from pathlib import Path

from explorer.formats.common.safetensors_weights import SafetensorsFile, SafetensorsWeights
from explorer.formats.weight_tables.table import StatedTensor, table
from explorer.net.definition.definition import NetDefinition, WeightReference

_RULE = "an entry of the header must state dtype, shape and the bytes of its tensor"
_FIX = "save the tensors again: safetensors.numpy.save_file(arrays, path), or download the file again"


def read_safetensors(path: str | os.PathLike[str]) -> NetDefinition:
    """Read the header of a file; raises one FileError that lists all wrong entries."""
    file = SafetensorsFile(Path(path))
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
    doc = [f"{key}: {value}" for key, value in notes]
    return table(Path(path), tensors, SafetensorsWeights(Path(path), declared), doc)
