"""Exercises of notebook 06: layers, fed backward."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from explorer.core.ir.tensor import tensor
from explorer.core.types.tensor_type import TensorType
from explorer.course.exercise_base import Exercise, Finding
from explorer.course.recording_facts import agree, operations, recording_of, sentences
from explorer.layers import Layer, PFeedbackOutput
from explorer.record import Recording
from explorer.run import evaluate
from explorer.run.evalplan import EvalPlan

ROWS = TensorType((16, 4), np.dtype(np.float32))


class OneProduct(Exercise):
    """The gradients of a linear layer for training take two matrix products: one for the weight, one for the input.
    Make a layer `layers.Linear("linear", 4, 3, …)` with policies for which exactly one is recorded: the weight is
    trained, the bias is not, and nothing asks for the gradient of the input.
    """

    number = "06.1"
    title = "One product is enough"
    level = 1
    answer = "the layer"
    accepts = (Layer,)
    hints = (
        "`PUpdate` for the whole layer asks for the gradients of both parameters.",
        'One part has another policy: `Sub("bias", PNoUpdate)`. `PFeedbackOutput` is left out.',
    )
    source = """
import explorer as ex
from explorer import layers
from explorer.layers import PNoUpdate, PUpdate, Sub

answer = layers.Linear("linear", 4, 3, policies=[PUpdate, Sub("bias", PNoUpdate)], train=True)
"""
    mistakes = (
        ("[PUpdate, Sub", "[PUpdate, layers.PFeedbackOutput, Sub"),
        ('Sub("bias", PNoUpdate)', 'Sub("weight", PNoUpdate)'),
        (', Sub("bias", PNoUpdate)', ""),
    )

    def findings(self, answer: Layer) -> Iterator[Finding]:
        """List the operations that the recorded gradients are made of."""
        written = backward_operations(answer.explore({"input": ROWS}).recording)
        yield Finding(
            written.count("matmul") == 1 and "sum" not in written,
            f"The gradients are made of: {', '.join(written) or 'nothing'}. A product with the upstream gradient is"
            " that of the weight or that of the input; the sum is that of the bias.",
        )


class FirstFrozen(Exercise):
    """In a network of three linear layers `first`, `second` and `third`, 4 features each, only `second` is trained.
    Which of the three send a gradient to their inputs? Write the composite and its policies, hand it in, and compare
    with your guess.
    """

    number = "06.2"
    title = "How far back do gradients go?"
    level = 2
    answer = "the layer"
    accepts = (Layer,)
    hints = (
        "A gradient must come from the loss to `second`, through everything behind it, and need not go further.",
        'A policy for one part: `policies=[Sub("second", PUpdate)]`; the default of the others is not to be trained.',
        "The topology has three `Sublayer`, two `InternalConnect`, one `InConnect` and one `OutConnect`.",
    )
    source = """
import explorer as ex
from explorer import layers
from explorer.layers import InConnect, InternalConnect, OutConnect, PUpdate, Sub, Sublayer, Topology

NAMES = ("first", "second", "third")


class Three(layers.Composite):
    \"\"\"Three linear layers, one behind the other.\"\"\"

    topology = Topology(
        *(Sublayer(name, layers.Linear) for name in NAMES),
        InConnect("input", "first", "input"),
        InternalConnect("first", "output", "second", "input"),
        InternalConnect("second", "output", "third", "input"),
        OutConnect("third", "output", "output"),
    )

    def arguments(self):
        return {name: {"in_features": 4, "out_features": 4} for name in NAMES}


answer = Three("three", policies=[Sub("second", PUpdate)], train=True)
"""
    mistakes = (
        ('Sub("second", PUpdate)', "PUpdate"),
        ('Sub("second", PUpdate)', 'Sub("third", PUpdate)'),
        (", train=True", ""),
    )

    def findings(self, answer: Layer) -> Iterator[Finding]:
        """Read the decisions of the whole about its parts."""
        recording = answer.explore({"input": ROWS}).recording
        parts = recording.layers[0].feedback
        reasons = "; ".join(decision.text for decision in parts)
        sends = [decision.text.split()[0] for decision in parts if decision.built]
        yield Finding(sends == ["third"], reasons or "The layer is not for training: no gradients are recorded.")
        products = backward_operations(recording).count("matmul")
        yield Finding(
            products == 2,
            f"Products for gradients: {products}. Two are needed, through `third` and for the weight of `second`;"
            " training all parts takes five.",
        )


class OwnLoss(Exercise):
    """Write a layer for a squared error: `inputs = ("guess", "truth")`, and the result is the mean of the squared
    differences. Hand in the class: its gradients are compared with those of the formula 2 (guess − truth) / n.
    """

    number = "06.3"
    title = "A loss of your own"
    level = 1
    answer = "the class"
    accepts = (type,)
    hints = (
        "`forward(self, guess, truth)` returns one expression; there is no gradient to write.",
        "`ex.square(guess - truth).mean()`",
    )
    source = """
