"""Exercises of notebook 08: deduplication and batching."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from explorer.core.ir.expr import Expr
from explorer.core.ir.tensor import tensor
from explorer.core.tracing.decorator import function
from explorer.course.exercise_base import Exercise, Finding
from explorer.course.recording_facts import (
    agree,
    decisions,
    kernel_names,
    kernels,
    operations,
    planned,
    recording_of,
    replanned,
    sentences,
)
from explorer.record import Decision, Recording
from explorer.run import evaluate
from explorer.run.evalplan import EvalPlan

SCORES = """
import numpy as np
import explorer as ex

rng = np.random.default_rng(0)
W1, b1, W2, b2 = (ex.tensor(rng.normal(size=shape).astype(np.float32)) for shape in ((64, 128), 128, (128, 10), 10))
samples = rng.normal(size=(1000, 64)).astype(np.float32)


@ex.function
def scores(sample):
    return ex.tanh(sample @ W1 + b1) @ W2 + b2

"""


class FromHowManyOn(Exercise):
    """Two calls of `product` are never stacked, whatever the size of the matrices. Find the smallest number of calls
    with 10 × 10 matrices (float32) for which stacking pays, and hand in a plan of these calls. Its decision states both
    times.
    """

    number = "08.1"
    title = "When does stacking pay?"
    level = 2
    answer = "the plan"
    accepts = (EvalPlan,)
    hints = (
        "Turn the cell with `few` into a function of the number of calls, and look at the `verdict` of its `Batch`"
        " decision.",
        "The number is between 10 and 20. With 30 × 30 matrices stacking never pays, because copying takes longer for"
        " more elements, and starting a kernel does not.",
    )
    source = """
import numpy as np
import explorer as ex


@ex.function
def product(a, b):
    return a @ b


def planned(calls):
    plan = ex.EvalPlan()
    for _ in range(calls):
        plan.register(product(*(ex.tensor(np.ones((10, 10), np.float32)) for _ in "ab")))
    return plan.prepare()


def pays(plan):
    return any(d.rule == "Batch" and d.verdict == "applied" for d in plan.recording.decisions)


calls = 2
while not pays(planned(calls)):
    calls += 1
answer = planned(calls)
"""
    mistakes = (
        ("answer = planned(calls)", "answer = planned(calls - 1)"),
        ("answer = planned(calls)", "answer = planned(40)"),
    )

    def findings(self, answer: EvalPlan) -> Iterator[Finding]:
        """Check the decision about the calls, and the decision about one call fewer."""
        recording = recording_of(answer)
        calls = len(recording.roots)
        batches = [d for d in recording.decisions if d.rule == "Batch"]
        sizes = {recording.type_text(root) for root in recording.roots}
        yield Finding(sizes == {"10×10 float32"}, f"The plan has {calls} results of type {', '.join(sorted(sizes))}.")
        applied = [d for d in batches if d.verdict == "applied"]
        yield Finding(bool(applied), sentences(recording, batches) or "The plan has no decision about stacking.")
        if calls > 2:
            fewer, decision = _stacked(calls - 1)
            yield Finding(
                decision.verdict == "declined",
                f"With {calls - 1} calls stacking is {decision.verdict}: {fewer.reason(decision)}",
            )


class WithoutBatching(Exercise):
    """Plan a hundred calls of `scores` with `without=["batch"]`. How many kernels are there, and how many with
    batching? You can also measure `eval()` of both plans.
    """

    number = "08.2"
    title = "What a batch saves"
    level = 1
    answer = "the plan"
    accepts = (EvalPlan,)
    hints = (
        'Use `ex.EvalPlan(without=["batch"])`.',
        "`len(plan.recording.schedule.kernels)` is the number of kernels.",
    )
    source = (
        SCORES
        + """
plan = ex.EvalPlan(without=["batch"])
for sample in samples[:100]:
    plan.register(scores(sample))
