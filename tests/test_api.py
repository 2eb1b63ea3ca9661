"""Arguments and results of explore and explain, and values read from views."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import graphviz
import numpy as np
import pytest

import explorer as ex
from explorer import layers
from explorer.api import ExpressionView, node_id
from explorer.core.errors import OperandError, class_text
from tests.support.native_kernels import without_compiler

ASSETS = Path(__file__).parents[1] / "assets"


@pytest.fixture
def program() -> tuple[ex.Expr, ex.Expr]:
    """Return a product that is used twice, and results of it."""
    x = ex.tensor(np.ones((3, 4), np.float32), name="x")
    product = x @ ex.tensor(np.full((4, 2), 0.5, np.float32), name="W")
    return product, ex.tanh(product) + product


def test_an_explored_expression_is_planned_and_run(program: tuple[ex.Expr, ex.Expr]) -> None:
    """The recording has a summary of every value."""
    _, root = program
    view: Any = ex.explore(root)
    assert view.recording.run is not None
    assert view.recording.run.values[node_id(view.planned, root)].shape == (3, 2)
    assert ex.explore(root, run=False).recording.run is None


@pytest.mark.spec("V-2")
def test_a_view_without_source_contains_no_source_code(program: tuple[ex.Expr, ex.Expr], tmp_path: Path) -> None:
    """``source=False`` keeps source code out of the widget, also after the run, and out of saved files."""
    line = "product = x @ ex.tensor"
    plan = ex.EvalPlan()
    plan.register(program[1])
    plan.prepare()
    shown, hidden = plan.explore(), plan.explore(source=False)
    plan.eval()
    for view, is_told in ((shown, True), (hidden, False)):
        view.save(tmp_path / "view.html")
        view.save(tmp_path / "view.json")
        assert (line in json.dumps(view.payload)) is is_told
        for name in ("view.html", "view.json"):
            assert (line in (tmp_path / name).read_text()) is is_told
    with pytest.raises(OperandError, match="True or False"):
        plan.explore(source="no")


@pytest.mark.spec("V-1", headline=True)
def test_one_view_shows_the_plan_before_and_after_the_run(program: tuple[ex.Expr, ex.Expr]) -> None:
    """Step through a plan before and after its run; the view adds the run, and keeps the stage and selection."""
    product, root = program
    plan = ex.EvalPlan()
    plan.register(root)
    plan.prepare()
    view = plan.explore()
    assert view.recording.run is None
    stages = []
    for step in range(view.last_step + 1):
        view.step = step
        stages.append(view.stage)
    assert list(dict.fromkeys(stages)) == [stage.name for stage in view.recording.stages if stage.name in stages]
    assert {"recorded", "fuse", "order"} <= set(stages)
    view.stage = "fuse"
    view.focus(product)
    before = view.step, view.stage, view.selected
    plan.eval()
    assert view.recording.run is not None
    assert (view.step, view.stage, view.selected) == before


def test_a_view_keeps_showing_its_program(program: tuple[ex.Expr, ex.Expr]) -> None:
    """Using the plan for another program does not change the first view."""
    _, root = program
    plan = ex.EvalPlan()
    plan.register(root)
    plan.prepare()
    first = plan.explore()
    plan.eval()
    shown = first.recording.fingerprint
    plan.register(ex.exp(root))
    plan.eval()
    assert first.recording.fingerprint == shown
    first.focus(root)
    assert first.selected_expression is root


@pytest.mark.spec("V-9")
def test_selections_are_expressions(program: tuple[ex.Expr, ex.Expr]) -> None:
    """Focus accepts an expression, and a selected node is read as the expression that it replaces."""
    product, root = program
    view: Any = ex.explore(root)
    assert isinstance(view, ExpressionView)
    assert view.selected_expression is None
    view.focus(product)
    assert view.selected_expression is product
    with pytest.raises(ex.OperandError, match="in this plan"):
        view.focus(ex.tensor(1.0))


def test_several_expressions_are_explored_together() -> None:
    x = ex.tensor(np.ones(3))
    view = ex.explore(ex.tanh(x), ex.exp(x), run=False)
    assert [label for label in view.recording.nodes.label if label] == ["x", "tanh", "exp"]
    with pytest.raises(ex.OperandError, match="explore of a list"):
        ex.explore(ex.tanh(x), 3)


def test_other_objects_raise_an_error_with_their_name() -> None:
    with pytest.raises(ex.OperandError, match="explore of an int"):
        ex.explore(3)
    with pytest.raises(ex.OperandError, match="explore of a list"):
        ex.explore([])


@pytest.mark.spec("P-18")
def test_explaining_an_expression_lists_changes_for_declined_decisions() -> None:
    """Each declined decision has the change that would apply it, with both prices."""
    shared = ex.tensor(np.ones((3, 4), np.float32)) + 0.5
    first = ex.negative(shared)
    plan = ex.EvalPlan()
    plan.register(first @ ex.transpose(ex.relu(shared)))
    plan.prepare()
    explanation = plan.explain(first)
    assert explanation.index("[other_consumers]") < explanation.index("what it would take:")
    assert "✓ if negative alone read add, and relu another value: " in explanation


@pytest.mark.spec("P-16")
def test_explaining_an_absorbed_expression_names_the_kernel(program: tuple[ex.Expr, ex.Expr]) -> None:
    """The text about an expression that a rule absorbed names the kernel that computes its purpose."""
    inner = ex.softmax(program[1])
    plan = ex.EvalPlan()
    plan.register(ex.log(inner))
    plan.prepare()
    explanation = plan.explain(inner)
    assert "absorbed: log, which is computed from it, is replaced by log_softmax (rule LogOfSoftmax" in explanation
    assert "computed in kernel 2 tanh → add → log_softmax, line " in explanation


def test_explain_one_expression(program: tuple[ex.Expr, ex.Expr]) -> None:
    """The text has its line and every decision about it, declined ones first."""
    product, root = program
    plan = ex.EvalPlan()
    plan.register(root)
    plan.prepare()
    text = plan.explain(product)
    assert text.startswith("product = matmul · 3×2 float32\nrecorded at test_api.py line ")
    assert "other_consumers" in plan.explain(root.operands[0])
    assert f"recording · {plan.recording.fingerprint}" in plan.explain().splitlines()


@pytest.mark.spec("V-9")
def test_an_operator_of_a_file_is_focused_by_its_name_or_its_line() -> None:
    """A view of a model's file finds an operator by name, line or text, and returns the selected one."""
    view: Any = ex.open(ASSETS / "digits.pnnx.param").explore()
    recording = view.recording
    view.focus("conv2")
    assert (view.selected_scope, recording.nodes.label[view.selected]) == ("conv2", "add")
    line = recording.sources[recording.nodes.source[view.selected]]
    result = view.select_line(line.line, cell="digits.pnnx.param")
    assert view.selected == result[0]
    assert {recording.label(node) for node in result} >= {"conv2d", "conv2.weight"}
    assert view.select_line(line.text) == result
    assert view.selected_expression.type.shape == recording.type_of(result[0]).shape
    view.focus("residual / convbn2d_1")
    assert view.selected_scope == "residual / convbn2d_1"
    with pytest.raises(
        ValueError, match="no operator, layer, scope, variable or operation is called 'conv3'; near are conv2"
    ):
        view.focus("conv3")
    view.selected = -1
    assert view.selected_scope is None


