"""Estimates in words: for which machine they hold, and which differences of measured times are none."""

from __future__ import annotations

from explorer.record import Recording

CHANCE = 1.25
"""ratio of two measured times up to which nothing is claimed: two runs of one program differ by as much"""


def machine_text(recording: Recording) -> str:
    """Return the machine that estimated times are for: the plan's option ``costs`` says whose prices they are."""
    return "this machine" if recording.options.get("costs") == "measured" else "the reference machine"
