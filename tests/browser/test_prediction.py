"""Prediction exercises: a stage's decisions are hidden, and the reader's answers are judged with reasons."""

import json

import numpy as np
import pytest
from playwright.sync_api import expect

import explorer as ex
from explorer.record import Recording
from explorer.view.payload.view_payload import payload
from explorer.view.replay.steps import predictable
from tests.browser.axe import complaints
from tests.browser.player import box, mount, node, on_edge, press, stage, tool
from tests.support.cells import MODELS
from tests.view import sample

pytestmark = [pytest.mark.browser, pytest.mark.spec("V-18")]

READINESS = """(explorer, payload) => {
    const view = explorer.mount(document.body, payload);
    const { trace } = view;
    view.prediction.begin();
    const prediction = view.prediction.order;
    const picks = trace.kernels.map(() => {
        const missing = trace.kernels.map((_, kernel) => (kernel >= prediction.next ? prediction.missing(kernel) : []));
        view.step(1);
        return missing;
    });
    view.destroy();
    return JSON.stringify(picks);
}"""


TRAIT = """(explorer, [payload, traits]) => {
    const model = { ...traits, payload: JSON.stringify(payload), listeners: {}, comm_live: true };
    const page = {
        get: (name) => model[name],
        set: (name, value) => void (model[name] = value),
        save_changes: () => {},
        on: (event, listener) => (model.listeners[event] = listener),
        off: () => {},
    };
    const end = explorer.default.render({ model: page, el: document.body, shared: page });
    const told = () => [document.querySelector(".ex-why h4").textContent, model.predicting, model.stage];
    const first = told();
    document.querySelector(".ex-stage").dispatchEvent(new KeyboardEvent("keydown", { key: "Escape", bubbles: true }));
    const second = told();
    model.predicting = true;
    model.listeners["change:predicting"]();
    const third = told();
    end();
    return [first, second, third];
}"""


SHOW = """
from explorer.view.widget.widget import GraphView
from tests.view import sample
view = GraphView(sample.mlp())
view
"""


@pytest.fixture(scope="module")
def program() -> Recording:
    """Return a kernel with two readers, which may run in either order, and a kernel that reads both."""
    x = ex.tensor(np.ones((32, 48), np.float32), name="x")
    plan = ex.EvalPlan()
    both = ex.tanh(x) + x
    plan.register(ex.softmax(both) * ex.sum(both))
    return plan.prepare().recording


def branches(lanes: int) -> Recording:
    """Return four chains of two kernels, and their sum."""
    x = ex.tensor(np.ones((40, 40)))
    plan = ex.EvalPlan(executor="dag" if lanes > 1 else "simple", without=["batch"], lanes=lanes)
    plan.register(ex.add_n(*[ex.cumsum(ex.cumsum(x * float(n + 2), 0), 1) for n in range(4)]))
    return plan.prepare().recording


@pytest.mark.parametrize("make", [lambda: branches(1), lambda: branches(2), sample.mlp])
def test_a_kernel_lacks_nothing_where_the_planner_had_it_ready_or_waiting(module, make):
    """For every pick, the kernels without unpicked operands are the ready and waiting kernels of the order."""
    recording = make()
    kernels = recording.schedule.kernels
    for pick, missing in enumerate(json.loads(module(READINESS, payload(recording, position=0)))):
        kernel = kernels[pick]
        assert (len(kernel.ready_candidates), len(kernel.waiting)) == (kernel.ready_count, kernel.waiting_count)
        known = {*kernel.ready_candidates, *kernel.waiting}
        for other in range(pick, len(kernels)):
            assert (kernels[other].nodes[-1] in known) is (not missing[other]), (pick, other)


def test_results_of_one_name_that_a_kernel_lacks_are_counted(show):
    x = ex.tensor(np.ones((32, 48), np.float32), name="x")
    plan = ex.EvalPlan(without=["batch"])
    plan.register(ex.sum(ex.cumsum(x, 0)) / ex.sum(ex.cumsum(x, 1)))
    view = show(plan.prepare().recording)
    tool(view, "predict what a stage decides").click()
    expect(stage(view)).to_contain_text("order")
    node(view, "divide").click()
    expect(view.locator(".ex-say")).to_contain_text("divide reads sum ×2, which have not run")


