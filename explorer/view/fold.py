"""Folding: what is long, repeated or too much to draw becomes boxes, which open on demand."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from explorer.record import Recording
from explorer.view.blocks import repeated
from explorer.view.boxes import Box, Item, Tree, lift
from explorer.view.slots import Slots
from explorer.view.structure import Structure

CHAIN = 8
"""operations of a chain, or equal leaves, that are folded at least"""
ALIKE = 3
"""equal neighbours that a repeat or a stack has at least"""
PAIR = 4
"""operations of a box of which two in a row are a repeat already"""
FEW = 6
"""equal boxes that stand side by side in their repeat or stack at most"""
LONG = 24
"""operations of a box at least that is searched for blocks that repeat"""
MOST = 150
"""items that a box holds at most"""
PARTS = 40
"""boxes into which a box with more items is cut at most"""

Edges = list[tuple[int, int]]


def fold(recording: Recording, slots: Slots, tree: Tree) -> None:
    """Fold chains, stacks and repeats, then cut what still holds too much."""
    folder = _Folder(recording, slots, tree)
    edges = lift(tree, slots.edges)
    # No box holds the outermost ones: nothing asks how those are built.
    if inner := [box for box in tree.inside_out() if box >= len(tree.bodies)]:
        folder.structure.enter(tree, inner, lift(tree, slots.recorded))
    if folder.blocks(edges):
        edges = lift(tree, slots.edges)
    is_changed = False
    for box in tree.inside_out():
        items = tree.boxes[box].items
        joined = folder.chains(items, edges[box])
        joined += folder.stacks(items, edges[box], joined)
        joined += folder.leaves(items, edges[box], joined)
        joined += folder.repeats(items, edges[box], joined)
        if joined:
            folder.join(box, joined)
            is_changed = True
    if is_changed:
        edges = lift(tree, slots.edges)
    for box in tree.inside_out():
        if len(tree.boxes[box].items) > MOST:
            folder.cut(box, edges[box] if box < len(edges) else [])
    tree.compact()


class _Joined(NamedTuple):
    """Items of one box that become a box of their own."""

    kind: str
    label: str
    members: list[int]


class _Folder:
    def __init__(self, recording: Recording, slots: Slots, tree: Tree) -> None:
        self.recording, self.slots, self.tree = recording, slots, tree
        self.readers = [0] * len(slots.nodes)
        self.operands = [0] * len(slots.nodes)
        for producer, consumer in slots.edges:
            self.readers[producer] += 1
            self.operands[consumer] += 1
        kinds = recording.nodes.kind
        self.leaf = [kinds[members[0]] in ("leaf", "input") for members in slots.nodes]
        self.structure = Structure(recording, slots)
        self._ordered: dict[int, tuple[list[Item], Edges, list[int]]] = {}

    def first(self, slot: int) -> int:
        return self.slots.nodes[slot][0]

    def operation(self, slot: int) -> str:
        return self.recording.operations[self.recording.nodes.operation[self.first(slot)]]

    def is_leaf(self, item: Item) -> bool:
        return item.kind == "slot" and self.leaf[item.number]

    def blocks(self, edges: list[Edges]) -> bool:
        """Put blocks that repeat without a scope of their own into boxes; tell whether there are any."""
        new: list[int] = []
        for box in self.tree.inside_out():
            items = self.tree.boxes[box].items
            leaves = {index for index, item in enumerate(items) if self.is_leaf(item)}
            if len(items) - len(leaves) < LONG:
                continue
            order = self._order(items, edges[box])
            self._ordered[box] = items, edges[box], order
            series = repeated(items, edges[box], order, leaves, self.structure)
            found = [blocks for blocks in series if not self._is_chain(items, blocks[0])]
            first = len(self.tree.boxes)
            self.join(box, [_Joined("block", "", block) for blocks in found for block in blocks])
            new += range(first, len(self.tree.boxes))
        for number, box in enumerate(new, 1):
            self.tree.boxes[box].label, self.tree.boxes[box].count = f"block {number:,}", 1
        if new:
            self.structure.enter(self.tree, new, lift(self.tree, self.slots.recorded))
        return bool(new)

    def _is_chain(self, items: Sequence[Item], block: Sequence[int]) -> bool:
        """Tell whether a block is a stretch of a plain chain, which is folded as such."""
        inside = [items[index] for index in block]
        return all(kind == "slot" and self.readers[slot] <= 1 and self.operands[slot] == 1 for kind, slot in inside)

    def chains(self, items: list[Item], edges: Edges) -> list[_Joined]:
        """Find long runs of operations: each is read by the next only, and reads it only or does the same again."""
        follower: dict[int, int] = {}
        fed: set[int] = set()
        for tail, head in edges:
            if min(tail, head) < 0 or "box" in (items[tail].kind, items[head].kind) or self.is_leaf(items[tail]):
                continue
            one, other = items[tail].number, items[head].number
            alike = self.operands[other] == 1 or self.operation(one) == self.operation(other)
            if self.readers[one] == 1 and alike and head not in fed:
                follower[tail] = head
                fed.add(head)
        found = []
        for start in follower:
            if start in fed:
                continue
            members = [start]
            while members[-1] in follower:
                members.append(follower[members[-1]])
            if len(members) >= CHAIN:
                names = {self.operation(items[member].number) for member in members}
                ends = [self.operation(items[member].number) for member in (members[0], members[-1])]
                label = names.pop() if len(names) == 1 else f"{ends[0]} … {ends[1]}"
                found.append(_Joined("chain", label, members))
        return found

    def stacks(self, items: list[Item], edges: Edges, joined: Sequence[_Joined]) -> list[_Joined]:
        """Find equal calls, or equal boxes, that stand on one level: none reads another."""
        taken = {member for group in joined for member in group.members}
        found = [index for index, item in enumerate(items) if index not in taken and self._is_stackable(item)]
        if len(found) < ALIKE:
            return []
        level = levels(len(items), edges)
        alike: dict[tuple[int, int], list[int]] = {}
        for index in found:
            item = items[index]
            if level[index] >= 0:
                alike.setdefault((level[index], self.structure.of(item)), []).append(index)
        groups = [group for group in alike.values() if len(group) >= max(ALIKE, self._least(items[group[0]]))]
        return [_Joined("stack", self._common([items[m] for m in group]), group) for group in groups]

    def _is_stackable(self, item: Item) -> bool:
        return item.kind == "box" or self.recording.nodes.kind[self.first(item.number)] == "call"

    def leaves(self, items: list[Item], edges: Edges, joined: Sequence[_Joined]) -> list[_Joined]:
        """Find many leaves of one type that the same things read."""
        group_of = {member: -2 - number for number, group in enumerate(joined) for member in group.members}
        readers: dict[int, set[int]] = {}
        for tail, head in edges:
            if tail >= 0 and self.is_leaf(items[tail]):
                readers.setdefault(tail, set()).add(group_of.get(head, head))
        alike: dict[tuple[int, frozenset[int]], list[int]] = {}
        for leaf, reading in readers.items():
            alike.setdefault((self.structure.of(items[leaf]), frozenset(reading)), []).append(leaf)
        groups = [sorted(members) for members in alike.values() if len(members) >= CHAIN]
        return [_Joined("stack", self._common([items[m] for m in group]), group) for group in groups]

    def repeats(self, items: list[Item], edges: Edges, joined: Sequence[_Joined]) -> list[_Joined]:
        """Find runs of equal boxes of which each reads the one before."""
        taken = {member for group in joined for member in group.members}
        follower: dict[int, int] = {}
        heads: set[int] = set()
        for tail, head in edges:
            if min(tail, head) < 0 or items[tail].kind != "box" or items[head].kind != "box":
                continue
            equal = self.structure.of(items[tail]) == self.structure.of(items[head])
            if equal and tail < head and not {tail, head} & taken and tail not in follower and head not in heads:
                follower[tail] = head
                heads.add(head)
        found = []
        for start in follower:
            if start in heads:
                continue
            members = [start]
            while members[-1] in follower:
                members.append(follower[members[-1]])
            if len(members) >= self._least(items[start]):
                label = self._common([items[member] for member in members])
                found.append(_Joined("repeat", label, members))
        return found

    def _least(self, item: Item) -> int:
        """How many equals are folded at least: single operators of a file are small, and their names say much."""
        if item.kind == "slot":
            return ALIKE
        box = self.tree.boxes[item.number]
        return CHAIN if box.is_operator else 2 if self._works(box) else ALIKE

    def _works(self, box: Box) -> bool:
        """Tell whether a box has work enough inside, each operator of a file counted once."""
        found, inside = 0, list(box.items)
        while inside and found < PAIR:
            item = inside.pop()
            inner = self.tree.boxes[item.number] if item.kind == "box" else None
            if inner is None or inner.is_operator:
                found += not self.is_leaf(item)
            else:
                inside += inner.items
        return found >= PAIR

    def _common(self, items: list[Item]) -> str:
        """Name equal things together: the common name, or the first and last one."""
        nodes, boxes = self.recording.nodes, self.tree.boxes
        first, last = (
            boxes[index].label.split(" / ")[0] if kind == "box" else nodes.label[self.first(index)]
            for kind, index in (items[0], items[-1])
        )
        if first == last:
            return first
        return f"{first} … {last.removeprefix(first[: first.rfind('.') + 1])}"

    def join(self, box: int, joined: Sequence[_Joined]) -> None:
        """Put each group of items into a box of its own, at the place of its first member."""
        items = self.tree.boxes[box].items
        inside: dict[int, int] = {}
        for group in joined:
            inner = self._add(Box(group.kind, group.label, box, count=len(group.members)))
            members = [items[member] for member in group.members]
            self.tree.hold(inner, members)
            if group.kind == "chain":
                self._split_chain(inner, members, group.label)
            elif members[0].kind == "box":
                self._keep_first(inner, members)
            inside.update(dict.fromkeys(group.members, inner))
        kept = list(dict.fromkeys(Item("box", inside[i]) if i in inside else item for i, item in enumerate(items)))
        if len(kept) == 1 and joined and joined[0].kind == "repeat" and self.tree.boxes[box].parent >= 0:
            # A box that holds nothing but a repeat is the repeat.
            self.tree.boxes[box].count = len(joined[0].members)
            kept = self.tree.boxes[kept[0].number].items
        self.tree.hold(box, kept)

    def _keep_first(self, box: int, members: list[Item]) -> None:
        """Show the first of many equal boxes, the others behind one more click; of few, all."""
        if len(members) <= FEW:
            return
        label = f"{len(members) - 1:,} more: {self._common(members[1:])}"
        rest = self._add(Box("part", label, box, count=len(members) - 1))
        self.tree.hold(rest, members[1:])
        self.tree.hold(box, [members[0], Item("box", rest)])

    def _add(self, box: Box) -> int:
        self.tree.boxes.append(box)
        return len(self.tree.boxes) - 1

    def _split_chain(self, box: int, members: list[Item], label: str) -> None:
        """Divide a chain into chains of chains, so that each is short enough to read."""
        parts = members
        while len(parts) > PARTS + PARTS // 2:
            groups = [parts[start : start + PARTS] for start in range(0, len(parts), PARTS)]
            parts = []
            for group in groups:
                inner = self._add(Box("chain", label, box))
                self.tree.hold(inner, group)
                self.tree.boxes[inner].count = sum(self._length(item) for item in group)
                parts.append(Item("box", inner))
        self.tree.hold(box, parts)

    def _length(self, item: Item) -> int:
        return self.tree.boxes[item.number].count if item.kind == "box" else 1

    def cut(self, box: int, edges: Edges) -> None:
        """Cut a box into parts, in topological order, so that parts read earlier parts only."""
        items = self.tree.boxes[box].items
        known = self._ordered.get(box)
        places = known[2] if known and known[:2] == (items, edges) else self._order(items, edges)
        order = [items[place] for place in places]
        pending = [(box, order, 1)]
        while pending:
            holder, members, first = pending.pop()
            if len(members) <= MOST:
                self.tree.hold(holder, members)
                continue
            size = max(-(-len(members) // PARTS), MOST // 3)
            parts = []
            for start in range(0, len(members), size):
                group = members[start : start + size]
                label = f"nodes {first + start:,} – {first + start + len(group) - 1:,}"
                inner = self._add(Box("part", label, holder))
                parts.append(Item("box", inner))
                pending.append((inner, group, first + start))
            self.tree.hold(holder, parts)

    def _order(self, items: list[Item], edges: Edges) -> list[int]:
        """Order items topologically, as recorded where that leaves a choice, each leaf just before its first reader."""
        readers: list[list[int]] = [[] for _ in items]
        leaves: list[list[int]] = [[] for _ in items]
        missing = [0] * len(items)
        is_leaf = [self.is_leaf(item) for item in items]
        for tail, head in edges:
            if tail >= 0 and head >= 0:
                if is_leaf[tail]:
                    leaves[head].append(tail)
                else:
                    readers[tail].append(head)
                    missing[head] += 1
        done: dict[int, None] = {}
        ready = [index for index, count in enumerate(missing) if count == 0 and not is_leaf[index]]
        while ready:
            index = heapq.heappop(ready)
            for leaf in leaves[index]:
                done[leaf] = None
            done[index] = None
            for reader in readers[index]:
                missing[reader] -= 1
                if missing[reader] == 0:
                    heapq.heappush(ready, reader)
        done.update(dict.fromkeys(range(len(items))))
        return list(done)


def levels(count: int, edges: Iterable[tuple[int, int]]) -> list[int]:
    """Give each item the length of the longest path to it, −1 for items on a cycle or after one."""
    readers: list[list[int]] = [[] for _ in range(count)]
    missing = [0] * count
    for tail, head in edges:
        if min(tail, head) >= 0:
            readers[tail].append(head)
            missing[head] += 1
    level = [0 if missing[index] == 0 else -1 for index in range(count)]
    ready = [index for index in range(count) if missing[index] == 0]
    for index in ready:
        for reader in readers[index]:
            missing[reader] -= 1
            level[reader] = max(level[reader], level[index] + 1)
            if missing[reader] == 0:
                ready.append(reader)
    return [value if missing[index] == 0 else -1 for index, value in enumerate(level)]
