"""Exercises of notebook 18: write the pass yourself."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import accumulate
from operator import matmul
from typing import Any, ClassVar

import numpy as np

from explorer.core.ir.expr import Expr
from explorer.core.ir.tensor import tensor
from explorer.course.exercise_base import Exercise, Finding
from explorer.course.recording_facts import agree, kernel_names, kernels, operations, planned, record
from explorer.plan import Pass, Reason, default_passes, passes
from explorer.record import Recording
from explorer.run import evaluate

DEDUP = '''
from dataclasses import dataclass

import explorer as ex


@dataclass(frozen=True)
class MyDedup(ex.Pass):
    """Compute equal expressions once."""

    name = "my_dedup"
    equal = ex.Reason("equal", "`{node}` applies the same operation to the same operands as `{first}`.")

    def run(self, graph):
        first_of = {}
        for node in graph.live:
            operands = [operand.uid for operand in graph.operands(node)]
            {key}
            first = first_of.setdefault(key, node)
            if first is not node:
                decision = graph.decide(self, self.equal, {"node": node, "first": first}, [node], (first,))
                graph.substitute(decision, node, first)


answer = MyDedup
'''


def pipeline(replaced: type[Pass], by: type[Pass]) -> list[Any]:
    """Return the passes of a plan, with one class of pass replaced and its repetitions removed."""
    return [by() if type(step) is replaced else step for step in default_passes() if _repeated(step) is not replaced]


def _repeated(step: Any) -> type | None:
    return type(step.repeated) if hasattr(step, "repeated") else None


def _planned(replaced: type[Pass], by: type[Pass], *expressions: Expr) -> Recording:
    return planned(*expressions, passes=pipeline(replaced, by))


def _is_pass(answer: type, base: type[Pass] = Pass, method: str = "run") -> Iterator[Finding]:
    """Yield a finding if a class is not a pass, or inherits the method that it must define."""
    if not issubclass(answer, base):
        name = "ex.Pass" if base is Pass else f"ex.passes.{base.__name__}"
        yield Finding(False, f"`{answer.__name__}` is not a subclass of `{name}`.")
    elif getattr(answer, method).__module__.startswith("explorer."):
        yield Finding(False, f"`{answer.__name__}` inherits `{method}` from Explorer's pass; write it yourself.")


def _keeps_sums_apart(answer: type[Pass]) -> Finding:
    """Return a finding on whether a dedup keeps operations with different attributes apart."""
    x = tensor([[1.0, 2.0], [3.0, 5.0]], name="x")
    value = evaluate(x.sum(axis=0) - x.sum(axis=1), passes=pipeline(passes.Dedup, answer))
    return agree("x.sum(axis=0) − x.sum(axis=1), with sums over different axes", value, [1.0, -1.0])


class EqualConstants(Exercise):
    """In `2 * x + 2 * y`, with `x` and `y` of one shape, the constant 2 appears twice. The dedup of the notebook keeps
    both, because each node without operands has a separate key. Merge equal constants, but not different tensors. The
    operation of a constant is `full`, and equal operations are the same object.
    """

    number = "18.1"
    title = "Constants are equal, too"
    level = 1
    answer = "the class of the pass"
    accepts = (type,)
    hints = (
        "Change only the key of nodes without operands.",
        'The operation of a constant is a good key: `node.operation if node.operation.name == "full" else node.uid`.',
    )
    source = DEDUP.replace(
        "{key}",
        'leaf = node.operation if node.operation.name == "full" else node.uid\n'
        "            key = (node.operation, *operands) if operands else leaf",
    )
    mistakes = (
        ('leaf = node.operation if node.operation.name == "full" else node.uid', "leaf = node.uid"),
        ('leaf = node.operation if node.operation.name == "full" else node.uid', "leaf = node.operation.name"),
        ("(node.operation, *operands)", "(node.operation.name, *operands)"),
    )

    def findings(self, answer: type) -> Iterator[Finding]:
        """Check the number of constants, and the values."""
        yield from (wrong := [*_is_pass(answer)])
        if wrong:
            return
        x, y = tensor([[1.0, -2.0]], name="x"), tensor([[3.0, 0.5]], name="y")
        expression = 2 * x + 2 * y
        recording = _planned(passes.Dedup, answer, expression)
        constants = [n for n in recording.visible(recording.end) if recording.label(n) == "2"]
        yield Finding(len(constants) == 1, f"Nodes with the constant 2 in `2 * x + 2 * y`: {len(constants)}.")
        yield agree("Values", evaluate(expression, passes=pipeline(passes.Dedup, answer)), [[8.0, -3.0]])
        yield _keeps_sums_apart(answer)


class TooFewFacts(Exercise):
    """A friend's dedup uses the key `(node.operation.name, *operands)`, which is wrong for some programs. Hand in an
    expression that has a wrong value if it is planned with this pass.
    """

    number = "18.2"
    title = "A key that is too short"
    level = 2
    answer = "an expression"
    accepts = (Expr,)
    hints = (
        "The name does not fully describe an operation: `ex.operation('sum')` has attributes.",
        "Two sums over different axes have the same name and operand.",
    )
    source = """
