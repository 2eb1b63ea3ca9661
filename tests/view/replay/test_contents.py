"""Intervals in which a box is drawn open, compared with the rule at every position of every stage."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import explorer as ex
from explorer.view.export.html_page import html
from explorer.view.folding.fold import fold
from explorer.view.model.picture_model import build_model
from explorer.view.replay import contents
from explorer.view.replay.contents import batched, drawn_open, instant_at, open_spans
from explorer.view.tree.box_tree import scope_tree
from explorer.view.tree.slots import build_slots
from tests.golden.programs import recorded
from tests.support.loops import recorded as looped
from tests.view import sample
from tests.view.random_recordings import random_recording


def inside(tree, box):
    """Return the slots in a box at any depth."""
    slots, boxes = [], [box]
    for each in boxes:
        for kind, number in tree.boxes[each].items:
            (slots if kind == "slot" else boxes).append(number)
    return slots


def standing(recording, slots, slot, position, first):
    """Return a slot's node in a stage that begins with decision ``first``, and whether the node is a ghost."""
    nodes, ghost = recording.nodes, -1
    for node in slots.nodes[slot]:
        if nodes.born[node] < position and (nodes.gone[node] < 0 or nodes.gone[node] >= position):
            return node, False
        if first <= nodes.gone[node] < position:
            ghost = node
    return ghost, True


class Rule:
    """Direct evaluation of the rule at one moment."""

    def __init__(self, recording):
        self.recording, self.slots = recording, build_slots(recording)
        self.tree = scope_tree(recording, self.slots)
        fold(recording, self.slots, self.tree)
        self.rows = batched(recording)
        boxes = self.tree.boxes
        self.first = [
            box.items[0].number if box.kind in ("stack", "repeat") and box.items[0].table == "box" else -1
            for box in boxes
        ]
        self.members = {*self.first, *(number for number, box in enumerate(boxes) if box.kind == "block")}
        self.slots_in = [inside(self.tree, box) for box in range(len(boxes))]

    def is_open(self, box, position, first):
        if self.tree.boxes[box].parent < 0:
            return True
        stays = {slot: standing(self.recording, self.slots, slot, position, first) for slot in self.slots_in[box]}
        full = self.is_full(box, stays)
        if self.first[box] >= 0:
            full = full and self.is_full(self.first[box], stays)
        is_batch = self.tree.boxes[box].kind == "batch"
        complete = max(self.tree.boxes[box].batches, default=-1) < position
        calls = any(not ghost and self.recording.nodes.kind[node] == "call" for node, ghost in stays.values())
        return full and not (is_batch and (calls or not complete))

    def is_full(self, box, stays):
        results = [stays[slot][0] for slot in self.slots_in[box] if stays[slot][0] >= 0]
        return any(self.works(node) for node in results) if box in self.members else bool(results)

    def works(self, node):
        nodes = self.recording.nodes
        return nodes.kind[node] in ("operation", "call") and nodes.born[node] not in self.rows


def check(recording):
    """Check every box at every moment of every stage and of the static picture; return the intervals."""
    rule = Rule(recording)
    spans = open_spans(recording, rule.slots, rule.tree)
    every = range(len(rule.tree.boxes))
    for stage in recording.stages:
        for position in range(stage.first, stage.last + 1):
            instant = 2 * position + (position == stage.first)
            wanted = {box for box in every if rule.is_open(box, position, stage.first)}
            assert drawn_open(spans, every, instant) == wanted, (stage.name, position)
    assert drawn_open(spans, every, instant_at(recording, recording.end)) == {
        box for box in every if rule.is_open(box, recording.end, recording.end)
    }
    return spans


@pytest.mark.spec("V-1", "V-7")
@pytest.mark.parametrize("name", ["batch", "perceptron"])
def test_intervals_match_the_rule(name):
    assert check(recorded(name))


@pytest.mark.spec("V-1", "V-7")
def test_boxes_of_batches_open_when_their_batch_is_complete():
    assert check(looped("plain"))


@pytest.mark.spec("V-1", "V-7")
def test_the_box_of_a_mapped_call_opens_when_it_is_inlined():
    """Before that, the box contains one call between the slots of its body's operations."""
    weight = ex.tensor(np.eye(4, dtype=np.float32))

    @ex.function
    def network(x):
        return ex.tanh(x @ weight) + x

    plan = ex.EvalPlan()
    plan.register(ex.sum(ex.stack(list(ex.map(network, [ex.tensor(np.ones((2, 4), np.float32)) for _ in range(9)])))))
    recording = plan.prepare().recording
    check(recording)
    model = build_model(recording)
    box = next(number for number, box in enumerate(model.tree.boxes) if box.kind == "batch")
    inlined = next(stage.last for stage in recording.stages if stage.name == "inline")
    spans = open_spans(recording, model.slots, model.tree)
    assert box not in drawn_open(spans, [box], 0)
    assert box in drawn_open(spans, [box], 2 * inlined)
    name, steps, _ = model.box_texts[box]
    assert name == "network ×9"
    assert steps == "reshape → matmul → reshape → tanh → add"


@pytest.mark.spec("V-1", "V-7")
@given(st.integers(0, 10_000))
def test_intervals_of_random_recordings_match_the_rule(seed):
    check(random_recording(seed))


def test_boxes_that_are_always_open_have_no_intervals():
    recording = sample.transformer(4)
    slots = build_slots(recording)
    assert open_spans(recording, slots, scope_tree(recording, slots)) == {}


def test_a_page_computes_intervals_once(monkeypatch):
    """The page's data and its picture share the intervals, which are computed from the whole graph."""
    calls = []
    walk = contents._inside
    monkeypatch.setattr(contents, "_inside", lambda *arguments: calls.append(1) or walk(*arguments))
    html(sample.resnet())
    assert len(calls) == 1