@pytest.mark.spec("V-9", headline=True)
def test_a_view_selects_and_returns_expressions_and_operators() -> None:
    """Select expressions, operators, names and ids from Python, and read the selection of the view."""
    net = ex.open(ASSETS / "digits.pnnx.param")
    view: Any = net.explore()
    conv2, relu2 = view.recording.nodes.label.index("conv2d", 5), net.nodes("relu2")[-1]
    for node, operator in ((net["conv2"], "conv2"), ("conv2", "conv2"), (relu2, "relu2"), (net["residual.relu1"],) * 2):
        name = operator if isinstance(operator, str) else operator.name
        for select in (view.focus, view.trace, lambda node: setattr(view, "selected", node)):
            view.selected = -1
            assert (view.selected_expression, view.selected_operator) == (None, None)
            select(node)
            assert view.selected_operator == name
            assert view.selected_expression is net.nodes(name)[-1]
            assert isinstance(view.selected, int)
    view.selected = conv2
    assert view.selected_expression.operation.name == "conv2d"
    assert view.why(net["conv2"]) == view.why("conv2")
    view.overlay({net["conv2"]: 1.0, relu2: 2.0})
    kept: Any = ex.explore(view.recording)
    kept.selected = net["conv2"]
    assert (kept.selected_expression, kept.selected_operator, kept.selected_scope) == (None, None, "conv2")
    for wrong in (ex.open(ASSETS / "digits.onnx")["/conv2/Conv"], ex.tanh(relu2), "conv3", 3.5, None):
        with pytest.raises(ex.ExplorerError):
            view.selected = wrong