plan.prepare()
answer = plan
"""
    )
    mistakes = (('without=["batch"]', ""), ("samples[:100]", "samples[:1]"))

    def findings(self, answer: EvalPlan) -> Iterator[Finding]:
        """Compare the number of kernels with the same plan with all passes."""
        recording = recording_of(answer)
        other = replanned(answer)
        mine, batched = len(kernels(recording)), len(kernels(other))
        yield Finding(len(recording.roots) >= 100, f"The plan has {len(recording.roots)} results.")
        applied = [d for d in other.decisions if d.rule == "Batch" and d.verdict == "applied"]
        yield Finding(mine > batched, f"{mine} kernels here, {batched} with all passes. {sentences(other, applied)}")


class SameStructure(Exercise):
    """Evaluate the sum of `ex.cos` of a tensor. Then record the same structure with other numbers and evaluate it in a
    second plan, so that the first plan is reused. Hand in the second plan.
    """

    number = "08.3"
    title = "Planned once"
    level = 2
    answer = "the plan"
    accepts = (EvalPlan,)
    hints = (
        "Planning reads shapes, dtypes and Python numbers, such as the 2 in `2 * x`, but not the numbers in tensors.",
        "After `eval()`, `plan.reused` reports whether this happened.",
    )
    source = """
import numpy as np
import explorer as ex

for seed in range(2):
    x = ex.tensor(np.random.default_rng(seed).normal(size=(17, 5)))
    plan = ex.EvalPlan()
    plan.register(ex.cos(x).sum())
    plan.eval()
answer = plan
"""
    mistakes = (
        ("size=(17, 5)", "size=(17, 6 + seed)"),
        ("plan.eval()", "plan.prepare()"),
        ("ex.cos(x)", "ex.cos(x * (seed + 2))"),
        ("ex.cos(x)", "ex.sin(x)"),
    )

    def findings(self, answer: EvalPlan) -> Iterator[Finding]:
        """Check what the plan computes, and whether it reused the first one."""
        computed = operations(recording_of(answer))
        yield Finding("cos" in computed, f"The plan computes {', '.join(computed)}.")
        if answer.reused:
            yield Finding(
                True, f"No planning was needed; the kernels are the same as before: {kernel_names(answer.recording)}."
            )
            return
        has_run = recording_of(answer).run is not None
        text = (
            "a new plan was built, because no graph with this structure, these shapes and these Python numbers had "
            "run before"
        )
        yield Finding(False, f"The plan {f'has run, and {text}' if has_run else 'has not run'}.")


class OneNode(Exercise):
    """Write a function that divides a sample by its norm, the square root of the sum of its squares. Record its calls
    on 1000 samples of 64 numbers as one node, which the plan computes at once. Hand in the expression with all results.
    """

    number = "08.4"
    title = "A thousand calls in one node"
    level = 1
    answer = "the expression"
    accepts = (Expr,)
    hints = ("A loop records a thousand nodes.", "`ex.map(f, samples)` records one node.")
    source = """
import numpy as np
import explorer as ex

samples = np.random.default_rng(0).normal(size=(1000, 64))


def unit(sample):
    return sample / ex.sqrt(ex.square(sample).sum())


answer = ex.map(unit, samples)
"""
    mistakes = (
        ("ex.map(unit, samples)", "ex.stack([unit(sample) for sample in samples])"),
        ("ex.map(unit, samples)", "ex.map(unit, samples[:100])"),
        ("ex.sqrt(ex.square(sample).sum())", "ex.square(sample).sum()"),
    )

    def findings(self, answer: Expr) -> Iterator[Finding]:
        """Check the values, the number of recorded nodes, and the decision to compute the calls at once."""
        shape = answer.shape
        yield Finding(shape == (1000, 64), f"The shape of the results is {shape}.")
        if shape == (1000, 64):
            yield agree("The norms of the results", np.linalg.norm(evaluate(answer), axis=1), np.ones(1000), 1e-4)
        recording = planned(answer)
        computed = [n for n in recording.visible(0) if recording.nodes.kind[n] in ("operation", "call")]
        yield Finding(len(computed) == 1, f"Recorded operations and calls: {len(computed)}.")
        at_once = decisions(recording, "batched", "applied")
        yield Finding(
            bool(at_once), sentences(recording, at_once) or "The plan has no decision to compute mapped calls at once."
        )


def _stacked(calls: int) -> tuple[Recording, Decision]:
    """Plan a number of calls of a small product, and return the recording and the decision about stacking."""

    @function
    def product(a: Expr, b: Expr) -> Expr:
        return a @ b

    matrices = [[tensor(np.ones((10, 10), np.float32)) for _ in "ab"] for _ in range(calls)]
    recording = planned(*(product(*pair) for pair in matrices))
    (decision,) = [decision for decision in recording.decisions if decision.rule == "Batch"]
    return recording, decision
