"""From registered roots to a schedule, through passes whose every decision is kept."""

from explorer.plan.graph.pass_base import Again, Pass
from explorer.plan.pipeline import default_passes
from explorer.plan.planner import PASSES, Options, Planned, plan
from explorer.plan.rewrite.rule import Applied, Declined, Link
from explorer.plan.schedule.schedule import Kernel, Schedule

__all__ = [
    "PASSES",
    "Again",
    "Applied",
    "Declined",
    "Kernel",
    "Link",
    "Options",
    "Pass",
    "Planned",
    "Schedule",
    "default_passes",
    "plan",
]
