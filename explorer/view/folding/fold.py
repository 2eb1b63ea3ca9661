"""Folding: long, repeated or oversized parts of a graph become boxes that open on demand.

It runs once per recording, after the program's scopes have become boxes. The user's structure has priority, and only
boxes that still contain too much are folded. Graph clustering would find groups without names.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import compress
from typing import NamedTuple

from explorer.record import Recording
from explorer.view.folding.added_node_boxes import gather_produced
from explorer.view.folding.batch_boxes import gather
from explorer.view.folding.isomorphic_subgraphs import equal_subgraphs
from explorer.view.folding.repeated_segments import repeated
from explorer.view.tree.box_tree import Box, BoxItem, Tree, lift, lifted
from explorer.view.tree.slots import Slots
from explorer.view.tree.structural_hash import Structure
from explorer.view.tree.topological import contractible, levels, ordered

SHOWN_MEMBERS = 6
"""maximum number of equal boxes shown side by side in a repeat or stack"""
MAX_PARTS = 40
"""maximum number of parts of a large box that is cut"""


class Joined(NamedTuple):
    """Items of one box that become a nested box."""

    kind: str
    label: str
    members: list[int]


CHAIN = 8
"""minimum length of a folded chain, or number of folded equal leaves"""
LEAF_ROW = 16
"""minimum number of folded leaves of several types with the same readers, which would be wider than a page"""
EQUAL_NEIGHBOURS = 3
"""minimum number of equal neighbours in a repeat or a stack"""
PAIR_OPERATIONS = 4
"""minimum number of operations of a box for which two equal boxes are a repeat"""
MAX_ITEMS = 150
"""maximum number of items of a box"""
FOLDED = ("stack", "part")
"""kinds of boxes with equal items, which are not folded further"""

Edges = list[tuple[int, int]]


def fold(recording: Recording, slots: Slots, tree: Tree) -> None:
    """Put batches and produced nodes into boxes, fold blocks, chains, stacks and repeats, and cut large boxes."""
    gather(recording, slots, tree)
    gather_produced(recording, slots, tree)
    folder = _Folder(recording, slots, tree)
    edges, recorded = lifted(tree, slots)
    # The outermost boxes are not inside other boxes, so their structure is never compared.
    if inner := [box for box in tree.postorder() if box >= len(tree.bodies)]:
        folder.structure.enter(tree, inner, recorded)
    if new_boxes := stack_subgraphs(folder, edges, recorded):
        edges, recorded = lifted(tree, slots)
        folder.structure.enter(tree, new_boxes, recorded)
    if new_boxes := folder.blocks(edges):
        edges, recorded = lifted(tree, slots)
        folder.structure.enter(tree, new_boxes, recorded)
    for box in tree.postorder():
        items = tree.boxes[box].items
        if tree.boxes[box].kind in FOLDED:
            continue
        joined = folder.chains(items, edges[box])
        joined += folder.stacks(items, edges[box], recorded[box], joined)
        joined += folder.leaves(items, edges[box], joined)
        joined += folder.repeats(items, edges[box], joined)
        if joined:
            folder.join(box, joined)
    if large := [box for box in tree.postorder() if len(tree.boxes[box].items) > MAX_ITEMS]:
        edges = lift(tree, slots.edges)
        for box in large:
            folder.cut(box, edges[box])
    tree.compact()


class _Folder:
    """Builder of chains, stacks, leaves, repeats and parts."""

    def first(self, slot: int) -> int:
        """Return the first node of a slot."""
        return self.slots.nodes[slot][0]

    def is_leaf(self, item: BoxItem) -> bool:
        """Return whether an item is an input value of the program."""
        return item.table == "slot" and self.leaf[item.number]

    def join(self, box: int, joined: Sequence[Joined]) -> None:
        """Put each group of items into a new box, at the position of its first item."""
        items = self.tree.boxes[box].items
        inside: dict[int, int] = {}
        for group in joined:
            inner = self.add(Box(group.kind, group.label, box, count=len(group.members)))
            members = [items[member] for member in group.members]
            self.tree.set_items(inner, members)
            if group.kind == "chain":
                self._split_chain(inner, members, group.label)
            elif members[0].table == "box" and group.kind != "block":
                self._keep_first(inner, members)
            inside.update(dict.fromkeys(group.members, inner))
        # fromkeys keeps the first occurrence, so a new box replaces its first item.
        remaining = list(
            dict.fromkeys(BoxItem("box", inside[i]) if i in inside else item for i, item in enumerate(items))
        )
        if len(remaining) == 1 and joined and joined[0].kind == "repeat" and self.tree.boxes[box].parent >= 0:
            # A box that contains only a repeat becomes that repeat.
            self.tree.boxes[box].count = len(joined[0].members)
            remaining = self.tree.boxes[remaining[0].number].items
        self.tree.set_items(box, remaining)

    def number(self, boxes: Sequence[int]) -> None:
        """Label new boxes as numbered blocks."""
        for number, box in enumerate(boxes, self._blocks + 1):
            self.tree.boxes[box].label, self.tree.boxes[box].count = f"block {number:,}", 1
        self._blocks += len(boxes)

    def common(self, items: list[BoxItem]) -> str:
        """Return a common name for equal items: their shared name, or the first and last names."""
        nodes, boxes = self.recording.nodes, self.tree.boxes
        first, last = (
            boxes[index].label.split(" / ")[0] if table == "box" else nodes.label[self.first(index)]
            for table, index in (items[0], items[-1])
        )
        if first == last:
            return first
        return f"{first} … {last.removeprefix(first[: first.rfind('.') + 1])}"

    def _keep_first(self, box: int, members: list[BoxItem]) -> None:
        """Show the first of many equal boxes and hide the others in a nested box; show all if they are few."""
        if len(members) <= SHOWN_MEMBERS:
            return
        label = f"{len(members) - 1:,} more: {self.common(members[1:])}"
        rest = self.add(Box("part", label, box, count=len(members) - 1))
        self.tree.set_items(rest, members[1:])
        self.tree.set_items(box, [members[0], BoxItem("box", rest)])

    def add(self, box: Box) -> int:
        """Append a box; return its index."""
        self.tree.boxes.append(box)
        return len(self.tree.boxes) - 1

    def _split_chain(self, box: int, members: list[BoxItem], label: str) -> None:
        """Split a chain into nested chains that are short enough to read."""
        parts = members
        # Chains up to 1.5 times the limit are not split, since splitting 45 items into 40 and 5 would hide few.
        while len(parts) > MAX_PARTS + MAX_PARTS // 2:
            groups = [parts[start : start + MAX_PARTS] for start in range(0, len(parts), MAX_PARTS)]
            parts = []
            for group in groups:
                inner = self.add(Box("chain", label, box))
                self.tree.set_items(inner, group)
                self.tree.boxes[inner].count = sum(self._length(item) for item in group)
                parts.append(BoxItem("box", inner))
        self.tree.set_items(box, parts)

    def _length(self, item: BoxItem) -> int:
        return self.tree.boxes[item.number].count if item.table == "box" else 1

    def __init__(self, recording: Recording, slots: Slots, tree: Tree) -> None:
        self.recording, self.slots, self.tree = recording, slots, tree
        nodes, first, names = recording.nodes, [members[0] for members in slots.nodes], recording.operations
        self.leaf = [nodes.kind[node] in ("leaf", "input") for node in first]
        self.operations = [
            nodes.label[node] if nodes.kind[node] == "call" else names[nodes.operation[node]] for node in first
        ]
        """for each slot, the name of its first node's operation or function"""
        self.structure = Structure(recording, slots)
        self._blocks = 0
        self.readers = [0] * len(slots.nodes)
        self.operands = [0] * len(slots.nodes)
        for producer, consumer in slots.edges:
            self.readers[producer] += 1
            self.operands[consumer] += 1
        self._ordered: dict[int, tuple[list[BoxItem], Edges, list[int]]] = {}

    def blocks(self, edges: list[Edges]) -> list[int]:
        """Put repeated blocks without a scope into boxes; return the new boxes."""
        new: list[int] = []
        for box in self.tree.postorder():
            items = self.tree.boxes[box].items
            leaves = {index for index, item in enumerate(items) if self.is_leaf(item)}
            if len(items) - len(leaves) < MIN_SEARCHED or self.tree.boxes[box].kind in FOLDED:
                continue
            order = ordered(len(items), edges[box], leaves)
            self._ordered[box] = items, edges[box], order
            series = [
                blocks
                for blocks in repeated(items, edges[box], order, leaves, self.structure)
                if self._repeats(items, blocks) or not self._is_chain(items, blocks[0])
            ]
            first = len(self.tree.boxes)
            self.join(box, [Joined("block", "", block) for blocks in series for block in blocks])
            new += range(first, len(self.tree.boxes))
        self.number(new)
        return new

    def _repeats(self, items: Sequence[BoxItem], blocks: Sequence[Sequence[int]]) -> bool:
        """Return whether many blocks have several kinds of operations, which a chain would not show."""
        return len(blocks) >= CHAIN // 2 and len({self.structure.of(items[index]) for index in blocks[0]}) > 1

    def _is_chain(self, items: Sequence[BoxItem], block: Sequence[int]) -> bool:
        """Return whether a block belongs to a plain chain, and is therefore folded with this chain."""
        inside = [items[index] for index in block]
        return all(table == "slot" and self.readers[slot] <= 1 and self.operands[slot] == 1 for table, slot in inside)

    def chains(self, items: list[BoxItem], edges: Edges) -> list[Joined]:
        """Find long chains: each operation is read only by the next, which reads only it or is the same operation."""
        if len(items) < CHAIN:
            return []
        follower: dict[int, int] = {}
        fed: set[int] = set()
        for tail, head in edges:
            if tail < 0 or head < 0 or "box" in (items[tail].table, items[head].table) or self.is_leaf(items[tail]):
                continue
            slot, reader = items[tail].number, items[head].number
            if self.readers[slot] != 1 or head in fed:
                continue
            # A sum of many terms is also a chain, since each step reads the previous step and one more value.
            if self.operands[reader] == 1 or self.operations[slot] == self.operations[reader]:
                follower[tail] = head
                fed.add(head)
        runs = []
        for start in follower:
            if start in fed:
                continue
            members = [start]
            while members[-1] in follower:
                members.append(follower[members[-1]])
            if len(members) >= CHAIN:
                names = {self.operations[items[member].number] for member in members}
                ends = [self.operations[items[member].number] for member in (members[0], members[-1])]
                label = names.pop() if len(names) == 1 else f"{ends[0]} … {ends[1]}"
                runs.append(Joined("chain", label, members))
        return runs

    def stacks(self, items: list[BoxItem], edges: Edges, recorded: Edges, joined: Sequence[Joined]) -> list[Joined]:
        """Find equal calls, or equal boxes, on one level that do not read each other.

        Recorded items are kept separate from items that passes produced.
        """
        if len(items) < EQUAL_NEIGHBOURS:
            return []
        taken = {member for group in joined for member in group.members}
        candidates = [index for index, item in enumerate(items) if index not in taken and self._is_stackable(item)]
        if len(candidates) < EQUAL_NEIGHBOURS:
            return []
        all_levels = levels(len(items), edges), levels(len(items), recorded)
        groups_by_key: dict[tuple[bool, int, int], list[int]] = {}
        for index in candidates:
            is_written = self._is_written(items[index])
            level = all_levels[is_written][index]
            if level >= 0:
                groups_by_key.setdefault((is_written, level, self.structure.of(items[index])), []).append(index)
        groups = [
            group
            for group in groups_by_key.values()
            if len(group) >= max(EQUAL_NEIGHBOURS, self._least(items[group[0]]))
        ]
        return [Joined("stack", self.common([items[m] for m in group]), group) for group in groups]

    def _is_written(self, item: BoxItem) -> bool:
        """Return whether an item is, or contains, a node recorded by the program."""
        pending = [item]
        while pending:
            table, index = pending.pop()
            if table == "box":
                pending += self.tree.boxes[index].items
            elif self.recording.nodes.born[self.first(index)] < 0:
                return True
        return False

    def _is_stackable(self, item: BoxItem) -> bool:
        return item.table == "box" or self.recording.nodes.kind[self.first(item.number)] == "call"

    def leaves(self, items: list[BoxItem], edges: Edges, joined: Sequence[Joined]) -> list[Joined]:
        """Find leaves with the same readers, many of one type or very many of any types, and leaves of stacks."""
        if len(items) < CHAIN:
            return []
        group_of = {member: -2 - number for number, group in enumerate(joined) for member in group.members}
        stacked = {-2 - number for number, group in enumerate(joined) if group.kind == "stack"}
        stacked |= {index for index, item in enumerate(items) if self._is_many(item)}
        readers: dict[int, set[int]] = {}
        for tail, head in edges:
            if tail >= 0 and self.is_leaf(items[tail]):
                readers.setdefault(tail, set()).add(group_of.get(head, head))
        labels = self.recording.nodes.label
        structures = {
            leaf: (self.structure.of(items[leaf]), labels[self.first(items[leaf].number)]) for leaf in readers
        }
        counts = Counter(structures[leaf] for leaf, reading in readers.items() if reading <= stacked)
        leaves_by_key: dict[tuple[int, str, frozenset[int]], list[int]] = {}
        for leaf, reading in readers.items():
            structure, label = structures[leaf]
            # The readers are visible inside the stacks. Each weight of a stack has one reader, and only the first
            # reader is visible, so weights are folded by name.
            is_read_by_stacks = reading <= stacked and counts[structure, label] >= CHAIN
            key = (structure, label, frozenset[int]()) if is_read_by_stacks else (structure, "", frozenset(reading))
            leaves_by_key.setdefault(key, []).append(leaf)
        groups = [members for members in leaves_by_key.values() if len(members) >= CHAIN]
        folded = {leaf for members in groups for leaf in members}
        leaves_by_readers: dict[frozenset[int], list[int]] = {}
        for leaf in readers:
            if leaf not in folded:
                leaves_by_readers.setdefault(frozenset(readers[leaf]), []).append(leaf)
        groups += [members for members in leaves_by_readers.values() if len(members) >= LEAF_ROW]
        return [Joined("stack", self.common([items[m] for m in group]), group) for group in map(sorted, groups)]

    def _is_many(self, item: BoxItem) -> bool:
        """Return whether an item is a box of many equal items, or of a batch of such items."""
        return self._is_batch(item) or (item.table == "box" and self.tree.boxes[item.number].kind == "stack")

    def _is_batch(self, item: BoxItem) -> bool:
        return item.table == "box" and bool(self.tree.boxes[item.number].batches)

    def repeats(self, items: list[BoxItem], edges: Edges, joined: Sequence[Joined]) -> list[Joined]:
        """Find runs of equal boxes, each of which reads the previous one."""
        taken = {member for group in joined for member in group.members}
        # Items read by only some of the stacked items may be between stacks.
        taken |= {index for index, item in enumerate(items) if self._is_many(item) and not self._is_batch(item)}
        follower: dict[int, int] = {}
        heads: set[int] = set()
        for tail, head in edges:
            if min(tail, head) < 0 or items[tail].table != "box" or items[head].table != "box":
                continue
            # A repeat is a path, so a box with two equal readers, or two equal operands, belongs to none.
            equal = self.structure.of(items[tail]) == self.structure.of(items[head])
            if equal and tail < head and not {tail, head} & taken and tail not in follower and head not in heads:
                follower[tail] = head
                heads.add(head)
        runs = []
        for start in follower:
            if start in heads:
                continue
            members = [start]
            while members[-1] in follower:
                members.append(follower[members[-1]])
            if len(members) >= self._least(items[start]):
                label = self.common([items[member] for member in members])
                runs.append(Joined("repeat", label, members))
        # A box may also read the previous one through other items; as one box they would read themselves.
        groups = [group.members for group in (*joined, *runs)]
        are_one = contractible(len(items), edges, groups)[len(joined) :] if runs else []
        return list(compress(runs, are_one))

    def _least(self, item: BoxItem) -> int:
        """Return the minimum number of equal items to fold, which is higher for operators of a file."""
        if item.table == "slot":
            return EQUAL_NEIGHBOURS
        box = self.tree.boxes[item.number]
        return CHAIN if box.is_operator else 2 if self._works(box) else EQUAL_NEIGHBOURS

    def _works(self, box: Box) -> bool:
        """Return whether a box contains enough operations for a repeat of two; an operator of a file counts once."""
        count, inside = 0, list(box.items)
        while inside and count < PAIR_OPERATIONS:
            item = inside.pop()
            inner = self.tree.boxes[item.number] if item.table == "box" else None
            if inner is None or inner.is_operator:
                count += not self.is_leaf(item)
            else:
                inside += inner.items
        return count >= PAIR_OPERATIONS

    def cut(self, box: int, edges: Edges) -> None:
        """Cut a box into parts in topological order, so that parts read only earlier parts."""
        items = self.tree.boxes[box].items
        cached = self._ordered.get(box)
        leaves = {index for index, item in enumerate(items) if self.is_leaf(item)}
        # The order comes from the search for repeated blocks, and is still valid if nothing was folded since.
        positions = cached[2] if cached and cached[:2] == (items, edges) else ordered(len(items), edges, leaves)
        order = [items[position] for position in positions]
        pending = [(box, order, 1)]
        while pending:
            container, members, first = pending.pop()
            if len(members) <= MAX_ITEMS:
                self.tree.set_items(container, members)
                continue
            # Few parts with many nodes each, because too many parts would have to be cut again.
            size = max(-(-len(members) // MAX_PARTS), MAX_ITEMS // 3)
            parts = []
            for start in range(0, len(members), size):
                group = members[start : start + size]
                label = f"nodes {first + start:,} – {first + start + len(group) - 1:,}"
                inner = self.add(Box("part", label, container))
                parts.append(BoxItem("box", inner))
                pending.append((inner, group, first + start))
            self.tree.set_items(container, parts)


MIN_SEARCHED = 24
"""minimum number of operations of a box that is searched for repetition"""

_Edges = Sequence[Sequence[tuple[int, int]]]
_Pieces = list[list[BoxItem]]
"""equal subgraphs, each with its operations in the same order"""


def stack_subgraphs(folder: _Folder, edges: _Edges, recorded: _Edges) -> list[int]:
    """Stack equal operations and equal subgraphs in every box; return the new boxes, inner boxes first.

    Recorded items and produced items are compared separately: ``recorded`` are each box's edges between recorded items,
    ``edges`` all its edges.
    """
    tree = folder.tree
    stacked = [(box, stacks) for box in tree.postorder() if (stacks := _find(folder, box, edges, recorded))]
    first = len(tree.boxes)
    for box, stacks in stacked:
        inside = {item: stack for pieces in stacks for stack in [_stack(folder, box, pieces)] for item in _flat(pieces)}
        tree.set_items(box, list(dict.fromkeys([inside.get(item, item) for item in tree.boxes[box].items])))
    return [box for box in tree.postorder() if box >= first]


def _find(folder: _Folder, box: int, edges: _Edges, recorded: _Edges) -> list[_Pieces]:
    """Return the sets of equal subgraphs in a box that are worth a stack."""
    items, nodes = folder.tree.boxes[box].items, folder.recording.nodes
    first = {
        index: folder.first(item.number)
        for index, item in enumerate(items)
        if item.table == "slot" and nodes.kind[folder.first(item.number)] in ("operation", "call")
    }
    if len(first) < MIN_SEARCHED:
        return []

    lines = [(source.where, source.line) for source in folder.recording.sources]

    def operation_of(index: int) -> tuple[int, tuple[str, int] | None]:
        """Return the key of an item, which contains its line, since items from different lines are not repetitions."""
        row = nodes.source[first[index]]
        return folder.structure.of(items[index]), lines[row] if row >= 0 else None

    written = {index for index, node in first.items() if nodes.born[node] < 0}
    sets = equal_subgraphs(len(items), recorded[box], written, operation_of)
    sets += equal_subgraphs(len(items), edges[box], first.keys() - written, operation_of)
    # If only a few operations on one level are equal, it is a coincidence and not repetition.
    if 2 * sum(len(pieces) * len(pieces[0]) for pieces in sets) < len(first):
        sets = [pieces for pieces in sets if len(pieces[0]) > 1]
    return [[[items[index] for index in piece] for piece in pieces] for pieces in sets]


def _flat(pieces: _Pieces) -> list[BoxItem]:
    return [item for piece in pieces for item in piece]


def _stack(folder: _Folder, box: int, pieces: _Pieces) -> BoxItem:
    """Put equal subgraphs into one box, which shows the first subgraph, and the others stacked by operation."""
    names = [folder.operations[slot] for _, slot in pieces[0]]
    label = names[0] if names[0] == names[-1] else f"{names[0]} … {names[-1]}"
    stack = _box(folder, "stack", label, box, len(pieces))
    if len(names) == 1:
        members = _flat(pieces)
    elif len(pieces) <= SHOWN_MEMBERS:
        members = [_block(folder, stack, number, piece) for number, piece in enumerate(pieces, 1)]
    else:
        rest = _box(folder, "part", f"{len(pieces) - 1:,} more", stack)
        if len(pieces) <= MAX_PARTS:
            inside = [_block(folder, rest, number, piece) for number, piece in enumerate(pieces[1:], 2)]
        else:
            inside = [
                _filled(
                    folder, _box(folder, "stack", name, rest, len(pieces) - 1), [piece[index] for piece in pieces[1:]]
                )
                for index, name in enumerate(names)
            ]
        members = [_block(folder, stack, 1, pieces[0]), _filled(folder, rest, inside)]
    return _filled(folder, stack, members)


def _block(folder: _Folder, container: int, number: int, piece: list[BoxItem]) -> BoxItem:
    return _filled(folder, _box(folder, "block", f"block {number:,}", container), piece)


def _box(folder: _Folder, kind: str, label: str, container: int, count: int = 1) -> int:
    return folder.add(Box(kind, label, container, count=count))


def _filled(folder: _Folder, box: int, items: list[BoxItem]) -> BoxItem:
    folder.tree.set_items(box, items)
    return BoxItem("box", box)
