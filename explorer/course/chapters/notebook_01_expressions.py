"""Exercises of notebook 01: expressions and the plan."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

import numpy as np

from explorer.core.ir.expr import Expr
from explorer.core.ir.tensor import tensor
from explorer.course.exercise_base import Exercise, Finding
from explorer.course.recording_facts import (
    agree,
    decisions,
    kernel_names,
    kernels,
    labels,
    laws_of,
    operations,
    planned,
    recording_of,
    replanned,
    sentences,
)
from explorer.gradients import grad
from explorer.ops.base import Elementwise
from explorer.run import evaluate
from explorer.run.evalplan import EvalPlan

PROGRAM = """
import numpy as np
import explorer as ex

rng = np.random.default_rng(0)
x = ex.tensor(rng.normal(size=(32, 64)).astype(np.float32))
W = ex.tensor(rng.normal(size=(64, 48)).astype(np.float32))
b = ex.tensor(np.zeros(48, np.float32))
truth = ex.one_hot(rng.integers(0, 48, 32), 48)
scores = np.tanh(x @ W + b) + 2 * (x @ W)
loss = ex.nll_loss(truth, ex.softmax(scores))
"""


class ValueInside(Exercise):
    """Make another plan of `loss`, and register `np.tanh(x @ W + b)` in it, too, so that this value is also a result.
    Which fusion is declined because of it?
    """

    number = "01.1"
    title = "A result in the middle"
    level = 1
    answer = "the plan"
    accepts = (EvalPlan,)
    hints = (
        "A plan can have several results: call `plan.register` twice before `plan.prepare()`.",
        "`print(plan.explain())` prints a line with ✗ and “requested result”.",
    )
    source = (
        PROGRAM
        + """
plan = ex.EvalPlan()
plan.register(loss)
plan.register(np.tanh(x @ W + b))
plan.prepare()
print(plan.explain())
answer = plan
"""
    )
    mistakes = (("plan.register(np.tanh(x @ W + b))\n", ""), ("np.tanh(x @ W + b))\n", "x @ W)\n"))

    def findings(self, answer: EvalPlan) -> Iterator[Finding]:
        """Check for two results and a declined fusion of tanh."""
        recording = recording_of(answer)
        asked = sorted(recording.nodes.label[node] for node in set(recording.roots))
        yield Finding(asked == ["nll_loss", "tanh"], f"The results of the plan: {', '.join(asked)}.")
        declined = decisions(recording, "asked_for", "declined")
        if "tanh" in labels(recording, declined):
            yield Finding(True, sentences(recording, declined))
        else:
            yield Finding(False, f"No fusion of `tanh` is declined: the kernels are {kernel_names(recording)}.")


class WithoutDedup(Exercise):
    """The program contains `x @ W` twice. Plan `loss` with `without=["dedup"]`, and compare the text of this plan with
    the text of the first one. How many matrix products does the plan compute now, and what is each of them fused with?
    """

    number = "01.2"
    title = "What dedup saves, and what it costs"
    level = 1
    answer = "the plan"
    accepts = (EvalPlan,)
    hints = (
        '`ex.EvalPlan(without=["dedup"])` leaves that pass out.',
        "Compare the lines about fuse: a product that two operations read is not fused with either of them.",
    )
    source = (
        PROGRAM
        + """
plan = ex.EvalPlan(without=["dedup"])
plan.register(loss)
plan.prepare()
print(plan.explain())
answer = plan
"""
    )
    mistakes = (('without=["dedup"]', ""), ("plan.register(loss)", "plan.register(ex.tanh(x @ W + b))"))

    def findings(self, answer: EvalPlan) -> Iterator[Finding]:
        """Compare the products and kernels with the same plan with dedup."""
        recording = recording_of(answer)
        other = replanned(answer)
        mine, theirs = (operations(plan).count("matmul") for plan in (recording, other))
        asked = [recording.nodes.label[node] for node in recording.roots]
        yield Finding(asked == ["nll_loss"], f"The result of the plan: {', '.join(asked)}.")
        yield Finding(
            mine > theirs,
            f"This plan computes {mine} matrix products; with all passes the same values need {theirs}.",
        )
        if mine > theirs:
            fused = sum(
                len(kernel.nodes) > 1 and recording.nodes.label[kernel.nodes[0]] == "matmul"
                for kernel in kernels(recording)
            )
            yield Finding(
                fused == mine,
                f"{fused} of its products are fused with the operation that reads them, because each has one reader."
                " With"
                " dedup the single product has several readers:"
                f" {sentences(other, decisions(other, 'other_consumers', 'declined'))}",
            )


class NodeByHand(Exercise):
    """The program multiplies the matrix product by 2, and gives the result no name. Find this node: click it in the
    widget `view`, or select it with `view.focus(…)`. Hand in `view.selected_expression`.
    """

    number = "01.3"
    title = "From the picture back to the program"
    level = 1
    answer = "an expression"
    accepts = (Expr,)
    hints = (
        "Its label is `multiply`, and it reads `matmul` and the number 2.",
        "Without a mouse: `view.focus(scores.operands[1])`, since `scores` is the sum that reads it.",
    )
    source = (
        PROGRAM
        + """
