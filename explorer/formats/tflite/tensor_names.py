"""Names of tensors and operators: a TensorFlow Lite file names tensors, not always differently, and no operator.

An operator is called by its first result. TensorFlow's converter names a result of merged operators by all of them,
``net/conv/Relu;net/conv/BiasAdd;net/conv/Conv2D``: the first one is what the result is.
"""

from __future__ import annotations

from explorer.formats.common.unique_names import UniqueNames
from explorer.formats.tflite.model_parts import FileGraph, Signature


def tensor_names(graph: FileGraph, signature: Signature | None) -> dict[int, str]:
    """Return a name of its own for each tensor by its number; inputs and outputs are called as in a signature."""
    names: dict[int, str] = {}
    taken: set[str] = set()
    sides = () if signature is None else (signature.outputs, signature.inputs)
    ends = {index: name for side in sides for name, index in side.items()}
    offered = {tensor.name for tensor in graph.tensors}
    for index in {*graph.inputs, *graph.outputs}:
        name = ends.get(index)
        if name and name not in taken and name not in offered - {graph.tensors[index].name}:
            names[index] = name
            taken.add(name)
    for index, tensor in enumerate(graph.tensors):
        if index not in names:
            name = tensor.name if tensor.name and tensor.name not in taken else f"{tensor.name or 'tensor'}:{index}"
            while name in taken:
                name += "'"
            names[index] = name
            taken.add(name)
    return names


class OperatorNames:
    """Gives every operator a name of its own, and the boxes around it."""

    def __init__(self) -> None:
        self._names = UniqueNames()

    def name(self, type: str, result: str, number: int) -> tuple[str, tuple[str, ...] | None]:
        """Return the name of an operator and its boxes, of which a name without slashes tells none."""
        name = self._names.take(result.partition(";")[0] or f"{type}_{number}")
        *boxes, _ = name.split("/")
        return name, tuple([box for box in boxes if box])
