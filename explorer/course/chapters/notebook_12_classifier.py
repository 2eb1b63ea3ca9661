"""Exercises of notebook 12: a picture through a classifier."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from types import FunctionType
from typing import Any

import numpy as np

from explorer.core.ir.tensor import tensor
from explorer.core.registry import functions
from explorer.course.exercise_base import Exercise, Finding
from explorer.course.recording_facts import agree, kernels, operations, planned, recording_of, replanned
from explorer.net import Net
from explorer.record.reasons import bytes_text
from explorer.run import evaluate
from explorer.run.evalplan import EvalPlan
from explorer.view.model.stage_texts import memory_counts

NET = """
import numpy as np
import explorer as ex

net = ex.open("../assets/models/resnet18.pnnx.param")
for operator in net.operators.values():
    for name, declared in operator.weights.items():
        operator.weights[name] = np.full(declared.shape, 0.01, np.float32)
"""


class OtherClassifier(Exercise):
    """`../assets/models/mobilenet_v2.pnnx.param` is another classifier. Open it, call `draw_weights`, and plan it for a
    picture of 224 × 224. Which of its convolutions does the pass `algorithms` decline, and why?
    """

    number = "12.1"
    title = "Another classifier"
    level = 2
    answer = "the plan"
    accepts = (EvalPlan,)
    hints = (
        "Do the same as for ResNet-18: `ex.open`, `draw_weights(net)`, `net.plan((1, 3, 224, 224))`.",
        "`algorithms` looks at 3 × 3 convolutions. In MobileNet these are depthwise: each channel is convolved"
        " separately.",
    )
    source = (
        NET.replace("resnet18", "mobilenet_v2")
        + """
answer = net.plan((1, 3, 224, 224))
"""
    )
    mistakes = (("mobilenet_v2", "resnet18"), ("(1, 3, 224, 224)", "(1, 3, 224, 224), without=['algorithms']"))

    def findings(self, answer: EvalPlan) -> Iterator[Finding]:
        """Check the pass's decisions about convolutions."""
        recording = recording_of(answer)
        considered = [d for d in recording.decisions if recording.stages[d.stage].name == "algorithms"]
        applied = sum(len(d.subjects) for d in considered if d.verdict == "applied")
        declined = sum(len(d.subjects) for d in considered if d.verdict == "declined")
        count = operations(recording).count("conv2d")
        yield Finding(
            bool(declined) and not applied,
            f"Of {count} convolutions, {applied} use another algorithm, and {declined} are declined.",
        )
        for decision in considered:
            if decision.verdict == "declined":
                yield Finding(True, f"{len(decision.subjects)} times: {recording.reason(decision)}")


class UnfusedClassifier(Exercise):
    """Plan ResNet-18 with `without=["fuse"]`. How do the number of kernels, the peak and the written bytes change?"""

    number = "12.2"
    title = "What fusing saves"
    level = 1
    answer = "the plan"
    accepts = (EvalPlan,)
    hints = (
        'Use `net.plan((1, 3, 224, 224), without=["fuse"])`.',
        "`plan.compare(other)` shows the differences between two plans: kernels, peak, bytes written.",
    )
    source = (
        NET
        + """
answer = net.plan((1, 3, 224, 224), without=["fuse"])
"""
    )
    mistakes = ((', without=["fuse"]', ""), ('["fuse"]', '["algorithms"]'))

    def findings(self, answer: EvalPlan) -> Iterator[Finding]:
        """Compare the plan with a fused plan of the same values."""
        mine, fused = recording_of(answer), replanned(answer)
        # Do not read the counts of the last stage: if the plan has run, this stage is the run.
        counts = [(len(kernels(side)), memory_counts(side)) for side in (fused, mine)]
        (few, before), (many, after) = counts
        yield Finding(many >= 2 * few, f"The plan has {many} kernels; with all passes it has {few}.")
        yield Finding(
            after["bytes"] > before["bytes"],
            f"Written: {bytes_text(after['bytes'])}; with all passes: {bytes_text(before['bytes'])}. The peak is"
            f" {bytes_text(after['peak'])}; with all passes it is {bytes_text(before['peak'])}, because fused kernels"
            f" need {bytes_text(before['peak_working'])} of working memory instead of"
            f" {bytes_text(after['peak_working'])}.",
        )


class FirstLayer(Exercise):
    """Cut layer1 out of ResNet-18: it reads the output of the pooling, 64 channels of 56 × 56, and ends with operand
    `13`.
    """

    number = "12.3"
    title = "One layer of many"
    level = 1
    answer = "the cut net"
    accepts = (Net,)
    hints = (
        "`net.operators` lists what each operator reads and writes: look for `MaxPool2d`.",
        "The arguments of `net.cut([…], […])` are the input operands and the output operands.",
    )
    source = (
        NET
        + """
answer = net.cut(["3"], ["13"])
"""
    )
    mistakes = (('["3"]', '["2"]'), ('["13"]', '["10"]'))

    def findings(self, answer: Net) -> Iterator[Finding]:
        """Check the operators and the output."""
        types = [operator.type.removeprefix("nn.") for operator in answer.operators.values()]
        convolutions = types.count("Conv2d")
        yield Finding(convolutions == 4, f"It has {convolutions} convolutions; layer1 has two blocks with two each.")
        yield Finding("MaxPool2d" not in types, f"Its operators are {', '.join(types)}.")
        yield Finding([*answer.outputs] == ["13"], f"It ends with operand {', '.join(answer.outputs)}.")


class OnePixel(Exercise):
    """In NumPy, write `pixel(picture, weights, bias, row, column)`: it returns one pixel of a 3 × 3 convolution over a
    picture with one channel, padded with zeros. It is tested at each pixel, including edges and corners.
    """

    number = "12.4"
    title = "A convolution at any pixel"
    level = 2
    answer = "the function"
    accepts = (FunctionType,)
    hints = (
        "`np.pad(picture, 1)` adds zeros around the picture, so pixel (row, column) moves to (row + 1, column + 1).",
        "The window begins at (row, column) of the padded picture and has 3 rows and 3 columns.",
    )
    source = """
import numpy as np


def pixel(picture, weights, bias, row, column):
    window = np.pad(picture, 1)[row : row + 3, column : column + 3]
    return (window * weights).sum() + bias


answer = pixel
"""
    mistakes = (
        ("window * weights", "window * weights[::-1, ::-1]"),
        ("np.pad(picture, 1)", "np.pad(picture, 1, mode='edge')"),
        (" + bias", ""),
    )

    def findings(self, answer: Callable[..., Any]) -> Iterator[Finding]:
        """Compare each pixel with a planned convolution."""
        rng = np.random.default_rng(0)
        picture, weights, bias = rng.normal(size=(5, 6)), rng.normal(size=(3, 3)), 0.25
        convolution = functions.find("conv2d")(tensor(picture[None, None]), tensor(weights[None, None]), padding=1)
        expected = evaluate(convolution)[0, 0] + bias
        numbers = np.array(
            [[answer(picture, weights, bias, row, column) for column in range(6)] for row in range(5)], float
        )
        yield agree("Inside the picture", numbers[1:-1, 1:-1], expected[1:-1, 1:-1])
        yield agree("At its left edge, where a part of the window is zero", numbers[:, 0], expected[:, 0])
        recording = planned(convolution)
        flops = sum(kernel.flops or 0 for kernel in kernels(recording))
        yield Finding(
            True, f"The plan computes all 30 pixels with {flops} flops: about 9 products and 9 additions per pixel."
        )
