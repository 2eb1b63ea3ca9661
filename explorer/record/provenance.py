"""Provenance: maps from kernels to the nodes and lines of the user's program that they compute, and back.

The maps are derived from the decisions of a recording: each pass records which nodes it replaced, and these
replacements form chains.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol, TypeAlias

from explorer.record.rows import Decision, Group, Nodes, Schedule, Source, Stage

Fate: TypeAlias = Literal["computed", "merged", "replaced", "absorbed", "there", "unneeded"]
"""Fate of a recorded node: "computed" by a kernel; "merged" into an equal node; "replaced" by another node; "absorbed"
if the replacement of its readers computes it; "there" if it exists before the run; "unneeded" if no readers are left.
"""


class Tables(Protocol):
    """Tables of a recording that are needed to trace nodes."""

    nodes: Nodes
    schedule: Schedule | None
    sources: list[Source]
    substitutions: list[tuple[int, int, int]]
    groups: list[Group]
    stages: list[Stage]
    decisions: list[Decision]

    @property
    def end(self) -> int:
        """Position after all decisions."""

    @property
    def roots(self) -> tuple[int, ...]:
        """Recorded nodes whose values were requested."""

    def resolver(self, position: int) -> dict[int, int]:
        """Return replaced node → its final replacement at ``position``."""


@dataclass(frozen=True, slots=True)
class Origin:
    """Recorded nodes that a kernel computes, and their lines (rows of ``Recording.sources``)."""

    nodes: tuple[int, ...]
    sources: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Account:
    """Fate of a recorded node, the kernels that compute it, and the decisions that caused its fate."""

    fate: Fate
    stands: int
    """final replacement of the node, or −1"""
    kernels: tuple[int, ...]
    decisions: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Provenance:
    """Map between kernels and the recorded nodes of the top graph that they compute.

    A kernel is given by its index in the schedule.
    """

    kernels: tuple[Origin, ...]
    nodes: Mapping[int, Account]
    sources: tuple[Source, ...]
    before: Mapping[int, Sequence[int]]
    """node → nodes that it replaces directly"""

    def recorded(self, nodes: Iterable[int]) -> tuple[int, ...]:
        """Return the recorded nodes that ``nodes`` replace; a recorded node represents itself."""
        return tuple(sorted([node for node in _reached(nodes, self.before) if node in self.nodes]))

    def lines(self, kernel: int) -> tuple[Source, ...]:
        """Return the lines of the user's program that ``kernel`` computes."""
        return tuple([self.sources[row] for row in self.kernels[kernel].sources])

    def at(self, line: int | str, where: str | None = None) -> tuple[int, ...]:
        """Return the kernels that compute part of a line, which is given as a number or as part of its text."""
        rows = {
            row
            for row, source in enumerate(self.sources)
            if (source.line == line if isinstance(line, int) else line in source.text) and where in (None, source.where)
        }
        return tuple([index for index, origin in enumerate(self.kernels) if rows.intersection(origin.sources)])


def provenance(recording: Tables) -> Provenance:
    """Return the recorded nodes and lines of every kernel, and the kernels or the fate of every recorded node."""
    rows, kernels = recording.nodes, recording.schedule.kernels if recording.schedule else ()
    recorded = [node for node in range(len(rows)) if rows.born[node] < 0 and rows.body[node] == 0]
    subjects = [decision.subjects for decision in recording.decisions]
    replaced = predecessors(rows, recording.groups, recording.substitutions, subjects)
    made_by: dict[int, list[int]] = {node: [] for node in recorded}
    origins: list[list[int]] = []
    for index, kernel in enumerate(kernels):
        computed = [node for node in _reached(kernel.nodes, replaced) if node in made_by and rows.operands[node]]
        for node in computed:
            made_by[node].append(index)
        # If the search finds no recorded operation below a kernel, the kernel depends only on leaves.
        origins.append(computed or [node for node in _reached(kernel.nodes, replaced) if node in made_by])
    live_nodes = _live(recording)
    accounts = _accounts(recording, recorded, made_by, live_nodes)
    for node, account in accounts.items():
        if account.fate == "absorbed":
            for index in account.kernels:
                origins[index].append(node)
    lines = [
        sorted({rows.source[node] for node in (*kernel.nodes, *origin)} - {-1})
        for kernel, origin in zip(kernels, origins, strict=True)
    ]
    kernel_origins = [
        Origin(tuple(sorted(nodes)), tuple(sources)) for nodes, sources in zip(origins, lines, strict=True)
    ]
    return Provenance(tuple(kernel_origins), accounts, tuple(recording.sources), replaced)


