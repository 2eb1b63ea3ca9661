"""Reductions over axes."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from explorer.core.errors import OperandError
from explorer.core.ir.expr import Expr
from explorer.formats.pnnx.operators.base.arguments import flag, integers, value
from explorer.formats.pnnx.operators.base.table import file_operator
from explorer.formats.pnnx.operators.creation import dtype_of
from explorer.net.operators.context import OperatorContext
from explorer.ops.base import cast
from explorer.ops.nn.softmax import logsumexp
from explorer.ops.reduction.reduce import all, any, max, mean, min, prod, sum
from explorer.ops.reduction.statistics import std, var, vector_norm


def axes_of(op: OperatorContext, position: int = 1) -> tuple[int, ...] | None:
    """The axes to reduce, None for all: they are absent, None, or no axis at all."""
    if value(op, position, "dim", None) is None:
        return None
    return integers(op, position, "dim") or None


def added_as(op: OperatorContext, x: Expr) -> np.dtype[Any]:
    """Return the dtype in which elements are added or multiplied: the one asked for, else int64 for whole ones."""
    return dtype_of(op, x.dtype if x.dtype.kind in "fc" else np.int64)


def _enter_reduction(reduce: Callable[..., Expr], name: str) -> None:
    @file_operator(f"torch.{name}", f"Tensor.{name}", f"aten::{name}")
    def reduction(op: OperatorContext) -> Expr:
        x = op.x
        result = reduce(x, axes_of(op), flag(op, 2, "keepdim", False))
        # as in torch, where truths were uint8 once
        return cast(result, x.dtype) if name in ("all", "any") and x.dtype == np.uint8 else result

    reduction.__doc__ = reduce.__doc__


for _reduce, _name in (
    (max, "amax"), (min, "amin"), (all, "all"), (any, "any"), (logsumexp, "logsumexp"),
):  # fmt: skip
    _enter_reduction(_reduce, _name)


def _enter_sum(reduce: Callable[..., Expr], name: str) -> None:
    @file_operator(f"torch.{name}", f"Tensor.{name}", f"aten::{name}")
    def total(op: OperatorContext) -> Expr:
        dtype = dtype_of(op, op.x.dtype) if name == "mean" else added_as(op, op.x)
        x = cast(op.x, dtype)
        result = reduce(x, axes_of(op), flag(op, 2, "keepdim", False))
        # NumPy adds short whole numbers in long ones
        return result if name == "mean" else cast(result, dtype)

    total.__doc__ = reduce.__doc__


for _reduce, _name in ((mean, "mean"), (sum, "sum"), (prod, "prod")):
    _enter_sum(_reduce, _name)


def _enter_spread(reduce: Callable[..., Expr], name: str) -> None:
    @file_operator(f"torch.{name}", f"Tensor.{name}")
    def spread(op: OperatorContext) -> Expr:
        axes = axes_of(op)
        # torch divides by n − 1 unless told otherwise, NumPy by n
        missing = op.integer("correction", 1) if op.argument("correction", None) is not None else 1
        if op.has("unbiased"):
            missing = int(op.flag("unbiased"))
        return reduce(op.x, axes, missing, op.flag("keepdim", False))

    spread.__doc__ = reduce.__doc__


_enter_spread(var, "var")
_enter_spread(std, "std")


@file_operator("torch.norm", "Tensor.norm", "torch.linalg.vector_norm")
def norm(op: OperatorContext) -> Expr:
    """(Σ |x|ᵖ)^(1/p) over axes."""
    op.only("dtype", None)
    order: Any = op.argument("p", op.argument("ord", 2))
    if order in (None, "fro"):
        order = 2
    if order in ("inf", "-inf"):
        order = math.inf if order == "inf" else -math.inf
    if isinstance(order, bool) or not isinstance(order, (int, float)):
        raise OperandError(f"p={order!r}", rule=f"{op.definition.type}: p must be a number, fro, inf or -inf")
    return vector_norm(op.x, order, axes_of(op, 2), op.flag("keepdim", False))
