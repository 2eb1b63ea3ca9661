"""Matching of the recorded nodes of two recordings, first by structure and then by matched neighbours.

A diff of the node lists would miss parts of the graph that were moved or renamed. Structural digests find equal parts
anywhere, and the remaining nodes are matched by their neighbours.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter, deque
from collections.abc import Callable, Collection, Container, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import Any, TypeAlias

from explorer.record.reasons import counted_text
from explorer.record.recording import Recording
from explorer.record.rows import COMMUTATIVE, Nodes


@dataclass(frozen=True, slots=True)
class Matching:
    """Pairs of recorded nodes of two recordings, in the top graph and in function bodies, and unpaired nodes.

    Constants that are shown inside another node belong to that node. They are paired, but never listed as changed or
    unpaired.
    """

    pairs: dict[int, int]
    """node before → node after"""
    changed: dict[int, tuple[str, ...]]
    """paired node before → its differences: type, attributes or operands"""
    renamed: tuple[int, ...]
    """paired nodes before whose only difference is their name"""
    only_before: tuple[int, ...]
    only_after: tuple[int, ...]
    bodies: dict[int, int]
    """graph before → graph after: 0 → 0, and the bodies of paired calls"""
    same: int
    """number of unchanged pairs; constants shown inside other nodes are not counted"""
    rewired: frozenset[int]
    """subset of ``changed``: nodes with equal operations, of which only the operands differ"""
    regions: tuple[tuple[frozenset[int], frozenset[int]], ...] = ()
    """unpaired nodes before and after that read paired nodes only: one compiler's softmax, and another's five
    operations
    """

    @property
    def equal(self) -> bool:
        """Whether both recordings have the same graph."""
        return not (self.changed or self.renamed or self.only_before or self.only_after)


SameOperation: TypeAlias = Callable[[str], str]
"""function that returns one name for the names that two compilers have for an operation"""


def match(before: Recording, after: Recording, same_operation: SameOperation | None = None) -> Matching:
    """Pair the recorded nodes of two recordings.

    Equal structures are paired in order, first with the names of their leaves, then without names. Operands and readers
    of paired nodes are paired next. Then nodes with equal operations are paired if they are between known pairs, in the
    same order on both sides. Finally, nodes with equal operations in the same scope are paired.

    For recordings of two compilers, ``same_operation`` maps both compilers' operations to one name. Nodes of one
    operation on one source line, or of one operator of a file, are then also paired, and attributes are not compared.
    """
    first, second = graphs(before, after, same_operation)
    pairs: dict[int, int] = {}
    bodies = {0: 0}
    reached = {0}
    pending = deque([(0, 0)])
    while pending:
        body, other = pending.popleft()
        matched = _Match(first[body], second[other]).run()
        pairs.update(matched)
        for node, partner in matched.items():
            callee, other_callee = before.nodes.callee[node], after.nodes.callee[partner]
            # A body has only one partner: the body of the first call with which a call of it is paired.
            if callee >= 0 <= other_callee:
                inner_bodies = first[callee].body, second[other_callee].body
                if inner_bodies[0] not in bodies and inner_bodies[1] not in reached:
                    bodies[inner_bodies[0]] = inner_bodies[1]
                    reached.add(inner_bodies[1])
                    pending.append(inner_bodies)
    changed: dict[int, tuple[str, ...]] = {}
    rewired: set[int] = set()
    renamed: list[int] = []
    for node, other in sorted(pairs.items()):
        if before.nodes.kind[node] == "constant":
            continue
        differences, is_rewired = ([], False) if same_operation else _differences(before, after, node, other, pairs)
        callees = before.nodes.callee[node], after.nodes.callee[other]
        # A call may be unchanged although its body was matched with another body.
        if min(callees) >= 0 and bodies.get(first[callees[0]].body) != second[callees[1]].body:
            differences.append("another function")
            is_rewired = False
        if differences:
            changed[node] = tuple(differences)
            if is_rewired:
                rewired.add(node)
        elif before.nodes.kind[node] != "operation" and before.nodes.label[node] != after.nodes.label[other]:
            renamed.append(node)
    constant_count = sum([before.nodes.kind[node] == "constant" for node in pairs])
    return Matching(
        dict(sorted(pairs.items())),
        changed,
        tuple(renamed),
        _unpaired(before, first, pairs),
        _unpaired(after, second, set(pairs.values())),
        bodies,
        len(pairs) - constant_count - len(changed) - len(renamed),
        frozenset(rewired),
        _regions(first[0], second[0], pairs) if same_operation and first else (),
    )


def compared_attributes(rows: Nodes, node: int) -> dict[str, str]:
    """Return the attributes of a node without the name of its value, which a compiler makes up."""
    return {name: value for name, value in rows.attributes.get(node, {}).items() if name != "name"}


def _regions(
    first: RecordedGraph, second: RecordedGraph, pairs: dict[int, int]
) -> tuple[tuple[frozenset[int], frozenset[int]], ...]:
    """Pair the connected regions of unpaired operations that are the only ones to read the same paired operations."""
    sides = (
        first.regions({node: node for node in pairs}),
        second.regions({after: node for node, after in pairs.items()}),
    )
    return tuple(
        (frozenset(sides[0][reads][0]), frozenset(sides[1][reads][0]))
        for reads in sides[0]
        if len(sides[0][reads]) == len(sides[1].get(reads, ())) == 1
    )


def _unpaired(
    recording: Recording, graphs_by_body: dict[int, RecordedGraph], paired: Collection[int]
) -> tuple[int, ...]:
    """Return the nodes without a partner, excluding constants."""
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
        self._pair_equal(first.line, second.line)
        self._pair_equal(first.structure, second.structure)
        self._pair_equal(first.bare, second.bare)
        self._pair_neighbours(zip(first.outputs, second.outputs, strict=False))
        # First with the type and then without, because a layer must be found even if its shape has changed.
        for key, other in zip(first.kinds(), second.kinds(), strict=True):
            self._align(key, other)
            self._pair_neighbours(())
        self._pair_by_location()
        return self.pairs

    def _pair(self, node: int, other: int) -> None:
        self.pairs[node] = other
        self.taken.add(other)
        # Neighbours are visited later, from a queue: recursion would be 100,000 levels deep in a long chain.
        self.fresh.append((node, other))

    def _pair_equal(self, digests: dict[int, int], other_digests: dict[int, int]) -> None:
        """Pair nodes with equal digests in order.

        If the two sides have different numbers of them, also compare their names.
        """
        unpaired = [node for node in digests if node not in self.pairs]
        candidates: dict[int, deque[int]] = {}
        for node in other_digests:
            if node not in self.taken:
                candidates.setdefault(other_digests[node], deque()).append(node)
        counts = Counter([digests[node] for node in unpaired])
        # Nodes with equal structure and equal names are interchangeable. Without names, equal counts are required: an
        # additional node would otherwise shift all other nodes to wrong partners.
        exact = digests is self.first.structure
        usable = {key for key, count in counts.items() if exact or count == len(candidates.get(key, ()))}
        for node in unpaired:
            if digests[node] in usable and candidates.get(digests[node]):
                self._pair(node, candidates[digests[node]].popleft())

    def _pair_neighbours(self, outputs: Iterable[tuple[int, int]]) -> None:
        """Pair the operands of paired nodes by index, and pair their readers.

        Readers are paired only if they are unique for their kind and operand index.
        """
        for node, other in outputs:
            if node in self.first.kind and other in self.second.kind:
                self._pair_similar(node, other)
        first, second = self.first, self.second
        while self.fresh:
            node, other = self.fresh.popleft()
            operands = first.operands[node], second.operands[other]
            for operand, partner in (
                self._exchanged(*operands) if first.is_commutative(node) else zip(*operands, strict=False)
            ):
                self._pair_similar(operand, partner)
            readers = _single(first.readers[node], self.pairs)
            if readers:
                other_readers = _single(second.readers[other], self.taken)
                for read, reader in readers.items():
                    if read in other_readers:
                        self._pair(reader, other_readers[read])

    def _exchanged(self, reads: Sequence[int], others: Sequence[int]) -> list[tuple[int, int]]:
        """Return pairs of operands of commutative operations: already paired operands first, then similar ones."""
        kinds = self.first.kind, self.second.kind
        return _pair_operands(
            reads,
            others,
            lambda operand, partner: self.pairs.get(operand) == partner,
            lambda operand, partner: kinds[0].get(operand) == kinds[1].get(partner),
        )

    def _pair_similar(self, node: int, other: int) -> None:
        """Pair two similar nodes. If one side has an additional node in between, pair that node's operand instead."""
        first, second = self.first, self.second
        if node in self.pairs or other in self.taken or node in first.shared or other in second.shared:
            return
        is_similar = first.kind[node] == second.kind[other]
        # One side may have an additional operation between the same neighbours, so look one step further.
        inserted = [neighbour for neighbour in second.operands[other] if first.kind[node] == second.kind.get(neighbour)]
        left_out = [neighbour for neighbour in first.operands[node] if first.kind.get(neighbour) == second.kind[other]]
        if is_similar:
            self._pair(node, other)
        elif len(inserted) == 1 and not left_out and inserted[0] not in self.taken:
            self._pair(node, inserted[0])
        elif len(left_out) == 1 and not inserted and left_out[0] not in self.pairs:
            self._pair(left_out[0], other)

    def _align(self, key: Callable[[int], Hashable], other_key: Callable[[int], Hashable]) -> None:
        sides = [[node for node in graph.nodes if graph.computes(node)] for graph in (self.first, self.second)]
        for node, partner in list(align(sides[0], sides[1], self.pairs, (key, other_key))):
            self._pair(node, partner)

    def _pair_by_location(self) -> None:
        unpaired: dict[Hashable, deque[int]] = {}
        for node in self.second.nodes:
            if node not in self.taken:
                unpaired.setdefault(self.second.scope_and_kind(node), deque()).append(node)
        for node in self.first.nodes:
            if node not in self.pairs:
                candidates = unpaired.get(self.first.scope_and_kind(node))
                if candidates:
                    self._pair(node, candidates.popleft())


