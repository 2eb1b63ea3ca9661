"""Interfaces of nets in recordings: inputs and outputs with the definition's names and order."""

import numpy as np

import explorer as ex
from tests.formats.onnx.models import FLOAT, model, node, opened


def exchanged():
    """Return a net that reads its inputs in reverse order, and whose outputs are results of operations."""
    net = ex.Net("exchanged")
    for name in ("first", "second", "third"):
        net.input(name, (2,))
    net.output(net.Add([net.Relu("third", "relu"), "first"], name="total"), net.Tanh("second", "activated"))
    return net


def rows(recording):
    return [(row.direction, row.name, recording.nodes.label[row.node]) for row in recording.interface]


def test_inputs_and_outputs_equal_the_definition():
    net = exchanged()
    inputs, outputs = ["first", "second", "third"], list(net.outputs)
    expected = [("input", name, name) for name in inputs] + [
        ("output", name, label) for name, label in zip(outputs, ["add", "tanh"], strict=True)
    ]
    assert rows(net.preview_plan().recording) == expected
    plan = net.plan(*np.ones((3, 2), np.float32))
    assert rows(plan.recording) == expected
    assert rows(plan.eval().recording) == expected


def test_a_plan_of_other_expressions_has_no_interface():
    plan = exchanged().plan(*np.ones((3, 2), np.float32)).eval()
    plan.register(ex.tanh(ex.tensor([1.0])))
    assert plan.eval().recording.interface == []


def test_elements_of_a_sequence_are_named_separately(tmp_path):
    nodes = [node("Neg", ["x"], ["a"]), node("SequenceConstruct", ["a", "x"], ["parts"])]
    net = opened(model(nodes, {"x": (FLOAT, [2])}, ("parts",)), tmp_path)
    assert rows(net.plan(np.ones(2, np.float32)).recording) == [
        ("input", "x", "x"),
        ("output", "parts[0]", "negative"),
        ("output", "parts[1]", "x"),
    ]
