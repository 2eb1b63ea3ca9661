"""Planner: converts the requested expressions to a schedule with a pipeline of passes, and records every decision."""

from explorer.plan.graph.pass_base import Again, Pass
from explorer.plan.graph.reasons import Applied, Declined, Reason, reason
from explorer.plan.options import PASSES, Options
from explorer.plan.pipeline import default_passes
from explorer.plan.planner import Plan, plan
from explorer.plan.rewrite.rule import Rule
from explorer.plan.schedule.schedule import Kernel, OrderedKernels, Placement, Schedule

__all__ = [
    "PASSES",
    "Again",
    "Applied",
    "Declined",
    "Kernel",
    "Options",
    "OrderedKernels",
    "Pass",
    "Placement",
    "Plan",
    "Reason",
    "Rule",
    "Schedule",
    "default_passes",
    "plan",
    "reason",
]
