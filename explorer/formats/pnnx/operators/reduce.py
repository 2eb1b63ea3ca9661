"""Reductions over axes."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from explorer.core.errors import OperandError
from explorer.core.ir.expr import Expr
from explorer.formats.pnnx.operators.base.arguments import flag, integers, value
from explorer.formats.pnnx.operators.base.table import file_operator
from explorer.net.operators.context import OperatorContext
from explorer.ops.nn.softmax import logsumexp
from explorer.ops.reduction.reduce import all, any, max, mean, min, prod, sum
from explorer.ops.reduction.statistics import std, var, vector_norm


def axes_of(op: OperatorContext, position: int = 1) -> tuple[int, ...] | None:
    """The axes to reduce, None for all: they are absent, None, or no axis at all."""
    if value(op, position, "dim", None) is None:
        return None
    return integers(op, position, "dim") or None


def _enter_reduction(reduce: Callable[..., Expr], name: str) -> None:
    @file_operator(f"torch.{name}", f"Tensor.{name}", f"aten::{name}")
    def reduction(op: OperatorContext) -> Expr:
        op.only("dtype", None)
        return reduce(op.x, axes_of(op), flag(op, 2, "keepdim", False))

    reduction.__doc__ = reduce.__doc__


for _reduce, _name in (
    (mean, "mean"), (sum, "sum"), (max, "amax"), (min, "amin"), (prod, "prod"), (all, "all"), (any, "any"),
    (logsumexp, "logsumexp"),
):  # fmt: skip
    _enter_reduction(_reduce, _name)


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
