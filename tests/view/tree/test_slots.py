import itertools

import numpy as np
import pytest

import explorer as ex
from explorer.view.tree.scopes import scope_path
from explorer.view.tree.slots import build_slots
from tests.view import sample


def named(recording, label, occurrence=0):
    return [node for node, name in enumerate(recording.nodes.label) if name == label][occurrence]


@pytest.mark.spec("V-1")
def test_a_replacement_shares_the_slot_of_its_subject():
    recording = sample.mlp()
    slots = build_slots(recording)
    log, stable = named(recording, "log"), named(recording, "log-softmax")
    assert slots.of[log] == slots.of[stable]
    assert slots.nodes[slots.of[log]] == [log, stable]


@pytest.mark.spec("V-1")
def test_a_merged_duplicate_keeps_its_own_slot():
    recording = sample.mlp()
    slots = build_slots(recording)
    kept, merged = named(recording, "matmul"), named(recording, "matmul", 1)
    assert slots.of[kept] != slots.of[merged]


def test_constants_inside_their_consumers_have_no_slot():
    recording = sample.mlp()
    slots = build_slots(recording)
    numbers = [node for node, kind in enumerate(recording.nodes.kind) if kind == "constant"]
    assert len(numbers) == 2
    assert all(slots.of[node] == -1 for node in numbers)


def test_an_edge_from_a_port_comes_from_the_node_that_computes_it():
    make = sample.Builder()
    kind = make.type(4)
    pair = make.node("split", make.leaf("x", kind), type=kind)
    port = make.node("item", pair, kind="item", type=kind)
    reader = make.node("tanh", port, type=kind)
    make.stage("recorded", "record")
    slots = build_slots(make.roots(reader))
    assert slots.of[port] == -1
    assert (slots.of[pair], slots.of[reader]) in slots.edges


def test_an_edge_moved_by_a_pass_has_both_routes():
    recording = sample.mlp()
    slots = build_slots(recording)
    kept, merged, reader = (
        slots.of[named(recording, name, n)] for name, n in (("matmul", 0), ("matmul", 1), ("multiply", 0))
    )
    assert {(kept, reader), (merged, reader)} <= set(slots.edges)


def test_a_produced_constant_shares_the_slot_of_its_subject():
    make = sample.Builder()
    kind = make.type(4)
    x = make.leaf("x", kind)
    zero = make.number("0", type=kind)
    product = make.node("multiply", x, zero, type=kind)
    total = make.node("add", x, product, type=kind)
    make.stage("recorded", "record")
    make.stage("simplify", "rewrite")
    folded = make.number("0", type=kind, born=0)
    make.decide("TimesZero", "zero", "it is 0", (product,), (folded,), replace=[(product, folded)])
    slots = build_slots(make.roots(total))
    assert slots.of[zero] == -1
    assert slots.of[folded] == slots.of[product]


def test_many_replacements_of_one_operand_keep_edges_few():
    make = sample.Builder()
    kind = make.type(4)
    x = make.leaf("x", kind)
    equal = [make.node("tanh", x, type=kind) for _ in range(3000)]
    root = make.node("exp", equal[0], type=kind)
    make.stage("recorded", "record")
    make.stage("dedup", "rewrite")
    for old, new in itertools.pairwise(equal):
        make.decide("Dedup", "same-value", "equal", (old,), replace=[(old, new)])
    slots = build_slots(make.roots(root))
    readers = [producer for producer, consumer in slots.edges if consumer == slots.of[root]]
    assert {slots.of[equal[0]], slots.of[equal[-1]]} <= set(readers)
    assert len(readers) < 12


@pytest.mark.spec("V-1")
def test_a_product_that_absorbs_a_later_factor_stays_in_its_box():
    """It has a place of its own there, not that of the factor, and the line of the product."""
    x = ex.tensor(np.ones((4096, 16), np.float32), name="x")
    with ex.scope("product"):
        h = x @ ex.tensor(np.ones((16, 32), np.float32), name="w")
    with ex.scope("scale"):
        y = h * ex.tensor(np.arange(32, dtype=np.float32), name="s")
    plan = ex.EvalPlan(numerics="fast")
    plan.register(y)
    recording = plan.prepare().recording
    slots = build_slots(recording)
    written, scaled, factor = named(recording, "matmul"), named(recording, "matmul", 1), named(recording, "multiply")
    assert scope_path(recording, scaled) == scope_path(recording, written) == ("product",)
    assert recording.nodes.source[scaled] == recording.nodes.source[written] != recording.nodes.source[factor]
    assert (slots.nodes[slots.of[scaled]], slots.nodes[slots.of[factor]]) == ([scaled], [factor])
