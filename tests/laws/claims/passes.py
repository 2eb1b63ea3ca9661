"""Checks of passes that replace nodes or remove them."""

from __future__ import annotations

import math

import explorer as ex
from explorer.core.ir.function import Call, Item
from explorer.ops.creation.constants import Full
from explorer.ops.elementwise.arithmetic import Add
from explorer.ops.linalg.matmul import Matmul
from explorer.plan.graph.cost_model import REFERENCE_COST_MODEL, kernel_cost
from explorer.plan.graph.reasons import Facts
from explorer.plan.passes import Algorithms, Constants, Dedup, Inline, JoinProducts, Prune, Recall, ShapeValues
from tests.laws.claims.decisions import At, Claim, of_decision, result_bytes, sizes_text

Expr = ex.Expr


def flops(at: At, node: Expr) -> int:
    return node.operation.flops(node.type, *[operand.type for operand in at.operands(node)])


@of_decision(Recall.recalled)
def recalled(claim: Claim) -> Facts:
    assert len(claim.choice.produced) == len(claim.subjects)
    assert not any(tensor.operands for tensor in claim.choice.produced)
    return {"count": len(claim.subjects), "saved_flops": sum(flops(claim.before, node) for node in claim.subjects)}


@of_decision(Recall.recalled_equal)
def recalled_equal(claim: Claim) -> Facts:
    """Count the recalled values that belong to equal expressions."""
    assert claim.held is not None
    own = {tensor: uid for uid, tensor in claim.held.tensors.items()}
    equal = sum(own[tensor] in claim.held.equal for tensor in claim.choice.produced if isinstance(tensor, ex.Tensor))
    return {**recalled(claim), "equal": equal}


@of_decision(ShapeValues.computed_first)
def computed_first(claim: Claim) -> Facts:
    """Check that the pass was given the value, and that the subjects are the results listed with it."""
    (announced,) = [step for step in claim.planned.options.passes if isinstance(step, ShapeValues)]
    value = announced.values[claim.number - claim.planned.graph.stages[claim.choice.stage].first]
    results = {*value.results} & {*claim.stage.live}
    assert {node.uid for node in claim.subjects} == (results or {node.uid for node in claim.stage.roots})
    return {"count": value.operations, "value": value.name, "operator": value.operator, "text": value.text}


@of_decision(Dedup.merged, Dedup.commuted)
def merged(claim: Claim) -> Facts:
    """Check that the copies have the first node's operation, and operands that are equal at the end of the stage."""
    (first,) = {claim.after.resolve(copy).uid: claim.after.resolve(copy) for copy in claim.subjects}.values()
    operands = [claim.last.resolve(operand).uid for operand in first.operands]
    turned = 0
    for copy in claim.subjects:
        assert copy is not first
        assert copy.operation is first.operation
        own = [claim.last.resolve(operand).uid for operand in copy.operands]
        assert own == operands or (first.operation.commutative and own == operands[::-1])
        turned += own != operands
    commuted = claim.choice.reason is Dedup.commuted
    assert bool(turned) is commuted
    return {
        "first": first,
        "count": len(claim.subjects) + 1,
        "saved_flops": sum(flops(claim.before, copy) for copy in claim.subjects),
        "saved_bytes": sum(result_bytes(copy) for copy in claim.subjects),
        **({"turned": turned, "operation": first.operation.name} if commuted else {}),
    }


@of_decision(Dedup.constants)
def constants(claim: Claim) -> Facts:
    kept = {claim.after.resolve(copy) for copy in claim.subjects}
    assert all(isinstance(node.operation, Full) for node in (*kept, *claim.subjects))
    return {"count": len(claim.subjects), "kept": len(kept)}


@of_decision(Dedup.order_of_zeros)
def order_of_zeros(claim: Claim) -> Facts:
    (node,) = claim.subjects
    turned = [operand.uid for operand in claim.last.operands(node)][::-1]
    (other,) = [
        each
        for each in claim.last.live.values()
        if each.operation is node.operation and [operand.uid for operand in claim.last.operands(each)] == turned
    ]
    return {"node": node, "other": other, "operation": node.operation.name}


@of_decision(Dedup.augmented)
def augmented(claim: Claim) -> Facts:
    """Check that calls are replaced by calls of the same name with more outputs."""
    for call in claim.subjects:
        assert isinstance(call.operation, (Call, Item))
        assert call.uid not in claim.after.live
    (name,) = {call.operation.label for call in claim.subjects}
    return {"count": len(claim.subjects), "name": name}


