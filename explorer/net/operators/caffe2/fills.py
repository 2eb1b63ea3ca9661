"""Operator types that make values: constants."""

from __future__ import annotations

from typing import Annotated

from explorer.core.errors import OperandError
from explorer.core.ir.expr import Expr
from explorer.core.ir.tensor import Tensor
from explorer.net.operators.caffe2.table import net_operator
from explorer.ops.creation.constants import full


@net_operator()
def ConstantFill(
    like: Expr | None = None,
    *,
    shape: Annotated[tuple[int, ...] | None, "where no blob gives it"] = None,
    value: bool | int | float = 0.0,
    dtype: str = "float32",
) -> Expr:
    """One value everywhere, in the given shape or that of a blob."""
    size = shape if like is None else like.shape
    if size is None or (like is not None and shape is not None):
        raise OperandError(
            f"shape={shape} with {'no' if like is None else 'a'} blob to be like",
            rule="ConstantFill: the shape must be given once",
            fix="give shape=(…), or read a blob of that shape",
        )
    return full(size, value, dtype)


@net_operator()
def GivenTensorFill(*, values: Tensor) -> Expr:
    """The values given when the net was written; they are saved with it."""
    return values
