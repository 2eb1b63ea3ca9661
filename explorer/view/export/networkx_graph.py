"""NetworkX export: the graph at one position as an object for graph algorithms."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from explorer.record import Recording
from explorer.record.escape import visible
from explorer.view.export.graph_at import attributes, graph_at

if TYPE_CHECKING:
    import networkx


def to_networkx(recording: Recording, position: int | None = None) -> networkx.MultiDiGraph[Any]:
    """Return the graph at a position (None: the end); raise ImportError if NetworkX is not installed.

    Nodes are node ids with the attributes of ``graph_at.attributes``. The key of an edge is the index of the value
    among the operands of its reader.
    """
    import networkx  # an optional package

    graph = graph_at(recording, position)
    result: networkx.MultiDiGraph[Any] = networkx.MultiDiGraph(name=visible(recording.title))
    result.add_nodes_from(attributes(recording, graph).items())
    result.add_edges_from(graph.edges)
    return result
