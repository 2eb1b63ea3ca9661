"""Comparison of two recordings: counts, decisions in only one of them, and kernels matched by their nodes.

Kernels have no identity across plans, but recorded nodes do: two kernels correspond if they compute a common recorded
node. Decisions are equal if their texts are equal, regardless of the ids of nodes. The others correspond if the same
rule decided about the same nodes.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from explorer.record.compare.matching import Matching, SameOperation, compared_attributes, match
from explorer.record.compare.operators import OperatorDifferences
from explorer.record.provenance import Provenance
from explorer.record.reasons import counted_text, render
from explorer.record.recording import Recording
from explorer.record.rows import COMMUTATIVE, Decision, total


@dataclass(frozen=True, slots=True)
class Regrouped:
    """Kernels of both sides that compute the same recorded nodes; ``same`` is True if the kernels are identical."""

    before: tuple[int, ...]
    after: tuple[int, ...]
    same: bool


@dataclass(frozen=True, slots=True)
class WeightDifferences:
    """Matched weights of two models: the number of equal weights, and a line of text for each weight that differs."""

    equal: int
    transposed: int
    """number of matrices that are equal after a transposition, which the graph contains"""
    differ: tuple[str, ...]

    def __str__(self) -> str:
        transposed = f", {self.transposed:,} with the same values transposed" if self.transposed else ""
        return f"weights: {self.equal:,} with the same values{transposed}, {len(self.differ):,} with others"


@dataclass(frozen=True, repr=False)
class Comparison:
    """Differences between two recordings of plans, which plan the same graph or two graphs."""

    before: Recording
    after: Recording
    nodes: Matching
    """pairs of recorded nodes, and unpaired recorded nodes"""
    counts: dict[str, tuple[float | None, float | None]]
    """name → (value before, value after); None if a recording lacks the value, for example a measured time"""
    options: dict[str, tuple[Any, Any]]
    """name → (value before, value after) for options that differ"""
    decisions_before: tuple[Decision, ...]
    """decisions that only the first plan contains"""
    decisions_after: tuple[Decision, ...]
    kernels: tuple[Regrouped, ...]
    counterparts: dict[int, int]
    """node before → node after, for recorded nodes and for nodes that passes produced"""
    decisions: dict[int, int]
    """decision before → equal decision after"""
    changed: dict[int, int]
    """decision before → decision after of the same rule about the same nodes, with another verdict or reason; for the
    decisions without an equal one
    """
    follows: tuple[tuple[int, ...], tuple[int, ...]]
    """for each kernel of either recording: the last kernel of the other recording that computes a common recorded node,
    or −1
    """
    weights: WeightDifferences | None = None
    """differences of weights; None if no values were compared: recordings contain no values"""
    operators: OperatorDifferences | None = None
    """differences of the operators of two model files; None if either recording is of another program"""

    def __repr__(self) -> str:
        differ = sum(not regrouped.same for regrouped in self.kernels)
        decisions = len(self.decisions_before) + len(self.decisions_after)
        return (
            f"<comparison of {self.before.fingerprint} with {self.after.fingerprint}: "
            f"{counted_text(len(self.nodes.pairs), 'node')} matched, {decisions:,} decisions of one side only, "
            f"{differ:,} groups of kernels differ>"
        )

    @property
    def is_across(self) -> bool:
        """Whether the recordings are of two compilers, so neither attributes nor decisions can be equal."""
        return self.before.compiler != self.after.compiler

    @property
    def equal(self) -> bool:
        """Whether graph, decisions and kernels are equal, and also the weights if they were compared."""
        return (
            self.nodes.equal
            and not self.decisions_before
            and not self.decisions_after
            and all(regrouped.same for regrouped in self.kernels)
            and not (self.weights and self.weights.differ)
            and not (self.operators and not self.operators.equal)
        )


def compare(before: Recording, after: Recording, same_operation: SameOperation | None = None) -> Comparison:
    """Compare two recordings. Nodes of different graphs are matched by structure.

    ``same_operation`` returns one name for the names of an operation in two compilers, as in `match`.
    """
    nodes = match(before, after, same_operation)
    counts_before, counts_after = counts_of(before), counts_of(after)
    names = sorted({*before.options, *after.options})
    options = {name: (before.options.get(name), after.options.get(name)) for name in names}
    texts, texts_after = (_decision_texts(recording) for recording in (before, after))
    decisions = _pair_equal(texts, texts_after)
    paired = set(decisions.values())
    computed = _computed(before, after, nodes)
    node_pairs = counterparts(before, after, nodes, same_operation)
    return Comparison(
        before,
        after,
        nodes,
        {name: (counts_before[name], counts_after[name]) for name in counts_before},
        {name: pair for name, pair in options.items() if pair[0] != pair[1]},
        tuple([decision for index, decision in enumerate(before.decisions) if index not in decisions]),
        tuple([decision for index, decision in enumerate(after.decisions) if index not in paired]),
        _kernels(before, after, computed),
        node_pairs,
        decisions,
        _changed(before, after, decisions, node_pairs),
        (_follows(computed[0], computed[1]), _follows(computed[1], computed[0])),
    )


def counts_of(recording: Recording) -> dict[str, float | None]:
    """Return the counts and times of a recording by name; None if the recording lacks a value."""
    schedule, run = recording.schedule, recording.run
    last = next((stage for stage in reversed(recording.stages) if stage.kind != "run"), None)
    counts: dict[str, float | None] = dict.fromkeys(_NAMES)
    if last is not None:
        counts["nodes"], counts["operations"] = last.counts.get("nodes"), last.counts.get("operations")
    if schedule is not None:
        final = recording.resolver(recording.end)
        roots = {final.get(root, root) for root in recording.roots}
        kernels = schedule.kernels
        # Returned results are never temporary.
        temporary = [kernel for kernel in kernels if kernel.bytes and kernel.nodes[-1] not in roots]
        estimate = recording.estimate()
        counts |= {
            "kernels": len(kernels),
            "flops": total(kernel.flops for kernel in kernels),
            "bytes": sum([kernel.bytes for kernel in kernels]),
            "temporaries": len(temporary),
            "temporary_bytes": sum([kernel.bytes for kernel in temporary]),
            "peak_bytes": schedule.peak,
            "estimated_us": None if estimate is None else round(estimate, 3),
        }
    counts["measured_us"] = run.micros if run is not None else None
    return counts


_NAMES = (
    "nodes",
    "operations",
    "kernels",
    "flops",
    "bytes",
    "temporaries",
    "temporary_bytes",
    "peak_bytes",
    "estimated_us",
    "measured_us",
)


def _decision_texts(recording: Recording) -> list[tuple[str, ...]]:
    """Return the rule, verdict, code and text of each decision, without the ids of its nodes."""
    return [(d.rule, d.verdict, d.code, render(d.reason, d.facts, recording.label)) for d in recording.decisions]


def _pair_equal(texts: list[tuple[str, ...]], others: list[tuple[str, ...]]) -> dict[int, int]:
    """Return pairs of equal decisions as first index → second index; equal decisions are paired in order."""
    unpaired: dict[tuple[str, ...], deque[int]] = {}
    for index, row_text in enumerate(others):
        unpaired.setdefault(row_text, deque()).append(index)
    return {index: unpaired[row_text].popleft() for index, row_text in enumerate(texts) if unpaired.get(row_text)}


def _changed(before: Recording, after: Recording, equal: dict[int, int], node_pairs: dict[int, int]) -> dict[int, int]:
    """Return pairs of decisions of one rule about the same nodes, among those without an equal decision."""
    paired, unpaired = set(equal.values()), dict[Hashable, deque[int]]()
    for index, decision in enumerate(after.decisions):
        if index not in paired:
            unpaired.setdefault((decision.rule, frozenset(decision.subjects)), deque()).append(index)
    changed = {}
    for index, decision in enumerate(before.decisions):
        if index not in equal:
            key = decision.rule, frozenset(node_pairs.get(node, -1) for node in decision.subjects)
            if candidates := unpaired.get(key):
                changed[index] = candidates.popleft()
    return changed


def _computed(
    before: Recording, after: Recording, nodes: Matching
) -> tuple[list[frozenset[Any]], list[frozenset[Any]]]:
    """Return the recorded nodes that each kernel computes, for both recordings.

    Nodes are ids of the first recording. An unmatched node of the second recording is (1, id), and the nodes of the
    n-th pair of regions are (2, n) on both sides.
    """
    node_before: dict[int, Any] = {node_after: node for node, node_after in nodes.pairs.items()}
    node_of: dict[int, Any] = {}
    for number, (region, other) in enumerate(nodes.regions):
        node_of.update(dict.fromkeys(region, (2, number)))
        node_before.update(dict.fromkeys(other, (2, number)))
    return (
        [frozenset([node_of.get(node, node) for node in origin.nodes]) for origin in before.provenance.kernels],
        [frozenset([node_before.get(node, (1, node)) for node in origin.nodes]) for origin in after.provenance.kernels],
    )


def _follows(kernels: list[frozenset[Any]], others: list[frozenset[Any]]) -> tuple[int, ...]:
    """Return, for each kernel, the last kernel of the other recording that computes a common recorded node, or −1."""
    last = {node: index for index, nodes in enumerate(others) for node in nodes}
    return tuple([max([last.get(node, -1) for node in nodes], default=-1) for nodes in kernels])


def _kernels(
    before: Recording, after: Recording, sides: tuple[list[frozenset[Any]], list[frozenset[Any]]]
) -> tuple[Regrouped, ...]:
    """Group the kernels that compute a common recorded node, directly or through other kernels."""
    computed = [
        (side, kernel_index, nodes) for side, kernels in enumerate(sides) for kernel_index, nodes in enumerate(kernels)
    ]
    parent = list(range(len(computed)))

    def top(index: int) -> int:
        while parent[index] != index:
            # Path halving keeps later look-ups short.
            parent[index] = parent[parent[index]]
            index = parent[index]
        return index

    owner: dict[Any, int] = {}
    for index, (_, _, nodes) in enumerate(computed):
        for node in nodes:
            first, second = top(owner.setdefault(node, index)), top(index)
            # The smaller index becomes the root of a union, so groups are in the order of the first plan's kernels.
            parent[max(first, second)] = min(first, second)
    kernels_of_group: dict[int, tuple[list[int], list[int]]] = {}
    for index, (side, kernel_index, _) in enumerate(computed):
        kernels_of_group.setdefault(top(index), ([], []))[side].append(kernel_index)
    regrouped = []
    for kernels_before, kernels_after in kernels_of_group.values():
        is_same = len(kernels_before) == len(kernels_after) and Counter(
            _labels(before, n) for n in kernels_before
        ) == Counter(_labels(after, n) for n in kernels_after)
        regrouped.append(Regrouped(tuple(kernels_before), tuple(kernels_after), is_same))
    return tuple(regrouped)


def _labels(recording: Recording, index: int) -> tuple[str, ...]:
    assert recording.schedule is not None
    return tuple([recording.label(node) for node in recording.schedule.kernels[index].nodes])


def counterparts(
    before: Recording, after: Recording, nodes: Matching, same_operation: SameOperation | None = None
) -> dict[int, int]:
    """Return node before → node after, for recorded nodes and for nodes that passes produced.

    Produced nodes are paired first if they apply equal operations to paired operands, and then if they apply equal
    operations and replace the same recorded nodes.
    """
    digests: dict[Hashable, int] = {}
    node_before = {node_after: node for node, node_after in nodes.pairs.items()}
    bodies = {node_after: body for body, node_after in nodes.bodies.items()}
    first = _Produced(
        before, {node: node for node in nodes.pairs}, {body: body for body in nodes.bodies}, digests, same_operation
    )
    second = _Produced(after, node_before, bodies, digests, same_operation)
    pairs = dict(nodes.pairs)
    _pair(first.digests, second.digests, pairs)
    paired = set(pairs.values())
    # Trace provenance only if unmatched nodes remain, because tracing visits every decision.
    unpaired_before = {node for node in first.digests if node not in pairs}
    unpaired_after = {node for node in second.digests if node not in paired}
    if unpaired_before and unpaired_after:
        _pair(first.stands_for(unpaired_before), second.stands_for(unpaired_after), pairs)
    return pairs


def _pair(first: dict[int, Hashable], second: dict[int, Hashable], pairs: dict[int, int]) -> None:
    """Pair unpaired nodes that have equal keys, in order; add the pairs to ``pairs``."""
    unpaired: dict[Hashable, deque[int]] = {}
    for node, key in second.items():
        unpaired.setdefault(key, deque()).append(node)
    for node, key in first.items():
        candidates = unpaired.get(key)
        if candidates and node not in pairs:
            pairs[node] = candidates.popleft()


class _Produced:
    """Nodes that passes produced, with a digest of each node."""

    def __init__(
        self,
        recording: Recording,
        paired: dict[int, int],
        bodies: dict[int, int],
        structure_digests: dict[Hashable, int],
        same_operation: SameOperation | None,
    ) -> None:
        self.recording, self.paired = recording, paired
        rows = recording.nodes
        self.keys: dict[int, Hashable] = {}
        """node → key of the node without its operands: kind, name, type, attributes and function"""
        self.digests: dict[int, Hashable] = {}
        """node → digest of its operation and operands"""
        digest_of: dict[int, Hashable] = {}
        for node in range(len(rows)):
            if rows.born[node] < 0:
                # An unpaired node gets a unique digest, so the nodes that read it have no counterpart with equal
                # structure.
                digest_of[node] = ("pair", paired[node]) if node in paired else ("alone", id(self), node)
                continue
            attributes = tuple(sorted(compared_attributes(rows, node).items()))
            label = "" if rows.kind[node] == "operation" else rows.label[node]
            operation = recording.operations[rows.operation[node]]
            if same_operation:
                operation, attributes = same_operation(operation), ()
            function = self._function(node, bodies)
            self.keys[node] = rows.kind[node], operation, label, recording.type_text(node), attributes, function
            operand_digests = [digest_of.get(operand, -1) for operand in rows.operands[node]]
            structure = (
                self.keys[node],
                *(sorted(operand_digests, key=repr) if operation in COMMUTATIVE else operand_digests),
            )
            digest_of[node] = self.digests[node] = structure_digests.setdefault(structure, len(structure_digests))

    @cached_property
    def _provenance(self) -> Provenance:
        return self.recording.provenance

    def _function(self, node: int, bodies: dict[int, int]) -> Hashable:
        """Return a key for the function that a call calls.

        It is the body's index in the first recording. For a body that has no counterpart, it is the set of calls that
        the new call replaces.
        """
        callee = self.recording.nodes.callee[node]
        if callee < 0:
            return -1
        return bodies[callee] if callee in bodies else self._recorded(node)

    def _recorded(self, node: int) -> frozenset[int]:
        """Return the recorded nodes that ``node`` replaces, as ids of the first recording.

        A node without a counterpart is replaced by −1.
        """
        return frozenset([self.paired.get(recorded, -1) for recorded in self._provenance.recorded([node])])

    def stands_for(self, nodes: Iterable[int]) -> dict[int, Hashable]:
        """Return node → (operation, recorded nodes that the node replaces), if a replaced node has a counterpart."""
        recorded = {node: self._recorded(node) for node in sorted(nodes)}
        return {
            node: (self.keys[node], replaced) for node, replaced in recorded.items() if max(replaced, default=-1) >= 0
        }