import numpy as np
import explorer as ex

x = ex.tensor(np.array([[1.0, 2.0], [3.0, 5.0]]), name="x")
answer = x.sum(axis=0) - x.sum(axis=1)
"""
    mistakes = (("x.sum(axis=1)", "x.sum(axis=0)"), ("x.sum(axis=1)", "x.mean(axis=1)"))

    def findings(self, answer: Expr) -> Iterator[Finding]:
        """Compare the value with the friend's pass and the value without any dedup."""
        right = np.asarray(evaluate(answer, without=["dedup"]))
        recording = _planned(passes.Dedup, _ShortKeys, answer)
        merged = [recording.reason(d) for d in recording.decisions if d.rule == "_ShortKeys"]
        yield Finding(bool(merged), " ".join(merged) or "The friend's pass merges nothing in this expression.")
        try:
            wrong = np.asarray(evaluate(answer, passes=pipeline(passes.Dedup, _ShortKeys)))
        except Exception as error:  # the merged values may have different shapes, so that the program is invalid
            yield Finding(True, f"With the friend's pass the program cannot run: {type(error).__name__}.")
            return
        differs = wrong.shape != right.shape or not np.array_equal(wrong, right, equal_nan=True)
        yield Finding(differs, f"With the friend's pass the value is {wrong.tolist()}, without it {right.tolist()}.")


@dataclass(frozen=True)
class _ShortKeys(Pass):
    """Compute operations with the same name and operands once."""

    name = "short_keys"
    merged: ClassVar[Reason] = Reason("merged", "`{node}` is taken for `{first}`.")

    def run(self, graph: Any) -> None:
        """Merge nodes whose operations have the same name."""
        first_of: dict[Any, Expr] = {}
        for node in graph.live:
            operands = graph.operands(node)
            key = (node.operation.name, *[operand.uid for operand in operands]) if operands else node.uid
            first = first_of.setdefault(key, node)
            if first is not node:
                decision = graph.decide(self, self.merged, {"node": node, "first": first}, [node], (first,))
                graph.substitute(decision, node, first)


class OtherOrder(Exercise):
    """`a + b` and `b + a` have the same bits; `a - b` and `b - a` do not. Extend the dedup so that it merges the first
    pair and not the second. `node.operation.commutative` is true if the operands may be swapped.
    """

    number = "18.3"
    title = "Operands in the other order"
    level = 2
    answer = "the class of the pass"
    accepts = (type,)
    hints = (
        "Two nodes get the same key if you put their operands in a fixed order.",
        "Before you make the key, use `if node.operation.commutative: operands.sort()`.",
    )
    source = DEDUP.replace(
        "            {key}",
        "            if node.operation.commutative:\n                operands.sort()\n"
        "            key = (node.operation, *operands) if operands else node.uid",
    )
    mistakes = (("if node.operation.commutative:", "if operands:"), ("operands.sort()", "operands.reverse()"))

    def findings(self, answer: type) -> Iterator[Finding]:
        """Check how many operations of both pairs are computed, and the values."""
        yield from (wrong := [*_is_pass(answer)])
        if wrong:
            return
        a, b = tensor([1.0, 2.0], name="a"), tensor([5.0, -3.0], name="b")
        sums = operations(_planned(passes.Dedup, answer, (a + b) * record("tanh", b + a))).count("add")
        yield Finding(sums == 1, f"Additions of `a + b` and `b + a` in the plan: {sums}.")
        differences = operations(_planned(passes.Dedup, answer, (a - b) * record("tanh", b - a))).count("subtract")
        yield Finding(differences == 2, f"Subtractions of `a - b` and `b - a` in the plan: {differences}.")
        expression = (a - b) * (b - a)
        yield agree("(a − b)·(b − a)", evaluate(expression, passes=pipeline(passes.Dedup, answer)), [-16.0, -25.0])
        yield _keeps_sums_apart(answer)


