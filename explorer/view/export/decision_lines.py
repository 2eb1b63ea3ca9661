"""Lines of decisions in texts, each with its stage, verdict, location, rule, reason and code.

    fuse ✗ block / matmul, line 3 · Epilogue: `matmul` is not fused with …, because … [other_consumers] ×2

The canonical text, comparisons and the pytest plugin use the same lines. The plugin only has texts, which notebooks
store, so lines are also parsed here.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable
from typing import NamedTuple

from explorer.record import Decision, Recording
from explorer.view.model.program_location import decision_location

MARKS = {"applied": "✓", "declined": "✗"}
_HEAD = re.compile(r"(?P<stage>[^·✓✗]+) (?P<mark>[✓✗]) ")
_RULE = re.compile(r" · (?P<rule>\w+): ")
_RULE_ALONE = re.compile(r"(?P<rule>\w+): ")
_TAIL = re.compile(r" \[(?P<code>[^\[\]]*)\](?: ×(?P<times>\d{1,3}(?:,\d{3}){0,2}))?$")
"""parts of a line; a single pattern would need cubic time for a hostile name"""


class DecisionLine(NamedTuple):
    """Line about one decision, or about several equal consecutive decisions."""

    stage: str
    mark: str
    """✓ or ✗"""
    location: str
    rule: str
    sentence: str
    code: str
    times: int = 1

    @property
    def head(self) -> str:
        """The line without its sentence."""
        location = f"{self.location} · " if self.location else ""
        return f"{self.stage} {self.mark} {location}{self.rule} [{self.code}]"

    def __str__(self) -> str:
        location = f"{self.location} · " if self.location else ""
        many = f" ×{self.times:,}" if self.times > 1 else ""
        return f"{self.stage} {self.mark} {location}{self.rule}: {self.sentence} [{self.code}]{many}"


def decision_line(recording: Recording, decision: Decision) -> DecisionLine:
    """Return the line of a decision."""
    return DecisionLine(
        recording.stages[decision.stage].name,
        MARKS[decision.verdict],
        decision_location(recording, decision),
        decision.rule,
        recording.reason(decision) + _numbers(recording, decision),
        decision.code,
    )


def _numbers(recording: Recording, decision: Decision) -> str:
    """Return a sentence about the numerical effect of an applied decision; "" if all bits are unchanged."""
    if decision.verdict == "applied":
        for row in recording.explanations:
            if row.numerics and (row.code, row.reason) == (decision.code, decision.reason):
                return f" Numbers: {row.numerics}."
    return ""


def decision_lines(recording: Recording, decisions: Iterable[Decision]) -> list[DecisionLine]:
    """Return the lines of decisions; consecutive decisions that differ only in location share the first line."""
    lines = [decision_line(recording, decision) for decision in decisions]
    groups = itertools.groupby(lines, lambda line: line._replace(location=""))
    return [next(group)._replace(times=1 + len(list(group))) for _, group in groups]


def read_line(line: str) -> DecisionLine | None:
    """Parse the line of a decision; return None for any other line."""
    head, tail = _HEAD.match(line), _TAIL.search(line)
    if head is None or tail is None:
        return None
    middle = line[head.end() : tail.start()]
    rule = _RULE.search(middle) or _RULE_ALONE.match(middle)
    if rule is None:
        return None
    location, sentence = middle[: rule.start()], middle[rule.end() :]
    times = int((tail["times"] or "1").replace(",", ""))
    return DecisionLine(head["stage"], head["mark"], location, rule["rule"], sentence, tail["code"], times)
