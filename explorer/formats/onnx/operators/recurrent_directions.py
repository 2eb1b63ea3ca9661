"""Directions of recurrent operators: each runs over the steps from a first state, and their results are stacked."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from explorer.core.ir.expr import Expr
from explorer.core.ir.recording_context import scope
from explorer.formats.common.known_inputs import is_known, optional, value_of
from explorer.formats.common.operator_checks import with_shape
from explorer.formats.onnx.operators.rnn_cells import CellOptions, options_of
from explorer.net.operators.context import OperatorContext
from explorer.ops.creation.constants import zeros
from explorer.ops.elementwise.arithmetic import where
from explorer.ops.manipulation.concat import stack
from explorer.ops.manipulation.reshape import reshape

_DIRECTIONS = {"forward": (False,), "reverse": (True,), "bidirectional": (False, True)}


class Operands(NamedTuple):
    """Operands of a recurrent operator that are not its weights."""

    x: Expr
    """(steps, N, features)"""
    lengths: Expr | None
    """(N,) of the sequences; None where all have all steps"""
    starts: tuple[Expr | None, ...]
    """first states, (directions, N, hidden); None for zeros"""
    peepholes: Expr | None
    hidden: int


class Direction(NamedTuple):
    """Direction of a recurrent operator: its place, order, cell and first states; weights are not here."""

    number: int
    backwards: bool
    options: CellOptions
    peephole: Expr | None
    start: tuple[Expr, ...]
    """first states, (N, hidden)"""


def directions_of(op: OperatorContext) -> tuple[bool, ...]:
    """Return for each direction of an operator whether it begins with the last step."""
    return _DIRECTIONS[op.word("direction", "forward", tuple(_DIRECTIONS))]


def each_direction(
    op: OperatorContext,
    cell: str,
    operands: Operands,
    directions: Sequence[bool],
    steps: Callable[[Direction], tuple[Expr, tuple[Expr, ...]]],
    batch_first: bool = False,
) -> list[Expr]:
    """Return the sequence (steps, directions, N, hidden) and the last states (directions, N, hidden).

    ``steps`` records one direction: its sequence, and its last states; ``batch_first`` says that N is the first axis of
    first states.
    """
    x, lengths, starts, peepholes, hidden = operands
    options = options_of(op, cell, len(directions))
    sequences: list[Expr] = []
    last: list[tuple[Expr, ...]] = []
    for number, backwards in enumerate(directions):
        start = tuple(
            zeros((x.shape[1], hidden), x.dtype)
            if whole is None
            else whole[:, number]
            if batch_first
            else whole[number]
            for whole in starts
        )
        peephole = None if peepholes is None else peepholes[number]
        with scope("reversed" if backwards else "forward", "file"):
            sequence, state = steps(Direction(number, backwards, options[number], peephole, start))
            state = _of_sequences(x, lengths, state)
        sequences.append(sequence)
        last.append(state)
    return [stack(sequences, 1), *[stack([state[i] for state in last]) for i in range(len(starts))]]


def lengths_of(op: OperatorContext, name: str, x: Expr) -> Expr | None:
    """Return the lengths of the sequences; None where all have all steps."""
    lengths = optional(op, name)
    if lengths is None:
        return None
    with_shape(op, "sequence_lens", lengths, (x.shape[1],))
    if is_known(lengths) and (value_of(lengths) == x.shape[0]).all():
        return None
    return lengths


def _of_sequences(x: Expr, lengths: Expr | None, state: tuple[Expr, ...]) -> tuple[Expr, ...]:
    """Return the last states, which are zeros for a sequence without steps, as ONNX Runtime has it."""
    if not x.shape[0]:
        return tuple([zeros(each.shape, each.dtype) for each in state])
    if lengths is None or (is_known(lengths) and (value_of(lengths) > 0).all()):
        return state
    return tuple([where(reshape(lengths > 0, (-1, 1)), each, 0) for each in state])
