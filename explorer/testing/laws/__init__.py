"""Laws that hold for every operation, rule and layer: gradients are differences, batched calls are loops.

``ex.check`` asks them of one class; the tests of explorer ask them of all of its own.
"""

from explorer.testing.laws.checks import check
from explorer.testing.laws.declarations import LawWarning, check_declarations
from explorer.testing.laws.law import LawError
from explorer.testing.laws.report import LawReport, LawResult

__all__ = ["LawError", "LawReport", "LawResult", "LawWarning", "check", "check_declarations"]
