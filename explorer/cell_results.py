"""Text and picture that a cell shows if its last line is an expression, a plan, a net or a module.

Nothing is planned or run for a picture: a plan is drawn as it is, and all else as recorded. A graph that would
take too long to draw is shown as text only.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from explorer.core.errors import ExplorerError
from explorer.core.ir.expr import Expr
from explorer.plan.graph.plan_graph import PlanGraph
from explorer.record import Recording
from explorer.record.gc_pause import gc_paused
from explorer.record.recording import unmeasured
from explorer.record.shell import shell_part
from explorer.run.recording.recorder import build_recorded

_LARGEST = 5000
"""maximum number of nodes in a picture; the recorded graph is then drawn in less than half a second"""


def cell_result(value: object, graph: Callable[[], Sequence[Expr] | Recording]) -> dict[str, Any]:
    """Return the outputs of ``value`` by MIME type; ``graph`` returns what is drawn, and nothing if it has no node.

    Terminals get only the text, since they cannot show pictures. ``ex.outputs.pictures = False`` omits the picture.
    """
    text = repr(value)
    if shell_part("simple_prompt") is not None:  # only IPython's terminal has it
        return {"text/plain": text}
    try:
        with gc_paused():
            shown = graph()
            recording = unmeasured(shown) if isinstance(shown, Recording) else _recorded(shown)
    except ExplorerError:  # for example, a net with an operator that is not supported
        recording = None
    if recording is None:
        return {"text/plain": text}
    from explorer.view.export.cell_picture import cell_picture  # only needed for drawings

    return {"text/plain": text, **cell_picture(recording, text.strip("<>"))}


def _recorded(roots: Sequence[Expr]) -> Recording | None:
    """Return the recording of the graph of ``roots``, or None if it has no operation, or too many nodes."""
    found, pending = {root.uid for root in roots}, list(roots)
    while pending and len(found) <= _LARGEST:
        new = [operand for operand in pending.pop().operands if operand.uid not in found]
        found.update(operand.uid for operand in new)
        pending += new
    has_operation = any(root.operands for root in roots)
    return build_recorded(PlanGraph(roots)) if has_operation and len(found) <= _LARGEST else None
