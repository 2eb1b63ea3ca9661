"""Descriptions of layers: order, clauses, policies and their sources, gradients and reasons; as text and as data."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

import explorer as ex
from explorer import layers
from explorer.core.ir.function import Parameter
from explorer.core.ir.traversal import reachable, rebuild
from explorer.layers.framework.expanded_layer import expand
from explorer.record import Layer, Policy, Recording, from_json, to_json
from explorer.view.export.text import text

KIND = ex.TensorType((4, 2), np.dtype(np.float32))
PERCEPTRON = """\
root · SingleLayerPerceptron · input → output · for training
    order: linear → activation
    Sublayer('linear', Weight)
    Sublayer('activation', Tanh)
    InConnect('input', 'linear', 'input')
    InternalConnect('linear', 'output', 'activation', 'input')
    OutConnect('activation', 'output', 'output')
    GradPolicy.update = True · given by root
    GradPolicy.feedback_output = False · default
    PerceptronPolicy.activation = Tanh · given by root
    PerceptronPolicy.bias_involved = False · given by root
    ✗ linear sends no gradient to its inputs, because nothing before it is trained
    ✓ activation sends a gradient to its inputs, because linear needs one
  linear · Weight · input → output
      order: parameter → product
      Sublayer('parameter', ParamSource)
      Sublayer('product', Dot)
      InConnect('input', 'product', 'left')
      InternalConnect('parameter', 'output', 'product', 'right')
      OutConnect('product', 'output', 'output')
      GradPolicy.update = True · given by root
      GradPolicy.feedback_output = False · inferred: nothing before it is trained
      PerceptronPolicy.activation = Tanh · given by root
      PerceptronPolicy.bias_involved = False · given by root
      ✓ product sends a gradient to its inputs, because parameter needs one
    parameter · ParamSource · none → output
        GradPolicy.update = True · given by root
        GradPolicy.feedback_output = False · inferred: nothing before it is trained
        ParameterPolicy.dtype = float32 · default
        ParameterPolicy.device = cpu · default
        ParameterPolicy.filler = None · default
        ParameterPolicy.initializer = None · default
        ParameterPolicy.type = Parameter · default
        PerceptronPolicy.activation = Tanh · given by root
        PerceptronPolicy.bias_involved = False · given by root
        ✓ its gradient is built, because GradPolicy.update = True was given by root
    product · Dot · left, right → output
        GradPolicy.update = True · given by root
        GradPolicy.feedback_output = True · inferred: parameter needs one
        DimensionPolicy.keep = False · default
        DimensionPolicy.count = 1 · default
        DimensionPolicy.axes = None · default
        InputPolicy.row_vector = False · default
        PerceptronPolicy.activation = Tanh · given by root
        PerceptronPolicy.bias_involved = False · given by root
  activation · Tanh · input → output
      GradPolicy.update = True · given by root
      GradPolicy.feedback_output = True · inferred: linear needs one
      PerceptronPolicy.activation = Tanh · given by root
      PerceptronPolicy.bias_involved = False · given by root
