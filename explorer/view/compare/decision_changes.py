"""Differences between the decisions of two plans, one line each: ``fuse · add, line 3: was ✓ …, now ✗ …: …``.

Both sides are lines (view/export/decision_lines.py) and not recordings, because one side may only be a text that a
notebook keeps, or a file of codes and facts. Pairs are looked for in this order: equal lines; the same decision at
another line, then at another place; another decision of the same rule, then of the same stage, at the same place.
"""

from __future__ import annotations

import itertools
import re
from collections import defaultdict, deque
from collections.abc import Callable, Hashable, Iterable, Sequence
from difflib import unified_diff
from typing import NamedTuple, TypeAlias

from explorer.view.export.decision_lines import MARKS, DecisionLine, read_line

_LISTED = 40
"""maximum number of listed differences"""
_REST = 20
"""maximum number of listed lines that are not about decisions"""

_CONTEXT = 3
"""words shown on either side of those that differ"""

_LINES = re.compile(r"(, ([^,]* )?line \d+)?( and .*)?$")


class Stated(NamedTuple):
    """Decision of one side: the line that it is compared by, and how a reader is told its place and reason."""

    line: DecisionLine
    place: str
    sentence: str


_Pairs: TypeAlias = list[tuple[Stated, Stated]]


def stated(lines: Iterable[DecisionLine]) -> list[Stated]:
    """Return the decisions of lines; those that share a line are returned one by one."""
    return [Stated(line._replace(times=1), line.place, line.sentence) for line in lines for _ in range(line.times)]


def changes(before: Sequence[Stated], after: Sequence[Stated]) -> list[str]:
    """Return a line for each decision that only one side took, or took otherwise, by stage; none if all are equal."""
    stages = {stage: rank for rank, stage in enumerate(dict.fromkeys([one.line.stage for one in (*before, *after)]))}
    _, before, after = _paired(before, after, lambda one: one.line)
    other_lines, before, after = _paired(before, after, lambda one: one.line._replace(place=_name(one)))
    moved, before, after = _paired(before, after, lambda one: one.line._replace(place=""))
    by_rule, before, after = _paired(before, after, lambda one: (one.line.stage, _name(one), one.line.rule))
    by_stage, before, after = _paired(before, after, lambda one: (one.line.stage, _name(one)))
    compared = by_rule + by_stage
    told_otherwise = [pair for pair in compared if _decision(pair[0]) == _decision(pair[1])]
    # What was lost or declined comes first; a decision told with another number, or taken elsewhere, explains less.
    lines = [
        *[(other, _changed(one, other)) for one, other in compared if (one, other) not in told_otherwise],
        *[(one, f"{_heading(one)}: was {_decision(one)} ({one.sentence}), now there is none") for one in before],
        *[
            (one, f"{_heading(one)}: there was none, now {_decision(one)}: {one.sentence}")
            for one in _declined_first(after)
        ],
        *[(other, _told_otherwise(one, other)) for one, other in told_otherwise],
        *[(other, _moved(one, other)) for one, other in moved],
    ]
    alike = itertools.groupby([line for _, line in sorted(lines, key=lambda line: stages[line[0].line.stage])])
    counted = [(line, len(list(same))) for line, same in alike]
    found = _cut([line if count == 1 else f"{line} ×{count:,}" for line, count in counted], _LISTED)
    if other_lines:
        (one, other), count = other_lines[0], f"{len(other_lines):,} decision{'s' * (len(other_lines) > 1)}"
        found.append(f"{count} as before, at other lines of the source: {one.place} → {other.place}")
    return found


def text_changes(before: str, after: str) -> list[str]:
    """Return the differences between two canonical texts: their decisions, or, if these are equal, other lines."""
    sides = [text.splitlines() for text in (before, after)]
    decisions = [stated(filter(None, map(read_line, lines))) for lines in sides]
    found = changes(*decisions)
    if found:
        return found
    one, other = ([line for line in lines if read_line(line) is None] for lines in sides)
    return _cut(list(unified_diff(one, other, n=0, lineterm=""))[2:], _REST)


def _paired(
    before: Sequence[Stated], after: Sequence[Stated], key: Callable[[Stated], Hashable]
) -> tuple[_Pairs, list[Stated], list[Stated]]:
    """Pair decisions with equal keys in order; return the pairs, and what is left of both sides."""
    waiting: defaultdict[Hashable, deque[int]] = defaultdict(deque)
    for number, one in enumerate(after):
        waiting[key(one)].append(number)
    pairs, left, taken = [], [], set()
    for one in before:
        if numbers := waiting.get(key(one)):
            taken.add(numbers[0])
            pairs.append((one, after[numbers.popleft()]))
        else:
            left.append(one)
    return pairs, left, [one for number, one in enumerate(after) if number not in taken]


def _name(one: Stated) -> str:
    """Return the place of a decision without lines, which any edit above moves, and without further places."""
    return _LINES.sub("", one.line.place)


def _heading(one: Stated) -> str:
    return " · ".join(filter(None, [one.line.stage, one.place]))


def _decision(one: Stated) -> str:
    return f"{one.line.mark} {one.line.rule} [{one.line.code}]"


def _moved(one: Stated, other: Stated) -> str:
    return f"{_heading(one)}: the same decision, {_decision(other)}, is now about {other.place or 'the whole plan'}"


def _changed(one: Stated, other: Stated) -> str:
    return f"{_heading(other)}: was {_decision(one)}, now {_decision(other)}: {other.sentence}"


def _declined_first(decisions: Sequence[Stated]) -> list[Stated]:
    return sorted(decisions, key=lambda one: one.line.mark != MARKS["declined"])


def _told_otherwise(one: Stated, other: Stated) -> str:
    """Return the line of a decision that is taken as before: the words of its sentence that are others now."""
    before, now = one.sentence.split(), other.sentence.split()
    first = _alike(before, now)
    last = _alike(before[first:][::-1], now[first:][::-1])
    begin = max(0, first - _CONTEXT)
    parts = [" ".join(words[begin : len(words) - max(0, last - _CONTEXT)]) for words in (before, now)]
    head, tail = "… " * (begin > 0), " …" * (last > _CONTEXT)
    return f"{_heading(other)}: still {_decision(other)}, but for: {head}{parts[0]}{tail} → {head}{parts[1]}{tail}"


def _alike(before: Sequence[str], now: Sequence[str]) -> int:
    """Return the number of words with which both begin."""
    return next((n for n, (a, b) in enumerate(zip(before, now, strict=False)) if a != b), min(len(before), len(now)))


def _cut(lines: list[str], most: int) -> list[str]:
    rest = len(lines) - most
    return lines if rest <= 0 else [*lines[:most], f"… and {rest:,} more"]
