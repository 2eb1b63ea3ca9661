import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import explorer as ex
from explorer.view.base import font
from explorer.view.layout.box_layout import Layouts
from explorer.view.model.labels import CALL_MARK, TYPE, WIDEST, Text, node_size, title_within, weights_text
from explorer.view.model.operator_titles import operator_title
from explorer.view.model.picture_model import MAX_VISIBLE, build_model
from explorer.view.tree.topological import levels
from tests.support import runtime_models
from tests.support.cells import MODELS
from tests.support.scenes import check, scene_size
from tests.view import sample


def kinds(model):
    return {box.kind for box in model.tree.boxes}


@pytest.mark.spec("V-7")
@pytest.mark.parametrize("make", [sample.mlp, sample.transformer, sample.resnet, sample.hostile])
def test_every_node_is_in_one_box(make):
    check(build_model(make()))


def around_blocks(recording):
    """Return the model, and the box that contains the blocks of ``sample.transformer``."""
    model = build_model(recording)
    return model, next(box for box in model.tree.boxes if box.label == "model")


@pytest.mark.spec("V-7")
def test_a_box_with_only_equal_blocks_becomes_a_repeat_with_its_first_block():
    model, repeat = around_blocks(sample.transformer(12))
    assert (repeat.count, repeat.open) == (12, True)
    first, rest = (model.tree.boxes[number] for _, number in repeat.items)
    assert (first.label, first.kind, first.open) == ("block0", "layer", True)
    assert (rest.label, rest.kind, rest.count, rest.open) == ("11 more: block1 … block11", "part", 11, False)


@pytest.mark.spec("V-7")
@pytest.mark.parametrize("blocks", [3, 6, 7])
def test_a_repeat_has_one_count(blocks):
    """A repeat of a few equal boxes contains all of them; a repeat of many contains the first, and one box."""
    model, repeat = around_blocks(sample.transformer(blocks))
    check(model)
    names = [model.box_texts[number][0] for _, number in repeat.items]
    few = [f"block{number}" for number in range(blocks)]
    assert names == (few if blocks <= 6 else ["block0", "6 more: block1 … block6"])
    assert sum("×" in name for name, *_ in model.box_texts) == 1


@pytest.mark.spec("V-7")
@pytest.mark.parametrize(("blocks", "both"), [(2, True), (12, False)])
def test_one_of_several_equal_blocks_is_open_and_others_if_they_fit(blocks, both):
    model, repeat = around_blocks(sample.transformer(blocks))
    assert [model.tree.boxes[number].open for _, number in repeat.items] == [True, both]


