"""From registered roots to a schedule, through passes whose every decision is kept."""

from explorer.plan.planner import PASSES, Options, Planned, plan
from explorer.plan.rule import Applied, Declined, Link
from explorer.plan.schedule import Kernel, Schedule

__all__ = ["PASSES", "Applied", "Declined", "Kernel", "Link", "Options", "Planned", "Schedule", "plan"]
