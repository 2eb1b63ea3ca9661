"""Fusion groups: nodes that will be one kernel, and the decisions that say what their fusion saves.

The pass fuse grows the groups, and enters their decisions when the walk is over: only then are they whole.
"""

from __future__ import annotations

import numpy as np

from explorer.core.ir.expr import Expr
from explorer.plan.graph.plan_graph import PlanGraph
from explorer.plan.graph.reasons import Facts, RuleInfo
from explorer.plan.passes.fuse_reasons import FuseReasons
from explorer.plan.schedule.blocked_kernel import made_in_result
from explorer.plan.schedule.tiling import PIXEL_BY_PIXEL, Tiling
from explorer.record.dimension_names import shape_text

_ORDERLESS = "bui"
"""kinds of dtypes whose sums and products are the same in any order"""
_SHOWN = 5
"""operations that a kernel's label names"""


class FusionGroup:
    """Nodes of one kernel, operands first, while the group grows."""

    __slots__ = ("members", "product", "tiling")

    def __init__(self, members: list[Expr], product: Expr | None = None) -> None:
        self.members = members
        self.product = product
        """the member that is computed tile by tile: a matrix product, a convolution or a pooling"""
        self.tiling: Tiling | None = None
        """the blocks of the reduction at its end, if there is one"""


def merged(a: FusionGroup, b: FusionGroup, larger: dict[int, FusionGroup]) -> FusionGroup:
    """Merge two groups that do not depend on each other; the longer one takes the shorter in.

    So a chain that many short groups join costs their lengths, not its own again and again.
    """
    longer, shorter = (a, b) if len(a.members) >= len(b.members) else (b, a)
    longer.members.extend(shorter.members)
    if longer.product is None:
        longer.product = shorter.product
    larger.pop(id(shorter), None)
    larger.setdefault(id(longer), longer)
    return longer


def record_elementwise(rule: RuleInfo, group: FusionGroup, graph: PlanGraph) -> None:
    """Enter the decision that elementwise operations are one kernel, with the product that they finish or none."""
    members = group.members
    unwritten = members[:-1]
    reason = FuseReasons.fused
    product = group.product
    if product is not None:
        # The product runs first, whatever joined the group before it.
        if members[0] is not product:
            members = [product, *[node for node in members if node is not product]]
        is_made_whole = not made_in_result(product, members[-1], graph.inputs[members[-1].uid])
        unwritten = members[is_made_whole:-1]
        reason = FuseReasons.fused_with_product if unwritten else FuseReasons.finished_in_cache
    label = _label(members)
    facts: Facts = {
        "operations": label.replace(" · ", " → "),
        "count": len(members),
        "shape": shape_text(members[-1].shape),
        "temporaries": len(unwritten),
        "saved_bytes": sum([node.type.nbytes for node in unwritten]),
    }
    if product is not None:
        facts["product"] = product.operation.label
    decision = graph.decide(rule, reason, facts, members)
    graph.fuse(decision, members, label)


def record_reduction(rule: RuleInfo, group: FusionGroup, tiling: Tiling, graph: PlanGraph) -> None:
    """Enter the decision that a reduction and what it reads are one kernel, and whether its bits stay the same."""
    members, last, in_parts = group.members, group.members[-1], tiling.in_parts
    same_bits = tiling.blocks == 1 or _keeps_bits(members, tiling)
    reason = FuseReasons.reduced_whole
    if in_parts:
        if last.operation.idempotent:
            reason = FuseReasons.reduced_exact
        elif last.dtype.kind in _ORDERLESS:
            reason = FuseReasons.reduced_integers
        else:
            reason = FuseReasons.reduced_halved if same_bits else FuseReasons.reduced_joined
    label = _label(members)
    facts = {
        "operations": label.replace(" · ", " → "),
        "last": last.operation.label,
        "given": str(last.dtype),
        "count": len(members),
        "shape": shape_text(tiling.shape),
        "temporaries": len(members) - 1,
        "saved_bytes": sum([node.type.nbytes for node in members[:-1]]),
        "blocks": tiling.blocks,
        "parts": in_parts,
        "same_bits": same_bits,
    }
    decision = graph.decide(rule, reason, facts, members)
    graph.fuse(decision, members, label)


def _keeps_bits(members: list[Expr], tiling: Tiling) -> bool:
    """Whether a reduction gives the bits that it gives alone, however images lie in memory.

    A float sum in parts does where rows are halved where NumPy's pairwise summation halves them, which holds for
    np.add without a change of dtype. The memory format is chosen later, so both tilings must keep the bits.
    """
    operand, last = members[-2], members[-1]
    if last.dtype.kind in _ORDERLESS or last.operation.idempotent:
        return True
    is_pairwise = (
        last.operation.combine_ufunc is np.add
        and operand.dtype == last.dtype
        and last.dtype in (np.float32, np.float64)
    )
    tilings = [tiling]
    if len(tiling.shape) == 4:
        tilings.append(tiling.laid(PIXEL_BY_PIXEL, last.operation.combine_ufunc is not None))
    return all(not laid.in_parts or (laid.halvings > 0 and is_pairwise) for laid in tilings)


def _label(members: list[Expr]) -> str:
    names = [node.operation.label for node in members]
    return " · ".join(names if len(names) <= _SHOWN else [*names[: _SHOWN - 2], "…", names[-1]])
