"""Exercises of notebook 19: a model of your own."""

from __future__ import annotations

from collections.abc import Iterator

from explorer.course.exercise_base import Exercise, Finding
from explorer.net.value_comparison import ValueComparison

OPENED = """
import numpy as np
import explorer as ex

stored = np.load("../assets/digits.npz")
images = stored["images"]
"""


class WrongWeight(Exercise):
    """Open `../assets/digits.onnx` twice, make the weight `W` of `/conv2/Conv` in one of them 5 % larger, and compare
    this one with the other on the twelve digits.
    """

    number = "19.1"
    title = "Which operator is to blame"
    level = 1
    answer = "the comparison"
    accepts = (ValueComparison,)
    hints = (
        '`net["/conv2/Conv"].weights["W"]` is the weight; assign another array to it.',
        "`wrong.compare(right, images)`: without the images the graphs are compared, and no value.",
    )
    source = (
        OPENED
        + """
right = ex.open("../assets/digits.onnx")
wrong = ex.open("../assets/digits.onnx")
wrong["/conv2/Conv"].weights["W"] = 1.05 * np.asarray(right["/conv2/Conv"].weights["W"])
answer = wrong.compare(right, images)
"""
    )
    mistakes = (("wrong.compare(right, images)", "right.compare(right, images)"), ("1.05 *", "1.00001 *"))

    def findings(self, answer: ValueComparison) -> Iterator[Finding]:
        """Ask which operator is the first that differs, and by how much."""
        first = answer.first
        if first is None:
            yield Finding(False, f"All {len(answer.rows)} operands agree with {answer.reference}.")
            return
        yield Finding("conv2" in first.operator, f"The first operator that differs is {first.operator}.")
        yield Finding(0.01 < first.error < 0.1, f"Its relative error is {first.error:.2g}.")


class PytorchsValues(Exercise):
    """`../assets/digits.npz` has what PyTorch computed for the first three digits: `activation/5` is operand `5` of
    `../assets/digits.pnnx.param`, and so on. Compare the net with all of them.
    """

    number = "19.2"
    title = "Beside another framework"
    level = 2
    answer = "the comparison"
    accepts = (ValueComparison,)
    hints = (
        "A reference may be a dict of arrays by operand's name: `stored` has them under longer names.",
        '`name.removeprefix("activation/")` is the operand\'s name; the images are `images[:3]`.',
    )
    source = (
        OPENED
        + """
net = ex.open("../assets/digits.pnnx.param")
values = {name.removeprefix("activation/"): stored[name] for name in stored if name.startswith("activation/")}
answer = net.compare(values, images[:3])
"""
    )
    mistakes = (
        ("net.compare(values, images[:3])", 'net.compare({"15": values["15"]}, images[:3])'),
        ("images[:3])", "images[3:6])"),
    )

    def findings(self, answer: ValueComparison) -> Iterator[Finding]:
        """Count the operands that were compared, and those that agree."""
        agree = sum(not row.problem for row in answer.rows)
        yield Finding(len(answer.rows) >= 10, f"{len(answer.rows)} operands were compared.")
        yield Finding(answer.equal, f"{agree} of them agree with {answer.reference}.")


class LastOperator(Exercise):
    """The quantised net may answer a little otherwise. With which tolerance does `../assets/digits_int8.onnx` agree
    with `../assets/digits.onnx` in everything but the operator whose relu the quantiser left out?
    """

    number = "19.3"
    title = "How much is a little"
    level = 2
    answer = "the comparison"
    accepts = (ValueComparison,)
    hints = (
        "`tolerance=` is the largest relative error that is let through.",
        "`[(row.operator, row.error) for row in comparison.rows]` says how much each one takes; the operator without"
        " its relu is far away from all others.",
    )
    source = (
        OPENED
        + """
exact = ex.open("../assets/digits.onnx")
answer = ex.open("../assets/digits_int8.onnx").compare(exact, images, tolerance=0.05)
"""
    )
    mistakes = (("tolerance=0.05", "tolerance=1e-3"), ("tolerance=0.05", "tolerance=1.0"))

    def findings(self, answer: ValueComparison) -> Iterator[Finding]:
        """Count the operands that differ."""
        differing = [row for row in answer.rows if row.problem]
        named = ", ".join(row.operator for row in differing) or "none"
        yield Finding(len(differing) == 1, f"{len(differing)} of {len(answer.rows)} operands differ: {named}.")


class TwoFiles(Exercise):
    """`../assets/digits.pnnx.param` and `../assets/digits.onnx` should be one net, as two exporters wrote it. Compare
    the first with the second on the twelve digits. Why is only one value compared, and is that enough?
    """

    number = "19.4"
    title = "Two files of one net"
    level = 1
    answer = "the comparison"
    accepts = (ValueComparison,)
    hints = (
        "A net can be the reference: `net.compare(other, images)`.",
        "Values are compared where both files use a name for the same operand; the results are compared in any case.",
    )
    source = (
        OPENED
        + """
net = ex.open("../assets/digits.pnnx.param")
answer = net.compare(ex.open("../assets/digits.onnx"), images)
"""
    )
    mistakes = (("digits.onnx", "digits_int8.onnx"), ("images)", "images).rows"))

    def findings(self, answer: ValueComparison) -> Iterator[Finding]:
        """Ask what was compared, and how far the values are apart."""
        named = ", ".join(f"{row.name} of {row.operator}" for row in answer.rows)
        yield Finding(answer.equal and len(answer.rows) == 1, f"Compared: {named}.")
        worst = max(row.error for row in answer.rows)
        yield Finding(
            worst < 1e-5,
            f"The largest relative error: {worst:.2g}. Where the shares of 12 digits agree, so do the values inside,"
            " as far as they matter for these pictures.",
        )
