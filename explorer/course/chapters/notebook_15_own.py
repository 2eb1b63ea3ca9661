"""Exercises of notebook 15: an operation, a rule, a pass, an executor and a heat metric of the reader's own."""

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
    """Declare an operation that computes x / (1 + |x|), with its gradient, which is 1 / (1 + |x|)²: a subclass of
    `ex.Elementwise` with `kernel`, `gradient` and `examples`.
    """

    number = "15.1"
    title = "An operation and its gradient"
    level = 1
    answer = "the class"
    accepts = (type,)
    hints = (
        "`Bell` has everything that it needs; only two formulas change.",
        "The gradient is an expression: `g / ex.square(1 + abs(x))`, with the upstream gradient `g`.",
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
        """Compare values and gradients with the formulas."""
        if not issubclass(answer, Elementwise):
            yield Finding(False, f"`{answer.__name__}` is not a subclass of `ex.Elementwise`.")
            return
        numbers = np.array([-3.0, -0.5, 0.25, 2.0])
        x = tensor(numbers, name="x")
        value = answer()(x)
        yield agree("Values", evaluate(value), numbers / (1 + np.abs(numbers)))
        yield from laws_of(answer)
        slope = evaluate(grad((3 * value).sum(), x))
        yield agree("Gradients of 3 · f", slope, 3 / (1 + np.abs(numbers)) ** 2)


class ProductOfPowers(Exercise):
    """Write a rule for exp(x) · exp(y): it is exp(x + y), one exponential less. Another factor, as in exp(x) · y, is
    left alone. The rule takes part in every plan from its cell on; `.remove()` takes it out again.
    """

    number = "15.2"
    title = "A rule that saves an exponential"
    level = 2
    answer = "the rule's class"
    accepts = (type,)
    hints = (
        '`roots = (ex.operation("multiply"),)` asks the rule at each product.',
        "`for operand in graph.operands(node)`: both must have the operation `exp`; return None for anything else.",
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
        """Plan the product, and one that the rule must leave alone."""
        if not issubclass(answer, Rule):
            yield Finding(False, f"`{answer.__name__}` is not a subclass of `ex.Rule`.")
            return
        x, y = tensor([1.0, -2.0], name="x"), tensor([0.5, 3.0], name="y")
        product = record("exp", x) * record("exp", y)
        recording = planned(product)
        count = operations(recording).count("exp")
        yield Finding(count == 1, f"Exponentials in the plan: {count}; the kernels: {kernel_names(recording)}.")
        yield agree("Values", evaluate(product), np.exp([1.5, 1.0]))
        for text, other in (
            ("exp(x) · y", record("exp", x) * y),
            ("tanh(y) · exp(x)", record("tanh", y) * record("exp", x)),
        ):
            left_alone = planned(other)
            multiplied = "multiply" in operations(left_alone)
            yield Finding(multiplied, f"{text} has the kernels {kernel_names(left_alone)}.")


class Doubled(Exercise):
    """Write a pass that finds operations with one value in two places, such as `x * x` and `y + y`, and enters one
    decision about all of them, with the fact `count`. A program without any gets no decision.
    """

    number = "15.3"
    title = "A pass that looks for something"
    level = 2
    answer = "the class of the pass"
    accepts = (type,)
    hints = (
        "`graph.live` has the nodes, `graph.operands(node)` their operands: which of them have fewer different ones"
        " than places?",
        'As in `CountAbs`: `graph.decide(self, self.reason, {"count": len(nodes)}, nodes)`, if there are any.',
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
        """Plan a program with two such operations, and one without."""
        if not issubclass(answer, Pass):
            yield Finding(False, f"`{answer.__name__}` is not a subclass of `ex.Pass`.")
            return
        x, y = tensor([1.0, 2.0], name="x"), tensor([3.0, 4.0], name="y")
        passes = [answer(), *default_passes()]
        for text, value, count in (("x * x + (y + y)", x * x + (y + y), 2), ("x * y", x * y, 0)):
            recording = planned(value, passes=passes)
            own = [d for d in recording.decisions if d.rule == answer.__name__]
            said = sentences(recording, own) or "no decision"
            counted = sum(int(d.facts.get("count", 0)) for d in own)
            subjects = sum(len(d.subjects) for d in own)
            yield Finding(counted == subjects == count and len(own) == (count > 0), f"`{text}`: {said}")


class LargestFirst(Exercise):
    """Write an executor, a function of a program and an observer: of the chains that are ready, the one with the most
    flops runs next. Hand in the function.
    """

    number = "15.4"
    title = "An executor with a preference"
    level = 3
    answer = "the function"
    accepts = (FunctionType,)
    hints = (
        "`run_last_ready` changes in one line: which of the `ready` chains is taken out.",
        "The kernels of a chain are `program.chains.kernels[chain]`, by number, and"
        " `program.planned.schedule.kernels[number].cost.flops` are the flops of one.",
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
        """Run three chains of different sizes, and a program whose last kernel reads all of them."""
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
            ran += [plan.recording.nodes.flops[n] for n in kernel.nodes if plan.recording.nodes.label[n] == "matmul"]
        yield Finding(ran == sorted(ran, reverse=True), f"Flops of the products, as they ran: {ran}.")
        yield agree("The value", handle.data(), evaluate(record("add_n", *parts)))


class Intensity(Exercise):
    """How much is computed for each byte that is written? Write the function of a heat metric: of a recording and a
    node, its flops divided by the bytes of its result, and 0 where nothing is written. Hand in the function.
    """

    number = "15.5"
    title = "A heat metric"
    level = 1
    answer = "the function"
    accepts = (FunctionType,)
    hints = (
        "`recording.nodes.flops[node]` and `recording.nodes.bytes[node]` are the two numbers.",
        "A view writes nothing: its bytes are 0, and a division by 0 is an error.",
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
        """Ask the function for each operation of a program with a view."""
        x = tensor(np.ones((8, 4)), name="x")
        recording = planned(record("tanh", x @ x.T + 1).T)
        measured: Any = answer
        for node in dict.fromkeys(node for kernel in kernels(recording) for node in kernel.nodes):
            size, flops = recording.nodes.bytes[node], recording.nodes.flops[node]
            expected = flops / size if size else 0
            value = measured(recording, node)
            yield Finding(
                abs(value - expected) < 1e-9,
                f"`{recording.label(node)}`, {flops} flops, {size} bytes: {value:.3g} for each byte.",
            )