@pytest.mark.spec("V-18", headline=True)
def test_answers_are_judged_with_the_reason_and_counted(show, program):
    """Ask which node is evaluated next; each answer is judged with the reason, and only first answers count."""
    view = show(program)
    said = view.locator(".ex-say")
    tool(view, "predict what a stage decides").click()
    expect(stage(view)).to_contain_text("order")
    expect(view.locator(".ex-graph .ex-current, .ex-graph .ex-ready")).to_have_count(0)
    node(view, "softmax").click()
    expect(said).to_contain_text("softmax reads add, which has not run")
    node(view, "x").click()
    expect(said).to_contain_text("x exists before the run")
    node(view, "tanh").click()
    expect(said).to_contain_text("pick 2 of")
    expect(view.locator(".ex-score")).to_have_text("0 of 1 right at once.")
    second, third = (program.operations[program.nodes.operation[program.schedule.kernels[k].nodes[0]]] for k in (1, 2))
    node(view, third).click()
    expect(said).to_contain_text(f"{third} is ready, too")
    node(view, second).click()
    node(view, second).click()
    expect(said).to_contain_text("has run already")
    node(view, third).click()
    node(view, "multiply").click()
    expect(view.locator(".ex-score")).to_have_text("1 of 4 right at once.")


def test_the_order_is_predicted_by_keys_and_shown_again(show, program):
    """g begins, Enter answers, m marks ready kernels, a step shows the answer, Escape ends."""
    view = show(program)
    press(view, "g")
    said = view.locator(".ex-say")
    node(view, "add").focus()
    view.page.keyboard.press("Enter")
    expect(view.locator(".ex-score")).to_have_text("1 of 1 right at once.")
    press(view, "m")
    expect(view.locator(".ex-graph .ex-node.ex-ready")).to_have_count(2)
    press(view, ".")
    expect(said).to_contain_text("Shown")
    expect(view.locator(".ex-graph .ex-node.ex-ready")).to_have_count(0)
    expect(view.locator(".ex-score")).to_have_text("1 of 2 right at once.")
    press(view, "Escape")
    expect(view.locator(".ex-score")).to_have_count(0)
    expect(said).to_contain_text("runs as number 2")
    press(view, "g", "[")
    expect(said).not_to_contain_text("The order is hidden")
    expect(view.locator(".ex-why h4")).to_have_text("fuse")


@pytest.fixture
def fusing(show, program):
    """Return a view of the fuse stage with its decisions hidden."""
    view = show(program)
    view.get_by_role("button", name="fuse").first.click()
    press(view, "g")
    expect(view.locator(".ex-why h4")).to_have_text("predict what is fused")
    return view


def together(recording, *names):
    """Return whether the named operations run as one kernel."""
    members = [
        {recording.operations[recording.nodes.operation[n]] for n in kernel.nodes}
        for kernel in recording.schedule.kernels
    ]
    return any(set(names) <= kernel for kernel in members)


def test_what_is_fused_is_asked_edge_by_edge_and_judged_by_the_planners_reason(fusing, program):
    """Nothing is fused at first; each answer shows the decision, its sentence is the reason, and the score adds up."""
    view, said = fusing, fusing.locator(".ex-say")
    expect(view.locator(".ex-graph .ex-frame")).to_have_count(0)
    right = 0
    for question in range(1, 6):
        expect(said).to_contain_text(f"predict {question} of 5")
        names = [view.locator(".ex-lit-asked .ex-name").nth(end).text_content().split(" = ")[-1] for end in (0, 1)]
        answer = question != 2
        press(view, "y" if answer else "n")
        correct = together(program, *names) == answer
        right += correct
        expect(said).to_contain_text("Right." if correct else "No.")
        expect(view.locator(".ex-score")).to_have_text(f"{right} of {question} right at once.")
    expect(said).to_contain_text("all 5 settled")
    expect(view.locator(".ex-graph .ex-frame")).to_have_count(1)
    expect(view.locator(".ex-lit-asked")).to_have_count(0)
    press(view, "Escape")
    expect(view.locator(".ex-score")).to_have_count(0)


def test_an_edge_ahead_is_asked_for_by_a_click_on_it_or_on_a_node(fusing):
    """The clicked edge is judged at once, and then the previous question continues."""
    view, said = fusing, fusing.locator(".ex-say")
    node(view, "tanh").click()
    expect(said).to_contain_text("Will tanh and add run as one kernel?")
    press(view, "y")
    expect(said).to_contain_text("Right. tanh and add run as one kernel")
    expect(view.locator(".ex-score")).to_have_text("1 of 1 right at once.")
    expect(view.locator(".ex-graph .ex-frame")).to_have_count(0)
    node(view, "tanh").focus()
    view.page.keyboard.press("Enter")
    expect(said).to_contain_text("tanh and add run as one kernel: ")
    view.page.mouse.click(*on_edge(view, "sum", "multiply"))
    expect(said).to_contain_text("Will sum and multiply run as one kernel?")
    view.get_by_role("button", name="apart").click()
    expect(view.locator(".ex-score")).to_have_text("2 of 2 right at once.")
    view.page.mouse.click(*on_edge(view, "x", "tanh"))
    expect(said).to_contain_text("no decision about this edge")
    expect(view.locator(".ex-score")).to_have_text("2 of 2 right at once.")


