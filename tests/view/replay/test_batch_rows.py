"""What a closed box says while only rows of batches stand in it."""

from __future__ import annotations

from collections import Counter

import pytest

from explorer.view.layout.box_layout import draw
from explorer.view.model.labels import now_text
from explorer.view.payload.payload import replay_json
from explorer.view.replay.batch_rows import row_text, row_texts
from explorer.view.replay.contents import batched
from tests.support.loops import recorded
from tests.view import sample


def _slots_inside(tree, box):
    found, waiting = [], [box]
    for each in waiting:
        for kind, index in tree.boxes[each].items:
            (found if kind == "slot" else waiting).append(index)
    return found


@pytest.mark.spec("P-4", "V-4")
@pytest.mark.parametrize("name", ["plain", "calls", "few"])
def test_the_text_counts_the_rows_that_are_left(name):
    """At the end of each stage, a recorded box without own nodes says what stands in it, and no other one does."""
    recording = recorded(name)
    model = draw(recording).model
    nodes, made = recording.nodes, batched(recording)
    texts = row_texts(recording, model.slots, model.tree)
    spoken = set()
    for position in {stage.last for stage in recording.stages}:
        for box in range(len(model.tree.boxes)):
            members = [node for slot in _slots_inside(model.tree, box) for node in model.slots.nodes[slot]]
            ahead = [nodes.born[node] >= position and nodes.born[node] not in made for node in members]
            standing = [n for n in members if nodes.born[n] < position and not 0 <= nodes.gone[n] < position]
            rows = all(nodes.born[node] in made for node in standing) and not any(ahead)
            recorded_here = any(nodes.born[node] < 0 for node in members)
            expected = (
                now_text(Counter(nodes.label[n] for n in standing)) if standing and rows and recorded_here else ""
            )
            assert row_text(texts, box, position) == expected
            spoken.add(expected)
    assert any(text.startswith("now ") for text in spoken)
    assert "" in spoken


@pytest.mark.spec("V-1", "V-4")
def test_the_page_is_sent_these_texts():
    recording = recorded("plain")
    model = draw(recording).model
    texts = row_texts(recording, model.slots, model.tree)
    sent = replay_json(recording, model)["rows"]
    assert sent == [[box, position, text] for box, rows in texts.items() for position, text in rows] != []


def test_without_batches_there_are_no_such_texts():
    model = draw(sample.transformer(2)).model
    assert row_texts(model.recording, model.slots, model.tree) == {}
