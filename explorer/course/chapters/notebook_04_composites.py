"""Exercises of notebook 04: composites and policies."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from explorer.core.types.tensor_type import TensorType
from explorer.course.exercise_base import Exercise, Finding
from explorer.course.recording_facts import agree, kernel_names
from explorer.layers import Composite, Layer, Linear, Topology
from explorer.run import evaluate

ROWS = TensorType((8, 4), np.dtype(np.float32))


class Chained(Exercise):
    """Write a composite of two sublayers `layers.Linear` of 4 features in and out, one behind the other, with the ports
    `input` and `output`: a class with a `topology`. Hand in a layer of it.
    """

    number = "04.1"
    title = "A composite from clauses"
    level = 2
    answer = "the layer"
    accepts = (Layer,)
    hints = (
        "Five clauses: two `Sublayer`, one `InConnect`, one `InternalConnect`, one `OutConnect`.",
        'What the sublayers are made with is in `arguments`: `{"first": {"in_features": 4, "out_features": 4}, …}`.',
    )
    source = """
import explorer as ex
from explorer import layers
from explorer.layers import InConnect, InternalConnect, OutConnect, Sublayer, Topology


class Twice(layers.Composite):
    \"\"\"Two linear layers, one behind the other.\"\"\"

    topology = Topology(
        Sublayer("first", layers.Linear),
        Sublayer("second", layers.Linear),
        InConnect("input", "first", "input"),
        InternalConnect("first", "output", "second", "input"),
        OutConnect("second", "output", "output"),
    )

    def arguments(self):
        return {name: {"in_features": 4, "out_features": 4} for name in ("first", "second")}


answer = Twice("twice")
"""
    mistakes = (
        ('InternalConnect("first", "output", "second", "input")', 'InConnect("input", "second", "input")'),
        ('OutConnect("second"', 'OutConnect("first"'),
    )

    def findings(self, answer: Layer) -> Iterator[Finding]:
        """Look at the parts and at the kernels that come of them."""
        recording = answer.explore({"input": ROWS}).recording
        whole = recording.layers[0]
        types = [
            f"{part} · {row.type}"
            for part in whole.order
            for row in recording.layers
            if row.name == f"{whole.name}/{part}"
        ]
        linear = sum(text.endswith("· Linear") for text in types)
        yield Finding(
            linear == 2 and len(types) == 2, f"The parts, in the order of their run: {', '.join(types) or 'none'}."
        )
        yield Finding(len(whole.clauses) == 5, f"{len(whole.clauses)} clauses connect them.")
        yield Finding(
            "matmul → add; matmul → add" in kernel_names(recording),
            f"The plan makes of them: {kernel_names(recording)}.",
        )


class FrozenWeight(Exercise):
    """Make a layer `layers.Linear("linear", 4, 3, …)` for training whose bias is trained and whose weight is not.
    `print(layer.describe())` says who gave each part its policy.
    """

    number = "04.2"
    title = "Who is trained?"
    level = 1
    answer = "the layer"
    accepts = (Layer,)
    hints = (
        "`policies=[…]` takes policies for the whole layer, and `Sub(name, …)` for one sublayer.",
        "The parts of a `Linear` are called `weight` and `bias`.",
    )
    source = """
import explorer as ex
from explorer import layers
from explorer.layers import PNoUpdate, PUpdate, Sub

answer = layers.Linear("linear", 4, 3, policies=[PUpdate, Sub("weight", PNoUpdate)], train=True)
"""
    mistakes = (('Sub("weight", PNoUpdate)', 'Sub("bias", PNoUpdate)'), (", train=True", ""))

    def findings(self, answer: Layer) -> Iterator[Finding]:
        """Ask the recording for which parameters gradients are built."""
        recording = answer.explore({"input": ROWS}).recording
        rows = [row for row in recording.layers if row.name.endswith("/parameter")]
        feedback = [(row.name, decision) for row in rows for decision in row.feedback]
        yield Finding(
            isinstance(answer, Linear), f"The layer is of the class {type(answer).__name__}; a Linear is asked for."
        )
        yield Finding(
            answer.train, f"The layer is for {'training' if answer.train else 'inference: train=True is missing'}."
        )
        for name, built in (("weight", False), ("bias", True)):
            choices = [decision for path, decision in feedback if f"/{name}/" in path]
            text = "; ".join(decision.text for decision in choices) or "no such parameter"
            yield Finding([decision.built for decision in choices] == [built], f"{name}: {text}")


class SlopeByPolicy(Exercise):
    """`Leaky` has its slope as an argument. Write a layer that reads it from a policy of your own, with the default
    0.1, and hand in one for which a policy says 0.25.
    """

    number = "04.3"
    title = "An argument becomes a policy"
    level = 3
    answer = "the layer"
    accepts = (Layer,)
    hints = (
        "A class of choices is a subclass of `layers.PolicyClass`, a choice in it `layers.Minor(0.1)`.",
        "`self.select(SlopePolicy).slope` reads it in `forward`.",
        "`SlopePolicy.slope(0.25)` is a policy: it goes to `policies=[…]`.",
    )
    source = """
