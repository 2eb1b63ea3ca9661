"""Plans at work: registering, running, recording."""

from explorer.run.evalplan import EvalPlan, Handle, default_plan, eval_register, evaluate

__all__ = ["EvalPlan", "Handle", "default_plan", "eval_register", "evaluate"]
