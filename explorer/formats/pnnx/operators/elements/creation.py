"""Operators that create constant tensors and convert dtypes.

A file can request constants of any size, so their memory is claimed from the budget before they are created.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from explorer.core.ir.expr import Expr, as_operands
from explorer.core.memory_budget import claim_constant
from explorer.core.types.tensor_type import as_shape
from explorer.formats.common.operator_checks import range_length
from explorer.formats.pnnx.operators.base.arguments import Number, Placement, Real, as_dtype, in_dtype
from explorer.formats.pnnx.operators.base.table import file_operator
from explorer.net.operators.signature import Ints, Unused
from explorer.ops.base import broadcast_to, cast
from explorer.ops.creation.constants import full


def _default(number: Any) -> str:
    """Return the dtype that torch gives to a tensor created from a Python number."""
    return "bool" if isinstance(number, bool) else "int64" if isinstance(number, int) else "float32"


@file_operator("torch.full")
def full_(size: Ints, fill_value: Number, *, dtype: str | None = None, placement: Placement) -> Expr:
    """Return a tensor of shape ``size`` filled with ``fill_value``."""
    return full(size, fill_value, as_dtype(dtype, _default(fill_value)))


def _register_constant(name: str, number: int) -> None:
    @file_operator(f"torch.{name}")
    def constant(size: Ints, *, dtype: str | None = None, placement: Placement) -> Expr:
        return full(size, number, as_dtype(dtype, "float32"))

    @file_operator(f"torch.{name}_like")
    def like(input: Expr, *, dtype: str | None = None, placement: Placement) -> Expr:
        return full(input.shape, number, as_dtype(dtype, input.dtype))

    @file_operator(f"Tensor.new_{name}")
    def new(input: Expr, size: Ints, *, dtype: str | None = None, placement: Placement) -> Expr:
        return full(size, number, as_dtype(dtype, input.dtype))

    functions: tuple[Callable[..., Expr], ...] = (constant, like, new)
    for function in functions:
        function.__doc__ = f"Return a tensor filled with {number}."


_register_constant("zeros", 0)
_register_constant("ones", 1)


@file_operator("torch.full_like")
def full_like(input: Expr, fill_value: Number, *, dtype: str | None = None, placement: Placement) -> Expr:
    """Return a tensor with the shape of ``input``, filled with ``fill_value``."""
    return full(input.shape, fill_value, as_dtype(dtype, input.dtype))


@file_operator("Tensor.new_full")
def new_full(input: Expr, size: Ints, fill_value: Number, *, dtype: str | None = None, placement: Placement) -> Expr:
    """Return a tensor of shape ``size`` with the dtype of ``input``, filled with ``fill_value``."""
    return full(size, fill_value, as_dtype(dtype, input.dtype))


@file_operator("Tensor.fill", "aten::fill")
def fill(input: Expr, value: Expr | Number) -> Expr:
    """Return a tensor with the shape and dtype of ``input``, filled with ``value``."""
    if isinstance(value, Expr):
        return broadcast_to(cast(value, input.dtype), input.shape)
    return full(input.shape, value, input.dtype)


@file_operator("torch.arange")
def arange(*, start: Real = 0, end: Real, step: Real = 1, dtype: str | None = None, placement: Placement) -> Expr:
    """Return the numbers from ``start`` (inclusive) to ``end`` (exclusive) in steps of ``step``."""
    count = range_length(start, end, step, "torch.arange")
    claim_constant("torch.arange", count)
    if not count:  # NumPy raises an error if end is too far below start
        start = end = 0
    integral = all(isinstance(number, int) for number in (start, end, step))
    return as_operands(
        (np.arange(start, end, step).astype(as_dtype(dtype, "int64" if integral else "float32"), copy=False),)
    )[0]


@file_operator("torch.linspace")
def linspace(*, start: Real, end: Real, steps: int, dtype: str | None = None, placement: Placement) -> Expr:
    """Return ``steps`` evenly spaced numbers from ``start`` to ``end``, inclusive."""
    (count,) = as_shape(steps, "linspace")
    claim_constant("torch.linspace", count)
    return as_operands((np.linspace(start, end, count).astype(as_dtype(dtype, "float32")),))[0]


@file_operator("Tensor.to", "Tensor.type")
def to(input: Expr, *, dtype: str | None = None, placement: Placement, copy: Unused, non_blocking: Unused) -> Expr:
    """Cast to another dtype; ``copy`` and ``non_blocking`` have no effect, since tensors are never modified."""
    return in_dtype(input, dtype)


@file_operator("Tensor.type_as")
def type_as(input: Expr, other: Expr) -> Expr:
    """Cast ``input`` to the dtype of ``other``."""
    return cast(input, other.dtype)
