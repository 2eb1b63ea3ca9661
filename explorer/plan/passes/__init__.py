"""The passes, one a file."""

from explorer.plan.batching.batch import Group
from explorer.plan.memory.buffers import Buffers
from explorer.plan.memory.memory_format import Layout
from explorer.plan.passes.algorithms import Algorithms
from explorer.plan.passes.dedup import Dedup
from explorer.plan.passes.fuse import Fuse
from explorer.plan.passes.inline import Open
from explorer.plan.passes.order import Order
from explorer.plan.passes.precompute import Constants
from explorer.plan.passes.prune import Prune
from explorer.plan.passes.reuse_results import Recall
from explorer.plan.passes.simplify import Simplify

__all__ = [
    "Algorithms",
    "Buffers",
    "Constants",
    "Dedup",
    "Fuse",
    "Group",
    "Layout",
    "Open",
    "Order",
    "Prune",
    "Recall",
    "Simplify",
]
