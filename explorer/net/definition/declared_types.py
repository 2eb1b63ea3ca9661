"""Type notes of a file's operands, and its unknown lengths, bound by the given inputs.

Files note shapes with lengths left open, by name or by nothing. Nets check their inputs against these notes, and
operators that cannot run take their types from them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TypeGuard

import numpy as np

from explorer.core.errors import OperandError
from explorer.core.types.custom_dtypes import dtype_name, is_text
from explorer.core.types.tensor_type import Shape, TensorType, is_addressable
from explorer.net.definition.definition import BlobDefinition, Dimension, NetDefinition
from explorer.net.definition.operator_definition import is_noted, memory_dtype

_SHOWN = 8
"""most keys that an error lists"""
_NAME = re.compile(r"[^\W\d][\w.-]*")
_NUMBER = re.compile(r"s\d+")


@dataclass(frozen=True, slots=True)
class Lengths:
    """Unknown lengths of a net as bound by its inputs: by name, and a common one for those without a name."""

    named: Mapping[str, int]
    nameless: int | None
    """None if the inputs have no nameless length, or different ones"""

    @classmethod
    def of(cls, definition: NetDefinition, shapes: Mapping[str, Shape]) -> Lengths:
        """Bind lengths by the shapes of inputs; inputs without a shape note bind nothing."""
        named: dict[str, int] = {}
        nameless: set[int] = set()
        for name, shape in shapes.items():
            noted = definition.input(name).shape
            for dimension, length in zip(noted if noted is not None else (), shape, strict=False):
                if isinstance(dimension, str):
                    # The first one counts; check_inputs refuses inputs that disagree.
                    named.setdefault(dimension, length)
                elif dimension is None:
                    nameless.add(length)
        # Unknown lengths without a name may be different ones: equal numbers are the only hint that they are the same.
        return cls(named, nameless.pop() if len(nameless) == 1 else None)

    def bind(self, shape: tuple[Dimension, ...]) -> Shape | None:
        """Return the shape with its unknown lengths filled in; None if one is not bound."""
        lengths: list[int] = []
        for dimension in shape:
            length = (
                dimension if isinstance(dimension, int) else self.named.get(dimension) if dimension else self.nameless
            )
            if length is None:
                return None
            lengths.append(length)
        return tuple(lengths)


def is_open(definition: NetDefinition) -> bool:
    """Whether the net's inputs have unknown lengths."""
    noted = [definition.blob(name).shape for name in definition.inputs]
    return any(not isinstance(size, int) for shape in noted for size in shape or ())


def noted_dtype(blob: BlobDefinition) -> np.dtype[np.generic] | None:
    """Return the noted dtype of an operand, as it is in memory, or None."""
    return None if blob.dtype is None else memory_dtype(blob.dtype)


def bound_type(blob: BlobDefinition, lengths: Lengths) -> TensorType | None:
    """Return the noted type of an operand; None if it is incomplete or impossible."""
    dtype = noted_dtype(blob)
    shape = lengths.bind(blob.shape) if blob.shape is not None else None
    if shape is None or dtype is None or is_text(dtype) or not is_addressable(shape, dtype):
        return None
    return TensorType(shape, dtype)


def shape_text(shape: tuple[Dimension, ...] | None) -> str:
    """Return a shape note as text: ``(?, 1, 8, 8)``."""
    if shape is None:
        return "any shape"
    words = ["?" if size is None else str(size) for size in shape]
    return f"({', '.join(words)}{',' * (len(words) == 1)})"


def is_name(size: Dimension) -> TypeGuard[str]:
    """Whether a noted length is a name by which a reader knows it: "batch", but not "s77" or "s53//2 + 1".

    torch's exporter numbers the lengths that nobody named, and writes what is computed from them as expressions.
    """
    return isinstance(size, str) and _NAME.fullmatch(size) is not None and _NUMBER.fullmatch(size) is None


def symbolic_text(shape: tuple[Dimension, ...]) -> str:
    """Return a shape note as it is drawn, ``batch×?×64``; "scalar" without dimensions."""
    return "×".join(["?" if size is None else str(size) for size in shape]) or "scalar"


