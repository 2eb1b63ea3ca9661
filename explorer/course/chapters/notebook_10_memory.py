"""Exercises of notebook 10: memory."""

from __future__ import annotations

from collections.abc import Iterator

from explorer.course.exercise_base import Exercise, Finding
from explorer.course.recording_facts import (
    decisions,
    kernel_names,
    kernels,
    operations,
    recording_of,
    replanned,
    sentences,
)
from explorer.record.reasons import bytes_text
from explorer.run.evalplan import EvalPlan
from explorer.view.model.stage_texts import memory_counts

BLOCKS = """
import numpy as np
import explorer as ex

rng = np.random.default_rng(0)


def drawn(*shape):
    return ex.tensor((rng.normal(size=shape) / np.sqrt(shape[0])).astype(np.float32))


def norm(x):
    centred = x - x.mean(axis=1, keepdims=True)
    return centred / ex.sqrt(ex.square(centred).mean(axis=1, keepdims=True) + 1e-5)


h = drawn(256, 128)
values = []
for _ in range(4):
    h = h + ex.relu(norm(h) @ drawn(128, 128))
    values.append(h)
"""


class WithoutFusion(Exercise):
    """Plan the residual blocks with `without=["fuse"]`. How do the peak and the most live memory change? Which of the
    three parts of the peak has changed, and why?
    """

    number = "10.1"
    title = "What fusing costs in memory"
    level = 1
    answer = "the plan"
    accepts = (EvalPlan,)
    hints = (
        'Pass the option when you make the plan: `ex.EvalPlan(without=["fuse"])`.',
        "The counts of the stage buffers contain `peak_arena`, `peak_results` and `peak_working`.",
    )
    source = (
        BLOCKS
        + """
plan = ex.EvalPlan(without=["fuse"])
plan.register(h)
plan.prepare()
answer = plan
"""
    )
    mistakes = (('without=["fuse"]', ""), ('["fuse"]', '["dedup"]'))

    def findings(self, answer: EvalPlan) -> Iterator[Finding]:
        """Compare the parts of the peak with the fused plan."""
        mine, fused = memory_counts(recording_of(answer)), memory_counts(replanned(answer))
        text = "; ".join(
            f"{name.removeprefix('peak_') or name} {bytes_text(fused[name])} → {bytes_text(mine[name])}"
            for name in ("peak", "peak_lower_bound", "peak_arena", "peak_results", "peak_working")
        )
        yield Finding(mine["peak_working"] < fused["peak_working"], f"With all passes → in this plan: {text}.")
        if mine["peak_working"] < fused["peak_working"]:
            written = f"{bytes_text(fused['bytes'])} → {bytes_text(mine['bytes'])}"
            yield Finding(
                mine["bytes"] > fused["bytes"],
                f"Only a fused kernel needs working memory, for the block between its operations. Without fusion, more"
                f" bytes are written: {written}.",
            )


class EveryResult(Exercise):
    """Register every `h` of the loop, not only the last one. Which results are now outside the arena?"""

    number = "10.2"
    title = "Results are yours"
    level = 1
    answer = "the plan"
    accepts = (EvalPlan,)
    hints = ("In the loop, append each `h` to a list.", "Register all four in one plan.")
    source = (
        BLOCKS
        + """
plan = ex.EvalPlan()
for value in values:
    plan.register(value)
plan.prepare()
answer = plan
"""
    )
    mistakes = (
        ("for value in values:", "for value in values[-1:]:"),
        ("for value in values:", "for value in values[:2]:"),
    )

    def findings(self, answer: EvalPlan) -> Iterator[Finding]:
        """Check the memory of the results, and report the arena."""
        recording = recording_of(answer)
        counts = memory_counts(recording)
        asked = len(set(recording.roots))
        yield Finding(
            asked >= 4,
            f"The plan has {asked} results; outside the arena they need {bytes_text(counts['peak_results'])}.",
        )
        yield Finding(
            counts["peak_results"] >= asked * 2**17,
            f"The arena contains only the other results: {bytes_text(counts['peak_arena'])}.",
        )


class SharedPlace(Exercise):
    """Write a program that consists only of matrix products, so that three of its intermediate results use the same
    buffer one after the other. Draw their live ranges on paper first: no two of them may overlap.
    """

    number = "10.3"
    title = "An arena by hand"
    level = 2
    answer = "the plan"
    accepts = (EvalPlan,)
    hints = (
        "In a chain of matrix products each result is read only by the next one: a, b, a, b, a …",
        "Every second result of such a chain can use the same buffer: six products have five intermediate results, and"
        " three of them share a buffer.",
    )
    source = """
import numpy as np
import explorer as ex

h = W = ex.tensor(np.ones((64, 64), np.float32))
for _ in range(6):
    h = h @ W
plan = ex.EvalPlan()
plan.register(h)
plan.prepare()
answer = plan
"""
    mistakes = (("range(6)", "range(3)"), ("h = h @ W\n", "h = ex.tanh(h)\n"))

    def findings(self, answer: EvalPlan) -> Iterator[Finding]:
        """Count the results that use each buffer."""
        recording = recording_of(answer)
        computed = set(operations(recording))
        yield Finding(computed == {"matmul"}, f"The plan computes {', '.join(sorted(computed)) or 'nothing'}.")
        reused = decisions(recording, "reused", "applied")
        shared: dict[int, int] = {}
        for kernel in kernels(recording):
            if kernel.buffer is not None and kernel.buffer >= 0:
                shared[kernel.buffer] = shared.get(kernel.buffer, 0) + 1
        most = max(shared.values(), default=0)
        yield Finding(
            most >= 3,
            sentences(recording, reused) or f"No buffer is used twice; there are {len(kernels(recording))} kernels.",
        )
        counts = memory_counts(recording)
        yield Finding(
            counts["peak"] < counts["peak_without_reuse"],
            f"The peak is {bytes_text(counts['peak'])}; without reuse it would be"
            f" {bytes_text(counts['peak_without_reuse'])}.",
        )


class Overwritten(Exercise):
    """Write a program of at least three matrix products, with `ex.tanh` between them in a separate kernel that
    overwrites its operand. Why must the operand have no other reader?
    """

    number = "10.4"
    title = "In place"
    level = 2
    answer = "the plan"
    accepts = (EvalPlan,)
    hints = (
        "By default, an elementwise operation is fused with the product that it reads. Without fusion it has its own"
        " kernel.",
        'Use `ex.EvalPlan(without=["fuse"])`, with `ex.tanh` between two products.',
    )
    source = """
import numpy as np
import explorer as ex

x = W = ex.tensor(np.full((64, 64), 0.01, np.float32))
h = x @ W
h = ex.tanh(h) @ W
h = h @ W
plan = ex.EvalPlan(without=["fuse"])
plan.register(h)
plan.prepare()
answer = plan
"""
    mistakes = (('without=["fuse"]', ""), ("h = h @ W\n", ""))

    def findings(self, answer: EvalPlan) -> Iterator[Finding]:
        """Check for a kernel that contains only tanh and overwrites its operand."""
        recording = recording_of(answer)
        rows = kernels(recording)
        products = sum(recording.nodes.label[node] == "matmul" for kernel in rows for node in kernel.nodes)
        yield Finding(products >= 3, f"The kernels are {kernel_names(recording)}.")
        placed = [recording.label(kernel.nodes[0]) for kernel in rows if kernel.in_place and len(kernel.nodes) == 1]
        reasons = sentences(recording, decisions(recording, "in_place", "applied"))
        yield Finding("tanh" in placed, reasons or "No kernel with a single operation overwrites its operand.")
