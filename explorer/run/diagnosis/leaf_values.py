"""Values of leaves before any run: a model's weights can be looked at without an input.

A recording made for a look at a file reads no weight. The view asks for the one that a reader selects, and
``explorer show --weights`` for all, because a page has nobody to ask.
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
    """Summarize the value of a leaf, None for a leaf without one before a run; a file's weight is read, and not kept.

    Raises FileError for a weight that cannot be read.
    """
    if not isinstance(node, Tensor):
        return None
    storage = node.storage
    return summarize(storage.device.read(storage.peek()))


def leaf_answer(planned: Plan, node: int) -> tuple[Summary | None, str]:
    """Summarize the value of a leaf that a reader selected, by its id, or say why it cannot be read."""
    try:
        return leaf_value(expressions(planned)[node]), ""
    except (ExplorerError, OSError) as error:
        return None, str(error)


def leaf_values(planned: Plan) -> dict[int, Summary]:
    """Summarize the values of all leaves of a plan, by their ids in its recording."""
    values = {number: leaf_value(node) for number, node in enumerate(expressions(planned))}
    return {number: summary for number, summary in values.items() if summary is not None}
