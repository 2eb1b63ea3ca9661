"""Sequences and optionals whose length is known when a net is built: tuples of expressions, and None.

They hold no memory and are no nodes: a program reads their members. The list that a caller passes for an input decides
its length; a length that follows from values is computed first.
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


def _members(value: Any) -> tuple[Expr, ...]:
    if not isinstance(value, tuple) or not all(isinstance(member, Expr) for member in value):
        raise OperandError(f"input_sequence is {value!r:.80}", rule="input_sequence must be a sequence of tensors")
    return value


def _index(position: int, length: int) -> int:
    """Return a position counted from the front; raises OperandError for one outside a sequence of a length."""
    if not -length <= position < length:
        raise OperandError(
            f"position {position} of a sequence of {length}", rule="the position must lie in the sequence"
        )
    return position % length


@operator("SequenceEmpty")
def empty(*, dtype: Unused) -> Any:
    """A sequence without members."""
    return ((),)


@operator("SequenceConstruct")
def construct(*inputs: Expr) -> Any:
    """The sequence of some tensors."""
    return (inputs,)


@operator("SequenceAt")
def at(input_sequence: _Value, position: Known[int]) -> Expr:
    """One member of a sequence."""
    members = _members(input_sequence)
    return members[_index(position, len(members))]


@operator("SequenceLength")
def length(input_sequence: _Value) -> Expr:
    """The number of members."""
    return tensor(np.asarray(len(_members(input_sequence)), np.int64))


@operator("SequenceInsert")
def insert(input_sequence: _Value, tensor: Expr, position: Known[int] | None = None) -> Any:
    """The sequence with one member more, at a position or at its end."""
    members = _members(input_sequence)
    count = len(members)
    index = count if position in (None, count) else _index(position, count)
    return ((*members[:index], tensor, *members[index:]),)


@operator("SequenceErase")
def erase(input_sequence: _Value, position: Known[int] = -1) -> Any:
    """The sequence without the member at a position, or without its last one."""
    members = _members(input_sequence)
    index = _index(position, len(members))
    return ((*members[:index], *members[index + 1 :]),)


@operator("SplitToSequence")
def split_to_sequence(input: Expr, split: Known[Array] | None = None, *, axis: int = 0, keepdims: int = 1) -> Any:
    """The sequence of parts of an axis: of given lengths, of one length, or of single elements."""
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
            rule="SplitToSequence: the lengths must be positive and sum up to that of the axis",
        )
    ends = np.cumsum(lengths).tolist()
    parts = [input[(*[slice(None)] * axis, slice(end - n, end))] for end, n in zip(ends, lengths, strict=True)]
    return (tuple([squeeze(part, axis) for part in parts] if split is None and not keepdims else parts),)


@operator("ConcatFromSequence")
def concat_from_sequence(input_sequence: _Value, *, axis: int, new_axis: int = 0) -> Expr:
    """The members joined along an axis, which is a new one if asked."""
    members = _members(input_sequence)
    if not members:
        raise OperandError("an empty sequence", rule="ConcatFromSequence: there must be a member or more")
    return (stack if new_axis else concatenate)(members, axis)


@operator("Optional")
def optional_(input: _Value = None, *, type: Unused) -> Any:
    """A value that may be absent: None without an input."""
    return (input,)


@operator("OptionalGetElement")
def get_element(input: _Value = None) -> Any:
    """The value of an optional; raises OperandError if it is absent."""
    if input is None:
        raise OperandError("an optional without a value", rule="OptionalGetElement: the optional must have a value")
    return (input,)


@operator("OptionalHasElement")
def has_element(input: _Value = None) -> Expr:
    """Whether an optional has a value."""
    return tensor(np.asarray(input is not None))


@operator("Identity")
def identity(input: _Value) -> Any:
    """The operand itself, also a sequence or an optional."""
    return (input,)
