"""The layout of the recorded graph, which has no space for what passes add later."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from itertools import combinations, pairwise
from typing import Any

import pytest

import explorer as ex
from explorer.view.layout.layout_engine import COMPACT, RANK_GAP, Placed
from explorer.view.layout.placed_model import PlacedModel, draw
from explorer.view.layout.placement import compose
from explorer.view.picture.svg import svg
from tests.bench.graphs import attention, control, five, loss, samples, scan, training, tree
from tests.view import sample
from tests.view.random_recordings import random_recording


@cache
def drawing(name: str) -> PlacedModel:
    """Return the drawing of a program that passes change."""
    builders = {"loss": loss, "samples": samples, "tree": tree}
    return draw(builders[name]().recording)


@pytest.mark.spec("V-24")
@pytest.mark.parametrize("name", ["loss", "samples", "tree"])
def test_the_recorded_graph_takes_less_space_than_the_graph_of_all_steps(name: str) -> None:
    placed = drawing(name)
    opened = placed.layouts.opened()
    before, after = (compose(placed.model, layouts, opened) for layouts in (placed.recorded, placed.layouts))
    assert before.size[0] * before.size[1] < 0.6 * after.size[0] * after.size[1]


@pytest.mark.parametrize("name", ["loss", "samples", "tree"])
def test_exactly_the_recorded_nodes_have_a_position(name: str) -> None:
    placed = drawing(name)
    recording, slots = placed.model.recording, placed.model.slots
    scene = compose(placed.model, placed.recorded, range(len(placed.layouts)))
    top = [members[0] for members in slots.nodes if recording.nodes.body[members[0]] == 0]
    assert set(scene.slots) == {slots.of[node] for node in top if recording.nodes.born[node] < 0}


@pytest.mark.parametrize("seed", range(12))
def test_items_of_the_recorded_layout_do_not_overlap(seed: int) -> None:
    placed = draw(random_recording(seed))
    scene = compose(placed.model, placed.recorded, placed.model.tree.bodies)
    rects = [*scene.slots.values(), *(rect for box, rect in scene.boxes.items() if box != 0)]
    for index, (x, y, wide, high) in enumerate(rects):
        for left, top, width, height in rects[:index]:
            assert x >= left + width or left >= x + wide or y >= top + height or top >= y + high


def test_the_layout_changes_with_the_first_decision_that_changes_the_graph() -> None:
    placed = drawing("loss")
    change = placed.model.first_change
    assert placed.at(change) is placed.recorded
    assert placed.at(change + 1) is placed.layouts


def test_a_graph_that_no_pass_changes_has_one_layout() -> None:
    x = ex.tensor([1.0, 2.0], name="x")
    placed = draw(ex.explore(x, run=False).recording)
    assert placed.model.first_change == -1
    assert placed.recorded is placed.layouts


def test_a_static_picture_of_the_recorded_graph_is_smaller_too() -> None:
    recording = sample.mlp()
    first, last = (float(svg(recording, position).split('width="')[1].split('"')[0]) for position in (0, None))
    assert first < last


def same_order(placed: PlacedModel) -> tuple[int, int]:
    """Return how many pairs in the rows of recorded boxes have the same order later, and the number of pairs."""
    same = pairs = 0
    for before, after in zip(placed.recorded, placed.layouts, strict=True):
        recorded = [item for item, (_, _, wide, _) in enumerate(before.rects) if wide]
        for left, right in combinations(recorded, 2):
            if before.ranks[left] == before.ranks[right]:
                pairs += 1
                same += (before.x(left, 0, 0) < before.x(right, 0, 0)) == (after.x(left, 0, 0) < after.x(right, 0, 0))
    return same, pairs


@pytest.mark.parametrize("build", [five, training, attention, tree, scan, control], ids=lambda build: build.__name__)
def test_items_keep_their_sides_when_the_layout_changes(build: Callable[[], Any]) -> None:
    placed = draw(build().recording)
    same, pairs = same_order(placed)
    assert 2 * same > pairs


def test_a_mirror_image_exchanges_left_and_right() -> None:
    placed = Placed((10, 6), [(2, 1), (7, 5)], [[2, 1, 3, 2, 6, 4, 7, 5]], ([2], [7, 9]))
    image = placed.mirrored()
    assert image == Placed((10, 6), [(8, 1), (3, 5)], [[8, 1, 7, 2, 4, 4, 3, 5]], ([8], [3, 1]))
    assert image.mirrored() == placed


def test_the_recorded_graph_has_no_space_for_numbers_and_titles() -> None:
    x = ex.tensor([1.0, 2.0], name="x")
    placed = draw(ex.explore(ex.tanh(ex.exp(x)), run=False).recording)
    assert placed.model.first_change >= 0
    gaps = [
        {low[1] - high[1] - high[3] for high, low in pairwise(layouts[0].rects)}
        for layouts in (placed.recorded, placed.layouts)
    ]
    assert gaps[0] == {COMPACT}
    assert min(gaps[1]) >= RANK_GAP