def _single(readers: list[tuple[Hashable, int]], paired: Container[int]) -> dict[Hashable, int]:
    """Return the unpaired readers that are unique for their kind and operand index."""
    reader_by_read: dict[Hashable, int] = {}
    ambiguous: set[Hashable] = set()
    for read, reader in readers:
        # Two readers with the same kind and operand index cannot be distinguished.
        if reader not in paired and reader_by_read.setdefault(read, reader) != reader:
            ambiguous.add(read)
    return {read: reader for read, reader in reader_by_read.items() if read not in ambiguous}


def _pair_operands(
    reads: Sequence[int], others: Sequence[int], *predicates: Callable[[int, int], bool]
) -> list[tuple[int, int]]:
    """Return pairs of similar operands of both sides. The strictest predicate is tried first, and the rest in order."""
    remaining, other_remaining = [*enumerate(reads)], list(others)
    matched: list[tuple[int, int, int]] = []
    for predicate in predicates:
        for index, operand in list(remaining):
            partner = next((other for other in other_remaining if predicate(operand, other)), None)
            if partner is not None:
                remaining.remove((index, operand))
                other_remaining.remove(partner)
                matched.append((index, operand, partner))
    matched += [
        (index, operand, partner) for (index, operand), partner in zip(remaining, other_remaining, strict=False)
    ]
    return [(operand, partner) for _, operand, partner in sorted(matched)]


