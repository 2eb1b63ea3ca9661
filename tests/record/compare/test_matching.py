"""Matching of two graphs' nodes: renamed, inserted, removed, replaced, moved; calls, bodies, produced nodes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import explorer as ex
from explorer.core.ir.expr import Operation
from explorer.record import Recording
from explorer.record.compare.comparison import compare, counterparts
from explorer.record.compare.matching import align, graphs, match
from explorer.record.rows import COMMUTATIVE
from tests.support.programs import programs

Layer = Callable[[Any], Any]


def recorded(*roots: Any, **options: Any) -> Recording:
    plan = ex.EvalPlan(**options)
    for root in roots:
        plan.register(root)
    return plan.prepare().recording


def stack(layers: list[Layer], names: str = "w{}") -> Recording:
    """Return a stack of layers with a weight each."""
    value: Any = ex.tensor(np.ones((3, 4), np.float32), name="x")
    for number, layer in enumerate(layers):
        weight = ex.tensor(np.full((4, 4), number, np.float32), name=names.format(number))
        value = layer(value @ weight)
    return recorded(value, without=["simplify", "dedup"])


def labels(recording: Recording, nodes: Any) -> list[str]:
    return [recording.label(node) for node in nodes]


@pytest.mark.spec("V-12")
def test_graphs_with_other_names_are_matched() -> None:
    """Two graphs with other weight names are matched node by node, and renamed nodes are reported."""
    before, after = stack([ex.tanh, ex.relu]), stack([ex.tanh, ex.relu], "layer.{}.weight")
    result = match(before, after)
    assert (result.changed, result.only_before, result.only_after) == ({}, (), ())
    assert [(before.label(node), after.label(result.pairs[node])) for node in result.renamed] == [
        ("w0", "layer.0.weight"),
        ("w1", "layer.1.weight"),
    ]
    assert not result.equal


@pytest.mark.spec("V-12")
@pytest.mark.parametrize("place", range(5))
def test_an_inserted_layer_is_the_only_addition(place: int) -> None:
    """A layer of several operations in only one graph is reported, whatever its position and operands."""
    layers: list[Layer] = [ex.tanh, ex.relu, ex.sigmoid, ex.exp]
    more = [*layers[:place], lambda x: ex.sqrt(ex.square(x) + 1.0), *layers[place:]]
    before, after = stack(layers), stack(more, "v{}")
    result = match(before, after)
    assert not result.only_before
    added = [label for label in labels(after, result.only_after) if not label.startswith("v")]
    assert sorted(added) == ["add 1", "matmul", "sqrt", "square"]
    assert len(result.only_after) == 5
    assert len(result.changed) <= 1
    back = match(after, before)
    assert len(back.only_before) == 5
    assert not back.only_after


@pytest.mark.spec("V-12")
def test_changes_of_a_node_are_described() -> None:
    """Test an attribute, a type, a number inside it, and another operand."""

    def graph(axis: int, factor: float, rows: int, activation: Layer) -> Recording:
        x = ex.tensor(np.ones((rows, 4, 4), np.float32), name="x")
        return recorded(ex.relu(ex.sum(activation(x * factor), axis=axis)))

    before = graph(0, 2.0, 3, ex.tanh)

    def told(after: Recording) -> dict[str, tuple[str, ...]]:
        return {before.label(node): words for node, words in match(before, after).changed.items()}

    assert told(graph(0, 2.0, 3, ex.tanh)) == {}
    (words,) = told(graph(0, 3.0, 3, ex.tanh)).values()
    assert words == ("reads 2 → 3",)
    assert told(graph(0, 2.0, 3, ex.exp)) == {"sum": ("reads tanh → exp",)}
    rows = told(graph(0, 2.0, 5, ex.tanh))
    assert list(rows) == ["x", "multiply 2", "tanh"]
    assert rows["x"] == ("3×4×4 float32 → 5×4×4 float32",)
    (sum_words, relu_words) = told(graph(1, 2.0, 3, ex.tanh)).values()
    assert sum_words == ("4×4 float32 → 3×4 float32", "axes (0,) → (1,)")
    assert relu_words == ("4×4 float32 → 3×4 float32",)


@ex.function
def cell(x: Any, w: Any) -> Any:
    return ex.tanh(x @ w)


@ex.function
def other_cell(x: Any, w: Any) -> Any:
    return ex.tanh(ex.relu(x @ w))


def calls(function: Any) -> Recording:
    x = ex.tensor(np.ones((2, 4), np.float32), name="x")
    w = ex.tensor(np.ones((4, 4), np.float32), name="w")
    value = x
    for _ in range(3):
        value = function(value, w) + x
    return recorded(value)


@pytest.mark.spec("V-12")
def test_the_bodies_of_paired_calls_are_compared_too() -> None:
    """A difference inside a function is reported once for all of its calls."""
    before, after = calls(cell), calls(other_cell)
    result = match(before, after)
    assert labels(after, result.only_after) == ["relu"]
    assert [before.label(node) for node in result.changed if before.nodes.body[node]] == ["tanh"]
    assert match(before, calls(cell)).equal
    assert len(result.bodies) == 2


@pytest.mark.spec("V-12")
def test_equal_numbers_of_different_types_are_shown_with_their_type() -> None:
    """Equal types are not shown, and equal numbers are no difference."""
    x = ex.tensor(np.ones(3, np.float32), name="x")
    before, after = recorded(x * 2.0), recorded(x.astype(np.float64) * 2.0)
    (words,) = match(before, after).changed.values()
    assert words == ("3 float32 → 3 float64", "reads x → cast", "reads 2 scalar float32 → 2 scalar float64")
    assert match(after, after).equal


@pytest.mark.spec("V-12")
def test_an_attribute_in_only_one_recording_is_reported() -> None:
    """For an operation declared again with another attribute, the value is none in the other recording."""
    x = ex.tensor(np.ones((3, 4), np.float32), name="x")
    one, other = recorded(ex.softmax(x, axis=0)), recorded(ex.softmax(x, axis=0))
    assert match(one, other).equal
    (node,) = other.nodes.attributes
    del other.nodes.attributes[node]
    assert match(one, other).changed == {node: ("axes (0,) → none",)}
    assert match(other, one).changed == {node: ("axes none → (0,)",)}


@pytest.mark.spec("V-12")
def test_a_call_of_another_function_with_the_same_operands_is_reported() -> None:
    """The second of three calls calls another function; its body does not affect the other calls."""
    x, w = (ex.tensor(np.ones((4, 4), np.float32), name=name) for name in "xw")
    before, after = recorded(cell(cell(cell(x, w), w), w)), recorded(cell(other_cell(cell(x, w), w), w))
    result = match(before, after)
    assert [(before.label(node), words) for node, words in result.changed.items()] == [("cell", ("another function",))]
    assert [after.label(result.pairs[node]) for node in result.changed] == ["other_cell"]
    assert not result.equal
    assert match(before, before).equal


@ex.function
def halved(x: Any) -> Any:
    return x * 0.5


@ex.function
def outer(x: Any) -> Any:
    return ex.tanh(halved(x))


@pytest.mark.spec("V-12")
def test_numbers_shared_by_bodies_belong_to_their_readers() -> None:
    """A number inside a function is compared with its reader, also if a batch's body contains it."""
    rows = [ex.tensor(np.full((2, 4), n, np.float32), name=f"x{n}") for n in range(64)]
    one, two = recorded(*map(outer, rows)), recorded(*map(outer, rows), without=["batch"])
    assert any(graph.shared for graph in graphs(one, two)[0].values())
    assert compare(one, two).nodes.equal
    assert compare(two, one).nodes.equal


