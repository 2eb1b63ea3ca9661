"""Values, gradients and second gradients of stable compositions, in every written form, against mpmath."""

from __future__ import annotations

import functools
from itertools import product
from typing import Any

import numpy as np
import pytest

import explorer as ex
from tests.plan.rewrite.rules.forms import FORMS, INPUTS, operand
from tests.support.exact import exact
from tests.support.representatives import representatives

TOLERANCES = {"float64": 1e-12, "float32": 1e-5}
WEIGHTS = np.array([0.75, -1.125, 1.625, 0.375, -0.25, 0.875])


def orders(form: str, numbers: str, dtype: Any) -> tuple[ex.Expr, ex.Expr, ex.Expr]:
    """Return a form's value, its gradient for a seed, and the gradient of the gradient's weighted sum."""
    values = operand(form, numbers, dtype)
    x = ex.tensor(values)
    y = FORMS[form](x)
    seed = np.resize(WEIGHTS + 0.125, y.shape).astype(dtype)
    first = ex.grad(y, x, seed=ex.tensor(seed))
    weights = ex.tensor(WEIGHTS[: values.size].reshape(values.shape).astype(dtype))
    return y, first, ex.grad((first * weights).sum(), x)


@functools.cache
def expected(form: str, numbers: str) -> list[Any]:
    """Return the exact value of the float64 program as written, with enough digits for the range of its powers."""
    largest = max(map(abs, INPUTS[numbers]))
    return exact(orders(form, numbers, "float64"), int(1.1 * largest) + 60)


@pytest.mark.spec("U-5", "P-12", "M-E7", headline=True)
@pytest.mark.parametrize(
    ("form", "dtype"),
    representatives(
        product(FORMS, TOLERANCES), [*product(FORMS, ["float64"]), *product(list(FORMS)[::4], ["float32"])]
    ),
)
def test_values_and_two_gradients_are_finite_and_correct(form: str, dtype: str) -> None:
    """Differentiate the stabilised program: first and second gradients of 99 formulas are correct at ±1e4."""
    for numbers, row in INPUTS.items():
        tolerance = TOLERANCES[dtype]
        for order, (root, value) in enumerate(zip(orders(form, numbers, dtype), expected(form, numbers), strict=True)):
            result = ex.evaluate(root)
            assert np.isfinite(result).all(), f"{numbers}, gradient of order {order}: {result}"
            wanted = value.astype(float)
            scale = max(1.0, *map(abs, row)) if "x" in form.split() or form == "weighted mean" else 1.0
            np.testing.assert_allclose(
                result, wanted, rtol=tolerance, atol=tolerance * scale, err_msg=f"{numbers}, order {order}"
            )


@pytest.mark.spec("P-12")
@pytest.mark.parametrize("form", sorted(FORMS.keys() - {"focal loss of softmax"}))  # multiplies logarithms of 1e4
def test_values_and_two_gradients_of_half_precision_are_finite(form: str) -> None:
    """In float16, results are finite wherever the exact program has a value in float16's range."""
    largest = float(np.finfo(np.float16).max)
    for numbers in INPUTS:
        for order, (root, value) in enumerate(
            zip(orders(form, numbers, "float16"), expected(form, numbers), strict=True)
        ):
            result, exact_value = ex.evaluate(root), np.abs(value.astype(float))
            assert np.isfinite(result[exact_value < largest]).all(), f"{numbers}, gradient of order {order}: {result}"
