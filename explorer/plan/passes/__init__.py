"""The passes, one a file; ``ex.passes`` for users, who give one with other options, or make a pipeline of their own.

Their fields are their options: ``ex.EvalPlan(inline=ex.passes.Inline(limit=1000))``. A pipeline is a list of them, in
order: ``ex.EvalPlan(passes=[ex.passes.Simplify(), *ex.default_passes()[2:]])``.
"""

from explorer.plan.batching.batch import Batch
from explorer.plan.memory.buffers import Buffers
from explorer.plan.memory.memory_format import MemoryFormat
from explorer.plan.passes.algorithms import Algorithms
from explorer.plan.passes.dedup import Dedup
from explorer.plan.passes.fuse import Fuse
from explorer.plan.passes.inline import Inline
from explorer.plan.passes.join_products import JoinProducts
from explorer.plan.passes.order import Order
from explorer.plan.passes.precompute import Constants
from explorer.plan.passes.prune import Prune
from explorer.plan.passes.reuse_results import Recall
from explorer.plan.passes.shape_values import ShapeValues
from explorer.plan.passes.simplify import Simplify
from explorer.plan.passes.update_in_place import UpdateInPlace

__all__ = [
    "Algorithms",
    "Batch",
    "Buffers",
    "Constants",
    "Dedup",
    "Fuse",
    "Inline",
    "JoinProducts",
    "MemoryFormat",
    "Order",
    "Prune",
    "Recall",
    "ShapeValues",
    "Simplify",
    "UpdateInPlace",
]
