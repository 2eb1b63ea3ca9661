"""The graph at a position as plain rows, which the formats for other tools (DOT, Mermaid, GraphML, NetworkX) share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from explorer.record import Recording
from explorer.record.escape import visible
from explorer.view.replay.state import state_at
from explorer.view.tree.scopes import scope_path
from explorer.view.tree.slots import build_slots, source

Attribute: TypeAlias = str | int
"""value of a node's attribute"""


@dataclass(frozen=True)
class GraphAt:
    """Nodes, edges and groups of a graph at one position."""

    nodes: tuple[int, ...]
    """ids of the nodes, in order"""
    edges: tuple[tuple[int, int, int], ...]
    """(producer, reader, operand index): a value that is read twice has two edges"""
    groups: tuple[tuple[str, tuple[int, ...]], ...]
    """(label, nodes) of each outlined group, such as a fused kernel; labels are escaped"""


def graph_at(recording: Recording, position: int | None = None, *, body: int = 0) -> GraphAt:
    """Return the graph at a position (None: the end) of the top graph, or of the body of a function.

    Raise ValueError for a position outside 0 … ``recording.end``.
    """
    where = recording.end if position is None else position
    if not 0 <= where <= recording.end:
        raise ValueError(f"position {where} is outside this recording: it has positions 0 to {recording.end}")
    rows, state = recording.nodes, state_at(recording, build_slots(recording), where)
    nodes = sorted(node for node in state.shown.values() if rows.body[node] == body)
    shown, final = set(nodes), recording.resolver(where)
    edges = [
        (producer, node, index)
        for node in nodes
        for index, operand in enumerate(rows.operands[node])
        if (producer := source(recording, final.get(operand, operand))) in shown
    ]
    groups = [
        (visible(group.label), members)
        for group, slots in state.groups
        if (members := tuple(state.shown[slot] for slot in slots if state.shown[slot] in shown))
    ]
    return GraphAt(tuple(nodes), tuple(edges), tuple(groups))


def attributes(recording: Recording, graph: GraphAt) -> dict[int, dict[str, Attribute]]:
    """Return node → its attributes; an attribute that is unknown is left out, and strings are escaped.

    "label", "operation", "kind", "type" (``32×64 float32``) and "bytes" are always present. "flops", "scope" (names
    separated by " / "), "variable", "source" and "kernel" (the label of its group) are present if they are known.
    """
    rows = recording.nodes
    kernels = {node: label for label, members in graph.groups for node in members}
    found: dict[int, dict[str, Attribute]] = {}
    for node in graph.nodes:
        known: dict[str, Attribute | None] = {
            "label": visible(recording.label(node)),
            "operation": visible(recording.operations[rows.operation[node]]),
            "kind": rows.kind[node],
            "type": visible(recording.named_type_text(node)),
            "bytes": rows.bytes[node],
            "flops": rows.flops[node],
            "scope": visible(" / ".join(scope_path(recording, node))) or None,
            "variable": visible(recording.variables.get(node, "")) or None,
            "source": None if rows.source[node] < 0 else visible(recording.sources[rows.source[node]].full_location),
            "kernel": kernels.get(node),
        }
        found[node] = {name: value for name, value in known.items() if value is not None}
    return found
