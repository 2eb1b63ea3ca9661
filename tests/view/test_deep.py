"""Linear time of pictures with deeply nested scopes, and with many batches side by side."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

import numpy as np
import pytest

import explorer as ex
from explorer.view.layout.placed_model import draw
from explorer.view.model.picture_model import build_model
from explorer.view.payload.view_payload import layout_json, payload
from explorer.view.picture.svg import svg
from explorer.view.tree.box_tree import Box, BoxItem, Tree
from explorer.view.tree.topological import levels
from tests.support.large import read_at_random
from tests.support.programs import prepared

SIZES = (400, 1600)


class Counting(list[Box]):
    """List of boxes that counts look-ups."""

    looked_up = 0

    def __getitem__(self, index: Any) -> Any:
        self.looked_up += 1
        return super().__getitem__(index)


def nested(depth: int) -> ex.EvalPlan:
    """Return the plan of scopes nested in each other, each with an operation."""
    y: ex.Expr = ex.tensor(np.ones(2))
    with ExitStack() as scopes:
        for index in range(depth):
            scopes.enter_context(ex.scope(f"s{index}"))
            y = ex.tanh(y)
    return prepared(y, record="off")


def random_program(count: int) -> ex.EvalPlan:
    """Return a plan with many small batches in one box: equal operations on recent results."""
    chance = random.Random(7)
    values: list[ex.Expr] = [ex.tensor(np.full((4, 4), 0.5), name=f"x{index}") for index in range(8)]
    while len(values) < count:
        one, other = chance.choice(values[-40:]), chance.choice(values[-40:])
        values.append(one + other if chance.random() < 0.5 else chance.choice((ex.tanh, ex.sin, ex.relu))(one))
    return prepared(*values, record="off")


def test_drawing_nested_scopes_takes_linear_time() -> None:
    """Four times the depth takes four times as many steps; walks to the outermost box would take sixteen times."""
    steps = []
    for depth in SIZES:
        recording = nested(depth).recording
        drawing = draw(recording)
        boxes = drawing.model.tree.boxes = Counting(drawing.model.tree.boxes)
        payload(recording, position=0, drawing=drawing)
        svg(recording, drawing=drawing)
        steps.append(boxes.looked_up)
    assert steps[0] > SIZES[0]
    assert steps[1] < 5 * steps[0]


@pytest.mark.spec("V-7")
@pytest.mark.parametrize("make", [random_program, read_at_random])
def test_boxes_of_many_batches_form_no_cycle(make: Callable[[int], ex.EvalPlan]) -> None:
    """Batches in one box, and consecutive equal boxes, read each other only directly and not through outside items."""
    recording = make(1600).recording
    drawn = build_model(recording)
    assert len({batch for box in drawn.tree.boxes for batch in box.batches}) >= 20
    for box, edges in zip(drawn.tree.boxes, drawn.edges, strict=True):
        assert min(levels(len(box.items), edges)) >= 0, box.label


def test_many_batches_rewrite_only_moved_items(monkeypatch: pytest.MonkeyPatch) -> None:
    """Items that stay in a box are not written again for every other batch."""
    moved = 0
    hold = Tree.set_items

    def counted(self: Tree, box: int, items: list[BoxItem]) -> None:
        nonlocal moved
        moved += len(items)
        hold(self, box, items)

    monkeypatch.setattr(Tree, "set_items", counted)
    counts = []
    for size in SIZES:
        recording = random_program(size).recording
        moved = 0
        draw(recording)
        counts.append(moved)
    assert any(group.kind == "batch" for group in recording.groups)
    assert counts[1] < 6 * counts[0]


class CountingRows(list[list[tuple[int, int, int, int]]]):
    """List of rows of edges that counts the edges it returns."""

    handed_out = 0

    def __getitem__(self, index: Any) -> Any:
        row = super().__getitem__(index)
        self.handed_out += len(row)
        return row


@pytest.mark.spec("V-7")
def test_edges_are_read_once_for_all_their_boxes() -> None:
    """Each edge is read once for graph, route, label, port and payload, also if there are many ports."""
    program = fans()
    drawing = draw(program.recording)
    ports = drawing.model.ports
    assert sum(counts != (1, 1) for counts in ports.counts) >= 20
    count = sum(map(len, ports.edges))
    edges = ports.edges = CountingRows(ports.edges)
    payload(program.recording, position=0, drawing=drawing)
    assert count <= edges.handed_out <= 5 * count


@pytest.mark.spec("V-7")
def test_a_plain_curve_is_not_in_the_payload() -> None:
    """For a box with very many edges the payload contains only its items, which determine the ends of edges."""
    drawing = draw(read_at_random(1600).recording)
    shipped = [edge for box in layout_json(drawing.model.recording, drawing)["boxes"] for edge in box["edges"]]
    assert all(route or names for _, _, route, _, _, *names in shipped)
    assert len(shipped) < sum(map(len, drawing.model.ports.edges)) / 2


def fans() -> ex.EvalPlan:
    """Return the plan of different scopes, each with two unrelated values."""
    kinds = (ex.tanh, ex.exp, ex.sin, ex.cos, ex.relu)
    values = []
    for one, other in itertools.product(kinds, kinds):
        x, y = ex.tensor(np.ones(2)), ex.tensor(np.ones(3))
        with ex.scope(f"{one.name} {other.name}"):
            values += [one(x), other(y)]
    return prepared(*values, record="off", without=["batch"])