@pytest.mark.parametrize(
    ("node", "said"),
    [
        ("tahn", r"operation is called 'tahn'; near is 'tanh'\n  rule: a node must"),
        (99, "node 99 is not in this recording"),
    ],
)
@pytest.mark.parametrize("call", ["why", "focus", "trace", "overlay"])
def test_an_unknown_node_raises_an_error_with_a_rule(call: str, node: str | int, said: str) -> None:
    """This includes the second of two nodes."""
    x = ex.tensor(np.ones((4, 4), np.float32), name="x")
    view = ex.explore(ex.tanh(x @ x))
    with pytest.raises(ex.ExplorerError, match=said):
        getattr(view, call)({node: 1.0} if call == "overlay" else node)
    with pytest.raises(ex.ExplorerError, match=said):
        view.why("tanh", node)


@pytest.mark.spec("K-2")
@pytest.mark.parametrize("name", ["ex", "expression", "ex of a layer", "layer", "ex of a net"])
def test_a_view_is_planned_with_compiled_kernels(name: str) -> None:
    """Nothing is run, so no compiler is needed."""
    options: dict[str, Any] = {} if "net" in name else {"run": False}
    if "layer" in name:
        options["inputs"] = ex.TensorType((4, 2), np.float32)
    with without_compiler():
        view = explored()[name](kernels="native", **options)
    assert "codegen" in [stage.name for stage in view.recording.stages]
    with pytest.raises(ex.UnknownNameError, match="kernels"):
        explored()[name](kernels="compiled", **options)


def test_options_of_a_plan_are_options_of_views(program: tuple[ex.Expr, ex.Expr]) -> None:
    view: Any = ex.explore(program[1], plan={"record": "times", "kernels": "native"}, run=False)
    assert "codegen" in [stage.name for stage in view.recording.stages]
    with pytest.raises(OperandError, match="only once"):
        ex.explore(program[1], kernels="native", plan={"kernels": "numpy"})


@pytest.mark.spec("V-14")
def test_a_plan_is_converted_to_a_digraph_at_the_end_and_after_each_stage() -> None:
    """`plan.to_graphviz()` returns a graphviz.Digraph of the plan's graph; a stage's name selects the graph after
    it."""
    x = ex.tensor(np.ones((4, 4), np.float32), name="x")
    plan = ex.EvalPlan()
    plan.register(ex.tanh(x @ x) * 2 + x @ x)
    plan.prepare()
    recorded, final = plan.to_graphviz("recorded"), plan.to_graphviz()
    assert isinstance(final, graphviz.Digraph)
    assert (recorded.source.count("matmul"), final.source.count("matmul")) == (2, 1)
    assert "cluster" in final.source
    assert "cluster" not in recorded.source
    with pytest.raises(ex.UnknownNameError, match="fuse"):
        plan.to_graphviz("fused")


def explored() -> dict[str, Any]:
    """Return everything with an explore method or function, by name."""
    x = ex.tensor(np.ones((2, 3)), name="x")
    plan = ex.EvalPlan()
    plan.register(ex.tanh(x))
    net = ex.open(ASSETS / "digits.pnnx.param")
    images = np.ones((1, 1, 8, 8), np.float32)
    layer = layers.Linear("linear", 2, 3)
    return {
        "ex": lambda **options: ex.explore(ex.tanh(x), **options),
        "expression": ex.tanh(x).explore,
        "plan": plan.explore,
        "recording": lambda **options: ex.explore(plan.prepare().recording, **options),
        "net": lambda **options: net.explore(images, **options),
        "ex of a net": lambda **options: ex.explore(net, **options),
        "layer": layer.explore,
        "ex of a layer": lambda **options: ex.explore(layer, **options),
    }


