"""Exercises of notebook 07: memory and executors."""

from __future__ import annotations

from collections.abc import Iterator

from explorer.course.card import Finding
from explorer.course.evidence import decisions, kernels, recording_of, replanned, sentences
from explorer.course.exercise_base import Exercise
from explorer.record import Recording
from explorer.record.reasons import bytes_text
from explorer.run.evalplan import EvalPlan

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
    """Plan the residual blocks `without=["fuse"]`. What becomes of the peak, and of the most that is live? Which of
    the three parts of the peak has changed, and why?
    """

    number = "07.1"
    title = "What fusing costs in memory"
    level = 1
    answer = "the plan"
    accepts = (EvalPlan,)
    hints = (
        'The options of a plan are given where it is made: `ex.EvalPlan(without=["fuse"])`.',
        "The counts of the stage buffers have `peak_arena`, `peak_results` and `peak_working`.",
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
        """Compare the parts of the peak with those of the fused plan."""
        mine, fused = _counts(recording_of(answer)), _counts(replanned(answer))
        text = "; ".join(
            f"{name.removeprefix('peak_') or name} {bytes_text(fused[name])} → {bytes_text(mine[name])}"
            for name in ("peak", "peak_lower_bound", "peak_arena", "peak_results", "peak_working")
        )
        yield Finding(mine["peak_working"] < fused["peak_working"], f"With all passes → in this plan: {text}.")
        if mine["peak_working"] < fused["peak_working"]:
            written = f"{bytes_text(fused['bytes'])} → {bytes_text(mine['bytes'])}"
            yield Finding(
                mine["bytes"] > fused["bytes"],
                f"Only a fused kernel needs working memory, the block between its operations. In exchange more is"
                f" written: {written}.",
            )


class EveryResult(Exercise):
    """Ask for every `h` of the loop, not only for the last one. Which results leave the arena?"""

    number = "07.2"
    title = "Results are yours"
    level = 1
    answer = "the plan"
    accepts = (EvalPlan,)
    hints = ("Collect each `h` in a list while the loop records it.", "Register all four in one plan.")
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
        """Compare results and arena."""
        recording = recording_of(answer)
        counts = _counts(recording)
        asked = len(set(recording.roots))
        yield Finding(
            asked >= 4, f"{asked} values are asked for; they take {bytes_text(counts['peak_results'])} of their own."
        )
        yield Finding(
            counts["peak_results"] >= asked * 2**17,
            f"The arena holds what nobody asked for: {bytes_text(counts['peak_arena'])}.",
        )


class SharedPlace(Exercise):
    """Write a program in which three intermediate results lie one after the other in one buffer. Draw their live
    ranges on paper first: two of them may not be needed at the same time.
    """

    number = "07.3"
    title = "An arena by hand"
    level = 2
    answer = "the plan"
    accepts = (EvalPlan,)
    hints = (
        "In a chain of matrix products each result is read only by the next one: a, b, a, b, a …",
        "Every second result of such a chain can have the place of the first: six products have five intermediate"
        " results, and three of them share a place.",
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
        """Count the results of each buffer."""
        recording = recording_of(answer)
        reused = decisions(recording, "reused", "applied")
        shared: dict[int, int] = {}
        for kernel in kernels(recording):
            if kernel.buffer >= 0:
                shared[kernel.buffer] = shared.get(kernel.buffer, 0) + 1
        most = max(shared.values(), default=0)
        yield Finding(
            most >= 3,
            sentences(recording, reused) or f"No buffer is used twice: there are {len(kernels(recording))} kernels.",
        )
        counts = _counts(recording)
        yield Finding(
            counts["peak"] < counts["peak_without_reuse"],
            f"The peak is {bytes_text(counts['peak'])}; without reuse {bytes_text(counts['peak_without_reuse'])}.",
        )


class PriceOfThreads(Exercise):
    """Write a program whose plan for `executor="dag"` takes more memory than that for `"simple"`: two values that are
    made at the same time cannot share a place.
    """

    number = "07.4"
    title = "The price of threads"
    level = 2
    answer = 'the plan for "dag"'
    accepts = (EvalPlan,)
    hints = (
        "It needs branches that do not read each other, with intermediate results of their own.",
        "One chain of kernels takes the same memory on any number of threads.",
    )
    source = """
import numpy as np
import explorer as ex

x = ex.tensor(np.ones((128, 128), np.float32))
branches = [ex.softmax(ex.softmax(x @ ex.tensor(np.full((128, 128), n, np.float32))) @ x) for n in range(3)]
plan = ex.EvalPlan(executor="dag")
plan.register(ex.concatenate(branches, axis=1))
plan.prepare()
answer = plan
"""
    mistakes = (('executor="dag"', ""), ("for n in range(3)]", "for n in range(1)]"))

    def findings(self, answer: EvalPlan) -> Iterator[Finding]:
        """Compare the peaks of both plans, and the chains."""
        yield Finding(answer.executor == "dag", f"The plan is for the executor `{answer.executor}`.")
        recording = recording_of(answer)
        mine, simple = _counts(recording)["peak"], _counts(replanned(answer))["peak"]
        chains = len({kernel.chain for kernel in kernels(recording)})
        yield Finding(
            mine > simple, f"{chains} chains; the peak is {bytes_text(mine)}, for `simple` {bytes_text(simple)}."
        )


def _counts(recording: Recording) -> dict[str, int]:
    """Return the counts of the stage that places results in memory."""
    (counts,) = [stage.counts for stage in recording.stages if stage.name == "buffers"]
    return counts
