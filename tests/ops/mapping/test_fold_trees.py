"""ex.fold_trees: trees level by level, with the values and gradients of a loop over their nodes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import explorer as ex
from explorer.core.errors import DeclarationError, ExplorerError, OperandError
from explorer.core.ir.mapped_call import MappedCall
from explorer.core.ir.traversal import reachable
from explorer.ops.manipulation.slicing import SliceScatter
from explorer.ops.mapping.fold_trees import forest
from explorer.plan import plan

pytestmark = pytest.mark.spec("P-4")
random = np.random.default_rng(5)
TREES = [((0, 1), 2), (1, 1), 2, [((3, 4), 0, 1), (2,)], ((0,)), ((((0, 1), 2), 3), 4)]
big = ex.tensor(random.normal(size=(30, 3)))
table = ex.tensor(random.normal(size=(5, 3)))
weight = ex.tensor(random.normal(size=(3, 3)) / 2)


@ex.function
def compose(*children: Any) -> Any:
    return ex.tanh(sum(children[1:], children[0]) @ weight)


@ex.function
def word(number: Any) -> Any:
    return ex.embedding(table, number)


def by_hand(
    tree: Any, node: Callable[..., Any] = compose, leaf: Callable[[Any], Any] = lambda word: table[word]
) -> Any:
    if isinstance(tree, (tuple, list)):
        return node(*[by_hand(child, node, leaf) for child in tree])
    return leaf(tree)


@pytest.mark.parametrize("without", ["", "batch", "simplify"])
def test_trees_equal_a_loop_in_values_and_gradients(without: str) -> None:
    options = {"without": without} if without else {}
    folded, expected = ex.fold_trees(compose, TREES, leaf=word), [by_hand(tree) for tree in TREES]
    for value, other in zip(ex.evaluate(folded, **options), ex.evaluate(expected), strict=True):
        np.testing.assert_allclose(value, other)
    losses = ex.square(folded.stacked).sum(), ex.add_n(*[ex.square(value).sum() for value in expected])
    gradients = [ex.evaluate(ex.grad(loss, [weight, table]), **options) for loss in losses]
    for value, other in zip(*gradients, strict=True):
        np.testing.assert_allclose(value, other)


def test_nodes_of_one_level_are_one_call() -> None:
    """The number of calls is the maximum height for each number of children, whatever the number of trees."""
    trees = [((0, 1), (2, 3)), ((1, 2), 3), (0, 1)] * 50
    (values,) = ex.fold_trees(compose, trees, leaf=word).leaves
    labels = [node.label for node in reachable([values]) if isinstance(node.operation, MappedCall)]
    assert labels == ["word ×4", "compose ×200", "compose ×100"]
    assert {str(node.scope) for node in reachable([values]) if node.label.startswith("compose")} == {
        "compose over 150 trees"
    }


def test_gradients_of_parts_are_concatenated_without_zeros() -> None:
    """A level reads slices of the pool; the plan concatenates their gradients."""
    loss = ex.square(ex.fold_trees(compose, TREES, leaf=word).stacked).sum()
    planned = plan([ex.grad(loss, weight)])
    assert "sum_of_parts" in {decision.code for decision in planned.graph.decisions}
    assert not [node for node in planned.graph.live if isinstance(node.operation, SliceScatter)]


def test_values_may_be_containers() -> None:
    """A state and a memory are passed up the trees together."""

    def node(left: Any, right: Any) -> Any:
        memory = left["c"] + right["c"]
        return {"c": memory, "h": (ex.tanh(memory) * left["h"][0],)}

    def leaf(x: Any) -> Any:
        return {"c": x, "h": (ex.exp(x),)}

    leaves = [random.normal(size=2) for _ in range(3)]
    trees = [((leaves[0], leaves[1]), leaves[2]), leaves[1], (leaves[0], leaves[0])]
    result = ex.evaluate(ex.fold_trees(node, trees, leaf=leaf))
    for place, tree in enumerate(trees):
        expected = ex.evaluate(by_hand(tree, node, lambda x: leaf(ex.tensor(x))))
        np.testing.assert_allclose(result["c"][place], expected["c"])
        np.testing.assert_allclose(result["h"][0][place], expected["h"][0])


def test_leaves_are_values_without_a_leaf_function() -> None:
    """Leaves are arrays, expressions and numbers; one that occurs twice is stacked once."""
    x = ex.tensor([1.0, 2.0])
    assert ex.evaluate(ex.fold_trees(lambda a, b: a * b, [(x, (x, x)), (x, x)]))[0].tolist() == [1, 8]
    assert ex.evaluate(ex.fold_trees(lambda a, b: a - b, [((5, 3), 1), 2])) == [1, 2]
    assert len(forest([(x, (x, x)), (1, (1, 2))]).leaves) == 3


def test_a_tree_may_be_deep() -> None:
    """Trees are flattened without recursion."""
    tree: Any = 0
    for _ in range(20_000):
        tree = (tree, 1)
    assert len(forest([tree]).steps) == 20_000


def test_leaves_are_not_copied_to_the_pool() -> None:
    """A step reads its leaves directly, so a degenerate tree copies each leaf once."""
    tree: Any = 0
    for number in range(1, 30):
        tree = (tree, number)
    assert [len(step.rows) for step in forest([tree] * 4).steps] == [8] * 29
    leaning = ex.fold_trees(compose, [tree] * 4, leaf=lambda number: ex.embedding(big, number))
    big_by_hand = by_hand(tree, compose, lambda number: big[number])
    np.testing.assert_allclose(ex.evaluate(leaning)[3], ex.evaluate(big_by_hand))
    gradients = [ex.evaluate(ex.grad(value.sum(), big)) for value in (leaning[0], big_by_hand)]
    np.testing.assert_allclose(*gradients)


@pytest.mark.parametrize(
    ("wrong", "error", "message"),
    [
        (lambda: ex.fold_trees(3, [1.0]), DeclarationError, "ex.fold_trees of an int"),
        (lambda: ex.fold_trees(compose, [1.0], leaf=3), DeclarationError, "with the leaf of an int"),
        (lambda: ex.fold_trees(compose, []), OperandError, r"of \[\]"),
        (lambda: ex.fold_trees(compose, 3), OperandError, "of an int"),
        (lambda: ex.fold_trees(compose, [(1.0, ())]), OperandError, r"the node \(\)"),
        (lambda: ex.fold_trees(compose, [(np.ones(3), np.ones(2))]), OperandError, "leaves with 2 different shapes"),
        (
            lambda: ex.fold_trees(lambda a, b: a.sum(), [(np.ones(3), np.ones(3))]),
            DeclarationError,
            "returns .* for vector 3 float64|returns .* for 3 float64",
        ),
        (
            lambda: ex.fold_trees(lambda a, b: (a, b), [(np.ones(3), np.ones(3))]),
            DeclarationError,
            "returns .*3 float64, .*3 float64 for",
        ),
    ],
)
def test_invalid_trees_raise_an_error(wrong: Callable[[], Any], error: type[ExplorerError], message: str) -> None:
    """The error contains the given value."""
    with pytest.raises(error, match=message):
        wrong()


def test_inner_constants_have_separate_names() -> None:
    """Stacked and indexed values do not get the name of the result's variable; a single member has no number."""
    ones = [np.full(3, number) for number in range(4)]
    result = ex.fold_trees(lambda a, b: a * b, [((ones[0], ones[1]), ones[2]), (ones[3], ones[2])])
    nodes = reachable([*result])
    leaves = {node.label for node in nodes if isinstance(node, ex.Tensor)}
    assert leaves == {"samples", "rows"}
    assert {node.label for node in nodes if isinstance(node.operation, MappedCall)} == {"<lambda> ×2", "<lambda>"}
