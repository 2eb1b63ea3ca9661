"""Merges, compared with the rule: a node is counted if it equals its replacement at that position."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from explorer.view.replay.state import copies, merges
from explorer.view.tree.slots import build_slots
from tests.golden.programs import recorded
from tests.support.large import planned
from tests.view import sample
from tests.view.random_recordings import random_recording


def equal(recording, one, other, position):
    """Return whether two nodes have the same operation, type and operands at a position."""
    nodes, final = recording.nodes, recording.resolver(position)

    def key(node):
        read = [final.get(operand, operand) for operand in nodes.operands[node]]
        return (
            nodes.operation[node],
            nodes.type[node],
            [nodes.label[operand] if nodes.kind[operand] == "constant" else operand for operand in read],
        )

    return key(one) == key(other)


def check(recording):
    slots = build_slots(recording)
    rows = merges(recording, slots)
    for number, (decision, old, new) in enumerate(recording.substitutions):
        apart = slots.of[new] >= 0 and slots.of[old] != slots.of[new]
        assert (number in rows) == (apart and equal(recording, old, new, decision + 1))
    return rows


@pytest.mark.spec("V-4")
@pytest.mark.parametrize("name", ["perceptron", "batch", "structured", "inverse_pair"])
def test_equal_nodes_are_merged(name):
    check(recorded(name))


@pytest.mark.spec("V-4")
@given(st.integers(0, 10_000))
def test_equal_nodes_of_random_recordings_are_merged(seed):
    check(random_recording(seed))


@pytest.mark.spec("V-4")
def test_a_remaining_node_counts_all_merged_nodes():
    recording = planned(400).recording
    rows = check(recording)
    counts = copies(recording, rows, recording.end)
    final = recording.resolver(recording.end)
    slots = build_slots(recording)
    for node in {final.get(n, n) for n in range(len(recording.nodes))}:
        merged = [
            old
            for _, old, _ in recording.substitutions
            if final[old] == node and slots.of[old] != slots.of[node] and equal(recording, old, node, recording.end)
        ]
        assert counts.get(node, 1) == 1 + len(merged)
    assert max(counts.values()) > 1


@pytest.mark.spec("V-4")
def test_repeated_merges_count_for_both_nodes():
    make = sample.Builder()
    row = make.type(4)
    x = make.leaf("x", row)
    nodes = [make.node("tanh", x, type=row) for _ in range(3)]
    make.stage("dedup", "rewrite")
    for old, new in ((nodes[2], nodes[1]), (nodes[1], nodes[0])):
        make.decide("Dedup", "same", "equal", (old,), (new,), replace=[(old, new)])
    recording = make.roots(nodes[0])
    rows = merges(recording, build_slots(recording))
    assert [copies(recording, rows, position).get(nodes[1], 1) for position in (0, 1)] == [1, 2]
    assert copies(recording, rows, 2)[nodes[0]] == 3
