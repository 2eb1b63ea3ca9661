"""Comparison of the operators of two model files: as before, changed, added, removed, and replaced by others.

Operators are what the author of a model knows. Recorded nodes are finer: an operator may be recorded as many nodes, or
as none. Operators are matched by name and results, by the operators that they depend on, and finally by their types
in file order.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from explorer.record.compare.matching import align
from explorer.record.reasons import counted_text
from explorer.record.recording import Recording

_LISTED = 8
"""maximum number of names in a line"""
_EXAMPLES = 3
"""maximum number of replacements of one kind in a line"""
_LINES = 40
"""maximum number of lines of one kind"""
_STEPS = 16
"""maximum number of added operators between two operators that count as connected as before"""


@dataclass(frozen=True, slots=True)
class ComparedOperator:
    """Operator of a file: type, name, attributes and weights as strings, and the operands that it reads and writes.

    A weight is described by its name in the file and its type, such as ``conv1.weight · 8×3×3×3 float32``.
    """

    type: str
    name: str
    attributes: tuple[tuple[str, str], ...] = ()
    weights: tuple[tuple[str, str], ...] = ()
    inputs: tuple[str, ...] = ()
    outputs: tuple[str, ...] = ()

    @property
    def label(self) -> str:
        """Type and name: ``Conv 'conv1'``."""
        return f"{self.type} {self.name!r}"


@dataclass(frozen=True, slots=True)
class Replaced:
    """Operators that became others: ``before`` and ``after`` are the indices on both sides."""

    before: tuple[int, ...]
    after: tuple[int, ...]


@dataclass(frozen=True)
class OperatorDifferences:
    """Differences between the operators of two files."""

    before: tuple[ComparedOperator, ...]
    after: tuple[ComparedOperator, ...]
    pairs: dict[int, int]
    """index before → index after of operators of one type"""
    changed: dict[int, tuple[str, ...]]
    """paired operator before → its differences: attributes, weights and operands"""
    replaced: tuple[Replaced, ...]
    removed: tuple[int, ...]
    """operators before that nothing replaces"""
    added: tuple[int, ...]

    @property
    def equal(self) -> bool:
        """Whether both files have the same operators, apart from names."""
        return not (self.changed or self.replaced or self.removed or self.added)

    @cached_property
    def first(self) -> tuple[int, int] | None:
        """Side (0 before, 1 after) and index of the first operator that differs, in file order; None if none does."""
        before = [*self.removed, *self.changed, *[index for each in self.replaced for index in each.before]]
        places = [(float(index), 0, index) for index in before]
        # An added operator is before the first operator of both files that reads its result, directly or not.
        ranks = {other: float(index) for index, other in self.pairs.items()}
        readers = _Graph(self.after).readers
        for index in reversed(range(len(self.after))):
            if index not in ranks:
                read = [ranks[each] for name in self.after[index].outputs for each in readers.get(name, ())]
                rank = min(read, default=float(len(self.before)))
                ranks[index] = rank - 0.5 if rank == int(rank) else rank
        places += [(ranks[index], 1, index) for index in self.added]
        return min(places)[1:] if places else None

    def __str__(self) -> str:
        return "\n".join(self.lines())

    def lines(self) -> list[str]:
        """Return the differences as lines of text: the counts, then what became others, removed, added and changed."""
        if self.equal:
            return [f"operators: all {len(self.before):,} as before"]
        counts = [f"{len(self.pairs) - len(self.changed):,} as before"]
        became = [index for each in self.replaced for index in each.before]
        counts += [
            f"{len(some):,} {word}"
            for word, some in (
                ("changed", self.changed),
                ("became others" if len(became) > 1 else "became another", became),
                ("removed", self.removed),
                ("added", self.added),
            )
            if some
        ]
        added = f" ({_kinds(self.after, self.added)})" if self.added else ""
        lines = [f"operators: {', '.join(counts)}{added}"]
        first = self.first
        if first is not None:
            side, index = first
            lines.append(f"first difference: {(self.before, self.after)[side][index].label}, {self._what(side, index)}")
        same: dict[tuple[str, str], list[int]] = {}
        for index, texts in self.changed.items():
            same.setdefault((self.before[index].type, "; ".join(texts)), []).append(index)
        changed = [f"  Δ {_by_type(self.before, some)[0]}: {text}" for (_, text), some in same.items()]
        removed = [f"  - {line}" for line in _by_type(self.before, self.removed)]
        gained = [f"  + {line}" for line in _by_type(self.after, self.added)]
        return [*lines, *_limited(self._replaced_lines()), *_limited(removed), *_limited(gained), *_limited(changed)]

    def _what(self, side: int, index: int) -> str:
        if side == 1:
            return "added"
        if index in self.changed:
            return "changed"
        return "removed" if index in self.removed else "became another"

    def _replaced_lines(self) -> list[str]:
        """Return a line for each kind of replacement: ``Conv, Relu became FusedConv ×2: 'a', 'b' → 'a'; …``."""
        kinds: dict[str, list[str]] = {}
        for each in self.replaced:
            sides = (self.before, each.before), (self.after, each.after)
            kind = " became ".join([_kinds(operators, some) for operators, some in sides])
            names = " → ".join([_names([operators[index].name for index in some]) for operators, some in sides])
            kinds.setdefault(kind, []).append(names)
        return [
            f"  {kind}{f' ({len(names):,} times)' * (len(names) > 1)}: {'; '.join(names[:_EXAMPLES])}"
            + "; …" * (len(names) > _EXAMPLES)
            for kind, names in kinds.items()
        ]


def recorded_operators(recording: Recording) -> tuple[ComparedOperator, ...]:
    """Return the operators of a model file in a recording, without operators that were recorded as no node."""
    operators = []
    for row in recording.operators:
        names, scope = [], row.scope
        while scope > 0:
            names.append(recording.scopes[scope].name)
            scope = recording.scopes[scope].parent
        name = "/".join(reversed(names))
        kind = recording.scopes[row.scope].type
        operators.append(ComparedOperator(kind, name, row.attributes, row.weights, row.inputs, row.outputs))
    return tuple(operators)


def compare_operators(before: Sequence[ComparedOperator], after: Sequence[ComparedOperator]) -> OperatorDifferences:
    """Return the differences between the operators of two files, both in topological order."""
    sides = tuple(before), tuple(after)
    graphs = _Graph(sides[0]), _Graph(sides[1])
    pairs, renamed = _matched(*graphs)
    replaced, removed, added = _replaced(graphs, pairs, renamed)
    others = {index for each in replaced for index in each.before}
    changed = {
        index: tuple(texts)
        for index, other in sorted(pairs.items())
        if index not in others and (texts := _changes(graphs, pairs, index, other, set(added)))
    }
    pairs = {index: other for index, other in sorted(pairs.items()) if index not in others}
    return OperatorDifferences(*sides, pairs, changed, tuple(replaced), removed, added)


class _Graph:
    """Operators of one side, with the producer and the readers of each operand."""

    def __init__(self, operators: Sequence[ComparedOperator]) -> None:
        self.operators = operators
        self.producer = {operand: index for index, each in enumerate(operators) for operand in each.outputs}
        self.readers: dict[str, list[int]] = {}
        for index, each in enumerate(operators):
            for operand in each.inputs:
                self.readers.setdefault(operand, []).append(index)

    def neighbours(self, index: int) -> Iterator[int]:
        """Yield the producers of an operator's operands and the readers of its results."""
        for operand in self.operators[index].inputs:
            if operand in self.producer:
                yield self.producer[operand]
        for operand in self.operators[index].outputs:
            yield from self.readers.get(operand, ())

    def digests(self, known: dict[Hashable, int]) -> list[Hashable]:
        """Return a digest of each operator and of all operators that it depends on, without names."""
        digest_of: dict[str, Hashable] = {}
        digests: list[Hashable] = []
        for each in self.operators:
            reads = tuple([digest_of.setdefault(operand, ("input", len(digest_of))) for operand in each.inputs])
            weights = tuple([(name, _weight_type(text)) for name, text in each.weights])
            digest = known.setdefault((each.type, each.attributes, weights, reads), len(known))
            digests.append(digest)
            digest_of.update((operand, (digest, place)) for place, operand in enumerate(each.outputs))
        return digests

    def components(self, some: Collection[int]) -> list[tuple[int, ...]]:
        """Return the connected groups of operators in ``some``, each sorted, in file order."""
        left, groups = set(some), []
        for start in sorted(some):
            if start not in left:
                continue
            left.discard(start)
            group, pending = [start], deque([start])
            while pending:
                for near in self.neighbours(pending.popleft()):
                    if near in left:
                        left.discard(near)
                        group.append(near)
                        pending.append(near)
            groups.append(tuple(sorted(group)))
        return groups


