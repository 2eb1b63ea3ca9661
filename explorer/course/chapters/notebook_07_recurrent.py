"""Exercises of notebook 07: a network that remembers."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from explorer.core.ir.tensor import tensor
from explorer.core.policy import Policy
from explorer.core.types.tensor_type import TensorType
from explorer.course.exercise_base import Exercise, Finding
from explorer.course.recording_facts import agree
from explorer.layers import GRUStep as Gated
from explorer.layers import Layer, PFeedbackOutput, PUpdate, Recurrent, RecurrentPolicy, Sub
from explorer.run import evaluate


class LayerWithBiases(Exercise):
    """With `layers.GRUPolicy.bias_involved(True)`, a GRU step has biases, too. Make the recurrent layer of this
    notebook, with one input feature and four output features, with biases. How many parameters does it have?
    """

    number = "07.1"
    title = "Counting parameters"
    level = 1
    answer = "the layer"
    accepts = (Recurrent,)
    hints = (
        "Add the policy to the others: `policies=[…, layers.GRUPolicy.bias_involved(True)]`.",
        "`layer.paths()` lists all parts; each path that ends in `parameter` is a parameter.",
    )
    source = """
import explorer as ex
from explorer import layers

chosen = [layers.RecurrentPolicy.step(layers.GRUStep), layers.PUpdate, layers.GRUPolicy.bias_involved(True)]
answer = layers.Recurrent("gru", {"in_features": 1, "out_features": 4}, policies=chosen, train=True)
"""
    mistakes = (("bias_involved(True)", "bias_involved(False)"), ('"out_features": 4', '"out_features": 1'))

    def findings(self, answer: Recurrent) -> Iterator[Finding]:
        """Compare the number of parameters with a layer without biases."""
        chosen: list[Policy | Sub] = [RecurrentPolicy.step(Gated), PUpdate]
        plain = Recurrent("gru", {"in_features": 1, "out_features": 4}, policies=chosen, train=True)
        before, after = (len(_parameters(layer)) for layer in (plain, answer))
        yield Finding(
            after == 2 * before,
            f"Parameters: {after}. Without biases there are {before}: two weights each for the two gates and the"
            " candidate. Each weight adds a bias.",
        )
        features = vars(answer)["step"].get("out_features")
        yield Finding(features == 4, f"Output features: {features}.")


class StepOfYourOwn(Exercise):
    """Write a step for `layers.Recurrent`: a layer class with `inputs = ("input", "previous")` whose new state is
    tanh(input + previous / 2). Gradients flow back through time automatically.
    """

    number = "07.2"
    title = "Your own recurrent step"
    level = 3
    answer = "the class"
    accepts = (type,)
    hints = (
        "The class needs only `inputs` and `forward(self, input, previous)`.",
        "You need not write a gradient, because the operations in `forward` have gradients.",
    )
    source = """
import explorer as ex
from explorer import layers


class Fading(layers.Layer):
    \"\"\"tanh(input + previous / 2).\"\"\"

    inputs = ("input", "previous")

    def forward(self, input, previous):
        return ex.tanh(input + previous / 2)


answer = Fading
"""
    mistakes = (
        ("ex.tanh(input + previous / 2)", "ex.tanh(input + previous)"),
        ("ex.tanh(input + previous / 2)", "ex.tanh(input)"),
    )

    def findings(self, answer: type) -> Iterator[Finding]:
        """Run the step along a sequence forward and backward, and check both."""
        if not issubclass(answer, Layer):
            yield Finding(False, f"`{answer.__name__}` is not a subclass of `layers.Layer`.")
            return
        policies: list[Policy | Sub] = [RecurrentPolicy.step(answer), PFeedbackOutput]
        layer = Recurrent("steps", {}, policies=policies, train=True)
        numbers, state, states = np.array([[0.5, -1.0], [1.0, 0.0], [0.0, 2.0]]), np.zeros(2), []
        for row in numbers:
            state = np.tanh(row + state / 2)
            states.append(state)
        x = tensor(numbers, name="x")
        outputs = layer(input=x, previous=np.zeros(2))
        yield agree("The states of three steps", evaluate(outputs), np.array(states))
        first = evaluate(layer.feed_backward(np.array([[0.0, 0.0], [0.0, 0.0], [1.0, 1.0]]))["input"])[0]
        reaches = bool(np.all(first != 0))
        yield Finding(
            reaches,
            "The gradient of the last state reaches the first input through time."
            if reaches
            else "The gradient of the last state does not reach the first input: the step does not read `previous`.",
        )


class CutOff(Exercise):
    """Make the recurrent layer of this notebook, with one input feature and four output features, so that its
    parameters are trained and no gradient flows from a step to the previous one.
    """

    number = "07.3"
    title = "Gradients that stay within a step"
    level = 1
    answer = "the layer"
    accepts = (Recurrent,)
    hints = (
        "You need two policies: `PUpdate`, and one that ends in `Bptt`, which means backpropagation through time.",
        "The second policy is `layers.PDisableBptt`.",
    )
    source = """