def _differences(
    before: Recording, after: Recording, node: int, other: int, pairs: dict[int, int]
) -> tuple[list[str], bool]:
    """Return the differences between paired nodes as text, and whether only their operands differ.

    A constant belongs to the node that shows it, so a changed constant counts as a difference in that node.
    """
    rows, other_rows = before.nodes, after.nodes
    differences: list[str] = []
    if before.type_text(node) != after.type_text(other):
        differences.append(f"{before.type_text(node)} → {after.type_text(other)}")
    attributes, other_attributes = compared_attributes(rows, node), compared_attributes(other_rows, other)
    names = [
        name for name in sorted({*attributes, *other_attributes}) if attributes.get(name) != other_attributes.get(name)
    ]
    differences += [f"{name} {attributes.get(name, 'none')} → {other_attributes.get(name, 'none')}" for name in names]
    reads, others = rows.operands[node], other_rows.operands[other]
    if len(reads) != len(others):
        return [*differences, f"{len(reads):,} → {counted_text(len(others), 'operand')}"], False
    is_rewired = not differences
    operands = list(zip(reads, others, strict=True))
    if before.operations[rows.operation[node]] in COMMUTATIVE:

        def is_same(operand: int, partner: int) -> bool:
            if rows.kind[operand] == other_rows.kind[partner] == "constant":
                return before.label(operand) == after.label(partner)
            return pairs.get(operand) == partner

        operands = _pair_operands(reads, others, is_same)
    for operand, partner in operands:
        read, other_read = before.label(operand), after.label(partner)
        if rows.kind[operand] == other_rows.kind[partner] == "constant":
            if read == other_read:  # for example, 2 float32 and 2 float64 have the same text
                read, other_read = f"{read} {before.type_text(operand)}", f"{other_read} {after.type_text(partner)}"
            is_equal = read == other_read
            is_rewired &= is_equal
        else:
            is_equal = pairs.get(operand) == partner
        if not is_equal:
            differences.append(f"reads {read} → {other_read}")
    return differences, is_rewired


