"""Questions about two selected nodes: the panel gives the same answers as Python."""

import json
from pathlib import Path

import numpy as np
import pytest
from playwright.sync_api import expect

import explorer as ex
from explorer.record import Recording
from explorer.record.node_decisions import pair_answer
from explorer.view.payload.view_payload import payload
from explorer.view.tree.scopes import nodes_named
from tests.browser.player import box, node, press
from tests.golden.programs import recorded
from tests.support.toy_compiler import two_norms
from tests.view import sample

pytestmark = pytest.mark.browser

MODELS = Path(__file__).parents[2] / "assets" / "models"

ANSWERS = """(explorer, [payload, pairs]) => {
    const view = explorer.mount(document.body, payload);
    const answers = pairs.map(([one, other]) => {
        Object.assign(view.selection, { node: one, other });
        view.show();
        const all = (name) => [...view.root.querySelectorAll(".ex-why " + name)];
        return [all(".ex-card").map((card) => card.dataset.code), all(".ex-accounts li").map((row) => row.textContent)];
    });
    view.destroy();
    return JSON.stringify(answers);
}"""


def digits() -> Recording:
    """Return a net from a file, in which several operators have the same label."""
    return ex.open(MODELS.parent / "digits.onnx").preview_plan().recording


def likelihood() -> Recording:
    """Return a program in which a rule replaces an operation by one with another name."""
    x = ex.tensor(np.ones((32, 48), np.float32), name="x")
    plan = ex.EvalPlan()
    plan.register(ex.sum(ex.log(ex.softmax(x @ x.T))))
    return plan.prepare().recording


def quotient() -> Recording:
    """Return a program in which a rule replaces the reader of an exponential."""
    x = ex.tensor(np.ones((8, 8)), name="x")
    powers = ex.exp(x)
    plan = ex.EvalPlan()
    plan.register(ex.sum(x * ex.log(powers / ex.sum(powers))))
    return plan.prepare().recording


def products() -> Recording:
    """Return a program with several operations of one name, of which one has a variable of its own."""
    x = ex.tensor(np.ones((8, 8)), name="x")
    rows = ex.tanh(x @ x)
    for _ in range(2):
        rows = ex.tanh(rows @ x)
    last = rows @ x
    plan = ex.EvalPlan()
    plan.register(last)
    return plan.prepare().recording


@pytest.fixture(scope="module")
def program() -> Recording:
    """Return a softmax and a sum, each read by a product."""
    x = ex.tensor(np.ones((32, 48), np.float32), name="x")
    plan = ex.EvalPlan()
    both = ex.tanh(x) + x
    plan.register(ex.softmax(both) * ex.sum(both))
    plan.prepare()
    return plan.recording


@pytest.mark.spec("V-2")
@pytest.mark.parametrize(
    "make",
    [
        sample.mlp,
        lambda: recorded("perceptron"),
        lambda: recorded("declined"),
        digits,
        likelihood,
        quotient,
        products,
        two_norms,
    ],
)  # fmt: skip
def test_two_nodes_are_answered_for_as_in_python(module, make):
    """For every pair the panel shows the decisions and sentences that Python finds."""
    recording = make()
    nodes = [number for number in range(len(recording.nodes)) if recording.nodes.kind[number] != "constant"][:24]
    pairs = [(one, other) for one in nodes for other in nodes if one != other]
    answers = json.loads(module(ANSWERS, [payload(recording, position=0), pairs]))
    for (one, other), (codes, sentences) in zip(pairs, answers, strict=True):
        answer = pair_answer(recording, [one], [other])
        codes_wanted = [recording.decisions[number].code for number in (*answer.cards, *answer.further)]
        assert (codes, sentences) == (codes_wanted, answer.sentences), (one, other)


@pytest.mark.spec("Q-4", "X-9")
def test_nodes_of_two_boxes_in_the_same_kernels_share_a_sentence(show):
    recording = two_norms(is_refused=False)
    view = show(recording, position=0)
    box(view, "roots").click(position={"x": 20, "y": 8})
    box(view, "quotients").click(modifiers=["Shift"], position={"x": 20, "y": 8})
    sides = [nodes_named(recording, name) for name in ("roots", "quotients")]
    answer = pair_answer(recording, *sides)
    expect(view.locator(".ex-accounts li")).to_have_text(answer.sentences)
    expect(view.locator(".ex-accounts li").first).to_contain_text("Kernel 2 reads results of kernel 1 from memory")


