"""Gradients equal finite differences for every operation and every floating operand, in float64."""

from __future__ import annotations

import numpy as np
import pytest

import explorer as ex
from explorer.testing.laws.cases import Case, floating
from explorer.testing.laws.method_laws import (
    gradient_equals_differences,
    second_gradient_equals_differences,
    weights_of,
)
from tests.laws.cases import every_case, parameters

CASES = [case for case in every_case() if not case.operation.nondifferentiable and floating(case.example)]


@pytest.mark.spec("C-18", "M-O4", headline=True)
@pytest.mark.parametrize("case", parameters(CASES))
def test_gradient_equals_finite_difference(case: Case) -> None:
    """Check the gradient of every registered operation for every floating-point operand against central differences."""
    assert gradient_equals_differences(case)


@pytest.mark.parametrize("case", parameters(CASES))
def test_gradients_keep_the_operands_dtype(case: Case) -> None:
    """Gradients of float32 operands are float32 and close to the float64 ones."""
    weights = weights_of(case)
    places = floating(case.example)
    results = {}
    for dtype in ("float64", "float32"):
        operands = [ex.tensor(array) for array in case.arrays(dtype)]
        result = case.operation(*operands)
        seed = weights.astype(result.dtype)
        results[dtype] = ex.evaluate(ex.grad(result, [operands[place] for place in places], seed=seed))
    for exact, rough in zip(results["float64"], results["float32"], strict=True):
        assert rough.dtype == np.float32
        np.testing.assert_allclose(rough, exact, rtol=2e-4, atol=2e-5)


@pytest.mark.spec("U-9", headline=True)
@pytest.mark.parametrize("case", parameters(CASES))
def test_second_gradient_equals_finite_difference_of_the_first(case: Case) -> None:
    """Provide first and second gradients of every differentiable operation; both equal finite differences."""
    assert second_gradient_equals_differences(case)


@pytest.mark.parametrize("case", parameters([c for c in every_case() if c.operation.nondifferentiable]))
def test_a_nondifferentiable_operation_has_a_zero_gradient_or_raises_an_error(case: Case) -> None:
    """A step function has a zero gradient or an error that names the operation."""
    places = floating(case.example)
    reason = case.operation.nondifferentiable
    assert len(reason.split()) >= 4
    if not places or case.operation.type_of(case.types).dtype.kind != "f":
        return
    operands = [ex.tensor(array) for array in case.arrays("float64")]
    if case.operation.refuses_gradient:
        with pytest.raises(ex.OperandError, match=reason[:20]):
            ex.grad(case.operation(*operands).sum(), operands[places[0]])
        return
    for gradient in ex.evaluate(ex.grad(case.operation(*operands).sum(), [operands[place] for place in places])):
        assert not gradient.any()
