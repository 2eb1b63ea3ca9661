import json

import pytest

from explorer.view.payload.view_payload import layout_json, payload
from tests.support.unpacked import unpack
from tests.view import sample


def size(recording):
    return len(json.dumps(payload(recording), separators=(",", ":")).encode())


@pytest.mark.spec("V-1")
def test_it_is_json_with_the_tables_and_the_layout():
    recording = sample.mlp()
    whole = payload(recording, theme="dark", position=3, height=400)
    assert json.loads(json.dumps(whole)) == json.loads(json.dumps(whole))
    assert json.loads(json.dumps(unpack(whole["layout"]))) == json.loads(json.dumps(layout_json(recording)))
    assert len(unpack(whole["recording"])["decisions"]) == len(recording.decisions)
    assert whole["options"] == {"theme": "dark", "position": 3, "height": 400, "heat": ""}


@pytest.mark.spec("V-1", "V-7")
@pytest.mark.parametrize("make", [sample.mlp, sample.transformer, sample.resnet, sample.hostile])
def test_the_layout_follows_its_specification(make):
    layout = layout_json(make())
    boxes, slots = layout["boxes"], layout["slots"]
    assert layout["bodies"][0] == 0
    for number, box in enumerate(boxes):
        assert box["parent"] < number
        assert set(box) == {
            "kind", "label", "title", "text", "type", "count", "parent", "open", "layer", "family", "batches", "closed",
            "placed", "size", "ports", "items", "edges", "labels", "operator", "crossings", "recorded",
        }  # fmt: skip
        for side, slot, port in box["crossings"]:
            assert 0 < port < len(box["ports"][side])
            assert 0 <= slot < len(slots)
        for inside in filter(None, (box, box["recorded"])):
            _check_positions(inside, number, boxes)
    for slot in slots:
        assert len(slot["nodes"]) == len(slot["text"]) == len(slot["sizes"])
        assert all(row < len(layout["texts"]) for row in slot["text"])


def _check_positions(inside, number, boxes):
    """Check the positions in one of a box's layouts; items that have no position in it have no size."""
    wide, high = inside["size"]
    for item in inside["items"]:
        x, y, w, h = item["at"]
        assert 0 <= x <= x + w <= wide
        assert 0 <= y <= y + h <= high
        assert item["rank"] >= 0
        if "box" in item:
            assert [w, h] in ([0, 0], boxes[item["box"]]["closed"])
            assert boxes[item["box"]]["parent"] == number
    for start, end, route, out, into, *names in inside["edges"]:
        assert len(names) in (0, 2)
        assert 0 <= out < len(_ports(boxes, number, start, True))
        assert 0 <= into < len(_ports(boxes, number, end, False))
        assert -1 <= min(start, end) <= max(start, end) < len(inside["items"])
        assert len(route) % 6 == 2 or (route == [] and names)
        assert all(type(value) is int for value in route)


def test_a_slot_is_as_large_as_its_largest_node():
    layout = layout_json(sample.mlp())
    where = {item["slot"]: item["at"] for item in layout["boxes"][0]["items"]}
    (shared,) = [number for number, slot in enumerate(layout["slots"]) if len(slot["nodes"]) > 1]
    sizes = layout["slots"][shared]["sizes"]
    assert where[shared][2:] == [max(wide for wide, _ in sizes), max(high for _, high in sizes)]


def test_before_the_first_change_a_slot_is_as_large_as_its_recorded_node():
    layout = layout_json(sample.mlp())
    where = {item["slot"]: item["at"] for item in layout["boxes"][0]["recorded"]["items"]}
    assert all(where[number][2:] in ([0, 0], slot["sizes"][0]) for number, slot in enumerate(layout["slots"]))


def test_a_resnet_with_its_plan_is_small():
    assert size(sample.resnet()) <= 150_000


@pytest.mark.soak
@pytest.mark.spec("V-7")
def test_a_chain_of_a_hundred_thousand_nodes():
    layout = layout_json(sample.chain(100_000))
    assert len(layout["slots"]) == 100_001
    assert len(layout["boxes"][0]["items"]) == 2
    assert max(len(box["items"]) for box in layout["boxes"]) <= 60


@pytest.mark.spec("V-7")
def test_ten_thousand_nodes_without_scopes():
    layout = layout_json(sample.dag(10_000))
    assert 10 <= len(layout["boxes"][0]["items"]) <= 40
    assert max(len(box["items"]) for box in layout["boxes"]) <= 150


@pytest.mark.parametrize(("option", "message"), [({"theme": "blue"}, "not one of"), ({"position": 9}, "0 to 8")])
def test_invalid_options_are_rejected(option, message):
    with pytest.raises(ValueError, match=message):
        payload(sample.mlp(), **option)


def _ports(boxes, number, item, is_start):
    """Return the ports at an end of an edge: of the box's own border or of an inner box; one for a slot."""
    if item < 0:
        return boxes[number]["ports"][0 if is_start else 1]
    inner = boxes[number]["items"][item].get("box")
    return [0] if inner is None else boxes[inner]["ports"][1 if is_start else 0]
