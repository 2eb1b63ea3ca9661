"""Memory of a program that XLA compiled: the buffers of instructions, and the bytes that are in use while each runs.

XLA writes its assignment of buffers, and the live range of each value: the first and the last instruction that need it.
Versions before 0.8 of jax write both to one file.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate

_ALLOCATION = re.compile(r"allocation (\d{1,9}): (?:0x[0-9a-f]+, )?size (\d{1,15})(.*)")
_VALUE = re.compile(r" value: <\d+ ([\w.\-]+)(\{[^}]*\})? @\d+> \(size=(\d{1,15}),offset=(\d{1,15})\)")
_NOT_ALLOCATED = ("parameter", "thread-local", "constant")
_SEQUENCE, _RANGES = "  InstructionSequence:", "  BufferLiveRange:"
_INSTRUCTION = re.compile(r"    (\d{1,9}):([\w.\-]+)$")
_RANGE = re.compile(r"    ([\w.\-]+)(\{[^}]*\}):(\d{1,9})-(\d{1,9})$")


@dataclass(frozen=True, slots=True)
class Memory:
    """Buffers of a program: positions in XLA's allocations. Buffers of an allocation may overlap."""

    sizes: tuple[int, ...] = ()
    buffer_of: Mapping[str, int] = field(default_factory=dict)
    """instruction → buffer of its result"""
    peak: int | None = None
    """bytes that a run allocates; None if XLA wrote no assignment"""
    live: Mapping[str, int] = field(default_factory=dict)
    """instruction → bytes in use while it runs; empty if XLA wrote no live ranges"""


def read_memory(assignment: str, ranges: str) -> Memory:
    """Return the memory that XLA's files about buffers and live ranges describe; parameters and constants are excluded.

    >>> from explorer.compilers.adapters.xla.memory import read_memory
    >>> assignment = "allocation 0: size 8, maybe-live-out:\\n value: <1 add @0> (size=8,offset=0): f32[2]{0}"
    >>> ranges = "  InstructionSequence:\\n    0:add\\n  BufferLiveRange:\\n    add{}:0-1"
    >>> read_memory(assignment, ranges)
    Memory(sizes=(8,), buffer_of={'add': 0}, peak=8, live={'add': 8})
    """
    buffers: dict[tuple[str, int], int] = {}
    sizes: list[int] = []
    buffer_of: dict[str, int] = {}
    slots: dict[tuple[str, str], tuple[str, int, int]] = {}
    """value → its allocation, offset and size"""
    peak, allocation = 0, ""
    for line in assignment.splitlines():
        if match := _ALLOCATION.match(line):
            allocation = "" if any(word in match[3] for word in _NOT_ALLOCATED) else match[1]
            peak += int(match[2]) if allocation else 0
        elif allocation and (match := _VALUE.match(line)):
            size, offset = int(match[3]), int(match[4])
            buffer = buffers.setdefault((allocation, offset), len(sizes))
            if buffer == len(sizes):
                sizes.append(0)
            sizes[buffer] = max(sizes[buffer], size)
            buffer_of.setdefault(match[1], buffer)
            slots[match[1], match[2] or "{}"] = allocation, offset, size
        elif not line:
            allocation = ""
    live = _live(ranges if _RANGES in ranges else assignment, slots)
    return Memory(tuple(sizes), buffer_of, peak if assignment else None, live)


def _live(text: str, slots: Mapping[tuple[str, str], tuple[str, int, int]]) -> dict[str, int]:
    """Return instruction → bytes in use while it runs, from the first to the last instruction that need each value."""
    order: dict[str, int] = {}
    spans: dict[tuple[str, int, int], list[tuple[int, int]]] = defaultdict(list)
    """memory → live ranges of the values in it; values that share memory, as in an update in place, may overlap"""
    section = ""
    for line in text.splitlines():
        if not line.startswith("    "):
            section = line
        elif section == _SEQUENCE and (match := _INSTRUCTION.match(line)):
            order[match[2]] = int(match[1])
        elif section == _RANGES and (match := _RANGE.match(line)) and (slot := slots.get((match[1], match[2]))):
            spans[slot].append((int(match[3]), int(match[4])))
    changes: dict[int, int] = defaultdict(int)
    for (_, _, size), rows in spans.items():
        for first, last in _joined(rows):
            changes[first] += size
            changes[last + 1] -= size
    steps = sorted({*changes, *order.values()})
    bytes_at = dict(zip(steps, accumulate(changes[step] for step in steps), strict=True))
    return {name: bytes_at[step] for name, step in order.items()} if spans else {}


def _joined(spans: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return the union of ranges as ranges that do not overlap."""
    joined: list[tuple[int, int]] = []
    for first, last in sorted(spans):
        if last < first:
            continue  # a torn file
        if joined and first <= joined[-1][1]:
            joined[-1] = joined[-1][0], max(joined[-1][1], last)
        else:
            joined.append((first, last))
    return joined
