"""Exercises of notebook 04: gradients."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from types import FunctionType
from typing import Any

import numpy as np

from explorer.core.ir.tensor import tensor
from explorer.core.policy import Policy
from explorer.course.card import Finding
from explorer.course.evidence import agree, decisions, kernel_names, operations, planned, record
from explorer.course.exercise_base import Exercise
from explorer.grad import grad
from explorer.layers import GRUStep as Gated
from explorer.layers import Layer, PFeedbackOutput, PUpdate, Recurrent, RecurrentPolicy, Sub
from explorer.run import evaluate


class ChainRule(Exercise):
    """Of `ex.square(ex.tanh(x * w)).sum()`, with a vector `x` and a number `w`, write the gradient for `w` by the chain
    rule yourself: a function `slope(x, w)` that returns an expression and does not call `ex.grad`.
    """

    number = "04.1"
    title = "The chain rule, by hand"
    level = 2
    answer = "the function"
    accepts = (FunctionType,)
    hints = (
        "Three nodes: u = x·w, h = tanh u, and h². From the outside in: 2h, then 1 − h², then x.",
        "`w` is used for every element of `x`, so the products are summed.",
    )
    source = """
import explorer as ex


def slope(x, w):
    h = ex.tanh(x * w)
    return (2 * h * (1 - ex.square(h)) * x).sum()


answer = slope
"""
    mistakes = ((" * x)", ")"), ("(1 - ex.square(h))", "(1 - h)"))

    def findings(self, answer: Callable[..., Any]) -> Iterator[Finding]:
        """Compare with ex.grad, by value and by what dedup merges."""
        x, w = tensor(np.linspace(-1, 1, 5), name="x"), tensor(0.5, name="w")
        loss = record("square", record("tanh", x * w)).sum()
        own, built = answer(x, w), grad(loss, w)
        yield agree("Your gradient beside that of ex.grad", evaluate(own), evaluate(built))
        both, alone = planned(loss, own, built), planned(loss, built)
        count, without = len(operations(both)), len(operations(alone))
        merged = decisions(both, "merged", "applied")
        yield Finding(
            operations(both).count("tanh") == 1,
            f"Planned beside loss and gradient, yours adds {count - without} operations to {without}: dedup merged"
            f" {sum(len(decision.subjects) for decision in merged)} nodes, tanh among them.",
        )


class LayerWithBiases(Exercise):
    """With `layers.GRUPolicy.bias_involved(True)` a GRU's step has biases, too. Make the recurrent layer of this
    notebook, four features of one, with them: how many parameters has it then? Hand in the layer.
    """

    number = "04.2"
    title = "Counting parameters"
    level = 1
    answer = "the layer"
    accepts = (Recurrent,)
    hints = (
        "The policy stands among the others: `policies=[…, layers.GRUPolicy.bias_involved(True)]`.",
        "`layer.paths()` names the parameters; each path that ends in `parameter` is one.",
    )
    source = """
import explorer as ex
from explorer import layers

chosen = [layers.RecurrentPolicy.step(layers.GRUStep), layers.PUpdate, layers.GRUPolicy.bias_involved(True)]
answer = layers.Recurrent("gru", {"in_features": 1, "out_features": 4}, policies=chosen, train=True)
"""
    mistakes = (("bias_involved(True)", "bias_involved(False)"), ('"out_features": 4', '"out_features": 1'))

    def findings(self, answer: Recurrent) -> Iterator[Finding]:
        """Count the parameters of the layer, and those of one without biases."""
        chosen: list[Policy | Sub] = [RecurrentPolicy.step(Gated), PUpdate]
        plain = Recurrent("gru", {"in_features": 1, "out_features": 4}, policies=chosen, train=True)
        before, after = (len(_parameters(layer)) for layer in (plain, answer))
        yield Finding(
            after == 2 * before,
            f"Parameters: {after}. Without biases there are {before}: two for each of the two gates and the candidate;"
            " each has a bias.",
        )
        features = vars(answer)["step"].get("out_features")
        yield Finding(features == 4, f"Features of the result: {features}.")


def _parameters(layer: Recurrent) -> list[str]:
    return [path for path in layer.paths() if path.endswith("parameter")]


class ThirdDerivative(Exercise):
    """A gradient has a gradient. Write a function of a tensor `x` that returns the third derivative of `ex.sin` at
    each of its elements, by `ex.grad` alone.
    """

    number = "04.3"
    title = "A gradient of a gradient of a gradient"
    level = 2
    answer = "the function"
    accepts = (FunctionType,)
    hints = (
        "`ex.grad` wants one number: the sum of all elements. Each element of `x` has a part in one of them only.",
        "`ex.grad(ex.sin(x).sum(), x)` is the first; take the sum of that, and go on.",
    )
    source = """
import explorer as ex


def third(x):
    value = ex.sin(x)
    for _ in range(3):
        value = ex.grad(value.sum(), x)
    return value


answer = third
"""
    mistakes = (("range(3)", "range(2)"), ("ex.sin(x)", "ex.cos(x)"))

    def findings(self, answer: Callable[..., Any]) -> Iterator[Finding]:
        """Compare with −cos x, and look at what the plan leaves."""
        numbers = np.array([-1.0, 0.0, 0.5, 2.0])
        x = tensor(numbers, name="x")
        expression = answer(x)
        yield agree("The third derivative of sin is −cos", evaluate(expression), -np.cos(numbers))
        yield Finding(True, f"The plan leaves of it: {kernel_names(planned(expression))}.")


class StepOfYourOwn(Exercise):
    """Write a step for `layers.Recurrent`: a layer with `inputs = ("input", "previous")` whose new state is
    tanh(input + previous / 2). Gradients come back through time by themselves.
    """

    number = "04.4"
    title = "A recurrent step of your own"
    level = 3
    answer = "the class"
    accepts = (type,)
    hints = (
        "A layer class needs `inputs` and `forward(self, input, previous)`, nothing else.",
        "There is no gradient to write: `forward` is made of operations that have theirs.",
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
        """Run the step along a sequence, forward and backward."""
        if not issubclass(answer, Layer):
            yield Finding(False, f"`{answer.__name__}` is no subclass of `layers.Layer`.")
            return
        policies: list[Policy | Sub] = [RecurrentPolicy.step(answer), PFeedbackOutput]
        layer = Recurrent("steps", {}, policies=policies, train=True)
        numbers, state, states = np.array([[0.5, -1.0], [1.0, 0.0], [0.0, 2.0]]), np.zeros(2), []
        for row in numbers:
            state = np.tanh(row + state / 2)
            states.append(state)
        x = tensor(numbers, name="x")
        given = layer(input=x, previous=np.zeros(2))
        yield agree("The states of three steps", evaluate(given), np.array(states))
        first = evaluate(layer.feed_backward(np.array([[0.0, 0.0], [0.0, 0.0], [1.0, 1.0]]))["input"])[0]
        reaches = bool(np.all(first != 0))
        yield Finding(
            reaches,
            "The gradient of the last state reaches the first input: through time."
            if reaches
            else "The gradient of the last state does not reach the first input: the step does not read `previous`.",
        )
