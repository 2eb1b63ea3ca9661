"""Cards: what an exercise shows, a task, hints, a solution or a verdict, as text and as HTML that never differ."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from textwrap import fill
from typing import NamedTuple

from explorer.core.argument_checks import named_methods
from explorer.view.base.markup import Markup, element

_WIDTH = 110
_LONGEST = 600
"""letters of a finding that a verdict shows"""
_MOST = 9
"""findings that a verdict shows, those that do not hold before others"""


@named_methods
@dataclass(frozen=True)
class Card:
    """Title, paragraphs, and source code that a notebook shows folded."""

    title: str
    paragraphs: tuple[str, ...] = ()
    code: str = ""

    def __repr__(self) -> str:
        lines = [self.title, *(fill(f"  {text}", _WIDTH, subsequent_indent="    ") for text in self.paragraphs)]
        lines += [f"    {line}".rstrip() for line in self.code.splitlines()]
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        parts = [element("p", element("strong", *_inline(self.title)))]
        parts += [element("p", *_inline(text)) for text in self.paragraphs]
        if self.code:
            lines = [Markup(f"{element('span', line) if line else ''}\n") for line in self.code.splitlines()]
            source = element("pre", element("code", *lines))
            parts.append(element("details", element("summary", "show the source"), source))
        return element("div", *parts)


class Finding(NamedTuple):
    """One thing that a check looked at: whether it is as the task asks, and the fact that says so."""

    holds: bool
    text: str


class Verdict(Card):
    """Answer of a check: right if every finding holds, and the findings, each with its fact."""

    right: bool
    findings: tuple[Finding, ...]

    def __init__(self, name: str, findings: Sequence[Finding]) -> None:
        right = bool(findings) and all(finding.holds for finding in findings)
        shown = findings if len(findings) <= _MOST else sorted(findings, key=lambda finding: finding.holds)[:_MOST]
        lines = [f"{'✓' if finding.holds else '✗'} {_shortened(finding.text)}" for finding in shown]
        if len(findings) > len(shown):
            lines.append(f"… and {len(findings) - len(shown)} more")
        super().__init__(f"{name}: {'right' if right else 'not yet'}", tuple(lines))
        object.__setattr__(self, "right", right)
        object.__setattr__(self, "findings", tuple(findings))

    def __bool__(self) -> bool:
        return self.right


def _shortened(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]} …"


def _inline(text: str) -> Iterator[str]:
    """Yield the parts of a text; what stands between backquotes is code."""
    for number, part in enumerate(re.split(r"`([^`]*)`", text)):
        yield element("code", part) if number % 2 else part
