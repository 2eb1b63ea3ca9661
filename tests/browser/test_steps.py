"""Incremental steps give the same scene as building it from scratch, and update only changed parts."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest

import explorer as ex
from explorer.record import Recording
from explorer.view.layout.placed_model import draw
from explorer.view.payload.view_payload import payload
from tests.golden.programs import PROGRAMS, recorded
from tests.support.cells import MODELS
from tests.support.large import flat, planned
from tests.support.representatives import representatives
from tests.view import sample
from tests.view.random_recordings import random_recording

pytestmark = [pytest.mark.browser, pytest.mark.spec("V-1", "V-13")]

WALK = """(explorer, [payload, turns]) => {
    const view = explorer.mount(document.body, payload);
    document.body.firstElementChild.style.width = "1200px";
    const sorted = (map) => [...map].sort(([one], [other]) => (one < other ? -1 : 1));
    const rows = ({ slots, boxes, frames, edges, moves, attention, drawn }) => JSON.stringify({
        slots: sorted(slots), boxes: sorted(boxes), frames: sorted(frames), edges: sorted(edges),
        moves, attention, drawn,
    }, (name, value) => (name === "group" ? undefined : value));
    const parts = "[data-key], .ex-edge, .ex-frame, .ex-frame-label, text";
    const elements = () => [...view.canvas.root.querySelectorAll(parts)]
        .filter((element) => !element.closest(".ex-none")).map((element) => element.outerHTML).sort().join("\\n");
    const found = { wrong: [], steps: 0 };
    for (const { step, open, anew, selected, measure } of turns) {
        if (measure !== null) view.heat.choose(["", ...view.heat.known][measure % (view.heat.known.length + 1)]);
        if (selected !== null) view.selection.select(selected);
        if (open) {
            view.open = new Set(open);
            view.chosen = new Set(open);
            view.replace();
        }
        const before = view.scene.number;
        view.step(step);
        found.steps += view.scene.changes.since === before ? 1 : 0;
        const { trace, timeline, paths, now, placement, scene } = view;
        const other = new view.sceneBuilder.constructor(trace, timeline, paths).scene(now, placement);
        if (rows(scene) !== rows(other)) found.wrong.push(["scene", now.step, rows(scene), rows(other)]);
        if (!anew) continue;
        const drawn = elements();
        view.canvas.shown = null;
        view.heat.kept = null;
        view.totals.position = -1;
        view.show();
        if (elements() !== drawn) found.wrong.push(["drawing", now.step, drawn, elements()]);
    }
    view.destroy();
    return found;
}"""


def walk(module: Callable[[str, Any], Any], recording: Recording, seed: int, length: int) -> int:
    """Take random steps and compare each scene with a new one; return the steps that were not jumps."""
    pick = random.Random(seed)
    boxes = draw(recording).model.tree
    turns = []
    by = 1
    for turn in range(length):
        by = -by if pick.random() < 0.2 else by
        # Sometimes jump further, which builds the scene from scratch.
        step = by if pick.random() < 0.95 else pick.randrange(-40, 41)
        wanted = [*boxes.bodies, *(box for box in range(len(boxes.boxes)) if pick.random() < 0.6)]
        chosen = pick.randrange(-1, len(recording.nodes)) if pick.random() < 0.1 else None
        measure = pick.randrange(9) if turn == 0 or pick.random() < 0.05 else None
        turns.append(
            {
                "step": step,
                "open": wanted if pick.random() < 0.03 else None,
                "anew": turn % 2 == 0,
                "selected": chosen,
                "measure": measure,
            }
        )
    result = module(WALK, [payload(recording, position=pick.randrange(recording.end + 1)), turns])
    for what, step, seen, expected in result["wrong"][:1]:
        assert seen == expected, (what, step)
    assert result["wrong"] == []
    return int(result["steps"])


@pytest.mark.parametrize("name", PROGRAMS)
def test_steps_through_programs_show_what_is_there(module, name):
    assert walk(module, recorded(name), 1, 200) > 40


def test_steps_through_a_run_show_what_is_there(module):
    """Use a program with kernels of several members, merged nodes, and values that die before the last kernel."""
    plan = ex.EvalPlan()
    for value in flat(80)[-3:]:
        plan.register(value)
    recording = plan.eval().recording
    assert any(kernel.frees for kernel in recording.schedule.kernels)
    assert recording.groups
    assert recording.run
    assert walk(module, recording, 2, 300) > 40


def pruned_later() -> Recording:
    """Return a plan whose stage removes replaced and merged nodes, which others read, only in later decisions."""
    make = sample.Builder("pruned later", "00aa")
    row = make.type(4, 4)
    x = make.leaf("x", row)
    first, second, third = (make.node(name, x, type=row) for name in ("exp", "exp", "tanh"))
    readers = [make.node("add", one, other, type=row) for one, other in ((first, second), (second, third), (third, x))]
    make.stage("recorded", "record")
    make.stage("rewrites", "rewrite")
    make.decide("Dedup", "same", "the same", (second,), (first,), replace=[(second, first)])
    new = make.node("log", x, type=row, born=make.next_decision())
    make.decide("Rule", "better", "better", (third,), (new,), replace=[(third, new)])
    make.decide("Rule", "no", "not here", readers[:2], applied=False)
    for node in (third, second):
        make.recording.nodes.gone[node] = -1
    make.decide("Prune", "unread", "nobody reads it", (third,), gone=(third,))
    make.decide("Prune", "unread", "nobody reads it", (second,), gone=(second,))
    make.decide("Rule", "no", "not here", readers[1:], applied=False)
    return make.roots(*readers)


def test_steps_over_what_is_taken_away_later_show_what_is_there(module):
    assert walk(module, pruned_later(), 5, 120) > 40


def test_steps_through_a_sample_show_what_is_there(module):
    assert walk(module, sample.mlp(), 2, 200) > 40


@pytest.mark.parametrize("name", representatives(["resnet18", "encoder"], ["encoder"]))
def test_steps_through_models_show_what_is_there(module, name):
    assert walk(module, ex.open(MODELS / f"{name}.pnnx.param").preview_plan().recording, 3, 150) > 40


@pytest.mark.parametrize("seed", representatives(range(24), range(4)))
def test_steps_through_random_stories_show_what_is_there(module, seed):
    assert walk(module, random_recording(seed), seed, 120) > 20


VISITS = """(explorer, payload) => {
    const view = explorer.mount(document.body, payload);
    view.opening.all(true);
    const visits = [];
    for (const { start, end } of view.timeline.stages) {
        if (end - start < 3) continue;
        const middle = start + ((end - start) >> 1);
        view.go(middle - 5);
        for (let turn = 0; turn < 10; turn++) {
            const { step, stage } = view.now;
            const before = view.sceneBuilder.visited;
            view.step(turn < 5 ? 1 : -1);
            if (view.now.stage === stage) visits.push(view.sceneBuilder.visited - before);
        }
    }
    view.destroy();
    return visits;
}"""


def test_a_step_looks_at_as_many_slots_in_a_large_graph_as_in_a_small_one(module):
    """Count the updated slots, not the time."""
    most = {}
    for count in (300, 3000):
        visits = module(VISITS, payload(planned(count).recording))
        assert len(visits) > 20
        most[count] = sorted(visits)[len(visits) * 9 // 10]
    assert most[3000] <= 40
    assert most[3000] <= 4 * most[300]