@of_decision(Prune.replaced, Prune.unread)
def unneeded(claim: Claim) -> Facts:
    """Check that no root depends on removed nodes; nodes replaced earlier are their only readers, if there are any."""
    graph = claim.planned.graph
    assert not {node.uid for node in claim.subjects} & claim.after.live.keys()
    replaced = {old.uid for decision, old, _ in graph.substitutions if decision < claim.number}
    nodes = [node for decision, node in graph.added if decision < claim.number]
    readers: dict[int, Expr] = {}
    for node in [*graph.recorded, *nodes]:
        if node.uid in replaced:
            for operand in node.operands:
                readers.setdefault(operand.uid, node)
    results = [readers[node.uid] for node in claim.subjects if node.uid in readers]
    assert bool(results) is (claim.choice.reason is Prune.replaced)
    saved = sum(
        node.operation.flops(node.type, *[operand.type for operand in node.operands]) for node in claim.subjects
    )
    return {"count": len(claim.subjects), "flops": saved, "readers": results[:3]}


@of_decision(Inline.inlined)
def inlined(claim: Claim) -> Facts:
    (name,) = {call.operation.body.name for call in claim.subjects}  # type: ignore[attr-defined]
    assert not {node.uid for node in claim.subjects} & claim.last.live.keys()
    return {"count": len(claim.subjects), "name": name}


@of_decision(Inline.too_large)
def too_large(claim: Claim) -> Facts:
    (name,) = {call.operation.body.name for call in claim.subjects}  # type: ignore[attr-defined]
    step = claim.planned.options.find(Inline)
    assert {node.uid for node in claim.subjects} <= claim.last.live.keys() | claim.stage.live.keys()
    return {"name": name, "limit": step.limit}


def parallel_products(at: At, node: Expr) -> list[Expr]:
    """Return all products of a node's left operand with weights, the node included, except requested results."""
    left = at.below_at(node, 0)
    assert at.varies(left)
    roots = {root.uid for root in at.roots}
    return [
        reader
        for reader in dict.fromkeys(at.readers[left.uid])
        if type(reader.operation) is Matmul
        and at.below_at(reader, 0) is left
        and not at.varies(at.below_at(reader, 1))
        and reader.uid not in roots
    ]


def cost(at: At, node: Expr, call: bool = True) -> float:
    return kernel_cost(node, tuple(at.operands(node)), call=call)


@of_decision(JoinProducts.joined)
def joined(claim: Claim) -> Facts:
    """Check that all products of a value become slices of one product, in order."""
    at = claim.before
    products = [node for node in claim.subjects if type(node.operation) is Matmul]
    assert {node.uid for node in products} == {node.uid for node in parallel_products(at, products[0])}
    (whole,) = {node.uid: node for node in claim.added if type(node.operation) is Matmul}.values()
    start = 0
    for old, new in claim.replaced:
        begin, end, _ = new.operation.spans[-1]  # type: ignore[attr-defined]
        assert (begin, end - begin) == (start, old.shape[-1])
        start = end
    assert start == whole.shape[-1]
    saved = sum(cost(at, node) for node in products) - cost(claim.after, whole)
    assert saved > 0
    return {"count": len(products), "left": at.below_at(products[0], 0), "saved_us": saved}


@of_decision(JoinProducts.large)
def large(claim: Claim) -> Facts:
    at = claim.before
    products = parallel_products(at, claim.subjects[0])
    work, start = max(cost(at, node, False) for node in products), REFERENCE_COST_MODEL.call
    assert work > 10 * start
    left = at.below_at(products[0], 0)
    return {"count": len(products), "left": left, "work_us": work, "start_us": start}


@of_decision(JoinProducts.read_alone)
def read_alone(claim: Claim) -> Facts:
    """Check that one product, or its sum if all add a vector, is read only by an elementwise operation."""
    at = claim.before
    products = parallel_products(at, claim.subjects[0])
    sums = [only_reader(at, node) for node in products]
    vectors = [
        total is not None
        and type(total.operation) is Add
        and any(term.shape == total.shape[-1:] and not at.varies(term) for term in at.operands(total))
        for total in sums
    ]
    readers = [only_reader(at, end) for end in (sums if all(vectors) else products) if end is not None]
    reader = next(reader for reader in readers if reader is not None and reader.operation.elementwise)
    return {"count": len(products), "left": at.below_at(products[0], 0), "reader": reader}


