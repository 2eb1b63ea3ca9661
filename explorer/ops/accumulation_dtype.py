"""Policies for accumulation along axes: the combining operation and the dtype of partial results."""

from __future__ import annotations

import functools
import typing
from collections.abc import Callable
from typing import Any

import numpy as np

from explorer.core import registry
from explorer.core.ir.expr import Expr, Operation, as_operands
from explorer.core.policy import Minor, Policies, Policy, PolicyClass
from explorer.core.types.custom_dtypes import accumulator_dtype, is_floating
from explorer.ops.base import cast

_Function = typing.TypeVar("_Function", bound=Callable[..., Expr])


def _floating(value: Any) -> np.dtype[Any] | None:
    if value is None:
        return None
    dtype: np.dtype[Any] = np.dtype(value)
    if dtype.kind != "f":
        raise TypeError(f"{dtype.name} is not floating")
    return dtype


class AccumulationPolicy(PolicyClass):
    """Policies that set how a reduction or matrix product combines elements.

    ``by`` is the operation that a sum uses to combine elements: "sum" or "product". ``dtype`` is the minimum dtype of
    partial results; the result is converted back to its own dtype. By default, partial results have the result's dtype
    or float32, whichever is wider, because sums in narrower dtypes could overflow.

    >>> x = ex.tensor([2.0, 3.0, 4.0])
    >>> float(ex.sum(x, policies=[ex.PAccumulateByProduct]))
    24.0
    """

    by = Minor("sum", among=("sum", "product"), scoped=False)
    dtype = Minor(None, kind=(np.dtype, type(None)), convert=_floating)


PAccumulateBySum, PAccumulateByProduct = AccumulationPolicy.by("sum"), AccumulationPolicy.by("product")


def PAccumulateIn(dtype: Any) -> Policy:  # noqa: N802  # named like the policies
    """Return the policy that accumulates in the floating dtype ``dtype``, or in the result's dtype if that is wider.

    >>> ex.PAccumulateIn("float64")
    AccumulationPolicy.dtype = float64
    """
    return AccumulationPolicy.dtype(dtype)


def rounded_once(function: _Function) -> _Function:
    """Decorate a function that is composed of operations; it then converts half-precision operands to float32 first.

    Only the final result is rounded to the operands' dtype. Otherwise each operation would round its result, and the
    squares of float16 numbers above 256 would overflow.
    """

    @functools.wraps(function)
    def call(*operands: Any, **options: Any) -> Expr:
        dtypes = {dtype for value in (*operands, *options.values()) if (dtype := _floating_dtype(value)) is not None}
        if all(accumulator_dtype(dtype) == dtype for dtype in dtypes):
            return function(*operands, **options)
        y = function(*map(_widened, operands), **{name: _widened(value) for name, value in options.items()})
        return cast(y, *dtypes) if len(dtypes) == 1 else y

    return typing.cast("_Function", call)


def _floating_dtype(value: Any) -> np.dtype[Any] | None:
    dtype = getattr(value, "dtype", None)
    return dtype if isinstance(dtype, np.dtype) and is_floating(dtype) else None


def _widened(value: Any) -> Any:
    dtype = _floating_dtype(value)
    if dtype is None or accumulator_dtype(dtype) == dtype:
        return value
    (operand,) = as_operands((value,))
    return cast(operand, accumulator_dtype(dtype))


def accumulating(operation: Operation, policies: Policies) -> Operation:
    """Return ``operation`` with the accumulation dtype set by ``policies``, or unchanged if they set none."""
    dtype = policies.select(AccumulationPolicy).dtype
    if dtype is None:
        return operation
    accumulated: Any = registry.operations.find(
        "accumulated_in"
    )  # looked up by name, because its module imports the operations that it wraps
    accumulating_operation: Operation = accumulated(operation, dtype)
    return accumulating_operation
