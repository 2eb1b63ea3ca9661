"""Laws that every operation, rule and layer must satisfy, such as gradients that equal finite differences.

``ex.check`` checks them for one class, and the tests of explorer check them for all its classes.
"""

from explorer.testing.laws.checks import check
from explorer.testing.laws.declarations import LawWarning, check_declarations
from explorer.testing.laws.law import LawError
from explorer.testing.laws.report import LawReport, LawResult

__all__ = ["LawError", "LawReport", "LawResult", "LawWarning", "check", "check_declarations"]
