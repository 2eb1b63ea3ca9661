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
    """The gradients of a linear layer need two matrix products: one for the weight and one for the input. Make a layer
    `layers.Linear("linear", 4, 3, …)` for training with policies that record exactly one product: the weight is
    trained, the bias is not, and the gradient of the input is not needed.
    """

    number = "06.1"
    title = "One product is enough"
    level = 1
    answer = "the layer"
    accepts = (Layer,)
    hints = (
        "`PUpdate` for the whole layer selects the gradients of both parameters.",
        'Give the bias another policy: `Sub("bias", PNoUpdate)`. Leave `PFeedbackOutput` out.',
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
        """Check the operations of the recorded gradients."""
        written = backward_operations(answer.explore({"input": ROWS}).recording)
        yield Finding(
            written.count("matmul") == 1 and "sum" not in written,
            f"Operations of the gradients: {', '.join(written) or 'none'}. Each matrix product computes the gradient of"
            " the weight or of the input; the sum computes the gradient of the bias.",
        )


class FirstFrozen(Exercise):
    """A network has three linear layers `first`, `second` and `third` with 4 features each, of which only `second` is
    trained. Which of the three send a gradient to their inputs? Guess first. Then write the composite with its
    policies, and hand in an instance of it.
    """

    number = "06.2"
    title = "How far back do gradients go?"
    level = 2
    answer = "the layer"
    accepts = (Layer,)
    hints = (
        "The gradient of the loss must reach `second` through all layers after it, and need not go further.",
        'Set the policy of one part with `policies=[Sub("second", PUpdate)]`; by default the others are not trained.',
        "The topology needs three `Sublayer`, two `InternalConnect`, one `InConnect` and one `OutConnect`.",
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
        """Check the composite's decisions about its parts."""
        recording = answer.explore({"input": ROWS}).recording
        parts = recording.layers[0].feedback
        reasons = "; ".join(decision.text for decision in parts)
        sends = [decision.text.split()[0] for decision in parts if decision.built]
        yield Finding(sends == ["third"], reasons or "The layer is not for training: no gradients are recorded.")
        products = backward_operations(recording).count("matmul")
        yield Finding(
            products == 2,
            f"Matrix products for gradients: {products}. Two are needed, one through `third` and one for the weight of"
            " `second`; training all parts needs five.",
        )


class OwnLoss(Exercise):
    """Write a layer class for a squared error: it has `inputs = ("guess", "truth")` and returns the mean of the squared
    differences. Its gradient is compared with the formula 2 (guess − truth) / n.
    """

    number = "06.3"
    title = "A loss of your own"
    level = 1
    answer = "the class"
    accepts = (type,)
    hints = (
        "`forward(self, guess, truth)` returns one expression; you need not write a gradient.",
        "Return `ex.square(guess - truth).mean()`.",
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
        """Run a layer of the class forward and backward, and check both results."""
        if not issubclass(answer, Layer):
            yield Finding(False, f"`{answer.__name__}` is not a subclass of `layers.Layer`.")
            return
        layer = answer("error", policies=[PFeedbackOutput], train=True)
        guess, truth = np.array([[1.0, 2.0], [-1.0, 0.5]]), np.array([[0.0, 2.0], [1.0, 1.0]])
        loss = layer(guess=tensor(guess, name="guess"), truth=tensor(truth, name="truth"))
        yield agree("The loss of (1, 2, −1, 0.5) compared with (0, 2, 1, 1)", evaluate(loss), 1.3125)
        slope = layer.feed_backward(1.0)["guess"]
        yield agree("The gradient of the guess, 2 (guess − truth) / n", evaluate(slope), 2 * (guess - truth) / 4)
        layer.neutral_invariant()


class NotStable(Exercise):
    """The plan combines `softmax` and its negative log likelihood into one stable operation. What happens if you also
    need the probabilities? Register `ex.nll_loss(truth, ex.softmax(scores))` and the softmax itself, with scores of
    shape 8 × 5, in one plan. Is the loss still stable, and what is computed twice?
    """

    number = "06.4"
    title = "A loss and its probabilities"
    level = 2
    answer = "the plan"
    accepts = (EvalPlan,)
    hints = (
        "Assign `probabilities = ex.softmax(scores)` first, and register both values.",
        "The decision is in the stage simplify; after it, the loss no longer reads `softmax`.",
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
        """Check for the rule's decision and for the remaining softmax."""
        recording = recording_of(answer)
        asked = sorted(recording.nodes.label[node] for node in set(recording.roots))
        yield Finding(len(asked) == 2, f"The plan has {len(asked)} results: {', '.join(asked)}.")
        shapes = [recording.type_text(root) for root in recording.roots]
        yield Finding(
            "8×5 float64" in shapes, f"Their types are {', '.join(shapes)}; the scores must have the shape 8 × 5."
        )
        joined = [d for d in recording.decisions if d.rule == "NllOfSoftmax" and d.verdict == "applied"]
        yield Finding(
            bool(joined), sentences(recording, joined) or "The loss still takes the logarithm of a probability."
        )
        if joined:
            computed = operations(recording)
            yield Finding(
                "softmax" in computed,
                f"The probabilities are computed, too, because you asked for them: the kernels compute"
                f" {', '.join(computed)}. Both need the largest score and the sum of the exponentials.",
            )


def backward_operations(recording: Recording) -> list[str]:
    """Return the sorted names of the operations that compute the recorded gradients."""
    written = {node for row in recording.gradients for node in row.backward}
    return sorted(recording.label(node) for node in written)
