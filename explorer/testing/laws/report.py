"""Reports of checks, with a line for each law: the number of compared values, or operands that break it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from explorer.testing.laws.law import LawError
from explorer.view.base.markup import element

_MARKS = {True: "✓", False: "✗", None: "·"}


@dataclass(frozen=True, slots=True)
class LawResult:
    """Result of one law: whether it holds (None if it was not checked), and a description."""

    law: str
    holds: bool | None
    text: str

    def __str__(self) -> str:
        return f"{self.law} {_MARKS[self.holds]} {self.text}"


@dataclass(frozen=True, slots=True, repr=False)
class LawReport:
    """Results of the laws of an operation, a rule or a layer; the report is true if all of them hold.

    >>> report = ex.check(ex.tanh)
    >>> report.ok, report.broken
    (True, ())
    """

    subject: str
    results: tuple[LawResult, ...]

    @property
    def ok(self) -> bool:
        """Whether all checked laws hold."""
        return not self.broken

    @property
    def broken(self) -> tuple[LawResult, ...]:
        """Results of the laws that do not hold."""
        return tuple(result for result in self.results if result.holds is False)

    def __bool__(self) -> bool:
        return self.ok

    def assert_ok(self) -> None:
        """Raise LawError if laws are broken, so a test can check a class in one line."""
        __tracebackhide__ = True
        if self.broken:
            raise LawError(
                "\n".join([f"{self.subject} breaks {len(self.broken)} of its laws", *map(str, self.broken)]),
                rule="a class's declarations must hold for its operands, because plans rely on them",
                fix="correct the declaration, or the kernel",
            )

    def text(self) -> str:
        """Return the report as text: the number of laws that hold, followed by one line per law."""
        checked = [result for result in self.results if result.holds is not None]
        holding = sum(result.holds is True for result in checked)
        title = f"{self.subject}: {holding} of {len(checked)} laws hold"
        return "\n".join([title, *[f"  {result}" for result in self.results]])

    def __str__(self) -> str:
        return self.text()

    def __repr__(self) -> str:
        return self.text()

    def html(self) -> str:
        """Return the report as an HTML table without scripts."""
        title, *_ = self.text().splitlines()
        rows = [
            element("tr", *[element("td", cell, style="text-align:left") for cell in _cells(result)])
            for result in self.results
        ]
        return str(element("table", element("caption", title, style="text-align:left"), *rows))

    def _repr_mimebundle_(self, **options: Any) -> dict[str, str]:
        return {"text/plain": self.text(), "text/html": self.html()}


def _cells(result: LawResult) -> tuple[str, str, str]:
    return _MARKS[result.holds], result.law, result.text
