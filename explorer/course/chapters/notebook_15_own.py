"""Exercises of notebook 15: custom operation, rule, pass, executor and heat metric."""

from __future__ import annotations

from collections.abc import Iterator
from types import FunctionType
from typing import Any

import numpy as np

from explorer.core.ir.tensor import tensor
from explorer.course.exercise_base import Exercise, Finding
from explorer.course.recording_facts import (
    agree,
    kernel_names,
    kernels,
    laws_of,
    operations,
    planned,
    record,
    sentences,
)
from explorer.gradients import grad
from explorer.ops.base import Elementwise
from explorer.plan import Pass, Rule, default_passes
from explorer.run import EvalPlan, evaluate
from explorer.run.execution.executors import EXECUTORS, RegisteredExecutor


class SmoothStep(Exercise):
    """Write an operation that computes x / (1 + |x|): a subclass of `ex.Elementwise` with `kernel`, `gradient` and
    `examples`. Its derivative is 1 / (1 + |x|)².
    """

    number = "15.1"
    title = "An operation and its gradient"
    level = 1
    answer = "the class"
    accepts = (type,)
    hints = (
        "Start from `Bell`, and change its two formulas.",
        "The gradient is the expression `g / ex.square(1 + abs(x))`, with the upstream gradient `g`.",
    )
    source = '''
import numpy as np
import explorer as ex


class SmoothStep(ex.Elementwise):
    """x / (1 + |x|)."""

    examples = (ex.Example(ex.real(2, 3)),)

    def kernel(self, out, x):
        return np.divide(x, 1 + np.abs(x), out=out)

    def gradient(self, g, y, x):
        return (g / ex.square(1 + abs(x)),)


answer = SmoothStep
'''
    mistakes = (
        ("(g / ex.square(1 + abs(x)),)", "(1 / ex.square(1 + abs(x)),)"),
        ("1 + np.abs(x), out", "1 + x, out"),
        ("return np.divide(x, 1 + np.abs(x), out=out)", "return x / (1 + np.abs(x))"),
    )

    def findings(self, answer: type) -> Iterator[Finding]:
        """Check values and gradients against the formulas, and the laws."""
        if not issubclass(answer, Elementwise):
            yield Finding(False, f"`{answer.__name__}` is not a subclass of `ex.Elementwise`.")
            return
        numbers = np.array([-3.0, -0.5, 0.25, 2.0])
        x = tensor(numbers, name="x")
        value = answer()(x)
        yield agree("Values", evaluate(value), numbers / (1 + np.abs(numbers)))
        yield from laws_of(answer)
        slope = evaluate(grad((3 * value).sum(), x))
        yield agree("The gradient of 3 · f", slope, 3 / (1 + np.abs(numbers)) ** 2)


