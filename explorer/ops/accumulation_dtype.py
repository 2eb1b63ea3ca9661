"""Accumulation of elements along axes: the combining operation, and the dtype of partial results."""

from __future__ import annotations

from typing import Any

import numpy as np

from explorer.core import registry
from explorer.core.ir.operation import Operation
from explorer.core.policy import Minor, Policies, Policy, PolicyClass


def _floating(value: Any) -> np.dtype[Any] | None:
    if value is None:
        return None
    dtype: np.dtype[Any] = np.dtype(value)
    if dtype.kind != "f":
        raise TypeError(f"{dtype.name} is not floating")
    return dtype


class AccumulationPolicy(PolicyClass):
    """Policies of how a reduction or a matrix product combines elements.

    ``by``: the operation that replaces a sum's addition. ``dtype``: the least dtype of partial results; the result is
    converted to its own. None is the result's dtype, or float32 for halves, which would overflow.

    >>> x = ex.tensor([2.0, 3.0, 4.0])
    >>> float(ex.sum(x, policies=[ex.PAccumulateByProduct]))
    24.0
    """

    by = Minor("sum", among=("sum", "product"), scoped=False)
    dtype = Minor(None, kind=(np.dtype, type(None)), convert=_floating)


PAccumulateBySum, PAccumulateByProduct = AccumulationPolicy.by("sum"), AccumulationPolicy.by("product")


def PAccumulateIn(dtype: Any) -> Policy:  # noqa: N802  # named as the policies are
    """Return the policy to accumulate in this floating dtype, or in the result's if that is wider.

    >>> ex.PAccumulateIn("float64")
    AccumulationPolicy.dtype = float64
    """
    return AccumulationPolicy.dtype(dtype)


def accumulating(operation: Operation, policies: Policies) -> Operation:
    """Return an operation that accumulates in the dtype of the policies; itself if they set none."""
    dtype = policies.select(AccumulationPolicy).dtype
    if dtype is None:
        return operation
    accumulated: Any = registry.operation("accumulated_in")  # by name: its module imports the operations that it wraps
    accumulating_operation: Operation = accumulated(operation, dtype)
    return accumulating_operation
