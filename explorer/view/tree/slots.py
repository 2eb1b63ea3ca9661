"""Slots: a node and its replacements share one position, so that nothing moves while stepping.

Models and layouts consist of slots, so a graph needs only two layouts: one of what the program recorded, and one for
all later steps. A layout per step would move everything with every decision.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from explorer.record import Recording

_MAX_REPLACEMENTS = 8
"""maximum number of replacements of an operand that have an edge each; longer series keep the first and last"""


@dataclass(slots=True)
class Slots:
    """Slots of a recording, and the edges between them at any position."""

    nodes: list[list[int]] = field(default_factory=list)
    """nodes of each slot, in order of replacement"""
    of: list[int] = field(default_factory=list)
    """slot of each node, or −1 for a node that is not drawn"""
    edges: list[tuple[int, int]] = field(default_factory=list)
    """(producer slot, consumer slot), without duplicates"""
    recorded: list[tuple[int, int]] = field(default_factory=list)
    """edges of the recorded graph, before any pass"""


def build_slots(recording: Recording) -> Slots:
    """Assign a slot to every drawn node."""
    slots = Slots(of=[-1] * len(recording.nodes))
    drawn = _drawn(recording)
    before = _predecessors(recording)
    for node, is_drawn in enumerate(drawn):
        if not is_drawn:
            continue
        old = before.get(node, -1)
        if old >= 0 and slots.of[old] >= 0:
            slots.of[node] = slots.of[old]
            slots.nodes[slots.of[old]].append(node)
        else:
            slots.of[node] = len(slots.nodes)
            slots.nodes.append([node])
    slots.edges = _edges(recording, slots.of)
    slots.recorded = _recorded(recording, slots)
    return slots


def first_change(recording: Recording) -> int:
    """Return the first decision that produced, removed or grouped nodes; −1 if there is none."""
    nodes = recording.nodes
    changes = (*nodes.born, *nodes.gone, *(group.decision for group in recording.groups))
    return min((decision for decision in changes if decision >= 0), default=-1)


def _drawn(recording: Recording) -> list[bool]:
    """Return which nodes have a slot; constants are shown inside their readers, and ports are part of edges.

    A constant that a pass produced uses its subject's slot, and one that is an output has its own.
    """
    nodes = recording.nodes
    outputs = {node for body in recording.bodies for node in body.outputs}
    return [
        role != "item" and (role != "constant" or nodes.born[node] >= 0 or node in outputs)
        for node, role in enumerate(nodes.kind)
    ]


def _predecessors(recording: Recording) -> dict[int, int]:
    """Map each produced node to the node whose slot it shares: the last recorded node that it replaces."""
    nodes = recording.nodes
    before: dict[int, int] = {}
    for decision, old, new in recording.substitutions:
        # Only a node recorded for this one in the same graph shares its slot; a node that already existed keeps its
        # own slot, and a product that absorbs later operations is drawn in the product's box. Inlining is an exception:
        # the node that replaces a call is inside the box of the call.
        follows = nodes.born[new] == decision and 0 <= nodes.gone[old] <= decision
        stays = nodes.scope[old] == nodes.scope[new] or nodes.kind[old] == "call"
        if follows and stays and old < new and nodes.body[old] == nodes.body[new]:
            before[new] = max(old, before.get(new, -1))
    return before


def source(recording: Recording, node: int) -> int:
    """Follow ports to the node that computes the value."""
    nodes = recording.nodes
    while nodes.kind[node] == "item" and nodes.operands[node]:
        node = nodes.operands[node][0]
    return node


def _edges(recording: Recording, slot_of: list[int]) -> list[tuple[int, int]]:
    nodes = recording.nodes
    replaced = {old: (decision, new) for decision, old, new in recording.substitutions}
    final = recording.resolver(recording.end)
    kinds, bodies = nodes.kind, nodes.body
    seen: dict[tuple[int, int], None] = {}
    for node, slot in enumerate(slot_of):
        if slot < 0:
            continue
        born, gone = nodes.born[node], nodes.gone[node]
        for operand in nodes.operands[node]:
            producers = _producers(operand, born, gone, replaced, final) if operand in replaced else (operand,)
            for producer in producers:
                start = slot_of[source(recording, producer) if kinds[producer] == "item" else producer]
                if start >= 0 and start != slot and bodies[producer] == bodies[node]:
                    seen[start, slot] = None
    return list(seen)


def _recorded(recording: Recording, slots: Slots) -> list[tuple[int, int]]:
    """Return the edges between recorded nodes; all edges if no pass produced anything."""
    nodes = recording.nodes
    if not recording.substitutions:
        return slots.edges
    read = {
        (slots.of[source(recording, operand)], slots.of[node])
        for node, operands in enumerate(nodes.operands)
        if nodes.born[node] < 0
        for operand in operands
    }
    return [edge for edge in slots.edges if edge in read]


def _producers(
    operand: int, born: int, gone: int, replaced: dict[int, tuple[int, int]], final: dict[int, int]
) -> list[int]:
    """Return the nodes to which an operand refers while its reader exists."""
    if operand not in replaced:
        return [operand]
    producers: list[int] = []
    # An operand that was replaced repeatedly has an edge from each slot, for the steps in between.
    for _ in range(_MAX_REPLACEMENTS):
        if operand not in replaced:
            return [*producers, operand]
        decision, new = replaced[operand]
        if gone >= 0 and decision >= gone:
            return [*producers, operand]
        if decision > born:
            producers.append(operand)
        operand = new
    return [*producers, final.get(operand, operand)] if gone < 0 else producers
