"""Every operation that declares device support gives the same result on device memory as on the CPU."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import explorer as ex
from explorer.core.ir.expr import runs_on
from explorer.core.ir.function import Parameter
from explorer.core.ir.tensor import Stored
from explorer.formats.onnx import operators as onnx_operators
from explorer.ops.nn.conv import Convolution
from explorer.testing.laws.cases import Case
from tests.laws.cases import every_case, operations, parameters
from tests.support.accelerator import accelerator

CASES = [
    case
    for case in every_case()
    if not isinstance(case.operation, (Parameter, Stored)) and not case.operation.changes_device
]
DEVICES = ["accelerator", pytest.param("cuda", marks=pytest.mark.gpu)]
BOUND = {
    "decision_trees", "lookup", "tokenize", "murmur_hash", "ngram_counts", "coupled_probabilities", "max_roi_pool",
    "non_max_suppression", "roi_align",
    "over_norm", "unique_indices",
}  # fmt: skip
"""operations whose kernels need NumPy arrays in addition to their operands, or another library"""


def test_operations_that_need_numpy_memory_are_listed() -> None:
    assert onnx_operators.TABLE  # a test may register its own
    assert {operation_class.name for operation_class in operations() if not operation_class.portable} == BOUND


@pytest.mark.spec("C-1", "C-18")
@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("case", parameters(CASES))
def test_an_operation_gives_its_cpu_result_on_a_device(case: Case, device: str) -> None:
    """Otherwise an error names the operation and the fix."""
    place = ex.device(device)
    arrays = case.arrays()
    if not runs_on(case.operation, place):
        with pytest.raises(ex.DeclarationError, match=f"{case.operation.name} on {device}"):
            _value(case, [ex.tensor(array, device=place) for array in arrays])
        assert case.operation.name in BOUND
        return
    expected = _value(case, [ex.tensor(array) for array in arrays])
    result = _value(case, [ex.tensor(array, device=place) for array in arrays])
    for one, other in zip(result, expected, strict=True):
        assert (one.shape, one.dtype) == (other.shape, other.dtype)
        if place is accelerator and not isinstance(case.operation, Convolution):
            np.testing.assert_array_equal(one, other)
        else:
            np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)


@pytest.mark.gpu
@pytest.mark.spec("C-1")
@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("case", parameters([case for case in CASES if case.operation.portable]))
def test_an_operation_in_lower_precision_gives_its_cpu_result_on_a_gpu(case: Case, dtype: str) -> None:
    """Otherwise both reject the dtype."""
    arrays = case.arrays(dtype)
    results = []
    for place in (ex.cpu, ex.device("cuda")):
        try:
            results.append(_value(case, [ex.tensor(array, device=place) for array in arrays]))
        except ex.OperandError as error:
            results.append(error.rule)
    expected, there = results
    assert isinstance(there, type(expected))
    if isinstance(expected, str):
        return
    tolerance = 1e-4 if dtype == "float32" else 2e-2
    for one, other in zip(there, expected, strict=True):
        assert (one.shape, one.dtype) == (other.shape, other.dtype)
        np.testing.assert_allclose(one, other, rtol=tolerance, atol=tolerance)


def _value(case: Case, operands: list[Any]) -> list[Any]:
    # Rules may replace an operation with one that runs there, but this test is about its own kernel.
    plan = ex.EvalPlan(without=("simplify", "algorithms"))
    result = case.operation(*operands)
    parts = [result[index] for index in range(len(result.type.parts))] if hasattr(result.type, "parts") else [result]
    handles = [plan.register(part) for part in parts]
    plan.eval()
    return [handle.data() for handle in handles]