def _matched(first: _Graph, second: _Graph) -> tuple[dict[int, int], dict[int, int]]:
    """Return the pairs of operators of one type, and the pairs of operators with one name but different types."""
    before, after = first.operators, second.operators
    pairs: dict[int, int] = {}
    taken: set[int] = set()

    def pair_by(keys: Sequence[Hashable], other_keys: Sequence[Hashable]) -> None:
        """Pair operators with equal keys in order, if both sides have equally many of them."""
        sides: tuple[dict[Hashable, list[int]], dict[Hashable, list[int]]] = ({}, {})
        for side, some, paired in ((sides[0], keys, pairs), (sides[1], other_keys, taken)):
            for index, key in enumerate(some):
                if index not in paired:
                    side.setdefault(key, []).append(index)
        for key, indices in sides[0].items():
            others = sides[1].get(key, [])
            if len(indices) == len(others):
                pairs.update(zip(indices, others, strict=True))
                taken.update(others)

    digests: dict[Hashable, int] = {}
    for key in (_own_name, None, _name, _outputs):
        # A name may be a number of a tool, so operators with equal inputs come before operators with equal names.
        sides = [graph.digests(digests) if key is None else [*map(key, graph.operators)] for graph in (first, second)]
        pair_by(*sides)
    same_name = {each.name: index for index, each in enumerate(after) if index not in taken}
    renamed = {
        index: same_name[each.name]
        for index, each in enumerate(before)
        if index not in pairs and each.name in same_name
    }
    known = {**pairs, **renamed}
    types = (lambda index: before[index].type), (lambda index: after[index].type)
    pairs.update([*align(range(len(before)), range(len(after)), known, types)])
    return pairs, renamed