def test_each_question_about_an_edge_is_in_sight(page):
    """The edge of the question is visible at the beginning, whatever the view showed, and after each answer."""
    mount(page, payload(ex.open(MODELS / "encoder.pnnx.param").preview_plan().recording))
    view = page.locator(".explorer-view")
    press(view, "/", *"softmax", "Enter", "Escape")
    view.get_by_role("button", name="fuse").first.click()
    press(view, "g")
    for key in ("y", "n", ".", "n", ".", "y"):
        assert page.evaluate(UNSEEN) == []
        page.keyboard.press(key)


UNSEEN = """() => {
    const { camera, placement, prediction } = window.view;
    const [x, y, wide, high] = camera.sight();
    const isSeen = ([left, top, w, h]) => left >= x && top >= y && left + w <= x + wide && top + h <= y + high;
    return [...prediction.exercise.marked().slots.keys()].filter((slot) => !isSeen(placement.shows(slot)));
}"""


def test_a_step_shows_what_is_fused_and_another_stage_ends_it(fusing):
    view, said = fusing, fusing.locator(".ex-say")
    press(view, ".")
    expect(said).to_contain_text("Shown: ")
    expect(view.locator(".ex-score")).to_have_text("0 of 1 right at once.")
    view.get_by_role("button", name="show the answer").click()
    expect(view.locator(".ex-score")).to_have_text("0 of 2 right at once.")
    assert complaints(view.page) == []
    press(view, "]")
    expect(stage(view)).to_contain_text("order")
    expect(view.locator(".ex-score")).to_have_count(0)
    press(view, "g")
    expect(view.locator(".ex-why h4")).to_have_text("predict the order")


@pytest.mark.parametrize("make", [sample.mlp, sample.resnet])
def test_every_edge_of_a_kernel_is_a_question_and_none_between_kernels_is_told_to_be_fused(module, make):
    """The questions agree with the recording's final kernels."""
    recording = make()
    questions = module(
        """(explorer, payload) => {
            const view = explorer.mount(document.body, payload);
            const { questions } = view.prediction.fusion;
            view.destroy();
            return questions.map(({ nodes, isFused }) => [...nodes, isFused]);
        }""",
        payload(recording),
    )
    kernels = [set(group.members) for group in recording.groups if group.kind == "kernel"]
    for operand, reader, fused in questions:
        assert fused == any({operand, reader} <= kernel for kernel in kernels)
    asked = {(operand, reader) for operand, reader, _ in questions}
    for kernel in kernels:
        assert any({operand, reader} <= kernel for operand, reader in asked)
    assert len(asked) == len(questions)


def test_a_closed_box_of_several_kernels_asks_to_be_opened(show):
    """A closed box is no answer if it contains several kernels."""
    x = ex.tensor(np.ones((32, 48), np.float32), name="x")
    plan = ex.EvalPlan()
    with ex.scope("inner"):
        sums = ex.cumsum(ex.softmax(x), 0)
    plan.register(ex.softmax(sums))
    view = show(plan.prepare().recording)
    press(view, "c", "g")
    box(view, "inner").click()
    expect(view.locator(".ex-say")).to_contain_text("inner holds 2 kernels")
    expect(view.locator(".ex-score")).to_have_count(0)


def test_the_trait_begins_and_ends_it_and_follows_the_reader(module, program):
    """Setting the widget's trait begins the exercise; Escape resets the trait, and the kernel may set it again."""
    traits = {"step": 0, "stage": "recorded", "selected": -1, "open_boxes": None, "theme": "auto", "predicting": True}
    traits.update(revisions={}, seen={})
    first, second, third = module(TRAIT, [payload(program, position=0), traits])
    assert first == ["predict the order", True, "order"]
    assert second == ["order", False, "order"]
    assert third == first


def test_python_asks_for_what_is_fused_and_then_for_the_order(notebook):
    book = notebook(SHOW)
    view = book.view()
    book.execute("view.predict('fuse')\nbegin = view.step")
    expect(view.locator(".ex-why h4")).to_have_text("predict what is fused")
    press(view, "y")
    expect(view.locator(".ex-score")).to_be_visible()
    book.says("print(view.step > begin)", "True\n")
    book.execute("view.predict('order')")
    expect(view.locator(".ex-why h4")).to_have_text("predict the order")
    press(view, "Escape")
    book.says("print(view.predicting, view.stage)", "False order\n")


