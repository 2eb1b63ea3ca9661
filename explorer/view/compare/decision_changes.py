"""Differences between the decisions of two plans, one per line: ``fuse · add, line 3: was ✓ …, now ✗ …: …``.

Both sides are lines (view/export/decision_lines.py) instead of recordings, because one side may be text stored in a
notebook, or a file of codes and facts. Decisions are paired in this order: equal lines; the same decision at another
line, then at another location; another decision of the same rule, then of the same stage, at the same location.
"""

from __future__ import annotations

import itertools
import re
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from difflib import SequenceMatcher, unified_diff
from typing import NamedTuple, TypeAlias

from explorer.view.export.decision_lines import MARKS, DecisionLine, read_line

_LISTED = 40
"""maximum number of listed differences"""
_OTHER_LINES = 20
"""maximum number of listed lines that are not decisions"""

_CONTEXT = 3
"""equal words shown before and after differing ones"""

_WORDS = re.compile(r"`[^`]*`|\S+")
"""words of a sentence; a quoted name or a chain of operations is one word"""
_QUOTED = re.compile(r"`([^`]*)`")
_COST = re.compile(r"\s*[\d.]+ (µs|ms|s) ")
"""beginning of a line in the report of costs (view/export/cost_report.py)"""
_LINES = re.compile(r"(, ([^,]* )?line \d+)?( and .*)?$")


class Stated(NamedTuple):
    """Decision of one side: the line used for comparison, and the location and reason shown to readers."""

    line: DecisionLine
    location: str
    sentence: str
    facts: Mapping[str, str] | None = None
    """facts by label, if a side is stored as facts and has no sentence"""


_Pairs: TypeAlias = list[tuple[Stated, Stated]]


def stated(lines: Iterable[DecisionLine]) -> list[Stated]:
    """Return the decisions of lines; a line that ends with ``×3`` represents three decisions."""
    return [Stated(line._replace(times=1), line.location, line.sentence) for line in lines for _ in range(line.times)]


def changes(before: Sequence[Stated], after: Sequence[Stated]) -> list[str]:
    """Return a line per decision that differs or exists on one side only, by stage; an empty list if all are equal."""
    stages = {stage: rank for rank, stage in enumerate(dict.fromkeys([row.line.stage for row in (*before, *after)]))}
    _, before, after = _paired(before, after, lambda row: row.line)
    other_lines, before, after = _paired(before, after, lambda row: row.line._replace(location=_name(row)))
    moved, before, after = _paired(before, after, lambda row: row.line._replace(location=""))
    by_rule, before, after = _paired(before, after, lambda row: (row.line.stage, _name(row), row.line.rule))
    by_stage, before, after = _paired(before, after, lambda row: (row.line.stage, _name(row)))
    compared = by_rule + by_stage
    reworded = [pair for pair in compared if _decision(pair[0]) == _decision(pair[1])]
    # Lost and declined decisions come first, since changed numbers and locations explain less.
    lines = [
        *[(new, _changed(old, new)) for old, new in compared if (old, new) not in reworded],
        *[(old, f"{_heading(old)}: was {_decision(old)} ({old.sentence}), now there is none") for old in before],
        *[
            (new, f"{_heading(new)}: there was none, now {_decision(new)}: {new.sentence}")
            for new in _declined_first(after)
        ],
        *[(new, _reworded(old, new)) for old, new in reworded],
        *[(new, _moved(old, new)) for old, new in moved],
    ]
    equal_lines = itertools.groupby([line for _, line in sorted(lines, key=lambda line: stages[line[0].line.stage])])
    counted = [(line, len(list(same))) for line, same in equal_lines]
    differences = _limited([line if count == 1 else f"{line} ×{count:,}" for line, count in counted], _LISTED)
    if other_lines:
        (old, new), count = other_lines[0], f"{len(other_lines):,} decision{'s' * (len(other_lines) > 1)}"
        differences.append(f"{count} as before, at other lines of the source: {old.location} → {new.location}")
    return differences


def text_changes(before: str, after: str) -> list[str]:
    """Return the differences between the decisions of two canonical texts, or between other lines if there are none."""
    sides = [text.splitlines() for text in (before, after)]
    decisions = [list(filter(None, map(read_line, lines))) for lines in sides]
    # The cost report repeats declined decisions, so its lines count only if a text has no others.
    if any(_COST.match(line.stage) is None for lines in decisions for line in lines):
        decisions = [[line for line in lines if _COST.match(line.stage) is None] for lines in decisions]
    differences = changes(*map(stated, decisions))
    if differences:
        return differences
    old, new = ([line for line in lines if read_line(line) is None] for lines in sides)
    return _limited(list(unified_diff(old, new, n=0, lineterm=""))[2:], _OTHER_LINES)


