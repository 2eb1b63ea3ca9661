"""Assertions about plans: whether a program is still fused, merged and batched.

    ex.testing.assert_fused(plan, "add", "tanh")
    ex.testing.assert_same_plan(plan, "model.plan.json")

A failure shows the declined decisions about these operations, costliest first. pytest is not required.
"""

from explorer.testing.assertions import assert_batched, assert_fused, assert_merged, assert_peak
from explorer.testing.kept_plan import assert_same_plan
from explorer.testing.laws import LawError, LawReport, LawResult, LawWarning, check_declarations

__all__ = [
    "LawError",
    "LawReport",
    "LawResult",
    "LawWarning",
    "assert_batched",
    "assert_fused",
    "assert_merged",
    "assert_peak",
    "assert_same_plan",
    "check_declarations",
]
