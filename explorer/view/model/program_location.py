"""Locations of decisions in the user's program: scopes, name and line, as shown at the start of decision lists."""

from __future__ import annotations

from explorer.record import Decision, Recording
from explorer.view.model.labels import source_text
from explorer.view.tree.scopes import scope_path

_NAMED = 2
"""maximum number of locations of a decision that are named individually"""


def node_location(recording: Recording, node: int, *, lines: bool = True) -> str:
    """Return a node's location: ``layer1.0 / Add / add`` in a file, ``block / h = add, line 3`` in a cell.

    Without ``lines`` the location does not change when code above it is edited: ``block / add``.
    """
    name = recording.named_label(node) if lines else recording.label(node)
    path = " / ".join([*scope_path(recording, node), name])
    line = source_text(recording, node) if lines else ""
    # An operator of a file has a unique name, and formats such as ONNX have no lines.
    return path if not line or _is_read(recording, node) else f"{path}, {line}"


def decision_location(recording: Recording, decision: Decision, *, lines: bool = True) -> str:
    """Return the location of a decision's nodes: ``add, line 3``, two locations, or ``conv1 / conv2d and 4 more``.

    A decision without nodes concerns the whole plan, and its location is "".
    """
    subjects = decision.subjects or decision.produced
    if len(subjects) > _NAMED:
        return f"{node_location(recording, subjects[0], lines=lines)} and {len(subjects) - 1:,} more"
    return " and ".join(dict.fromkeys([node_location(recording, node, lines=lines) for node in subjects]))


def _is_read(recording: Recording, node: int) -> bool:
    """Return whether a node comes from a model file."""
    row = recording.nodes.scope[node]
    while row >= 0:
        if recording.scopes[row].kind == "file":
            return True
        row = recording.scopes[row].parent
    return False
