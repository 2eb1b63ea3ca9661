"""Errors about rules with an invalid declaration or answer contain the rule's name; rules can be unregistered."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import explorer as ex
from explorer.ops.elementwise.unary import Cos
from tests.support.refusals import refused


@pytest.fixture(autouse=True)
def chain() -> Iterator[None]:
    """Restore the chain of rules after each test."""
    held = list(ex.Rule.rules)
    yield
    ex.Rule.rules[:] = held


def _rule(answer: Any) -> type[ex.Rule]:
    class Odd(ex.Rule):
        """Return the answer given by the test."""

        numerics = "exact"
        roots = (Cos,)

        def match(self, node: ex.Expr, graph: Any) -> Any:
            if isinstance(answer, Exception):
                raise answer
            return answer

    return Odd


def _plan() -> ex.EvalPlan:
    plan = ex.EvalPlan()
    plan.register(np.cos(ex.tensor(np.ones(3))))
    return plan.prepare()


@pytest.mark.parametrize("field", ["{nothing}", "{nothing:place}"])
def test_a_reason_without_its_fact_raises_an_error(field: str) -> None:
    _rule(ex.Declined("odd", f"because {field}"))
    with pytest.raises(
        ex.DeclarationError, match=r"Odd \(test_rules_refused.py:\d+\) .*because .*\n.*missing: nothing"
    ):
        _plan()


def test_an_exception_in_match_is_reported_with_the_rule_and_its_location() -> None:
    _rule(KeyError("k"))
    with pytest.raises(ex.DeclarationError, match=r"rule Odd \(test_rules_refused\.py:\d+\) failed at <cos") as caught:
        _plan()
    assert isinstance(caught.value.__cause__, KeyError)


def test_a_rule_needs_match_unless_it_is_abstract() -> None:
    with pytest.raises(ex.DeclarationError, match=r"without match\(\)"):
        type("Silent", (ex.Rule,), {"__doc__": "Says nothing.", "roots": (Cos,)})

    class Base(ex.Rule, abstract=True):
        """An abstract base of rules."""

    assert not any(isinstance(rule, Base) for rule in ex.Rule.rules)


def test_a_rule_can_be_unregistered() -> None:
    odd = _rule(ex.Declined("odd", "because {why}", {"why": "of the test"}))
    assert "because of the test" in _plan().explain()
    odd.remove()
    assert "because of the test" not in _plan().explain()
    with refused(ex.StateError, "chain"):
        odd.remove()
