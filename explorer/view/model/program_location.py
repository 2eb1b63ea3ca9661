"""Places of decisions in the user's program: scopes, name and line, as lists of decisions begin with them."""

from __future__ import annotations

from explorer.record import Decision, Recording
from explorer.view.model.labels import source_text
from explorer.view.tree.scopes import scope_path

_NAMED = 2
"""number of places up to which all of a decision's are named"""


def node_place(recording: Recording, node: int, *, lines: bool = True) -> str:
    """Return where a node is in the program: ``layer1.0 / Add / add`` in a file, ``block / h = add, line 3`` in a cell.

    Without ``lines`` the place stays the same when the program is edited above it: ``block / add``.
    """
    name = recording.named_label(node) if lines else recording.label(node)
    path = " / ".join([*scope_path(recording, node), name])
    line = source_text(recording, node) if lines else ""
    # An operator of a file has a name that is its own, and files such as ONNX's have no lines.
    return path if not line or _is_read(recording, node) else f"{path}, {line}"


def decision_place(recording: Recording, decision: Decision, *, lines: bool = True) -> str:
    """Return where the nodes of a decision are: ``add, line 3``, two places, or ``conv1 / conv2d and 4 more``.

    A decision without nodes concerns the whole plan, and has no place: "".
    """
    subjects = decision.subjects or decision.produced
    if len(subjects) > _NAMED:
        return f"{node_place(recording, subjects[0], lines=lines)} and {len(subjects) - 1:,} more"
    return " and ".join(dict.fromkeys([node_place(recording, node, lines=lines) for node in subjects]))


def _is_read(recording: Recording, node: int) -> bool:
    """Tell whether a node comes from a model's file."""
    row = recording.nodes.scope[node]
    while row >= 0:
        if recording.scopes[row].kind == "file":
            return True
        row = recording.scopes[row].parent
    return False
