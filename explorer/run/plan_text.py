"""State of a plan as text, as ``repr`` shows it."""

from __future__ import annotations


def plan_text(title: str, registered: int, is_prepared: bool, evaluated: int) -> str:
    """Return what a plan holds: ``<plan 'loss': 2 evaluated>``, ``<plan: 1 registered, not planned>``."""
    parts = [f"{evaluated:,} evaluated"] * (evaluated > 0)
    if registered or not evaluated:
        parts.append(f"{registered:,} registered, {'prepared' if is_prepared else 'not planned'}")
    return f"<plan{f' {title!r}' if title else ''}: {'; '.join(parts)}>"