def dimension_names(shape: tuple[Dimension, ...], actual: Shape, named: Mapping[str, int]) -> tuple[str, ...]:
    """Return the noted name of each dimension of a value: "" for one without, or whose name means another length.

    ``named`` are the lengths of names that are known. Empty if the value has another rank, or other known lengths.
    """
    if not fits(shape, actual):
        return ()
    return tuple(
        [
            size if is_name(size) and named.get(size, length) == length else ""
            for size, length in zip(shape, actual, strict=True)
        ]
    )


def disagreement(blob: BlobDefinition, type_: TensorType) -> str:
    """Describe how a type contradicts the note of an operand; "" if it does not."""
    dtype = noted_dtype(blob)
    if dtype is not None and not is_noted(type_.dtype, dtype):
        return f"dtype {dtype_name(type_.dtype)} where the file notes {blob.dtype if is_text(dtype) else dtype.name}"
    if blob.shape is not None and not fits(blob.shape, type_.shape):
        return f"shape {type_.shape} where the file notes {shape_text(blob.shape)}"
    return ""


def fits(noted: tuple[Dimension, ...], shape: Shape) -> bool:
    """Whether a shape has the rank and the known lengths of a note."""
    # A named or an open length fits everything here: whether one name has one length is asked of all inputs together.
    return len(noted) == len(shape) and all(
        size == length for size, length in zip(noted, shape, strict=True) if isinstance(size, int)
    )


def check_inputs(
    definition: NetDefinition,
    types: Iterable[tuple[str, TensorType]],
    fix: str = "reshape or resize the input to that shape",
) -> None:
    """Raise OperandError for inputs that contradict the file: dtype, rank, known lengths, or lengths of one name.

    ``types`` are those of inputs by name, and of each member of a sequence; ``fix`` is the fix for
    a shape that does not fit.
    """
    named: dict[str, tuple[int, str]] = {}
    for name, type_ in types:
        blob = definition.input(name)
        dtype = noted_dtype(blob)
        if dtype is not None and not is_noted(type_.dtype, dtype):
            raise OperandError(
                _mismatch(name, type_, definition),
                rule=array_rule(blob),
                fix=f"convert it: x.astype({dtype.name!r})",
            )
        if blob.shape is None:
            continue
        if not fits(blob.shape, type_.shape):
            raise OperandError(
                _mismatch(name, type_, definition),
                rule=array_rule(blob) + "; ? is any length" * (None in blob.shape),
                fix=fix,
            )
        for dimension, length in zip(blob.shape, type_.shape, strict=True):
            # members of a sequence have lengths of their own
            if isinstance(dimension, str) and not blob.is_sequence:
                first, where = named.setdefault(dimension, (length, name))
                if first != length:
                    raise OperandError(
                        f"{_mismatch(name, type_, definition)}, where {dimension} is {length}; "
                        f"input {where!r} has {dimension} = {first}",
                        rule=f"{array_rule(blob)}; lengths of one name must be equal",
                        fix="pass inputs whose lengths agree",
                    )


def _mismatch(name: str, type_: TensorType, definition: NetDefinition) -> str:
    return f"input {name!r} of net {definition.name!r} is {dtype_name(type_.dtype)} {type_.shape}"


def array_rule(blob: BlobDefinition) -> str:
    """Return what an input's array must be as a rule: ``the array must be as the file says, float32 (1, ?)``."""
    dtype = noted_dtype(blob)
    rule = f"the array must be as the file says, {'numbers' if dtype is None else dtype.name} {shape_text(blob.shape)}"
    return f"{rule}, or a dict of {keys_text(blob)}" if blob.keys else rule


def keys_text(blob: BlobDefinition) -> str:
    """Return the keys of the dictionary that an input stands for, the first ones of many: ``'a', 'b', …``."""
    return ", ".join([*map(repr, blob.keys[:_SHOWN]), *["…"] * (len(blob.keys) > _SHOWN)])
