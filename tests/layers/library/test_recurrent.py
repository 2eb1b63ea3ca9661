"""Recurrent layers and GRUs against torch: values and gradients, with and without gradients through time."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import explorer as ex
from explorer import layers
from explorer.core.ir.traversal import reachable

REFERENCE = Path(__file__).parents[3] / "assets" / "gru.npz"
DOUBLE = layers.ParameterPolicy.dtype(np.float64)


def recurrent(reset: str, mode: str, *policies: Any, train: bool = True) -> layers.Recurrent:
    chosen = [
        layers.RecurrentPolicy.step(layers.GRUStep),
        layers.GRUPolicy.reset(reset),
        layers.GRUPolicy.bias_involved(reset == "after"),
        layers.PEnableBptt if mode == "through" else layers.PDisableBptt,
        DOUBLE,
        *policies,
    ]
    return layers.Recurrent("r", {"in_features": 3, "out_features": 4}, policies=chosen, train=train)


@pytest.mark.spec("M-L4", headline=True)
@pytest.mark.parametrize("length", [1, 2, 7])
@pytest.mark.parametrize("mode", ["through", "within"])
@pytest.mark.parametrize("reset", ["after", "before"])
def test_gated_recurrent_units_equal_torch(reset: str, mode: str, length: int) -> None:
    """Compute a recurrent layer of GRU steps as torch does: outputs and the gradients of inputs, state and parameters.

    With back-propagation through time, and without it, for sequences of 1, 2 and 7 steps.
    """
    with np.load(REFERENCE) as stored:
        case = f"{reset}/{mode}/{length}/"
        held = {name.removeprefix(case): stored[name] for name in stored.files if name.startswith(case)}
        own = {name: stored[name] for name in stored.files if name.endswith(("/weight", "/bias"))}
    if reset == "before":
        own = {name: array for name, array in own.items() if name.endswith("weight")}
    paths = {f"r/step/{name if reset == 'after' else name.removesuffix('/weight')}/parameter": name for name in own}
    layer = recurrent(reset, mode, layers.PUpdate, layers.PFeedbackOutput)
    layer.init(layers.Initializer({path: own[name] for path, name in paths.items()}))
    y = layer(input=held["x"], previous=held["h"])
    gradients = layer.feed_backward(held["seed"])
    collector = layers.GradCollector()
    layer.grad_collect(collector)
    layer.neutral_invariant()
    result, inputs, parameters = ex.evaluate(
        (y, dict(gradients), {paths[parameter.name]: gradient for parameter, gradient in collector})
    )
    np.testing.assert_allclose(result, held["output"], rtol=1e-10, atol=1e-12)
    assert parameters.keys() == own.keys()
    given = {"x": inputs["input"], "h": inputs["previous"], **{name: parameters[name] for name in own}}
    assert [array.shape for array in given.values()] == [array.shape for array in (held["x"], held["h"], *own.values())]
    flat = np.concatenate([array.ravel() for array in given.values()])
    np.testing.assert_allclose(flat, held["gradients"], rtol=1e-10, atol=1e-12)


@pytest.mark.spec("M-L4", "M-L13")
def test_without_gradients_through_time_no_step_feeds_the_previous_one() -> None:
    """The state's gradient stops at each step, and no step must feed back."""
    through, within = (recurrent("before", mode, layers.PUpdate) for mode in ("through", "within"))
    (fed,), (stopped,) = through.feedback, within.feedback
    assert (fed.needed, stopped.needed) == (True, False)
    assert fed.reason
    assert stopped.reason not in ("", fed.reason)
    nothing = recurrent("before", "through")
    assert not nothing.feedback[0].needed


def test_layers_with_equal_steps_and_other_time_options_share_nothing() -> None:
    """Test one step with different policies, in layers with other axes, and without gradients through time."""
    step = layers.Sub("step", layers.PEnableBptt, layers.RecurrentPolicy.axis(0))
    through, within, turned, again = (
        recurrent("before", mode, layers.RecurrentPolicy.axis(axis), step, layers.PUpdate)
        for mode, axis in (("through", 0), ("within", 0), ("through", 1), ("through", 0))
    )
    assert through["step"].blueprint == within["step"].blueprint == turned["step"].blueprint
    assert len({through.function, within.function, turned.function}) == 3
    assert again.function is through.function
    x, h = np.random.default_rng(0).normal(size=(2, 2, 3)), np.zeros((2, 4))
    slopes = []
    for layer in (through, within, again):
        layer.init(layers.Initializer(filler=layers.VarScale(), seed=3))
        layer(x, h)
        layer.feed_backward(np.ones((2, 2, 4)))
        collector = layers.GradCollector()
        layer.grad_collect(collector)
        slopes.append({parameter.name: ex.evaluate(gradient) for parameter, gradient in collector})
    name = "r/step/candidate_input/parameter"
    assert not np.allclose(slopes[0][name], slopes[1][name])
    np.testing.assert_array_equal(slopes[0][name], slopes[2][name])


def test_policies_choose_the_time_axis() -> None:
    """They apply to all sequences or to a port, counted from the front or the back."""
    x, h = np.random.default_rng(0).normal(size=(5, 2, 3)), np.zeros((2, 4))
    values = []
    for axis, order in ((0, (0, 1, 2)), (1, (1, 0, 2)), (-2, (1, 0, 2)), ((("input", 1),), (1, 0, 2))):
        layer = recurrent("before", "through", layers.RecurrentPolicy.axis(axis), train=False)
        layer.init(layers.Initializer(filler=layers.VarScale(), seed=3))
        values.append(ex.evaluate(layer(x.transpose(order), h)).transpose(order))
    for value in values[1:]:
        np.testing.assert_array_equal(value, values[0])


