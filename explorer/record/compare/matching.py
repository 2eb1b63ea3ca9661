"""Matching of the recorded nodes of two recordings, by structure and then by matched neighbours.

``plan.compare`` and the side-by-side views use it. A diff of the node lists would lose pairs wherever a part of the
graph moved or was renamed; structural digests find equal parts anywhere, and neighbours match the rest.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter, deque
from collections.abc import Callable, Collection, Container, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import Any

from explorer.record.reasons import counted_text
from explorer.record.recording import Recording
from explorer.record.rows import COMMUTATIVE


@dataclass(frozen=True, slots=True)
class Matching:
    """Pairs of recorded nodes of two recordings, in the top graph and in function bodies, and unpaired nodes.

    Constants shown inside another node are part of it: they are paired, but never listed as changed or unpaired.
    """

    pairs: dict[int, int]
    """node before → node after"""
    changed: dict[int, tuple[str, ...]]
    """paired node before → list of its differences: type, attribute or operand"""
    renamed: tuple[int, ...]
    """paired nodes before that differ only in their names"""
    only_before: tuple[int, ...]
    only_after: tuple[int, ...]
    bodies: dict[int, int]
    """graph before → graph after: 0 → 0, and bodies of paired calls"""
    same: int
    """number of unchanged pairs, without constants shown inside other nodes"""
    rewired: frozenset[int]
    """subset of ``changed`` whose operations are the same and only the operands differ"""

    @property
    def equal(self) -> bool:
        """Whether both recordings have the same graph."""
        return not (self.changed or self.renamed or self.only_before or self.only_after)


def match(before: Recording, after: Recording) -> Matching:
    """Pair the recorded nodes of two recordings.

    Equal structures are paired in order, first with the names of their leaves, then without. Next come operands and
    readers of pairs, then nodes with the same operation between pairs in the same order, and last, nodes with the same
    operation in the same scope.
    """
    first, second = graphs(before, after)
    pairs: dict[int, int] = {}
    bodies = {0: 0}
    reached = {0}
    pending = deque([(0, 0)])
    while pending:
        body, other = pending.popleft()
        matched = _Match(first[body], second[other]).run()
        pairs.update(matched)
        for node, partner in matched.items():
            inner, other_inner = before.nodes.callee[node], after.nodes.callee[partner]
            # Bodies are matched once, by their first pair of calls: a body has only one partner.
            if inner >= 0 <= other_inner:
                into = first[inner].body, second[other_inner].body
                if into[0] not in bodies and into[1] not in reached:
                    bodies[into[0]] = into[1]
                    reached.add(into[1])
                    pending.append(into)
    changed: dict[int, tuple[str, ...]] = {}
    rewired: set[int] = set()
    renamed: list[int] = []
    for node, other in sorted(pairs.items()):
        if before.nodes.kind[node] == "constant":
            continue
        words, is_rewired = _differences(before, after, node, other, pairs)
        callees = before.nodes.callee[node], after.nodes.callee[other]
        # A call may look the same although its body was matched with another one.
        if min(callees) >= 0 and bodies.get(first[callees[0]].body) != second[callees[1]].body:
            words.append("another function")
            is_rewired = False
        if words:
            changed[node] = tuple(words)
            if is_rewired:
                rewired.add(node)
        elif before.nodes.kind[node] != "operation" and before.nodes.label[node] != after.nodes.label[other]:
            renamed.append(node)
    numbers = sum([before.nodes.kind[node] == "constant" for node in pairs])
    return Matching(
        dict(sorted(pairs.items())),
        changed,
        tuple(renamed),
        _alone(before, first, pairs),
        _alone(after, second, set(pairs.values())),
        bodies,
        len(pairs) - numbers - len(changed) - len(renamed),
        frozenset(rewired),
    )


def _alone(recording: Recording, graphs_by_body: dict[int, RecordedGraph], paired: Collection[int]) -> tuple[int, ...]:
    """Return the nodes without a partner, except constants."""
    kind = recording.nodes.kind
    nodes = {node for graph in graphs_by_body.values() for node in graph.nodes}
    return tuple(sorted([node for node in nodes if node not in paired and kind[node] != "constant"]))


class _Match:
    """Pairing of the nodes of two graphs."""

    def __init__(self, first: RecordedGraph, second: RecordedGraph) -> None:
        self.first, self.second = first, second
        self.pairs: dict[int, int] = {}
        self.taken: set[int] = set()
        self.fresh: deque[tuple[int, int]] = deque()

    def run(self) -> dict[int, int]:
        first, second = self.first, self.second
        # From the strongest to the weakest evidence: a wrong early pair would cause wrong pairs among its neighbours.
        self._equal(first.structure, second.structure)
        self._equal(first.bare, second.bare)
        self._grow(zip(first.outputs, second.outputs, strict=False))
        # With the type first, then without: a changed shape must not prevent a layer from being found.
        for key, other in zip(first.kinds(), second.kinds(), strict=True):
            self._align(key, other)
            self._grow(())
        self._by_place()
        return self.pairs

    def _pair(self, node: int, other: int) -> None:
        self.pairs[node] = other
        self.taken.add(other)
        # Neighbours are visited later, from a queue: recursion would follow a chain of 100,000 nodes.
        self.fresh.append((node, other))

    def _equal(self, own: dict[int, int], others: dict[int, int]) -> None:
        """Pair equal structures in order; if their counts differ, only those with equal names."""
        left = [node for node in own if node not in self.pairs]
        waiting: dict[int, deque[int]] = {}
        for node in others:
            if node not in self.taken:
                waiting.setdefault(others[node], deque()).append(node)
        counts = Counter([own[node] for node in left])
        # With equal names, any two of equal structure are interchangeable. Without names, equal counts are needed:
        # otherwise an added one would shift all others to wrong partners.
        exact = own is self.first.structure
        free = {key for key, count in counts.items() if exact or count == len(waiting.get(key, ()))}
        for node in left:
            if own[node] in free and waiting.get(own[node]):
                self._pair(node, waiting[own[node]].popleft())

    def _grow(self, also: Iterable[tuple[int, int]]) -> None:
        """Pair operands of paired nodes by index, and readers if each node has only one with that kind and operand
        index."""
        for node, other in also:
            if node in self.first.kind and other in self.second.kind:
                self._meet(node, other)
        first, second = self.first, self.second
        while self.fresh:
            node, other = self.fresh.popleft()
            both = first.operands[node], second.operands[other]
            for operand, partner in self._exchanged(*both) if first.is_commutative(node) else zip(*both, strict=False):
                self._meet(operand, partner)
            readers = _single(first.readers[node], self.pairs)
            if readers:
                others = _single(second.readers[other], self.taken)
                for way, reader in readers.items():
                    if way in others:
                        self._pair(reader, others[way])

    def _exchanged(self, reads: Sequence[int], others: Sequence[int]) -> list[tuple[int, int]]:
        """Pair the operands of commutative operations: first those that are already paired, then similar ones."""
        kinds = self.first.kind, self.second.kind
        return _together(
            reads,
            others,
            lambda operand, partner: self.pairs.get(operand) == partner,
            lambda operand, partner: kinds[0].get(operand) == kinds[1].get(partner),
        )

    def _meet(self, node: int, other: int) -> None:
        """Pair two similar nodes; if one side has an extra node, pair that node's operand instead."""
        first, second = self.first, self.second
        if node in self.pairs or other in self.taken or node in first.shared or other in second.shared:
            return
        alike = first.kind[node] == second.kind[other]
        # The other side may have one more operation between the same neighbours, so look one step past it.
        inserted = [each for each in second.operands[other] if first.kind[node] == second.kind.get(each)]
        left_out = [each for each in first.operands[node] if first.kind.get(each) == second.kind[other]]
        if alike:
            self._pair(node, other)
        elif len(inserted) == 1 and not left_out and inserted[0] not in self.taken:
            self._pair(node, inserted[0])
        elif len(left_out) == 1 and not inserted and left_out[0] not in self.pairs:
            self._pair(left_out[0], other)

    def _align(self, key: Callable[[int], Hashable], other: Callable[[int], Hashable]) -> None:
        sides = [[node for node in graph.nodes if graph.computes(node)] for graph in (self.first, self.second)]
        for node, partner in list(align(sides[0], sides[1], self.pairs, (key, other))):
            self._pair(node, partner)

    def _by_place(self) -> None:
        waiting: dict[Hashable, deque[int]] = {}
        for node in self.second.nodes:
            if node not in self.taken:
                waiting.setdefault(self.second.place(node), deque()).append(node)
        for node in self.first.nodes:
            if node not in self.pairs:
                candidates = waiting.get(self.first.place(node))
                if candidates:
                    self._pair(node, candidates.popleft())