plan = ex.EvalPlan()
plan.register(loss)
view = plan.explore()
view.focus(scores.operands[1])
answer = view.selected_expression
"""
    )
    mistakes = (("operands[1]", "operands[0]"), ("scores.operands[1]", "scores"))

    def findings(self, answer: Expr) -> Iterator[Finding]:
        """Check the operation and its operands."""
        names = [operand.operation.name for operand in answer.operands]
        is_double = answer.operation.name == "multiply" and sorted(names) == ["full", "matmul"]
        reads = f"reads {' and '.join(f'`{name}`' for name in names)}" if names else "reads nothing"
        yield Finding(is_double, f"The expression is `{answer.operation.name}`, which {reads}.")
        yield Finding(answer.shape == (32, 48), f"Its shape is {answer.shape}.")


class KnownBranch(Exercise):
    """With `ex.cond`, write a choice between `ex.exp` and `ex.cos` of a tensor so that the plan knows the branch before
    anything runs, and computes only this branch.
    """

    number = "01.4"
    title = "A branch that the plan picks"
    level = 2
    answer = "the expression"
    accepts = (Expr,)
    hints = (
        "A condition that is computed from data is known only when the plan runs.",
        "The first argument of `ex.cond` may be a Python value.",
    )
    source = """
import numpy as np
import explorer as ex

z = ex.tensor([0.5, -1.0], name="z")
answer = ex.cond(True, ex.exp, ex.cos, z)
"""
    mistakes = (("cond(True,", "cond(z.sum() > 0,"), ("ex.cond(True, ex.exp, ex.cos, z)", "ex.exp(z)"))

    def findings(self, answer: Expr) -> Iterator[Finding]:
        """Check for the decision that picks the branch, and for the computed operations."""
        recording = planned(answer)
        known = decisions(recording, "branch_known", "applied")
        text = sentences(recording, known) or f"The plan picked no branch: its kernels are {kernel_names(recording)}."
        yield Finding(bool(known), text)
        if known:
            nodes = recording.nodes
            choices = {"exp", "cos"} & {nodes.label[node] for node in range(len(nodes)) if nodes.body[node]}
            yield Finding(
                choices == {"exp", "cos"}, f"The branches contain {' and '.join(sorted(choices)) or 'neither'}."
            )
            computed = {"exp", "cos"} & set(operations(recording))
            yield Finding(len(computed) == 1, f"Of the two branches the plan computes {', '.join(sorted(computed))}.")


class Cube(Exercise):
    """Write an operation that computes x³, with its gradient: a subclass of `ex.Elementwise` whose kernel writes to
    `out`. Is the gradient right? `ex.check` compares it with finite differences.
    """

    number = "01.5"
    title = "An operation and its gradient"
    level = 3
    answer = "the class"
    accepts = (type,)
    hints = (
        "`Squash` above has all that you need: `kernel`, `gradient`, `examples`, and a docstring.",
        "`gradient(self, g, y, x)` returns a tuple with one expression for each operand: g times the derivative.",
        "The derivative of x³ is 3x².",
    )
    source = """
import numpy as np
import explorer as ex


class Cube(ex.Elementwise):
    \"\"\"x³.\"\"\"

    monotone = True
    examples = (ex.Example(ex.real(2, 3)),)

    def kernel(self, out, x):
        return np.power(x, 3, out=out)

    def gradient(self, g, y, x):
        return (g * 3 * ex.square(x),)


answer = Cube
"""
    mistakes = (
        ("g * 3 * ex.square(x)", "g * 3 * x"),
        ("np.power(x, 3, out=out)", "np.power(x, 2, out=out)"),
        ("return np.power(x, 3, out=out)", "return x**3"),
    )
    points: ClassVar = (-1.5, -0.25, 0.5, 2.0)

    def findings(self, answer: type) -> Iterator[Finding]:
        """Check values, gradient and laws, and that the operation is fused."""
        if not issubclass(answer, Elementwise):
            yield Finding(False, f"`{answer.__name__}` is not a subclass of `ex.Elementwise`.")
            return
        numbers = np.array(self.points)
        cube, step = answer(), 1e-5
        x = tensor(numbers, name="x")
        yield agree("The values", evaluate(cube(x)), numbers**3)
        around = [np.asarray(evaluate(cube(tensor(numbers + way * step)))) for way in (1, -1)]
        slope = evaluate(grad(cube(x).sum(), x))
        yield agree(
            "The gradient, compared with finite differences",
            slope,
            (around[0] - around[1]) / (2 * step),
            1e-4,
        )
        yield from laws_of(answer)
        recording = planned(cube(x + 1) * 2)
        yield Finding(
            len(kernels(recording)) == 1,
            f"With an operation before and after it, the kernels are {kernel_names(recording)}.",
        )
