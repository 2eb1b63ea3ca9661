"""``ex.check``: violated laws of user-defined classes are reported with the operands and both values."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

import explorer as ex
from explorer.core import registry
from explorer.testing import LawError, LawReport
from tests.support.representatives import representatives


@contextmanager
def declared(declaration: type[ex.Operation]) -> Iterator[type[ex.Operation]]:
    """An operation that is registered only inside the block."""
    try:
        yield declaration
    finally:
        registry.operations.pop(declaration.name)
        registry.functions.pop(declaration.name, None)


def cubed(**facets: Any) -> type[ex.Operation]:
    """Return an operation x³ with some facets replaced."""
    own = {
        "__doc__": "x³.",
        "__module__": __name__,
        "examples": (ex.Example(ex.real(2, 3, low=-2.0, high=2.0)),),
        "kernel": lambda self, out, x: np.power(x, 3, out=out),
        "gradient": lambda self, g, y, x: (g * 3 * x * x,),
    }
    return type("Cubed", (ex.Elementwise,), {**own, **facets})


def broken(report: LawReport) -> dict[str, str]:
    return {result.law: result.text for result in report.broken}


def test_a_correct_operation_passes_every_law() -> None:
    with declared(cubed(monotone=True)) as operation:
        report = ex.check(operation)
    assert report
    assert report.ok
    report.assert_ok()
    assert {"gradient", "batched = loop", "result type = declared type", "monotone"} <= {r.law for r in report.results}
    assert all(int(result.text.split()[0]) > 0 for result in report.results)


@pytest.mark.spec("M-O4", "C-18")
def test_a_wrong_gradient_is_reported_with_the_operand_and_both_values() -> None:
    """For a gradient of 3x for x³, the report has an x, the declared value and the finite difference."""
    with declared(cubed(gradient=lambda self, g, y, x: (g * 3 * x,))) as operation:
        report = ex.check(operation)
        (x,) = operation.examples[0].draw()
    assert not report
    x = x.flat[np.argmax(abs(3 * x - 3 * x * x))]
    assert broken(report) == {"gradient": f"at x = {x:.4g}: declared {3 * x:.4g}, by differences {3 * x * x:.4g}"}
    assert f"gradient ✗ at x = {x:.4g}" in str(report)
    with pytest.raises(LawError, match="Cubed breaks 1 of its laws"):
        report.assert_ok()


@pytest.mark.parametrize(
    ("facets", "law", "text"),
    [
        ({"is_even": True}, "even", "f(−x) = -27, f(x) = 27"),
        ({"kernel": lambda self, out, x: np.negative(x, out=out), "monotone": True}, "monotone", "is less"),
        ({"range": "nonnegative"}, "range", "which is not ≥ 0"),
        ({"linear": True}, "linear", "2f(x) − 3f(x′) ="),
        ({"idempotent": True}, "idempotent", "f(f(x)) ="),
        ({"involution": True}, "involution", "f(f(x)) ="),
        ({"result_dtype": lambda self, *_: np.dtype("int64")}, "result type = declared type", "UFuncTypeError"),
        ({"batch": lambda self, size, batched, x: x}, "batched = loop", "of member"),
        ({"kernel": lambda self, out, x: np.power(x, 3)}, "out is written whole", "returned another array"),
        ({"kernel": lambda self, out, x: np.copyto(x, 0.0) or np.power(x, 3, out=out)}, "operands are left alone", "0"),
        ({"elementwise": True, "kernel": lambda self, out, x: np.cumsum(x, 0, out=out)}, "elementwise", "before"),
        ({"defined_everywhere": True, "kernel": lambda s, out, x: np.sqrt(x, out=out)}, "defined everywhere", "nan"),
        ({"gradient": lambda self, g, y, x: (ex.sum(g * y),)}, "gradient", "shape"),
    ],
)
def test_each_wrong_declaration_violates_its_law(facets: dict[str, Any], law: str, text: str) -> None:
    with declared(cubed(**facets)) as operation:
        report = ex.check(operation)
    assert text in broken(report)[law]


@pytest.mark.parametrize(
    ("facets", "law", "kernel"),
    [
        ({"commutative": True}, "commutative", np.subtract),
        ({"associative": True}, "associative", np.subtract),
    ],
)
def test_laws_of_two_operands(facets: dict[str, Any], law: str, kernel: np.ufunc) -> None:
    own = {
        "examples": (ex.Example(ex.real(2, 3), ex.real(2, 3)),),
        "kernel": lambda self, out, a, b: kernel(a, b, out=out),
        "gradient": lambda self, g, y, a, b: (g, -g),
    }
    with declared(cubed(**own)) as right, np.errstate(all="raise"):
        assert ex.check(right)
    with declared(cubed(**own, **facets)) as wrong:
        assert [*broken(ex.check(wrong))] == [law]


class Differently(ex.Operation):
    """x · factor, only for vectors of five elements."""

    factor: float
    nondifferentiable = unbatchable = "left out of this test"
    examples = (ex.Example(ex.real(5), factor=2.0),)

    def infer(self, x: ex.TensorType) -> ex.TensorType:
        if x.shape != (5,):
            raise self.refuse((x,), "five elements")
        return x

    def kernel(self, out: Any, x: Any) -> Any:
        return np.multiply(x, self.factor, out=out)

    def flops(self, result: Any, x: Any) -> int:
        return 5


def test_missing_declarations_are_reported() -> None:
    """A law that does not apply is not counted as passed."""
    report = ex.check(Differently)
    assert report
    assert "gradient · not declared: left out of this test" in str(report)
    assert str(report).startswith("Differently: 3 of 3 laws hold")
    assert ex.check(Differently(3.0))


def test_other_attributes_use_operands_of_an_example_or_random_ones() -> None:
    assert ex.check(ex.operation("transpose")((1, 0)))
    with pytest.raises(ex.OperandError, match="examples = "):
        ex.check(ex.operation("transpose")((4, 3, 2, 1, 0, 5, 6)))


@pytest.mark.parametrize("what", [ex.tanh, ex.softmax, ex.operation("matmul"), ex.add])
def test_operations_are_passed_as_they_are_called(what: Any) -> None:
    assert ex.check(what)


@pytest.mark.parametrize("what", ["tanh", 3, ex.EvalPlan, ex.grad, ex.tensor([1.0])])
def test_other_objects_raise_an_error(what: Any) -> None:
    with pytest.raises(ex.OperandError, match=r"ex\.check\("):
        ex.check(what)
    with pytest.raises(ex.OperandError, match="for a rewrite rule"):
        ex.check(ex.tanh, ex.tensor([1.0]) + 1)


def test_a_report_is_deterministic_and_has_a_repr() -> None:
    """Operands are drawn with a seed, so that a notebook's output is reproducible."""
    with declared(cubed(is_even=True)) as operation:
        first, second = ex.check(operation), ex.check(operation)
    assert first == second
    bundle = first._repr_mimebundle_()
    assert bundle["text/plain"] == repr(first) == str(first)
    assert "<table>" in bundle["text/html"]
    assert "f(−x) = -27" in bundle["text/html"]
    assert "<script" not in bundle["text/html"]


