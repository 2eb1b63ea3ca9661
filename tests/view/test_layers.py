"""Pictures of layers: boxes with name and class, port names, and gradients next to their layers."""

from __future__ import annotations

import xml.etree.ElementTree as ET

import numpy as np
import pytest

import explorer as ex
from explorer import layers
from explorer.record import Recording
from explorer.view.export.why_text import why
from explorer.view.model.picture_model import Model, build_model
from explorer.view.payload.view_payload import layout_json
from explorer.view.picture.svg import svg

F32 = np.dtype(np.float32)


@pytest.fixture(scope="module")
def perceptron() -> Recording:
    """Return a training perceptron, explored with the type of its input."""
    chosen = [layers.PUpdate, layers.PerceptronPolicy.activation(layers.Sigmoid)]
    layer = layers.SingleLayerPerceptron("root", 2, 3, policies=chosen, inputs={"input": ex.TensorType((4, 2), F32)})
    result: Recording = layer.explore().recording
    return result


def names(model: Model, parent: int) -> list[str]:
    """Return the names of the boxes inside a box."""
    return [model.box_texts[index][0] for kind, index in model.tree.boxes[parent].items if kind == "box"]


def numbered(model: Model, name: str, within: int = 0) -> int:
    """Return the outermost box with a name inside another box."""
    waiting = [within]
    for box in waiting:
        if box != within and model.box_texts[box][0] == name:
            return box
        waiting += [index for kind, index in model.tree.boxes[box].items if kind == "box"]
    raise AssertionError(f"no box {name}")


@pytest.mark.spec("M-L10", "V-7")
def test_layers_are_nested_boxes_with_name_and_class(perceptron: Recording) -> None:
    """An open composite shows its sublayers' boxes, each with name and class, next to its gradient."""
    model = build_model(perceptron)
    assert names(model, 0) == ["root · SingleLayerPerceptron", "gradient"]
    root = numbered(model, "root · SingleLayerPerceptron")
    assert names(model, root) == ["linear · Linear", "activation · Sigmoid"]
    assert names(model, numbered(model, "linear · Linear")) == ["weight · Weight", "bias · Bias"]
    assert names(model, numbered(model, "bias · Bias")) == ["sum · Add"]
    back = numbered(model, "gradient")
    assert sorted(names(model, numbered(model, "linear · Linear", back))) == ["bias · Bias", "weight · Weight"]
    assert all(model.tree.boxes[box].open for box in (root, back, numbered(model, "bias · Bias")))


@pytest.mark.spec("M-L10")
def test_ports_have_names_at_the_ends_of_edges(perceptron: Recording) -> None:
    """Names of a layer's ports are at the points where edges enter and leave its box, in layout and picture."""
    model = build_model(perceptron)
    inside = {model.box_texts[box][0]: set() for box, *_ in model.port_names}
    for (box, *_), result in model.port_names.items():
        inside[model.box_texts[box][0]] |= {name for name in result if name}
    assert inside["weight · Weight"] == {"left", "right", "output"}
    assert inside["root · SingleLayerPerceptron"] == {"input", "output"}
    edges = [edge for box in layout_json(perceptron)["boxes"] for edge in box["edges"]]
    assert {len(edge) for edge in edges} == {5, 7}
    texts = ET.fromstring(svg(perceptron, 0)).findall(".//{*}text")
    drawn = [(text.text, int(text.get("x", ""))) for text in texts if text.get("class") == "port"]
    # Two edges end at one box, each with its name next to it; the weight is on the left.
    assert dict(drawn)["right"] + 30 < dict(drawn)["left"]
    assert sum(name == "output" for name, _ in drawn) >= 5


@pytest.mark.spec("M-L10", "V-15")
def test_a_closed_layer_of_one_operation_keeps_its_name(perceptron: Recording) -> None:
    """A closed layer with one operation is drawn with its own name, class and result."""
    texts = [text.text for text in ET.fromstring(svg(perceptron, 0)).findall(".//{*}text")]
    assert "product · Dot" in texts
    assert "linear/weight/parameter" in texts


