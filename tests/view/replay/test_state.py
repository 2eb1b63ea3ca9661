import pytest

from explorer.view.replay.state import state_at
from explorer.view.tree.slots import build_slots
from tests.view import sample


def state_after(name):
    """Return recording, slots and state after a stage of the small plan, and the labels of nodes and ghosts."""
    recording = sample.mlp()
    slots = build_slots(recording)
    stage = next(stage for stage in recording.stages if stage.name == name)
    state = state_at(recording, slots, stage.last)
    shown = sorted(recording.label(node) for node in state.shown.values())
    ghosts = sorted(recording.label(node) for node in state.ghosts.values())
    return recording, slots, state, shown, ghosts


@pytest.mark.spec("V-1")
def test_at_the_start_all_recorded_nodes_exist():
    _, _, state, shown, ghosts = state_after("recorded")
    assert shown == [
        "W",
        "add",
        "add",
        "b",
        "log",
        "matmul",
        "matmul",
        "multiply 1",
        "multiply 2",
        "nll",
        "softmax",
        "t",
        "tanh",
        "x",
    ]
    assert ghosts == []
    assert not state.copies
    assert not state.groups


@pytest.mark.spec("V-1")
def test_a_replacement_uses_the_slot_and_unused_nodes_become_ghosts():
    _, slots, state, shown, ghosts = state_after("simplify")
    assert "log-softmax" in shown
    assert "log" not in shown
    assert ghosts == ["multiply 1", "softmax"]
    assert set(state.shown) | set(state.ghosts) == set(range(len(slots.nodes)))


@pytest.mark.spec("V-1", "V-4")
def test_merging_moves_edges_and_counts_copies():
    recording, slots, state, _, ghosts = state_after("dedup")
    assert ghosts == ["matmul"]
    kept, merged = (slots.of[n] for n, name in enumerate(recording.nodes.label) if name == "matmul")
    reader = slots.of[recording.nodes.label.index("multiply")]
    assert state.copies == {kept: 2}
    assert (kept, reader) in state.edges
    assert (merged, reader) not in state.edges
    assert (merged, reader) in state.ghost_edges


@pytest.mark.spec("V-4")
def test_fused_groups_exist_from_their_decision_on():
    recording = sample.mlp()
    slots = build_slots(recording)
    fused = [group.decision for group in recording.groups]
    assert [
        len(state_at(recording, slots, position).groups) for position in (fused[0], fused[0] + 1, fused[1] + 1)
    ] == [0, 1, 2]


@pytest.mark.spec("V-4")
def test_a_group_that_grew_is_one_group():
    recording = sample.mlp()
    slots = build_slots(recording)
    first = recording.groups[0]
    grown = (*first.members, *recording.groups[1].members)
    recording.groups[1] = sample.Group(recording.groups[1].decision, "kernel", "all", grown)
    ((group, members),) = state_at(recording, slots, recording.end).groups
    assert group.label == "all"
    assert sorted(members) == sorted(slots.of[node] for node in grown)


@pytest.mark.spec("V-4")
def test_kernels_are_numbered_only_at_the_end():
    recording = sample.mlp()
    slots = build_slots(recording)
    numbers = state_at(recording, slots, recording.end).numbers
    assert [numbers[kernel.nodes[0]] for kernel in recording.schedule.kernels] == [1, 2, 3, 4]
    assert state_at(recording, slots, 0).numbers == {}


@pytest.mark.spec("V-1", "V-4")
def test_only_a_few_duplicates_remain_as_ghosts_at_the_end():
    make = sample.Builder()
    row = make.type(4)
    x = make.leaf("x", row)
    first, *copies = (make.node("tanh", x, type=row) for _ in range(6))
    unused = make.node("exp", x, type=row)
    total = make.node("sum", first, *copies, type=row)
    make.stage("dedup", "rewrite")
    make.decide("Dedup", "merged", "equal", copies, (first,), replace=[(copy, first) for copy in copies])
    make.stage("prune", "rewrite")
    make.decide("Prune", "unneeded", "not needed", (unused,), gone=[unused])
    recording = make.roots(total)
    slots = build_slots(recording)
    end = state_at(recording, slots, recording.end)
    assert list(end.ghosts.values()) == copies[:3]
    assert end.copies == {slots.of[first]: 6}
    assert len(state_at(recording, slots, 1).ghosts) == 5
