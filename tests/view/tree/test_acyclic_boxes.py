"""Boxes of scopes that a program enters more than once."""

import random
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

import explorer as ex
from explorer.view.tree.acyclic_boxes import split_visits
from explorer.view.tree.box_tree import lift, scope_tree
from explorer.view.tree.slots import build_slots
from explorer.view.tree.topological import levels
from tests.support.cells import MODELS
from tests.view import sample


def split(recording):
    """Return whether a box was split, the tree of a recording's scopes with a box for each visit, and its slots."""
    slots = build_slots(recording)
    tree = scope_tree(recording, slots)
    return split_visits(recording, tree, slots), tree, slots


def cyclic_boxes(tree, slots):
    """Return the boxes whose items are on a cycle."""
    edges = lift(tree, slots.recorded)
    return [box for box in tree.postorder() if min(levels(len(tree.boxes[box].items), edges[box]), default=0) < 0]


def residual(between):
    """Return a block whose ``relu`` is called twice, with operations ``between`` in this scope."""
    make = sample.Builder("block")
    kind = make.type(4)
    block = make.scope("block")
    relu, conv, norm = (make.scope(name, parent=block) for name in ("relu", "conv", between))
    x = make.leaf("x", kind)
    value = make.node("convolve", make.node("pad", x, type=kind, scope=conv), type=kind, scope=conv)
    value = make.node("maximum", make.node("scale", value, type=kind, scope=relu), type=kind, scope=relu)
    value = make.node("convolve", make.node("pad", value, type=kind, scope=norm), type=kind, scope=norm)
    value = make.node("add", x, value, type=kind, scope=block)
    value = make.node("maximum", make.node("scale", value, type=kind, scope=relu), type=kind, scope=relu)
    make.stage("recorded", "record", nodes=len(make.recording.nodes))
    return make.roots(value)


@pytest.mark.spec("V-7")
def test_a_scope_entered_repeatedly_has_a_box_for_each_visit():
    """A block's ``relu`` that is called twice has a box before and after the sum, and no edge leads upwards."""
    is_split, tree, slots = split(residual("norm"))
    assert is_split
    assert not cyclic_boxes(tree, slots)
    assert Counter(box.label for box in tree.boxes if box.kind == "scope") == {
        "block": 1,
        "relu": 2,
        "conv": 1,
        "norm": 1,
    }
    visits = [sorted(number for _, number in box.items) for box in tree.boxes if box.label == "relu"]
    assert [[slots.nodes[slot] for slot in visit] for visit in visits] == [[[3], [4]], [[8], [9]]]


@pytest.mark.spec("V-7")
def test_nested_boxes_are_divided_with_their_scope():
    """A cell with layers is called three times, with operations in between; its layers form no cycle."""
    make = sample.Builder("unrolled")
    kind = make.type(4)
    cell = make.scope("cell")
    gate = make.scope("gate", parent=cell)
    value = make.leaf("x", kind)
    for _ in range(3):
        for operation in ("multiply", "sigmoid"):
            value = make.node(operation, value, type=kind, scope=gate)
        value = make.node("tanh", make.node("add", value, type=kind, scope=cell), type=kind)
    make.stage("recorded", "record", nodes=len(make.recording.nodes))
    is_split, tree, slots = split(make.roots(value))
    assert is_split
    assert not cyclic_boxes(tree, slots)
    assert Counter(box.label for box in tree.boxes if box.kind == "scope") == {"cell": 3, "gate": 3}


def test_scopes_entered_once_are_unchanged():
    for recording in (sample.transformer(), sample.scopes(3, 4), residual("conv")):
        before, slots = scope_tree(recording, build_slots(recording)), build_slots(recording)
        after = scope_tree(recording, slots)
        if not cyclic_boxes(before, slots):
            assert not split_visits(recording, after, slots)
            assert after.boxes == before.boxes


def test_a_produced_node_is_in_the_box_of_its_readers():
    make = sample.Builder("block")
    kind = make.type(4)
    relu = make.scope("relu")
    value = make.leaf("x", kind)
    for _ in range(2):
        value = make.node("maximum", make.node("scale", value, type=kind, scope=relu), type=kind, scope=relu)
        value = make.node("add", value, type=kind)
    make.stage("recorded", "record", nodes=len(make.recording.nodes))
    make.stage("simplify", "rewrite", nodes=9)
    number = make.next_decision()
    cast = make.node("cast", 4, type=kind, scope=relu, born=number)
    clipped = make.node("clip", cast, type=kind, scope=relu, born=number)
    make.decide("Clip", "clipped", "clipped", (5,), (cast, clipped), replace=[(5, clipped)])
    is_split, tree, slots = split(make.roots(value))
    assert is_split
    assert tree.box_of[slots.of[cast]] == tree.box_of[slots.of[clipped]] != tree.box_of[slots.of[2]]


@pytest.mark.spec("V-7")
def test_boxes_of_a_model_file_form_no_cycle():
    """In ResNet-18, as written by torch's exporter, each block uses its ``relu`` twice."""
    recording = ex.open(MODELS / "resnet18.onnx").preview_plan().recording
    is_split, tree, slots = split(recording)
    assert is_split
    assert not cyclic_boxes(tree, slots)


@given(st.integers(0, 10_000), st.integers(2, 60), st.integers(1, 8))
def test_boxes_of_random_programs_form_no_cycle(seed, count, scopes):
    """In random graphs with random scopes every node is in one box with the name of its scope, and no cycle is left."""
    choose = random.Random(seed)
    make = sample.Builder("random")
    kind = make.type(4)
    rows = [0]
    for number in range(scopes):
        rows.append(make.scope(f"scope{number}", parent=choose.choice(rows)))
    nodes = [make.leaf("x", kind)]
    for _ in range(count):
        operands = choose.sample(nodes[-6:], min(len(nodes[-6:]), choose.randint(1, 2)))
        nodes.append(make.node("operation", *operands, type=kind, scope=choose.choice(rows)))
    make.stage("recorded", "record", nodes=len(make.recording.nodes))
    recording = make.roots(nodes[-1])
    _, tree, slots = split(recording)
    whole = scope_tree(recording, slots)
    assert not cyclic_boxes(tree, slots)
    contents = [slot for box in tree.postorder() for kind, slot in tree.boxes[box].items if kind == "slot"]
    assert sorted(contents) == [*range(len(slots.nodes))]
    assert all(around(tree, slot) == around(whole, slot) for slot in range(len(slots.nodes)))


def around(tree, slot):
    """Return the scopes of the boxes around a slot."""
    box, scopes = tree.box_of[slot], []
    while box >= 0:
        scopes.append(tree.boxes[box].scope)
        box = tree.boxes[box].parent
    return scopes
