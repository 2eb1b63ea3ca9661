"""Exercises of notebook 02: a model's graph."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from explorer.core.ir.expr import Expr
from explorer.course.exercise_base import Exercise, Finding
from explorer.course.recording_facts import kernel_names, planned, recording_of, sentences
from explorer.net import Net
from explorer.record import Decision, Recording
from explorer.run.evalplan import EvalPlan

NET = """
import numpy as np
import explorer as ex

net = ex.open("../assets/digits.pnnx.param")
"""


class OtherWeight(Exercise):
    """Replace the weight of `fc1` with a matrix of zeros of the same shape. What does the net now answer for any
    picture?
    """

    number = "02.1"
    title = "Replace a weight"
    level = 1
    answer = "the net"
    accepts = (Net,)
    hints = (
        '`net["fc1"].weight` is the stored weight; it has a `shape`.',
        'Assign an array: `net["fc1"].weight = np.zeros((24, 192), np.float32)`.',
    )
    source = (
        NET
        + """
net["fc1"].weight = np.zeros(net["fc1"].weight.shape, np.float32)
answer = net
"""
    )
    mistakes = (
        ("np.zeros(", "np.ones("),
        ('net["fc1"].weight = np', 'net["fc2"].weight = 0 * net["fc2"].weight.array  # np'),
    )

    def findings(self, answer: Net) -> Iterator[Finding]:
        """Check the weight, and run different pictures through the net."""
        weight = np.asarray(answer["fc1"].weight.array)
        yield Finding(not weight.any(), f"The weight of `fc1` has {np.count_nonzero(weight)} elements other than 0.")
        pictures = np.random.default_rng(0).random((3, 1, 8, 8), dtype=np.float32)
        answers = np.asarray(answer.run(pictures))
        same = bool(np.allclose(answers, answers[0]))
        origin = ": they depend only on the biases after it." if same and not weight.any() else "."
        text = f"Three pictures get {'the same' if same else 'different'} probabilities, from {answers.min():.2f}"
        yield Finding(same, f"{text} to {answers.max():.2f}{origin}")


class ResidualBlock(Exercise):
    """Cut the residual block out of the net, with nothing before or after it: from the output of `pool` to the output
    of `residual.relu2`.
    """

    number = "02.2"
    title = "Cut out a block"
    level = 1
    answer = "the cut net"
    accepts = (Net,)
    hints = (
        "The list in “The contents of the file” shows what each operator reads → writes.",
        "The arguments of `net.cut([…], […])` are the input operands and the output operands.",
    )
    source = (
        NET
        + """
answer = net.cut(["5"], ["10"])
"""
    )
    mistakes = (('["5"]', '["4"]'), ('["10"]', '["9"]'))

    def findings(self, answer: Net) -> Iterator[Finding]:
        """Check the operators, and plan the block."""
        wanted = ["convbn2d_1", "residual.relu1", "convbn2d_2", "pnnx_expr_0", "residual.relu2"]
        names = list(answer.operators)
        more, missing = (
            [name for name in own if name not in other] for own, other in ((names, wanted), (wanted, names))
        )
        text = f"The net has {', '.join(names)}."
        text += f" Not in the block: {', '.join(more)}." if more else ""
        yield Finding(names == wanted, text + (f" Missing: {', '.join(missing)}." if missing else ""))
        if names == wanted:
            recording = answer.plan((1, 12, 4, 4)).recording
            joined = [group for group in recording.groups if recording.label(group.members[0]) == "conv2d"]
            yield Finding(
                len(joined) == 2, f"Its kernels are {kernel_names(recording)}. The second one also adds the shortcut."
            )


class InnerValue(Exercise):
    """The notebook asks for operand `12`, and a fusion is declined because of it. Ask for the net's output and for a
    different operand, so that another fusion is declined.
    """

    number = "02.3"
    title = "Another inner value"
    level = 2
    answer = "the plan"
    accepts = (EvalPlan,)
    hints = (
        "A fusion is declined only for a value inside a kernel, which the plan would otherwise not write to memory.",
        "Look at the kernels of `net.plan((1, 1, 8, 8)).explain()`: which values are between `matmul → add` and"
        " `softmax`, or inside another kernel?",
        "Operand `4` does not work, because its relu is moved after the pooling. Try the operand that the softmax"
        " reads.",
    )
    source = (
        NET
        + """
plan = ex.EvalPlan()
plan.register(net.build((1, 1, 8, 8)))
plan.register(net.operand("14", (1, 1, 8, 8)))
plan.prepare()
answer = plan
"""
    )
    mistakes = (('"14"', '"4"'), ('plan.register(net.operand("14", (1, 1, 8, 8)))\n', ""), ('"14"', '"12"'))

    def findings(self, answer: EvalPlan) -> Iterator[Finding]:
        """Check the results, and look for a declined fusion."""
        recording = recording_of(answer)
        asked = [recording.type_text(node) for node in recording.roots]
        yield Finding(len(set(recording.roots)) > 1, f"The plan has {len(asked)} results: {', '.join(asked)}.")
        yield Finding(
            "1×24 float32" not in asked,
            "No result may be a vector of 24 elements: this would be operand `12` or its relu again.",
        )
        declined = [
            d for d in recording.decisions if d.code == "asked_for" and recording.stages[d.stage].name == "fuse"
        ]
        yield Finding(
            bool(declined),
            sentences(recording, declined)
            or f"No fusion is declined because of it; the kernels are {kernel_names(recording)}.",
        )


class StableLoss(Exercise):
    """The net ends in a softmax. Write a loss on `net.build(…)` for which the plan computes a log-softmax instead, as
    in “Which pixels matter?”, but with the mean over a batch of 4 pictures.
    """

    number = "02.4"
    title = "A loss on top of a file"
    level = 3
    answer = "the loss"
    accepts = (Expr,)
    hints = (
        "`ex.log(net.build(image))` is the logarithm of every probability; the loss is minus the mean of four of them.",
        "`ex.one_hot(labels, 10)` times these logarithms keeps one per row. You can also use `ex.nll_loss(truth,"
        " answer)`.",
    )
    source = (
        NET
        + """
stored = np.load("../assets/digits.npz")
images, labels = stored["images"], stored["labels"]
logarithms = ex.log(net.build(ex.tensor(images[:4])))
answer = -(ex.one_hot(labels[:4], 10) * logarithms).sum() / 4
"""
    )
    mistakes = (("ex.log(net", "(net"), ("images[:4]", "images[:1]"))

    def findings(self, answer: Expr) -> Iterator[Finding]:
        """Check for a log-softmax in the planned graph, and for the batch size."""
        if answer.shape:
            yield Finding(False, f"A loss is one number; this expression has the shape {answer.shape}.")
            return
        recording = planned(answer)
        rules = [d for d in recording.decisions if d.verdict == "applied" and "log_softmax" in _produced(recording, d)]
        yield Finding(bool(rules), sentences(recording, rules) or "No log-softmax replaces softmax and log.")
        shapes = {
            recording.type_text(node) for node in recording.visible(0) if recording.nodes.label[node] == "softmax"
        }
        yield Finding(
            any(text.startswith("4×10 ") for text in shapes),
            f"The type of the recorded softmax: {', '.join(sorted(shapes)) or 'none'}.",
        )


def _produced(recording: Recording, decision: Decision) -> set[str]:
    return {recording.nodes.label[node] for node in decision.produced}
