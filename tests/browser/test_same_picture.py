"""Comparison of the browser's replay and composition with the static picture's, moment by moment."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest

from explorer.record import Recording
from explorer.record.view_choices import Direction
from explorer.view.layout.placed_model import PlacedModel, draw
from explorer.view.layout.placement import compose
from explorer.view.payload.view_payload import payload
from explorer.view.picture.edges import visible_segments
from explorer.view.picture.kernel_outlines import closed_around, frames
from explorer.view.replay.contents import drawn_open, open_spans
from explorer.view.replay.state import state_at
from tests.golden.programs import recorded
from tests.support.large import read_at_random
from tests.support.representatives import representatives
from tests.view import sample
from tests.view.random_recordings import random_recording

pytestmark = pytest.mark.browser

SEEN = """(explorer, [payload, turns]) => {
    const view = explorer.mount(document.body, payload);
    const dead = new Set(["gone", "was"]);
    const seen = turns.map(([step, open, chosen]) => {
        view.open = new Set(open);
        view.chosen = new Set(chosen);
        view.now = view.timeline.at(step);
        view.replace();
        const { scene, placement, now } = view;
        const slots = [...scene.slots];
        const kept = slots.filter(([, mark]) => !dead.has(mark.state));
        const segments = [...scene.edges].map(([key, { state }]) => {
            const { points, arrow } = placement.segment(key);
            return [...key.split(":").map(Number), points, arrow, !dead.has(state)];
        });
        return {
            moment: [now.position, now.instant, now.decision, now.kernel, now.stage],
            size: placement.size,
            open: [...placement.composed.keys()],
            places: [...placement.slots],
            labels: [...placement.labels].map(([key, { point, side, slot }]) =>
                [...key.split(":").map(Number), point, side, slot]),
            boxes: [...placement.boxes],
            hidden: [...placement.hiddenIn],
            shown: kept.map(([slot, mark]) => [slot, mark.node]),
            ghosts: slots.filter(([, mark]) => dead.has(mark.state)).map(([slot, mark]) => [slot, mark.node]),
            copies: kept.filter(([, mark]) => mark.copies > 1).map(([slot, mark]) => [slot, mark.copies]),
            outputs: kept.filter(([, mark]) => mark.flags.includes("output")).map(([slot]) => slot),
            frames: [...scene.frames.values()].map(({ index, slots, boxes }) =>
                [index, slots, boxes, view.canvas.frame(index).shapes]),
            segments,
        };
    });
    view.destroy();
    return JSON.stringify(seen);
}"""


def moments(recording: Recording) -> list[tuple[int, int, int, int, int]]:
    """Return the position, instant, decision, kernel and stage of each step."""
    results = [(0, 1, -1, -1, 0)]
    picked = range(len(recording.schedule.kernels)) if recording.schedule else ()
    ran = [step.kernel for step in recording.run.steps] if recording.run else ()
    for number, stage in enumerate(recording.stages):
        decisions = range(stage.first, stage.last)
        results += [(decision + 1, 2 * decision + 2, decision, -1, number) for decision in decisions]
        instant = 2 * stage.last + (stage.first == stage.last)
        kernels = {"order": picked, "run": ran}.get(stage.kind, ())
        results += [(stage.last, instant, -1, kernel, number) for kernel in kernels]
    return results


def expected(placed: PlacedModel, position: int, is_open: set[int]) -> dict[str, Any]:
    """Return the static picture's contents at a position in the page's terms."""
    model, recording = placed.model, placed.model.recording
    state = state_at(recording, model.slots, position)
    scene = compose(model, placed.at(position), is_open)
    hidden = closed_around(model, scene)
    holders = [-1 if slot in scene.slots else hidden[box] for slot, box in enumerate(model.tree.box_of)]
    closed = scene.boxes.keys() - set(scene.ports)
    holders = [
        -2 if slot not in scene.slots and holder not in closed else holder for slot, holder in enumerate(holders)
    ]
    here = {slot for slot, holder in enumerate(holders) if holder > -2}
    return {
        "size": list(scene.size),
        "open": [box for box in scene.boxes if box in is_open],
        "places": rows(scene.slots),
        "labels": sorted([*label.key, [*label.point], label.side, label.slot] for label in scene.labels),
        "boxes": rows(scene.boxes),
        "hidden": holders,
        "shown": rows(here_only(state.shown, here)),
        "ghosts": rows(here_only(state.ghosts, here)),
        "copies": rows(here_only(state.copies, here)),
        "outputs": sorted(state.outputs & here),
        "frames": [
            [recording.groups.index(f.group), [*f.slots], [*f.boxes], [[*shape] for shape in f.shapes]]
            for f in frames(model, scene, state, is_open)
        ],
        "segments": sorted(
            [*s.key, s.points, s.arrow, is_alive] for s, is_alive in visible_segments(model, scene, state, is_open, 0)
        ),
    }


def here_only(found: dict[int, int], here: set[int]) -> dict[int, int]:
    return {slot: value for slot, value in found.items() if slot in here}


def rows(found: dict[int, Any]) -> list[list[Any]]:
    return [[key, [*value] if isinstance(value, tuple) else value] for key, value in sorted(found.items())]


def check(module: Any, recording: Recording, seed: int, count: int, direction: Direction = "down") -> None:
    """Compare some moments exactly, each with different open boxes."""
    pick = random.Random(seed)
    placed = draw(recording, direction)
    tree = placed.model.tree
    spans = open_spans(recording, placed.model.slots, tree)
    steps = moments(recording)
    chosen_steps = sorted(pick.sample(range(len(steps)), min(count, len(steps))))
    turns = []
    for step in chosen_steps:
        wanted = {*tree.bodies, *(box for box in range(len(tree.boxes)) if pick.random() < 0.7)}
        turns.append((step, wanted, {box for box in wanted if pick.random() < 0.3}))
    answers = module(
        SEEN, [payload(recording, position=0, drawing=placed), [[step, [*a], [*b]] for step, a, b in turns]]
    )
    for (step, wanted, chosen), seen in zip(turns, json.loads(answers), strict=True):
        position, instant, *_ = steps[step]
        assert seen["moment"] == [*steps[step]], step
        is_open = drawn_open(spans, wanted, instant) | chosen | {*tree.bodies}
        result = expected(placed, position, is_open)
        for part in ("places", "labels", "boxes", "open", "shown", "ghosts", "copies", "outputs", "segments"):
            seen[part] = sorted(seen[part])
        result["open"] = sorted(result["open"])
        if position == recording.end:  # at the end a static picture has different ghosts, a few duplicates
            for side in (seen, result):
                side["ghosts"] = []
                side["segments"] = [row for row in side["segments"] if row[7]]
        for part, value in result.items():
            assert seen[part] == value, (step, part)


@pytest.mark.spec("V-1", "V-4", "V-7")
@pytest.mark.parametrize("name", ["perceptron", "batch", "structured"])
def test_both_languages_replay_and_compose_programs_alike(module, name):
    check(module, recorded(name), 1, 40)


@pytest.mark.spec("V-1", "V-7")
@pytest.mark.parametrize("make", [lambda: recorded("perceptron"), sample.network, lambda: sample.transformer(3)])
def test_both_languages_compose_pictures_that_flow_to_the_right_alike(module, make):
    check(module, make(), 4, 12, "right")


@pytest.mark.spec("V-1", "V-4", "V-7")
@pytest.mark.parametrize("make", [sample.mlp, sample.network, lambda: sample.transformer(3)])
def test_both_languages_replay_and_compose_samples_alike(module, make):
    check(module, make(), 2, 40)


@pytest.mark.spec("V-1", "V-4", "V-7")
@pytest.mark.soak
def test_both_languages_draw_plain_curves_alike(module):
    """Edges of plainly laid out boxes have no routes, so they begin and end at the current positions of their items."""
    recording = read_at_random(1600).recording
    layouts = draw(recording).layouts
    assert sum(len(layout.routes) for layout in layouts if layout.routes and not any(layout.routes)) > 400
    check(module, recording, 3, 12)


@pytest.mark.spec("V-1", "V-4", "V-7")
@pytest.mark.parametrize("seed", representatives(range(24), range(4)))
def test_both_languages_replay_and_compose_random_stories_alike(module, seed):
    check(module, random_recording(seed), seed, 12)
