"""State at a position: the node in each slot, ghosts, edges, outlined groups, numbers and duplicates.

scene/scene.js computes the same at every step in the browser; tests/browser/test_same_picture.py compares the two.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from explorer.record import Group, Nodes, Recording
from explorer.view.tree.slots import Slots, source

_GHOSTS = 3
"""maximum number of duplicates of a node shown as ghosts at the end; "×n" counts all of them"""


@dataclass(slots=True)
class State:
    """State of a recording at one position, by slot."""

    shown: dict[int, int] = field(default_factory=dict)
    """slot → its current node"""
    ghosts: dict[int, int] = field(default_factory=dict)
    """empty slot → the last node in it"""
    edges: dict[tuple[int, int], None] = field(default_factory=dict)
    declined_edges: dict[tuple[int, int], None] = field(default_factory=dict)
    """edges that the decision before the position declined to fuse"""
    ghost_edges: dict[tuple[int, int], None] = field(default_factory=dict)
    groups: list[tuple[Group, list[int]]] = field(default_factory=list)
    """outlined groups, and their slots"""
    numbers: dict[int, int] = field(default_factory=dict)
    """node → 1-based schedule position of its kernel, after all decisions"""
    again: set[int] = field(default_factory=set)
    """slots of the values that several kernels compute"""
    outputs: set[int] = field(default_factory=set)
    """slots of the outputs of the program, or of a function"""
    copies: dict[int, int] = field(default_factory=dict)
    """slot → number of equal nodes merged into its node, including the node itself"""


def state_at(recording: Recording, slots: Slots, position: int) -> State:
    """Return the state at a position, with the ghosts of its stage, or with a few duplicates at the end."""
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
    _copies(recording, slots, position, state)
    outputs = [final.get(node, node) for body in recording.bodies for node in body.outputs]
    state.outputs = state.shown.keys() & {slots.of[source(recording, node)] for node in outputs}
    for slot, node in state.shown.items():
        for operand in nodes.operands[node]:
            producer = slots.of[source(recording, final.get(operand, operand))]
            if producer >= 0 and producer != slot:
                state.edges[producer, slot] = None
            before = slots.of[source(recording, operand)]
            if before in state.ghosts:
                state.ghost_edges[before, slot] = None
    if position < recording.end:
        for decision, *ends in recording.declined_edges:
            operand, reader = [slots.of[source(recording, final.get(node, node))] for node in ends]
            if decision == position - 1 and (operand, reader) in state.edges:
                state.declined_edges[operand, reader] = None
    for slot, node in state.ghosts.items():
        for operand in nodes.operands[node]:
            producer = slots.of[source(recording, final.get(operand, operand))]
            if producer >= 0 and producer != slot:
                state.ghost_edges[producer, slot] = None
    for group, last in zip(recording.groups, outlined(recording), strict=True):
        if group.decision < position <= last:
            visible = [slots.of[node] for node in group.members if state.shown.get(slots.of[node]) == node]
            if len(visible) > 1:
                state.groups.append((group, visible))
    if state.groups:
        state.again = {slots.of[node] for node in recording.computed_again}
    if recording.schedule is not None and position == recording.end:
        numbered = list(enumerate(recording.schedule.kernels, 1))
        # A node that several kernels compute has the number of the kernel that writes it, else of the first.
        for number, kernel in reversed(numbered):
            state.numbers.update(dict.fromkeys(kernel.nodes, number))
        state.numbers.update({kernel.nodes[-1]: number for number, kernel in reversed(numbered)})
    return state


def _oldest_ghost(recording: Recording, position: int) -> int:
    if position == recording.end:
        # No decision follows the position in this stage, so the end has no ghosts except duplicates.
        return position
    return max((stage.first for stage in recording.stages if stage.first < position), default=0)


def _copies(recording: Recording, slots: Slots, position: int, state: State) -> None:
    """Count the duplicates of each remaining node; at the end the first ones remain as ghosts."""
    rows = merges(recording, slots)
    slot_of = {node: slot for slot, node in state.shown.items()}
    counts = copies(recording, rows, position)
    state.copies = {slot_of[node]: count for node, count in counts.items() if node in slot_of}
    if position < recording.end:
        return
    survivors = {node: node for node in slot_of}
    # Backwards, so that the remaining node is first known for the later of two merges.
    for row in reversed(rows):
        _, old, new = recording.substitutions[row]
        survivors[old] = survivors.get(new, -1)
    ghosts: dict[int, int] = {}
    for row in rows:
        _, old, _ = recording.substitutions[row]
        slot, survivor = slots.of[old], survivors[old]
        ghosts[survivor] = ghosts.get(survivor, 0) + 1
        if survivor >= 0 and ghosts[survivor] <= _GHOSTS and slot >= 0 and slot not in state.shown:
            state.ghosts[slot] = old


def merges(recording: Recording, slots: Slots) -> list[int]:
    """Return the rows of ``substitutions`` that replace a node by an equal node in another slot.

    Equal nodes have the same operation, type and operands after the decision; constants are equal if they are written
    alike.
    """
    nodes, of = recording.nodes, slots.of
    final: dict[int, int] = {}
    merged: list[int] = []
    rows = recording.substitutions
    entered = 0
    for number, (decision, old, new) in enumerate(rows):
        # Operands are compared after the decision, so all of its replacements are entered before any is looked up.
        while entered < len(rows) and rows[entered][0] <= decision:
            final[rows[entered][1]] = rows[entered][2]
            entered += 1
        is_moved = of[new] >= 0 and of[old] != of[new]
        is_alike = nodes.operation[old] == nodes.operation[new] and nodes.type[old] == nodes.type[new]
        if is_moved and is_alike and _operands(nodes, final, old) == _operands(nodes, final, new):
            merged.append(number)
    return merged


def copies(recording: Recording, rows: list[int], position: int) -> dict[int, int]:
    """Map each node with merged duplicates to their number, including the node."""
    counts: dict[int, int] = {}
    for row in rows:
        decision, old, new = recording.substitutions[row]
        if decision < position:
            counts[new] = counts.get(new, 1) + counts.get(old, 1)
    return counts


def _operands(nodes: Nodes, final: dict[int, int], node: int) -> list[int | str]:
    """Return the operands of a node after some replacements: a constant as written, others by index."""
    read = [_replacement(final, operand) for operand in nodes.operands[node]]
    return [nodes.label[operand] if nodes.kind[operand] == "constant" else operand for operand in read]


def _replacement(final: dict[int, int], node: int) -> int:
    """Follow replacements to their end, and shorten the path for later look-ups."""
    last = node
    while last in final:
        last = final[last]
    while node != last:
        final[node], node = last, final[node]
    return last


def outlined(recording: Recording) -> list[int]:
    """Return for each group the last position at which it is outlined; −1 if it never is.

    Groups grow, so of the groups of a node only the latest is outlined, from the position after its decision. Kernels
    that one stage made, and that compute a common node again, are all outlined.
    """
    again = recording.computed_again
    latest: dict[int, int] = {}
    """node → the next group that contains it"""
    last = [-1] * len(recording.groups)
    members = [frozenset(group.members) for group in recording.groups]
    for number in range(len(recording.groups) - 1, -1, -1):
        group = recording.groups[number]
        if group.kind != "function":
            later = {latest[node] for node in group.members if node in latest}
            ends = [
                recording.groups[row].decision
                for row in later
                if again.isdisjoint(members[row] & members[number])
                or members[row] >= members[number]
                or not _made_together(recording, number, row)
            ]
            last[number] = min(ends, default=recording.end)
            latest.update(dict.fromkeys(group.members, number))
    return last


def _made_together(recording: Recording, number: int, other: int) -> bool:
    """Return whether one stage made two kernels."""
    groups = recording.groups[number], recording.groups[other]
    stages = {recording.decisions[group.decision].stage for group in groups}
    return len(stages) == 1 and all(group.kind == "kernel" for group in groups)