class LeastMemory(Exercise):
    """A program computes eight products of 100×100, each from the one before, and adds up their maxima.
    `MyOrder` computes all products before the first maximum, so that eight of them are live at a time. Write `sequence`
    of an `ex.passes.Order` so that at most two are live.
    """

    number = "18.4"
    title = "An order that saves memory"
    level = 2
    answer = "the class of the pass"
    accepts = (type,)
    hints = (
        "Run the ready kernel with the smallest result next.",
        "`kernels[number].result.type.nbytes` is the size of a kernel's result.",
    )
    source = '''
from dataclasses import dataclass

import explorer as ex


@dataclass(frozen=True)
class SmallestFirst(ex.passes.Order):
    """Of the kernels that are ready, run the one with the smallest result."""

    def sequence(self, kernels, producers):
        needs = [len(before) for before in producers]
        ready = [kernel for kernel, count in enumerate(needs) if not count]
        order = []
        while ready:
            order.append(min(ready, key=lambda number: kernels[number].result.type.nbytes))
            ready.remove(order[-1])
            for reader, before in enumerate(producers):
                if order[-1] in before:
                    needs[reader] -= before.count(order[-1])
                    if not needs[reader]:
                        ready.append(reader)
        return order


answer = SmallestFirst
'''
    mistakes = (("min(ready", "max(ready"), ("return order", "return order[::-1]"))

    def findings(self, answer: type) -> Iterator[Finding]:
        """Check how many products are live at a time."""
        yield from (wrong := [*_is_pass(answer, passes.Order, "sequence")])
        if wrong:
            return
        matrix = tensor(np.full((100, 100), 0.01), name="W")
        products = [*accumulate([matrix] * 9, matmul)]
        total = record("add_n", *[record("max", product) for product in products[1:]])
        recording = planned(total, passes=pipeline(passes.Order, answer), without=["fuse", "batch"])
        alive, most = set[int](), 0
        for kernel in kernels(recording):
            alive |= {node for node in kernel.nodes if recording.nodes.label[node] == "matmul"}
            most = max(most, len(alive))
            alive -= set(kernel.frees)
        yield Finding(most <= 2, f"Products that are live at a time: {most}.")
        yield Finding(len(kernels(recording)) > 8, f"The kernels are {kernel_names(recording)}.")


class WithProduct(Exercise):
    """Extend the fusion of the notebook so that elementwise operations can also join a matrix product: then
    `ex.tanh(x @ W + b)` is one kernel. For a product, `node.operation.is_tileable` is true. A kernel must not contain
    two products: in `x @ W + x @ V`, one of them stays separate.
    """

    number = "18.5"
    title = "An epilogue"
    level = 3
    answer = "the class of the pass"
    accepts = (type,)
    hints = (
        "For a product, put `[node]` into `groups` without looking at its operands.",
        "Add the group of an operand unless both the group and the current members contain a product:"
        " `any(member.operation.is_tileable for member in members)`.",
    )
    source = '''
from dataclasses import dataclass

import explorer as ex


def has_product(members):
    return any(member.operation.is_tileable for member in members)


@dataclass(frozen=True)
class MyFusion(ex.Pass):
    """Compute elementwise operations in one loop, with the product before them."""

    name = "my_fusion"
    joined = ex.Reason("joined", "{count:operation} run in one loop.")

    def run(self, graph):
        groups = {}
        for node in graph.live:
            members = [node]
            if node.operation.elementwise:
                for operand in graph.operands(node):
                    alone = graph.consumers(operand) == 1 and operand.shape == node.shape
                    other = groups.get(operand.uid, [])
                    if other and alone and not (has_product(other) and has_product(members)):
                        members = groups.pop(operand.uid) + members
            elif not node.operation.is_tileable:
                continue
            groups[node.uid] = members
        for members in groups.values():
            if len(members) > 1:
                graph.fuse(graph.decide(self, self.joined, {"count": len(members)}, members), members)


answer = MyFusion
'''
    mistakes = (
        ("elif not node.operation.is_tileable:", "else:"),
        (" and not (has_product(other) and has_product(members))", ""),
    )

    def findings(self, answer: type) -> Iterator[Finding]:
        """Check the kernels with one product and with two, and the values."""
        yield from (wrong := [*_is_pass(answer)])
        if wrong:
            return
        random = np.random.default_rng(0)
        arrays = [random.normal(size=shape) for shape in ((4, 6), (6, 5), (6, 5))]
        x, weight, other = (tensor(array, name=name) for array, name in zip(arrays, "xWV", strict=True))
        expression = record("tanh", x @ weight + 1)
        one_product = _planned(passes.Fuse, answer, expression)
        yield Finding(len(kernels(one_product)) == 1, f"`tanh(x @ W + 1)` has the kernels {kernel_names(one_product)}.")
        two_products = _planned(passes.Fuse, answer, x @ weight + x @ other)
        products = max(
            sum(two_products.nodes.label[n] == "matmul" for n in kernel.nodes) for kernel in kernels(two_products)
        )
        yield Finding(products == 1, f"`x @ W + x @ V` has the kernels {kernel_names(two_products)}.")
        value = evaluate(expression, passes=pipeline(passes.Fuse, answer))
        yield agree("Values", value, np.tanh(arrays[0] @ arrays[1] + 1))