@pytest.mark.spec("V-12", "P-9")
def test_nodes_created_by_passes_are_matched_by_what_they_replace() -> None:
    """They have no counterpart if only one plan created them."""
    x = ex.tensor(np.ones((3, 4), np.float32), name="x")
    root = ex.log(ex.softmax(ex.tanh(x))) * 2.0
    one, same, other = recorded(root), recorded(root), recorded(root, without=["simplify"])
    pairs = counterparts(one, same, match(one, same))
    assert pairs == {node: node for node in range(len(one.nodes))}
    nodes = [node for node in range(len(one.nodes)) if one.nodes.born[node] >= 0]
    assert "log_softmax" in labels(one, nodes)
    apart = counterparts(one, other, match(one, other))
    assert all(node not in apart for node in nodes if one.label(node) == "log_softmax")


REWRITTEN: dict[str, Layer] = {
    "square": lambda y: y**2,
    "square of a square": lambda y: y**4,
    "cube": lambda y: y**3,
    "half": lambda y: y / 2.0,
    "quarter": lambda y: y / 2.0 / 2.0,
    "sigmoid": lambda y: 1 / (1 + ex.exp(-y)),
    "log of a sigmoid": lambda y: ex.log(ex.sigmoid(y)),
    "log of a softmax by rows": lambda y: ex.log(ex.softmax(y, axis=1)),
    "log of a softmax by columns": lambda y: ex.log(ex.softmax(y, axis=0)),
}
"""what passes rewrite, some of it to several operations, or to operations of another entry"""