def _single(readers: list[tuple[Hashable, int]], paired: Container[int]) -> dict[Hashable, int]:
    """Return the unpaired readers that are unique for their kind and operand index."""
    reader_by_way: dict[Hashable, int] = {}
    several: set[Hashable] = set()
    for way, reader in readers:
        # Two readers with the same kind and operand index cannot be distinguished.
        if reader not in paired and reader_by_way.setdefault(way, reader) != reader:
            several.add(way)
    return {way: reader for way, reader in reader_by_way.items() if way not in several}


def _together(reads: Sequence[int], others: Sequence[int], *alike: Callable[[int, int], bool]) -> list[tuple[int, int]]:
    """Pair similar operands of both sides, by the strictest key first; the rest in order."""
    left, right = [*enumerate(reads)], list(others)
    met: list[tuple[int, int, int]] = []
    for is_alike in alike:
        for place, operand in list(left):
            partner = next((other for other in right if is_alike(operand, other)), None)
            if partner is not None:
                left.remove((place, operand))
                right.remove(partner)
                met.append((place, operand, partner))
    met += [(place, operand, partner) for (place, operand), partner in zip(left, right, strict=False)]
    return [(operand, partner) for _, operand, partner in sorted(met)]


def _differences(
    before: Recording, after: Recording, node: int, other: int, pairs: dict[int, int]
) -> tuple[list[str], bool]:
    """Return descriptions of the differences between paired nodes, and whether only their operands differ.

    A constant is part of the node that shows it, so another constant is a difference of the node itself.
    """
    rows, other_rows = before.nodes, after.nodes
    words: list[str] = []
    if before.type_text(node) != after.type_text(other):
        words.append(f"{before.type_text(node)} → {after.type_text(other)}")
    attributes, other_attributes = rows.attributes.get(node, {}), other_rows.attributes.get(other, {})
    names = [
        name for name in sorted({*attributes, *other_attributes}) if attributes.get(name) != other_attributes.get(name)
    ]
    words += [f"{name} {attributes.get(name, 'none')} → {other_attributes.get(name, 'none')}" for name in names]
    reads, others = rows.operands[node], other_rows.operands[other]
    if len(reads) != len(others):
        return [*words, f"{len(reads):,} → {counted_text(len(others), 'operand')}"], False
    is_rewired = not words
    operands = list(zip(reads, others, strict=True))
    if before.operations[rows.operation[node]] in COMMUTATIVE:

        def is_same(operand: int, partner: int) -> bool:
            if rows.kind[operand] == other_rows.kind[partner] == "constant":
                return before.label(operand) == after.label(partner)
            return pairs.get(operand) == partner

        operands = _together(reads, others, is_same)
    for operand, partner in operands:
        read, other_read = before.label(operand), after.label(partner)
        if rows.kind[operand] == other_rows.kind[partner] == "constant":
            if read == other_read:  # 2 float32 and 2 float64 have the same text
                read, other_read = f"{read} {before.type_text(operand)}", f"{other_read} {after.type_text(partner)}"
            same = read == other_read
            is_rewired &= same
        else:
            same = pairs.get(operand) == partner
        if not same:
            words.append(f"reads {read} → {other_read}")
    return words, is_rewired


