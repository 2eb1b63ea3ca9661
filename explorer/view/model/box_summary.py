"""Summaries of closed boxes: their steps in order, or their most frequent operations.

The texts of all boxes are created together, since the summary of a box uses the steps of its inner boxes.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence

from explorer.record import Recording
from explorer.record.reasons import micros_text
from explorer.view.base import font
from explorer.view.model.labels import TYPE, fit, short_type
from explorer.view.model.operator_titles import OperatorTitle, type_word
from explorer.view.model.totals import counted
from explorer.view.tree.box_tree import Box, BoxItem, Tree
from explorer.view.tree.slots import Slots

_STEPS = 8
"""number of steps kept at the beginning and at the end of a box"""
_WIDEST = 290.0
"""maximum width of the steps in px"""
_COUNTED = 3
"""maximum number of operations counted by name"""
_FOLDED = ("part", "chain", "repeat", "stack", "block")
"""kinds of boxes from folding, whose names do not describe their contents"""
_NUMBERED = re.compile(r"(?:.*\.)?[0-9]+")


def contents(recording: Recording, slots: Slots, tree: Tree, operators: Mapping[int, OperatorTitle]) -> list[str]:
    """Return a short, safe summary of every box; "" if its name is sufficient.

    ``operators`` maps nodes that represent an operator of a file to its title.
    """
    summarizer = _BoxSummarizer(recording, slots, tree, operators)
    return [summarizer.text(box) for box in range(len(tree.boxes))]


class _BoxSummarizer:
    """Builder of summaries, inner boxes first."""

    def __init__(self, recording: Recording, slots: Slots, tree: Tree, operators: Mapping[int, OperatorTitle]) -> None:
        self._operator_titles = operators
        self._recording, self._nodes, self._slots, self._boxes = recording, recording.nodes, slots, tree.boxes
        self._steps: dict[int, list[str]] = {}
        self._counts: dict[int, Counter[str]] = {}
        self._recorded: set[int] = set()
        """boxes with a recorded node; nodes that passes create in them are not in their summaries"""
        for box in tree.postorder():
            if any(self._is_recorded(item) for item in tree.boxes[box].items):
                self._recorded.add(box)
            items = self._items(box)
            self._steps[box] = self._of(tree.boxes[box], items)
            self._counts[box] = self._count(items)

    def text(self, box: int) -> str:
        """Return the summary of one box."""
        row = self._boxes[box]
        if row.is_operator or row.kind in ("chain", "top", "body"):
            return ""
        if row.kind == "part" and row.count == 1:
            frequent = self._counts[box].most_common(_COUNTED)
            return fit(", ".join(f"{count:,} {name}" for name, count in frequent), TYPE, widest=_WIDEST)
        steps = self._steps[box]
        return _row([fit(step, TYPE) for step in steps]) if len(set(steps)) > 1 else ""

    def _is_recorded(self, item: BoxItem) -> bool:
        """Return whether an item is a recorded node, or a box with one."""
        if item.table == "box":
            return item.number in self._recorded
        return self._nodes.born[self._slots.nodes[item.number][0]] < 0

    def _items(self, box: int) -> list[BoxItem]:
        """Return the recorded items of a box, or all items of a box that was created by a pass."""
        row = self._boxes[box]
        if row.kind == "batch" or box not in self._recorded:
            return row.items
        return [item for item in row.items if self._is_recorded(item)]

    def _of(self, box: Box, items: Sequence[BoxItem]) -> list[str]:
        """Return the first and last steps of a box; for a box of equal items, the steps of one item."""
        if box.count > 1:
            table, index = items[0]
            while table == "box" and self._boxes[index].kind == "part":
                table, index = self._boxes[index].items[0]
            return self._step(index) if table == "slot" else self._steps[index]
        boxes = [self._boxes[index] for table, index in items if table == "box"]
        outer = len(boxes) == len(items) and not any(inner.is_operator for inner in boxes)
        steps: list[str] = []
        for table, index in sorted(items, key=self._is_call) if box.kind == "batch" else items:
            if box.kind == "batch" and self._is_gone(table, index):
                continue
            if table == "slot":
                steps += self._step(index, inlined=box.kind == "batch")
                continue
            inner = self._boxes[index]
            if inner.is_operator or inner.steps:
                steps.append(self._operator(inner))
            elif inner.count > 1:
                steps.append(f"{inner.label} ×{inner.count:,}")
            elif not outer and (inner.kind in _FOLDED or _NUMBERED.fullmatch(inner.label)):
                steps += self._steps[index]
            else:
                steps.append(inner.label)
        return steps if len(steps) <= 2 * _STEPS else [*steps[:_STEPS], *steps[-_STEPS:]]

    def _count(self, items: Sequence[BoxItem]) -> Counter[str]:
        counts: Counter[str] = Counter()
        for table, index in items:
            counts.update(self._step(index) if table == "slot" else self._counts[index])
        return counts

    def _step(self, slot: int, inlined: bool = False) -> list[str]:
        members = self._slots.nodes[slot]
        # A call created by a pass and inlined later is described by its body, like a mapped call.
        recorded = self._nodes.born[members[0]] < 0 and not inlined
        node = members[0] if recorded else counted(self._recording, members)
        if node in self._operator_titles:
            return [self._operator_titles[node].type]
        return [self._nodes.label[node]] if self._nodes.kind[node] in ("operation", "call") else []

    def _is_call(self, item: BoxItem) -> bool:
        """Return whether an item is the slot of a mapped call, later replaced by the last operation of its body."""
        return item.table == "slot" and self._nodes.kind[self._slots.nodes[item.number][0]] == "call"

    def _is_gone(self, table: str, index: int) -> bool:
        """Return whether no node of a batch is left at the end, in a slot or in the slots of a box."""
        slots = (
            [index] if table == "slot" else [item.number for item in self._boxes[index].items if item.table == "slot"]
        )
        return bool(slots) and all(self._nodes.gone[self._slots.nodes[slot][-1]] >= 0 for slot in slots)

    def _operator(self, box: Box) -> str:
        """Return the type of a file's operator; for a ``pnnx.Expression``, the name of its costliest operation."""
        known = type_word(box.type)
        if known:
            return known
        inside = [self._slots.nodes[slot][0] for _, slot in box.items]
        return self._nodes.label[max(inside, key=lambda node: (self._nodes.flops[node] or 0, node))]


