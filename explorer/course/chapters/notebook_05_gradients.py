"""Exercises of notebook 05: gradients."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from types import FunctionType
from typing import Any

import numpy as np

from explorer.core.ir.tensor import tensor
from explorer.core.registry import functions
from explorer.course.exercise_base import Exercise, Finding
from explorer.course.recording_facts import agree, decisions, kernel_names, kernels, operations, planned, record
from explorer.gradients import grad
from explorer.run import evaluate


class ChainRule(Exercise):
    """Differentiate `ex.square(ex.tanh(x * w)).sum()`, with a vector `x` and a number `w`, with respect to `w` by the
    chain rule: write a function `slope(x, w)` that returns the gradient as an expression and does not call `ex.grad`.
    """

    number = "05.1"
    title = "The chain rule, by hand"
    level = 2
    answer = "the function"
    accepts = (FunctionType,)
    hints = (
        "There are three nodes: u = x·w, h = tanh u, and h². Their derivatives, from the outside in, are 2h, 1 − h²"
        " and x.",
        "`w` is used for every element of `x`, so you must sum the products.",
    )
    source = """
import explorer as ex


def slope(x, w):
    h = ex.tanh(x * w)
    return (2 * h * (1 - ex.square(h)) * x).sum()


answer = slope
"""
    mistakes = (
        (" * x)", ")"),
        ("(1 - ex.square(h))", "(1 - h)"),
        ("(2 * h * (1 - ex.square(h)) * x).sum()", "ex.grad(ex.square(h).sum(), w)"),
    )

    def findings(self, answer: Callable[..., Any]) -> Iterator[Finding]:
        """Compare the values with `ex.grad`, and report the nodes that dedup merges."""
        x, w = tensor(np.linspace(-1, 1, 5), name="x"), tensor(0.5, name="w")
        loss = record("square", record("tanh", x * w)).sum()
        own, built = answer(x, w), grad(loss, w)
        yield agree("Your gradient, compared with `ex.grad`", evaluate(own), evaluate(built))
        combined, alone = planned(loss, own, built), planned(loss, built)
        called = bool(planned(loss, own).gradients)
        yield Finding(not called, f"Your function {'calls' if called else 'does not call'} `ex.grad`.")
        count, without = len(operations(combined)), len(operations(alone))
        merged = decisions(combined, "merged", "applied")
        yield Finding(
            operations(combined).count("tanh") == 1,
            f"Planned with the loss and its gradient, yours adds {count - without} operations to {without}, because"
            " dedup"
            f" merges {sum(len(decision.subjects) for decision in merged)} nodes, including tanh.",
        )


class ThirdDerivative(Exercise):
    """A gradient has a gradient. With `ex.grad`, write `third(f, x)`, the third derivative of `f` at each element of a
    tensor `x`; `f` is a function of one expression, such as `ex.sin`.
    """

    number = "05.2"
    title = "A gradient of a gradient of a gradient"
    level = 2
    answer = "the function"
    accepts = (FunctionType,)
    hints = (
        "`ex.grad` needs one number: take the sum of all elements. Each element of `x` affects only one of its terms.",
        "`ex.grad(f(x).sum(), x)` is the first derivative; differentiate its sum, and repeat.",
    )
    source = """
import explorer as ex


def third(f, x):
    value = f(x)
    for _ in range(3):
        value = ex.grad(value.sum(), x)
    return value


answer = third
"""
    mistakes = (("range(3)", "range(2)"), ("f(x)\n", "ex.sin(x)\n"))

    def findings(self, answer: Callable[..., Any]) -> Iterator[Finding]:
        """Compare with −cos x and 24 x, and report the kernels."""
        numbers = np.array([-1.0, 0.0, 0.5, 2.0])
        x = tensor(numbers, name="x")
        expression = answer(functions.find("sin"), x)
        yield agree("The third derivative of sin is −cos", evaluate(expression), -np.cos(numbers))
        yield agree("The third derivative of x⁴ is 24 x", evaluate(answer(lambda u: u**4, x)), 24 * numbers)
        yield Finding(True, f"For sin, the kernels after planning are {kernel_names(planned(expression))}.")


class NothingSaved(Exercise):
    """The gradient of `ex.tanh(x).sum()` needs the result of tanh, which must be saved until then. Write a function of
    `x` with operations before the sum whose gradient with respect to `x` needs no value that depends on `x`.
    """

    number = "05.3"
    title = "What need not be saved"
    level = 2
    answer = "the function"
    accepts = (FunctionType,)
    hints = (
        "The derivative of each operation must be the same for every `x`: which operations have a straight line as"
        " their graph?",
        "For example, use `3 * x + 1`.",
    )
    source = """
import explorer as ex