def _own_name(operator: ComparedOperator) -> Hashable:
    return operator.type, operator.name, operator.outputs


def _name(operator: ComparedOperator) -> Hashable:
    return operator.type, operator.name


def _outputs(operator: ComparedOperator) -> Hashable:
    return operator.type, operator.outputs or operator.name


def _replaced(
    graphs: tuple[_Graph, _Graph], pairs: Mapping[int, int], renamed: Mapping[int, int]
) -> tuple[list[Replaced], tuple[int, ...], tuple[int, ...]]:
    """Return the groups of operators that became others, and the remaining operators that were removed or added.

    A connected group before became a group after if the groups have operators with the same name, write an operand with
    the same name, or have paired producers and readers. It became a paired operator that writes the group's result.
    """
    first, second = graphs
    gone = [index for index in range(len(first.operators)) if index not in pairs]
    back = {other: index for index, other in pairs.items()}
    new = {index for index in range(len(second.operators)) if index not in back}
    groups_after = second.components(new)
    group_of = {index: group for group in groups_after for index in group}
    own = dict(zip(back, back, strict=True))
    by_border = {border: group for group in groups_after if (border := _border(second, group, own))}
    replaced: list[Replaced] = []
    left_after = {*groups_after}
    removed: list[int] = []
    for group in first.components(gone):
        named = {group_of[renamed[index]] for index in group if index in renamed and renamed[index] in group_of}
        written = {
            producer
            for index in group
            for operand in first.operators[index].outputs
            if (producer := second.producer.get(operand)) is not None
        }
        named |= {group_of[index] for index in written if index in group_of}
        border = _border(first, group, pairs)
        if not named and border in by_border:
            named = {by_border[border]}
        named &= left_after
        absorbing = [index for index in written if index in back and _touches(first, group, back[index])]
        if named:
            left_after -= named
            replaced.append(Replaced(group, tuple(sorted([index for each in named for index in each]))))
        elif absorbing:
            around = tuple(sorted({*group, *[back[index] for index in absorbing]}))
            replaced.append(Replaced(around, tuple(sorted(absorbing))))
        else:
            removed += group
    added = tuple(sorted([index for group in left_after for index in group]))
    return replaced, tuple(removed), added


