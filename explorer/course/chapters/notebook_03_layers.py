"""Exercises of notebook 03: layers and parameters."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from explorer.core.ir.tensor import tensor
from explorer.course.exercise_base import Exercise, Finding
from explorer.course.recording_facts import agree, kernel_names, planned
from explorer.layers import Initializer, Layer, Linear, VarScale
from explorer.run import evaluate


class TwoPorts(Exercise):
    """Write a layer with the inputs `left` and `right` whose `forward` returns their mean."""

    number = "03.1"
    title = "A layer with two ports"
    level = 1
    answer = "the layer"
    accepts = (Layer,)
    hints = (
        '`inputs = ("left", "right")` declares the ports.',
        "`forward(self, left, right)` receives them under these names.",
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
        """Check the ports and a value."""
        ports = tuple(answer.inputs)
        yield Finding(sorted(ports) == ["left", "right"], f"The input ports are {', '.join(ports)}.")
        if sorted(ports) == ["left", "right"]:
            left, right = np.array([1.0, 5.0]), np.array([3.0, -1.0])
            yield agree("The mean of (1, 5) and (3, −1)", evaluate(answer(right=right, left=left)), [2.0, 2.0])


class Clipped(Exercise):
    """Write a layer `Clipped` with an argument `limit`, by default 1.0, that clips its input to the range from −limit
    to limit. Hand in a layer with the limit 2.
    """

    number = "03.2"
    title = "An argument with a default"
    level = 1
    answer = "the layer"
    accepts = (Layer,)
    hints = (
        "`limit: float = 1.0` in the class body declares an argument; `forward` reads it as `self.limit`.",
        "Nest `ex.minimum(…, self.limit)` and `ex.maximum(…, -self.limit)`.",
    )
    source = """
import explorer as ex
from explorer import layers


class Clipped(layers.Layer):
    \"\"\"The input, between −limit and limit.\"\"\"

    limit: float = 1.0

    def forward(self, input):
        return ex.maximum(ex.minimum(input, self.limit), -self.limit)


answer = Clipped("clipped", limit=2.0)
"""
    mistakes = (
        (", limit=2.0", ""),
        (", -self.limit)", ", -2.0)"),
        ("ex.maximum(ex.minimum(input, self.limit), -self.limit)", "ex.minimum(input, self.limit)"),
    )

    def findings(self, answer: Layer) -> Iterator[Finding]:
        """Check values with both limits, and report the kernels."""
        numbers = tensor(np.array([-5.0, -1.5, 0.5, 1.5, 5.0]), name="numbers")
        result = answer(numbers)
        yield agree("With the limit 2, for −5, −1.5, 0.5, 1.5 and 5", evaluate(result), [-2.0, -1.5, 0.5, 1.5, 2.0])
        plain = type(answer)("plain")
        yield agree(
            "Without an argument, which means the limit 1", evaluate(plain(numbers)), [-1.0, -1.0, 0.5, 1.0, 1.0]
        )
        yield Finding(True, f"The plan sees operations and no layer: its kernels are {kernel_names(planned(result))}.")


class FilledByName(Exercise):
    """Make a layer `layers.Linear("linear", 2, 3)` and initialize it: its bias is 1, 2, 3, and its weight is drawn by
    `layers.VarScale()` with the seed 7. Would the weight be the same if the layer had another name?
    """

    number = "03.3"
    title = "Initial values"
    level = 1
    answer = "the layer"
    accepts = (Layer,)
    hints = (
        "Use `layers.Initializer(values, filler=…, seed=…)`; `values` is a dict whose keys are full parameter names.",
        'The full name is a path: "linear/bias/parameter".',
    )
    source = """
from explorer import layers

answer = layers.Linear("linear", 2, 3)
answer.init(layers.Initializer({"linear/bias/parameter": [1.0, 2.0, 3.0]}, filler=layers.VarScale(), seed=7))
"""
    mistakes = (
        ("seed=7", "seed=0"),
        ('layers.Linear("linear"', 'layers.Linear("other"'),
        ("[1.0, 2.0, 3.0]", "[3.0, 2.0, 1.0]"),
    )

    def findings(self, answer: Layer) -> Iterator[Finding]:
        """Compare the parameters with the values for this seed and name."""
        expected = Linear("linear", 2, 3)
        expected.init(Initializer({"linear/bias/parameter": [1.0, 2.0, 3.0]}, filler=VarScale(), seed=7))
        weights = answer.save_weights()
        for name, value in expected.save_weights().items():
            if name not in weights:
                yield Finding(False, f"There is no parameter {name}; the layer has {', '.join(weights)}.")
            else:
                yield agree(name, weights[name], value)
        renamed = Linear("renamed", 2, 3)
        renamed.init(Initializer(filler=VarScale(), seed=7))
        first = float(renamed.save_weights()["renamed/weight/parameter"][0, 0])
        yield Finding(
            True,
            f"With the name `renamed` the first weight would be {first:.4f}: drawn numbers depend on seed and name.",
        )


class TiedWeights(Exercise):
    """Make two layers, `layers.Linear("first", 4, 4)` and `layers.Linear("second", 4, 4)`, that share one weight and
    have separate biases. An assignment to the weight of one layer must change it in the other.
    """

    number = "03.4"
    title = "One weight for two layers"
    level = 3
    answer = "the list of both layers"
    accepts = (list, tuple)
    hints = (
        'An initializer maps names: `names={"second/weight/parameter": "first/weight/parameter"}`.',
        "Initialize both layers with the same dictionary as load buffer: `layer.init(initializer, held)`.",
    )
    source = """
from explorer import layers

first, second = layers.Linear("first", 4, 4), layers.Linear("second", 4, 4)
names = {"second/weight/parameter": "first/weight/parameter"}
held = {}
for layer in (first, second):
    layer.init(layers.Initializer(filler=layers.VarScale(), names=names), held)
answer = [first, second]
"""
    mistakes = (
        (", held)", ")"),
        ('{"second/weight/parameter": "first/weight/parameter"}', "{}"),
        ("names = {", 'names = {"second/bias/parameter": "first/bias/parameter", '),
    )

    def findings(self, answer: list[Layer]) -> Iterator[Finding]:
        """Assign to each parameter of the first layer, and check whether the second one changes."""
        if len(answer) != 2 or not all(isinstance(layer, Layer) for layer in answer):
            yield Finding(False, "Hand in two layers: `[first, second]`.")
            return
        first, second = answer
        for part, shared in (("weight", True), ("bias", False)):
            before, other = first.save_weights(), second.save_weights()
            (name,) = [key for key in before if f"/{part}/" in key]
            (theirs,) = [value for key, value in other.items() if f"/{part}/" in key]
            first.load_weights({**before, name: before[name] + 1})
            (after,) = [value for key, value in second.save_weights().items() if f"/{part}/" in key]
            first.load_weights(before)
            moved = bool(np.any(after != theirs))
            changes = "changes, too" if moved else "does not change"
            yield Finding(moved is shared, f"{part}: 1 is added to it in the first layer; the second layer {changes}.")