def _paired(
    before: Sequence[Stated], after: Sequence[Stated], key: Callable[[Stated], Hashable]
) -> tuple[_Pairs, list[Stated], list[Stated]]:
    """Pair decisions with equal keys in order; return the pairs, and the remaining decisions of both sides."""
    waiting: defaultdict[Hashable, deque[int]] = defaultdict(deque)
    for number, new in enumerate(after):
        waiting[key(new)].append(number)
    pairs, rest, matched = [], [], set()
    for old in before:
        if numbers := waiting.get(key(old)):
            matched.add(numbers[0])
            pairs.append((old, after[numbers.popleft()]))
        else:
            rest.append(old)
    return pairs, rest, [new for number, new in enumerate(after) if number not in matched]


def _name(decision: Stated) -> str:
    """Return the first location of a decision without its line number, because edits above would change the number."""
    return _LINES.sub("", decision.line.location)


def _heading(decision: Stated) -> str:
    return " · ".join(filter(None, [decision.line.stage, decision.location]))


def _decision(decision: Stated) -> str:
    return f"{decision.line.mark} {decision.line.rule} [{decision.line.code}]"


def _moved(old: Stated, new: Stated) -> str:
    return f"{_heading(old)}: the same decision, {_decision(new)}, is now about {new.location or 'the whole plan'}"


def _changed(old: Stated, new: Stated) -> str:
    return f"{_heading(new)}: was {_decision(old)}, now {_decision(new)}: {new.sentence}"


def _declined_first(decisions: Sequence[Stated]) -> list[Stated]:
    return sorted(decisions, key=lambda decision: decision.line.mark != MARKS["declined"])


def _reworded(old: Stated, new: Stated) -> str:
    """Return the line of an unchanged decision, with the words of its reason that differ."""
    if old.facts is not None and new.facts is not None:
        parts = _other_facts(old.facts, new.facts)
    else:
        texts = _other_words(*(_WORDS.findall(side.sentence) for side in (old, new)))
        parts = [f"{name}: {text}" for name, text in zip(("was", "now"), texts, strict=True)]
    left, joined = _exchanged(_chain(old), _chain(new))
    parts += [
        f"{name}: {' → '.join(steps)}" for name, steps in (("no longer in it", left), ("new in it", joined)) if steps
    ]
    return f"{_heading(new)}: still {_decision(new)}; {'; '.join(parts)}"


def _other_words(before: list[str], now: list[str]) -> list[str]:
    """Return the differing words of two sentences, with a few equal words around them."""
    matcher = SequenceMatcher(None, before, now, autojunk=False)
    blocks = matcher.get_opcodes()
    sides: tuple[list[str], list[str]] = ([], [])
    for number, (tag, begin, end, new_begin, new_end) in enumerate(blocks):
        if tag == "equal":
            words = before[begin:end]
            head = words[:_CONTEXT] if number else []
            tail = words[-_CONTEXT:] if number < len(blocks) - 1 else []
            short = [*head, *["…"] * (len(words) > len(head) + len(tail)), *tail]
            for side in sides:
                side.extend(short if len(words) > len(short) else words)
        else:
            sides[0].extend(before[begin:end])
            sides[1].extend(now[new_begin:new_end])
    return [" ".join(side).removesuffix(".") for side in sides]


def _chain(decision: Stated) -> list[str]:
    """Return the operations that a decision is about, if it names a chain of them."""
    facts = decision.facts or {}
    texts = [facts["operations"]] if "operations" in facts else _QUOTED.findall(decision.sentence)
    return next((text.split(" → ") for text in texts if " → " in text), [])


def _exchanged(before: list[str], now: list[str]) -> tuple[list[str], list[str]]:
    """Return the operations that are in only one of two chains; two empty lists if a chain is missing or cut off."""
    if not before or not now or "…" in (before[-1], now[-1]):
        return [], []
    old, new = Counter(before), Counter(now)
    return list((old - new).elements()), list((new - old).elements())


def _other_facts(before: Mapping[str, str], now: Mapping[str, str]) -> list[str]:
    """Return the facts that differ, each with both values."""
    names = [name for name in dict.fromkeys([*before, *now]) if before.get(name) != now.get(name)]
    return [f"{name}: was {before.get(name, 'absent')}, now {now.get(name, 'absent')}" for name in names]


def _limited(lines: list[str], limit: int) -> list[str]:
    rest = len(lines) - limit
    return lines if rest <= 0 else [*lines[:limit], f"… and {rest:,} more"]
