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
    """Open `../assets/digits.onnx` twice, make the weight `W` of `/conv2/Conv` 5 % larger in one of the nets, and
    compare this net with the other on the twelve digits.
    """

    number = "19.1"
    title = "Which operator is to blame"
    level = 1
    answer = "the comparison"
    accepts = (ValueComparison,)
    hints = (
        '`net["/conv2/Conv"].weights["W"]` is the weight; assign another array to it.',
        "Call `wrong.compare(right, images)`; without images, it would compare the graphs and no values.",
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
        """Check the first operator that differs, and its error."""
        first = answer.first
        if first is None:
            yield Finding(False, f"All {len(answer.rows)} operands agree with {answer.reference}.")
            return
        yield Finding("conv2" in first.operator, f"The first operator that differs is {first.operator}.")
        yield Finding(0.01 < first.error < 0.1, f"Its relative error is {first.error:.2g}.")


class PytorchsValues(Exercise):
    """`../assets/digits.npz` contains PyTorch's values for the first three digits: `activation/5` is operand `5` of
    `../assets/digits.pnnx.param`, and so on. Compare the net with all of them.
    """

    number = "19.2"
    title = "Compare with another framework"
    level = 2
    answer = "the comparison"
    accepts = (ValueComparison,)
    hints = (
        "A reference may be a dict of arrays by operand name. In `stored` the names have a prefix.",
        '`name.removeprefix("activation/")` is the operand name; the images are `images[:3]`.',
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
        """Check how many operands were compared, and how many agree."""
        agree = sum(not row.problem for row in answer.rows)
        yield Finding(len(answer.rows) >= 10, f"{len(answer.rows)} operands were compared.")
        yield Finding(answer.equal, f"{agree} of them agree with {answer.reference}.")


class LastOperator(Exercise):
    """The quantised net may differ slightly. With which tolerance do all operands of `../assets/digits_int8.onnx` agree
    with `../assets/digits.onnx`, except for the one with the largest relative error?
    """

    number = "19.3"
    title = "A tolerance"
    level = 2
    answer = "the comparison"
    accepts = (ValueComparison,)
    hints = (
        "`tolerance=` is the largest allowed relative error.",
        "`[(row.operator, row.error) for row in comparison.ranked]` lists the errors of these values.",
    )
    source = (
        OPENED
        + """
exact = ex.open("../assets/digits.onnx")
quantised = ex.open("../assets/digits_int8.onnx")
*_, second, largest = sorted(row.error for row in quantised.compare(exact, images).ranked)
answer = quantised.compare(exact, images, tolerance=(second + largest) / 2)
"""
    )
    mistakes = (("(second + largest) / 2", "1e-3"), ("(second + largest) / 2", "1.0"))

    def findings(self, answer: ValueComparison) -> Iterator[Finding]:
        """Check that exactly one operand differs."""
        differing = [row for row in answer.rows if row.problem]
        named = ", ".join(row.operator for row in differing) or "none"
        yield Finding(len(differing) == 1, f"{len(differing)} of {len(answer.rows)} operands differ: {named}.")


class TwoFiles(Exercise):
    """`../assets/digits.pnnx.param` and `../assets/digits.onnx` should be the same net, written by two exporters.
    Compare the first with the second on the twelve digits. Why is only one value compared, and is this enough?
    """

    number = "19.4"
    title = "Two files of one net"
    level = 1
    answer = "the comparison"
    accepts = (ValueComparison,)
    hints = (
        "A net can be the reference: `net.compare(other, images)`.",
        "Values are compared if both files use the same operand name; the results are always compared.",
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
        """Check which values were compared, and their largest error."""
        named = ", ".join(f"{row.name} of {row.operator}" for row in answer.rows)
        yield Finding(answer.equal and len(answer.rows) == 1, f"Compared: {named}.")
        worst = max(row.error for row in answer.rows)
        yield Finding(
            worst < 1e-5,
            f"The largest relative error is {worst:.2g}. If the probabilities of 12 digits agree, so do the inner"
            " values,"
            " as far as they matter for these pictures.",
        )
