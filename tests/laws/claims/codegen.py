"""Checks of the pass that chooses compiled kernels."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from explorer.core.ir.accumulation import pack_for_tiles, tiles_of
from explorer.core.ir.expr import Expr
from explorer.ops.base import Elementwise
from explorer.ops.control.scan import Scan
from explorer.ops.linalg.matmul import Matmul
from explorer.ops.nn.conv import Conv2d
from explorer.ops.reduction.reduce import Extreme
from explorer.ops.reduction.sorting import CumulativeSum
from explorer.plan.codegen.elements import FUNCTIONS, has_expression
from explorer.plan.codegen.windows import combines_windows
from explorer.plan.graph.reasons import Facts
from explorer.plan.passes.codegen import Codegen
from explorer.plan.passes.join_rows import JoinRows
from explorer.plan.schedule.schedule import Kernel
from tests.laws.claims.decisions import Claim, of_decision

PLAIN = {np.dtype(np.float32), np.dtype(np.float64), np.dtype(np.bool_)}
MOST = 1000


def kernel_of(claim: Claim) -> Kernel:
    """Return the kernel of a decision's subjects; it has code exactly if the decision was applied."""
    kernel = next(k for k in claim.planned.schedule.kernels if k.result is claim.subjects[-1])
    assert [node.uid for node in kernel.nodes] == [node.uid for node in claim.subjects]
    assert bool(kernel.functions) is claim.choice.applied
    return kernel


def in_loop(kernel: Kernel) -> tuple[Expr, ...]:
    """Return the nodes of a kernel that one loop can compute: those after a product, a convolution or a pooling."""
    return kernel.nodes[1:] if kernel.nodes[0].operation.is_tileable else kernel.nodes


def is_one_call(node: Expr) -> bool:
    """Return whether NumPy computes an operation by one of its fast functions."""
    return isinstance(node.operation, Elementwise) and node.operation.numpy_calls == 1


