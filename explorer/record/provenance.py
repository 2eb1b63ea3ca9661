"""Provenance: which kernel computes which node and line of the user's program, in both directions.

Views, profiles and ``plan.compare`` use it. It is traced from the decisions of a recording, not stored by the passes: a
pass only records which nodes it replaced, from which the chain of replacements follows.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol, TypeAlias

from explorer.record.rows import Decision, Group, Nodes, Schedule, Source

Fate: TypeAlias = Literal["computed", "merged", "replaced", "absorbed", "there", "unneeded"]
"""Fate of a recorded node: computed by a kernel; merged into an equal node; replaced by another node; absorbed, if the
replacement of its readers computes it; present before the run; or unneeded, if no readers are left."""


class Tables(Protocol):
    """Tables of a recording that are needed to trace nodes."""

    nodes: Nodes
    schedule: Schedule | None
    sources: list[Source]
    substitutions: list[tuple[int, int, int]]
    groups: list[Group]
    decisions: list[Decision]

    @property
    def end(self) -> int:
        """Last position, after all decisions."""

    @property
    def roots(self) -> tuple[int, ...]:
        """Recorded nodes whose values were requested."""

    def resolver(self, position: int) -> dict[int, int]:
        """Return a map from old ids to their replacements at a position, transitively."""


@dataclass(frozen=True, slots=True)
class Origin:
    """Recorded nodes that a kernel computes, and their lines (rows of ``Recording.sources``)."""

    nodes: tuple[int, ...]
    sources: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Account:
    """Fate of a recorded node, the kernels that compute it, and the responsible decisions."""

    fate: Fate
    stands: int
    """its final replacement, or −1"""
    kernels: tuple[int, ...]
    decisions: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Provenance:
    """Kernels, by index in the schedule, and the recorded nodes of the top graph that they compute."""

    kernels: tuple[Origin, ...]
    nodes: Mapping[int, Account]
    sources: tuple[Source, ...]
    before: Mapping[int, Sequence[int]]
    """node → nodes that it replaces directly"""

    def recorded(self, nodes: Iterable[int]) -> tuple[int, ...]:
        """Return the recorded nodes that these nodes replace; a recorded node represents itself."""
        return tuple(sorted([node for node in _reached(nodes, self.before) if node in self.nodes]))

    def lines(self, kernel: int) -> tuple[Source, ...]:
        """Return the lines of the user's program that a kernel computes."""
        return tuple([self.sources[row] for row in self.kernels[kernel].sources])

    def at(self, line: int | str, where: str | None = None) -> tuple[int, ...]:
        """Return the kernels that compute part of a line, given as a number or as part of its text."""
        rows = {
            row
            for row, source in enumerate(self.sources)
            if (source.line == line if isinstance(line, int) else line in source.text) and where in (None, source.where)
        }
        return tuple([number for number, origin in enumerate(self.kernels) if rows.intersection(origin.sources)])


def provenance(recording: Tables) -> Provenance:
    """Trace every kernel back to recorded nodes and lines, and every recorded node to its kernels or its fate."""
    rows, kernels = recording.nodes, recording.schedule.kernels if recording.schedule else ()
    recorded = [node for node in range(len(rows)) if rows.born[node] < 0 and rows.body[node] == 0]
    subjects = [decision.subjects for decision in recording.decisions]
    before = predecessors(rows, recording.groups, recording.substitutions, subjects)
    made_by: dict[int, list[int]] = {node: [] for node in recorded}
    origins: list[list[int]] = []
    for number, kernel in enumerate(kernels):
        computed = [node for node in _reached(kernel.nodes, before) if node in made_by and rows.operands[node]]
        for node in computed:
            made_by[node].append(number)
        # If no recorded operation is reached below a kernel, it depends only on leaves.
        origins.append(computed or [node for node in _reached(kernel.nodes, before) if node in made_by])
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
    kernel_origins = [
        Origin(tuple(sorted(nodes)), tuple(sources)) for nodes, sources in zip(origins, lines, strict=True)
    ]
    return Provenance(tuple(kernel_origins), accounts, tuple(recording.sources), before)


