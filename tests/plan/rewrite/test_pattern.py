"""Patterns: subgraphs found by a formula, replaced, marked, and nearly matched."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import explorer as ex

pytestmark = pytest.mark.spec("I-12")

X = np.array([[1.0, -2.0, 0.5]])


@pytest.fixture
def x() -> ex.Tensor:
    return ex.tensor(X, name="x")


def test_a_subgraph_is_found_for_any_order_of_commutative_operands(x: ex.Tensor) -> None:
    silu = ex.pattern("x * sigmoid(x)")
    for y in (x * ex.sigmoid(x), ex.sigmoid(x) * x):
        (match,) = silu.find(ex.tanh(y))
        assert match.root is y
        assert [node.operation.name for node in match.nodes] == ["sigmoid", "multiply"]
        assert match.variables["x"] is x
    assert ex.pattern("x - sigmoid(x)").find(ex.sigmoid(x) - x) == []


def test_every_match_is_replaced_and_other_nodes_are_kept(x: ex.Tensor) -> None:
    """Nested matches are all replaced, and the replacement computes its formula."""
    y = x
    for _ in range(3):
        y = y * ex.sigmoid(y) + 1.0
    kept = ex.evaluate(y)
    z = ex.pattern("x * sigmoid(x)").replace(y, "tanh(x)")
    expected = X
    for _ in range(3):
        expected = np.tanh(expected) + 1.0
    np.testing.assert_allclose(ex.evaluate(z), expected)
    np.testing.assert_array_equal(ex.evaluate(y), kept)
    assert ex.pattern("cos(x)").replace(y, "sin(x)") is y


def test_a_function_can_be_the_replacement_and_receives_variables_by_name(x: ex.Tensor) -> None:
    y = (x - 1.0) * (x - 1.0)
    z = ex.pattern("(a - 1) * (b - 1)").replace(y, lambda a, b: a * b - a - b + 1.0)
    np.testing.assert_allclose(ex.evaluate(z), (X - 1) ** 2)


def test_matches_that_share_a_node_are_replaced_once(x: ex.Tensor) -> None:
    y = ex.tanh(ex.tanh(ex.tanh(x)))
    pattern = ex.pattern("tanh(tanh(x))")
    assert len(pattern.find(y)) == 2
    np.testing.assert_allclose(ex.evaluate(pattern.replace(y, "sin(x)")), np.sin(np.tanh(X)))


@pytest.mark.parametrize(
    ("formula", "reason"),
    [
        ("x * sigmoid(x)", "operand 2 of multiply must be sigmoid(x), and is tanh"),
        ("x * tanh(x + 1)", "operand 1 of tanh must be add(x, 1), and is tensor"),
        ("2 * x", "operand 1 of multiply must be 2, and is tensor"),
    ],
)
def test_a_near_miss_names_the_failed_condition(x: ex.Tensor, formula: str, reason: str) -> None:
    (miss,) = ex.pattern(formula).near_misses(x * ex.tanh(x))
    assert reason in str(miss)


def test_the_nearest_miss_comes_first(x: ex.Tensor) -> None:
    far, near = x * 2.0, x * ex.sigmoid(x + 1.0)
    misses = ex.pattern("x * sigmoid(x)").near_misses(far + near)
    assert misses[0].root is near
    assert misses[0].reason == "operand 1 of sigmoid must be the same value as the other `x`, and is add"


def test_attributes_and_conditions_of_variables_restrict_a_pattern(x: ex.Tensor) -> None:
    total = x.sum(axis=1)
    assert len(ex.pattern("sum(x, axes=(1,))").find(total)) == 1
    assert "axes of sum must be (0,), and is (1,)" in str(ex.pattern("sum(x, axes=(0,))").near_misses(total)[0])
    for axis in (1, -1, (-1,)):
        assert len(ex.pattern(f"sum(x, axis={axis})").find(total)) == 1
        assert len(ex.pattern(f"concatenate(x, x, axis={axis})").find(ex.concatenate([x, x], -1))) == (
            type(axis) is int
        )
    assert "axis of sum must be -2, and is (1,)" in str(ex.pattern("sum(x, axis=-2)").near_misses(total)[0])
    wide = ex.pattern("sum(x)", where={"x": lambda value: value.shape[1] > 5})
    assert wide.find(total) == []
    assert "the condition of `x` does not hold" in wide.near_misses(total)[0].reason


def test_matches_are_marked_in_a_view(x: ex.Tensor) -> None:
    """The overlay shows the number of each match; replacements keep it."""
    y = ex.tanh(x * ex.sigmoid(x)) * ex.sigmoid(x)
    overlay = ex.pattern("x * sigmoid(x)").overlay(y)
    assert sorted((node.operation.name, place) for node, place in overlay.items()) == [("multiply", 1), ("sigmoid", 1)]
    view = ex.explore(y)
    view.overlay(overlay, name="pattern")
    first = view.payload["heat"][-1]
    view.overlay(ex.pattern("x * sigmoid(x)"), name="pattern")
    assert view.payload["heat"][-1] == first
    assert first["name"] == "pattern"
    with pytest.raises(ex.OperandError, match="a pattern must be shown in the view of a plan"):
        ex.explore(view.recording).overlay(ex.pattern("x * sigmoid(x)"))


@pytest.mark.parametrize(
    ("formula", "message"),
    [
        ("x", "must contain an operation"),
        ("x +", "invalid syntax"),
        ("relu6(x)", "unknown operation 'relu6'"),
        ("x.y", "consist of names, numbers, operators"),
        ("(" * 5000 + "x", "consist of names, numbers, operators"),
        ("x" * 20_000, "20000 characters"),
        ("sum(x, axes=y)", "is not a number, string or tuple"),
        ("tanh(sum(x, dim=1))", r"unknown attribute of sum 'dim'\n  rule: known: .*axis"),
    ],
)
def test_an_invalid_formula_raises_an_error(formula: str, message: str) -> None:
    with pytest.raises(ex.ExplorerError, match=message):
        ex.pattern(formula)


def test_invalid_replacements_and_conditions_raise_an_error(x: ex.Tensor) -> None:
    y, silu = x * ex.sigmoid(x), ex.pattern("x * sigmoid(x)")
    with pytest.raises(ex.OperandError, match="must have the type of the replaced value"):
        silu.replace(y, "sum(x)")
    with pytest.raises(ex.OperandError, match="must use only variables of its pattern: x"):
        silu.replace(y, "x + b")
    with pytest.raises(ex.OperandError, match="a condition must be for a variable"):
        ex.pattern("tanh(x)", where={"z": lambda value: True})


@pytest.mark.parametrize("depth", [5_000, pytest.param(20_000, marks=pytest.mark.soak)])
def test_a_deep_graph_is_searched_and_copied(depth: int) -> None:
    y: ex.Expr = ex.tensor([0.5])
    for _ in range(depth):
        y = ex.tanh(y) + 0.25
    pattern = ex.pattern("tanh(x) + 0.25")
    assert len(pattern.find(y)) == depth
    z = pattern.replace(y, "sin(x)")
    assert pattern.find(z) == []


def test_axes_other_than_integers_match_nothing(x: ex.Tensor) -> None:
    assert ex.pattern("max(a, axis=('rows', 1))").find(ex.max(x, -1)) == []


@pytest.mark.parametrize("root", [[ex.tanh(ex.tensor(1.0))], 3, None])
def test_a_root_that_is_no_expression_raises_an_error(root: object) -> None:
    silu = ex.pattern("x * sigmoid(x)")
    calls: list[Any] = [silu.find, silu.near_misses, silu.overlay, lambda root: silu.replace(root, "x")]
    for call in calls:
        with pytest.raises(ex.OperandError, match="root must be an expression, or a net"):
            call(root)
