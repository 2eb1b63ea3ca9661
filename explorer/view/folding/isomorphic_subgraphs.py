"""Independent isomorphic subgraphs, which can be drawn as one stack.

Equal operations on one level form a class, such as the first product of a thousand samples. If each operation of a
class is read by exactly one operation of another class, the two classes are joined, and so on, until each sample is one
subgraph. General subgraph isomorphism would be too slow; classes by level take linear time.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable, Sequence

from explorer.view.tree.topological import contractible, levels

MIN_COUNT = 8
"""minimum number of equal operations or small subgraphs in a set"""
FEW, LARGE = 4, 8
"""minimum number of equal subgraphs in a set if each has at least ``LARGE`` operations, such as attention's heads"""
_SHARED_FRACTION = 16
"""inverse of the minimum fraction of a class that reads a shared weight"""

_Edges = Sequence[tuple[int, int]]


def equal_subgraphs(
    count: int, edges: _Edges, candidates: Collection[int], operation_of: Callable[[int], Hashable]
) -> list[list[list[int]]]:
    """Return sets of equal subgraphs of a graph with ``count`` items; each subgraph is an ascending list of items.

    ``candidates`` are the items that may be grouped; ``does`` returns the operation of an item.
    """
    if len(candidates) < MIN_COUNT:
        return []
    classes = _classes(count, edges, candidates, operation_of)
    of = {item: number for number, members in enumerate(classes) for item in members}
    between: dict[tuple[int, int], list[tuple[int, int]]] = {}
    for tail, head in edges:
        if tail in of and head in of:
            between.setdefault((of[tail], of[head]), []).append((tail, head))
    paired = {
        pair: links for pair, links in between.items() if _is_bijection(links, classes[pair[0]], classes[pair[1]])
    }
    sets: list[list[list[int]]] = []
    for numbers in _components(range(len(classes)), paired):
        inside = set(numbers)
        rules = [edge for (tail, _), links in paired.items() if tail in inside for edge in links]
        pieces = _components([item for number in numbers for item in classes[number]], rules)
        # If each piece has one item of each class, the pieces are equal subgraphs; otherwise, only single items are.
        if all(len(piece) == len(numbers) for piece in pieces):
            sets.append(pieces)
        else:
            sets += [[[item] for item in classes[number]] for number in numbers]
    # Sets that are too small must not divide others, and some become too small when they are divided.
    sets = _without_cycles(count, edges, [pieces for pieces in sets if _are_many(pieces)])
    return sorted([pieces for pieces in sets if _are_many(pieces)], key=lambda pieces: pieces[0])


def _are_many(pieces: list[list[int]]) -> bool:
    return len(pieces) >= MIN_COUNT or len(pieces[0]) >= LARGE


def _classes(
    count: int, edges: _Edges, candidates: Collection[int], operation_of: Callable[[int], Hashable]
) -> list[list[int]]:
    """Group items with equal operations on one level that read the same shared values."""
    level = levels(count, edges)
    by_operation: dict[Hashable, list[int]] = {}
    for item in sorted(candidates):
        if level[item] >= 0:
            by_operation.setdefault((level[item], operation_of(item)), []).append(item)
    reads: dict[int, list[int]] = {}
    for tail, head in edges:
        if tail >= 0 and head >= 0:
            reads.setdefault(head, []).append(tail)
    classes: list[list[int]] = []
    for members in by_operation.values():
        if len(members) < FEW:
            continue
        readers: dict[int, int] = {}
        for item in members:
            for tail in reads.get(item, ()):
                readers[tail] = readers.get(tail, 0) + 1
        # A value read by many items is shared by them; a value read by a few is their own input.
        least = max(MIN_COUNT, len(members) // _SHARED_FRACTION)
        by_shared: dict[tuple[int, ...], list[int]] = {}
        for item in members:
            shared = tuple(sorted([tail for tail in reads.get(item, ()) if readers[tail] >= least]))
            by_shared.setdefault(shared, []).append(item)
        classes += [part for part in by_shared.values() if len(part) >= FEW]
    return classes


def _is_bijection(edges: _Edges, tails: Sequence[int], heads: Sequence[int]) -> bool:
    if not len(edges) == len(tails) == len(heads):
        return False
    return len({tail for tail, _ in edges}) == len({head for _, head in edges}) == len(edges)


def _components(vertices: Iterable[int], edges: Iterable[tuple[int, int]]) -> list[list[int]]:
    """Return the connected components, each in ascending order, sorted by their first item."""
    neighbours: dict[int, list[int]] = {vertex: [] for vertex in vertices}
    for tail, head in edges:
        neighbours[tail].append(head)
        neighbours[head].append(tail)
    seen: set[int] = set()
    parts = []
    for vertex in sorted(neighbours):
        if vertex in seen:
            continue
        seen.add(vertex)
        part = [vertex]
        for member in part:
            for other in neighbours[member]:
                if other not in seen:
                    seen.add(other)
                    part.append(other)
        parts.append(sorted(part))
    return parts


def _without_cycles(count: int, edges: _Edges, sets: list[list[list[int]]]) -> list[list[list[int]]]:
    """Split subgraphs whose operations are connected through outside items, since their box would read itself."""
    while any(len(pieces[0]) > 1 for pieces in sets):
        are_one = contractible(count, edges, [[item for piece in pieces for item in piece] for pieces in sets])
        split: list[list[list[int]]] = []
        for pieces, is_one in zip(sets, are_one, strict=True):
            if is_one or len(pieces[0]) == 1:
                split.append(pieces)
            else:
                split += [[[piece[index]] for piece in pieces] for index in range(len(pieces[0]))]
        # Nothing was split, so no subgraph reads itself through other items any more.
        if len(split) == len(sets):
            break
        sets = split
    return sets
