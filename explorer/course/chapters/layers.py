"""Exercises of notebook 03: layers and policies."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from explorer.core.types.tensor_type import TensorType
from explorer.course.card import Finding
from explorer.course.evidence import agree, kernel_names
from explorer.course.exercise_base import Exercise
from explorer.layers import Layer
from explorer.run import evaluate

ROWS = TensorType((8, 4), np.dtype(np.float32))


class FrozenWeight(Exercise):
    """Make a layer `layers.Linear("linear", 4, 3, …)` for training whose bias is trained and whose weight is not.
    `print(layer.describe())` says who gave each part its policy.
    """

    number = "03.1"
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
        told = [(row.name, decision) for row in rows for decision in row.feedback]
        yield Finding(
            answer.train, f"The layer is for {'training' if answer.train else 'inference: train=True is missing'}."
        )
        for name, built in (("weight", False), ("bias", True)):
            found = [decision for path, decision in told if f"/{name}/" in path]
            text = "; ".join(decision.text for decision in found) or "no such parameter"
            yield Finding([decision.built for decision in found] == [built], f"{name}: {text}")


class Chained(Exercise):
    """Write a composite of two sublayers `layers.Linear` of 4 features in and out, one behind the other, with the ports
    `input` and `output`: a class with a `topology`. Hand in a layer of it.
    """

    number = "03.2"
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


class SlopeByPolicy(Exercise):
    """`Leaky` has its slope as an argument. Write a layer that reads it from a policy of your own, with the default
    0.1, and hand in one for which a policy says 0.25.
    """

    number = "03.3"
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


class TwoPorts(Exercise):
    """Write a layer with the inputs `left` and `right` that returns their mean, in plain `forward`, and hand it in."""

    number = "03.4"
    title = "A layer with two ports"
    level = 1
    answer = "the layer"
    accepts = (Layer,)
    hints = (
        '`inputs = ("left", "right")` declares the ports.',
        "`forward(self, left, right)` takes them by these names.",
    )
    source = """
import explorer as ex
from explorer import layers


class Mean(layers.Layer):
    \"\"\"Half of the sum of two values.\"\"\"

    inputs = ("left", "right")

    def forward(self, left, right):
        return (left + right) / 2


answer = Mean("mean")
"""
    mistakes = (("(left + right) / 2", "left + right"), ("(left + right) / 2", "(left - right) / 2"))

    def findings(self, answer: Layer) -> Iterator[Finding]:
        """Look at the ports, and evaluate."""
        ports = tuple(answer.inputs)
        yield Finding(sorted(ports) == ["left", "right"], f"The input ports are {', '.join(ports)}.")
        if sorted(ports) == ["left", "right"]:
            left, right = np.array([1.0, 5.0]), np.array([3.0, -1.0])
            yield agree("The mean of (1, 5) and (3, −1)", evaluate(answer(right=right, left=left)), [2.0, 2.0])
