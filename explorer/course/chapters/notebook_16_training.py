"""Exercises of notebook 16: training."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from explorer.core.ir.tensor import tensor
from explorer.course.exercise_base import Exercise, Finding
from explorer.course.recording_facts import agree, kernel_names, kernels, recording_of, sentences
from explorer.run import evaluate
from explorer.run.evalplan import EvalPlan
from explorer.train import CrossEntropy, Linear, Module, Optimizer, UpdateRule

DIGITS = """
import numpy as np
import explorer as ex
from explorer import train
from explorer.layers import PNoUpdate

stored = np.load("../assets/handwriting.npz")
images, labels = stored["images"][:64] / 16, stored["labels"][:64].astype(np.int64)


def digits(optimizer, policies=()):
    module = train.Module("digits", loss=train.CrossEntropy(), optimizer=optimizer, dtype="float64")
    first = train.Linear("hidden", 64, 128, policies=[*policies])
    for node in (first, ex.relu, train.Linear("scores", 128, 10)):
        module.add_node(node)
    module.attach(seed=0)
    return module

"""


class NeverWritten(Exercise):
    """Choose an optimizer with which the gradient of a weight is never written to memory, because the update is
    computed inside the kernel of the matrix product. Hand in the plan of one step.
    """

    number = "16.1"
    title = "A gradient that is never written"
    level = 2
    answer = "the plan"
    accepts = (EvalPlan,)
    hints = (
        "Adam reads the gradient twice. Which update reads it once?",
        "`digits(train.SGD(rate=0.3)).plan(images[:64], labels[:64])` is the plan of one step.",
    )
    source = (
        DIGITS
        + """
answer = digits(train.SGD(rate=0.3)).plan(images, labels)
"""
    )
    mistakes = (("train.SGD(rate=0.3)", "train.Adam(rate=0.003)"), ("train.SGD(rate=0.3)", "train.Momentum(rate=0.03)"))

    def findings(self, answer: EvalPlan) -> Iterator[Finding]:
        """Check for a kernel with a matrix product and an update."""
        recording = recording_of(answer)
        names = [[recording.nodes.label[node] for node in kernel.nodes] for kernel in kernels(recording)]
        updates = [name for name in names if name[-1] == "subtract" and len(name) > 1]
        inside = [name for name in updates if name[0] == "matmul"]
        epilogues = [
            d
            for d in recording.decisions
            if d.rule == "Epilogue" and d.verdict == "applied" and "subtract" in recording.reason(d)
        ]
        others = "; ".join(" → ".join(name) for name in updates) or "none"
        reason = sentences(recording, epilogues[:1])
        yield Finding(
            bool(inside),
            reason if inside else f"No update is in the kernel of a product; kernels with a fused update: {others}.",
        )


class FrozenLayer(Exercise):
    """Freeze the first layer of the module with `policies=[ex.layers.PNoUpdate]`. What does a step no longer compute,
    besides the update of this layer?
    """

    number = "16.2"
    title = "A frozen layer"
    level = 2
    answer = "the module"
    accepts = (Module,)
    hints = (
        'Pass policies when you make the layer: `train.Linear("hidden", 64, 128, policies=[…])`.',
        "If nothing before a layer is trained, the gradient of its input is not needed.",
    )
    source = (
        DIGITS
        + """
