from __future__ import annotations

import itertools
import json
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given

import explorer as ex
from explorer.record import Recording
from explorer.view.layout.box_layout import Layouts, PassingEdges
from explorer.view.layout.graphviz_engine import dot
from explorer.view.layout.layout_engine import LayoutGraph, trunk
from explorer.view.layout.placed_model import draw
from explorer.view.layout.placement import Segment, compose
from explorer.view.model.picture_model import build_model
from explorer.view.picture.edges import visible_segments
from explorer.view.replay.contents import drawn_open, instant_at, open_spans
from explorer.view.replay.state import state_at
from tests.golden.programs import PROGRAMS, recorded
from tests.view import sample
from tests.view.random_graphs import graphs

ASSETS = Path(__file__).parents[3] / "assets"


def digits() -> Recording:
    return ex.open(ASSETS / "digits.onnx").plan((1, 1, 8, 8)).recording


RECORDINGS = {
    **{name: lambda name=name: recorded(name) for name in PROGRAMS},
    "mlp": sample.mlp,
    "transformer": lambda: sample.transformer(3),
    "digits": digits,
}


@pytest.mark.spec("V-1")
@given(graphs())
def test_a_trunk_enters_and_leaves_each_item_once_and_contains_all_chains(graph):
    straight = trunk(len(graph.sizes), graph.edges)
    for end in (0, 1):
        assert max(Counter(edge[end] for edge in straight).values(), default=0) <= 1
    readers, producers = Counter(tail for tail, _ in graph.edges), Counter(head for _, head in graph.edges)
    assert {(tail, head) for tail, head in graph.edges if readers[tail] == producers[head] == 1} <= straight


@pytest.mark.spec("V-1")
@given(graphs())
def test_items_do_not_overlap_and_are_below_their_producers(graph):
    placed = dot().place(graph)
    for (one, (wide, high)), (other, (wide2, high2)) in itertools.combinations(
        zip(placed.centres, graph.sizes, strict=True), 2
    ):
        assert abs(one[0] - other[0]) >= (wide + wide2) / 2 or abs(one[1] - other[1]) >= (high + high2) / 2
    assert all(placed.centres[tail][1] < placed.centres[head][1] for tail, head in graph.edges if min(tail, head) >= 0)


@pytest.mark.spec("V-1")
def test_the_deeper_operand_is_straight_and_arrives_in_the_middle():
    """The shortcut of a residual block arrives next to the straight line."""
    graph = LayoutGraph(((120, 40),) * 4, frozenset(), ((0, 1), (1, 2), (2, 3), (0, 3)))
    placed = dot().place(graph)
    assert len({x for x, _ in placed.centres}) == 1
    assert [len(set(route[::2])) for route in placed.routes[:3]] == [1, 1, 1]
    assert placed.routes[3][-2] != placed.routes[2][-2]


def is_straight(segment: Segment) -> bool:
    return all(abs(x - segment.points[0]) <= 1 for x in segment.points[::2])


def chain_segments(recording: Recording, position: int) -> list[Segment]:
    """Return the drawn edges between nodes that are each other's only producer and only reader."""
    placed = draw(recording)
    tree, slots = placed.model.tree, placed.model.slots
    wanted = {*tree.bodies, *(index for index, box in enumerate(tree.boxes) if box.open)}
    is_open = drawn_open(open_spans(recording, slots, tree), wanted, instant_at(recording, position))
    scene, state = compose(placed.model, placed.layouts, is_open), state_at(recording, slots, position)
    drawn = [segment for segment, alive in visible_segments(placed.model, scene, state, is_open, 0) if alive]
    leaving, arriving = Counter((s.box, s.start) for s in drawn), Counter((s.box, s.end) for s in drawn)
    return [s for s in drawn if leaving[s.box, s.start] == arriving[s.box, s.end] == 1]


@pytest.mark.spec("V-1")
def test_chains_are_straight_before_and_after_planning():
    results = [
        segment
        for make in RECORDINGS.values()
        for recording in [make()]
        for position in (0, recording.end)
        for segment in chain_segments(recording, position)
    ]
    straight = [segment for segment in results if is_straight(segment)]
    assert len(straight) >= 0.9 * len(results) > 60


@pytest.mark.spec("V-1")
def test_all_chains_of_a_network_with_a_residual_block_are_straight():
    recording = digits()
    for position in (0, recording.end):
        assert all(map(is_straight, chain_segments(recording, position)))


@pytest.mark.spec("V-1")
def test_an_edge_passes_straight_through_the_slot_of_a_moved_operation():
    """The relu between conv2 and pool is moved behind the pooling, so at the end an edge leads through its old slot."""
    recording = digits()
    model = build_model(recording)
    (edge,) = PassingEdges(model).of(0)
    names = [model.tree.boxes[model.tree.boxes[0].items[item].number].label for item in edge]
    assert names == ["conv2 / Conv", "pool / MaxPool"]
    layout = Layouts(model)[0]
    assert [route for pair, route in zip(model.edges[0], layout.routes, strict=True) if not route] == [[]]
    tail, head = (layout.rects[item] for item in edge)
    assert tail[0] + tail[2] // 2 == head[0] + head[2] // 2


def test_an_edge_around_an_operation_that_stays_does_not_pass_through_it():
    make = sample.Builder()
    kind = make.type(4)
    x = make.leaf("x", kind)
    once = make.node("tanh", x, type=kind)
    twice = make.node("add", once, x, type=kind)
    make.stage("recorded", "record")
    model = build_model(make.roots(twice))
    assert PassingEdges(model).of(0) == set()
    assert all(Layouts(model)[0].routes)


def test_layouts_of_passing_edges_are_the_same_each_time():
    recording = digits()
    once, again = ([*Layouts(build_model(recording))] for _ in range(2))
    assert json.dumps([layout.routes for layout in once]) == json.dumps([layout.routes for layout in again])


@pytest.mark.spec("V-24")
def test_a_value_with_many_readers_is_above_the_weights_of_its_readers():
    """Operands that only one node reads are next to it, and edges of a shared operand pass between them."""
    sizes = ((60, 30),) * 11
    edges = tuple(edge for reader in range(5) for edge in ((0, 6 + reader), (1 + reader, 6 + reader)))
    placed = dot().place(LayoutGraph(sizes, frozenset(), edges))
    (_, shared), *weights = placed.centres[:6]
    assert all(shared < y for _, y in weights)
    readers = placed.centres[6:]
    assert all(abs(weight[0] - reader[0]) < 85 for weight, reader in zip(weights, readers, strict=True))