"""


def perceptron(*policies: Any, **options: Any) -> layers.SingleLayerPerceptron:
    chosen = [layers.PerceptronPolicy.activation(layers.Tanh), *policies]
    return layers.SingleLayerPerceptron("root", 2, 3, policies=chosen, **options)


def recorded(layer: layers.Layer, **options: Any) -> Recording:
    result: Recording = layer.explore(**options).recording
    return result


def layer_named(recording: Recording, name: str) -> Layer:
    (results,) = [layer for layer in recording.layers if layer.name == name]
    return results


def labels(recording: Recording, nodes: tuple[int, ...]) -> list[str]:
    return [recording.label(node) for node in nodes]


@pytest.mark.spec("M-L10", "M-L12", "M-L13")
def test_a_layer_is_described() -> None:
    """describe() returns the tree of sublayers with the inferred order, the clauses, and every decision with its
    reason."""
    assert perceptron(layers.PUpdate, layers.PBiasNotInvolved, train=True).describe() == PERCEPTRON


@pytest.mark.spec("M-L12")
def test_every_policy_shows_which_ancestor_set_it() -> None:
    """Each policy of each sublayer has its value and its source: a layer, the default, or inference."""
    chosen = [layers.PUpdate, layers.Sub("bias", layers.PNoUpdate)]
    recording = recorded(layers.Linear("root", 2, 3, policies=chosen, inputs={"input": KIND}))
    update = "GradPolicy.update"
    assert Policy(update, "True", "given by root") in layer_named(recording, "root/weight/parameter").policies
    assert Policy(update, "False", "given by root, for bias") in layer_named(recording, "root/bias/parameter").policies
    assert (
        Policy("ParameterPolicy.dtype", "float32", "default") in layer_named(recording, "root/bias/parameter").policies
    )
    assert Policy("GradPolicy.feedback_output", "False", "default") in layer_named(recording, "root").policies


@pytest.mark.spec("M-L12", "M-L15")
def test_a_user_defined_policy_is_described() -> None:
    """A policy class declared in a cell is listed for the layers that read it, with its default."""

    class Scale(layers.PolicyClass):
        factor = layers.Minor(2.0)

    class Scaled(layers.Layer):
        def forward(self, input: ex.Expr) -> ex.Expr:
            return input * self.select(_scale()).factor

    def _scale() -> type[Scale]:
        return Scale

    layer = Scaled("root", policies=[Scale.factor(3.0)])
    assert [(policy.name, policy.value, policy.by) for policy in layer.to_row().policies if "Scale" in policy.name] == [
        ("Scale.factor", "3.0", "given by root")
    ]


@pytest.mark.spec("M-L13")
def test_unneeded_gradients_are_not_built_and_have_a_reason() -> None:
    """Decisions state which sublayers feed back, which gradients are not built, and why."""
    chosen = [layers.PUpdate, layers.Sub("weight", layers.PNoUpdate)]
    layer = layers.Linear("root", 2, 3, policies=chosen, inputs={"input": KIND})
    recording = recorded(layer)
    assert [each.text for each in layer_named(recording, "root").feedback] == [
        "weight sends no gradient to its inputs, because nothing before it is trained",
        "bias sends no gradient to its inputs, because nothing before it is trained",
    ]
    assert [each.text for each in layer_named(recording, "root/weight/parameter").feedback] == [
        "its gradient is not built, because GradPolicy.update = False was given by root, for weight"
    ]
    assert list(expand(layer).gradients) == ["bias/parameter"]
    forward = {recording.label(gradient.node) for gradient in recording.gradients}
    assert forward == {"add"}, "the product has no gradient"
    quiet = layers.Linear("root", 2, 3, policies=[layers.PUpdate])
    assert {each.built for each in quiet.to_row().feedback} == {False}


@pytest.mark.spec("M-L5", "M-L7")
def test_the_explored_graph_of_a_layer_equals_feeding() -> None:
    """It computes the values and gradients of feeding forward and backward."""
    layer = perceptron(layers.PUpdate, layers.PFeedbackOutput, train=True)
    layer.init(layers.Initializer(filler=layers.Uniform(-1.0, 1.0), seed=3))
    x, g = np.array([[0.1, 0.2]], np.float32), np.array([[0.3, -0.1, 0.2]], np.float32)
    written = expand(layer, {"input": x})
    fed = layer.feed_forward(x)
    np.testing.assert_array_equal(ex.evaluate(written.outputs["output"]), ex.evaluate(fed))
    back = layer.feed_backward(g)
    collector = layers.GradCollector()
    layer.grad_collect(collector)
    results = {parameter.name.removeprefix("root/"): gradient for parameter, gradient in collector}
    assert list(written.gradients) == ["input", "linear/bias/parameter", "linear/weight/parameter"]
    nodes = reachable(written.gradients.values())
    (seed,) = [node for node in nodes if isinstance(node.operation, Parameter)]
    roots = rebuild([node for node in nodes if node.operands], {seed.uid: ex.tensor(g)}, lambda node: node.scope)
    for name, gradient in {"input": back, **results}.items():
        computed = ex.evaluate(roots[written.gradients[name].uid])
        np.testing.assert_allclose(computed, ex.evaluate(gradient), rtol=1e-6)


@pytest.mark.spec("M-L5")
def test_types_are_enough_to_explore_and_a_missing_one_is_an_error() -> None:
    """A layer constructed with types needs none; for others the error names the port."""
    linear = layers.Linear("root", 2, 3)
    assert recorded(linear, inputs={"input": KIND}).type_text(recorded(linear, inputs={"input": KIND}).roots[0])
    with pytest.raises(ex.OperandError, match=r"without a type for its input input"):
        linear.explore()
    with pytest.raises(ex.UnknownNameError, match="inputs"):
        linear.explore(inputs={"inputs": KIND})
    assert ex.explore(layers.Linear("root", 2, 3, inputs={"input": KIND})).recording.title == "root · Linear"


@pytest.mark.spec("M-L5")
def test_the_single_input_of_a_layer_is_explored_without_its_port() -> None:
    """A single array, type or expression is the only input; several inputs need their ports' names."""
    linear = layers.Linear("root", 2, 3)
    array = np.ones((4, 2), np.float32)
    for value in (array, KIND, ex.tensor(array)):
        recording = linear.explore(value).recording
        assert recording.type_text(recording.roots[0]).endswith("×3 float32")
    with pytest.raises(ex.OperandError, match="the port 'right' of Add"):
        layers.Add("sum").explore(array)


