"""Tables of weights: definitions whose operators return stored tensors, grouped by the prefix of their names.

For example, ``layer1.0.conv.weight`` and ``layer1.0.conv.bias`` are the weights of the operator ``layer1.0.conv``. A
table can therefore be drawn, queried (``net["layer1.0.conv"].weight``) and compared like any other net. Building a
table reads no weights.
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
_SEPARATOR = re.compile(r"[./]")
"""separator in the name of a tensor: a dot in PyTorch, a slash in JAX and Keras"""
_SHOWN = 400
"""maximum number of characters in an operator's line in the source view"""


@TABLE.register(_TYPE)
def weights(op: OperatorContext) -> Any:
    """Return the stored tensors unchanged."""
    tensors = tuple([op.weight(name) for name in op.definition.weights])
    return tensors[0] if len(tensors) == 1 else tensors


@dataclass(frozen=True, slots=True)
class StoredTensor:
    """Description of a tensor in a file: name, shape, the file's name for the dtype, and size in bytes."""

    name: str
    shape: tuple[int, ...]
    stored: str
    bytes: int
    dtype: str | None
    """name of the dtype in definitions; None if the dtype is not supported"""

    @property
    def own_name(self) -> str:
        """Last part of the name, such as ``weight``."""
        return _SEPARATOR.split(self.name)[-1] or self.name

    @property
    def text(self) -> str:
        """One-line summary, such as ``weight Q4_K 2048×2048 2.25 MB``."""
        shape = "×".join(map(str, self.shape)) or "scalar"
        return f"{self.own_name} {self.stored} {shape} {bytes_text(self.bytes)}"


def table(
    path: Path, tensors: Iterable[StoredTensor], weights: Weights, metadata: Iterable[tuple[str, str]] = ()
) -> NetDefinition:
    """Return the definition of a file's tensors, with the file's ``metadata``.

    A tensor with an unsupported dtype becomes an argument with its name and dtype instead of a weight.
    """
    boxes: dict[tuple[str, ...], list[StoredTensor]] = {}
    for tensor in tensors:
        boxes.setdefault(tuple(_SEPARATOR.split(tensor.name)[:-1]), []).append(tensor)
    root = path.name.removesuffix(path.suffix) or path.name
    operators: dict[str, OperatorDefinition] = {}
    for line, (box, members) in enumerate(boxes.items(), 1):
        name = _unused(".".join(box) or root, operators)  # a tensor whose name has no prefix belongs to the root
        operators[name] = _operator(name, members, line)
    return NetDefinition.of(
        root,
        operators.values(),
        (),
        (),
        source=str(path),
        weights=weights,
        dialect=TABLE.format,
        metadata=metadata,
    )


def _unused(name: str, taken: Collection[str]) -> str:
    while name in taken:
        name += "'"
    return name


def _operator(name: str, members: list[StoredTensor], line: int) -> OperatorDefinition:
    arguments: dict[str, str] = {}
    references: dict[str, WeightReference] = {}
    for tensor in members:
        key = _unused(tensor.own_name, {**arguments, **references})  # a.b and a/b have the same last part
        if tensor.dtype is None:
            arguments[key] = f"a tensor of {tensor.stored}, which explorer does not support"
        else:
            references[key] = WeightReference(tensor.name, tensor.shape, tensor.dtype)
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
