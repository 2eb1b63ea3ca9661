"""Texts of closed boxes that contain only rows of batches."""

from __future__ import annotations

from collections import Counter
from contextlib import ExitStack

import numpy as np
import pytest

import explorer as ex
from explorer.plan.passes.batch import Batch
from explorer.view.layout.placed_model import draw
from explorer.view.model.labels import now_text
from explorer.view.payload.view_payload import replay_json
from explorer.view.replay import batch_rows
from explorer.view.replay.batch_rows import row_text, row_texts
from explorer.view.replay.contents import batched
from tests.support.loops import recorded
from tests.support.programs import prepared
from tests.view import sample


def _slots_inside(tree, box):
    results, waiting = [], [box]
    for each in waiting:
        for kind, index in tree.boxes[each].items:
            (results if kind == "slot" else waiting).append(index)
    return results


@pytest.mark.spec("P-4", "V-4")
@pytest.mark.parametrize("name", ["plain", "calls", "few"])
def test_the_text_counts_the_remaining_rows(name):
    """At the end of each stage only recorded boxes without own nodes have a text, which counts their rows."""
    recording = recorded(name)
    model = draw(recording).model
    nodes, batching = recording.nodes, batched(recording)
    texts = row_texts(recording, model.slots, model.tree)
    seen = set()
    for position in {stage.last for stage in recording.stages}:
        for box in range(len(model.tree.boxes)):
            members = [node for slot in _slots_inside(model.tree, box) for node in model.slots.nodes[slot]]
            later = [nodes.born[node] >= position and nodes.born[node] not in batching for node in members]
            current = [n for n in members if nodes.born[n] < position and not 0 <= nodes.gone[n] < position]
            rows = all(nodes.born[node] in batching for node in current) and not any(later)
            recorded_here = any(nodes.born[node] < 0 for node in members)
            expected = now_text(Counter(nodes.label[n] for n in current)) if current and rows and recorded_here else ""
            assert row_text(texts, box, position) == expected
            seen.add(expected)
    assert any(text.startswith("now ") for text in seen)
    assert "" in seen


@pytest.mark.spec("V-1", "V-4")
def test_the_payload_contains_these_texts():
    recording = recorded("plain")
    model = draw(recording).model
    texts = row_texts(recording, model.slots, model.tree)
    sent = replay_json(recording, model)["rows"]
    assert sent == [[box, position, text] for box, rows in texts.items() for position, text in rows] != []


def _nested(depth, **options):
    """Return the plan of nested scopes, each with a batch of sixteen products and their rows."""
    outputs = []
    with ExitStack() as scopes:
        for width in range(2, depth + 2):
            scopes.enter_context(ex.scope(f"s{width}"))
            weight = ex.tensor(np.ones((8, width), np.float32))
            outputs += [ex.tanh(ex.tensor(np.full(8, float(sample), np.float32)) @ weight) for sample in range(16)]
    return prepared(*outputs, record="off", **options).recording


def _counted(recording, monkeypatch):
    """Return the texts, and the number of labels counted for them."""
    steps = 0

    class Counting(Counter):
        def update(self, other=None, /, **more):
            nonlocal steps
            steps += len(other or ())
            super().update(other, **more)

        def __setitem__(self, label, count):
            nonlocal steps
            steps += 1
            super().__setitem__(label, count)

    model = draw(recording).model
    monkeypatch.setattr(batch_rows, "Counter", Counting)
    texts = row_texts(recording, model.slots, model.tree)
    return texts, steps


def test_counting_nested_boxes_takes_linear_time(monkeypatch):
    """Four times the depth takes four times as many labels; a walk outwards from each row would take sixteen times."""
    steps = [_counted(_nested(depth), monkeypatch)[1] for depth in (25, 100)]
    assert steps[0] > 25
    assert steps[1] < 5 * steps[0]


def test_a_stage_without_changed_rows_counts_nothing(monkeypatch):
    def run(self, graph):
        """Do not change the graph."""

    short, few = _counted(_nested(10), monkeypatch)
    idle = [
        type(f"Idle{number}", (ex.Pass,), {"__doc__": "Do nothing.", "name": f"idle{number}", "run": run})()
        for number in range(6)
    ]
    passes = ex.default_passes()
    after_batch = next(place for place, step in enumerate(passes, 1) if isinstance(step, Batch))
    long, more = _counted(_nested(10, passes=[*passes[:after_batch], *idle, *passes[after_batch:]]), monkeypatch)
    assert [[text for _, text in rows] for rows in long.values()] == [[t for _, t in rows] for rows in short.values()]
    assert few == more > 0


def test_without_batches_there_are_no_texts():
    model = draw(sample.transformer(2)).model
    assert row_texts(model.recording, model.slots, model.tree) == {}