@pytest.mark.spec("M-L5")
def test_the_fix_for_a_missing_input_is_accepted_by_the_layer() -> None:
    """The fix, typed as it is, has a shape with the layer's own number of features."""
    linear = layers.Linear("root", 5, 3)
    with pytest.raises(ex.OperandError) as refusal:
        linear.explore()
    typed = refusal.value.fix.partition(", or values")[0].removeprefix("inputs=")
    assert linear.explore(eval(typed)).recording.roots


@pytest.mark.spec("M-L5", "V-6")
def test_an_initialized_layer_with_values_is_run() -> None:
    """Exploring an inference layer whose inputs and parameters have values shows its values."""
    linear = layers.Linear("root", 2, 3)
    linear.init(layers.Initializer(filler=layers.Constant(1.0)))
    recording = recorded(linear, inputs={"input": np.ones((4, 2), np.float32)})
    assert recording.run is not None
    assert recording.run.values[recording.roots[0]].max == 3.0


@pytest.mark.spec("M-L10")
def test_ports_and_clauses_are_part_of_the_recording() -> None:
    """A recording contains each layer's clauses, the inferred order, and the values at its ports."""
    recording = recorded(layers.Linear("root", 2, 3), inputs={"input": KIND})
    root = layer_named(recording, "root")
    assert root.order == ("weight", "bias")
    assert "InternalConnect('weight', 'output', 'bias', 'input')" in root.clauses
    (scope,) = layer_named(recording, "root/weight/product").scopes
    ports = {port.name: recording.label(port.node) for port in recording.ports if port.scope == scope}
    assert ports == {"left": "input", "right": "weight/parameter", "output": "matmul"}


@pytest.mark.spec("P-16", "M-L12")
def test_descriptions_of_layers_are_kept_in_json() -> None:
    """A recording's JSON contains layers, ports and gradients; without layers it has none of these tables."""
    recording = recorded(perceptron(layers.PUpdate, inputs={"input": KIND}))
    plain = json.loads(json.dumps(to_json(recording)))
    assert from_json(plain) == recording
    assert plain["layers"]
    assert plain["gradients"]
    assert not {"layers", "ports", "gradients"} & set(to_json(Recording()))
    plain["layers"][0]["scopes"] = [99]
    with pytest.raises(ValueError, match=r"layers\.scopes: 99 is no row of scopes"):
        from_json(plain)


@pytest.mark.spec("M-L12", "V-15")
def test_the_text_of_a_plan_contains_its_layers() -> None:
    """The canonical text of a recording lists its layers as describe() does."""
    layer = perceptron(layers.PUpdate, layers.PBiasNotInvolved, inputs={"input": KIND})
    lines = text(recorded(layer)).splitlines()
    assert "layers: 5" in lines
    assert {f"  {line}" for line in PERCEPTRON.splitlines()} <= set(lines)


