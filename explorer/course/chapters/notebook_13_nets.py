"""Exercises of notebook 13: nets by name."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import numpy as np

from explorer.core.ir.tensor import tensor
from explorer.course.exercise_base import Exercise, Finding
from explorer.course.recording_facts import agree, operations, planned
from explorer.gradients import grad
from explorer.net import Net
from explorer.run import evaluate

FLOWERS = """
import numpy as np
import explorer as ex

rng = np.random.default_rng(0)
net = ex.Net("flowers")
net.input("x", (None, 4))
net.GivenTensorFill([], "w1", values=rng.normal(size=(8, 4)).astype(np.float32))
net.GivenTensorFill([], "w2", values=rng.normal(size=(3, 8)).astype(np.float32))
net.FC(["x", "w1"], "hidden", name="first")
net.Relu("hidden", "hidden", name="activation")
net.FC(["hidden", "w2"], "scores", name="second")
net.Softmax("scores", "answer", name="softmax")
net.output("answer")
"""


class Inserted(Exercise):
    """In the net `flowers`, insert a `Tanh` between the blob `scores` and its readers."""

    number = "13.1"
    title = "Insert an operator"
    level = 1
    answer = "the net"
    accepts = (Net,)
    hints = (
        "`net.insert(type, blob)` inserts an operator between a blob and its readers.",
        "The section “The state of a net” uses it.",
    )
    source = (
        FLOWERS
        + """
net.insert("Tanh", "scores")
answer = net
"""
    )
    mistakes = (('net.insert("Tanh", "scores")\n', ""), ('"Tanh", "scores"', '"Tanh", "answer"'))

    def findings(self, answer: Net) -> Iterator[Finding]:
        """Check the operators and the planned operations."""
        types = [operator.type for operator in answer.operators.values()]
        in_place = ("Tanh", "Softmax") in pairwise(types)
        yield Finding(in_place, f"The operators are {', '.join(types)}.")
        if in_place:
            computed = operations(answer.plan((2, 4)).recording)
            yield Finding("tanh" in computed, f"The plan computes, in this order: {', '.join(computed)}.")


class Between(Exercise):
    """Cut a part out of the net `flowers`: its input is `hidden` as it is after the activation, and its output is
    `scores`.
    """

    number = "13.2"
    title = "A blob that is written twice"
    level = 2
    answer = "the cut net"
    accepts = (Net,)
    hints = (
        'Use `net.cut([…], […])`. `hidden` has two versions, and the error of `net.cut(["hidden"], …)` names both.',
        "One operator remains, with the operator that fills its weight.",
    )
    source = (
        FLOWERS
        + """
answer = net.cut(["hidden@1"], ["scores"])
"""
    )
    mistakes = (('["hidden@1"]', '["hidden@0"]'), ('["scores"])', '["answer"])'))

    def findings(self, answer: Net) -> Iterator[Finding]:
        """Check the operators and the output."""
        types = [operator.type for operator in answer.operators.values() if operator.type != "GivenTensorFill"]
        yield Finding(types == ["FC"], f"Besides operators that fill weights, the net has {', '.join(types)}.")
        yield Finding([*answer.outputs] == ["scores"], f"Its outputs are {', '.join(answer.outputs)}.")


class OwnType(Exercise):
    """Write an operator type for nets that computes x³, and a net with one such operator, whose input has three
    elements. You need not write a gradient, because the recorded expressions have gradients.
    """

    number = "13.3"
    title = "Your own operator type"
    level = 2
    answer = "the net"
    accepts = (Net,)
    hints = (
        'Decorate a function that takes and returns an expression with `@ex.net_operator("Cubed")`.',
        'You can then call `net.Cubed("x", "y")`, like `net.Relu`; `net.input` and `net.output` declare blobs.',
    )
    source = """
import explorer as ex


@ex.net_operator("Cubed")
def cubed(x: ex.Expr) -> ex.Expr:
    \"\"\"x³.\"\"\"
    return x * x * x


net = ex.Net("cubes")
net.input("x", (3,))
net.Cubed("x", "y")
net.output("y")
answer = net
"""
    mistakes = (("return x * x * x", "return x * x"), ('net.Cubed("x", "y")', 'net.Relu("x", "y")'))

    def findings(self, answer: Net) -> Iterator[Finding]:
        """Check the values and the gradient of the net."""
        numbers = np.array([-2.0, 0.5, 3.0], np.float32)
        types = [operator.type for operator in answer.operators.values()]
        yield Finding(len(types) == 1, f"The operators of the net are {', '.join(types)}.")
        yield agree("For −2, 0.5 and 3 it returns −8, 0.125 and 27", answer.run(numbers), numbers**3)
        x = tensor(numbers, name="x")
        slope = grad(answer.build(x).sum(), x)
        yield agree("The gradient is 3x²", evaluate(slope), 3 * numbers**2, 1e-5)
        yield Finding(True, f"For the gradient, the plan computes {', '.join(operations(planned(slope)))}.")


class TwoOutputs(Exercise):
    """Let the net `flowers` return the blobs `scores` and `answer`, in this order. Does it compute more than before?"""

    number = "13.4"
    title = "A second output"
    level = 1
    answer = "the net"
    accepts = (Net,)
    hints = (
        "`net.output(…)` adds outputs; `net.set_outputs(…)` replaces all outputs.",
        'Call `net.set_outputs(["scores", "answer"])`.',
    )
    source = (
        FLOWERS
        + """
net.set_outputs(["scores", "answer"])
answer = net
"""
    )
    mistakes = (
        ('net.set_outputs(["scores", "answer"])\n', ""),
        ('["scores", "answer"]', '["hidden", "answer"]'),
        ('["scores", "answer"]', '["answer", "scores"]'),
    )

    def findings(self, answer: Net) -> Iterator[Finding]:
        """Check the outputs and their values, and report the planned operations."""
        names = [*answer.outputs]
        yield Finding(names == ["scores", "answer"], f"The outputs of the net are {', '.join(names)}.")
        if names == ["scores", "answer"]:
            values = answer.run(np.array([[1.0, 2.0, 3.0, 4.0]], np.float32))
            scores, shares = values["scores"], values["answer"]
            powers = np.exp(scores - scores.max())
            yield agree("The second is the softmax of the first", shares, powers / powers.sum())
            computed = operations(answer.plan((1, 4)).recording)
            yield Finding(
                True, f"Computed: {', '.join(computed)}. `scores` was computed before, too; now it is returned."
            )