def predecessors(
    nodes: Nodes,
    groups: Iterable[Group],
    substitutions: Iterable[tuple[int, int, int]],
    subjects: Sequence[tuple[int, ...]],
) -> dict[int, list[int]]:
    """Return the nodes that each node directly replaces; ``subjects`` lists the subjects of each decision."""
    replaced: dict[int, list[int]] = {}
    exact: set[tuple[int, int]] = set()
    for decision, old, new in substitutions:
        replaced.setdefault(new, []).append(old)
        # A substitution defines exactly which node is replaced; other products of a decision replace all of its
        # subjects.
        exact.add((decision, new))
    for group in groups:
        calls = subjects[group.decision]
        if group.kind == "function" and calls:
            size = len(group.members) // len(
                calls
            )  # members: the nodes of the first call's body, then of the second call's body, …
            for index, node in enumerate(group.members):
                replaced.setdefault(node, []).append(calls[index // size])
                exact.add((group.decision, node))
    for node, born in enumerate(nodes.born):
        if born >= 0 and (born, node) not in exact:
            replaced.setdefault(node, []).extend(subjects[born])
    return replaced


def _reached(start: Iterable[int], edges: Mapping[int, Iterable[int]]) -> list[int]:
    """Return all nodes reachable from ``start``, in order of discovery."""
    visited = dict.fromkeys(start)
    pending = list(visited)
    while pending:
        for neighbour in edges.get(pending.pop(), ()):
            if neighbour not in visited:
                visited[neighbour] = None
                pending.append(neighbour)
    return list(visited)


def _live(recording: Tables) -> set[int]:
    """Return the nodes on which the roots depend after all passes."""
    final = recording.resolver(recording.end)
    operands = recording.nodes.operands
    live = {final.get(root, root) for root in recording.roots}
    pending = list(live)
    while pending:
        for operand in operands[pending.pop()]:
            current = final.get(operand, operand)
            if current not in live:
                live.add(current)
                pending.append(current)
    return live


def _accounts(
    recording: Tables, recorded: list[int], made_by: Mapping[int, list[int]], live: set[int]
) -> dict[int, Account]:
    """Return the fate of each recorded node.

    Readers are visited first, because an absorbed node is in its readers' kernels.
    """
    rows = recording.nodes
    final = recording.resolver(recording.end)
    merging = {
        decision
        for stage in recording.stages
        if stage.decides == "merging"
        for decision in range(stage.first, stage.last)
    }
    replaced_by: dict[int, list[int]] = {}
    for decision, old, _ in recording.substitutions:
        replaced_by.setdefault(old, []).append(decision)
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
            merged = any(decision in merging for decision in replaced_by.get(node, ()))
            fate = "computed" if replacement == node and node in live else "merged" if merged else "replaced"
        else:
            reader_accounts = [accounts[reader] for reader in readers.get(node, ())]
            kernels = [decision for account in reader_accounts for decision in account.kernels]
            decisions += [decision for account in reader_accounts for decision in account.decisions]
            # No kernel computes the node, because the replacement of its readers does not read it, or nothing needs it.
            fate = "absorbed" if kernels and rows.operands[node] else "unneeded"
        sorted_kernels = tuple(sorted(set(kernels))) if fate != "unneeded" else ()
        accounts[node] = Account(
            fate, replacement if replacement in live else -1, sorted_kernels, tuple(sorted(set(decisions)))
        )
    return dict(sorted(accounts.items()))
