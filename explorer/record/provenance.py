"""Provenance: which kernel computes what the user wrote, and where, in both directions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol, TypeAlias

from explorer.record.rows import Decision, Group, Nodes, Schedule, Source

Fate: TypeAlias = Literal["computed", "merged", "replaced", "absorbed", "there", "unneeded"]
"""What became of a recorded node: a kernel computes it; an equal node does; what stands for it does; what replaced
its readers does; its value is there before the run; or nothing that reads it is left."""


class Tables(Protocol):
    """The tables of a recording through which nodes are traced."""

    nodes: Nodes
    schedule: Schedule | None
    sources: list[Source]
    substitutions: list[tuple[int, int, int]]
    groups: list[Group]
    decisions: list[Decision]

    @property
    def end(self) -> int:
        """The last position: all decisions taken."""

    @property
    def roots(self) -> tuple[int, ...]:
        """The nodes whose values were asked for, as recorded."""

    def resolver(self, position: int) -> dict[int, int]:
        """Return old id → id that stands for it at a position, transitively."""


@dataclass(frozen=True, slots=True)
class Origin:
    """What a kernel computes: the recorded nodes, and the lines (rows of ``Recording.sources``) that wrote them."""

    nodes: tuple[int, ...]
    sources: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Account:
    """What became of a recorded node: its fate, the kernels that compute it, and the decisions that led there."""

    fate: Fate
    stands: int
    """the node that stands for it in the end; −1 where none does"""
    kernels: tuple[int, ...]
    decisions: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Provenance:
    """Kernels, by their number from 0 in the schedule, beside the recorded nodes of the top graph."""

    kernels: tuple[Origin, ...]
    nodes: Mapping[int, Account]
    sources: tuple[Source, ...]
    before: Mapping[int, Sequence[int]]
    """node → the nodes in whose place it stands, one step back"""

    def recorded(self, nodes: Iterable[int]) -> tuple[int, ...]:
        """The recorded nodes in whose place some nodes stand: themselves where they were recorded."""
        return tuple(sorted([node for node in _reached(nodes, self.before) if node in self.nodes]))

    def lines(self, kernel: int) -> tuple[Source, ...]:
        """The lines of the user's program that a kernel computes."""
        return tuple([self.sources[row] for row in self.kernels[kernel].sources])

    def at(self, line: int | str, where: str | None = None) -> tuple[int, ...]:
        """The kernels that compute something of a line, given by its number or a part of its text."""
        rows = {
            row
            for row, source in enumerate(self.sources)
            if (source.line == line if isinstance(line, int) else line in source.text) and where in (None, source.where)
        }
        return tuple([number for number, origin in enumerate(self.kernels) if rows.intersection(origin.sources)])


def provenance(recording: Tables) -> Provenance:
    """Trace every kernel back to recorded nodes and lines, and every recorded node on to kernels or its end."""
    rows, kernels = recording.nodes, recording.schedule.kernels if recording.schedule else ()
    recorded = [node for node in range(len(rows)) if rows.born[node] < 0 and rows.body[node] == 0]
    before = predecessors(recording)
    made_by: dict[int, list[int]] = {node: [] for node in recorded}
    origins: list[list[int]] = []
    for number, kernel in enumerate(kernels):
        found = [node for node in _reached(kernel.nodes, before) if node in made_by and rows.operands[node]]
        for node in found:
            made_by[node].append(number)
        origins.append(found or [node for node in _reached(kernel.nodes, before) if node in made_by])
    live = _live(recording)
    accounts = _accounts(recording, recorded, made_by, live)
    for node, account in accounts.items():
        if account.fate == "absorbed":
            for number in account.kernels:
                origins[number].append(node)
    lines = [
        sorted({rows.source[node] for node in (*kernel.nodes, *origin)} - {-1})
        for kernel, origin in zip(kernels, origins, strict=True)
    ]
    made = [Origin(tuple(sorted(nodes)), tuple(sources)) for nodes, sources in zip(origins, lines, strict=True)]
    return Provenance(tuple(made), accounts, tuple(recording.sources), before)


def predecessors(recording: Tables) -> dict[int, list[int]]:
    """Node → the nodes in whose place it stands, one step back."""
    before: dict[int, list[int]] = {}
    placed: set[tuple[int, int]] = set()
    for decision, old, new in recording.substitutions:
        before.setdefault(new, []).append(old)
        placed.add((decision, new))
    for group in recording.groups:
        calls = recording.decisions[group.decision].subjects
        if group.kind == "function" and calls:
            each = len(group.members) // len(calls)  # the insides of its calls, one call after the other
            for place, node in enumerate(group.members):
                before.setdefault(node, []).append(calls[place // each])
                placed.add((group.decision, node))
    rows = recording.nodes
    for node, born in enumerate(rows.born):
        if born >= 0 and (born, node) not in placed:
            before.setdefault(node, []).extend(recording.decisions[born].subjects)
    return before


def _reached(start: Iterable[int], edges: Mapping[int, Iterable[int]]) -> list[int]:
    seen = dict.fromkeys(start)
    pending = list(seen)
    while pending:
        for other in edges.get(pending.pop(), ()):
            if other not in seen:
                seen[other] = None
                pending.append(other)
    return list(seen)


def _live(recording: Tables) -> set[int]:
    """The nodes that the roots need in the end."""
    final = recording.resolver(recording.end)
    operands = recording.nodes.operands
    seen = {final.get(root, root) for root in recording.roots}
    pending = list(seen)
    while pending:
        for operand in operands[pending.pop()]:
            other = final.get(operand, operand)
            if other not in seen:
                seen.add(other)
                pending.append(other)
    return seen


def _accounts(
    recording: Tables, recorded: list[int], made_by: Mapping[int, list[int]], live: set[int]
) -> dict[int, Account]:
    rows = recording.nodes
    final = recording.resolver(recording.end)
    taken: dict[int, list[int]] = {}
    for number, old, _ in recording.substitutions:
        taken.setdefault(old, []).append(number)
    readers: dict[int, list[int]] = {}
    for node in recorded:
        for operand in rows.operands[node]:
            readers.setdefault(operand, []).append(node)
    accounts: dict[int, Account] = {}
    for node in reversed(recorded):
        stands = final.get(node, node)
        kernels = made_by[node]
        decisions = [*taken.get(node, ()), *([rows.gone[node]] if rows.gone[node] >= 0 else ())]
        fate: Fate
        if stands in live and not kernels:
            fate = "there"
        elif kernels:
            merged = any(recording.decisions[number].rule == "Dedup" for number in taken.get(node, ()))
            fate = "computed" if stands == node and node in live else "merged" if merged else "replaced"
        else:
            above = [accounts[reader] for reader in readers.get(node, ())]
            kernels = [number for account in above for number in account.kernels]
            decisions += [number for account in above for number in account.decisions]
            fate = "absorbed" if kernels and rows.operands[node] else "unneeded"
        found = tuple(sorted(set(kernels))) if fate != "unneeded" else ()
        accounts[node] = Account(fate, stands if stands in live else -1, found, tuple(sorted(set(decisions))))
    return dict(sorted(accounts.items()))