@pytest.mark.spec("M-L13", "V-11")
def test_a_plan_of_a_fed_layer_knows_the_parameter_of_each_gradient_node() -> None:
    """Nodes inside opened calls are included."""
    layer = perceptron(layers.PUpdate, layers.PBiasNotInvolved, train=True)
    layer.init(layers.Initializer(filler=layers.Uniform(-1.0, 1.0)))
    x = ex.tensor(np.ones((4, 2), np.float32), name="x")
    fed = layer.feed_forward(x)
    layer.feed_backward(np.ones((4, 3), np.float32))
    collector = layers.GradCollector()
    layer.grad_collect(collector)
    plan = ex.EvalPlan()
    for root in (fed, *[gradient for _, gradient in collector]):
        plan.register(root)
    plan.prepare()
    recording = plan.recording
    nodes = recording.nodes
    results = {
        recording.label(row.node): row
        for row in recording.gradients
        if nodes.body[row.node] == 0 and nodes.kind[row.node] == "operation"
    }
    assert set(results) == {"matmul", "tanh"}
    assert "matmul" in labels(recording, results["matmul"].backward)
    assert labels(recording, results["matmul"].saved) == ["x"]
    assert labels(recording, results["tanh"].saved) == ["tanh"]
    assert layer_named(recording, "root/linear/product").order == ()
    assert len(layer_named(recording, "root/linear").scopes) >= 2, "the box of the layer, and that of its gradient"


@pytest.mark.spec("M-L14", "V-7")
def test_a_shared_parameter_is_one_node_and_has_one_gradient() -> None:
    """Layers that share a parameter through a name map are drawn around one node, whose gradient is a sum."""

    class Twice(layers.Composite):
        topology = layers.Topology(
            layers.Sublayer("first", layers.Bias),
            layers.Sublayer("second", layers.Bias),
            layers.InConnect("input", "first", "input"),
            layers.InternalConnect("first", "output", "second", "input"),
            layers.OutConnect("second", "output", "output"),
        )

        def arguments(self) -> dict[str, dict[str, int]]:
            return {"first": {"features": 2}, "second": {"features": 2}}

    layer = Twice("root", policies=[layers.PUpdate], inputs={"input": KIND})
    names = {f"root/{name}/parameter": "shared" for name in ("first", "second")}
    layer.init(layers.Initializer({"shared": np.ones(2, np.float32)}, names=names))
    recording = recorded(layer)
    kinds = recording.nodes.kind
    assert [recording.label(node) for node in range(len(kinds)) if kinds[node] == "leaf"] == ["shared"]
    (row,) = [row for row in recording.gradients if recording.label(row.node) == "shared"]
    assert labels(recording, row.backward) == ["add_n"]


@pytest.mark.spec("M-L4", "M-L10", "V-7")
def test_the_steps_of_a_recurrent_layer_are_boxes_of_one_layer() -> None:
    """Each step is a box of the same sublayer, next to the parameters."""
    kinds = {
        "input": ex.TensorType((5, 3), np.dtype(np.float32)),
        "previous": ex.TensorType((4,), np.dtype(np.float32)),
    }
    chosen = [layers.PUpdate, layers.RecurrentPolicy.step(layers.GRUStep)]

    class Unrolled(layers.Recurrent):
        """A user-defined recurrent layer."""

    layer = Unrolled("rnn", {"in_features": 3, "out_features": 4}, policies=chosen, inputs=kinds)
    recording = recorded(layer)
    step = layer_named(recording, "rnn/step")
    forward = [scope for scope in step.scopes if recording.scopes[recording.scopes[scope].parent].parent == 0]
    assert len(forward) == 5
    (feedback,) = layer_named(recording, "rnn").feedback
    assert feedback.reason
    names = [recording.label(n) for n in range(len(recording.nodes)) if recording.nodes.kind[n] == "input"]
    assert names.count("step/candidate_state/parameter") == 1


@pytest.mark.spec("V-1")
def test_a_value_with_which_a_layer_is_explored_has_the_name_of_its_port() -> None:
    written = expand(layers.Subtract("s"), {"left": np.ones(2), "right": np.ones(2)})
    assert [operand.label for operand in written.outputs["output"].operands] == ["left", "right"]