import explorer as ex
from explorer import layers


class SquaredError(layers.Layer):
    \"\"\"The mean of the squared differences.\"\"\"

    inputs = ("guess", "truth")

    def forward(self, guess, truth):
        return ex.square(guess - truth).mean()


answer = SquaredError
"""
    mistakes = ((".mean()", ".sum()"), ("ex.square(guess - truth)", "ex.absolute(guess - truth)"))

    def findings(self, answer: type) -> Iterator[Finding]:
        """Feed a layer of the class forward and backward."""
        if not issubclass(answer, Layer):
            yield Finding(False, f"`{answer.__name__}` is no subclass of `layers.Layer`.")
            return
        layer = answer("error", policies=[PFeedbackOutput], train=True)
        guess, truth = np.array([[1.0, 2.0], [-1.0, 0.5]]), np.array([[0.0, 2.0], [1.0, 1.0]])
        loss = layer(guess=tensor(guess, name="guess"), truth=tensor(truth, name="truth"))
        yield agree("The loss of (1, 2, −1, 0.5) against (0, 2, 1, 1)", evaluate(loss), 1.3125)
        slope = layer.feed_backward(1.0)["guess"]
        yield agree("The gradient of the guess, 2 (guess − truth) / n", evaluate(slope), 2 * (guess - truth) / 4)
        layer.neutral_invariant()


class NotStable(Exercise):
    """The plan joins `softmax` and its negative log likelihood to one stable operation. Ask for the probabilities, too:
    plan `ex.nll_loss(truth, ex.softmax(scores))` and the softmax itself, of scores 8 × 5, in one plan. Is the loss
    still stable, and what is computed twice? Hand in the plan.
    """

    number = "06.4"
    title = "The probabilities are asked for, too"
    level = 2
    answer = "the plan"
    accepts = (EvalPlan,)
    hints = (
        "Keep `probabilities = ex.softmax(scores)` in a name of its own, and register both.",
        "The decision is at the stage simplify; after it the loss does not read `softmax` any more.",
    )
    source = """
import numpy as np
import explorer as ex

scores = ex.tensor(np.random.default_rng(0).normal(size=(8, 5)))
truth = ex.one_hot(np.arange(8) % 5, 5)
probabilities = ex.softmax(scores)
plan = ex.EvalPlan()
plan.register(ex.nll_loss(truth, probabilities))
plan.register(probabilities)
plan.prepare()
answer = plan
"""
    mistakes = (
        ("plan.register(probabilities)\n", ""),
        ("ex.EvalPlan()", 'ex.EvalPlan(without=["simplify"])'),
    )

    def findings(self, answer: EvalPlan) -> Iterator[Finding]:
        """Look for the rule's decision and for the softmax that is left."""
        recording = recording_of(answer)
        asked = sorted(recording.nodes.label[node] for node in set(recording.roots))
        yield Finding(len(asked) == 2, f"The plan is asked for {len(asked)} of its values: {', '.join(asked)}.")
        shapes = [recording.type_text(root) for root in recording.roots]
        yield Finding(
            "8×5 float64" in shapes, f"They are of the types {', '.join(shapes)}; scores of 8 × 5 are asked for."
        )
        joined = [d for d in recording.decisions if d.rule == "NllOfSoftmax" and d.verdict == "applied"]
        yield Finding(bool(joined), sentences(recording, joined) or "The loss takes the logarithm of a probability.")
        if joined:
            computed = operations(recording)
            yield Finding(
                "softmax" in computed,
                f"The probabilities are computed beside it, since you asked for them: the kernels compute"
                f" {', '.join(computed)}. Both need the largest score and the sum of the exponentials.",
            )


def backward_operations(recording: Recording) -> list[str]:
    """Return the names of the operations that recorded gradients are made of."""
    written = {node for row in recording.gradients for node in row.backward}
    return sorted(recording.label(node) for node in written)
