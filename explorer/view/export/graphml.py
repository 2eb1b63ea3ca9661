"""GraphML export: the graph at one position for Gephi, yEd, Cytoscape and graph libraries."""

from __future__ import annotations

from xml.etree import ElementTree

from explorer.record import Recording
from explorer.view.export.graph_at import attributes, graph_at

_NAMESPACE = "http://graphml.graphdrawing.org/xmlns"
_TYPES = {str: "string", int: "long"}


def graphml(recording: Recording, position: int | None = None) -> str:
    """Return the graph at a position (None: the end) as GraphML.

    Nodes have the attributes of ``graph_at.attributes``. An edge has the attribute "operand", the index of the value
    among the operands of its reader.
    """
    graph = graph_at(recording, position)
    rows = attributes(recording, graph)
    root = ElementTree.Element("graphml", xmlns=_NAMESPACE)
    kinds = {name: _TYPES[type(value)] for row in rows.values() for name, value in row.items()}
    for name, kind in kinds.items():
        ElementTree.SubElement(root, "key", {"id": name, "for": "node", "attr.name": name, "attr.type": kind})
    ElementTree.SubElement(root, "key", {"id": "operand", "for": "edge", "attr.name": "operand", "attr.type": "long"})
    body = ElementTree.SubElement(root, "graph", edgedefault="directed")
    for node in graph.nodes:
        element = ElementTree.SubElement(body, "node", id=str(node))
        for name, value in rows[node].items():
            ElementTree.SubElement(element, "data", key=name).text = str(value)
    for number, (producer, reader, index) in enumerate(graph.edges):
        edge = ElementTree.SubElement(body, "edge", id=f"e{number}", source=str(producer), target=str(reader))
        ElementTree.SubElement(edge, "data", key="operand").text = str(index)
    ElementTree.indent(root)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + ElementTree.tostring(root, encoding="unicode") + "\n"
