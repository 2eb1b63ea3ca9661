"""Counterparts among the nodes that passes produced: nodes with equal operations on matched operands.

Recorded nodes are matched before (matching.py). A produced node is known by what it computes from matched operands; so
digests run from the operands up, and two plans that took the same decisions pair node by node.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable, Iterable
from functools import cached_property

from explorer.record.commutative import COMMUTATIVE
from explorer.record.compare.matching import Matching
from explorer.record.provenance import Provenance
from explorer.record.recording import Recording


def counterparts(before: Recording, after: Recording, nodes: Matching) -> dict[int, int]:
    """Return node before → node after, for recorded nodes and nodes produced by passes.

    Produced nodes are paired if they apply equal operations to paired operands, then if they apply equal operations and
    replace the same recorded nodes.
    """
    numbers: dict[Hashable, int] = {}
    known = {other: node for node, other in nodes.pairs.items()}
    bodies = {other: body for body, other in nodes.bodies.items()}
    first = _Produced(before, {node: node for node in nodes.pairs}, {body: body for body in nodes.bodies}, numbers)
    second = _Produced(after, known, bodies, numbers)
    pairs = dict(nodes.pairs)
    _pair(first.digests, second.digests, pairs)
    taken = set(pairs.values())
    # Provenance is traced only if something is left: it visits every decision.
    left = {node for node in first.digests if node not in pairs}
    rest = {node for node in second.digests if node not in taken}
    if left and rest:
        _pair(first.stands_for(left), second.stands_for(rest), pairs)
    return pairs


def _pair(first: dict[int, Hashable], second: dict[int, Hashable], pairs: dict[int, int]) -> None:
    """Pair unpaired nodes with equal keys, in order."""
    waiting: dict[Hashable, deque[int]] = {}
    for node, key in second.items():
        waiting.setdefault(key, deque()).append(node)
    for node, key in first.items():
        candidates = waiting.get(key)
        if candidates and node not in pairs:
            pairs[node] = candidates.popleft()


class _Produced:
    """Nodes that passes produced, with a digest of each."""

    def __init__(
        self, recording: Recording, paired: dict[int, int], bodies: dict[int, int], numbers: dict[Hashable, int]
    ) -> None:
        self.recording, self.paired = recording, paired
        rows = recording.nodes
        self.keys: dict[int, Hashable] = {}
        """node → key of its operation alone: kind, name, type, attributes and function"""
        self.digests: dict[int, Hashable] = {}
        """node → digest of its operation and operands"""
        digest_of: dict[int, Hashable] = {}
        for node in range(len(rows)):
            if rows.born[node] < 0:
                # An unpaired node gets a digest that no other node has: whatever reads it has no counterpart by
                # structure.
                digest_of[node] = ("pair", paired[node]) if node in paired else ("alone", id(self), node)
                continue
            attributes = tuple(sorted(rows.attributes.get(node, {}).items()))
            label = "" if rows.kind[node] == "operation" else rows.label[node]
            operation = recording.operations[rows.operation[node]]
            function = self._function(node, bodies)
            self.keys[node] = rows.kind[node], operation, label, recording.type_text(node), attributes, function
            below = [digest_of.get(each, -1) for each in rows.operands[node]]
            structure = (self.keys[node], *(sorted(below, key=repr) if operation in COMMUTATIVE else below))
            digest_of[node] = self.digests[node] = numbers.setdefault(structure, len(numbers))

    @cached_property
    def _provenance(self) -> Provenance:
        return self.recording.provenance

    def _function(self, node: int, bodies: dict[int, int]) -> Hashable:
        """Return a key of a call's function: its body's number before, or for a new body the calls that it replaces."""
        callee = self.recording.nodes.callee[node]
        if callee < 0:
            return -1
        return bodies[callee] if callee in bodies else self._recorded(node)

    def _recorded(self, node: int) -> frozenset[int]:
        """Return the recorded nodes that a node replaces, by their ids before; −1 for one without a counterpart."""
        return frozenset([self.paired.get(each, -1) for each in self._provenance.recorded([node])])

    def stands_for(self, nodes: Iterable[int]) -> dict[int, Hashable]:
        """Return node → (operation, recorded nodes that it replaces) for nodes with a counterpart among these."""
        recorded = {node: self._recorded(node) for node in sorted(nodes)}
        return {
            node: (self.keys[node], replaced) for node, replaced in recorded.items() if max(replaced, default=-1) >= 0
        }
