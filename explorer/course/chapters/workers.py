"""Exercises of notebook 13: more than one worker."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from explorer.core.ir.tensor import tensor
from explorer.course.card import Finding
from explorer.course.evidence import kernels, record, recording_of
from explorer.course.exercise_base import Exercise
from explorer.run.evalplan import EvalPlan

BRANCHES = """
import numpy as np
import explorer as ex

x = ex.tensor(np.random.default_rng(0).normal(size=(400, 400)), name="x")
branches = [ex.tanh(x * scale @ x).sum(axis=0) for scale in range(1, 9)]
plan = ex.EvalPlan(without="batch")
for branch in branches:
    plan.register(branch)
plan.prepare()
"""


class MostWorkers(Exercise):
    """With `bandwidth=1000, latency=100, overhead=100`: what is the smallest number of workers, up to 16, with which
    the eight branches are as fast as they get on paper?
    """

    number = "13.1"
    title = "How many workers?"
    level = 1
    answer = "a number"
    accepts = (int,)
    hints = (
        "`plan.estimate(workers, …).speedup` is how many times as fast it would be.",
        "Eight chains: more workers have nothing to do.",
    )
    source = (
        BRANCHES
        + """
link = {"bandwidth": 1000, "latency": 100, "overhead": 100}
speedups = {workers: plan.estimate(workers, **link).speedup for workers in range(1, 17)}
answer = min(workers for workers in speedups if speedups[workers] == max(speedups.values()))
"""
    )
    mistakes = (
        ("answer = min(workers for", "answer = max(workers for"),
        ("answer = min(workers for", "answer = min(workers - 3 for"),
    )

    def findings(self, answer: int) -> Iterator[Finding]:
        """Estimate the number of workers, and others."""
        if not 1 <= answer <= 16:
            yield Finding(False, f"{answer} workers: a number from 1 to 16 is asked for.")
            return
        plan = _branches()
        speedups = {
            workers: plan.estimate(workers, bandwidth=1000, latency=100, overhead=100).speedup
            for workers in range(1, 17)
        }
        best = max(speedups.values())
        yield Finding(
            speedups[answer] == best,
            f"{answer} workers are {speedups[answer]:.2f} times as fast; the most is {best:.2f}.",
        )
        fewer = max((speedups[workers] for workers in range(1, answer)), default=0.0)
        yield Finding(fewer < best, f"Fewer workers are up to {fewer:.2f} times as fast.")


class SlowNetwork(Exercise):
    """On a slow network nothing is gained. Of the bandwidths 1, 2, 5, 10, 20, 50, 100, 200, 500 and 1000 MB/s: which is
    the smallest at which four workers are worthwhile for the eight branches (latency 100, overhead 100)?
    """

    number = "13.2"
    title = "How slow may the network be?"
    level = 2
    answer = "a number"
    accepts = (int,)
    hints = (
        "`plan.estimate(…).worthwhile` says whether it pays.",
        "What is sent is mostly `x`: 1.2 MB, once to each worker.",
    )
    source = (
        BRANCHES
        + """
choices = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000)
pays = [b for b in choices if plan.estimate(4, bandwidth=b, latency=100, overhead=100).worthwhile]
answer = min(pays)
"""
    )
    mistakes = (
        ("answer = min(pays)", "answer = max(pays)"),
        ("answer = min(pays)", "answer = choices[choices.index(min(pays)) - 1]"),
    )

    def findings(self, answer: int) -> Iterator[Finding]:
        """Estimate at that bandwidth, and at the one below it."""
        choices = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000)
        if answer not in choices:
            yield Finding(False, f"{answer} is none of {', '.join(map(str, choices))}.")
            return
        plan = _branches()
        for choice in choices[max(choices.index(answer) - 1, 0) : choices.index(answer) + 1]:
            paper = plan.estimate(4, bandwidth=choice, latency=100, overhead=100)
            pays = "worthwhile" if paper.worthwhile else "not worthwhile"
            text = f"At {choice} MB/s four workers are {paper.speedup:.2f} times as fast: {pays}."
            yield Finding(paper.worthwhile == (choice == answer), text)


class Streams(Exercise):
    """Write a program of at least three chains of kernels that do not read each other, and run it with
    `executor="async"`, so that more than one stream can compute. Hand in the plan after its run.
    """

    number = "13.3"
    title = "Chains on streams"
    level = 2
    answer = "the plan"
    accepts = (EvalPlan,)
    hints = (
        'Branches of equal operations become a batch, which is one kernel: leave it out with `without="batch"`.',
        "`plan.recording.run.steps` says on which thread each kernel ran; it is there after `eval()`.",
    )
    source = """
import numpy as np
import explorer as ex

x = ex.tensor(np.random.default_rng(0).normal(size=(200, 200)), name="x")
plan = ex.EvalPlan(executor="async", without="batch")
for scale in range(1, 5):
    plan.register(ex.tanh(x * scale @ x).sum(axis=0))
plan.eval()
answer = plan
"""
    mistakes = (("range(1, 5)", "range(1, 2)"), ("plan.eval()", "plan.prepare()"), ('executor="async", ', ""))

    def findings(self, answer: EvalPlan) -> Iterator[Finding]:
        """Count chains, and the streams that computed."""
        recording = recording_of(answer)
        chains = len({kernel.chain for kernel in kernels(recording)})
        yield Finding(answer.executor == "async", f"The executor is `{answer.executor}`.")
        yield Finding(chains >= 3, f"{chains} chains of kernels.")
        if recording.run is None:
            yield Finding(False, "The plan has not run.")
            return
        yield Finding(bool(recording.run.steps), f"{len(recording.run.steps)} kernels ran.")


def _branches() -> EvalPlan:
    """Plan the eight branches of the notebook."""
    x = tensor(np.random.default_rng(0).normal(size=(400, 400)), name="x")
    plan = EvalPlan(without="batch")
    for scale in range(1, 9):
        plan.register(record("tanh", x * scale @ x).sum(axis=0))
    return plan.prepare()
