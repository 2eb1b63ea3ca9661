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
    """Write a layer with the inputs `left` and `right` that returns their mean, in plain `forward`, and hand it in."""

    number = "03.1"
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


class Clipped(Exercise):
    """Write a layer `Clipped` with an argument `limit`, 1.0 if nothing else is said, that returns its input with
    everything above the limit set to it, and everything below −limit to −limit. Hand in one with the limit 2.
    """

    number = "03.2"
    title = "An argument, and what it becomes"
    level = 1
    answer = "the layer"
    accepts = (Layer,)
    hints = (
        "`limit: float = 1.0` in the class body is an argument; `self.limit` reads it in `forward`.",
        "`ex.minimum(…, self.limit)` and `ex.maximum(…, -self.limit)`, one inside the other.",
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
        """Evaluate with both limits, and see what the plan makes of the layer."""
        numbers = tensor(np.array([-5.0, -1.5, 0.5, 1.5, 5.0]), name="numbers")
        result = answer(numbers)
        yield agree("With the limit 2, of −5, −1.5, 0.5, 1.5 and 5", evaluate(result), [-2.0, -1.5, 0.5, 1.5, 2.0])
        plain = type(answer)("plain")
        yield agree("Without an argument, with 1", evaluate(plain(numbers)), [-1.0, -1.0, 0.5, 1.0, 1.0])
        yield Finding(
            True, f"The plan sees no layer, only operations: its kernels are {kernel_names(planned(result))}."
        )


class FilledByName(Exercise):
    """Make a layer `layers.Linear("linear", 2, 3)` and initialise it: the bias is 1, 2, 3, the weight is drawn by
    `layers.VarScale()` with the seed 7. Hand in the layer. Would the weight be the same if the layer had another name?
    """

    number = "03.3"
    title = "What a parameter begins with"
    level = 1
    answer = "the layer"
    accepts = (Layer,)
    hints = (
        "`layers.Initializer(values, filler=…, seed=…)`: values are by the parameter's full name.",
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
        """Compare the parameters with those that seed and name give."""
        expected = Linear("linear", 2, 3)
        expected.init(Initializer({"linear/bias/parameter": [1.0, 2.0, 3.0]}, filler=VarScale(), seed=7))
        weights = answer.save_weights()
        for name, value in expected.save_weights().items():
            if name not in weights:
                yield Finding(False, f"There is no parameter {name}: the layer has {', '.join(weights)}.")
            else:
                yield agree(name, weights[name], value)
        renamed = Linear("renamed", 2, 3)
        renamed.init(Initializer(filler=VarScale(), seed=7))
        first = float(renamed.save_weights()["renamed/weight/parameter"][0, 0])
        yield Finding(
            True,
            f"Under the name `renamed` the first weight would be {first:.4f}: what is drawn depends on seed and name.",
        )


class TiedWeights(Exercise):
    """Two layers `layers.Linear("first", 4, 4)` and `layers.Linear("second", 4, 4)` share one weight, and each has a
    bias of its own. Hand in the list of both. An assignment to the one must be seen by the other.
    """

    number = "03.4"
    title = "One weight for two layers"
    level = 3
    answer = "the list of both layers"
    accepts = (list, tuple)
    hints = (
        'An initializer maps names: `names={"second/weight/parameter": "first/weight/parameter"}`.',
        "Both layers are initialised with the same dictionary as load buffer: `layer.init(initializer, held)`.",
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
        """Assign to a parameter of the first layer, and look whether the second has it, too."""
        if len(answer) != 2 or not all(isinstance(layer, Layer) for layer in answer):
            yield Finding(False, "Two layers are to be handed in: `[first, second]`.")
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
            sees = "sees" if moved else "does not see"
            yield Finding(moved is shared, f"{part}: 1 was added to that of the first layer; the second {sees} it.")
