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


def test_an_error_about_a_file_of_weights_is_not_the_rules() -> None:
    _rule(ex.FileError("the file is missing", path="w.bin", rule="weights must be there", fix="add it"))
    with pytest.raises(ex.FileError, match=r"^w\.bin: the file is missing"):
        _plan()


@pytest.mark.spec("H-12")
@pytest.mark.parametrize(
    ("replacement", "message"),
    [
        (lambda node, x: x.sum(), "replaced 3 float64 by scalar float64"),
        (lambda node, x: x.astype("float32"), "replaced 3 float64 by 3 float32"),
        (lambda node, x: 0.0, r"replaced <cos .*> by 0\.0\n.*must be an expression"),
        (lambda node, x: np.sin(node), "by a value that reads it"),
        (lambda node, x: node, "by a value that reads it"),
    ],
)
def test_an_invalid_replacement_raises_an_error_with_the_rules_name(replacement: Any, message: str) -> None:
    class Odd(ex.Rule):
        """Replace the node by what the test gives."""

        numerics = "exact"
        roots = (Cos,)

        def match(self, node: ex.Expr, graph: Any) -> Any:
            return ex.Applied(replacement(node, *graph.operands(node)), "`{node}` is replaced.", {"node": node})

    with pytest.raises(ex.DeclarationError, match=f"rule Odd .*{message}"):
        _plan()


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
