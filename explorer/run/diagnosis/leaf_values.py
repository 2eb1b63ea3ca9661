"""Values of leaves before a run, to inspect the weights of a model without an input.

Inspecting a file reads no weights; the view requests a weight when the user selects it. ``explorer show --weights``
reads all weights, because a static page cannot request them later.
"""

from __future__ import annotations

from explorer.core.errors import ExplorerError
from explorer.core.ir.expr import Expr
from explorer.core.ir.tensor import Tensor
from explorer.plan.planner import Plan
from explorer.record import Summary
from explorer.run.execution.value_capture import summarize
from explorer.run.recording.recorder import expressions


def leaf_value(node: Expr) -> Summary | None:
    """Summarize the value of a leaf; return None for a leaf that has no value before a run.

    A weight read from a file is not kept. Raise FileError if it cannot be read.
    """
    if not isinstance(node, Tensor):
        return None
    storage = node.storage
    return summarize(storage.device.read(storage.peek()))


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
