"""Mermaid export: the graph at one position as a flowchart, which GitHub, GitLab and JupyterLab draw in Markdown.

These sites draw at most 500 edges; a comment in a larger flowchart states this.
"""

from __future__ import annotations

import re

from explorer.record import Recording
from explorer.record.escape import visible
from explorer.view.export.graph_at import graph_at

_MOST_EDGES = 500
"""default of Mermaid's setting maxEdges"""
_SPECIAL = re.compile(r"""[!"#$%&'*;<>?@\\^`|~]""")


def mermaid(recording: Recording, position: int | None = None, direction: str = "down") -> str:
    """Return the graph at a position (None: the end) as a Mermaid flowchart with fused kernels as subgraphs.

    Nodes are named ``n`` and their id. ``direction`` is the direction of the data flow: "down" or "right".
    """
    graph = graph_at(recording, position)
    lines = [f"flowchart {'LR' if direction == 'right' else 'TD'}"]
    if len(graph.edges) > _MOST_EDGES:
        lines.append(f"  %% {len(graph.edges):,} edges: Mermaid needs a larger setting maxEdges than {_MOST_EDGES}")
    for node in graph.nodes:
        text = _literal(recording.label(node)) + "<br/>" + _literal(recording.named_type_text(node))
        opened, closed = ("([", "])") if recording.nodes.kind[node] in ("leaf", "input", "constant") else ("[", "]")
        lines.append(f'  n{node}{opened}"{text}"{closed}')
    for number, (label, members) in enumerate(graph.groups):
        lines += [f'  subgraph k{number} ["{_literal(label)}"]', *[f"    n{member}" for member in members], "  end"]
    lines += [f"  n{producer} --> n{reader}" for producer, reader, _ in graph.edges]
    return "\n".join(lines) + "\n"


def _literal(text: str) -> str:
    """Escape text so that Mermaid shows it as a label: ``#35;`` is the character with code 35.

    Mermaid shows a backslash and n as a line break, and text between pairs of dollar signs as a formula.
    """
    return _SPECIAL.sub(lambda match: f"#{ord(match[0])};", visible(text))