@pytest.mark.spec("V-7")
def test_a_block_of_another_type_ends_the_repeat():
    recording = sample.transformer(6)
    odd = recording.nodes.label.index("gelu", len(recording.nodes) // 2)
    recording.operations.append("relu")
    recording.nodes.operation[odd] = len(recording.operations) - 1
    model, around = around_blocks(recording)
    assert [model.tree.boxes[n].label for _, n in around.items] == ["block0 … block2", "block3", "block4 … block5"]


@pytest.mark.spec("V-7")
def test_a_long_chain_is_one_box():
    model = build_model(sample.chain(1000))
    outer = [model.tree.boxes[n] for kind, n in model.tree.boxes[0].items if kind == "box"]
    assert [(box.kind, box.label, box.count) for box in outer] == [("chain", "tanh", 1000)]
    assert ("tanh ×1,000", "1,000 nodes · 80 K flops") in model.box_texts
    check(model)


@pytest.mark.spec("V-7")
@pytest.mark.parametrize(("count", "boxes"), [(15, []), (40, ["x0 … x39 ×40"])])
def test_many_leaves_of_several_types_are_one_box(count, boxes):
    """The inputs of one operation are drawn side by side if they fit into a page."""
    make = sample.Builder("row", "90c1")
    leaves = [make.leaf(f"x{number}", make.type(number + 1, 4)) for number in range(count)]
    total = make.node("concatenate", *leaves, type=make.type(820, 4))
    make.stage("recorded", "record", nodes=count + 1)
    model = build_model(make.roots(total))
    check(model)
    assert [model.box_texts[box][0] for box in range(1, len(model.tree.boxes))] == boxes
    assert Layouts(model)[0].size[0] < 15 * 140


@pytest.mark.spec("V-7")
def test_a_long_sum_and_its_many_leaves_are_two_boxes():
    make = sample.Builder()
    kind = make.type(4)
    leaves = [make.leaf(f"x{number}", kind) for number in range(30)]
    calls = [make.node("call", leaf, kind="call", label="f", type=kind, callee=1) for leaf in leaves]
    total = calls[0]
    for call in calls[1:]:
        total = make.node("add", total, call, type=kind)
    make.recording.bodies.append(make.recording.bodies[0])
    make.stage("recorded", "record")
    model = build_model(make.roots(total))
    check(model)
    outer = [model.tree.boxes[number] for _, number in model.tree.boxes[0].items]
    assert [(box.kind, box.label, box.count) for box in outer] == [
        ("stack", "x0 … x29", 30),
        ("stack", "f", 30),
        ("chain", "add", 29),
    ]
    assert sorted(model.edges[0]) == [(0, 1), (1, 2)]


@pytest.mark.spec("V-7")
def test_a_chain_of_eight_is_folded_and_a_shorter_one_is_not():
    assert kinds(build_model(sample.chain(7))) == {"top"}
    assert kinds(build_model(sample.chain(8))) == {"top", "chain"}


def calls(count):
    make = sample.Builder()
    kind = make.type(4)
    make.recording.bodies.append(make.recording.bodies[0])
    x = make.leaf("x", kind)
    results = [make.node("call", x, kind="call", label="mlp", type=kind, callee=1) for _ in range(count)]
    make.stage("recorded", "record")
    return make.roots(make.node("sum", *results, type=kind))


@pytest.mark.spec("V-4", "V-7")
def test_equal_calls_are_one_stack():
    model = build_model(calls(30))
    (stack,) = [box for box in model.tree.boxes if box.kind == "stack"]
    assert (stack.label, stack.count) == ("mlp", 30)


@pytest.mark.spec("V-4", "V-7")
def test_a_thousand_calls_are_one_stack_of_parts():
    model = build_model(calls(1000))
    check(model)
    (stack,) = [box for box in model.tree.boxes if box.kind == "stack"]
    assert stack.count == 1000
    assert all(kind == "box" for kind, _ in stack.items)


@pytest.mark.spec("V-7")
def test_a_graph_without_scopes_is_cut_into_parts_that_read_only_earlier_parts():
    model = build_model(sample.dag(3000))
    check(model)
    top = model.tree.boxes[0]
    assert 10 <= len(top.items) <= MAX_VISIBLE
    assert min(levels(len(top.items), model.edges[0])) >= 0


@pytest.mark.spec("V-7")
@pytest.mark.parametrize("make", [sample.mlp, sample.transformer, sample.resnet])
def test_it_opens_on_a_useful_number_of_boxes(make):
    assert 8 <= scene_size(build_model(make())) <= MAX_VISIBLE


def test_scopes_around_one_node_have_no_boxes():
    make = sample.Builder()
    kind = make.type(4)
    outer = make.scope("outer", "layer")
    inner = make.scope("inner", "layer", outer)
    x = make.leaf("x", kind)
    make.stage("recorded", "record")
    model = build_model(make.roots(make.node("tanh", x, type=kind, scope=inner)))
    assert len(model.tree.boxes) == 1


@pytest.mark.spec("Q-5")
def test_a_node_that_represents_an_operator_of_a_file_has_the_title_of_a_box():
    """``relu1`` is one node, without a box: its title is the author's name, and its type is below."""
    recording = ex.open(MODELS.parent / "digits.pnnx.param").preview_plan().recording
    model = build_model(recording)
    seconds = {}
    for node, scope in enumerate(recording.nodes.scope):
        slot = model.slots.of[node]
        text = model.texts[model.slot_texts[slot][model.slots.nodes[slot].index(node)]]
        seconds.setdefault(recording.scopes[scope].name, []).append((text.name, text.second))
    assert ("relu1", "nn.ReLU · 1×8×8×8 f32") in seconds["relu1"]
    # A name that an exporter generated is below the type.
    assert ("torch.flatten", "torch.flatten_0 · 1×192 f32") in seconds["torch.flatten_0"]
    assert all("conv2 ·" not in second for _, second in seconds["conv2"])  # its box shows the name


@pytest.mark.spec("Q-5", "V-24")
def test_titles_and_summaries_use_only_the_words_of_the_file(tmp_path):
    """An operator is ``Mul`` as a node and as a box, where explorer's operation is called multiply."""
    recording = ex.open(runtime_models.model("llama block", tmp_path)[0]).preview_plan().recording
    model = build_model(recording)
    boxes = {text[0] for box, text in zip(model.tree.boxes, model.box_texts, strict=True) if box.is_operator}
    around = [model.tree.boxes[box] for box in model.tree.box_of]
    nodes = {
        model.texts[rows[0]].name for rows, box in zip(model.slot_texts, around, strict=True) if not box.is_operator
    }
    assert {"Mul", "MatMul"} <= boxes
    assert {"Mul", "ReduceMean", "Add", "Sqrt", "Div", "Reshape", "Transpose"} <= nodes
    assert not nodes & {"multiply", "mean", "add 1e-05", "sqrt", "divide", "reshape", "transpose"}
    quantized = build_model(ex.open(MODELS.parent / "digits_int8.onnx").preview_plan().recording)
    assert "MaxPool → QuantizeLinear → DequantizeLinear" in {text[1] for text in quantized.box_texts}


def test_an_operator_with_several_results_is_titled_by_its_type_rather_than_by_a_result():
    title = operator_title("features / split_6:0", "Split", "split")
    assert (title.title, title.note) == ("features / Split", "split_6:0")


def test_an_expression_with_a_generated_name_is_called_as_its_operation():
    title = operator_title("pnnx_expr_14", "add(@0,@1)", "add")
    assert (title.title, title.note, title.type) == ("add", "", "add")
    assert operator_title("residual", "add(@0,@1)", "add").title == "residual"


def test_a_scope_around_one_box_gives_it_its_name():
    make = sample.Builder()
    kind = make.type(4)
    outer = make.scope("outer", "layer")
    inner = make.scope("inner", "layer", outer)
    x = make.leaf("x", kind)
    hidden = make.node("tanh", x, type=kind, scope=inner)
    make.stage("recorded", "record")
    model = build_model(make.roots(make.node("tanh", hidden, type=kind, scope=inner)))
    assert [box.label for box in model.tree.boxes[1:]] == ["outer / inner"]


def test_ten_thousand_nested_scopes():
    make = sample.Builder()
    kind = make.type(4)
    last, scope = make.leaf("x", kind), 0
    for depth in range(10_000):
        scope = make.scope(f"s{depth}", "scope", scope)
    make.stage("recorded", "record")
    for _ in range(3):
        last = make.node("tanh", last, type=kind, scope=scope)
    model = build_model(make.roots(last))
    assert len(model.tree.boxes) == 2


@pytest.mark.spec("V-7")
def test_a_function_body_has_its_own_canvas():
    make = sample.Builder()
    kind = make.type(4)
    x = make.leaf("x", kind)
    inside = make.node("input", kind="input", label="a", type=kind, body=1)
    out = make.node("tanh", inside, type=kind, body=1)
    make.recording.bodies.append(sample.Body("f", (inside,), (out,)))
    call = make.node("call", x, kind="call", label="f", type=kind, callee=1)
    make.stage("recorded", "record")
    model = build_model(make.roots(call))
    body = model.tree.boxes[model.tree.bodies[1]]
    assert (body.kind, body.label, body.parent, len(body.items)) == ("body", "f", -1, 2)
    check(model)


def test_fused_nodes_are_one_group():
    model = build_model(sample.mlp())
    names = [[model.texts[model.slot_texts[n][-1]][0] for n in group] for group in model.groups[0]]
    assert sorted(names) == [["add", "log-softmax", "nll"], ["add", "tanh"]]


@st.composite
def recordings(draw):
    make = sample.Builder()
    kind = make.type(4)
    scopes = [0]
    for number in range(draw(st.integers(0, 6))):
        scopes.append(make.scope(f"s{number}", "layer", draw(st.sampled_from(scopes))))
    nodes = [make.leaf("x", kind)]
    for _ in range(draw(st.integers(1, 60))):
        operands = draw(st.lists(st.sampled_from(nodes[-12:]), min_size=1, max_size=2))
        name, scope = draw(st.sampled_from(["add", "tanh"])), draw(st.sampled_from(scopes))
        nodes.append(make.node(name, *operands, type=kind, scope=scope))
    make.stage("recorded", "record")
    make.stage("simplify", "rewrite")
    for old in draw(st.lists(st.sampled_from(nodes[1:]), unique=True, max_size=4)):
        new = make.node("scale", *make.recording.nodes.operands[old], type=kind, born=make.next_decision())
        make.decide("Rule", "done", "it is better", (old,), (new,), replace=[(old, new)])
    return make.roots(nodes[-1])


@given(recordings())
def test_any_graph_has_every_node_once_and_every_edge_complete(recording):
    check(build_model(recording))


@pytest.mark.spec("V-7")
def test_many_operators_of_a_file_are_closed_boxes():
    few, many = build_model(sample.network(2)), build_model(sample.network(6))
    assert all(box.open for box in few.tree.boxes)
    operators = [index for index, box in enumerate(many.tree.boxes) if box.is_operator]
    assert [many.tree.boxes[index].open for index in operators] == [False] * 6
    assert [many.box_texts[index] for index in operators] == [
        (f"conv{number}", "nn.Conv2d · 1×8×8×8 f32") for number in range(6, 0, -1)
    ]
    assert [kind for kind, _ in many.tree.boxes[0].items] == ["slot", *["box", "slot"] * 6]
    # A closed operator represents its contents in the kernel.
    assert many.groups[0] == [[11, 12], [9, 10], [7, 8], [5, 6], [3, 4], [1, 2]]


@pytest.mark.spec("V-7")
def test_a_closed_operator_of_a_file_lists_the_shapes_of_its_weights():
    model = build_model(ex.open(MODELS.parent / "digits.onnx").preview_plan().recording)
    texts = {name: lines for name, *lines in model.box_texts}
    # titles state the types, which are not repeated below
    assert texts["conv1 / Conv"] == ["1×8×8×8 f32", "W 8×1×3×3 · B 8"]
    assert texts["fc1 / Gemm"] == ["1×24 f32", "B 24×192 · C 24"]
    assert texts["pool / MaxPool"] == ["1×12×4×4 f32"]


def test_weights_that_do_not_fit_into_a_line_are_counted():
    def weights(count, length=1):
        return [("w" * length + str(index), f"key · {index} · 64×64×3×3 float32") for index in range(count)]

    assert weights_text([]) == ""
    assert weights_text([("x_scale", "s · scalar float32"), ("w", "a · b · 2×3 int8")]) == "w 2×3"
    assert weights_text(weights(2)) == "w0 64×64×3×3 · w1 64×64×3×3"
    many = weights_text(weights(9))
    assert many.startswith("w0 64×64×3×3 · ")
    assert many.endswith(f" · {9 - many.count('×3×3')} more")
    for line in (
        many,
        weights_text(weights(3, 200)),
        weights_text([("\u202e\n", "key · " + "1×" * 300 + "1 float32")]),
    ):
        assert line.isprintable()
        assert font.width(line, TYPE) <= WIDEST


@pytest.mark.spec("V-7")
def test_boxes_connected_through_single_nodes_are_not_a_stack():
    make = sample.Builder()
    x = make.leaf("x", make.type(4))
    for number in range(4):
        inside = make.scope(f"block{number}", "file")
        x = make.node("relu", make.node("conv", x, scope=inside), scope=inside)
        x = make.node("pool", x, scope=make.scope(f"pool{number}", "file"))
    model = build_model(make.roots(x))
    assert [box.kind for box in model.tree.boxes] == ["top", *["file"] * 4]


def test_a_call_has_space_for_its_mark() -> None:
    """A call is wider than an operation of the same name by the space for a mark on both sides."""
    text = Text("a name that is wider than the type", "2 f32", "", "", "", "")
    assert node_size("call", text)[0] - node_size("operation", text)[0] == 2 * CALL_MARK


def test_the_first_title_that_fits_is_used_else_the_last():
    titles = [("conv2d · add · relu", 110.0), ("3 operations", 80.0)]
    assert [title_within(titles, room) for room in (110, 109, 10)] == [titles[0][0], titles[1][0], titles[1][0]]


def test_a_summary_describes_the_recorded_program() -> None:
    """Nodes that a rewrite creates in a box are not among the steps of its summary."""
    target, x = ex.tensor(np.eye(4), name="target"), ex.tensor(np.ones((4, 4)), name="x")
    with ex.scope("head"):
        loss = ex.nll_loss(target, ex.softmax(ex.tanh(x)))
    model = build_model(ex.explore(loss + 1, run=False).recording)
    head = next(index for index, box in enumerate(model.tree.boxes) if box.label == "head")
    assert "log_softmax" in model.recording.nodes.label
    assert model.box_texts[head][1] == "tanh → softmax → nll_loss"


@pytest.mark.spec("V-24")
@pytest.mark.parametrize(
    ("file", "first", "second"),
    [("lstm.onnx", "LSTM", "node_LSTM_65 · ×20 steps"), ("lstm.pnnx.param", "rnn", "nn.LSTM · ×20 steps")],
)
def test_a_recurrent_layer_is_closed_and_states_its_type_steps_and_parameters(file, first, second):
    model = build_model(ex.open(MODELS / file).preview_plan().recording)
    recurrent = [index for index, box in enumerate(model.tree.boxes) if box.steps]
    assert not any(model.tree.boxes[index].open for index in recurrent)
    texts = [model.box_texts[index] for index in recurrent]
    assert {text[0] for text in texts} == {first}
    assert second in [text[1] for text in texts]
    assert all("parameters" in text[2] for text in texts)
