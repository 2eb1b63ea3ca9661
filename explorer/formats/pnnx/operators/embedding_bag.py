"""Bags of rows of a table: the sum, mean or largest of the rows at several numbers.

pnnx writes nn.EmbeddingBag as torch's inner operator, with all numbers in one list and where each bag begins in it. Its
further results (which bag a number is in, how many there are) serve training, and are made of the same numbers.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from explorer.core.errors import OperandError
from explorer.core.ir.expr import Expr
from explorer.core.ir.tensor import tensor
from explorer.core.memory_budget import claim_constant, claim_steps
from explorer.core.types.tensor_type import Array
from explorer.formats.pnnx.operators.base.table import file_operator
from explorer.net.operators.context import OperatorContext
from explorer.net.operators.known_inputs import is_known, value_of
from explorer.ops.base import cast
from explorer.ops.elementwise.arithmetic import where
from explorer.ops.manipulation.concat import concatenate, stack
from explorer.ops.manipulation.gather import TakeGradient, embedding
from explorer.ops.manipulation.reshape import expand_dims
from explorer.ops.reduction.reduce import any, max, sum

_MODES = ("sum", "mean", "max")


@file_operator("aten::embedding_bag", ignored=(3, 5))
def embedding_bag(op: OperatorContext) -> tuple[Expr, ...]:
    """The sum (mode 0), mean (1) or largest (2) of the rows of each bag; an empty bag gives zeros."""
    table, numbers, starts = op.tensor(0, "weight"), op.tensor(1, "indices"), op.tensor(2, "offsets")
    mode, weights, ends_last, unused = (
        op.operand(place) if place < len(op.passed) else default
        for place, default in ((4, 0), (6, None), (7, False), (8, None))
    )
    if table.ndim != 2:
        raise OperandError(f"a table {table.type}", rule="aten::embedding_bag: the table must be a matrix of rows")
    if numbers.ndim != 1 or starts.ndim != 1 or mode not in range(3):
        raise OperandError(
            f"mode={mode!r}, numbers {numbers.type} and offsets {starts.type}",
            rule="aten::embedding_bag: mode must be 0 (sum), 1 (mean) or 2 (max), numbers and offsets must be lists",
        )
    if weights is not None and mode:
        raise OperandError(
            f"weights for mode {_MODES[mode]}", rule="aten::embedding_bag: numbers must have weights for mode sum alone"
        )
    if isinstance(weights, Expr) and weights.shape != numbers.shape:
        raise OperandError(
            f"weights {weights.type} for numbers {numbers.type}",
            rule="aten::embedding_bag: each number must have one weight",
        )
    starts = starts[:-1] if ends_last else starts
    rows = embedding(table, numbers)
    counted = None
    if isinstance(unused, int) and not isinstance(unused, bool):
        place = unused if unused >= 0 else unused + table.shape[0]
        counted = numbers != place
    if isinstance(weights, Expr):
        rows = rows * expand_dims(weights, 1)
    if mode == 2:
        return _largest(op, rows, starts, counted), starts, starts, starts
    if counted is not None:
        rows = where(expand_dims(counted, 1), rows, 0)
    # the bag of a number is the last one that begins at its place or before
    claim_constant("places of numbers", numbers.size)
    begun = tensor(np.arange(numbers.size))
    bags = sum(cast(expand_dims(begun, 1) >= starts, np.dtype(np.int64)), 1) - 1
    if is_known(starts):
        _check_starts(value_of(starts), numbers.size)
    # a number before the first bag is refused by the sum, as one of a bag beyond the last, and as all where starts fall
    falls = any(concatenate([starts[1:], tensor(np.full(1, numbers.size, starts.dtype))]) < starts)
    bags = where((bags < 0) | falls, starts.size, bags)
    total = TakeGradient(0, (starts.size, table.shape[1]))(rows, bags)
    ones = cast(counted, table.dtype) if counted is not None else tensor(np.ones(numbers.size, table.dtype))
    counts = TakeGradient(0, (starts.size,))(ones, bags)
    if mode == 1:
        total = total / expand_dims(where(counts > 0, counts, 1), 1)
    return total, bags, cast(counts, np.dtype(np.int64)), starts


def _largest(op: OperatorContext, rows: Expr, starts: Expr, counted: Expr | None) -> Expr:
    """Return the largest row element of each bag: its rows must be known while the net is built."""
    first: Any = value_of(starts) if is_known(starts) else op.value("offsets", starts)
    claim_steps("bags of rows", first.size)
    _check_starts(first, rows.shape[0])
    ends = [*first[1:].tolist(), rows.shape[0]]
    lowest = -np.inf if rows.dtype.kind == "f" else np.iinfo(rows.dtype).min
    if counted is not None:
        rows = where(expand_dims(counted, 1), rows, lowest)
    bags: list[Expr] = []
    for start, end in zip(first.tolist(), ends, strict=True):
        if start == end:
            bags.append(tensor(np.zeros(rows.shape[1], rows.dtype)))
            continue
        bag = max(rows[start:end], 0)
        bags.append(bag if counted is None else where(bag == lowest, 0, bag))
    return stack(bags)


def _check_starts(starts: Array, count: int) -> None:
    """Raise OperandError for offsets of bags that do not rise from 0 to the number of numbers at most."""
    if not starts.size or starts[0] != 0 or np.any(np.diff([*starts.tolist(), count]) < 0):
        raise OperandError(
            f"offsets {starts[:20].tolist()} into {count} numbers",
            rule="aten::embedding_bag: offsets must begin with 0, and none may be smaller than the one before it, or "
            "larger than the number of numbers",
        )