@pytest.fixture(scope="module")
def places() -> Recording:
    """Return nine kernels with new buffers, a released one, and results that overwrite their operands."""
    x = ex.tensor(np.ones((40, 40)), name="x")
    sums = ex.cumsum(x, 0)
    small = ex.sum(sums, 0)
    plan = ex.EvalPlan(without=["fuse"])
    plan.register(ex.cumsum(ex.sort(ex.cumsum(ex.tanh(ex.cumsum(sums, 1)), 0) * small), 0))
    return plan.prepare().recording


@pytest.fixture
def placing(show, places):
    """Return a view of the buffers stage with its buffers hidden."""
    view = show(places)
    view.get_by_role("button", name="buffers").first.click()
    press(view, "g")
    expect(view.locator(".ex-why h4")).to_have_text("predict the buffers")
    return view


def test_the_place_of_a_result_is_asked_for_and_judged_by_what_each_buffer_holds(placing):
    """Answer with a new buffer, one whose value is still read, one whose value is overwritten, and a released one."""
    view, said = placing, placing.locator(".ex-say")
    expect(view.locator(".ex-graph .ex-second").filter(has_text="buffer")).to_have_count(0)
    expect(said).to_contain_text("predict 1 of 8")
    node(view, "x").click()
    expect(said).to_contain_text("x exists before the run")
    press(view, "n")
    expect(said).to_contain_text("Right. cumsum (1) needs a new buffer, buffer 0: nothing has been written before it")
    node(view, "cumsum").click()
    expect(said).to_contain_text("No. Buffer 0 holds cumsum (1), which cumsum (3) will read.")
    node(view, "sum").click()
    expect(said).to_contain_text("Right. sum needs a new buffer, buffer 1: buffer 0 holds cumsum (1), which")
    node(view, "cumsum").click()
    expect(said).to_contain_text("No. Buffer 0 holds cumsum (1), which is read while cumsum (3) is written.")
    press(view, "n")
    expect(said).to_contain_text("predict 4 of 8")
    press(view, "n")
    expect(said).to_contain_text("No. tanh can be written over a value that it reads")
    view.locator(".ex-places").get_by_role("button", name="buffer 2").click()
    expect(said).to_contain_text("it is written over cumsum (3), element by element")
    expect(said).to_contain_text("2 results are written over their operands (")
    expect(view.locator(".ex-score")).to_have_text("1 of 4 right at once.")
    expect(view.locator(".ex-graph .ex-second").filter(has_text="buffer")).to_have_count(4)


def test_a_free_place_is_marked_and_each_answer_can_be_shown(placing, places):
    view, said = placing, placing.locator(".ex-say")
    for _ in range(4):
        press(view, ".")
    expect(said).to_contain_text("Number 5, cumsum")
    press(view, "m")
    expect(view.locator(".ex-graph .ex-lit-free")).to_have_count(1)
    node(view, "tanh").click()
    expect(said).to_contain_text("No. Buffer 2 holds tanh, which is read while cumsum (5) is written.")
    view.locator(".ex-graph .ex-lit-free").click()
    expect(said).to_contain_text("cumsum (5) takes buffer 0: cumsum (1) was there, and cumsum (3) was the last to read")
    expect(said).to_contain_text("Buffer 0 (12.5 KB) holds 3 results in turn")
    press(view, ",")
    expect(said).to_contain_text("Number 5, cumsum")
    assert complaints(view.page) == []
    for _ in range(4):
        press(view, ".")
    expect(said).to_contain_text("all 8 settled")
    expect(view.locator(".ex-score")).to_have_text("0 of 8 right at once.")
    written = [kernel for kernel in places.schedule.kernels if kernel.buffer >= 0]
    expect(view.locator(".ex-graph .ex-second").filter(has_text="buffer")).to_have_count(len(written))
    press(view, "Escape")
    expect(view.locator(".ex-score")).to_have_count(0)


CHOICES = """(explorer, payload) => {
    const view = explorer.mount(document.body, payload);
    const exercise = view.prediction.buffers;
    view.go(view.timeline.entry(exercise.stage), exercise.stage);
    view.prediction.begin();
    const verdicts = exercise.questions.map((kernel, at) => {
        const earlier = exercise.questions.slice(0, at).map((each) => view.trace.kernels[each].buffer);
        const right = [];
        for (const choice of [-1, ...new Set(earlier)]) {
            exercise.at = at;
            exercise.choose(choice);
            if (exercise.at > at) right.push([choice, exercise.answer.text]);
        }
        return [kernel, right];
    });
    view.destroy();
    return JSON.stringify(verdicts);
}"""


