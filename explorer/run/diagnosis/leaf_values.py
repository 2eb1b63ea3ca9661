"""Values of leaves before a run, so that a model's weights can be inspected without an input.

A recording made to inspect a file reads no weights. The view requests the weight that a reader selects;
``explorer show --weights`` requests all of them, because a static page cannot request any.
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
    """Summarize the value of a leaf; return None for a leaf without one before a run. A file's weight is not kept.

    Raise FileError for a weight that cannot be read.
    """
    if not isinstance(node, Tensor):
        return None
    storage = node.storage
    return summarize(storage.device.read(storage.peek()))


def leaf_answer(planned: Plan, node: int) -> tuple[Summary | None, str]:
    """Summarize the value of the leaf with a node id, or return the reason why it cannot be read."""
    try:
        return leaf_value(expressions(planned)[node]), ""
    except (ExplorerError, OSError) as error:
        return None, str(error)


def leaf_values(planned: Plan) -> dict[int, Summary]:
    """Summarize the values of all leaves of a plan, keyed by their ids in its recording."""
    values = {index: leaf_value(node) for index, node in enumerate(expressions(planned))}
    return {index: summary for index, summary in values.items() if summary is not None}