def loss(x):
    return (3 * x + 1).sum()


answer = loss
"""
    mistakes = (("3 * x + 1", "ex.square(x) + 1"), ("3 * x + 1", "ex.relu(x) + 1"), ("(3 * x + 1)", "x"))

    def findings(self, answer: Callable[..., Any]) -> Iterator[Finding]:
        """Check which values the recording saves for the gradient."""
        x = tensor(np.linspace(-1, 1, 12).reshape(3, 4), name="x")
        loss = answer(x)
        recording = planned(loss, grad(loss, x))
        differentiated = [recording.label(row.node) for row in recording.gradients]
        yield Finding(
            len(differentiated) > 1,
            f"Differentiated operations: {', '.join(differentiated) or 'none'}; there must be at least two.",
        )
        kept = {node for row in recording.gradients for node in row.saved if recording.nodes.kind[node] != "constant"}
        saved = ", ".join(sorted(recording.label(node) for node in kept))
        slope = np.ravel(evaluate(grad(loss, x)))[:3]
        yield Finding(
            not saved,
            f"Saved for the gradient: {saved}."
            if saved
            else f"Only constants are saved: the gradient begins with {np.round(slope, 4).tolist()} for every x.",
        )


class Jacobian(Exercise):
    """`ex.grad` differentiates one number. Write `jacobian(y, x)` for two expressions that are vectors: it returns the
    matrix whose row i is the gradient of element i of `y` with respect to `x`.
    """

    number = "05.4"
    title = "A gradient for each element"
    level = 3
    answer = "the function"
    accepts = (FunctionType,)
    hints = (
        "A `seed` with 1 at element i and 0 elsewhere picks element i.",
        "The rows of `np.eye(n)` are such seeds, and `ex.stack` combines rows into a matrix.",
    )
    source = """
import numpy as np
import explorer as ex


def jacobian(y, x):
    return ex.stack([ex.grad(y, x, seed=row) for row in np.eye(y.shape[0])])


answer = jacobian
"""
    mistakes = (
        ("seed=row", "seed=np.ones(y.shape[0])"),
        ("for row in np.eye(y.shape[0])])", "for row in np.eye(y.shape[0])], axis=1)"),
    )

    def findings(self, answer: Callable[..., Any]) -> Iterator[Finding]:
        """Compare with finite differences, and count how often tanh is computed."""
        rng = np.random.default_rng(0)
        weight, at = rng.normal(size=(4, 3)), rng.normal(size=4)
        x = tensor(at, name="x")
        matrix = answer(record("tanh", x @ tensor(weight)), x)
        steps = [(np.tanh((at + step) @ weight) - np.tanh((at - step) @ weight)) / 2e-5 for step in np.eye(4) * 1e-5]
        yield agree(
            "tanh(x @ W), from 4 numbers to 3, compared with finite differences",
            evaluate(matrix),
            np.stack(steps, axis=1),
        )
        count = operations(planned(matrix)).count("tanh")
        yield Finding(
            count == 1,
            f"The gradients are recorded one by one; the plan computes tanh {count} time{'' if count == 1 else 's'}.",
        )


class NewtonStep(Exercise):
    """Newton's method finds a minimum with two derivatives: one step goes from `x` to x − f′(x) / f″(x). Write
    `step(f, x)`, with both derivatives from `ex.grad`; `f` takes an expression and returns one.
    """

    number = "05.5"
    title = "Two derivatives in one step"
    level = 2
    answer = "the function"
    accepts = (FunctionType,)
    hints = (
        "`first = ex.grad(f(x), x)` is an expression, so it has a gradient, too.",
        "Return `x - first / ex.grad(first, x)`.",
    )
    source = """
import explorer as ex


def step(f, x):
    first = ex.grad(f(x), x)
    return x - first / ex.grad(first, x)


answer = step
"""
    mistakes = (("ex.grad(first, x)", "first"), ("x - first", "x + first"))

    def findings(self, answer: Callable[..., Any]) -> Iterator[Finding]:
        """Check one step on a parabola and five steps on a curve."""
        x = tensor(7.0, name="x")
        once = evaluate(answer(lambda u: (u - 3) ** 2 + 1, x))
        yield agree("On a parabola, one step from 7 ends at the minimum, 3", once, 3.0)
        at = x = tensor(1.0, name="x")
        for _ in range(5):
            at = answer(lambda u: record("exp", u) - 2 * u, at)
        yield agree("On exp(x) − 2x, five steps from 1 end at log 2", evaluate(at), np.log(2.0))
        recording = planned(at)
        yield Finding(
            True,
            f"One plan for five steps has {len(operations(recording))} operations in {len(kernels(recording))}"
            " kernels.",
        )
