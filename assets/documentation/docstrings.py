"""Conversion of docstrings, which are plain text with literals, examples and lists, into reStructuredText."""

from __future__ import annotations

import re
from collections.abc import Sequence

_FACT = re.compile(r"(Shapes|Dtypes|Gradient|Laws) {2,}(.*)")
"""row of an operation's help page (explorer.ops.catalogue.help_pages)"""
_LITERAL = re.compile(r"(``.*?``|`[^`\n]+`)", re.DOTALL)
_MARKUP = re.compile(r"[*|`\\]|(?<=\w)_(?!\w)")
_ITEM = re.compile(r"(- |\d+\. )")


def as_rst(lines: Sequence[str]) -> list[str]:
    """Return the lines of a docstring as reStructuredText."""
    blocks = re.split(r"\n(?:[ \t]*\n)+", "\n".join(lines).strip("\n"))
    return [line for block in blocks for line in [*_block(block), ""]]


def _block(block: str) -> list[str]:
    lines = block.split("\n")
    if lines[0].startswith(">>>"):
        return lines
    if _FACT.match(lines[0]):
        joined = re.sub(r"\n {2,}", " ", block).split("\n")
        return [_FACT.sub(lambda match: f":{match[1]}: {_escaped(match[2])}", line) for line in joined]
    if all(line.startswith("    ") for line in lines):
        return ["::", "", *lines]
    if not _ITEM.match(lines[0]):
        lines = [line.strip() for line in lines]
    return _escaped("\n".join(lines)).split("\n")


def _escaped(text: str) -> str:
    """Escape characters that have a meaning in reStructuredText, except in literals."""
    parts = _LITERAL.split(text)
    parts[::2] = [_MARKUP.sub(lambda match: f"\\{match[0]}", part) for part in parts[::2]]
    parts[1::2] = [part if part.startswith("``") else f"`{part}`" for part in parts[1::2]]
    return "".join(parts)