def only_reader(at: At, node: Expr) -> Expr | None:
    return at.readers[node.uid][0] if at.uses(node) == 1 and node.uid in at.readers else None


@of_decision(Constants.prepared_once)
def prepared_once(claim: Claim) -> Facts:
    """Check that values computed once depend on no parameter; the kept ones are read by other nodes, maybe through
    views."""
    at = claim.stage
    assert not any(at.varies(node) for node in claim.subjects)
    assert not any(node.operation.view for node in claim.subjects)
    once = {node.uid for node in claim.subjects}
    kept: dict[int, Expr] = {}
    for node in at.live.values():
        if node.uid in once or (node.operation.view and node.operands and not at.varies(node)):
            continue
        for operand in at.operands(node):
            source = operand
            while source.operation.view and source.operands:
                source = at.below_at(source, 0)
            if source.uid in once:
                kept[source.uid] = source
    return {"count": len(once), "kept": len(kept), "kept_bytes": sum(node.type.nbytes for node in kept.values())}


@of_decision(Algorithms.tiles)
def tiles(claim: Claim) -> Facts:
    first = claim.subjects[0]
    images, filters = claim.before.operands(first)
    assert filters.shape[2:] == (3, 3)
    assert not claim.before.varies(filters)
    assert all(each.operation is first.operation and each.type is first.type for each in claim.subjects)
    (operation,) = {node.operation for node in claim.choice.produced}
    count = len(claim.subjects)
    direct = count * first.operation.flops(first.type, images.type, filters.type)
    saved = direct - count * operation.flops(first.type, images.type, filters.type)
    assert saved > 0
    return {"count": count, "saved_flops": saved, "direct_flops": direct}


@of_decision(Algorithms.windows)
def windows(claim: Claim) -> Facts:
    (strides,) = {node.operation.strides for node in claim.subjects}  # type: ignore[attr-defined]
    assert strides != (1, 1)
    return {**unfit(claim), "stride": sizes_text(strides)}


@of_decision(Algorithms.dilated)
def dilated(claim: Claim) -> Facts:
    ((strides, dilation),) = {(node.operation.strides, node.operation.dilation) for node in claim.subjects}  # type: ignore[attr-defined]
    assert strides == (1, 1) != dilation
    return {**unfit(claim), "dilation": sizes_text(dilation)}


@of_decision(Algorithms.grouped)
def grouped(claim: Claim) -> Facts:
    (groups,) = {node.operation.groups for node in claim.subjects}  # type: ignore[attr-defined]
    assert groups > 1
    assert all(node.operation.strides == node.operation.dilation == (1, 1) for node in claim.subjects)  # type: ignore[attr-defined]
    return {**unfit(claim), "groups": groups}


def unfit(claim: Claim) -> Facts:
    """Check the reason that Winograd's operation itself gives."""
    from explorer.ops.nn.conv_winograd import WinogradConv2d

    (node, *_) = claim.subjects
    images, filters = claim.before.operands(node)
    return {"rule": WinogradConv2d(*node.operation.options).unfit(images.shape, filters.shape)}  # type: ignore[attr-defined]


@of_decision(Algorithms.few_channels)
def few_channels(claim: Claim) -> Facts:
    ((filters, channels),) = {claim.before.operands(node)[1].shape[:2] for node in claim.subjects}
    assert min(filters, channels) < 32
    return {"count": min(filters, channels), "least": 32, "values": "images" if channels <= filters else "results"}


@of_decision(Algorithms.few_tiles)
def few_tiles(claim: Claim) -> Facts:
    (count,) = {node.shape[0] * math.ceil(node.shape[2] / 2) * math.ceil(node.shape[3] / 2) for node in claim.subjects}
    assert count < 32
    return {"count": count, "least": 32}


@of_decision(Algorithms.filters_vary)
def filters_vary(claim: Claim) -> Facts:
    at = claim.before
    assert not at.has_parameters or all(at.varies(at.below_at(node, 1)) for node in claim.subjects)
    return {}


@of_decision(Algorithms.changes_rounding)
def direct_for_rounding(claim: Claim) -> Facts:
    graph = claim.planned.graph
    assert graph.numerics == "safe"
    assert not graph.inference
    # The sentence is about one convolution, so its saving must be that of each.
    (saved,) = {round(kernel_cost(node, tuple(claim.before.operands(node))) * 20 / 36, 2) for node in claim.subjects}
    return {"saved_us": saved}