import explorer as ex
from explorer import layers


class SlopePolicy(layers.PolicyClass):
    \"\"\"How much of what is negative is kept.\"\"\"

    slope = layers.Minor(0.1)


class Leaky(layers.Layer):
    \"\"\"The input where it is positive, a small part of it elsewhere.\"\"\"

    def forward(self, input):
        return ex.maximum(input, self.select(SlopePolicy).slope * input)


answer = Leaky("leaky", policies=[SlopePolicy.slope(0.25)])
"""
    mistakes = (
        (", policies=[SlopePolicy.slope(0.25)]", ""),
        ("self.select(SlopePolicy).slope * input", "0.25 * input"),
    )

    def findings(self, answer: Layer) -> Iterator[Finding]:
        """Evaluate the layer, and ask it who gave the policy."""
        numbers = np.array([-2.0, 0.5, 4.0])
        yield agree("Of −2, 0.5 and 4 the layer makes −0.5, 0.5 and 4", evaluate(answer(numbers)), [-0.5, 0.5, 4.0])
        plain = type(answer)("plain")
        yield agree("Without a policy, with 0.1: −0.2, 0.5 and 4", evaluate(plain(numbers)), [-0.2, 0.5, 4.0])
        lines = [line.strip() for line in str(answer.describe()).splitlines() if "= 0.25" in line]
        by_policy = [line for line in lines if "given by" in line]
        yield Finding(bool(by_policy), "; ".join(by_policy) or "`describe()` names no policy with 0.25 that was given.")


class OpenPort(Exercise):
    """These clauses are refused: `Sublayer("a", layers.Add)`, `Sublayer("b", layers.Tanh)`, `InConnect("input", "a",
    "left")`, `InternalConnect("a", "output", "b", "input")`, `OutConnect("b", "output", "output")`. Add one, so that
    the layer computes tanh(2 · input), and hand in the topology.
    """

    number = "04.4"
    title = "A refusal that goes away"
    level = 1
    answer = "the topology"
    accepts = (Topology,)
    hints = (
        "The error names the port that nothing is connected to, and the clause that would connect it.",
        "One port of the whole may lead to several ports of its parts.",
    )
    source = """
from explorer import layers
from explorer.layers import InConnect, InternalConnect, OutConnect, Sublayer, Topology

answer = Topology(
    Sublayer("a", layers.Add),
    Sublayer("b", layers.Tanh),
    InConnect("input", "a", "left"),
    InConnect("input", "a", "right"),
    InternalConnect("a", "output", "b", "input"),
    OutConnect("b", "output", "output"),
)
"""
    mistakes = (
        ('InConnect("input", "a", "right")', 'InConnect("other", "a", "right")'),
        ("layers.Add", "layers.Multiply"),
    )

    def findings(self, answer: Topology) -> Iterator[Finding]:
        """Make a layer of the topology, and evaluate it."""
        whole = type("Whole", (Composite,), {"topology": answer, "__doc__": "A topology that was handed in."})("whole")
        yield Finding(
            [*whole.inputs] == ["input"],
            f"Ports: {', '.join(whole.inputs)} → {', '.join(whole.outputs)}; order: {' → '.join(whole.wiring.order)}.",
        )
        if [*whole.inputs] == ["input"]:
            numbers = np.array([-1.0, 0.0, 0.25])
            yield agree("Of −1, 0 and 0.25, tanh(2 · input)", evaluate(whole(numbers)), np.tanh(2 * numbers))


class ChosenActivation(Exercise):
    """Make a `layers.SingleLayerPerceptron("perceptron", 4, 3, …)` that ends in `layers.Sigmoid` and adds no bias, by
    policies alone. Which kernels does the plan make of it? Hand in the layer.
    """

    number = "04.5"
    title = "A policy chooses classes"
    level = 2
    answer = "the layer"
    accepts = (Layer,)
    hints = (
        "`layers.PerceptronPolicy` has two choices: `activation` and `bias_involved`.",
        "`policies=[layers.PerceptronPolicy.activation(layers.Sigmoid), layers.PerceptronPolicy.bias_involved(False)]`",
    )
    source = """
from explorer import layers
from explorer.layers import PerceptronPolicy

chosen = [PerceptronPolicy.activation(layers.Sigmoid), PerceptronPolicy.bias_involved(False)]
answer = layers.SingleLayerPerceptron("perceptron", 4, 3, policies=chosen)
"""
    mistakes = (("bias_involved(False)", "bias_involved(True)"), ("layers.Sigmoid", "layers.Tanh"))

    def findings(self, answer: Layer) -> Iterator[Finding]:
        """Look at the kernels and at the policies that were given."""
        recording = answer.explore({"input": ROWS}).recording
        names = kernel_names(recording)
        yield Finding("sigmoid" in names and "add" not in names, f"The plan makes of it: {names}.")
        lines = [line.strip() for line in str(answer.describe()).splitlines() if "PerceptronPolicy" in line]
        by_policy = list(dict.fromkeys(line for line in lines if "given by" in line))
        yield Finding(len(by_policy) == 2, "; ".join(by_policy) or "No PerceptronPolicy was given.")
