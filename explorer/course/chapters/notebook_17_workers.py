"""Exercises of notebook 17: more than one worker."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from explorer.core.ir.tensor import tensor
from explorer.course.exercise_base import Exercise, Finding
from explorer.course.recording_facts import kernels, record, recording_of
from explorer.run.diagnosis.scale_estimate import ScaleEstimate
from explorer.run.evalplan import EvalPlan
from explorer.run.execution.kernel_dependencies import worth_threads
from explorer.run.runtime.thread_pool import threads

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
    """Estimate the eight branches on up to 16 workers with `bandwidth=1000, latency=100, overhead=100`. Hand in the
    estimate with the smallest number of workers that reaches the highest speed.
    """

    number = "17.1"
    title = "How many workers?"
    level = 1
    answer = "the estimate"
    accepts = (ScaleEstimate,)
    hints = (
        "`plan.estimate(workers, …).speedup` is the estimated speedup.",
        "There are eight chains, so more than eight workers have nothing to do.",
    )
    source = (
        BRANCHES
        + """
link = {"bandwidth": 1000, "latency": 100, "overhead": 100}
estimates = [plan.estimate(workers, **link) for workers in range(1, 17)]
answer = max(estimates, key=lambda estimate: estimate.speedup)
"""
    )
    mistakes = (
        ("key=lambda estimate: estimate.speedup", "key=lambda estimate: estimate.network.workers"),
        ('"latency": 100', '"latency": 1'),
    )

    def findings(self, answer: ScaleEstimate) -> Iterator[Finding]:
        """Compare the estimate with estimates for other numbers of workers."""
        yield from _on_the_link(answer, 1000)
        plan, workers = _branches(), answer.network.workers
        speedups = {
            count: plan.estimate(count, bandwidth=1000, latency=100, overhead=100).speedup for count in range(1, 17)
        }
        best = max(speedups.values())
        reached = speedups.get(workers, answer.speedup)
        yield Finding(
            reached == best, f"With {workers} workers it is {reached:.2f} times as fast; the best is {best:.2f} times."
        )
        fewer = max((speedup for count, speedup in speedups.items() if count < workers), default=0.0)
        yield Finding(fewer < best, f"With fewer workers it is up to {fewer:.2f} times as fast.")


class SlowNetwork(Exercise):
    """On a slow network workers do not pay. Of the bandwidths 1, 2, 5, 10, 20, 50, 100, 200, 500 and 1000 MB/s, find
    the smallest at which four workers are worthwhile for the eight branches (latency 100, overhead 100). Hand in the
    estimate for this bandwidth.
    """

    number = "17.2"
    title = "How slow may the network be?"
    level = 2
    answer = "the estimate"
    accepts = (ScaleEstimate,)
    hints = (
        "`plan.estimate(…).worthwhile` reports whether workers pay.",
        "Most of the sent bytes are `x`: 1.2 MB, once to each worker.",
    )
    source = (
        BRANCHES
        + """
