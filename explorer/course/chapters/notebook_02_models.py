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
    """Put zeros in the place of the weight of `fc1`, a matrix of its shape. What does the net answer now, for any
    picture?
    """

    number = "02.1"
    title = "A weight replaced"
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
        """Send different pictures through the net, and look at the weight."""
        weight = np.asarray(answer["fc1"].weight.array)
        yield Finding(not weight.any(), f"The weight of `fc1` has {np.count_nonzero(weight)} elements other than 0.")
        pictures = np.random.default_rng(0).random((3, 1, 8, 8), dtype=np.float32)
        answers = np.asarray(answer.run(pictures))
        same = bool(np.allclose(answers, answers[0]))
        origin = ": those that the biases behind it make alone." if same and not weight.any() else "."
        text = f"Three pictures get {'the same' if same else 'different'} probabilities, from {answers.min():.2f}"
        yield Finding(same, f"{text} to {answers.max():.2f}{origin}")


class ResidualBlock(Exercise):
    """Cut the residual block out of the net, with nothing before and behind it: from what `pool` writes to what
    `residual.relu2` writes.
    """

    number = "02.2"
    title = "A block cut out"
    level = 1
    answer = "the cut net"
    accepts = (Net,)
    hints = (
        "The list under What the file says has what each operator reads → writes.",
        "`net.cut([…], […])` takes the operands that come in and those that go out.",
    )
    source = (
        NET
        + """
answer = net.cut(["5"], ["10"])
"""
    )
    mistakes = (('["5"]', '["4"]'), ('["10"]', '["9"]'))

    def findings(self, answer: Net) -> Iterator[Finding]:
        """Compare the operators, and plan the block."""
        wanted = ["convbn2d_1", "residual.relu1", "convbn2d_2", "pnnx_expr_0", "residual.relu2"]
        names = list(answer.operators)
        more, missing = (
            [name for name in own if name not in other] for own, other in ((names, wanted), (wanted, names))
        )
        text = f"The net has {', '.join(names)}."
        text += f" Not of the block: {', '.join(more)}." if more else ""
        yield Finding(names == wanted, text + (f" Missing: {', '.join(missing)}." if missing else ""))
        if names == wanted:
            recording = answer.plan((1, 12, 4, 4)).recording
            joined = [group for group in recording.groups if recording.label(group.members[0]) == "conv2d"]
            yield Finding(
                len(joined) == 2, f"Its kernels: {kernel_names(recording)}. The second one adds the shortcut itself."
            )


class InnerValue(Exercise):
    """In this notebook operand `12` is asked for, and a fusion is declined. Ask for the net's output and another
    operand, such that fuse declines a fusion because of it.
    """

    number = "02.3"
    title = "Another value inside"
    level = 2
    answer = "the plan"
    accepts = (EvalPlan,)
    hints = (
        "Only a value that is never written can be lost: one that lies inside a kernel.",
        "Look at the kernels of `net.plan((1, 1, 8, 8)).explain()`: what lies between `matmul → add` and `softmax`, or"
        " inside another kernel?",
        "`4` leads nowhere: its relu is moved behind the pooling. Try the operand that the softmax reads.",
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
        """Ask for the decision of the stage fuse."""
        recording = recording_of(answer)
        asked = [recording.type_text(node) for node in recording.roots]
        yield Finding(len(set(recording.roots)) > 1, f"The plan is asked for {len(asked)}: {', '.join(asked)}.")
        yield Finding("1×24 float32" not in asked, "A vector of 24 is asked for only by operand `12` or its relu.")
        declined = [
            d for d in recording.decisions if d.code == "asked_for" and recording.stages[d.stage].name == "fuse"
        ]
        yield Finding(
            bool(declined),
            sentences(recording, declined) or f"No fusion is declined because of it: {kernel_names(recording)}.",
        )


class StableLoss(Exercise):
    """The net ends in a softmax. Write a loss on `net.build(…)` for which the plan computes a log-softmax instead, as
    in “Which pixels matter?”, but for all digits of a batch of 4 pictures: a mean over them.
    """

    number = "02.4"
    title = "A loss on top of a file"
    level = 3
    answer = "the loss"
    accepts = (Expr,)
    hints = (
        "`ex.log(net.build(image))` is the log of every probability; the loss is minus the mean of four of them.",
        "`ex.one_hot(labels, 10)` times these logarithms leaves one in each row. Or: `ex.nll_loss(truth, answer)`.",
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
        """Look for the log-softmax in the planned graph, and for the batch."""
        if answer.shape:
            yield Finding(False, f"A loss is one number, and this has the shape {answer.shape}.")
            return
        recording = planned(answer)
        rules = [d for d in recording.decisions if d.verdict == "applied" and "log_softmax" in _produced(recording, d)]
        yield Finding(bool(rules), sentences(recording, rules) or "No log-softmax takes the place of softmax and log.")
        shapes = {
            recording.type_text(node) for node in recording.visible(0) if recording.nodes.label[node] == "softmax"
        }
        yield Finding(
            any(text.startswith("4×10 ") for text in shapes),
            f"The softmax that was recorded: {', '.join(sorted(shapes))}.",
        )


def _produced(recording: Recording, decision: Decision) -> set[str]:
    return {recording.nodes.label[node] for node in decision.produced}