from explorer import layers

chosen = [layers.RecurrentPolicy.step(layers.GRUStep), layers.PUpdate, layers.PDisableBptt]
answer = layers.Recurrent("gru", {"in_features": 1, "out_features": 4}, policies=chosen, train=True)
"""
    mistakes = (("PDisableBptt", "PEnableBptt"), ("layers.PUpdate, ", ""))

    def findings(self, answer: Recurrent) -> Iterator[Finding]:
        """Record three steps, and check the decision and the operations for gradients."""
        short = np.dtype(np.float32)
        types = {"input": TensorType((3, 1, 1), short), "previous": TensorType((1, 4), short)}
        recording = answer.explore(types).recording
        (step,) = recording.layers[0].feedback
        yield Finding(not step.built, f"{step.text}.")
        written = {node for row in recording.gradients for node in row.backward}
        yield Finding(bool(written), f"The gradients of the parameters need {len(written)} operations in three steps.")


class LastingGradient(Exercise):
    """The step tanh(input + previous / 2) at least halves a gradient, so after thirty steps nothing is left of it.
    Write a step that reads the same two ports, and through which a gradient neither vanishes nor explodes.
    """

    number = "07.4"
    title = "A gradient that lasts"
    level = 2
    answer = "the class"
    accepts = (type,)
    hints = (
        "Each step multiplies the gradient of the state by ∂state / ∂previous, which must be about 1.",
        "Keep the previous state and add a function of the input to it: `previous + …`.",
    )
    source = """
import explorer as ex
from explorer import layers


class Adding(layers.Layer):
    \"\"\"The state, and what the input adds to it.\"\"\"

    inputs = ("input", "previous")

    def forward(self, input, previous):
        return previous + ex.tanh(input)


answer = Adding
"""
    mistakes = (
        ("previous + ex.tanh(input)", "ex.tanh(input + previous)"),
        ("previous + ex.tanh(input)", "1.5 * previous + ex.tanh(input)"),
        ("previous + ex.tanh(input)", "previous + 0 * input"),
    )

    def findings(self, answer: type) -> Iterator[Finding]:
        """Run thirty steps forward and backward, and check the gradients of the first and the last input."""
        if not issubclass(answer, Layer):
            yield Finding(False, f"`{answer.__name__}` is not a subclass of `layers.Layer`.")
            return
        layer = Recurrent("steps", {}, policies=[RecurrentPolicy.step(answer), PFeedbackOutput], train=True)
        numbers = np.full((30, 2), 0.2)
        layer(input=tensor(numbers, name="x"), previous=np.zeros(2))
        seed = np.zeros((30, 2))
        seed[-1] = 1
        slopes = np.abs(evaluate(layer.feed_backward(seed)["input"])).max(axis=1)
        first, last = float(slopes[0]), float(slopes[-1])
        yield Finding(last > 0, f"The gradient of the last state with respect to the last input is {last:.3g}.")
        yield Finding(
            0.1 < first < 10,
            f"With respect to the first of thirty inputs it is {first:.3g}; it must be between 0.1 and 10.",
        )


def _parameters(layer: Recurrent) -> list[str]:
    return [path for path in layer.paths() if path.endswith("parameter")]