def numpy_and_c(nodes: Iterable[Expr], inputs: Mapping[int, Sequence[Expr]], call: float, steps: int = 1) -> Facts:
    """Return the estimated times of loops: in NumPy 0.9 µs for each function, in C ``call`` µs."""
    numpy = total = 0.0
    for node in nodes:
        types = [operand.tensor_type for operand in inputs[node.uid]]
        flops = node.operation.flops(node.type, *types)
        weight = flops // max(node.tensor_type.size, 1)
        if node.operation.c_rows:
            functions = len(node.operation.c_rows)
        elif isinstance(node.operation, Elementwise) and node.operation.numpy_calls:
            functions = node.operation.numpy_calls
        else:
            functions = max(weight // 3 if isinstance(node.operation, Elementwise) else weight, 1)
        loop = max([type_.size for type_ in (node.tensor_type, *types)])
        numpy += int(functions) * 0.9 + functions * loop / 2500 + flops / 18_000 if flops else 0.0
        total += flops
    return {"numpy_us": steps * numpy, "compiled_us": call + steps * total / 18_000}


def estimates(kernel: Kernel, nodes: Sequence[Expr], inputs: Mapping[int, Sequence[Expr]], call: float) -> Facts:
    """Return the estimated times of a kernel; C code of a single operation reads and writes the same memory once."""
    facts = numpy_and_c(nodes, inputs, call)
    if len(kernel.nodes) == 1 and kernel.result.operation.elementwise and facts["numpy_us"]:
        size = max([each.tensor_type.size for each in (kernel.result, *inputs[kernel.result.uid])])
        facts = {**facts, "numpy_us": facts["numpy_us"] - size / 2500}
    return facts


def price_of(claim: Claim, kernel: Kernel) -> Facts:
    """Return the estimated times of a kernel, of a product only those of the operations after it."""
    inputs = claim.planned.graph.inputs
    is_window = combines_windows(kernel.nodes[0], inputs[kernel.nodes[0].uid])
    nodes = kernel.nodes if is_window else in_loop(kernel)
    facts = estimates(kernel, nodes, inputs, 3.4)
    others = [each for each in claim.planned.schedule.kernels if each is not kernel and each.functions]
    if others and facts["numpy_us"] <= facts["compiled_us"]:
        facts = estimates(kernel, nodes, inputs, 1.0)
    assert (facts["compiled_us"] < facts["numpy_us"]) is claim.choice.applied
    return facts


@of_decision(Codegen.compiled)
def compiled(claim: Claim) -> Facts:
    kernel = kernel_of(claim)
    assert kernel.code is not None
    assert len(kernel.code.lines) == len(kernel.nodes)
    for node in kernel.nodes:
        assert isinstance(node.operation, CumulativeSum) or (
            isinstance(node.operation, Elementwise) and has_expression(node.operation)
        )
    return {
        "result": kernel.result,
        "function": kernel.code.name,
        "count": len(kernel.nodes),
        "elements": kernel.result.tensor_type.size,
        **price_of(claim, kernel),
    }


@of_decision(Codegen.steps)
def steps(claim: Claim) -> Facts:
    kernel = kernel_of(claim)
    assert kernel.steps is not None
    scan = kernel.result.operation
    assert isinstance(scan, Scan)
    computed = {node.uid for function in kernel.functions for _, node in function.lines}
    operations = [node for node in kernel.steps.body.nodes if node.operation.elementwise]
    assert {node.uid for node in operations} <= computed
    names = " and ".join([function.name for function in kernel.functions])
    products = sum(isinstance(node.operation, Matmul) for node in kernel.steps.body.nodes)
    times = numpy_and_c(operations, kernel.steps.body.inputs, 3.4 + 0.9 * scan.length * products, scan.length)
    return {"result": kernel.result, "functions": names, "count": len(operations), "steps": scan.length, **times}


@of_decision(Codegen.windows)
def windows(claim: Claim) -> Facts:
    kernel = kernel_of(claim)
    assert kernel.code is not None
    computed = dict.fromkeys([node.uid for _, node in kernel.code.lines])  # a maximum has two lines
    assert [*computed] == [node.uid for node in kernel.nodes]
    assert not kernel.nodes[0].operation.elementwise
    facts = {"function": kernel.code.name, "count": len(kernel.nodes), "elements": kernel.result.size}
    return {"result": kernel.result, **facts, **price_of(claim, kernel)}


@of_decision(Codegen.epilogue)
def epilogue(claim: Claim) -> Facts:
    kernel = kernel_of(claim)
    product, *others = kernel.nodes
    assert kernel.code is not None
    assert product.operation.is_tileable
    assert [node.uid for _, node in kernel.code.lines] == [node.uid for node in others]
    facts = {"function": kernel.code.name, "count": len(others), "elements": kernel.result.size}
    return {"result": kernel.result, "product": product, **facts, **price_of(claim, kernel)}


@of_decision(Codegen.large_window)
def large_window(claim: Claim) -> Facts:
    kernel = kernel_of(claim)
    first = kernel.nodes[0]
    h, w = claim.planned.graph.inputs[first.uid][1].shape[2:]
    assert h * w > 64
    return {"result": kernel.result, "operation": first.operation.label, "count": h * w, "most": 64}


@of_decision(Codegen.long_run)
def long_run(claim: Claim) -> Facts:
    kernel = kernel_of(claim)
    first = kernel.nodes[0]
    columns = claim.planned.graph.inputs[first.uid][0].shape[3]
    assert not kernel.channels_last
    assert columns > 1 << 15  # a row of 2×2 windows with stride 2 covers 2×2 phases of half the columns
    facts = {"count": 2 * columns, "along": "pixels under a row of windows", "most": 1 << 15}
    return {"result": kernel.result, "operation": first.operation.label, **facts}


@of_decision(Codegen.memory_order)
def memory_order(claim: Claim) -> Facts:
    kernel = kernel_of(claim)
    first = kernel.nodes[0]
    images, *filters = claim.planned.graph.inputs[first.uid]
    assert all(each.shape[1] == 1 for each in filters)
    by_pixel = {each.result.uid for each in claim.planned.schedule.kernels if each.channels_last}
    assert kernel.channels_last is not (images.uid in by_pixel)
    written, read = [
        "pixel by pixel" if each.uid in by_pixel else "channel by channel" for each in (kernel.result, images)
    ]
    facts = {"operand": images, "written": written, "read": read}
    return {"result": kernel.result, "operation": first.operation.label, **facts}


@of_decision(Codegen.product)
def product(claim: Claim) -> Facts:
    kernel = kernel_of(claim)
    first = kernel.nodes[0]
    assert isinstance(first.operation, Matmul | Conv2d)
    assert all(node.operation.elementwise for node in kernel.nodes[1:])
    assert kernel.code is not None
    assert "product" in kernel.code.text
    # all sums are written once
    sums = [line for line in kernel.code.text.splitlines() if "= sums[" in line]
    assert len(sums) == 1
    return {
        "result": kernel.result,
        "product": first,
        "function": kernel.code.name,
        "count": len(kernel.nodes),
        "elements": kernel.result.size,
    }


@of_decision(Codegen.spaced_pixels)
def spaced_pixels(claim: Claim) -> Facts:
    kernel = kernel_of(claim)
    product = kernel.nodes[0]
    array = np.zeros(product.shape, product.dtype)
    operands = [np.zeros(each.shape, each.dtype) for each in claim.planned.graph.inputs[product.uid]]
    tiles = tiles_of(product.operation, array, pack_for_tiles(product.operation, product.dtype, operands), operands)
    assert any(part.step not in (None, 1) for tile in tiles for part in tile[0])
    return {"result": kernel.result, "operation": product.operation.label}


def runs(axes: tuple[int, ...], operand: Expr) -> str:
    """Return runs of reduced (r) and kept (k) axes, from the outermost to the innermost."""
    letters = ["r" if axis in axes else "k" for axis, size in enumerate(operand.shape) if size > 1]
    return "".join([letter for letter, _ in itertools.groupby(letters)])


def compiled_reduction(claim: Claim) -> tuple[Kernel, Expr, tuple[int, ...]]:
    """Return a kernel whose code has a line for each node, and the operand and axes of its first reduction."""
    kernel = kernel_of(claim)
    assert kernel.code is not None
    assert {node.uid for _, node in kernel.code.lines} == {node.uid for node in kernel.nodes}
    reduction = next(node for node in kernel.nodes if not node.operation.elementwise)
    axes, (operand, *_) = reduction.operation.reduced_axes, claim.planned.graph.inputs[reduction.uid]
    assert axes is not None
    return kernel, operand, axes


def facts_of_reduction(kernel: Kernel, operand: Expr, length: int) -> Facts:
    """Return the facts of a kernel whose rows, or columns, have ``length`` elements."""
    assert kernel.code is not None
    return {
        "result": kernel.result,
        "function": kernel.code.name,
        "count": len(kernel.nodes),
        "length": length,
        "rows": operand.size // length,
    }


@of_decision(Codegen.compiled_rows)
def compiled_rows(claim: Claim) -> Facts:
    kernel, operand, axes = compiled_reduction(claim)
    assert runs(axes, operand) in ("r", "kr", "rkr")
    length = math.prod([operand.shape[axis] for axis in axes])
    return {**facts_of_reduction(kernel, operand, length), **price_of(claim, kernel)}


@of_decision(Codegen.compiled_columns)
def compiled_columns(claim: Claim) -> Facts:
    kernel, operand, axes = compiled_reduction(claim)
    assert runs(axes, operand) in ("rk", "krk")
    length = math.prod(operand.shape[axes[-1] + 1 :])
    assert length > 1
    return {**facts_of_reduction(kernel, operand, length), **price_of(claim, kernel)}


@of_decision(JoinRows.joined)
def joined(claim: Claim) -> Facts:
    kernel = next(k for k in claim.planned.schedule.kernels if k.result is claim.subjects[-1])
    inputs = claim.planned.graph.inputs
    assert [node.uid for node in kernel.nodes] == [node.uid for node in claim.subjects]
    reductions = [node for node in kernel.nodes if not node.operation.elementwise]
    (shape,) = {inputs[node.uid][0].shape for node in reductions}
    (axes,) = {node.operation.reduced_axes for node in reductions}
    assert axes is not None
    length = math.prod([shape[axis] for axis in axes])
    earlier = [group.members for group in claim.planned.graph.groups if group.kind == "kernel"]
    results = {members[-1].uid for members in earlier if {*members} < {*kernel.nodes}}
    fused = {node.uid for members in earlier if {*members} < {*kernel.nodes} for node in members}
    return {
        "operations": " · ".join(dict.fromkeys(node.operation.label for node in kernel.nodes)),
        "kernels": len(results) + sum(node.uid not in fused for node in kernel.nodes),
        "rows": math.prod(shape) // length,
        "length": length,
    }


@of_decision(Codegen.columns)
def columns(claim: Claim) -> Facts:
    kernel = kernel_of(claim)
    reduction = next(node for node in kernel.nodes if not node.operation.elementwise)
    axes, (operand, *_) = reduction.operation.reduced_axes, claim.planned.graph.inputs[reduction.uid]
    assert axes is not None
    assert runs(axes, operand) not in ("r", "kr", "rk", "krk", "rkr")
    return {"result": kernel.result, "operation": reduction.operation.label}


@of_decision(Codegen.no_expression)
def no_expression(claim: Claim) -> Facts:
    kernel = kernel_of(claim)
    elementwise = [node for node in in_loop(kernel) if node.operation.elementwise]
    first = next(node for node in elementwise if not getattr(node.operation, "c", ""))
    assert not isinstance(first.operation, Elementwise) or not has_expression(first.operation)
    return {"result": kernel.result, "operation": first.operation.label}


@of_decision(Codegen.dtype)
def dtype(claim: Claim) -> Facts:
    kernel = kernel_of(claim)
    for node in kernel.nodes:
        dtypes = [node.dtype, *[operand.dtype for operand in claim.planned.graph.inputs[node.uid]]]
        if other := [each for each in dtypes if each not in PLAIN]:
            return {"result": kernel.result, "operation": node.operation.label, "dtype": str(other[0])}
        assert len({*dtypes} - {np.dtype(np.bool_)}) == 1
    raise AssertionError("all operands are float32 or float64")


@of_decision(Codegen.function)
def function(claim: Claim) -> Facts:
    kernel = kernel_of(claim)
    defined = set(re.findall(r"(\w+)_f64\(", FUNCTIONS))
    for node in kernel.nodes:
        assert isinstance(node.operation, Elementwise)
        called = re.findall(r"(\w+)_f64\(", node.operation.c_expression("f64", "x", "y"))
        if node.dtype == np.float64 and not defined.issuperset(called):
            return {"result": kernel.result, "operation": node.operation.label, "dtype": "float64"}
    raise AssertionError("all functions are defined")


@of_decision(Codegen.single)
def single(claim: Claim) -> Facts:
    kernel = kernel_of(claim)
    (node,) = kernel.nodes
    assert isinstance(node.operation, Extreme) or is_one_call(node)
    return {"result": node}


@of_decision(Codegen.no_faster)
def no_faster(claim: Claim) -> Facts:
    kernel = kernel_of(claim)
    assert len(kernel.nodes) > 1 or not (isinstance(kernel.result.operation, Extreme) or is_one_call(kernel.result))
    return {"result": kernel.result, **price_of(claim, kernel)}


@of_decision(Codegen.many_operations)
def many_operations(claim: Claim) -> Facts:
    kernel = kernel_of(claim)
    assert len(kernel.nodes) > MOST
    return {"result": kernel.result, "count": len(kernel.nodes), "most": MOST}


@of_decision(Codegen.combines)
def combines(claim: Claim) -> Facts:
    kernel = kernel_of(claim)
    first = next(node for node in in_loop(kernel) if not node.operation.elementwise and not node.operation.c_rows)
    return {"result": kernel.result, "operation": first.operation.label}
