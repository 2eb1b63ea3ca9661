"""Sequences and optionals whose length is known when a net is built: tuples of expressions, and None.

They hold no memory and are no nodes: a program reads their members. The list that a caller passes for an input decides
its length; a length that follows from values is computed first.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from explorer.core.errors import OperandError
from explorer.core.ir.expr import Expr
from explorer.core.ir.tensor import tensor
from explorer.core.types.tensor_type import normalize_axis
from explorer.formats.onnx.operators.base.table import operator
from explorer.net.operators.context import OperatorContext
from explorer.net.operators.known_inputs import integers, is_given, known, members, required, whole
from explorer.ops.manipulation.concat import concatenate, stack
from explorer.ops.manipulation.reshape import squeeze


def _sequence(op: OperatorContext, name: str) -> tuple[Expr, ...]:
    value = op.argument(name)
    if not isinstance(value, tuple) or not all(isinstance(member, Expr) for member in value):
        raise OperandError(
            f"{name} is {value!r:.80}", rule=f"{op.definition.type}: {name} must be a sequence of tensors"
        )
    return value


def _place(op: OperatorContext, length: int, *, beyond: bool = False) -> int:
    """Return the position of a member, counted from the front; the end of the sequence without one."""
    position = whole(op, "position") if is_given(op, "position") else length if beyond else length - 1
    if not -length <= position < length + beyond:
        raise OperandError(
            f"position {position} of a sequence of {length}",
            rule=f"{op.definition.type}: the position must lie in the sequence",
        )
    return position % length if position < 0 else position


@operator("SequenceEmpty", ignored=("dtype",))
def empty(op: OperatorContext) -> Any:
    """A sequence without members."""
    return ((),)


@operator("SequenceConstruct")
def construct(op: OperatorContext) -> Any:
    """The sequence of some tensors."""
    return (members(op, "inputs"),)


@operator("SequenceAt")
def at(op: OperatorContext) -> Expr:
    """One member of a sequence."""
    sequence = _sequence(op, "input_sequence")
    return sequence[_place(op, len(sequence))]


@operator("SequenceLength")
def length(op: OperatorContext) -> Expr:
    """The number of members."""
    return tensor(np.asarray(len(_sequence(op, "input_sequence")), np.int64))


@operator("SequenceInsert")
def insert(op: OperatorContext) -> Any:
    """The sequence with one member more, at a position or at its end."""
    sequence = _sequence(op, "input_sequence")
    place = _place(op, len(sequence), beyond=True)
    return ((*sequence[:place], required(op, "tensor"), *sequence[place:]),)


@operator("SequenceErase")
def erase(op: OperatorContext) -> Any:
    """The sequence without the member at a position, or without its last one."""
    sequence = _sequence(op, "input_sequence")
    place = _place(op, len(sequence))
    return ((*sequence[:place], *sequence[place + 1 :]),)


@operator("SplitToSequence", ignored=("keepdims",))
def split_to_sequence(op: OperatorContext) -> Any:
    """The sequence of parts of an axis: of given lengths, of one length, or of single elements."""
    x = required(op, "input")
    axis = normalize_axis(op.integer("axis", 0), x.ndim, "SplitToSequence")
    size, is_single = x.shape[axis], not is_given(op, "split")
    if is_single:
        lengths = [1] * size
    elif known(op, "split").ndim:
        lengths = list(integers(op, "split"))
    else:
        step = whole(op, "split")
        lengths = [min(step, size - begin) for begin in range(0, size, step)] if step > 0 else []
    if sum(lengths) != size or min(lengths, default=0) < 0:
        raise OperandError(
            f"parts of {lengths} elements of an axis of {size}",
            rule="SplitToSequence: the lengths must be positive and sum up to that of the axis",
        )
    before, parts = (slice(None),) * axis, []
    ends = np.cumsum(lengths).tolist()
    for end, part in zip(ends, lengths, strict=True):
        piece = x[(*before, slice(end - part, end))]
        parts.append(squeeze(piece, axis) if is_single and not op.integer("keepdims", 1) else piece)
    return (tuple(parts),)


@operator("ConcatFromSequence")
def concat_from_sequence(op: OperatorContext) -> Expr:
    """The members joined along an axis, which is a new one if asked."""
    sequence = _sequence(op, "input_sequence")
    if not sequence:
        raise OperandError("an empty sequence", rule="ConcatFromSequence: there must be a member or more")
    join = stack if op.integer("new_axis", 0) else concatenate
    return join(sequence, op.integer("axis"))


@operator("Optional", ignored=("type",))
def optional_(op: OperatorContext) -> Any:
    """A value that may be absent: None without an input."""
    return (op.argument("input", None),)


@operator("OptionalGetElement")
def get_element(op: OperatorContext) -> Any:
    """The value of an optional; raises OperandError if it is absent."""
    value = op.argument("input", None)
    if value is None:
        raise OperandError("an optional without a value", rule="OptionalGetElement: the optional must have a value")
    return (value,)


@operator("OptionalHasElement")
def has_element(op: OperatorContext) -> Expr:
    """Whether an optional has a value."""
    return tensor(np.asarray(op.argument("input", None) is not None))
