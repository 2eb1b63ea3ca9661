"""Embedding bags: sums, means or maxima of the rows of a table at several indices.

pnnx writes nn.EmbeddingBag as torch's aten operator. Its operands are one vector with all indices, and the offset of
each bag in this vector. Its other results (each index's bag and each bag's size) are used only in training.
"""

from __future__ import annotations

from typing import Any, Literal

import numpy as np

from explorer.core.errors import OperandError
from explorer.core.ir.expr import Expr
from explorer.core.ir.tensor import tensor
from explorer.core.memory_budget import claim_constant, claim_steps
from explorer.core.types.tensor_type import Array
from explorer.formats.pnnx.operators.base.table import file_operator
from explorer.net.operators.context import OperatorContext
from explorer.net.operators.known_inputs import is_known, value_of
from explorer.net.operators.signature import Unused
from explorer.ops.base import cast
from explorer.ops.elementwise.arithmetic import where
from explorer.ops.manipulation.concat import concatenate, stack
from explorer.ops.manipulation.gather import TakeGradient, embedding
from explorer.ops.manipulation.reshape import expand_dims
from explorer.ops.reduction.reduce import any, max, sum

_MODES = ("sum", "mean", "max")


@file_operator("aten::embedding_bag")
def embedding_bag(
    op: OperatorContext,
    weight: Expr,
    indices: Expr,
    offsets: Expr,
    scale_grad_by_freq: Unused,
    mode: Literal[0, 1, 2] = 0,
    sparse: Unused = None,
    per_sample_weights: Expr | None = None,
    include_last_offset: bool = False,
    padding_idx: int | None = None,
) -> tuple[Expr, ...]:
    """Return the sum (mode 0), mean (1) or maximum (2) of each bag's rows, or zeros for an empty bag."""
    if weight.ndim != 2:
        raise OperandError(f"a table {weight.type}", rule="the table must be a matrix")
    if indices.ndim != 1 or offsets.ndim != 1:
        raise OperandError(
            f"indices {indices.type} and offsets {offsets.type}", rule="indices and offsets must be vectors"
        )
    if per_sample_weights is not None and mode:
        raise OperandError(f"weights for mode {_MODES[mode]}", rule="only the mode sum supports weights of indices")
    if per_sample_weights is not None and per_sample_weights.shape != indices.shape:
        raise OperandError(
            f"weights {per_sample_weights.type} for indices {indices.type}", rule="each index must have one weight"
        )
    starts = offsets[:-1] if include_last_offset else offsets
    rows = embedding(weight, indices)
    counted = None
    if padding_idx is not None:
        counted = indices != (padding_idx if padding_idx >= 0 else padding_idx + weight.shape[0])
    if per_sample_weights is not None:
        rows = rows * expand_dims(per_sample_weights, 1)
    if mode == 2:
        return _largest(op, rows, starts, counted), starts, starts, starts
    if counted is not None:
        rows = where(expand_dims(counted, 1), rows, 0)
    # the bag of an index is the last bag that begins at or before the position of the index
    claim_constant("positions of indices", indices.size)
    positions = tensor(np.arange(indices.size))
    bags = sum(cast(expand_dims(positions, 1) >= starts, np.dtype(np.int64)), 1) - 1
    if is_known(starts):
        _check_starts(value_of(starts), indices.size)
    # Bag number starts.size is out of range, so the sum below raises an error at run time if an index is before the
    # first bag, or if offsets decrease.
    decreases = any(concatenate([starts[1:], tensor(np.full(1, indices.size, starts.dtype))]) < starts)
    bags = where((bags < 0) | decreases, starts.size, bags)
    total = TakeGradient(0, (starts.size, weight.shape[1]))(rows, bags)
    ones = cast(counted, weight.dtype) if counted is not None else tensor(np.ones(indices.size, weight.dtype))
    counts = TakeGradient(0, (starts.size,))(ones, bags)
    if mode == 1:
        total = total / expand_dims(where(counts > 0, counts, 1), 1)
    return total, bags, cast(counts, np.dtype(np.int64)), starts


def _largest(op: OperatorContext, rows: Expr, starts: Expr, counted: Expr | None) -> Expr:
    """Return the elementwise maximum of the rows of each bag; ``starts`` must be known while the net is built."""
    offsets: Any = value_of(starts) if is_known(starts) else op.value("offsets", starts)
    claim_steps("bags of rows", offsets.size)
    _check_starts(offsets, rows.shape[0])
    ends = [*offsets[1:].tolist(), rows.shape[0]]
    lowest = -np.inf if rows.dtype.kind == "f" else np.iinfo(rows.dtype).min
    if counted is not None:
        rows = where(expand_dims(counted, 1), rows, lowest)
    bags: list[Expr] = []
    for start, end in zip(offsets.tolist(), ends, strict=True):
        if start == end:
            bags.append(tensor(np.zeros(rows.shape[1], rows.dtype)))
            continue
        bag = max(rows[start:end], 0)
        bags.append(bag if counted is None else where(bag == lowest, 0, bag))
    return stack(bags)


def _check_starts(starts: Array, count: int) -> None:
    """Raise OperandError unless the offsets of bags begin with 0, never decrease, and are at most ``count``."""
    if not starts.size or starts[0] != 0 or np.any(np.diff([*starts.tolist(), count]) < 0):
        raise OperandError(
            f"offsets {starts[:20].tolist()} into {count} indices",
            rule="offsets must begin with 0, must not decrease, and must not exceed the number of indices",
        )
