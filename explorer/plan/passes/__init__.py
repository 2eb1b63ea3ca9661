"""The passes, one a file."""

from explorer.plan.passes.algorithms import Algorithms
from explorer.plan.passes.buffers import Buffers
from explorer.plan.passes.constants import Constants
from explorer.plan.passes.dedup import Dedup
from explorer.plan.passes.fuse import Fuse
from explorer.plan.passes.group import Group
from explorer.plan.passes.layout import Layout
from explorer.plan.passes.open import Open
from explorer.plan.passes.order import Order
from explorer.plan.passes.prune import Prune
from explorer.plan.passes.recall import Recall
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