# -- rules ---------------------------------------------------------------------------------------------------------


def rule(roots: tuple[str, ...], match: Any, name: str = "OwnRule") -> type[ex.Rule]:
    body = {
        "__doc__": "A rule of a test.",
        "__module__": __name__,
        "numerics": "exact",
        "roots": tuple(ex.operation(root) for root in roots),
        "reason": ex.Reason("own_rule", "`{x}` is replaced."),
        "match": match,
    }
    declaration = type(name, (ex.Rule,), body)
    declaration.remove()
    return declaration


def minus_is_plus(self: Any, node: ex.Expr, graph: Any) -> Any:
    a, b = graph.operands(node)
    return self.reason.applied(a + b, x=node)


def test_a_rule_that_changes_values_is_reported_with_a_program() -> None:
    """a − b is not a + b: the report has a program, its operands, and the values with and without the rule."""
    report = ex.check(rule(("subtract",), minus_is_plus))
    assert not report
    (text,) = broken(report).values()
    assert text == "subtract(x, x) at x = 0.9009: with the rule 1.802, without 0"


def complement(self: Any, node: ex.Expr, graph: Any) -> Any:
    one, of = graph.operands(node)
    if one.operation.name != "full" or one.operation.attributes["value"] != 1 or of.operation.name != "sigmoid":
        return None
    (x,) = graph.operands(of)
    return self.reason.applied(ex.sigmoid(-x), x=x) if x.type is node.type else None