@pytest.mark.spec("Q-4")
def test_two_boxes_are_answered_first_with_the_edge_between_them(show):
    """The decision that replaced the reader of both is folded after the edge that separates kernels."""
    view = show(ex.open(MODELS / "resnet18.pnnx.param").preview_plan().recording)
    for name, modifiers in (("convbn2d_0", []), ("maxpool", ["Shift"])):
        view.locator(f'.ex-graph .ex-closed[aria-label^="file {name}"]').click(modifiers=modifiers)
    expect(view.locator(".ex-why h4")).to_have_text("convbn2d_0 and maxpool")
    expect(view.locator(".ex-accounts li").first).to_contain_text(
        "max_pool2d (maxpool) reads the result of add (convbn2d_0)"
    )
    expect_folded(view)
    view.locator('.ex-graph .ex-closed[aria-label^="file maxpool"]').click()
    view.locator('.ex-graph .ex-closed[aria-label^="file layer1"]').click(modifiers=["Shift"])
    edge = view.locator(".ex-why h4 + .ex-edge-ends")
    expect(edge).to_contain_text("maxpool / relu → layer1 / 0")
    expect(view.locator(".ex-edge-ends + .ex-card").first).to_have_attribute("data-code", "other_consumers")
    expect_folded(view)


def expect_folded(view):
    """Check that the other decisions of an answer are hidden until the reader opens them."""
    fold = view.locator(".ex-why details.ex-fold")
    expect(fold.locator("summary").first).to_contain_text("other decisions:")
    expect(fold.locator(".ex-card").first).to_be_hidden()
    fold.locator("summary").first.click()
    expect(fold.locator(".ex-card").first).to_be_visible()


@pytest.mark.spec("V-2", "V-13")
def test_two_nodes_are_asked_about_by_shift_and_by_key(show, program):
    """Shift and a click, or y on the focused node, ask about it and the selected node; again ends the question."""
    view = show(program, position=0)
    node(view, "softmax").click()
    node(view, "multiply").click(modifiers=["Shift"])
    expect(view.locator(".ex-why .ex-card")).to_have_attribute("data-code", "producer")
    expect(view.locator(".ex-graph .ex-selected")).to_have_count(2)
    node(view, "multiply").click(modifiers=["Shift"])
    expect(view.locator(".ex-why h4")).to_have_text("softmax")
    node(view, "x").focus()
    view.page.keyboard.press("y")
    expect(view.locator(".ex-accounts li")).to_have_count(4)
    expect(view.locator(".ex-accounts li").first).to_contain_text("the first two that do not run in one kernel")
    expect(view.locator(".ex-accounts")).to_contain_text("softmax reads the result of x through")
    press(view, "Escape")
    expect(view.locator(".ex-graph .ex-selected")).to_have_count(0)


@pytest.mark.spec("V-2", "V-13")
def test_closed_boxes_are_asked_about_as_nodes_are(show):
    """A box represents the operations inside; either end of a pair may be a box, by click or key."""
    view = show(ex.open(MODELS / "convbn.pnnx.param").preview_plan().recording)
    first = view.locator(".ex-graph .ex-closed").first
    name = first.get_attribute("aria-label").split(",")[0].split(" ")[-1]
    first.click()
    node(view, "h").click(modifiers=["Shift"])
    expect(view.locator(".ex-why h4")).to_have_text(f"{name} and h")
    expect(view.locator(".ex-why .ex-card")).to_have_attribute("data-code", "epilogue")
    node(view, "h").click()
    first.click(modifiers=["Shift"])
    expect(view.locator(".ex-why h4")).to_have_text(f"h and {name}")
    expect(view.locator(".ex-graph .ex-selected")).to_have_count(2)
    first.click(modifiers=["Shift"])
    expect(view.locator(".ex-why h4")).to_have_text("h")
    expect(view.locator(".ex-graph .ex-selected")).to_have_count(1)


@pytest.mark.spec("Q-4")
def test_an_answer_about_two_nodes_ends_when_a_stage_is_chosen(show, program):
    """A click on a stage is another question, so the panel shows the stage; one selected node stays selected."""
    view = show(program)
    node(view, "tanh").click()
    view.locator(".ex-rail button").last.click()
    expect(view.locator(".ex-why h4")).to_have_text("tanh")
    node(view, "sum").click(modifiers=["Shift"])
    expect(view.locator(".ex-why h4")).to_have_text("tanh and sum")
    view.locator(".ex-rail button").first.click()
    expect(view.locator(".ex-why h4")).to_have_text("recorded")