_MOST = 2_000_000
"""maximum number of candidate pairs for the longest common subsequence; beyond it, equal elements are paired in order
"""


def align(
    first: Sequence[int],
    second: Sequence[int],
    pairs: dict[int, int],
    keys: tuple[Callable[[int], Hashable], Callable[[int], Hashable]],
) -> Iterator[tuple[int, int]]:
    """Yield new pairs of equal keys between known pairs that are in the same order on both sides.

    ``first`` and ``second`` are the nodes of both sides in order; ``keys`` return a node's key on either side.
    """
    place = {node: at for at, node in enumerate(second)}
    taken = {place[partner] for node, partner in pairs.items() if partner in place}
    known = [(at, place[pairs[node]]) for at, node in enumerate(first) if pairs.get(node) in place]
    start = (0, 0)
    # Pairs in the same order divide both sides into segments that are aligned separately, so that moved parts do not
    # disturb them.
    for stop in [*_increasing(known), (len(first), len(second))]:
        here = [first[at] for at in range(start[0], stop[0]) if first[at] not in pairs]
        there = [second[at] for at in range(start[1], stop[1]) if at not in taken]
        if here and there:
            keys_here, keys_there = [keys[0](node) for node in here], [keys[1](node) for node in there]
            for index, partner in _common(keys_here, keys_there):
                yield here[index], there[partner]
        start = (stop[0] + 1, stop[1] + 1)


