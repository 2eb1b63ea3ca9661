"""A user-defined rule and operation, declared in a cell, work with all features."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest

import explorer as ex
from explorer.ops.elementwise.arithmetic import Add, Multiply
from explorer.ops.elementwise.unary import Tanh
from explorer.plan import plan
from tests.support.execution import run
from tests.support.interpreter import reference

x = ex.tensor(np.linspace(-1, 1, 6).reshape(2, 3))


@pytest.fixture(autouse=True)
def _chain() -> Iterator[None]:
    """Restore the chain of rules after each test."""
    held = list(ex.Rule.rules)
    yield
    ex.Rule.rules[:] = held


class Cube(ex.Elementwise):
    """x³."""

    examples = (ex.Example(ex.real(2, 3)),)

    def kernel(self, out: Any, x: Any) -> Any:
        return x * x * x  # not the memory that was passed

    def gradient(self, g: Any, y: Any, x: Any) -> Any:
        return (g * 3.0 * x * x,)


cube = Cube()

MINE = """
import explorer as ex
from explorer.ops.elementwise.arithmetic import Add

class Mine(ex.Rule):
    "A rule in a file of its own."
    numerics = "exact"
    roots = (Add,)

    def match(self, node, graph): ...
"""


@pytest.mark.spec("P-9", "M-E5")
def test_a_user_defined_rule_is_applied_and_its_declined_decisions_are_kept() -> None:
    class ProductOfThree(ex.Rule):
        """(x·x)·x is x³."""

        numerics = "exact"
        roots = (Multiply,)

        def match(self, node: ex.Expr, graph: Any) -> Any:
            square, last = graph.operands(node)
            if not isinstance(square.operation, Multiply):
                return None
            first, second = graph.operands(square)
            if not (first is second is last):
                return ex.Declined("factors", "the factors of {square} are others", {"square": square})
            return ex.Applied(cube(last), "three equal factors of {x}", {"x": last}, "cube")

    planned = plan([x * x * x, x * 2.0 * x])
    by_code = {decision.code: decision for decision in planned.graph.decisions if decision.rule == "ProductOfThree"}
    assert set(by_code) == {"cube", "factors"}
    assert by_code["cube"].location.startswith("test_extension.py:")
    assert by_code["cube"].produced[0].operation is cube
    np.testing.assert_allclose(run(planned)[0], x.array**3, rtol=1e-15)
    assert not [decision for decision in plan([ex.tanh(x)]).graph.decisions if decision.rule == "ProductOfThree"]


def test_the_location_of_a_rule_is_its_file_in_any_folder(tmp_path: Path) -> None:
    """This includes a folder named explorer, such as a checkout; recordings contain no local folders."""
    path = tmp_path / "explorer" / "rules" / "mine.py"
    path.parent.mkdir(parents=True)
    path.write_text(MINE)
    specification = spec_from_file_location("mine", path)
    assert specification is not None
    assert specification.loader is not None
    module = module_from_spec(specification)
    with patch.dict(sys.modules, mine=module):
        specification.loader.exec_module(module)
        assert module.Mine().info.location == "mine.py:5"


@pytest.mark.spec("P-9")
def test_a_rule_is_unregistered_only_once() -> None:
    class Kept(ex.Rule):
        """tanh stays."""

        numerics = "exact"
        roots = (Tanh,)

        def match(self, node: ex.Expr, graph: Any) -> None:
            """Return no answer."""

    assert any(isinstance(rule, Kept) for rule in ex.Rule.rules)
    Kept.remove()
    assert not any(isinstance(rule, Kept) for rule in ex.Rule.rules)
    with pytest.raises(ex.StateError, match="removing Kept"):
        Kept.remove()


@pytest.mark.spec("P-9", "M-D4")
def test_a_rule_can_insert_an_expression_recorded_outside_the_graph() -> None:
    """For example, a rule may insert the tensor inside a user-defined data type.

    The recording contains it, and so does a cached program for the next such graph.
    """
    stored = ex.tensor(np.array([1.0, 10.0]))
    scales = (stored * 2.0).reshape(2, 1)

    class Scaled(ex.Rule):
        """Replace tanh."""

        numerics = "exact"
        roots = (Tanh,)

        def match(self, node: Any, graph: Any) -> Any:
            return ex.Applied(scales * graph.operand(node, 0), "scaled", {}, "scaled")

    for factor in (1.0, 2.0, 3.0):  # the plan comes from the cache the second and third time
        y = ex.tanh(ex.tensor(factor * x.array))
        plan = ex.EvalPlan()
        handle = plan.register(y)
        plan.eval()
        np.testing.assert_array_equal(handle.data(), factor * x.array * [[2.0], [20.0]])
        nodes = plan.recording.nodes
        (decision,) = [each for each in plan.recording.decisions if each.code == "scaled"]
        assert nodes.label[decision.produced[0]] == "multiply"
        np.testing.assert_array_equal(ex.evaluate(y), factor * x.array * [[2.0], [20.0]])


@pytest.mark.spec("P-9", "M-O4")
def test_a_user_defined_operation_is_fused_batched_and_differentiated() -> None:
    body = ex.function(lambda v, w: ex.tanh(cube(v) @ w))
    w = ex.tensor(np.random.default_rng(0).normal(size=(8, 8)))
    calls = [body(ex.tensor(np.random.default_rng(n).normal(size=8)), w) for n in range(400)]
    loss = ex.add_n(*[call.sum() for call in calls])
    roots = [ex.exp(cube(x * 2.0)) - 1.0, loss, ex.grad(loss, w)]
    planned = plan(roots)
    assert "batched" in [decision.code for decision in planned.graph.decisions]
    fused = [k for k in planned.schedule.kernels if len(k.nodes) > 1 and any(n.operation is cube for n in k.nodes)]
    assert [node.operation.name for node in fused[0].nodes] == ["multiply", "cube", "exp", "subtract"]
    for result, expected in zip(run(planned), reference(roots), strict=True):
        np.testing.assert_allclose(result, expected, rtol=1e-9, atol=1e-11)


@pytest.mark.spec("P-9")
def test_a_rule_declared_again_replaces_the_earlier_one_in_place() -> None:
    def declare(code: str) -> None:
        class Same(ex.Rule):
            """Nothing."""

            numerics = "exact"
            roots = (Tanh,)

            def match(self, node: ex.Expr, graph: Any) -> Any:
                return ex.Declined(code, code)

    before = len(ex.Rule.rules)
    declare("first")
    declare("second")
    assert len(ex.Rule.rules) == before + 1
    assert [decision.code for decision in plan([ex.tanh(x)]).graph.decisions if decision.rule == "Same"] == ["second"]


@pytest.mark.spec("P-9")
def test_a_rule_is_checked_when_it_is_declared() -> None:
    with pytest.raises(ex.DeclarationError, match="roots"):

        class WithoutRoots(ex.Rule):
            """Nothing."""

            def match(self, node: ex.Expr, graph: Any) -> Any:
                return None

    with pytest.raises(ex.DeclarationError, match="docstring"):

        class WithoutWords(ex.Rule):
            numerics = "exact"
            roots = (Tanh,)

            def match(self, node: ex.Expr, graph: Any) -> Any:
                return None


def answering(answer: Any) -> None:
    class Answering(ex.Rule):
        """Return the answer given by the test."""

        numerics = "exact"
        roots = (Tanh, Add)

        def match(self, node: ex.Expr, graph: Any) -> Any:
            return answer(node)


@pytest.mark.spec("P-9")
@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (lambda node: True, "Applied, Declined or None"),
        (lambda node: ex.Applied(ex.tanh(x[0]), "wrong"), "must have the node's type"),
        (lambda node: ex.Applied(node, "itself"), "must not read the node"),
        (lambda node: ex.Applied(node * 1.0, "a loop"), "must not read the node"),
        (lambda node: ex.Applied(node.operation(*node.operands), "for ever"), "return None for its own replacement"),
    ],
    ids=["no answer", "another type", "itself", "a loop", "for ever"],
)
def test_the_error_of_an_invalid_answer_contains_the_rule(answer: Any, message: str) -> None:
    answering(answer)
    with pytest.raises(ex.DeclarationError, match=message):
        plan([ex.tanh(x)])


@pytest.mark.spec("P-9")
def test_errors_about_invalid_roots_contain_the_given_value() -> None:
    """For an operation, a name, or a class without a tuple, the fix is a class in a tuple."""
    subtract: Any = ex.operation("subtract")
    for roots, given in (
        ((ex.subtract,), "subtract()"),
        (("subtract",), "'subtract'"),
        (subtract, "Subtract"),
        ((), "without"),
    ):
        with pytest.raises(ex.DeclarationError) as error:
            type("Wrong", (ex.Rule,), {"__doc__": "Wrong.", "roots": roots, "match": lambda self, node, graph: None})
        assert given in error.value.given
        assert ("without roots" in error.value.given) is (not roots)
        if roots:
            (fixed,) = eval(error.value.fix.removeprefix("roots = "), {"ex": ex, "Subtract": subtract})
            assert fixed is subtract


@pytest.mark.spec("M-O4")
def test_the_error_of_an_operation_class_called_with_operands_shows_the_right_call() -> None:
    """Attributes belong to the class and operands to the operation; the fix contains the attributes."""
    x = ex.tensor(np.ones((2, 3)))
    for name, given, fix in (("subtract", (x, x), "Subtract()(x, …)"), ("sum", (x,), "Sum(axes=…, keepdims=…)(x, …)")):
        with pytest.raises(ex.DeclarationError) as error:
            ex.operation(name)(*given)
        assert error.value.fix == fix