def does(recording: Recording, node: int) -> tuple[Any, ...]:
    rows = recording.nodes
    operation = recording.operations[rows.operation[node]]
    number = rows.label[node] if rows.kind[node] == "constant" else ""
    return rows.kind[node], operation, number, recording.type_text(node), rows.attributes.get(node)


@pytest.mark.spec("V-12", "P-9")
@pytest.mark.parametrize("first", REWRITTEN)
@pytest.mark.parametrize("second", REWRITTEN)
@pytest.mark.parametrize("inside", [ex.sin, ex.cos])
def test_paired_nodes_created_by_passes_compute_the_same(first: str, second: str, inside: Layer) -> None:
    """With graphs rewritten differently, over equal or other operands, pairs also replace or read pairs."""
    x = ex.tensor(np.full((4, 4), 0.5), name="x")
    one, two = recorded(REWRITTEN[first](ex.sin(x))), recorded(REWRITTEN[second](inside(x)))
    nodes = match(one, two)
    pairs = counterparts(one, two, nodes)
    assert len(set(pairs.values())) == len(pairs)
    if (first, inside) == (second, ex.sin):
        assert list(pairs) == list(range(len(one.nodes)))
    for node, other in pairs.items():
        assert (node in nodes.pairs) == (one.nodes.born[node] < 0)
        if node in nodes.pairs:
            continue
        assert does(one, node) == does(two, other)
        reads = {pairs.get(operand) for operand in one.nodes.operands[node]} == {*two.nodes.operands[other]}
        stands = [nodes.pairs[each] for each in one.provenance.recorded([node]) if each in nodes.pairs]
        assert reads or set(stands).intersection(two.provenance.recorded([other]))


def named_cell(activation: Layer) -> Any:
    @ex.function
    def cell(x: Any) -> Any:
        return activation(x) * 0.5

    return cell


@pytest.mark.spec("V-12", "P-9")
def test_batches_of_functions_with_one_name_are_distinguished_by_their_calls() -> None:
    """With the same rows in either order, the batch of each function is matched with its own."""
    one_cell, other_cell = named_cell(ex.tanh), named_cell(ex.sin)
    rows = [ex.tensor(np.full((2, 4), n, np.float32), name=f"x{n}") for n in range(64)]
    one = recorded(*map(one_cell, rows), *map(other_cell, rows))
    two = recorded(*map(other_cell, rows), *map(one_cell, rows))
    nodes = match(one, two)
    assert not nodes.changed
    pairs = counterparts(one, two, nodes)
    batches = [node for node in pairs if one.nodes.kind[node] == "call" and one.nodes.born[node] >= 0]
    assert len(batches) == 2
    for node in batches:
        replaced = {nodes.pairs[each] for each in one.provenance.recorded([node])}
        assert replaced == set(two.provenance.recorded([pairs[node]]))


@pytest.mark.spec("V-12")
@settings(max_examples=40, deadline=None)
@given(programs())
def test_a_graph_compared_with_another_plan_of_it_is_the_same(roots: list[ex.Expr]) -> None:
    one, two = recorded(*roots), recorded(*roots, without=["simplify", "fuse"])
    comparison = compare(one, two)
    assert comparison.nodes.equal
    nodes, others = one.nodes, two.nodes
    # numbers inside functions differ if another plan batches calls, because their bodies come first
    assert all(node == other for node, other in comparison.nodes.pairs.items() if nodes.body[node] == 0)
    assert all(nodes.label[node] == others.label[other] for node, other in comparison.nodes.pairs.items())
    assert len(set(comparison.counterparts.values())) == len(comparison.counterparts)