def _row(steps: list[str]) -> str:
    """Join as many of the first and last steps as fit."""
    text = " → ".join(steps)
    head, tail = steps[: (len(steps) + 1) // 2], steps[(len(steps) + 1) // 2 :]
    while font.width(text, TYPE) > _WIDEST and len(head) + len(tail) > 2:
        if len(head) > len(tail):
            head.pop()
        else:
            tail.pop(0)
        text = " → ".join([*head, "…", *tail])
    return text


def batch_lines(recording: Recording, decisions: Sequence[int]) -> list[str]:
    """Return shapes and gain of batches: ``32 × 10 f32 → 32×10 f32``, ``7.14 ms instead of 56.2 ms, estimated``."""
    rows = [recording.decisions[decision] for decision in decisions]
    last, lines = rows[-1], []
    if last.subjects and last.produced:
        before, after = (
            short_type(recording, recording.nodes.type[ends[0]]) for ends in (last.subjects, last.produced)
        )
        lines.append(fit(f"{len(last.subjects):,} × {before} → {after}", TYPE))
    if all("together_us" in decision.facts and "separate_us" in decision.facts for decision in rows):
        together = micros_text(sum(decision.facts["together_us"] for decision in rows))
        separate = micros_text(sum(decision.facts["separate_us"] for decision in rows))
        lines.append(fit(f"{together} instead of {separate}, estimated", TYPE))
    return lines
