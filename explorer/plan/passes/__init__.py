"""The passes, each in a file with its name.

They are available as ``ex.passes``, to change options or to build other pipelines. The fields of a pass are its
options: ``ex.EvalPlan(inline=ex.passes.Inline(limit=1000))``. A pipeline is an ordered list of passes:
``ex.EvalPlan(passes=[ex.passes.Simplify(), *ex.default_passes()[2:]])``.
"""

from explorer.plan.passes.algorithms import Algorithms
from explorer.plan.passes.batch import Batch
from explorer.plan.passes.buffers import Buffers
from explorer.plan.passes.codegen import Codegen
from explorer.plan.passes.constants import Constants
from explorer.plan.passes.dedup import Dedup
from explorer.plan.passes.fuse import Fuse
from explorer.plan.passes.inline import Inline
from explorer.plan.passes.join_products import JoinProducts
from explorer.plan.passes.join_rows import JoinRows
from explorer.plan.passes.memory_format import MemoryFormat
from explorer.plan.passes.order import Order
from explorer.plan.passes.prune import Prune
from explorer.plan.passes.recall import Recall
from explorer.plan.passes.shape_values import ShapeValues
from explorer.plan.passes.simplify import Simplify
from explorer.plan.passes.update_in_place import UpdateInPlace

__all__ = [
    "Algorithms",
    "Batch",
    "Buffers",
    "Codegen",
    "Constants",
    "Dedup",
    "Fuse",
    "Inline",
    "JoinProducts",
    "JoinRows",
    "MemoryFormat",
    "Order",
    "Prune",
    "Recall",
    "ShapeValues",
    "Simplify",
    "UpdateInPlace",
]
