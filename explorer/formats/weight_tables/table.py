"""Tables of weights: a definition of operators that hand out stored tensors, one for each box of names.

``layer1.0.conv.weight`` and ``layer1.0.conv.bias`` are the weights of the operator ``layer1.0.conv``, so that a table
is drawn, asked (``net["layer1.0.conv"].weight``) and compared like a net that has a graph, too. No weight is read.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from explorer.net.definition.definition import NetDefinition, OperatorDefinition, WeightReference, Weights
from explorer.net.operators.context import OperatorContext
from explorer.net.operators.table import OperatorTable
from explorer.record.reasons import bytes_text

TABLE = OperatorTable("weights")
_TYPE = "weights"
_PARTS = re.compile(r"[./]")
"""separators of the parts of a tensor's name: PyTorch writes dots, JAX and Keras slashes"""
_SHOWN = 400
"""characters of a line that are kept to show where an operator was written"""


@TABLE.register(_TYPE)
def weights(op: OperatorContext) -> Any:
    """Stored tensors, as they are."""
    tensors = tuple([op.weight(name) for name in op.definition.weights])
    return tensors[0] if len(tensors) == 1 else tensors


@dataclass(frozen=True, slots=True)
class StatedTensor:
    """A tensor as its file states it: name, shape, dtype in the file's own word, and bytes there."""

    name: str
    shape: tuple[int, ...]
    stored: str
    bytes: int
    dtype: str | None
    """as definitions name it; None for one that arrays in memory do not have"""

    @property
    def own_name(self) -> str:
        """The last part of its name: ``weight``."""
        return _PARTS.split(self.name)[-1] or self.name

    @property
    def text(self) -> str:
        """A few words about it: ``weight Q4_K 2048×2048 2.25 MB``."""
        shape = "×".join(map(str, self.shape)) or "scalar"
        return f"{self.own_name} {self.stored} {shape} {bytes_text(self.bytes)}"


def table(path: Path, tensors: Iterable[StatedTensor], weights: Weights, doc: Iterable[str] = ()) -> NetDefinition:
    """Return the definition of a file's tensors; ``doc`` are lines about the file.

    A tensor that arrays cannot hold is named among the arguments of its operator.
    """
    boxes: dict[tuple[str, ...], list[StatedTensor]] = {}
    for tensor in tensors:
        boxes.setdefault(tuple(_PARTS.split(tensor.name)[:-1]), []).append(tensor)
    root = path.name.removesuffix(path.suffix) or path.name
    operators: dict[str, OperatorDefinition] = {}
    for line, (box, members) in enumerate(boxes.items(), 1):
        name = _free(".".join(box) or root, operators)  # a tensor without a box is the file's own
        operators[name] = _operator(name, members, line)
    return NetDefinition.of(
        root,
        operators.values(),
        (),
        (),
        source=str(path),
        weights=weights,
        dialect=TABLE.format,
        doc="\n".join(doc),
    )


def _free(name: str, taken: Collection[str]) -> str:
    while name in taken:
        name += "'"
    return name


def _operator(name: str, members: list[StatedTensor], line: int) -> OperatorDefinition:
    arguments: dict[str, str] = {}
    references: dict[str, WeightReference] = {}
    for tensor in members:
        own = _free(tensor.own_name, {**arguments, **references})  # a.b and a/b have one name
        if tensor.dtype is None:
            arguments[own] = f"a tensor of {tensor.stored}, which explorer has not"
        else:
            references[own] = WeightReference(tensor.name, tensor.shape, tensor.dtype)
    shown = f"{name}: {', '.join([tensor.text for tensor in members])}"
    return OperatorDefinition(
        _TYPE,
        name,
        (),
        tuple([reference.key for reference in references.values()]),
        arguments,
        {},
        references,
        line=line,
        text=shown if len(shown) <= _SHOWN else f"{shown[:_SHOWN]}…",
    )