def _common(first: list[Hashable], second: list[Hashable]) -> Iterator[tuple[int, int]]:
    counts = Counter(second)
    # SequenceMatcher takes quadratic time if many elements are equal.
    if sum([counts[key] for key in first]) <= _MOST:
        for block in SequenceMatcher(None, first, second, autojunk=False).get_matching_blocks():
            for place in range(block.size):
                yield block.a + place, block.b + place
        return
    waiting: dict[Hashable, deque[int]] = {}
    for at, key in enumerate(second):
        waiting.setdefault(key, deque()).append(at)
    for at, key in enumerate(first):
        positions = waiting.get(key)
        if positions:
            yield at, positions.popleft()


def _increasing(pairs: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return the longest subsequence of pairs that is increasing on both sides."""
    ends: list[int] = []
    last: list[int] = []
    before: list[int] = []
    for index, (_, there) in enumerate(pairs):
        at = bisect_left(ends, there)
        before.append(last[at - 1] if at else -1)
        if at == len(ends):
            ends.append(there)
            last.append(index)
        else:
            # Patience sorting: `ends` has the smallest last element of an increasing run of each length, so it stays
            # sorted.
            ends[at], last[at] = there, index
    longest: list[tuple[int, int]] = []
    index = last[-1] if last else -1
    while index >= 0:
        longest.append(pairs[index])
        index = before[index]
    return longest[::-1]


class RecordedGraph:
    """Recorded nodes of one graph; in graphs digested together, equal digests mean equal structures."""

    def __init__(self, recording: Recording, body: int, nodes: list[int]) -> None:
        self.recording, self.body, self.nodes = recording, body, nodes
        self.operands = recording.nodes.operands
        self.outputs = [node for node in recording.bodies[body].outputs if recording.nodes.born[node] < 0]
        self.kind: dict[int, Hashable] = {}
        """node → (kind, operation), which must be equal for nodes to be paired"""
        self.structure: dict[int, int] = {}
        """node → digest of the node, its operands and the names of its leaves"""
        self.bare: dict[int, int] = {}
        """operation → the same digest without names; leaves are paired through their readers"""
        self.shared: dict[int, int] = {}
        """operand that belongs to another graph → its digest"""
        self.readers: dict[int, list[tuple[Hashable, int]]] = {node: [] for node in nodes}
        """node → (reader's kind and operand index, reader)"""

    def is_commutative(self, node: int) -> bool:
        """Return whether a node's operands may be swapped."""
        return self.recording.operations[self.recording.nodes.operation[node]] in COMMUTATIVE

    def computes(self, node: int) -> bool:
        """Return whether a node has its own position in program order, unlike weights and constants."""
        return self.recording.nodes.kind[node] not in ("leaf", "constant")

    def kinds(self) -> tuple[Callable[[int], Hashable], ...]:
        """Return the keys by which nodes may be aligned, the strictest first."""
        return (lambda node: (self.kind[node], self.recording.type_text(node))), self.kind.__getitem__

    def place(self, node: int) -> Hashable:
        """Return the scope path and kind of a node, with its name if it is not a constant."""
        rows, scopes = self.recording.nodes, self.recording.scopes
        names = []
        scope = rows.scope[node]
        while scope > 0:
            names.append(scopes[scope].name)
            scope = scopes[scope].parent
        return tuple(names), self.kind[node], rows.label[node] if rows.kind[node] != "constant" else ""


def graphs(before: Recording, after: Recording) -> tuple[dict[int, RecordedGraph], dict[int, RecordedGraph]]:
    """Return for each recording the graphs that the program calls: 0, and the bodies of calls.

    Bodies that share their nodes are one graph, with the number of those nodes.
    """
    numbers: dict[Hashable, int] = {}
    return _of(before, numbers), _of(after, numbers)


def _of(recording: Recording, numbers: dict[Hashable, int]) -> dict[int, RecordedGraph]:
    """Return the graphs of one recording by body."""
    rows = recording.nodes
    inside: dict[int, list[int]] = {}
    for node, body in enumerate(rows.body):
        if rows.born[node] < 0:
            inside.setdefault(body, []).append(node)
    called = [0] if recording.bodies else []
    known = {0, -1}
    graphs_by_body: dict[int, RecordedGraph] = {}
    # The list grows during iteration, because bodies call bodies.
    for body in called:
        outputs = recording.bodies[body].outputs
        # A function that returns another one's nodes has no table.
        own = rows.body[outputs[0]] if body and outputs else body
        graphs_by_body[body] = graphs_by_body.get(own) or RecordedGraph(recording, own, inside.get(own, []))
        graphs_by_body.setdefault(own, graphs_by_body[body])
        for node in graphs_by_body[body].nodes:
            if rows.callee[node] not in known:
                known.add(rows.callee[node])
                called.append(rows.callee[node])
    digests: dict[int, int] = {}
    for body in sorted(graphs_by_body, reverse=True):  # inner bodies have larger numbers
        graph = graphs_by_body[body]
        if not graph.kind:
            _number(graph, digests, numbers)
        bare = tuple([graph.bare.get(output, -1) for output in graph.outputs])
        digests[body] = numbers.setdefault(("body", recording.bodies[body].name, bare), len(numbers))
    return graphs_by_body


def _number(graph: RecordedGraph, digests: dict[int, int], numbers: dict[Hashable, int]) -> None:
    """Compute the digests of a graph's nodes, operands first; ``numbers`` maps structures to digests."""
    recording, rows = graph.recording, graph.recording.nodes
    bare: dict[int, int] = {}
    inputs = {node: at for at, node in enumerate(n for n in graph.nodes if rows.kind[n] == "input")}
    for node in graph.nodes:
        kind, operands = rows.kind[node], rows.operands[node]
        graph.kind[node] = kind, recording.operations[rows.operation[node]]
        attributes = tuple(sorted(rows.attributes.get(node, {}).items()))
        own: tuple[Any, ...] = graph.kind[node], recording.type_text(node), attributes
        own = *own, digests.get(rows.callee[node], -1), rows.label[node] if kind == "constant" else ""
        name = rows.label[node] if kind in ("leaf", "input", "call") else ""
        # Inputs are distinguished by position: two functions of equal structure may use their parameters in a different
        # order.
        place = inputs.get(node, -1)
        for each in operands:
            if each not in bare:  # a constant shared by several bodies, in another body's table
                shared = "shared", rows.kind[each], rows.label[each], recording.type_text(each)
                bare[each] = graph.shared[each] = numbers.setdefault(shared, len(numbers))
        below = [bare[each] for each in operands], [graph.structure.get(each, bare[each]) for each in operands]
        if graph.is_commutative(node):  # x + b is b + x
            below = sorted(below[0]), sorted(below[1])
        bare[node] = numbers.setdefault((own, place, *below[0]), len(numbers))
        graph.structure[node] = numbers.setdefault((own, name or place, *below[1]), len(numbers))
        if graph.computes(node):
            graph.bare[node] = bare[node]
        for at, operand in enumerate(operands):
            if operand not in graph.shared:
                way = graph.kind[node], 0 if graph.is_commutative(node) else at
                graph.readers[operand].append((way, node))
