"""Alignment of two sequences: elements between known pairs are paired in order.

Used by matching.py where structure does not decide: of two operations that look alike, those at corresponding places of
the program are taken for the same. Known pairs fix what corresponds.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter, deque
from collections.abc import Callable, Hashable, Iterator, Sequence
from difflib import SequenceMatcher

_MOST = 2_000_000
"""limit of candidate pairs for the longest common subsequence; beyond it, equal elements are paired in order"""


def align(
    first: Sequence[int],
    second: Sequence[int],
    pairs: dict[int, int],
    keys: tuple[Callable[[int], Hashable], Callable[[int], Hashable]],
) -> Iterator[tuple[int, int]]:
    """Yield new pairs of equal keys between known pairs that are in the same order on both sides.

    ``first`` and ``second`` are the nodes of both sides in order; ``keys`` return the key of a node of either side.
    """
    place = {node: at for at, node in enumerate(second)}
    taken = {place[partner] for node, partner in pairs.items() if partner in place}
    known = [(at, place[pairs[node]]) for at, node in enumerate(first) if pairs.get(node) in place]
    start = (0, 0)
    # Pairs that keep their order cut both sides into pieces, and each piece is aligned by itself: what moved elsewhere
    # does not disturb it.
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
    # SequenceMatcher takes quadratic time where many elements are equal.
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
            # Patience sorting: `ends` has the smallest last element of an increasing run of each length, so that it
            # stays sorted.
            ends[at], last[at] = there, index
    longest: list[tuple[int, int]] = []
    index = last[-1] if last else -1
    while index >= 0:
        longest.append(pairs[index])
        index = before[index]
    return longest[::-1]
