"""A kernel bound to fixed arrays gives the same bits as the unbound kernel."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from explorer.core.ir.expr import Operation
from explorer.testing.laws.cases import Case
from tests.laws.cases import every_case, parameters

BOUND = [
    case
    for case in every_case()
    if type(case.operation).bind_kernel is not Operation.bind_kernel and not case.operation.view
]
"""operations that bind their kernel themselves"""
DTYPES = ("float32", "float64")
SPECIAL = (np.nan, np.inf, -np.inf, 0.0, -0.0)


def filled(case: Case, dtype: str, seed: int, is_special: bool) -> list[Any]:
    """Return the operands of a case with some special values among their elements."""
    arrays = case.arrays(dtype, seed)
    for array in arrays if is_special else ():
        if array.dtype.kind == "f":
            places = np.random.default_rng(seed).integers(0, max(1, array.size), len(SPECIAL))
            for place, number in zip(places[: array.size], SPECIAL, strict=False):
                array.reshape(-1)[place] = number
    return arrays


def same_bits(a: Any, b: Any) -> bool:
    """Return whether two arrays have the same numbers and signs of zeros; any two NaNs are equal."""
    if a.dtype.kind not in "fc":
        return (a.shape, a.dtype, a.tobytes()) == (b.shape, b.dtype, b.tobytes())
    unlike = (a.view(f"V{a.itemsize}") != b.view(f"V{b.itemsize}")) & ~(np.isnan(a) & np.isnan(b))
    return (a.shape, a.dtype) == (b.shape, b.dtype) and not unlike.any()


def test_some_operations_have_bound_kernels() -> None:
    assert {"relu", "where", "one_hot", "log_softmax", "sum"} <= {case.operation.name for case in BOUND}


@pytest.mark.parametrize("is_special", [False, True], ids=["numbers", "special"])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("case", parameters(BOUND))
@np.errstate(all="ignore")
def test_a_bound_kernel_gives_the_bits_of_the_unbound_kernel(case: Case, dtype: str, is_special: bool) -> None:
    """Run it twice with other elements in the same arrays and garbage in the result's memory."""
    operands = filled(case, dtype, 0, is_special)
    shape = case.operation.compute(*operands)
    out = np.ndarray(shape.shape, shape.dtype, buffer=bytearray(b"\xa5" * shape.nbytes))
    bound = case.operation.bind_kernel(out, *operands)
    for seed in (0, 1):
        for operand, other in zip(operands, filled(case, dtype, seed, is_special), strict=True):
            np.copyto(operand, other)
        value = bound()
        if value is not out:
            np.copyto(out, value)
        expected = case.operation.kernel(np.empty_like(out), *operands)
        assert same_bits(out, np.asarray(expected))
