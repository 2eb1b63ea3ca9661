"""Cost model: estimated times of kernels in µs.

Plans are the same on every machine, because the times are computed from one reference table. The time of a kernel is
its start-up time, plus the time of its arithmetic or of its memory traffic, whichever is larger (the roofline model).
This crude model is sufficient, because alternatives differ by large factors: for example, whether a thousand small
kernels become one. `ex.calibrate` (run/calibrate.py) measures the same five figures on another
machine, for plans with ``costs="measured"``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from explorer.core.ir.expr import Expr
from explorer.core.ir.function import Body, Call, Item
from explorer.core.recursion_limit import one_deeper


@dataclass(frozen=True, slots=True)
class CostModel:
    """Performance figures of a machine; the defaults are for the reference machine (two cores, NumPy, float32)."""

    call: float = 0.9
    """µs to start one kernel, including reading its operands and NumPy's dispatch"""
    view: float = 0.35
    """µs to make a view"""
    flops: float = 2500.0
    """elementwise flops per µs"""
    product_flops: float = 50000.0
    """flops per µs inside a matrix product or convolution"""
    bandwidth: float = 9000.0
    """bytes per µs between a kernel and memory"""


REFERENCE_COST_MODEL = CostModel()
PRODUCTS = ("matmul", "conv2d", "winograd_conv2d", "conv2d_image_gradient", "conv2d_filter_gradient")
"""operations that reach ``product_flops``, because BLAS or an equally fast kernel computes them"""


def kernel_cost(
    node: Expr, operands: tuple[Expr, ...], cost_model: CostModel = REFERENCE_COST_MODEL, call: bool = True
) -> float:
    """Return the time in µs of ``node`` as its own kernel, or as a part of a fused kernel if ``call`` is false.

    ``operands`` are the current operands of the node in the graph; they may differ from the recorded operands.
    """
    operation = node.operation
    if not operands:
        return 0.0
    if operation.view:
        return cost_model.view
    if isinstance(operation, Call) and not operation.inlinable:
        return call_cost(operation, cost_model)
    # Count every operand as read from memory. Which operands are still cached depends on the order of kernels. This
    # order is chosen later, using these estimates.
    traffic = node.type.nbytes + sum([operand.type.nbytes for operand in operands])
    rate = cost_model.product_flops if operation.name in PRODUCTS else cost_model.flops
    work = operation.flops(node.type, *[operand.type for operand in operands]) / rate
    return (cost_model.call if call else 0.0) + max(work, traffic / cost_model.bandwidth)


def call_cost(operation: Call, cost_model: CostModel) -> float:
    """Return the time in µs of all iterations of a loop, or of the more expensive branch of a conditional."""
    # The branch is known only when the plan runs, so the estimate uses the more expensive branch.
    return operation.turns * max([body_cost(body, cost_model) for body in operation.planned_bodies])


def body_cost(body: Body, cost_model: CostModel) -> float:
    """Return the time in µs of ``body`` if its operations run as separate kernels.

    The time is cached in the body for each cost model. The body's ``derived`` caches everything that is computed once
    for a body. The cost model is part of the key, because plans with measured and with reference costs may share a
    body.
    """
    key = "cost", cost_model
    cached: float | None = body.derived.get(key)
    if cached is None:
        with one_deeper(f"a price of {body.name}"):
            cached = body.derived[key] = sum([_price_inside(node, cost_model) for node in body.nodes])
    return cached


def _price_inside(node: Expr, cost_model: CostModel) -> float:
    operation = node.operation
    if isinstance(operation, Item):
        return 0.0
    if isinstance(operation, Call) and operation.inlinable:
        return call_cost(operation, cost_model)
    return kernel_cost(node, node.operands, cost_model)


def split_cost(operand: Expr, reader: Expr, cost_model: CostModel = REFERENCE_COST_MODEL) -> float:
    """Return the time in µs that is saved if ``operand`` and ``reader``, which reads its result, run as one kernel.

    One kernel does not write and read the value between them, and overlaps arithmetic with the remaining memory
    traffic. Views between the operand and the reader are skipped.
    """
    while operand.operation.view and operand.operands:
        operand = operand.operands[0]
    if not operand.operands:
        return 0.0
    # A separate operation takes the time of its arithmetic or of its memory traffic, whichever is longer. In one
    # kernel, the arithmetic of one operation overlaps the memory traffic of the other.
    arithmetic = traffic = separate = 0.0
    for node in (operand, reader):
        rate = cost_model.product_flops if node.operation.name in PRODUCTS else cost_model.flops
        arithmetic_us = node.operation.flops(node.type, *[source.type for source in node.operands]) / rate
        traffic_us = (node.type.nbytes + sum([source.type.nbytes for source in node.operands])) / cost_model.bandwidth
        arithmetic, traffic, separate = (
            arithmetic + arithmetic_us,
            traffic + traffic_us,
            separate + max(arithmetic_us, traffic_us),
        )
    return max(0.0, separate - max(arithmetic, traffic - 2 * operand.type.nbytes / cost_model.bandwidth))


def result_bytes(node: Expr) -> int:
    """Return the bytes that must be allocated for a node's result: 0 for views, including leaves and Items."""
    return 0 if node.operation.view else node.type.nbytes


def flops_of(node: Expr, operands: Sequence[Expr]) -> int:
    """Return the number of flops of ``node`` applied to ``operands``, which may differ from the recorded operands."""
    return node.operation.flops(node.type, *[operand.type for operand in operands])