@pytest.mark.spec("V-19", "M-L3")
def test_parameters_are_counted_before_they_have_values(perceptron: Recording) -> None:
    """The box of an uninitialised layer shows the number of its parameters."""
    model = build_model(perceptron)
    assert model.totals[numbered(model, "linear · Linear")].parameters == 2 * 3 + 3
    assert model.totals[0].parameters == 9


@pytest.mark.spec("M-L4", "V-7")
def test_repeated_layers_fold() -> None:
    """The equal steps of a recurrent layer are folded into one box with their number."""

    class Step(layers.Layer):
        inputs = ("input", "previous")

        def forward(self, input: ex.Expr, previous: ex.Expr) -> ex.Expr:
            return ex.tanh(input * previous + previous)

    kinds = {"input": ex.TensorType((12, 4), F32), "previous": ex.TensorType((4,), F32)}
    layer = layers.Recurrent("rnn", {}, policies=[layers.RecurrentPolicy.step(Step)])
    model = build_model(layer.explore(inputs=kinds).recording)
    assert any(name.startswith("step") and name.endswith(("×11", "×12")) for name, *_ in model.box_texts)


@pytest.mark.spec("V-11")
def test_the_history_of_a_node_describes_its_gradient(perceptron: Recording) -> None:
    """The history of a node names the nodes that compute its gradient, and the values saved for them."""
    labels = [perceptron.label(node) for node in range(len(perceptron.nodes))]
    assert "gradient: sigmoid_gradient; saved for it: sigmoid\n" in why(perceptron, labels.index("sigmoid"))
    assert "part of the gradient of sigmoid\n" in why(perceptron, labels.index("sigmoid_gradient"))


@pytest.mark.spec("V-11")
def test_gradients_are_recorded_without_layers() -> None:
    """ex.grad records each node's backward nodes and saved values, also in functions and second derivatives."""
    x, w = ex.tensor(np.ones((2, 2), np.float32), name="x"), ex.tensor(np.ones((2, 2), np.float32), name="w")

    @ex.function
    def step(value: ex.Expr) -> ex.Expr:
        return ex.tanh(value @ w)

    loss = step(step(x)).sum()
    recording = ex.explore([loss, ex.grad(loss, w)], run=False).recording
    rows = [row for row in recording.gradients if recording.nodes.body[row.node] == 0]
    tanh = [row for row in rows if recording.label(row.node) == "tanh"]
    assert len(tanh) == 2
    assert all(row.saved == (row.node,) for row in tanh)
    products = [[recording.label(node) for node in row.saved] for row in rows if recording.label(row.node) == "matmul"]
    assert products == [["x"], ["w", "tanh"]]


@pytest.mark.spec("V-11", "M-E4")
def test_gradients_are_found_in_batched_calls() -> None:
    """The nodes of a batched call have the gradients that the nodes of the single calls had."""
    w = ex.tensor(np.ones((8, 8), np.float32), name="w")

    @ex.function
    def step(value: ex.Expr) -> ex.Expr:
        return ex.tanh(value @ w)

    samples = [ex.tensor(np.full(8, number, np.float32), name=f"x{number}") for number in range(20)]
    loss = sum([step(x).sum() for x in samples], ex.tensor(np.float32(0.0)))
    recording = ex.explore([loss, ex.grad(loss, w)], run=False).recording
    assert any(group.kind == "batch" for group in recording.groups)
    rows = {recording.label(row.node): row for row in recording.gradients if recording.nodes.body[row.node] == 0}
    assert recording.type_of(rows["tanh"].node).shape == (20, 8)
    assert rows["tanh"].saved == (rows["tanh"].node,)
    assert "matmul" in [recording.label(node) for node in rows["matmul"].backward]
    assert [recording.label(node) for node in rows["matmul"].saved] == ["stack"]
