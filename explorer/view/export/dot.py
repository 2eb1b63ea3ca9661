"""DOT export: the graph at one position in the DOT language."""

from __future__ import annotations

import graphviz  # type: ignore[import-untyped]  # the package has no types

from explorer.record import Recording
from explorer.record.escape import visible
from explorer.view.export.graph_at import graph_at

_LEAF = {"shape": "box", "style": "rounded,filled", "fillcolor": "#eef1f6", "color": "#d9deea"}
_OPERATION = {"shape": "box", "style": "rounded", "color": "#8f9aad"}


def to_graphviz(recording: Recording, position: int | None = None, *, body: int = 0) -> graphviz.Digraph:
    """Return the graph at a position (None: the end) with fused kernels as clusters.

    Node names are node ids; labels are escaped. Raise ValueError for a position outside 0 … ``recording.end``.
    """
    graph = graph_at(recording, position, body=body)
    digraph = graphviz.Digraph(
        name="explorer", node_attr={"fontname": "DejaVu Sans", "fontsize": "11"}, edge_attr={"color": "#8f9aad"}
    )
    for node in graph.nodes:
        label = _literal(recording.label(node)) + r"\n" + _literal(recording.named_type_text(node))
        style = _LEAF if recording.nodes.kind[node] in ("leaf", "input", "constant") else _OPERATION
        # Graphviz parses a label between angle brackets as HTML, and names come from files.
        digraph.node(str(node), graphviz.nohtml(label), **style)
    for number, (label, members) in enumerate(graph.groups):
        with digraph.subgraph(name=f"cluster_{number}") as cluster:
            cluster.attr(label=graphviz.nohtml(_literal(label)), style="rounded", color="#7a4fd0")
            for member in members:
                cluster.node(str(member))
    for producer, reader, _ in graph.edges:
        digraph.edge(str(producer), str(reader))
    return digraph


def _literal(text: str) -> str:
    """Escape text so that Graphviz shows it unchanged."""
    return str(graphviz.escape(visible(text).replace("&", "&amp;")))
