"""Powers that cancel: declined decisions, special values, halves, and the graphs in which the rules are asked at
all."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import explorer as ex
from explorer.ops.elementwise.arithmetic import Multiply
from explorer.plan.graph.plan_graph import PlanGraph
from explorer.plan.passes.simplify import applicable_rules
from tests.plan.rewrite.rules.asking import applied, close, declined, simplified
from tests.plan.rewrite.rules.forms import FORMS, VECTORS, operand
from tests.support.exact import exact

x = ex.tensor(np.array([[0.5, -1.0, 2.0], [1.0, 0.0, -0.25]]))
WEIGHTS = ex.tensor(np.array([1.0, 0.0, -0.5]))


@pytest.mark.spec("P-12", "P-15")
@pytest.mark.parametrize(
    ("root", "code"),
    [
        (ex.log(ex.exp(x) @ WEIGHTS), "weights"),
        (ex.log((ex.exp(x) * WEIGHTS).sum(axis=1)), "weights"),
        (ex.log(ex.exp(x) - ex.exp(2 * x) + ex.exp(x * WEIGHTS)), "weights"),
        (ex.log(1 - ex.softmax(x)), "difference"),
    ],
)
def test_powers_of_unknown_weights_and_differences_are_refused(root: ex.Expr, code: str) -> None:
    """A plan reads no tensor: where weights may be 0 or negative, another scale could lose what is there as written."""
    assert ("LogOfPowers", code) in declined(simplified(root))
    assert close(root)


@pytest.mark.spec("P-1", "P-12")
@pytest.mark.parametrize("form", FORMS)
def test_no_form_hides_what_is_not_a_number(form: str) -> None:
    """Where an operand is NaN, so is each value that is computed from it, and no other one is."""
    values = operand(form, "moderate", "float64")
    values.reshape(-1)[1] = np.nan
    y = FORMS[form](ex.tensor(values))
    result = np.isnan(ex.evaluate(y))
    np.testing.assert_array_equal(result, np.isnan(ex.evaluate(y, without=["simplify"])))
    assert result.any()


@pytest.mark.spec("P-12")
@pytest.mark.parametrize("form", VECTORS)
def test_halves_are_as_right_as_their_digits_allow(form: str) -> None:
    values = np.array([30.0, -30.0, 0.5])
    for root, wanted in zip(
        [FORMS[form](ex.tensor(values.astype(np.float16)))], exact([FORMS[form](ex.tensor(values))], 100), strict=True
    ):
        result = ex.evaluate(root)
        assert result.dtype == np.float16
        np.testing.assert_allclose(result.astype(float), wanted.astype(float), rtol=4e-3, atol=4e-3)


@pytest.mark.spec("P-1")
def test_graphs_without_powers_ask_no_link_about_them() -> None:
    def asked(root: ex.Expr) -> set[str]:
        return {rule.name for _, rule in applicable_rules(PlanGraph([root]))[Multiply]}

    assert "PowersThatCancel" not in asked(x * x + x)
    assert "PowersThatCancel" in asked(ex.exp(x) * x)


@pytest.mark.spec("P-12")
@pytest.mark.parametrize(
    ("make", "code"),
    [
        (lambda x: ex.exp(x) / (ex.exp(x) + ex.exp(2 * x)), "powers_cancelled"),
        (lambda x: ex.log(ex.exp(x).mean(axis=1)), "log_of_powers"),
        (lambda x: (ex.exp(x) - ex.exp(-x)) / (ex.exp(x) + ex.exp(-x)), "powers_cancelled"),
    ],
)
def test_forms_are_told_and_overflow_without_the_pass(make: Callable[[Any], Any], code: str) -> None:
    assert code in applied(simplified(make(x)))
    large = make(x * 1e4)
    assert np.isfinite(ex.evaluate(large)).all()
    assert not np.isfinite(ex.evaluate(large, without=["simplify"])).all()


@pytest.mark.spec("P-12", "P-13")
@pytest.mark.parametrize(
    ("step", "base"),
    [
        (lambda z: z / 1.5 + 0.5, ex.exp),
        (lambda z: z * WEIGHTS, ex.exp),
        (lambda z: z / WEIGHTS, ex.exp),
        (lambda z: 1 / (1 + z), ex.exp),
        (lambda z: z * ex.exp(x), ex.exp),
        (lambda z: -ex.softplus(z), ex.exp),
        (lambda z: ex.log_softmax(z), lambda z: z),
    ],
)
def test_a_power_is_followed_through_so_many_operations_and_no_more(
    step: Callable[[Any], Any], base: Callable[[Any], Any]
) -> None:
    """A chain of thousands is planned without recursion, and in the time of its length."""
    z = base(x)
    for _ in range(3000):
        z = step(z)
    graph = simplified(z / ex.exp(x), ex.exp(z) / ex.exp(x))
    assert len(graph.live) > 1000


@pytest.mark.spec("P-12")
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize(
    "form",
    [
        lambda x, y: ex.exp(x) - ex.exp(x),
        lambda x, y: (ex.exp(x) * ex.exp(y)) - ex.exp(y) * ex.exp(x),
        lambda x, y: 2 * ex.exp(x) - ex.exp(x) - ex.exp(x),
        lambda x, y: ex.cosh(x) - ex.cosh(x),
    ],
)
def test_a_power_taken_from_itself_is_no_number_only_where_it_is_infinite(form: Callable[[Any, Any], Any]) -> None:
    """A masked exponent, −∞, gives 0 − 0; ∞ − ∞ and NaN stay NaN."""
    x = ex.tensor(np.array([np.nan, np.inf, -np.inf, 3.0, 800.0]))
    y = ex.tensor(np.array([1.0, 1.0, 1.0, -2.0, 0.5]))
    planned, written = ex.evaluate(form(x, y)), ex.evaluate(form(x, y), without="simplify")
    np.testing.assert_array_equal(np.isnan(planned[:4]), np.isnan(written[:4]))
    assert planned[4] == 0
