"""The panel describes a node as it is at the current stage, except under headings about later stages."""

import copy

import numpy as np
import pytest
from playwright.sync_api import expect

import explorer as ex
from explorer.record import Gradient, Recording
from explorer.view.payload.view_payload import payload
from tests.browser.player import heading, mount, node, press

pytestmark = pytest.mark.browser

LATER = ("later decisions about it", "its kernel in the final plan", "value in the run")
"""headings under which the panel shows later decisions and results"""

SAID = """(view, later) => {
  const said = [];
  let isLater = false;
  for (const part of view.querySelector(".ex-why").children) {
    if (part.tagName === "H5") isLater = later.some((words) => part.textContent.startsWith(words));
    if (!isLater) said.push(part.textContent);
  }
  return said;
}"""


def until(recording: Recording, stage: int) -> Recording:
    """Return the recording that a plan ending with the given stage would have."""
    position = recording.stages[stage].last
    short = copy.deepcopy(recording)
    nodes = short.nodes
    count = sum(born < position for born in nodes.born)
    assert all(born < position for born in nodes.born[:count])
    for name in ("operation", "kind", "label", "type", "operands", "scope", "source", "flops", "bytes"):
        del getattr(nodes, name)[count:]
    for name in ("born", "gone", "body", "callee"):
        del getattr(nodes, name)[count:]
    nodes.gone[:] = [gone if 0 <= gone < position else -1 for gone in nodes.gone]
    nodes.attributes = {row: values for row, values in nodes.attributes.items() if row < count}
    short.stages, short.decisions = short.stages[: stage + 1], short.decisions[:position]
    short.substitutions = [row for row in short.substitutions if row[0] < position]
    short.declined_edges = [row for row in short.declined_edges if row[0] < position]
    short.groups = [group for group in short.groups if group.decision < position]
    short.gradients = [
        Gradient(row.node, tuple(number for number in row.backward if number < count), ())
        for row in short.gradients
        if row.node < count
    ]
    leaves = {row for row, kind in enumerate(nodes.kind) if kind == "leaf"}
    values = short.run.values if short.run else {}
    short.leaf_values = {row: value for row, value in values.items() if row in leaves}  # these need no run
    short.schedule = short.run = None
    return short


@pytest.fixture(scope="module")
def recording():
    """Plan and run a loss with gradients, one of whose values is saved only after duplicates are merged."""
    x, w = ex.tensor(np.ones((3, 4)), name="x"), ex.tensor(np.ones((4, 2)), name="w")
    loss = ex.square(ex.tanh(x @ w)).sum() + ex.log(ex.exp(w)).sum()
    plan = ex.EvalPlan(record="values")
    for value in (loss, ex.grad(loss, w)):
        plan.register(value)
    plan.eval()
    return plan.recording


@pytest.mark.soak
@pytest.mark.spec("V-6", "V-7")
def test_what_is_said_of_a_node_at_a_stage_uses_nothing_that_comes_later(show, recording):
    """At every stage the panel of each node equals the panel in a plan that ended with this stage."""
    labels = [recording.label(number) for number in range(len(recording.nodes))]
    unique = [name for name in dict.fromkeys(labels) if labels.count(name) == 1 and name not in ("2",)]
    compared = 0
    for stage, chapter in enumerate(recording.stages):
        if chapter.kind not in ("record", "rewrite") or (chapter.first == chapter.last and stage):
            continue
        texts = []
        for each in (recording, until(recording, stage)):
            view = show(each)
            press(view, "Home", *["."] * min(chapter.last, chapter.first + 1))
            said = {}
            for name in unique:
                if node(view, name).count():
                    node(view, name).click(force=True)
                    said[name] = view.evaluate(SAID, list(LATER))
            texts.append(said)
        assert texts[0].keys() == texts[1].keys()
        for name, words in texts[0].items():
            assert words == texts[1][name], (chapter.name, name)
            compared += 1
    assert compared > 12


@pytest.mark.spec("V-6")
def test_values_saved_for_gradients_of_gradients_are_those_of_the_forward_pass(page):
    """At the end, every gradient, including second ones, reads the forward values that the recording saves for it."""
    x = ex.tensor(np.ones((2, 3)), name="x")
    loss = (ex.tanh(x) * ex.exp(x)).sum()
    slope = ex.grad(loss, x)
    plan = ex.EvalPlan(without=("simplify", "dedup"))
    for value in (loss, slope, ex.grad((slope * slope).sum(), x)):
        plan.register(value)
    recording = plan.prepare().recording
    mount(page, payload(recording, position=0))
    saved = page.evaluate(
        """(end) => {
            const links = window.view.parts.panel.parts.gradientLinks;
            return links.rows.map((row) => [...links.saved(row, links.trace.resolver(end), end)].sort((a, b) => a - b));
        }""",
        recording.end,
    )
    assert len(saved) == len(recording.gradients) > 4
    assert saved == [sorted(row.saved) for row in recording.gradients]


@pytest.mark.spec("V-6")
def test_a_value_is_tagged_as_saved_from_the_stage_on_at_which_it_is(show, recording):
    """The loss's square is saved for the gradient of tanh only after it was merged with the gradient's own square."""
    view = show(recording)
    press(view, "Home")
    node(view, "tanh").click()
    saved = heading(view, "saved for its gradient").locator("xpath=following-sibling::ul[1]")
    expect(saved).to_have_text("tanh")
    press(view, "]", "]")
    expect(view.locator(".ex-rail [aria-current]")).to_contain_text("dedup")
    node(view, "tanh").click()
    expect(saved).to_contain_text("square")
