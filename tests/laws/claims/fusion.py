"""Checks of decisions by the fusion pass: which operations share a kernel, and why others do not."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

import explorer as ex
from explorer.core.ir.function import Item
from explorer.plan.graph.constancy import Prepared
from explorer.plan.graph.reasons import Facts
from explorer.plan.passes.fuse import Fuse
from explorer.plan.schedule.schedule import Kernel
from tests.laws.claims.decisions import Claim, of_decision, shape_text, sizes_text

Expr = ex.Expr


def label(nodes: Sequence[Expr]) -> str:
    names = [node.operation.label for node in nodes]
    return " → ".join(names if len(names) < 6 else [*names[:3], "…", names[-1]])


@of_decision(
    Fuse.fused,
    Fuse.fused_with_product,
    Fuse.finished_in_cache,
)
def one_kernel(claim: Claim) -> Facts:
    """Check that the operations share one kernel in which each value has one reader; count the bytes saved."""
    kernel = fused_kernel(claim)
    assert kernel.blocks is not None
    products = [node for node in kernel.nodes if not node.operation.elementwise]
    assert len(products) == (claim.choice.reason is not Fuse.fused)
    assert all(node.shape == kernel.result.shape for node in kernel.nodes)
    members = sorted(kernel.nodes, key=lambda node: node.operation.elementwise)
    inner = members[:-1]
    made_whole = kernel.blocks.anchor is not None and not kernel.blocks.shares
    unwritten = inner[made_whole:]
    assert bool(unwritten) is (claim.choice.reason is not Fuse.finished_in_cache)
    return {
        **dict(zip(["product"], [node.operation.label for node in products], strict=False)),
        "operations": label(members),
        "count": len(kernel.nodes),
        "shape": shape_text(kernel.result),
        "temporaries": len(unwritten),
        "saved_bytes": sum(node.type.nbytes for node in unwritten),
    }


def fused_kernel(claim: Claim) -> Kernel:
    members = {node.uid for node in claim.subjects}
    kernel = claim.kernels[claim.subjects[-1].uid]
    assert {node.uid for node in kernel.nodes} == members
    for node in kernel.nodes[:-1]:
        readers = {reader.uid for reader in claim.stage.readers[node.uid]}
        assert len(readers) == 1
        assert readers <= members
        assert all(root is not node for root in claim.stage.roots)
    return kernel


@of_decision(
    Fuse.reduced_whole,
    Fuse.reduced_halved,
    Fuse.reduced_exact,
    Fuse.reduced_integers,
    Fuse.reduced_joined,
)
def reduced(claim: Claim) -> Facts:
    kernel = fused_kernel(claim)
    assert kernel.blocks is not None
    tiling, last = kernel.blocks.tiling, kernel.result
    assert tiling is not None
    inner = kernel.nodes[:-1]
    orderless = last.dtype.kind in "bui" or last.operation.idempotent
    numpys = last.operation.combine_ufunc is np.add and inner[-1].dtype == last.dtype in (np.float32, np.float64)
    halved = not tiling.in_parts or (tiling.halvings > 0 and numpys)
    flat = halved if len(tiling.shape) < 4 else halved and _halves_images(tiling, numpys, last)
    same_bits = tiling.blocks == 1 or orderless or flat
    expected = Fuse.reduced_whole
    if tiling.in_parts:
        expected = Fuse.reduced_halved if same_bits else Fuse.reduced_joined
        if orderless:
            expected = Fuse.reduced_exact if last.operation.idempotent else Fuse.reduced_integers
    assert claim.choice.reason is expected
    return {
        "operations": label(kernel.nodes),
        "last": last.operation.label,
        "given": str(last.dtype),
        "count": len(kernel.nodes),
        "shape": sizes_text(tiling.shape) or "scalar",
        "temporaries": len(inner),
        "saved_bytes": sum(node.type.nbytes for node in inner),
        "blocks": math.prod(tiling.counts) * 2**tiling.halvings,
        "parts": tiling.halvings > 0 or any(tiling.counts[axis] > 1 for axis in tiling.axes),
        "same_bits": same_bits,
    }


def _halves_images(tiling: Any, numpys: bool, last: Expr) -> bool:
    laid = tiling.laid((0, 2, 3, 1), last.operation.combine_ufunc is not None)
    return not laid.in_parts or (laid.halvings > 0 and numpys)


def edges(claim: Claim) -> list[tuple[Expr, Expr]]:
    """Return the (operand, reader) edges that a decision keeps in separate kernels."""
    result = claim.choice.unfused_edges
    assert result
    for operand, reader in result:
        own = claim.kernels.get(operand.uid)
        assert own is None or own is not claim.kernels[reader.uid]
        assert any(node is reader for node in claim.subjects)
    return result


def of_edges(*reasons: Any) -> Any:
    """Register a function that returns the expected facts for each edge that a decision keeps unfused."""

    def enter(expected: Any) -> Any:
        def whole(claim: Claim) -> Facts:
            facts = [expected(claim, operand, reader) for operand, reader in edges(claim)]
            for each in facts:
                assert [*each.items()] == [*facts[0].items()]
            return facts[0]

        of_decision(*reasons)(whole)
        return expected

    return enter


@of_edges(Fuse.computed_once)
def computed_once(claim: Claim, operand: Expr, reader: Expr) -> Facts:
    assert not claim.stage.varies(operand)
    assert operand.uid in claim.planned.graph.notes(Prepared)
    assert claim.stage.varies(reader) or any(root is reader for root in claim.stage.roots)
    return {"operand": operand, "reader": reader.operation.label}


@of_edges(Fuse.asked_for)
def fuse_asked_for(claim: Claim, operand: Expr, reader: Expr) -> Facts:
    assert any(root is operand for root in claim.stage.roots)
    return {"operand": operand, "reader": reader.operation.label}


@of_edges(Fuse.other_consumers)
def other_consumers(claim: Claim, operand: Expr, reader: Expr) -> Facts:
    """Count an operation that reads the operand twice as one reader; if there are five or more, name three."""
    readers = [node.operation.label for node in readers_of(claim, operand)]
    assert len(readers) > 1
    shown = readers if len(readers) < 5 else [*readers[:3], f"{len(readers) - 3} more"]
    return {"operand": operand, "reader": reader.operation.label, "consumers": len(readers), "readers": shown}


def readers_of(claim: Claim, operand: Expr) -> list[Expr]:
    return [each for each in claim.planned.graph.live if any(o is operand for o in claim.stage.operands(each))]


@of_edges(Fuse.shape)
def fuse_shape(claim: Claim, operand: Expr, reader: Expr) -> Facts:
    assert operand.shape != reader.shape
    return {
        "before": shape_text(operand),
        "after": shape_text(reader),
        "operand": operand.operation.label,
        "reader": reader.operation.label,
    }


def product_in(claim: Claim, node: Expr) -> Expr:
    (results,) = [each for each in claim.kernels[node.uid].nodes if not each.operation.elementwise]
    return results


@of_edges(Fuse.second_product, Fuse.from_second_product)
def second_product(claim: Claim, operand: Expr, reader: Expr) -> Facts:
    first, second = product_in(claim, reader), product_in(claim, operand)
    assert first is not second
    assert (operand is second) is (claim.choice.reason is Fuse.second_product)
    return {"operand": operand, "reader": reader.operation.label, "first": first, "second": second}


@of_edges(Fuse.product)
def product(claim: Claim, operand: Expr, reader: Expr) -> Facts:
    return {"operand": operand, "product": product_in(claim, operand), "reader": reader.operation.label}


@of_edges(Fuse.view_between)
def view_between(claim: Claim, below: Expr, reader: Expr) -> Facts:
    for operand in claim.stage.operands(reader):
        node = operand
        while node.operation.view and node.operands:
            node = claim.stage.below_at(node, 0)
        if node is below and operand is not below:
            return {"operand": operand, "below": below, "reader": reader.operation.label}
    raise AssertionError("no view between")


@of_edges(Fuse.long_rows)
def long_rows(claim: Claim, operand: Expr, reader: Expr) -> Facts:
    row = math.prod(operand.shape[axis] for axis in reader.operation.reduced_axes or ())
    assert reader.operation.combine_ufunc is None
    return {"operand": operand, "row_bytes": row * operand.dtype.itemsize, "operation": reader.operation.label}


@of_edges(Fuse.too_large)
def reduction_too_large(claim: Claim, operand: Expr, reader: Expr) -> Facts:
    assert reader.operation.combine_ufunc is not None
    blocks, size = 65_536, operand.type.nbytes
    # each block would need more than a megabyte
    assert size / blocks > 1 << 20
    return {"operand": operand, "reader": reader.operation.label, "read_bytes": size, "limit": blocks}


@of_edges(Fuse.view_operand, Fuse.producer)
def producer(claim: Claim, operand: Expr, reader: Expr) -> Facts:
    assert not isinstance(operand.operation, Item)
    assert operand.operation.view is (claim.choice.reason is Fuse.view_operand)
    assert operand.operation.view or not operand.operation.elementwise
    return {"producer": operand.operation.label, "reader": reader.operation.label}


@of_edges(Fuse.output_of_call)
def output_of_call(claim: Claim, operand: Expr, reader: Expr) -> Facts:
    assert isinstance(operand.operation, Item)
    return {
        "producer": operand.operation.label,
        "reader": reader.operation.label,
        "call": claim.stage.below_at(operand, 0).operation.label,
    }


def alone(claim: Claim) -> None:
    """Check that each operation has its own kernel."""
    for node in claim.subjects:
        assert len(claim.kernels[node.uid].nodes) == 1


@of_decision(Fuse.nothing_to_join)
def nothing_to_join(claim: Claim) -> Facts:
    alone(claim)
    assert not any(claim.stage.readers.get(node.uid) for node in claim.subjects)
    return {"operation": own_label(claim)}


def own_label(claim: Claim) -> str:
    (name,) = {node.operation.label for node in claim.subjects}
    return name


@of_decision(Fuse.reader)
def reader(claim: Claim) -> Facts:
    alone(claim)
    labels = set()
    for node in claim.subjects:
        labels.add((readers_of(claim, node)[0].operation.label, node.operation.label))
    ((first, operation),) = labels
    return {"reader": first, "operation": operation}


def foreign_type(claim: Claim, node: Expr) -> Any:
    types = [node.type, *[operand.type for operand in claim.stage.operands(node)]]
    return next(type_ for type_ in types if not type_.plain)


@of_decision(Fuse.element_type)
def element_type(claim: Claim) -> Facts:
    alone(claim)
    (type_,) = {foreign_type(claim, node) for node in claim.subjects}
    assert type_.device.name == "cpu"
    return {"operation": own_label(claim), "type": repr(type_)}


@of_decision(Fuse.device)
def device(claim: Claim) -> Facts:
    alone(claim)
    (name,) = {foreign_type(claim, node).device.name for node in claim.subjects}
    assert name != "cpu"
    return {"operation": own_label(claim), "device": name}
