"""Values of leaves before a run, to inspect the weights of a model without an input.

A live view requests a weight when the user selects it. A page cannot request a weight later, so it contains the values
of small weights, and ``explorer show --weights`` writes a page with the values of all weights.
"""

from __future__ import annotations

from itertools import accumulate

from explorer.core.errors import ExplorerError
from explorer.core.ir.expr import Expr
from explorer.core.ir.tensor import Tensor
from explorer.plan.planner import Plan
from explorer.record import Summary
from explorer.run.execution.value_capture import summarize
from explorer.run.recording.recorder import expressions

MAX_ELEMENTS = 1 << 24
"""maximum number of elements of the weights that a page shows unless all are requested; reading and summarizing them
takes 0.2 s
"""
MAX_WEIGHTS = 1000
"""maximum number of weights that a page shows unless all are requested; each takes about 0.4 KB
"""


def leaf_value(node: Expr) -> Summary | None:
    """Summarize the value of a leaf; return None for a leaf that has no value before a run.

    A weight read from a file is not kept. Raise FileError if it cannot be read.
    """
    if not isinstance(node, Tensor):
        return None
    storage = node.storage
    return summarize(storage.device.read(storage.peek()), first=True)


def leaf_answer(planned: Plan, node: int) -> tuple[Summary | None, str]:
    """Return (summary, "") for the leaf with id ``node``, or None and the reason why its value cannot be read."""
    try:
        return leaf_value(expressions(planned)[node]), ""
    except (ExplorerError, OSError) as error:
        return None, str(error)


def leaf_values(planned: Plan) -> dict[int, Summary]:
    """Return summaries of the values of all leaves of a plan, keyed by node id in the plan's recording."""
    values = {index: leaf_value(node) for index, node in enumerate(expressions(planned))}
    return {index: summary for index, summary in values.items() if summary is not None}


def small_leaf_values(planned: Plan) -> dict[int, Summary]:
    """Return summaries as ``leaf_values`` does, but only of the smallest leaves, within the limits of this module."""
    leaves = [(index, node) for index, node in enumerate(expressions(planned)) if isinstance(node, Tensor)]
    leaves.sort(key=lambda leaf: leaf[1].tensor_type.size)
    sizes = accumulate([node.tensor_type.size for _, node in leaves[:MAX_WEIGHTS]])
    small = [leaf for leaf, total in zip(leaves, sizes, strict=False) if total <= MAX_ELEMENTS]
    values = {index: leaf_value(node) for index, node in sorted(small, key=lambda leaf: leaf[0])}
    return {index: summary for index, summary in values.items() if summary is not None}