_MAX_CANDIDATES = 2_000_000
"""maximum number of candidate pairs for the longest common subsequence; above it, equal elements are paired in order"""


def align(
    first: Sequence[int],
    second: Sequence[int],
    pairs: dict[int, int],
    keys: tuple[Callable[[int], Hashable], Callable[[int], Hashable]],
) -> Iterator[tuple[int, int]]:
    """Yield new pairs with equal keys, between known pairs that have the same order on both sides.

    ``first`` and ``second`` are the nodes of both sides in order; ``keys`` contains a function for each side that
    returns a node's key.
    """
    position_of = {node: position for position, node in enumerate(second)}
    paired = {position_of[partner] for node, partner in pairs.items() if partner in position_of}
    ordered_pairs = [
        (position, position_of[pairs[node]]) for position, node in enumerate(first) if pairs.get(node) in position_of
    ]
    start = (0, 0)
    # Pairs with the same order divide both sides into segments, which are aligned separately. Parts that were moved
    # have no influence.
    for stop in [*_increasing(ordered_pairs), (len(first), len(second))]:
        nodes = [first[position] for position in range(start[0], stop[0]) if first[position] not in pairs]
        other_nodes = [second[position] for position in range(start[1], stop[1]) if position not in paired]
        if nodes and other_nodes:
            node_keys, other_keys = [keys[0](node) for node in nodes], [keys[1](node) for node in other_nodes]
            for index, partner in _common(node_keys, other_keys):
                yield nodes[index], other_nodes[partner]
        start = (stop[0] + 1, stop[1] + 1)


def _common(first: list[Hashable], second: list[Hashable]) -> Iterator[tuple[int, int]]:
    counts = Counter(second)
    # SequenceMatcher takes quadratic time if many elements are equal.
    if sum([counts[key] for key in first]) <= _MAX_CANDIDATES:
        for block in SequenceMatcher(None, first, second, autojunk=False).get_matching_blocks():
            for offset in range(block.size):
                yield block.a + offset, block.b + offset
        return
    unpaired: dict[Hashable, deque[int]] = {}
    for position, key in enumerate(second):
        unpaired.setdefault(key, deque()).append(position)
    for position, key in enumerate(first):
        positions = unpaired.get(key)
        if positions:
            yield position, positions.popleft()


