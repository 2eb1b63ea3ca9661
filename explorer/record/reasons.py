"""Reasons: templates with facts. Facts are data for tests and tools; the sentence is rendered for display.

In a template, ``{name}`` is replaced by a fact. A fact ``{"node": id}`` is shown as the node's label, and a list of
facts as "a, b and c". Facts whose names end in ``_bytes``, ``_us`` or ``_flops`` are shown with their unit.
``{name:noun}`` is replaced by a count with its noun: "1 place", "3 places". Irregular plurals are written
``{name:singular|plural}``. Names and code are enclosed in backticks. Plain text keeps the backticks; the panel replaces
them with code formatting.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any, TypeAlias

Template: TypeAlias = str
NodeFact: TypeAlias = dict[str, int]

FIELD = re.compile(r"\{(\w+)(?::([^{}|]+)(?:\|([^{}|]+))?)?\}")

_ROUNDS_UP = 999.5
"""threshold for the next unit, because larger numbers with three digits would be formatted as 1e+03"""


def bytes_text(count: float) -> str:
    """Format a number of bytes: 512 B, 6 KB, 1.5 MB, up to TB (1 KB is 1024 bytes)."""
    for unit in ("B", "KB", "MB", "GB"):
        if abs(count) < (1024 if unit == "B" else _ROUNDS_UP):
            return f"{count:.3g} {unit}" if unit != "B" else f"{count:.0f} B"
        count /= 1024
    return f"{count:.3g} TB"


def counted_text(count: int, noun: str, plural: str = "") -> str:
    """Return a count with its noun: ``1 node``, ``2 boxes``. ``plural`` is only needed if the plural is irregular."""
    return f"{count:,} {noun if count == 1 else plural or plural_of(noun)}"


def plural_of(noun: str) -> str:
    """Return the regular plural of a noun: ``nodes``, ``boxes``."""
    return noun + ("es" if noun.endswith(("s", "x", "ch", "sh")) else "s")


def count_text(count: float) -> str:
    """Format a large number: 950, 25 K, 1.82 G, up to T."""
    for unit in ("", " K", " M", " G"):
        if abs(count) < _ROUNDS_UP:
            return f"{count:.3g}{unit}" if unit else f"{count:.0f}"
        count /= 1000
    return f"{count:.3g} T"


def short_counted_text(count: float, noun: str) -> str:
    """Return a large count with its noun: ``1 flop``, ``950 flops``, ``25 K parameters``."""
    return f"{count_text(count)} {noun if count == 1 else plural_of(noun)}"


def micros_text(micros: float) -> str:
    """Format a time that is given in µs: 3.4 µs, 12.1 ms, 2.5 s."""
    if micros < _ROUNDS_UP:
        return f"{micros:.3g} µs"
    return f"{micros / 1000:.3g} ms" if micros < 1000 * _ROUNDS_UP else f"{micros / 1e6:.3g} s"


def fact_text(name: str, value: Any, label: Callable[[int], str]) -> str:
    """Format a fact for a sentence; ``label`` maps the id of a node to its label."""
    if isinstance(value, Mapping):
        return label(value["node"])
    if isinstance(value, (list, tuple)):
        parts = [fact_text(name, item, label) for item in value]
        return " and ".join([", ".join(parts[:-1]), parts[-1]]) if len(parts) > 1 else "".join(parts)
    if name.endswith("_bytes"):
        return bytes_text(value)
    if name.endswith("_us"):
        return micros_text(value)
    if name.endswith("_flops"):
        return short_counted_text(value, "flop")
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:,}" if isinstance(value, int) else str(value)


@lru_cache(maxsize=1024)
def fields(template: Template) -> tuple[tuple[str, str, str], ...]:
    """Return (fact name, noun or "", plural or "") for each fact in a sentence, in order."""
    return tuple(FIELD.findall(template))


def mentioned(template: Template, facts: Mapping[str, Any]) -> list[int]:
    """Return the ids of the nodes in a sentence, in order and without repetition."""
    nodes: dict[int, None] = {}
    # Reversed, because items are popped from the end; lists in facts may be nested.
    pending = [facts[name] for name, _, _ in reversed(fields(template))]
    while pending:
        value = pending.pop()
        if isinstance(value, (list, tuple)):
            pending.extend(reversed(value))
        elif isinstance(value, dict):
            nodes[value["node"]] = None
    return list(nodes)


def render(template: Template, facts: Mapping[str, Any], label: Callable[[int], str]) -> str:
    """Return the sentence of a reason: its template, in which facts replace each ``{name}`` and ``{name:noun}``."""

    def replace(match: re.Match[str]) -> str:
        name, noun, plural = match.groups()
        fact = fact_text(name, facts[name], label)
        return f"{fact} {noun if facts[name] == 1 else plural or plural_of(noun)}" if noun else fact

    return FIELD.sub(replace, template)
