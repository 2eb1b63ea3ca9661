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
    """Write a composite, which is a class with a `topology`, of two consecutive `layers.Linear` with 4 features in and
    out. Its ports are `input` and `output`. Hand in a layer of this class.
    """

    number = "04.1"
    title = "A composite from clauses"
    level = 2
    answer = "the layer"
    accepts = (Layer,)
    hints = (
        "You need five clauses: two `Sublayer`, one `InConnect`, one `InternalConnect`, one `OutConnect`.",
        'The method `arguments` returns those of the sublayers: `{"first": {"in_features": 4, "out_features": 4}, …}`.',
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
        """Check the parts, the clauses and the kernels."""
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
            linear == 2 and len(types) == 2, f"The parts, in the order in which they run: {', '.join(types) or 'none'}."
        )
        yield Finding(len(whole.clauses) == 5, f"The topology has {len(whole.clauses)} clauses.")
        yield Finding(
            "matmul → add; matmul → add" in kernel_names(recording),
            f"The kernels are {kernel_names(recording)}.",
        )


class FrozenWeight(Exercise):
    """Make a layer `layers.Linear("linear", 4, 3, …)` for training, with a trained bias and a weight that is not
    trained. `print(layer.describe())` shows the policies of each part and where they come from.
    """

    number = "04.2"
    title = "Which parts are trained?"
    level = 1
    answer = "the layer"
    accepts = (Layer,)
    hints = (
        "`policies=[…]` accepts policies for the whole layer, and `Sub(name, …)` for one sublayer.",
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
        """Check for which parameters the recording builds gradients."""
        recording = answer.explore({"input": ROWS}).recording
        rows = [row for row in recording.layers if row.name.endswith("/parameter")]
        feedback = [(row.name, decision) for row in rows for decision in row.feedback]
        yield Finding(
            isinstance(answer, Linear), f"The class of the layer is {type(answer).__name__}; it must be Linear."
        )
        yield Finding(
            answer.train, f"The layer is for {'training' if answer.train else 'inference: train=True is missing'}."
        )
        for name, built in (("weight", False), ("bias", True)):
            choices = [decision for path, decision in feedback if f"/{name}/" in path]
            text = "; ".join(decision.text for decision in choices) or "no such parameter"
            yield Finding([decision.built for decision in choices] == [built], f"{name}: {text}")


class SlopeByPolicy(Exercise):
    """The slope of `Leaky` is an argument. Write a layer that reads it from your own policy instead, with the default
    0.1, and hand in a layer with the policy 0.25.
    """

    number = "04.3"
    title = "An argument becomes a policy"
    level = 3
    answer = "the layer"
    accepts = (Layer,)
    hints = (
        "Write a subclass of `layers.PolicyClass`; `layers.Minor(0.1)` in it is a setting with the default 0.1.",
        "In `forward`, read it with `self.select(SlopePolicy).slope`.",
        "`SlopePolicy.slope(0.25)` is a policy: pass it in `policies=[…]`.",
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
        """Check values, and where the layer's policy comes from."""
        numbers = np.array([-2.0, 0.5, 4.0])
        yield agree("For −2, 0.5 and 4 the layer returns −0.5, 0.5 and 4", evaluate(answer(numbers)), [-0.5, 0.5, 4.0])
        plain = type(answer)("plain")
        yield agree(
            "Without a policy, with the slope 0.1, it returns −0.2, 0.5 and 4",
            evaluate(plain(numbers)),
            [-0.2, 0.5, 4.0],
        )
        lines = [line.strip() for line in str(answer.describe()).splitlines() if "= 0.25" in line]
        by_policy = [line for line in lines if "given by" in line]
        yield Finding(
            bool(by_policy), "; ".join(by_policy) or "`describe()` lists no given policy with the value 0.25."
        )


class OpenPort(Exercise):
    """These clauses raise an error: `Sublayer("a", layers.Add)`, `Sublayer("b", layers.Tanh)`, `InConnect("input", "a",
    "left")`, `InternalConnect("a", "output", "b", "input")`, `OutConnect("b", "output", "output")`. Add one clause
    so that the layer computes tanh(2 · input), and hand in the topology.
    """

    number = "04.4"
    title = "A missing clause"
    level = 1
    answer = "the topology"
    accepts = (Topology,)
    hints = (
        "The error names the unconnected port, and a clause that connects it.",
        "One port of the composite may be connected to several ports of its parts.",
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
        """Build a layer with the topology, and check its ports and values."""
        whole = type("Whole", (Composite,), {"topology": answer, "__doc__": "Layer with the topology of an answer."})(
            "whole"
        )
        yield Finding(
            [*whole.inputs] == ["input"],
            f"Ports: {', '.join(whole.inputs)} → {', '.join(whole.outputs)}; order: {' → '.join(whole.wiring.order)}.",
        )
        if [*whole.inputs] == ["input"]:
            numbers = np.array([-1.0, 0.0, 0.25])
            yield agree("tanh(2 · input) for −1, 0 and 0.25", evaluate(whole(numbers)), np.tanh(2 * numbers))


class ChosenActivation(Exercise):
    """Make a `layers.SingleLayerPerceptron("perceptron", 4, 3, …)` that ends in `layers.Sigmoid` and adds no bias. Use
    only policies. Which kernels does its plan have?
    """

    number = "04.5"
    title = "A policy chooses classes"
    level = 2
    answer = "the layer"
    accepts = (Layer,)
    hints = (
        "`layers.PerceptronPolicy` has two settings: `activation` and `bias_involved`.",
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
        """Check the kernels and the given policies."""
        recording = answer.explore({"input": ROWS}).recording
        names = kernel_names(recording)
        yield Finding("sigmoid" in names and "add" not in names, f"The kernels are {names}.")
        lines = [line.strip() for line in str(answer.describe()).splitlines() if "PerceptronPolicy" in line]
        by_policy = list(dict.fromkeys(line for line in lines if "given by" in line))
        yield Finding(len(by_policy) == 2, "; ".join(by_policy) or "No PerceptronPolicy was given.")