def _touches(graph: _Graph, group: Collection[int], index: int) -> bool:
    return any(near in group for near in graph.neighbours(index))


def _border(graph: _Graph, group: Collection[int], pairs: Mapping[int, int]) -> Hashable:
    """Return the paired operators around a group, as indices after: its producers, and its readers; () if none."""
    producers, readers = set[int](), set[int]()
    for index in group:
        operator = graph.operators[index]
        producers.update(pairs[p] for operand in operator.inputs if (p := graph.producer.get(operand, -1)) in pairs)
        readers.update(pairs[r] for operand in operator.outputs for r in graph.readers.get(operand, ()) if r in pairs)
    return (frozenset(producers), frozenset(readers)) if producers or readers else ()


def _changes(
    graphs: tuple[_Graph, _Graph], pairs: Mapping[int, int], index: int, other: int, added: Collection[int]
) -> list[str]:
    """Return the differences between paired operators: attributes, weights, and operands."""
    operator, partner = graphs[0].operators[index], graphs[1].operators[other]
    attributes, others = dict(operator.attributes), dict(partner.attributes)
    weights, other_weights = ({name: _weight_type(text) for name, text in each.weights} for each in (operator, partner))
    # A weight of only one side may be computed on the other side, for example by DequantizeLinear.
    names = [(attributes, others, name) for name in sorted({*attributes, *others})]
    names += [(weights, other_weights, name) for name in sorted({*weights} & {*other_weights})]
    texts = [
        f"{name} {side.get(name, 'none')} → {other_side.get(name, 'none')}"
        for side, other_side, name in names
        if side.get(name) != other_side.get(name)
    ]
    reads = [operand for operand in operator.inputs if operand in graphs[0].producer]
    sources = [_sources(graphs[1], operand, added) for operand in partner.inputs]
    for operand in reads:
        producer = graphs[0].producer[operand]
        if producer in pairs and not any(pairs[producer] in each for each in sources):
            read = ", ".join(partner.inputs) or "nothing"
            texts.append(f"reads {operand} → {read}")
    return texts


def _weight_type(text: str) -> str:
    """Return the type of a weight, without its name in the file."""
    return text.rpartition(" · ")[2]


def _sources(graph: _Graph, operand: str, added: Collection[int]) -> set[int]:
    """Return the operators that an operand comes from, directly or through added operators."""
    found, pending = set[int](), deque([(operand, 0)])
    while pending:
        name, steps = pending.popleft()
        producer = graph.producer.get(name)
        if producer is None or producer in found:
            continue
        found.add(producer)
        if producer in added and steps < _STEPS:
            pending += [(each, steps + 1) for each in graph.operators[producer].inputs]
    return found


def _kinds(operators: Sequence[ComparedOperator], some: Iterable[int]) -> str:
    """Return the types of operators with their counts: ``QuantizeLinear ×11, DequantizeLinear ×11``."""
    counts = Counter([operators[index].type for index in some]).most_common()
    shown = [f"{kind} ×{count:,}" if count > 1 else kind for kind, count in counts[:_LISTED]]
    return ", ".join(shown) + ", …" * (len(counts) > _LISTED)


def _by_type(operators: Sequence[ComparedOperator], some: Sequence[int]) -> list[str]:
    """Return a line for each type: its count, and the names of its first operators."""
    names: dict[str, list[str]] = {}
    for index in some:
        names.setdefault(operators[index].type, []).append(operators[index].name)
    return [f"{kind}{f' ×{len(own):,}' * (len(own) > 1)} {_names(own)}" for kind, own in names.items()]


def _names(names: Sequence[str]) -> str:
    return ", ".join(map(repr, names[:_LISTED])) + ", …" * (len(names) > _LISTED)


def _limited(lines: list[str]) -> list[str]:
    rest = len(lines) - _LINES
    return lines if rest <= 0 else [*lines[:_LINES], f"  … and {counted_text(rest, 'more line')}"]