class Sums(layers.Layer):
    """Two states: a running sum, and a product of the inputs."""

    inputs = ("input", "scale", "previous_sum", "previous_product")
    outputs = ("sum", "product")

    def forward(
        self, input: ex.Expr, scale: ex.Expr, previous_sum: ex.Expr, previous_product: ex.Expr
    ) -> dict[str, ex.Expr]:
        return {"sum": previous_sum + scale * input, "product": previous_product * input}


def test_a_user_defined_step_may_have_several_states_and_constant_inputs() -> None:
    """Any layer is a step: port previous_x gets the previous step's output x; inputs without a time axis are passed
    whole."""
    chosen = [
        layers.RecurrentPolicy.step(Sums),
        layers.RecurrentPolicy.axis((("input", 0),)),
        layers.PFeedbackOutput,
    ]
    layer = layers.Recurrent("r", {}, policies=chosen, train=True)
    assert layer.inputs == Sums.inputs
    assert layer.outputs == Sums.outputs
    x = np.array([2.0, 3.0, 5.0])
    y = layer(input=x, scale=10.0, previous_sum=np.array(1.0), previous_product=np.array(1.0))
    result = ex.evaluate(dict(y))
    np.testing.assert_array_equal(result["sum"], [21, 51, 101])
    np.testing.assert_array_equal(result["product"], [2, 6, 30])
    gradients = ex.evaluate(dict(layer.feed_backward(sum=np.array([0.0, 0, 1]), product=np.array([0.0, 0, 1]))))
    np.testing.assert_array_equal(gradients["input"], [10 + 15, 10 + 10, 10 + 6])
    assert gradients["scale"] == 10
    assert gradients["previous_product"] == 30


class Weighed(layers.Layer):
    """A running sum, weighted by a second sequence."""

    inputs = ("input", "weight", "previous")
    outputs = ("output",)

    def forward(self, input: ex.Expr, weight: ex.Expr, previous: ex.Expr) -> ex.Expr:
        return previous + weight * input


@pytest.mark.parametrize("lengths", [(3, 2), (2, 3), (1, 4), (0, 0)])
def test_sequences_must_have_one_length(lengths: tuple[int, int]) -> None:
    """Sequences of different lengths, or none, raise an error, and leave nothing to feed backward."""
    layer = layers.Recurrent(
        "r", {}, policies=[layers.RecurrentPolicy.step(Weighed), layers.PFeedbackOutput], train=True
    )
    with pytest.raises(ex.OperandError, match=f"lengths input {lengths[0]}, weight {lengths[1]} "):
        layer(input=np.ones(lengths[0]), weight=np.ones(lengths[1]), previous=np.array(0.0))
    layer.neutral_invariant()
    result = layer(input=np.array([2.0, 3.0]), weight=np.array([10.0, 1.0]), previous=np.array(0.0))
    np.testing.assert_array_equal(ex.evaluate(result), [20, 23])


@pytest.mark.soak
def test_long_sequences_need_no_recursion_and_grow_linearly() -> None:
    """A sequence of 1000 steps is recorded, fed back and evaluated."""
    sizes = []
    for length in (250, 500, 1000):
        layer = recurrent("before", "through", layers.PUpdate)
        layer.init(layers.Initializer(filler=layers.VarScale()))
        y = layer(np.zeros((length, 1, 3)), np.zeros((1, 4)))
        assert layer.feed_backward(np.zeros((length, 1, 4)))["input"] is None
        collector = layers.GradCollector()
        layer.grad_collect(collector)
        sizes.append(len(y.operation.body.nodes))
        assert len(reachable([y])) < 20
    assert sizes[2] - sizes[1] == 2 * (sizes[1] - sizes[0])
    assert not ex.evaluate(y).any()


@pytest.mark.parametrize(
    ("step", "arguments", "axis", "message"),
    [
        (int, {}, 0, "the step int of Recurrent"),
        (layers.Tanh, {}, 0, "no input port 'previous_output' or 'previous'"),
        (layers.Recurrent, {"step": {}}, 0, "the step Recurrent of Recurrent"),
        (layers.GRUStep, {"in": 3}, 0, "missing a required argument: 'in_features'"),
        (layers.GRUStep, 3, 0, "the argument 'step' of Recurrent"),
        (layers.GRUStep, {"in_features": 3, "out_features": 4}, (0, 1), "pairs \\(sequence port"),
        (layers.GRUStep, {"in_features": 3, "out_features": 4}, (("inptu", 1),), "unknown sequence port"),
    ],
)
def test_invalid_recurrent_layers_raise_an_error(step: type, arguments: Any, axis: Any, message: str) -> None:
    """A step without ports for its state, wrong arguments, or invalid axes are rejected at construction."""
    chosen = [layers.RecurrentPolicy.step(step), layers.RecurrentPolicy.axis(axis)]
    with pytest.raises(ex.ExplorerError, match=message):
        layers.Recurrent("r", arguments, policies=chosen)


def test_mismatching_sequences_raise_an_error() -> None:
    """Empty sequences, and inputs without a time axis, are rejected before anything is recorded."""
    layer = recurrent("before", "through", train=False)
    layer.init(layers.Initializer(filler=layers.VarScale()))
    with pytest.raises(ex.OperandError, match="lengths input 0"):
        layer(np.zeros((0, 1, 3)), np.zeros((1, 4)))
    with pytest.raises(ex.OperandError, match="the time axis 0"):
        layer(np.array(1.0), np.zeros((1, 4)))
    with pytest.raises(ex.OperandError, match="matmul") as caught:
        layer(np.zeros((2, 1, 5)), np.zeros((1, 4)))
    text = "\n".join(caught.value.__notes__)
    assert "in 'product', its Dot" in text
    assert "while Recurrent('r') was fed input 2×1×5 float64" in text