choices = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000)
estimates = [plan.estimate(4, bandwidth=b, latency=100, overhead=100) for b in choices]
answer = [estimate for estimate in estimates if estimate.worthwhile][0]
"""
    )
    mistakes = (("worthwhile][0]", "worthwhile][-1]"), ("if estimate.worthwhile", "if not estimate.worthwhile"))

    def findings(self, answer: ScaleEstimate) -> Iterator[Finding]:
        """Check the estimate, and the next smaller bandwidth."""
        choices = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000)
        bandwidth = answer.network.bandwidth
        if bandwidth not in choices:
            yield Finding(False, f"The bandwidth {bandwidth:g} MB/s is not one of {', '.join(map(str, choices))}.")
            return
        yield Finding(answer.network.workers == 4, f"Workers: {answer.network.workers}.")
        yield from _on_the_link(answer, bandwidth)
        plan, position = _branches(), choices.index(int(bandwidth))
        for choice in choices[max(position - 1, 0) : position + 1]:
            paper = plan.estimate(4, bandwidth=choice, latency=100, overhead=100)
            pays = "worthwhile" if paper.worthwhile else "not worthwhile"
            text = f"At {choice} MB/s four workers are {paper.speedup:.2f} times as fast: {pays}."
            yield Finding(paper.worthwhile == (choice == bandwidth), text)


class Streams(Exercise):
    """Write a program with at least three independent chains of kernels, and run it with `executor="async"` so that it
    uses several streams. Hand in the plan after running it.
    """

    number = "17.3"
    title = "Chains on streams"
    level = 2
    answer = "the plan"
    accepts = (EvalPlan,)
    hints = (
        'Branches with equal operations become a batch, which is one kernel: prevent this with `without="batch"`.',
        "After `eval()`, each step in `plan.recording.run.steps` has a `thread`, the stream on which its kernel ran."
        " Small kernels all run on one stream.",
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
    mistakes = (
        ("range(1, 5)", "range(1, 2)"),
        ("plan.eval()", "plan.prepare()"),
        ('executor="async", ', ""),
        ("(200, 200)", "(20, 20)"),
    )

    def findings(self, answer: EvalPlan) -> Iterator[Finding]:
        """Check the executor, the chains, and the streams that computed."""
        recording = recording_of(answer)
        chains = len({kernel.chain for kernel in kernels(recording)})
        yield Finding(answer.executor == "async", f"The executor is `{answer.executor}`.")
        yield Finding(chains >= 3, f"The plan has {chains} chains of kernels.")
        if recording.run is None:
            yield Finding(False, "The plan has not run.")
            return
        streams = {step.thread for step in recording.run.steps}
        apart = worth_threads(answer.planned.schedule)
        sizes = "are large enough" if apart else "are too small: one stream computes them faster"
        yield Finding(apart, f"The chains {sizes}.")
        if threads() > 1:
            yield Finding(len(streams) > 1, f"Streams that computed: {len(streams)}.")


class NothingToGain(Exercise):
    """Write a program with at least four kernels that no number of workers makes faster, however good the network is,
    and plan it.
    """

    number = "17.4"
    title = "Where workers do not help"
    level = 1
    answer = "the plan"
    accepts = (EvalPlan,)
    hints = (
        "A second worker helps only if there are two kernels that do not wait for each other.",
        "Write consecutive products, each of which reads the result of the one before.",
    )
    source = """
import numpy as np
import explorer as ex

h = W = ex.tensor(np.full((64, 64), 0.01))
for _ in range(5):
    h = h @ W
plan = ex.EvalPlan()
plan.register(h)
plan.prepare()
answer = plan
"""
    mistakes = (("range(5)", "range(2)"), ("h = h @ W\n", "h = ex.softmax(h @ W) + ex.softmax(W @ h)\n"))

    def findings(self, answer: EvalPlan) -> Iterator[Finding]:
        """Check the kernels, and estimates for two to eight workers on a very fast network."""
        rows = kernels(recording_of(answer))
        yield Finding(len(rows) >= 4, f"Kernels: {len(rows)}; chains: {len({kernel.chain for kernel in rows})}.")
        speedups = {
            count: answer.estimate(count, bandwidth=1e6, latency=0.001, overhead=0.001).speedup for count in (2, 4, 8)
        }
        figures = ", ".join(f"{speedup:.2f} with {count} workers" for count, speedup in speedups.items())
        yield Finding(max(speedups.values()) < 1.01, f"Estimated speedups: {figures}.")


def _branches() -> EvalPlan:
    """Plan the eight branches of the notebook."""
    x = tensor(np.random.default_rng(0).normal(size=(400, 400)), name="x")
    plan = EvalPlan(without="batch")
    for scale in range(1, 9):
        plan.register(record("tanh", x * scale @ x).sum(axis=0))
    return plan.prepare()


def _on_the_link(answer: ScaleEstimate, bandwidth: float) -> Iterator[Finding]:
    """Yield a finding on whether an estimate is about the eight branches and the network of the task."""
    network = answer.network
    expected = _branches().estimate(network.workers, bandwidth=bandwidth, latency=100, overhead=100)
    is_equal = (expected.micros, expected.bytes, expected.messages) == (answer.micros, answer.bytes, answer.messages)
    link = f"{network.bandwidth:g} MB/s, {network.latency:g} µs a message"
    yield Finding(
        is_equal, f"The estimate ({link}) is {'' if is_equal else 'not '}for the program and network of the task."
    )
