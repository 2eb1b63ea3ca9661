"""State at a position: the node in each slot, ghosts, edges, fused kernels, numbers and duplicates."""

from __future__ import annotations

from dataclasses import dataclass, field

from explorer.record import Group, Recording
from explorer.view.tree.slots import Slots, source

_GHOSTS = 3
"""number of duplicates of a node shown as ghosts at the end; "×n" counts all"""


@dataclass(slots=True)
class State:
    """State of a recording at one position, by slot."""

    shown: dict[int, int] = field(default_factory=dict)
    """slot → its current node"""
    ghosts: dict[int, int] = field(default_factory=dict)
    """empty slot → the last node in it"""
    edges: dict[tuple[int, int], None] = field(default_factory=dict)
    ghost_edges: dict[tuple[int, int], None] = field(default_factory=dict)
    groups: list[tuple[Group, list[int]]] = field(default_factory=list)
    """current fused kernels, and their slots"""
    numbers: dict[int, int] = field(default_factory=dict)
    """node → place of its kernel in the schedule, from 1, after all decisions"""
    outputs: set[int] = field(default_factory=set)
    """slots of the outputs of the program, or of a function"""
    copies: dict[int, int] = field(default_factory=dict)
    """slot → number of equal nodes merged into its node, including itself"""


def state_at(recording: Recording, slots: Slots, position: int) -> State:
    """Return the state at a position; ghosts are those of its stage, at the end a few duplicates."""
    state, nodes = State(), recording.nodes
    oldest = _oldest_ghost(recording, position)
    for slot, members in enumerate(slots.nodes):
        for node in members:
            born, gone = nodes.born[node], nodes.gone[node]
            if born < position and (gone < 0 or gone >= position):
                state.shown[slot] = node
            elif oldest <= gone < position:
                state.ghosts[slot] = node
        if slot in state.shown:
            state.ghosts.pop(slot, None)
    final = recording.resolver(position)
    _copies(recording, slots, position, state, final)
    asked = [final.get(node, node) for body in recording.bodies for node in body.outputs]
    state.outputs = state.shown.keys() & {slots.of[source(recording, node)] for node in asked}
    for slot, node in state.shown.items():
        for operand in nodes.operands[node]:
            producer = slots.of[source(recording, final.get(operand, operand))]
            if producer >= 0 and producer != slot:
                state.edges[producer, slot] = None
            before = slots.of[source(recording, operand)]
            if before in state.ghosts:
                state.ghost_edges[before, slot] = None
    for slot, node in state.ghosts.items():
        for operand in nodes.operands[node]:
            producer = slots.of[source(recording, final.get(operand, operand))]
            if producer >= 0 and producer != slot:
                state.ghost_edges[producer, slot] = None
    _groups(recording, slots, position, state)
    if recording.schedule is not None and position == recording.end:
        for number, kernel in enumerate(recording.schedule.kernels, 1):
            state.numbers.update(dict.fromkeys(kernel.nodes, number))
    return state


def _oldest_ghost(recording: Recording, position: int) -> int:
    if position == recording.end:
        return position
    return max((stage.first for stage in recording.stages if stage.first < position), default=0)


def _groups(recording: Recording, slots: Slots, position: int, state: State) -> None:
    """Keep the last group of each node, since groups grow."""
    taken: set[int] = set()
    for group in reversed(recording.groups):
        if group.kind != "kernel" or group.decision >= position:
            continue
        members = [slots.of[node] for node in group.members if state.shown.get(slots.of[node]) == node]
        if len(members) > 1 and not taken & set(members):
            taken.update(members)
            state.groups.insert(0, (group, members))


def _copies(recording: Recording, slots: Slots, position: int, state: State, final: dict[int, int]) -> None:
    """Count the duplicates of each survivor; at the end the first ones stay as ghosts."""
    for decision, old, _ in recording.substitutions:
        kept = final.get(old, old)
        slot, place = slots.of[kept], slots.of[old]
        elsewhere = slot >= 0 and place != slot and state.shown.get(slot) == kept
        if decision < position and elsewhere and _equal(recording, old, kept, final):
            state.copies[slot] = state.copies.get(slot, 1) + 1
            is_few = state.copies[slot] <= _GHOSTS + 1
            if position == recording.end and is_few and place >= 0 and place not in state.shown:
                state.ghosts[place] = old


def _equal(recording: Recording, first: int, second: int, final: dict[int, int]) -> bool:
    """Whether two nodes have the same operation, type and operands."""
    nodes = recording.nodes

    def key(node: int) -> tuple[object, ...]:
        operands = [final.get(operand, operand) for operand in nodes.operands[node]]
        return (
            nodes.operation[node],
            nodes.type[node],
            [nodes.label[o] if nodes.kind[o] == "constant" else o for o in operands],
        )

    return key(first) == key(second)