@pytest.mark.parametrize("make", [lambda: branches(1), lambda: branches(2), sample.resnet])
def test_one_choice_is_right_for_each_result_and_it_is_the_plans(module, make):
    """The answers agree with the schedule: a new buffer if no earlier kernel has it, else that buffer."""
    recording = make()
    kernels = recording.schedule.kernels
    verdicts = json.loads(module(CHOICES, payload(recording, position=0)))
    assert [kernel for kernel, _ in verdicts] == [at for at, kernel in enumerate(kernels) if kernel.buffer >= 0]
    for kernel, right in verdicts:
        buffer = kernels[kernel].buffer
        known = {earlier.buffer for earlier in kernels[:kernel]}
        assert [choice for choice, _ in right] == [buffer if buffer in known else -1]
        assert right[0][1].startswith("Right. ")
        assert "undefined" not in right[0][1]


def trained() -> Recording:
    """Return a program with the gradient of one of its inputs."""
    x = ex.tensor(np.ones((40, 40)), name="x")
    w = ex.tensor(np.ones((40, 40)), name="w")
    loss = ex.sum(ex.tanh(x @ w) ** 2)
    plan = ex.EvalPlan()
    plan.register(loss)
    plan.register(ex.grad(loss, w))
    return plan.prepare().recording


@pytest.fixture
def saving(show):
    """Return a view of a program and its gradient at the recorded stage."""
    view = show(trained())
    press(view, "e", "g")
    expect(view.locator(".ex-why h4")).to_have_text("predict what is saved")
    return view


def test_what_is_saved_for_each_gradient_is_asked_from_the_last_one_back(saving):
    """Edges into the gradient are hidden; each click is judged, and the end is judged by what was left out."""
    view, said = saving, saving.locator(".ex-say")
    expect(said).to_contain_text("predict 1 of 4")
    expect(view.locator(".ex-graph .ex-veiled")).not_to_have_count(0)
    for edge in view.locator(".ex-graph .ex-veiled").all():
        expect(edge).to_be_hidden()
    node(view, "matmul").click()
    expect(said).to_contain_text("No. The gradient of sum does not read matmul: it is computed by reshape")
    press(view, "n")
    expect(said).to_contain_text("Right. The gradient of sum reads no value of the forward pass, so nothing is saved")
    node(view, "tanh").click()
    expect(said).to_contain_text("tanh. Is that all?")
    press(view, "n")
    expect(said).to_contain_text("Right. Saved for the gradient of power 2: tanh.")
    press(view, "n")
    expect(said).to_contain_text("No, there is more. Saved for the gradient of tanh: tanh. It is computed by square")
    node(view, "w").click()
    expect(said).to_contain_text("The gradient of matmul does not read w")
    node(view, "x").click()
    expect(view.locator(".ex-graph .ex-lit-saved")).to_have_count(1)
    view.get_by_role("button", name="that is all").click()
    expect(said).to_contain_text("Right. Saved for the gradient of matmul: x.")
    expect(view.locator(".ex-score")).to_have_text("1 of 4 right at once.")
    expect(view.locator(".ex-graph .ex-veiled")).to_have_count(0)


def test_a_gradient_is_hinted_at_and_shown_and_its_own_nodes_are_no_answer(saving):
    view, said = saving, saving.locator(".ex-say")
    node(view, "broadcast_to").click()
    expect(said).to_contain_text("broadcast_to is part of a gradient, not a value of the forward pass")
    press(view, "m")
    expect(said).to_contain_text("and reads 0 values of the forward pass")
    expect(view.locator(".ex-graph .ex-lit-backward")).not_to_have_count(0)
    assert complaints(view.page) == []
    press(view, ".")
    expect(said).to_contain_text("Shown: The gradient of sum")
    expect(view.locator(".ex-score")).to_have_text("0 of 1 right at once.")
    press(view, "Escape")
    expect(view.locator(".ex-graph .ex-veiled")).to_have_count(0)
    press(view, "]")
    expect(view.locator(".ex-why h4")).to_have_text("simplify")


@pytest.mark.parametrize("make", [trained, sample.mlp, sample.resnet, lambda: branches(2)])
def test_python_and_the_page_know_the_same_stages_to_predict(module, make):
    recording = make()
    stages = module(
        """(explorer, payload) => {
            const view = explorer.mount(document.body, payload);
            const stages = view.prediction.exercises.map(({ stage }) => stage).sort((one, other) => one - other);
            view.destroy();
            return stages;
        }""",
        payload(recording, position=0),
    )
    assert [recording.stages[stage].name for stage in stages] == predictable(recording)