def predecessors(
    nodes: Nodes,
    groups: Iterable[Group],
    substitutions: Iterable[tuple[int, int, int]],
    subjects: Sequence[tuple[int, ...]],
) -> dict[int, list[int]]:
    """Return the nodes that each node directly replaces; ``subjects`` lists those of each decision."""
    before: dict[int, list[int]] = {}
    placed: set[tuple[int, int]] = set()
    for decision, old, new in substitutions:
        before.setdefault(new, []).append(old)
        # A substitution states exactly which node is replaced; other products of a decision replace all of its
        # subjects.
        placed.add((decision, new))
    for group in groups:
        calls = subjects[group.decision]
        if group.kind == "function" and calls:
            size = len(group.members) // len(calls)  # members: the body of the first call, then that of the second, …
            for place, node in enumerate(group.members):
                before.setdefault(node, []).append(calls[place // size])
                placed.add((group.decision, node))
    for node, born in enumerate(nodes.born):
        if born >= 0 and (born, node) not in placed:
            before.setdefault(node, []).extend(subjects[born])
    return before


def _reached(start: Iterable[int], edges: Mapping[int, Iterable[int]]) -> list[int]:
    """Return all nodes reachable from ``start``, in order of discovery."""
    seen = dict.fromkeys(start)
    pending = list(seen)
    while pending:
        for neighbour in edges.get(pending.pop(), ()):
            if neighbour not in seen:
                seen[neighbour] = None
                pending.append(neighbour)
    return list(seen)


def _live(recording: Tables) -> set[int]:
    """Return the nodes that the roots need after all passes."""
    final = recording.resolver(recording.end)
    operands = recording.nodes.operands
    seen = {final.get(root, root) for root in recording.roots}
    pending = list(seen)
    while pending:
        for operand in operands[pending.pop()]:
            current = final.get(operand, operand)
            if current not in seen:
                seen.add(current)
                pending.append(current)
    return seen


def _accounts(
    recording: Tables, recorded: list[int], made_by: Mapping[int, list[int]], live: set[int]
) -> dict[int, Account]:
    """Return the fate of each recorded node; readers come first, because an absorbed node shares their kernels."""
    rows = recording.nodes
    final = recording.resolver(recording.end)
    replaced_by: dict[int, list[int]] = {}
    for number, old, _ in recording.substitutions:
        replaced_by.setdefault(old, []).append(number)
    readers: dict[int, list[int]] = {}
    for node in recorded:
        for operand in rows.operands[node]:
            readers.setdefault(operand, []).append(node)
    accounts: dict[int, Account] = {}
    for node in reversed(recorded):  # recorded nodes are ordered with operands first
        replacement = final.get(node, node)
        kernels = made_by[node]
        decisions = [*replaced_by.get(node, ()), *([rows.gone[node]] if rows.gone[node] >= 0 else ())]
        fate: Fate
        if replacement in live and not kernels:
            fate = "there"
        elif kernels:
            merged = any(recording.decisions[number].rule == "Dedup" for number in replaced_by.get(node, ()))
            fate = "computed" if replacement == node and node in live else "merged" if merged else "replaced"
        else:
            reader_accounts = [accounts[reader] for reader in readers.get(node, ())]
            kernels = [number for account in reader_accounts for number in account.kernels]
            decisions += [number for account in reader_accounts for number in account.decisions]
            # No kernel computes it: its readers' replacement does not read it, or nothing needed it.
            fate = "absorbed" if kernels and rows.operands[node] else "unneeded"
        sorted_kernels = tuple(sorted(set(kernels))) if fate != "unneeded" else ()
        accounts[node] = Account(
            fate, replacement if replacement in live else -1, sorted_kernels, tuple(sorted(set(decisions)))
        )
    return dict(sorted(accounts.items()))