def test_a_correct_rule_reports_its_number_of_matches() -> None:
    """1 − σ(x) is σ(−x), found in programs with its roots."""
    report = ex.check(rule(("subtract",), complement))
    assert report
    assert "programs, such as subtract(1, sigmoid(" in str(report)


def test_a_rule_that_never_matches_is_reported() -> None:
    never = rule(("subtract",), lambda self, node, graph: None)
    assert "it matched in none of " in str(ex.check(never))
    assert not ex.check(never)
    x = ex.tensor([1.0, 2.0], name="x")
    assert "it matched in none of 1 programs" in str(ex.check(never, x - 1))


def test_a_rule_is_tried_in_the_given_programs() -> None:
    x = ex.tensor([1.0, 2.0], name="x")
    report = ex.check(rule(("subtract",), minus_is_plus), ex.tanh(x - 3.0))
    assert "at x = 1: with the rule 4, without -2" in str(report)


def test_a_rule_that_fails_or_changes_the_type_is_reported() -> None:
    def fails(self: Any, node: ex.Expr, graph: Any) -> Any:
        raise KeyError("value")

    assert "match ✗ at subtract(x, y): KeyError: 'value'" in str(ex.check(rule(("subtract",), fails)))
    narrow = rule(("tanh",), lambda self, node, graph: self.reason.applied(node.sum(), x=node))
    assert "type with the rule = without ✗" in str(ex.check(narrow))


@pytest.mark.parametrize("own", representatives(ex.Rule.rules, ex.Rule.rules[::3]), ids=lambda own: own.name)
def test_rules_of_explorer_keep_values(own: ex.Rule) -> None:
    """There is no false alarm wherever a rule of explorer matches in a program."""
    report = ex.check(own)
    assert report or "matched in none" in str(report)


# -- layers --------------------------------------------------------------------------------------------------------


class WrongSquare(ex.Elementwise):
    """x², with the gradient of another function."""

    name = "wrong_square_of_a_test"
    examples = (ex.Example(ex.real(2, 3)),)

    def kernel(self, out: Any, x: Any) -> Any:
        return np.square(x, out=out)

    def gradient(self, g: Any, y: Any, x: Any) -> Any:
        return (g * 3 * x,)


class Wrong(ex.layers.Layer):
    """A layer of an operation with a wrong gradient."""

    def forward(self, input: Any) -> Any:
        return ex.wrong_square_of_a_test(input)


@pytest.mark.parametrize(
    "layer",
    [ex.layers.Linear("linear", 3, 2), ex.layers.Relu, ex.layers.Conv2d("conv", 2, 3, 3), ex.layers.Softmax("softmax")],
    ids=str,
)
def test_layers_of_explorer_pass_all_laws(layer: Any) -> None:
    report = ex.check(layer)
    assert report
    assert [result.law for result in report.results] == ["gradient", "batched = loop"]


def test_a_layer_with_a_wrong_gradient_is_reported() -> None:
    report = ex.check(Wrong)
    assert str(report).startswith("Wrong 'checked': 1 of 2 laws hold\n  gradient ✗ at input[")


def test_a_layer_is_checked_with_the_given_inputs() -> None:
    class Fixed(ex.layers.Layer):
        """Layer for rows of seven elements."""

        def forward(self, input: Any) -> Any:
            return input @ ex.tensor(np.ones((7, 2)))

    with pytest.raises(ex.OperandError, match="inputs="):
        ex.check(Fixed)
    assert ex.check(Fixed("fixed"), inputs={"input": ex.TensorType((2, 7), "float32")})
