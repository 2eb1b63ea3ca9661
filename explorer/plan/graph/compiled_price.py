"""Estimated times of a kernel as NumPy calls and as one C function, by which the plan chooses.

Both compute with vector instructions, and read and write the same memory. Each of NumPy's functions also starts, and
reads and writes its elements in the cache. As in the cost model, the figures are those of the reference machine, so the
choice is the same on all machines.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from explorer.core.ir.expr import Expr, Operation
from explorer.ops.base import Elementwise
from explorer.plan.codegen.kernel_code import Operands, ScanBody
from explorer.plan.graph.cost_model import REFERENCE_COST_MODEL, CostModel

COMPILED = CostModel(call=3.4, flops=18_000.0)
"""µs to call a C function, and flops per µs with vector instructions. Measured: 2 to 10 operations on 16 numbers took
1.15 µs for each call of NumPy, which takes 0.9 µs on the reference machine, and 4.3 µs for a C function; 10 to 20
operations on 65,536 float32 numbers took 1 µs for each 16,000 to 22,000"""
_WITH_OTHERS = 1.0
"""µs to call a C function if the plan has others, because one call from Python runs consecutive ones"""
_WEIGHT = 3
"""operations on a number for each NumPy function that a kernel calls: 3 in silu and sigmoid, 2 in gelu, 1 in erf"""


class Price(NamedTuple):
    """Estimated times in µs."""

    numpy: float
    compiled: float

    @property
    def pays(self) -> bool:
        """Whether C code is faster."""
        return self.compiled < self.numpy

    def facts(self) -> dict[str, Any]:
        """Return the facts of a decision."""
        return {"numpy_us": self.numpy, "compiled_us": self.compiled}


def price(
    nodes: Sequence[Expr], operands: Operands, is_called_with_others: bool = False, follows_product: bool = False
) -> Price:
    """Return the price of the operations of a kernel, without a product before them.

    NumPy needs no time for operations without elements.
    """
    numpy, arithmetic = _loops(nodes, operands)
    if len(nodes) == 1 and nodes[0].operation.elementwise and numpy and not follows_product:
        numpy -= _traversal(nodes[0], operands)  # C code reads the operands and writes the result, too
    return Price(numpy, (min(_WITH_OTHERS, COMPILED.call) if is_called_with_others else COMPILED.call) + arithmetic)


def price_of_steps(body: ScanBody) -> Price:
    """Return the price of the steps of a scan without its products; C code is called again after each product."""
    nodes = [node for node in body.nodes if node.operation.elementwise]
    numpy, arithmetic = _loops(nodes, lambda node: body.inputs[node.uid])
    steps = body.scan.length
    products = sum([node.operation.is_tileable for node in body.nodes])
    call = COMPILED.call + steps * products * REFERENCE_COST_MODEL.call
    return Price(steps * numpy, call + steps * arithmetic)


def _loops(nodes: Sequence[Expr], operands: Callable[[Expr], Sequence[Expr]]) -> tuple[float, float]:
    """Return the µs of NumPy's functions, and of their arithmetic."""
    numpy = arithmetic = 0.0
    for node in nodes:
        flops = node.operation.flops(node.type, *[operand.tensor_type for operand in operands(node)])
        if flops:
            calls = _calls(node.operation, flops, node.tensor_type.size)
            numpy += int(calls) * REFERENCE_COST_MODEL.call + calls * _traversal(node, operands)
            numpy += flops / COMPILED.flops
            arithmetic += flops / COMPILED.flops
    return numpy, arithmetic


def _traversal(node: Expr, operands: Callable[[Expr], Sequence[Expr]]) -> float:
    """Return the µs in which one of NumPy's functions reads and writes the elements of an operation in the cache."""
    size = max([each.tensor_type.size for each in (node, *operands(node))])
    return size / REFERENCE_COST_MODEL.flops


def _calls(operation: Operation, flops: int, size: int) -> float:
    """Return about how many functions NumPy calls for an operation: one for each pixel of a window, for example."""
    if operation.c_rows:
        return len(operation.c_rows)
    if isinstance(operation, Elementwise) and operation.numpy_calls:
        return operation.numpy_calls
    weight = flops // max(size, 1)
    return max(weight // _WEIGHT if operation.elementwise else weight, 1)