answer = digits(train.SGD(rate=0.3), policies=[PNoUpdate])
"""
    )
    mistakes = ((", policies=[PNoUpdate]", ""), ("128, policies=[*policies]", "128"))

    def findings(self, answer: Module) -> Iterator[Finding]:
        """Make a step, and check the changed parameters and the computed products."""
        pictures = np.random.default_rng(0).random((64, 8, 8))
        labels = np.arange(64) % 10
        recording = answer.plan(pictures, labels).recording
        before = {name: parameter.array.copy() for name, parameter in answer.parameters.items()}
        answer.train_on(pictures, labels)
        changed = [name for name, value in before.items() if (answer.parameters[name].array != value).any()]
        frozen = not any(name.startswith("hidden/") for name in changed)
        yield Finding(frozen and bool(changed), f"A step changes {', '.join(changed) or 'nothing'}.")
        products = [
            name
            for kernel in kernels(recording)
            for name in [recording.nodes.label[kernel.nodes[0]]]
            if name == "matmul"
        ]
        yield Finding(
            len(products) == 3,
            f"The step computes {len(products)} matrix products: two in the forward pass, and one for each gradient of"
            " a"
            " weight or a hidden value. If all layers are trained, it computes 5.",
        )


class LabelsInRows(Exercise):
    """Pass the labels as one-hot rows, `np.eye(10)[labels]`. Which operation is no longer in the step? Hand in the plan
    of such a step.
    """

    number = "16.3"
    title = "One-hot labels"
    level = 1
    answer = "the plan"
    accepts = (EvalPlan,)
    hints = (
        "`module.plan(images, …)` accepts labels in either form.",
        "Compare the names of the kernels of both plans.",
    )
    source = (
        DIGITS
        + """
answer = digits(train.SGD(rate=0.3)).plan(images, np.eye(10)[labels])
"""
    )
    mistakes = (
        ("np.eye(10)[labels]", "labels"),
        (".plan(images, np.eye(10)[labels])", ".plan(images[:8], labels[:8])"),
    )

    def findings(self, answer: EvalPlan) -> Iterator[Finding]:
        """Check that the plan is a training step without one_hot."""
        recording = recording_of(answer)
        labels = {recording.nodes.label[node] for node in recording.visible(recording.end)}
        trains = "log_softmax" in labels and "subtract" in labels
        yield Finding(trains, f"The plan is {'' if trains else 'not '}a training step with a loss and updates.")
        gone = "one_hot" not in labels
        yield Finding(
            gone, f"`one_hot` is {'not' if gone else 'still'} computed; the kernels are {kernel_names(recording)}."
        )


class SignDescent(Exercise):
    """Write an update rule without state that moves each parameter by the learning rate against the sign of its
    gradient: p ← p − lr · sign g.
    """

    number = "16.4"
    title = "An update rule"
    level = 3
    answer = "the rule's class"
    accepts = (type,)
    hints = (
        "Start from `SignMomentum` above: without momentum, `state` is empty.",
        "`record` returns the new parameter and a dict with the new state.",
    )
    source = """
from dataclasses import dataclass

import explorer as ex
from explorer import train


@dataclass(frozen=True)
class SignDescent(train.UpdateRule):
    \"\"\"p ← p − lr · sign g.\"\"\"

    state = ()

    def record(self, parameter, gradient, length, state):
        return parameter - length * ex.sign(gradient), {}


answer = SignDescent
"""
    mistakes = (("length * ex.sign(gradient)", "length * gradient"), ("parameter - length", "parameter + length"))

    def findings(self, answer: type) -> Iterator[Finding]:
        """Check one recorded update and one step of a module."""
        if not issubclass(answer, UpdateRule):
            yield Finding(False, f"`{answer.__name__}` is not a subclass of `train.UpdateRule`.")
            return
        parameter, gradient = tensor(np.array([1.0, 2.0, 3.0])), tensor(np.array([0.5, -7.0, 0.0]))
        changed, _ = answer().record(parameter, gradient, tensor(0.1), {})
        yield agree(
            "The update of (1, 2, 3) with the gradient (0.5, −7, 0) and the rate 0.1",
            evaluate(changed),
            [0.9, 2.1, 3.0],
        )
        module = Module("one", loss=CrossEntropy(), optimizer=Optimizer(answer(), 0.01), dtype="float64")
        module.add_node(Linear("scores", 4, 3))
        module.attach(seed=0)
        before = module.parameters["scores/weight"].array.copy()
        module.train_on(np.eye(4), np.array([0, 1, 2, 0]))
        moved = np.unique(np.round(np.abs(module.parameters["scores/weight"].array - before), 9))
        text = ", ".join(f"{distance:.3g}" for distance in moved[:4])
        yield Finding(set(moved) <= {0.0, 0.01}, f"A step with the rate 0.01 moves weights by {text}.")
