"""Sequences and optionals. While a net is built, a sequence is a tuple of expressions, and an empty optional is None.

They are not nodes and need no memory, because a program reads their elements directly. The length of an input is the
length of the list that the caller passes. A length that depends on values is computed first.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np

from explorer.core.errors import OperandError
from explorer.core.ir.expr import Expr
from explorer.core.ir.tensor import tensor
from explorer.core.types.tensor_type import Array, normalize_axis
from explorer.formats.onnx.operators.base.table import operator
from explorer.net.operators.signature import Known, Unused
from explorer.ops.manipulation.concat import concatenate, stack
from explorer.ops.manipulation.reshape import squeeze

_Value: TypeAlias = Any
"""tensor, sequence or None"""


def _elements(value: Any) -> tuple[Expr, ...]:
    if not isinstance(value, tuple) or not all(isinstance(element, Expr) for element in value):
        raise OperandError(f"input_sequence is {value!r:.80}", rule="input_sequence must be a sequence of tensors")
    return value


def _index(position: int, length: int) -> int:
    if not -length <= position < length:
        raise OperandError(
            f"position {position} of a sequence of {length}", rule="the position must be inside the sequence"
        )
    return position % length


@operator("SequenceEmpty")
def empty(*, dtype: Unused) -> Any:
    """Return an empty sequence."""
    return ((),)


@operator("SequenceConstruct")
def construct(*inputs: Expr) -> Any:
    """Return a sequence of tensors."""
    return (inputs,)


@operator("SequenceAt")
def at(input_sequence: _Value, position: Known[int]) -> Expr:
    """Return one element of a sequence."""
    elements = _elements(input_sequence)
    return elements[_index(position, len(elements))]


@operator("SequenceLength")
def length(input_sequence: _Value) -> Expr:
    """Return the length of a sequence."""
    return tensor(np.asarray(len(_elements(input_sequence)), np.int64))


@operator("SequenceInsert")
def insert(input_sequence: _Value, tensor: Expr, position: Known[int] | None = None) -> Any:
    """Return the sequence with a tensor inserted at ``position``, by default at the end."""
    elements = _elements(input_sequence)
    count = len(elements)
    index = count if position in (None, count) else _index(position, count)
    return ((*elements[:index], tensor, *elements[index:]),)


@operator("SequenceErase")
def erase(input_sequence: _Value, position: Known[int] = -1) -> Any:
    """Return the sequence without the element at ``position``, by default the last element."""
    elements = _elements(input_sequence)
    index = _index(position, len(elements))
    return ((*elements[:index], *elements[index + 1 :]),)


@operator("SplitToSequence")
def split_to_sequence(input: Expr, split: Known[Array] | None = None, *, axis: int = 0, keepdims: int = 1) -> Any:
    """Split an axis into a sequence of slices; ``split`` is one length or a list of lengths, by default 1."""
    axis = normalize_axis(axis, input.ndim, "SplitToSequence")
    size = input.shape[axis]
    if split is None:
        lengths = [1] * size
    elif split.ndim > 1 or split.dtype.kind not in "iu":
        raise OperandError(
            f"split is {split.dtype.name} of shape {split.shape}",
            rule="SplitToSequence: split must be an integer or a list of integers",
        )
    elif split.ndim:
        lengths = split.tolist()
    else:
        step = int(split)
        lengths = [min(step, size - begin) for begin in range(0, size, step)] if step > 0 else []
    if sum(lengths) != size or min(lengths, default=0) < 0:
        raise OperandError(
            f"parts of {lengths} elements of an axis of {size}",
            rule="SplitToSequence: the lengths must not be negative, and must add up to the length of the axis",
        )
    ends = np.cumsum(lengths).tolist()
    parts = [input[(*[slice(None)] * axis, slice(end - n, end))] for end, n in zip(ends, lengths, strict=True)]
    return (tuple([squeeze(part, axis) for part in parts] if split is None and not keepdims else parts),)


@operator("ConcatFromSequence")
def concat_from_sequence(input_sequence: _Value, *, axis: int, new_axis: int = 0) -> Expr:
    """Concatenate the elements along an axis, or stack them along a new axis."""
    elements = _elements(input_sequence)
    if not elements:
        raise OperandError("an empty sequence", rule="ConcatFromSequence: the sequence must have at least one element")
    return (stack if new_axis else concatenate)(elements, axis)


@operator("Optional")
def optional_(input: _Value = None, *, type: Unused) -> Any:
    """Return an optional value, which is None without an input."""
    return (input,)


@operator("OptionalGetElement")
def get_element(input: _Value = None) -> Any:
    """Return the value of an optional; raise OperandError if it has none."""
    if input is None:
        raise OperandError("an optional without a value", rule="OptionalGetElement: the optional must have a value")
    return (input,)


@operator("OptionalHasElement")
def has_element(input: _Value = None) -> Expr:
    """Return whether an optional has a value."""
    return tensor(np.asarray(input is not None))


@operator("Identity")
def identity(input: _Value) -> Any:
    """Return the operand, which may be a sequence or an optional."""
    return (input,)