class ProductOfPowers(Exercise):
    """Write a rule that replaces exp(x) · exp(y) with exp(x + y), which has one exponential less. It must leave other
    products, such as exp(x) · y, unchanged. Once its cell has run, every plan uses the rule; `.remove()` removes it.
    """

    number = "15.2"
    title = "A rule that saves an exponential"
    level = 2
    answer = "the rule's class"
    accepts = (type,)
    hints = (
        'With `roots = (ex.operation("multiply"),)` the rule is tried at each product.',
        "Both `graph.operands(node)` must have the operation `exp`; return None for anything else.",
    )
    source = '''
import explorer as ex


class ProductOfPowers(ex.Rule):
    """exp(x) · exp(y) is exp(x + y)."""

    numerics = "exact"
    roots = (ex.operation("multiply"),)
    one = ex.Reason("one", "`{left}` and `{right}` are multiplied, which is one exponential of a sum.")

    def match(self, node, graph):
        left, right = graph.operands(node)
        if {left.operation.name, right.operation.name} != {"exp"}:
            return None
        (x,), (y,) = graph.operands(left), graph.operands(right)
        return self.one.applied(ex.exp(x + y), left=left, right=right)


answer = ProductOfPowers
'''
    mistakes = (
        ('{left.operation.name, right.operation.name} != {"exp"}', 'left.operation.name != "exp"'),
        ('{left.operation.name, right.operation.name} != {"exp"}', 'right.operation.name != "exp"'),
        ("ex.exp(x + y)", "ex.exp(x * y)"),
    )

    def findings(self, answer: type) -> Iterator[Finding]:
        """Check the planned product and its value, and products that the rule must leave unchanged."""
        if not issubclass(answer, Rule):
            yield Finding(False, f"`{answer.__name__}` is not a subclass of `ex.Rule`.")
            return
        x, y = tensor([1.0, -2.0], name="x"), tensor([0.5, 3.0], name="y")
        product = record("exp", x) * record("exp", y)
        recording = planned(product)
        count = operations(recording).count("exp")
        yield Finding(count == 1, f"Exponentials in the plan: {count}; the kernels are {kernel_names(recording)}.")
        yield agree("Values", evaluate(product), np.exp([1.5, 1.0]))
        for text, other in (
            ("exp(x) · y", record("exp", x) * y),
            ("tanh(y) · exp(x)", record("tanh", y) * record("exp", x)),
        ):
            left_alone = planned(other)
            multiplied = "multiply" in operations(left_alone)
            yield Finding(multiplied, f"{text} has the kernels {kernel_names(left_alone)}.")


class Doubled(Exercise):
    """Write a pass that finds operations that read one value twice, such as `x * x` and `y + y`, and records one
    decision about all of them, with their number as the fact `count`. A program without such operations gets no
    decision.
    """

    number = "15.3"
    title = "A pass that looks for something"
    level = 2
    answer = "the class of the pass"
    accepts = (type,)
    hints = (
        "`graph.live` lists the nodes, and `graph.operands(node)` a node's operands. For which nodes does a set of the"
        " operands have fewer elements?",
        'As in `CountAbs`, call `graph.decide(self, self.reason, {"count": len(nodes)}, nodes)` if there are any.',
    )
    source = '''
from dataclasses import dataclass

import explorer as ex


@dataclass(frozen=True)
class Doubled(ex.Pass):
    """Find operations that read one value twice."""

    name = "doubled"
    twice = ex.Reason("twice", "{count:operation} with one value in two places.")

    def run(self, graph):
        nodes = [node for node in graph.live if len(set(graph.operands(node))) < len(graph.operands(node))]
        if nodes:
            graph.decide(self, self.twice, {"count": len(nodes)}, nodes)


answer = Doubled
'''
    mistakes = (
        ("len(set(graph.operands(node))) < len(graph.operands(node))", 'node.operation.name == "multiply"'),
        ("        if nodes:\n            graph", "        if True:\n            graph"),
    )

    def findings(self, answer: type) -> Iterator[Finding]:
        """Check the decisions for a program with two such operations, and for one without."""
        if not issubclass(answer, Pass):
            yield Finding(False, f"`{answer.__name__}` is not a subclass of `ex.Pass`.")
            return
        x, y = tensor([1.0, 2.0], name="x"), tensor([3.0, 4.0], name="y")
        passes = [answer(), *default_passes()]
        for text, value, count in (("x * x + (y + y)", x * x + (y + y), 2), ("x * y", x * y, 0)):
            recording = planned(value, passes=passes)
            own = [d for d in recording.decisions if d.rule == answer.__name__]
            reasons = sentences(recording, own) or "no decision"
            counted = sum(int(d.facts.get("count", 0)) for d in own)
            subjects = sum(len(d.subjects) for d in own)
            yield Finding(counted == subjects == count and len(own) == (count > 0), f"`{text}`: {reasons}")


