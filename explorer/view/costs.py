"""What refusals cost, as text: one line a cause, the costliest first."""

from __future__ import annotations

from explorer.record import Decision, Recording
from explorer.record.reason import count_text, micros_text
from explorer.view.visible import visible

_LISTED = 20
"""refusals that are listed at most"""


def costs(recording: Recording) -> str:
    """Return the refusals with the time that each may cost, from the reference prices; "" where nothing was refused.

    Times are estimates of what the schedule takes longer than it would if the refusal fell: they cannot be added up.
    """
    refused = recording.refusals
    if not refused:
        return ""
    lines = [f"what it costs: {len(refused):,} {'refusal' if len(refused) == 1 else 'refusals'}, the costliest first"]
    lines += [_line(recording, decision) for decision in refused[:_LISTED]]
    rest = refused[_LISTED:]
    if rest:
        most = micros_text(rest[0].facts.get("lost_us", 0.0))
        lines.append(f"  … and {len(rest):,} more of at most {most} each")
    return "\n".join(visible(line) for line in lines) + "\n"


def _line(recording: Recording, decision: Decision) -> str:
    lost = micros_text(decision.facts.get("lost_us", 0.0))
    places = len(decision.subjects)
    many = f", {count_text(places)} nodes" if places > 1 else ""
    stage = recording.stages[decision.stage].name
    return f"  {lost:>8}  {stage} · {decision.link}: {recording.reason(decision)}{many} [{decision.code}]"
