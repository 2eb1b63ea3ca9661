"""Execution of plans: registration, evaluation, caches, recording and diagnosis."""

from explorer.run.default_plan import default_plan, eval_register, evaluate
from explorer.run.evalplan import EvalPlan
from explorer.run.handle import Handle

__all__ = ["EvalPlan", "Handle", "default_plan", "eval_register", "evaluate"]