class LargestFirst(Exercise):
    """Write an executor, which is a function of a program and an observer, that always runs the ready chain with the
    most flops next.
    """

    number = "15.4"
    title = "An executor with a preference"
    level = 3
    answer = "the function"
    accepts = (FunctionType,)
    hints = (
        "Start from `run_last_ready`, and change the line that removes a chain from `ready`.",
        "`program.chains.kernels[chain]` are the indices of the kernels of a chain, and"
        " `program.planned.schedule.kernels[index].cost.flops` are the flops of a kernel.",
    )
    source = '''
import explorer as ex


def largest_first(program, observer):
    """Of the chains that are ready, run the one with the most flops."""
    timing, tasks, kernels = program.blank_timing(), program.chains.tasks, program.planned.schedule.kernels
    needs = list(tasks.needs)
    ready = [chain for chain, count in enumerate(needs) if not count]

    def flops(chain):
        return sum(kernels[index].cost.flops for index in program.chains.kernels[chain])

    while ready:
        chain = max(ready, key=flops)
        ready.remove(chain)
        for index in program.chains.kernels[chain]:
            program.run_kernel(index, timing, observer)
        for user in tasks.users[chain]:
            needs[user] -= 1
            if not needs[user]:
                ready.append(user)
    return timing


answer = largest_first
'''
    mistakes = (
        ("max(ready, key=flops)", "ready[-1]"),
        ("        for user in tasks.users[chain]:\n", "        for user in ():\n"),
    )

    def findings(self, answer: FunctionType) -> Iterator[Finding]:
        """Run a program with three chains of different sizes, and check their order and the value."""
        x = tensor(np.linspace(-1, 1, 3600).reshape(60, 60), name="x")
        parts = [record("tanh", x[:size, :size] @ x[:size, :size]).sum() for size in (20, 60, 40)]
        name = "exercise 15.4"
        EXECUTORS.register(name, RegisteredExecutor(answer, 4), replace=True)
        try:
            plan = EvalPlan(executor=name, without=["fuse", "batch"])
            handle = plan.register(record("add_n", *parts))
            plan.eval()
        finally:
            EXECUTORS.pop(name)
        run, ran = plan.recording.run, []
        for step in run.steps if run is not None else ():
            kernel = kernels(plan.recording)[step.kernel]
            ran += [
                plan.recording.nodes.flops[n] or 0 for n in kernel.nodes if plan.recording.nodes.label[n] == "matmul"
            ]
        yield Finding(
            ran == sorted(ran, reverse=True), f"Flops of the matrix products, in the order in which they ran: {ran}."
        )
        yield agree("The value", handle.data(), evaluate(record("add_n", *parts)))


class Intensity(Exercise):
    """How much is computed for each byte that is written? Write the function of a heat metric: for a recording and a
    node, return the node's flops divided by the bytes of its result, or 0 if nothing is written.
    """

    number = "15.5"
    title = "A heat metric"
    level = 1
    answer = "the function"
    accepts = (FunctionType,)
    hints = (
        "Divide `recording.nodes.flops[node]` by `recording.nodes.bytes[node]`.",
        "A view writes nothing, so its bytes are 0, and you must not divide by them.",
    )
    source = """
import explorer as ex


def intensity(recording, node):
    size = recording.nodes.bytes[node]
    return recording.nodes.flops[node] / size if size else 0


answer = intensity
"""
    mistakes = ((" if size else 0", ""), ("recording.nodes.flops[node] / size", "size / recording.nodes.flops[node]"))

    def findings(self, answer: FunctionType) -> Iterator[Finding]:
        """Check the function for each operation of a program with a view."""
        x = tensor(np.ones((8, 4)), name="x")
        recording = planned(record("tanh", x @ x.T + 1).T)
        measured: Any = answer
        for node in dict.fromkeys(node for kernel in kernels(recording) for node in kernel.nodes):
            size, flops = recording.nodes.bytes[node], recording.nodes.flops[node] or 0
            expected = flops / size if size else 0
            value = measured(recording, node)
            yield Finding(
                abs(value - expected) < 1e-9,
                f"`{recording.label(node)}`, with {flops} flops and {size} bytes: {value:.3g} per byte.",
            )
