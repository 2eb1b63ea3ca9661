"""How elements are combined along axes: by which operation, and in which dtype the partial results are kept."""

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
    """How a reduction or a matrix product combines elements.

    ``by``: what a sum combines them by. ``dtype``: in which dtype, at least, partial results are kept; the result is
    converted to its own. None is the result's own, or float32 where halves would overflow.
    """

    by = Minor("sum", among=("sum", "product"), scoped=False)
    dtype = Minor(None, kind=(np.dtype, type(None)), convert=_floating)


PAccumulateBySum, PAccumulateByProduct = AccumulationPolicy.by("sum"), AccumulationPolicy.by("product")


def PAccumulateIn(dtype: Any) -> Policy:  # noqa: N802  # named as the policies are
    """Accumulate in this floating dtype, or in the result's where that is wider."""
    return AccumulationPolicy.dtype(dtype)


def accumulating(operation: Operation, policies: Policies) -> Operation:
    """An operation that accumulates in the dtype which policies ask for; itself where they ask for none."""
    dtype = policies.select(AccumulationPolicy).dtype
    if dtype is None:
        return operation
    accumulated: Any = registry.operation("accumulated_in")  # knows the operations that are accumulated
    made: Operation = accumulated(operation, dtype)
    return made
