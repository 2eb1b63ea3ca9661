"""Levels and topological order of the items of one box.

Boxes may have 100,000 items, and folding may have put items on a cycle that the program's graph does not have. So
nothing here recurses, and each function documents its handling of cycles.
"""

from __future__ import annotations

import heapq
from collections.abc import Collection, Iterable, Sequence


def levels(count: int, edges: Iterable[tuple[int, int]]) -> list[int]:
    """Return for each item the length of the longest path to it; −1 for items on a cycle or after one."""
    readers: list[list[int]] = [[] for _ in range(count)]
    missing = [0] * count
    for tail, head in edges:
        if tail >= 0 and head >= 0:
            readers[tail].append(head)
            missing[head] += 1
    level = [0 if missing[index] == 0 else -1 for index in range(count)]
    ready = [index for index in range(count) if missing[index] == 0]
    # Kahn's algorithm; the list grows during the loop, and items on a cycle are never added.
    for index in ready:
        below = level[index] + 1
        for reader in readers[index]:
            missing[reader] -= 1
            if level[reader] < below:
                level[reader] = below
            if missing[reader] == 0:
                ready.append(reader)
    if len(ready) == count:
        return level
    return [value if missing[index] == 0 else -1 for index, value in enumerate(level)]


def ranks(count: int, edges: Sequence[tuple[int, int]]) -> list[int]:
    """Return the level of each item for drawing; on cycles, edges back to items with smaller indices are ignored."""
    level = levels(count, edges)
    if min(level, default=0) >= 0:
        return level
    return levels(count, [(tail, head) for tail, head in edges if tail < head or level[tail] >= 0])


def contractible(count: int, edges: Iterable[tuple[int, int]], groups: Sequence[Collection[int]]) -> list[bool]:
    """Return for each group whether it can become one item without being on a cycle of the contracted graph.

    A group on a path from one cycle to another counts as on a cycle.
    """
    item_of = list(range(count))
    for number, members in enumerate(groups, count):
        for member in members:
            item_of[member] = number
    inner = [(item_of[tail], item_of[head]) for tail, head in edges if tail >= 0 and head >= 0]
    contracted = [edge for edge in dict.fromkeys(inner) if edge[0] != edge[1]]
    after = levels(count + len(groups), contracted)
    if min(after, default=0) >= 0:
        return [True] * len(groups)
    # Items that are neither after all cycles nor before them are on a cycle, or between two.
    left = [(head, tail) for tail, head in contracted if after[tail] < 0]
    before = levels(count + len(groups), left)
    return [max(after[number], before[number]) >= 0 for number in range(count, count + len(groups))]


def ordered(count: int, edges: Iterable[tuple[int, int]], leaves: Collection[int]) -> list[int]:
    """Sort items topologically, breaking ties by index and placing each leaf just before its first reader."""
    readers: list[list[int]] = [[] for _ in range(count)]
    read: list[list[int]] = [[] for _ in range(count)]
    """leaves read by each item"""
    missing = [0] * count
    for tail, head in edges:
        if tail >= 0 and head >= 0:
            if tail in leaves:
                read[head].append(tail)
            else:
                readers[tail].append(head)
                missing[head] += 1
    done: dict[int, None] = {}
    ready = [index for index in range(count) if missing[index] == 0 and index not in leaves]
    while ready:
        index = heapq.heappop(ready)
        for leaf in read[index]:
            done[leaf] = None
        done[index] = None
        for reader in readers[index]:
            missing[reader] -= 1
            if missing[reader] == 0:
                heapq.heappush(ready, reader)
    # Items on cycles are never ready, nor are leaves that nothing reads; they come last.
    done.update(dict.fromkeys(range(count)))
    return list(done)
