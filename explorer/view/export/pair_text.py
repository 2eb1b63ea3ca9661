"""Answers to "why not these two?" as text: the decisions about both, or what became of each."""

from __future__ import annotations

from collections.abc import Sequence

from explorer.record import Recording
from explorer.record.escape import visible
from explorer.record.pairs import accounts, decisions_between
from explorer.view.export.decision_lines import decision_line


def why_pair(recording: Recording, nodes: Sequence[int], others: Sequence[int], names: Sequence[str] = ("", "")) -> str:
    """Return the decisions about two nodes, or about two operators' nodes, as text; without one, what became of each.

    ``names`` are those by which a reader asked, empty for nodes. Raises ValueError for an unknown id.
    """
    count = len(recording.nodes)
    if wrong := [node for node in (*nodes, *others) if not 0 <= node < count]:
        raise ValueError(f"node {wrong[0]} is not in this recording: it has nodes 0 to {count - 1}")
    numbers = decisions_between(recording, nodes, others)
    lines = [f"{decision_line(recording, recording.decisions[number])}" for number in numbers]
    if not lines:
        lines = ["no decision is about both", *accounts(recording, nodes, others)]
    labels = [
        name or ", ".join(dict.fromkeys(map(recording.named_label, side)))
        for name, side in zip(names, (nodes, others), strict=True)
    ]
    return "\n".join(visible(line) for line in [" and ".join(labels), *[f"  {line}" for line in lines]]) + "\n"