def test_two_unrelated_graphs_share_only_operation_kinds() -> None:
    before = stack([ex.tanh])
    after = recorded(ex.log(ex.tensor(np.ones(5), name="y")) + 1.0)
    result = match(before, after)
    assert not result.pairs or set(labels(before, result.pairs)) <= {"x", "w0"}
    assert "log" in labels(after, result.only_after)


@settings(max_examples=60)
@given(st.lists(st.integers(0, 3), max_size=12), st.lists(st.integers(0, 3), max_size=12))
def test_aligned_nodes_are_equal_and_in_order(first: list[int], second: list[int]) -> None:
    keys = (first.__getitem__, second.__getitem__)
    results = list(align(range(len(first)), range(len(second)), {}, keys))
    assert all(first[one] == second[other] for one, other in results)
    assert results == sorted(results)
    assert [other for _, other in results] == sorted({other for _, other in results})
    if first == second:
        assert len(results) == len(first)


def test_known_pairs_anchor_the_alignment() -> None:
    """Of equal nodes, those between the same neighbours are paired."""
    first, second = "aXbXc", "XaXbXXc"
    pairs = {0: 1, 2: 3, 4: 6}
    keys = (lambda at: first[at], lambda at: second[at])
    assert list(align(range(5), range(7), pairs, keys)) == [(1, 2), (3, 4)]


def test_a_known_pair_that_crosses_others_is_ignored_in_the_alignment() -> None:
    """Known pairs in one order anchor the sequences; a moved node is skipped."""
    keys = (lambda at: "add", lambda at: "add")
    assert list(align(range(4), range(4), {0: 1, 1: 2, 3: 0}, keys)) == [(2, 3)]


def test_a_large_gap_is_aligned_in_linear_time() -> None:
    """Thousands of equal nodes in sequence are paired in order, without comparing all pairs."""
    count = 20_000
    keys = (lambda at: "add", lambda at: "add")
    assert list(align(range(count), range(count + 1), {}, keys)) == [(at, at) for at in range(count)]


@pytest.mark.spec("V-12")
def test_commutative_operands_are_equal_in_any_order() -> None:
    """x + b is b + x, for leaves, operations and numbers, also with other names; x − b is not b − x."""
    x, b = (ex.tensor(np.full((3, 4), value, np.float32), name=name) for value, name in ((1, "x"), (2, "b")))
    v = ex.tensor(np.full((3, 4), 2, np.float32), name="v")

    def written(left: Callable[[], Any], right: Callable[[], Any], swapped: bool) -> Any:
        return (right() * left() + 2.0) if swapped else (2.0 + left() * right())

    for one, two in ((lambda: x, lambda: b), (lambda: ex.sin(x), lambda: ex.exp(ex.cos(b)))):
        assert match(recorded(written(one, two, False)), recorded(written(one, two, True))).equal
    renamed = match(recorded(ex.exp(x) + b, x), recorded(v + ex.exp(x), x))
    assert (renamed.changed, renamed.only_before, renamed.only_after, len(renamed.renamed)) == ({}, (), (), 1)
    both = recorded(ex.add_n(x, ex.sin(b), b)), recorded(ex.add_n(b, x, ex.sin(b)))
    assert match(*both).equal
    assert not match(recorded(x - b), recorded(b - x)).equal
    pairs = match(recorded(ex.sin(x) + b), recorded(b + ex.cos(x)))
    assert (labels(recorded(ex.sin(x) + b), pairs.only_before), len(pairs.changed)) == (["sin"], 1)


@pytest.mark.spec("V-12")
def test_operations_treated_as_commutative_are_declared_so() -> None:
    results, kinds = set(), [Operation]
    for kind in kinds:
        kinds += kind.__subclasses__()
        if kind.__module__.startswith("explorer.") and getattr(kind, "commutative", False):
            results.add(kind.name)
    assert results == COMMUTATIVE