@pytest.mark.spec("V-21")
@pytest.mark.parametrize("wrong", ["heigth", "withuot", "thema", "input"])
@pytest.mark.parametrize("name", explored())
def test_a_misspelt_option_of_explore_raises_an_error_with_similar_names(
    name: str, wrong: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is raised before anything is planned or computed."""
    monkeypatch.setattr(ex.EvalPlan, "eval", lambda plan: pytest.fail("it was evaluated"))
    with pytest.raises(ex.UnknownNameError) as error:
        explored()[name](**{wrong: 300})
    near = {"heigth": "height", "thema": "theme"}.get(wrong)
    assert repr(wrong) in str(error.value)
    assert "near are none" not in str(error.value)
    if near:
        assert error.value.rule.startswith(f"known: {near}")


@pytest.mark.spec("V-21")
def test_planned_objects_accept_no_options_of_a_plan() -> None:
    plan = ex.EvalPlan()
    plan.register(ex.tanh(ex.tensor([1.0])))
    for what in (plan, plan.prepare().recording):
        for option in ({"record": "off"}, {"run": False}, {"kernels": "native"}, {"plan": {}}):
            with pytest.raises(ex.OperandError, match=next(iter(option))):
                ex.explore(what, **option)


@pytest.mark.spec("V-21")
@pytest.mark.parametrize("what", [np.ones(3), [np.ones(3)], 3, "x", None, {}])
def test_the_error_of_an_unexplorable_object_lists_explorable_ones(what: Any) -> None:
    with pytest.raises(ex.OperandError, match=rf"explore of {class_text(what)}\n  rule: .*\n  fix: "):
        ex.explore(what)


@pytest.mark.spec("V-21")
def test_the_error_of_an_unknown_scope_lists_existing_ones() -> None:
    """Without similar names, it lists the first ones."""
    plain, scoped = ex.EvalPlan(), ex.EvalPlan()
    plain.register(ex.tanh(ex.tensor([1.0])))
    with ex.scope("encoder"):
        scoped.register(ex.tanh(ex.tensor([1.0])))
    for plan, name, said in (
        (plain, "foo", "the first are tensor, tanh"),
        (scoped, "foo", "the first are encoder"),
        (scoped, "encodr", "near are encoder, tensor"),
    ):
        with pytest.raises(ValueError, match=said):
            plan.prepare().explore().focus(name)


@pytest.mark.spec("V-9")
@pytest.mark.parametrize("of_recording", [False, True])
@pytest.mark.parametrize(
    ("method", "arguments", "given"),
    [
        ("focus", (None,), "node=None"),
        ("focus", (1.5,), "node=1.5"),
        ("trace", ([],), r"node=\[\]"),
        ("why", (None, None), "node=None"),
        ("why", (0, 2.5), "node=2.5"),
        ("select_line", (None,), "line=None"),
        ("overlay", (None,), "values=None"),
        ("overlay", ({None: 1},), "node=None"),
        ("overlay_times", ("plan",), "before='plan'"),
        ("save", (None,), "path=None"),
        ("save", (3,), "path=3"),
    ],
)
def test_an_argument_of_a_view_that_is_of_a_wrong_class_is_named_with_the_rule(
    program: tuple[ex.Expr, ex.Expr], of_recording: bool, method: str, arguments: tuple[Any, ...], given: str
) -> None:
    """Whatever is given to a view's methods, the error says what it was, the rule, and something to type."""
    view: Any = ex.explore(program[1], run=False)
    if of_recording:
        view = ex.explore(view.recording)
    with pytest.raises(ex.OperandError, match=given + r"\n  rule: \w+ must be .+\n  fix: view\.\w+\(") as caught:
        getattr(view, method)(*arguments)
    assert caught.traceback[-1].name == "check_type"


def test_a_depth_that_is_no_number_raises_an_error(program: tuple[ex.Expr, ex.Expr]) -> None:
    view: Any = ex.explore(program[1], run=False)
    with pytest.raises(ValueError, match="depth must be 0, which closes all boxes"):
        view.collapse(None)
