"""DOT export: the graph at one position in the DOT language."""

from __future__ import annotations

import graphviz  # type: ignore[import-untyped]  # the package has no types

from explorer.record import Recording
from explorer.record.escape import visible
from explorer.view.replay.state import state_at
from explorer.view.tree.slots import build_slots, source

_LEAF = {"shape": "box", "style": "rounded,filled", "fillcolor": "#eef1f6", "color": "#d9deea"}
_OPERATION = {"shape": "box", "style": "rounded", "color": "#8f9aad"}


def to_graphviz(recording: Recording, position: int | None = None, *, body: int = 0) -> graphviz.Digraph:
    """Return the graph at a position (None: the end) with fused kernels as clusters.

    Node names are node ids; labels are escaped. Raise ValueError for a position outside 0 … ``recording.end``.
    """
    where = recording.end if position is None else position
    if not 0 <= where <= recording.end:
        raise ValueError(f"position {where} is outside this recording: it has positions 0 to {recording.end}")
    digraph = graphviz.Digraph(
        name="explorer", node_attr={"fontname": "DejaVu Sans", "fontsize": "11"}, edge_attr={"color": "#8f9aad"}
    )
    nodes, state = recording.nodes, state_at(recording, build_slots(recording), where)
    shown = sorted(node for node in state.shown.values() if nodes.body[node] == body)
    for node in shown:
        label = _literal(recording.label(node)) + r"\n" + _literal(recording.named_type_text(node))
        style = _LEAF if nodes.kind[node] in ("leaf", "input", "constant") else _OPERATION
        # Graphviz parses a label between angle brackets as HTML, and names come from files.
        digraph.node(str(node), graphviz.nohtml(label), **style)
    drawn = set(shown)
    for number, (group, members) in enumerate(state.groups):
        names = [str(state.shown[slot]) for slot in members if state.shown[slot] in drawn]
        if names:
            with digraph.subgraph(name=f"cluster_{number}") as cluster:
                cluster.attr(label=graphviz.nohtml(_literal(group.label)), style="rounded", color="#7a4fd0")
                for name in names:
                    cluster.node(name)
    final = recording.resolver(where)
    for node in shown:
        for operand in nodes.operands[node]:
            producer = source(recording, final.get(operand, operand))
            if producer in drawn:
                digraph.edge(str(producer), str(node))
    return digraph


def _literal(text: str) -> str:
    """Escape text so that Graphviz shows it unchanged."""
    return str(graphviz.escape(visible(text).replace("&", "&amp;")))