def _increasing(pairs: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return the longest subsequence of pairs that increases on both sides."""
    last_values: list[int] = []
    last: list[int] = []
    previous: list[int] = []
    for index, (_, position) in enumerate(pairs):
        length = bisect_left(last_values, position)
        previous.append(last[length - 1] if length else -1)
        if length == len(last_values):
            last_values.append(position)
            last.append(index)
        else:
            # Patience sorting: for each length, `last_values` contains the smallest last element of the increasing runs
            # of this length. The list stays sorted.
            last_values[length], last[length] = position, index
    longest: list[tuple[int, int]] = []
    index = last[-1] if last else -1
    while index >= 0:
        longest.append(pairs[index])
        index = previous[index]
    return longest[::-1]


class RecordedGraph:
    """Recorded nodes of one graph. In graphs that share a table of digests, equal digests mean equal structures."""

    def __init__(self, recording: Recording, body: int, nodes: list[int]) -> None:
        self.recording, self.body, self.nodes = recording, body, nodes
        self.operands = recording.nodes.operands
        self.outputs = [node for node in recording.bodies[body].outputs if recording.nodes.born[node] < 0]
        self.kind: dict[int, tuple[str, str]] = {}
        """node → (kind, operation), which must be equal if two nodes are paired"""
        self.structure: dict[int, int] = {}
        """node → digest of the node, its operands and the names of its leaves"""
        self.bare: dict[int, int] = {}
        """operation → the same digest without names; leaves are paired through the nodes that read them"""
        self.line: dict[int, int] = {}
        """operation → digest of its name and source line, if the recordings are of two compilers"""
        self.shared: dict[int, int] = {}
        """operand in another graph → digest of the operand"""
        self.readers: dict[int, list[tuple[Hashable, int]]] = {node: [] for node in nodes}
        """node → (kind and operand index of a reader, reader) for each reader"""

    def is_commutative(self, node: int) -> bool:
        """Return whether the operands of a node may be swapped."""
        return self.kind[node][1] in COMMUTATIVE

    def computes(self, node: int) -> bool:
        """Return whether a node has its own position in program order, unlike weights and constants."""
        return self.recording.nodes.kind[node] not in ("leaf", "constant")

    def kinds(self) -> tuple[Callable[[int], Hashable], ...]:
        """Return the functions that return the keys of nodes for alignment, the strictest first."""
        return (lambda node: (self.kind[node], self.recording.type_text(node))), self.kind.__getitem__

    def regions(self, paired: dict[int, int]) -> dict[frozenset[int], list[list[int]]]:
        """Return the connected regions of unpaired operations, by the paired operations that they read.

        ``paired`` maps paired nodes to the number that both recordings have for them.
        """
        region_of: dict[int, list[int]] = {}
        for node in self.nodes:
            if self.computes(node) and node not in paired:
                merged = [node]
                for region in {
                    id(region_of[each]): region_of[each] for each in self.operands[node] if each in region_of
                }.values():
                    merged += region
                region_of.update(dict.fromkeys(merged, merged))
        regions: dict[frozenset[int], list[list[int]]] = {}
        for region in {id(region): region for region in region_of.values()}.values():
            operands = {operand for node in region for operand in self.operands[node] if operand in paired}
            reads = [operand for operand in operands if self.computes(operand)] or operands
            if reads:
                regions.setdefault(frozenset(paired[operand] for operand in reads), []).append(region)
        return regions

    def scope_and_kind(self, node: int) -> Hashable:
        """Return the scope path and the kind of a node, and its name unless it is a constant."""
        rows, scopes = self.recording.nodes, self.recording.scopes
        names = []
        scope = rows.scope[node]
        while scope > 0:
            names.append(scopes[scope].name)
            scope = scopes[scope].parent
        return tuple(names), self.kind[node], rows.label[node] if rows.kind[node] != "constant" else ""


def graphs(
    before: Recording, after: Recording, same_operation: SameOperation | None = None
) -> tuple[dict[int, RecordedGraph], dict[int, RecordedGraph]]:
    """Return, for each recording, body index → graph, for all graphs that the program uses: 0, and the bodies of calls.

    Bodies that share their nodes are one graph. Its index is the index of the body to which the nodes belong.
    """
    digest_of: dict[Hashable, int] = {}
    return _graphs_of(before, digest_of, same_operation), _graphs_of(after, digest_of, same_operation)


def _graphs_of(
    recording: Recording, digest_of: dict[Hashable, int], same_operation: SameOperation | None
) -> dict[int, RecordedGraph]:
    rows = recording.nodes
    nodes_of_body: dict[int, list[int]] = {}
    for node, body in enumerate(rows.body):
        if rows.born[node] < 0:
            nodes_of_body.setdefault(body, []).append(node)
    called = [0] if recording.bodies else []
    visited = {0, -1}
    graphs_by_body: dict[int, RecordedGraph] = {}
    # The list grows during iteration, because bodies call other bodies.
    for body in called:
        outputs = recording.bodies[body].outputs
        # A function that only returns nodes of another body has no nodes of its own.
        body_of_nodes = rows.body[outputs[0]] if body and outputs else body
        graphs_by_body[body] = graphs_by_body.get(body_of_nodes) or RecordedGraph(
            recording, body_of_nodes, nodes_of_body.get(body_of_nodes, [])
        )
        graphs_by_body.setdefault(body_of_nodes, graphs_by_body[body])
        for node in graphs_by_body[body].nodes:
            if rows.callee[node] not in visited:
                visited.add(rows.callee[node])
                called.append(rows.callee[node])
    digests: dict[int, int] = {}
    for body in sorted(graphs_by_body, reverse=True):  # inner bodies have larger indices
        graph = graphs_by_body[body]
        if not graph.kind:
            _compute_digests(graph, digests, digest_of, same_operation)
        bare = tuple([graph.bare.get(output, -1) for output in graph.outputs])
        digests[body] = digest_of.setdefault(("body", recording.bodies[body].name, bare), len(digest_of))
    return graphs_by_body


def _compute_digests(
    graph: RecordedGraph,
    digests: dict[int, int],
    digest_of: dict[Hashable, int],
    same_operation: SameOperation | None,
) -> None:
    """Compute the digests of a graph's nodes, operands first. ``digest_of`` maps structures to digests."""
    recording, rows = graph.recording, graph.recording.nodes
    bare: dict[int, int] = {}
    inputs = {node: index for index, node in enumerate(n for n in graph.nodes if rows.kind[n] == "input")}
    for node in graph.nodes:
        kind, operands = rows.kind[node], rows.operands[node]
        operation = recording.operations[rows.operation[node]]
        attributes = tuple(sorted(compared_attributes(rows, node).items()))
        if same_operation:
            kind = "leaf" if kind == "input" else kind
            operation, attributes = same_operation(operation) if kind == "operation" else kind, ()
        graph.kind[node] = kind, operation
        own_key: tuple[Any, ...] = graph.kind[node], recording.type_text(node), attributes
        own_key = *own_key, digests.get(rows.callee[node], -1), rows.label[node] if kind == "constant" else ""
        name = rows.label[node] if kind in ("leaf", "input", "call") else ""
        # Inputs are distinguished by position: two functions with equal structure may use their parameters in different
        # order.
        position = inputs.get(node, -1)
        for each in operands:
            if each not in bare:  # a constant that several bodies share is in the table of another body
                shared = "shared", rows.kind[each], rows.label[each], recording.type_text(each)
                bare[each] = graph.shared[each] = digest_of.setdefault(shared, len(digest_of))
        operand_digests = (
            [bare[each] for each in operands],
            [graph.structure.get(each, bare[each]) for each in operands],
        )
        if graph.is_commutative(node):  # because x + b equals b + x
            operand_digests = sorted(operand_digests[0]), sorted(operand_digests[1])
        bare[node] = digest_of.setdefault((own_key, position, *operand_digests[0]), len(digest_of))
        graph.structure[node] = digest_of.setdefault((own_key, name or position, *operand_digests[1]), len(digest_of))
        if graph.computes(node):
            graph.bare[node] = bare[node]
            if same_operation and rows.source[node] >= 0:
                source = recording.sources[rows.source[node]]
                key = graph.kind[node], source.where, source.line
                graph.line[node] = digest_of.setdefault(key, len(digest_of))
        for index, operand in enumerate(operands):
            if operand not in graph.shared:
                read = graph.kind[node], 0 if graph.is_commutative(node) else index
                graph.readers[operand].append((read, node))
