"""The panel reuses unchanged parts between steps, and always equals a newly built panel."""

from __future__ import annotations

import random

import pytest
from playwright.sync_api import Page

import explorer as ex
from explorer.view.layout.placed_model import draw
from explorer.view.payload.script_bundle import stylesheet
from explorer.view.payload.view_payload import payload
from tests.browser.player import drawn, mount
from tests.golden.programs import recorded
from tests.support.large import flat
from tests.view import sample
from tests.view.random_recordings import random_recording

pytestmark = [pytest.mark.browser, pytest.mark.spec("V-13")]

WALK = """(explorer, [payload, turns]) => {
    const view = explorer.mount(document.body, payload);
    const { panel, search } = view.parts;
    const actions = panel.parts.actions;
    // Its list shows the rows around the decision that it showed last: those of a new panel may be others.
    const said = (panel) => {
        const copy = panel.root.cloneNode(true);
        for (const part of copy.querySelectorAll("[aria-label=decisions] ol, .ex-room")) part.remove();
        for (const part of copy.querySelectorAll("[tabindex]")) part.removeAttribute("tabindex");
        return copy.innerHTML;
    };
    const wrong = [];
    for (const [step, selected] of turns) {
        if (selected !== null) view.selection.select(selected);
        view.step(step);
        const { trace, timeline, sceneBuilder, totals, now, selection } = view;
        const other = new panel.constructor(trace, timeline, sceneBuilder, totals, actions);
        other.show(now, selection.node, selection.box, selection, view.prediction);
        if (said(panel) !== said(other)) wrong.push([now.step, said(panel), said(other)]);
    }
    view.destroy();
    return wrong;
}"""


def ran() -> ex.Recording:
    plan = ex.EvalPlan()
    for value in flat(60)[-3:]:
        plan.register(value)
    return plan.eval().recording


@pytest.mark.parametrize("name", ["mlp", "run", "declined", "random 3", "random 5"])
def test_the_panel_says_what_a_new_one_would(module, name):
    recordings = {"mlp": sample.mlp, "run": ran, "declined": lambda: recorded("declined")}
    recording = recordings[name]() if name in recordings else random_recording(int(name.split()[1]))
    pick = random.Random(name)
    turns = []
    for _ in range(100):
        step = pick.choice((1, 1, 1, -1)) if pick.random() < 0.9 else pick.randrange(-30, 31)
        turns.append([step, pick.randrange(-1, len(recording.nodes)) if pick.random() < 0.1 else None])
    held = payload(recording, position=pick.randrange(recording.end + 1), drawing=draw(recording))
    wrong = module(WALK, [held, turns])
    for step, seen, expected in wrong[:1]:
        assert seen == expected, step
    assert wrong == []


CHANGED = """(explorer, [payload, name]) => {
    const view = explorer.mount(document.body, payload);
    const { panel } = view.parts;
    view.goStage(name);
    view.step(2);
    const watch = new MutationObserver(() => {});
    watch.observe(panel.root, { childList: true, subtree: true });
    const rows = [];
    for (let turn = 0; turn < 8; turn++) {
        const before = new Map([...panel.root.children].map((part) => [part, part.outerHTML]));
        watch.takeRecords();
        view.step(1);
        const added = watch.takeRecords().flatMap(({ addedNodes }) => [...addedNodes]);
        const texts = [...before.values()];
        const isAgain = (part) => part.parentNode === panel.root && texts.includes(part.outerHTML);
        const kept = [...panel.root.children].filter((part) => before.has(part));
        rows.push({ kept: kept.length, again: added.filter(isAgain).length });
    }
    view.destroy();
    return rows;
}"""


@pytest.mark.parametrize("stage", ["fuse", "order"])
def test_a_step_leaves_parts_that_say_the_same_where_they_are(module, stage):
    """Count elements, not time: no element is removed from the panel and inserted again unchanged."""
    plan = ex.EvalPlan()
    for value in flat(60):
        plan.register(value)
    rows = module(CHANGED, [payload(plan.prepare().recording), stage])
    assert len(rows) == 8
    assert [row["again"] for row in rows] == [0] * 8
    assert all(row["kept"] >= 4 for row in rows), rows


def layouts(page: Page, steps: int) -> list[bool]:
    """Return for each layout during some steps whether it concerned only parts of the page."""
    session, events, ends = page.context.new_cdp_session(page), [], []
    session.on("Tracing.dataCollected", lambda part: events.extend(part["value"]))
    session.on("Tracing.tracingComplete", lambda end: ends.append(end))
    config = {"includedCategories": ["devtools.timeline"]}
    session.send("Tracing.start", {"transferMode": "ReportEvents", "traceConfig": config})
    for _ in range(steps):
        page.evaluate("view.step(1)")
        drawn(page)
    session.send("Tracing.end")
    while not ends:
        page.wait_for_timeout(20)
    return [event["args"]["beginData"]["partialLayout"] for event in events if event["name"] == "Layout"]


@pytest.mark.parametrize("stage", ["fuse", "order"])
def test_a_step_lays_out_parts_of_the_page(page, stage):
    """A step lays out only parts of the page. Anchored elements, such as a select's popup, would lay out all."""
    plan = ex.EvalPlan()
    for value in flat(300):
        plan.register(value)
    mount(page, payload(plan.prepare().recording))
    page.evaluate(f"view.goStage('{stage}')")
    page.evaluate("view.step(2)")
    page.wait_for_timeout(400)
    partial: list[bool] = []
    while len(partial) < 6:  # on a busy machine the trace may begin after the first steps
        partial += layouts(page, 6)
        assert page.evaluate("view.stageName") == stage
    assert all(partial)


REPAINT = """() => {
    const { style } = document.body;
    style.display = "none";
    document.body.getBoundingClientRect();
    style.display = "";
}"""


def test_a_sentence_leaves_nothing_behind(page):
    """Underlines of terms leave no painted traces after the sentence changes."""
    plan = ex.EvalPlan()
    for value in flat(60):
        plan.register(value)
    mount(page, payload(plan.prepare().recording))
    page.evaluate("view.goStage('order')")
    sentence = page.locator(".ex-say")
    for _ in range(4):
        page.evaluate("view.step(1)")
        stepped = sentence.screenshot()
        page.evaluate(REPAINT)
        assert sentence.screenshot() == stepped


def test_no_rule_looks_at_what_an_element_has_inside():
    """Browsers would check such a rule for every inserted or removed element."""
    assert ":has(" not in stylesheet()
