"""Declared properties of operations are enough for rules, so user-defined operations need no additional rule."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import explorer as ex
from explorer.core.ir.operation_examples import Example, real
from explorer.core.registry import function
from explorer.ops.base import Ufunc
from tests.plan.rewrite.rules.asking import applied, close, decision, declined, simplified, values

x = values((2, 3), low=-2.0)
images = values((1, 2, 6, 6), low=-2.0)


class Cube(Ufunc):
    """The cube root, as a notebook could declare it."""

    name = "cube_root_of_test"
    ufunc, monotone, defined_everywhere, examples = np.cbrt, True, True, (Example(real(2, 3)),)
    nondifferentiable = "the test takes no gradient"


@pytest.mark.spec("P-1")
@pytest.mark.parametrize(
    "root",
    [
        ex.sign(ex.sign(x)),
        function("floor")(function("floor")(x)),
        ex.clip(ex.clip(x, -1.0, 1.0), -1.0, 1.0),
        ex.maximum(x, x),
        ex.minimum(ex.sin(x), ex.sin(x)),
    ],
    ids=repr,
)
def test_an_idempotent_operation_is_applied_once(root: ex.Expr) -> None:
    """f(f(x)) and f(x, x) become f(x) and x for operations that declare it: sign, rounding, clip, maximum."""
    if root.operation.name == "minimum":
        assert applied(simplified(root)) == []  # operands are identical only after deduplication
    else:
        assert applied(simplified(root)) == ["idempotent"]
    assert close(root)


@pytest.mark.spec("P-1")
def test_different_bounds_or_operands_are_not_idempotent() -> None:
    """Clip with other bounds, a maximum of two values, and a tanh of a tanh stay."""
    for root in (ex.clip(ex.clip(x, -1.0, 1.0), 0.0, 2.0), ex.maximum(x, x + 1), ex.tanh(ex.tanh(x))):
        assert "idempotent" not in applied(simplified(root))
        assert close(root)


def pooled(y: ex.Expr) -> ex.Expr:
    return ex.max_pool2d(y, 2, strides=2)


@pytest.mark.spec("P-1")
@pytest.mark.parametrize("f", [ex.relu, ex.tanh, ex.sigmoid, ex.exp, Cube(), lambda y: ex.clip(y, -1.0, 0.5)])
@pytest.mark.parametrize(
    "extreme",
    [pooled, lambda y: y.max(axis=1), lambda y: y.min(axis=(0, 2), keepdims=True)],
    ids=["pool", "max", "min"],
)
def test_the_maximum_is_taken_before_a_monotone_function(f: Any, extreme: Any) -> None:
    """Max-pooling, maximum and minimum move before relu, tanh or a user's monotone operation, leaving fewer
    elements."""
    root = extreme(f(images))
    graph = simplified(root)
    assert "extreme_before_monotone" in applied(graph)
    assert graph.roots[0].operation is f(images).operation
    assert close(root)


@pytest.mark.spec("P-1")
def test_padding_and_nan_are_unaffected_by_the_order() -> None:
    """Padding is never the maximum and NaN always is, in both orders."""
    array = np.array(images.array)
    array[0, 0, 1, 1] = np.nan
    array[0, 1] = -3.0
    root = ex.max_pool2d(ex.relu(ex.tensor(array)), 3, strides=2, padding=1)
    assert applied(simplified(root)) == ["extreme_before_monotone"]
    assert close(root)
    assert np.isnan(ex.evaluate(root)).any()


@pytest.mark.spec("P-1")
def test_gradients_through_pooling_are_unchanged() -> None:
    """The gradient through relu and max-pooling, and the loss, equal those of the program as written."""
    loss = ex.square(pooled(ex.relu(images))).sum()
    for root in (loss, ex.grad(loss, images)):
        np.testing.assert_allclose(ex.evaluate(root), ex.evaluate(root, without="simplify"), rtol=1e-12)


@pytest.mark.spec("P-1", "P-15")
def test_each_declined_decision_has_its_code() -> None:
    """A function with a smaller domain, and a value with another reader, are not moved."""
    logs = values((2, 3), low=0.5)
    for f in (ex.log, ex.sqrt):
        root = f(logs).max(axis=0)
        assert declined(simplified(root)) == [("ExtremeBeforeMonotone", "domain")]
        assert close(root)
    ordered = ex.exp(ex.tensor(np.array([1.9 - 1.3j, 0.7 - 0.8j]))).max(axis=0)
    assert declined(simplified(ordered)) == [("ExtremeBeforeMonotone", "dtype")]
    assert close(ordered)
    y = ex.relu(images)
    graph = simplified(pooled(y), y)
    assert decision(graph, "other_consumers").facts["consumers"] == 2
    assert declined(simplified(ex.sin(images).max(axis=1))) == []
    assert applied(simplified(ex.relu(images).max(axis=()))) == ["nothing_to_do"]
