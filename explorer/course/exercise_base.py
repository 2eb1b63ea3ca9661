"""Exercise: one class body holds its task, its level, its hints, its solution, usual mistakes and its check."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from textwrap import dedent
from typing import Any, ClassVar

from explorer.core.argument_checks import check_type, named_methods
from explorer.core.errors import UnknownNameError
from explorer.core.registry_base import Registry
from explorer.course.answer_errors import raised_by_answer
from explorer.course.card import Card, Finding, Verdict

_EXERCISES: Registry[str, Exercise] = Registry("exercise")


@named_methods
class Exercise(ABC):
    """Task that checks an answer by what a plan recorded of it, and says why it is right or not yet right.

    A subclass with a ``number`` is found by `ex.exercise`; one of the same number takes the place of the first. The
    class's docstring is the task.
    """

    number: ClassVar[str] = ""
    """notebook and place in it: "09.1" """
    title: ClassVar[str]
    level: ClassVar[int]
    """1 to 3 stars"""
    answer: ClassVar[str]
    """the object that the reader hands in: "the plan" """
    accepts: ClassVar[tuple[type, ...]]
    """types of an answer"""
    hints: ClassVar[tuple[str, ...]]
    """from a nudge to nearly the solution"""
    source: ClassVar[str]
    """source of a solution that runs by itself, in the folder of the notebooks, and ends in ``answer = …``"""
    mistakes: ClassVar[tuple[tuple[str, str], ...]]
    """two or more usual mistakes: a text of the solution, and the text that stands there instead"""

    def __init_subclass__(cls) -> None:
        if cls.number:
            cls.source = dedent(cls.source).strip()
            _EXERCISES.register(cls.number, cls(), help=cls.title, replace=True)

    def __init__(self) -> None:
        self._hinted = 0

    @abstractmethod
    def findings(self, answer: Any) -> Iterable[Finding]:
        """Yield what can be said of an answer of the right type; it is right if every finding holds."""

    def check(self, answer: Any) -> Verdict:
        """Return whether an answer is right, with the facts that say so, taken from its plan's recording.

        An answer that raises is not right yet: the verdict says what it raised, and at which line of it.
        """
        if (isinstance(answer, bool) and bool not in self.accepts) or not isinstance(answer, self.accepts):
            what = (
                f"`{answer.__name__}` is a class"
                if isinstance(answer, type)
                else f"This is of type `{type(answer).__name__}`"
            )
            return Verdict(self._name, [Finding(False, f"{what}, and {self.answer} is to be handed in.")])
        findings: list[Finding] = []
        try:
            findings.extend(self.findings(answer))
        except Exception as error:
            findings.append(raised_by_answer(error, answer))
        return Verdict(self._name, findings)

    def hint(self, count: int | None = None) -> Card:
        """Return the first ``count`` hints; without it, one more at each call."""
        if count is not None:
            check_type(count, "count", int, "a number of hints", "hint(1)")
        self._hinted = min(self._hinted + 1 if count is None else max(count, 0), len(self.hints))
        title = f"{self._name}: hint {self._hinted} of {len(self.hints)}"
        return Card(title, self.hints[: self._hinted])

    def solution(self) -> Card:
        """Return a solution, which a notebook shows folded; it runs by itself."""
        return Card(f"{self._name}: a solution", code=self.source)

    @property
    def task(self) -> str:
        """The task, as text."""
        return " ".join((self.__doc__ or "").split())

    @property
    def _name(self) -> str:
        return f"Exercise {self.number}"

    @property
    def _card(self) -> Card:
        title = f"{self._name} {'★' * self.level}{'☆' * (3 - self.level)} {self.title}"
        call = f'ex.exercise("{self.number}")'
        return Card(title, (self.task, f"Hand in {self.answer}: `{call}.check(…)`; `.hint()` and `.solution()` help."))

    def __repr__(self) -> str:
        return repr(self._card)

    def _repr_html_(self) -> str:
        return self._card._repr_html_()


def exercise(number: str) -> Exercise:
    """Return an exercise of the notebooks by its number; it shows its task.

    ``check(answer)`` says whether an answer is right, and why; ``hint()`` gives one more hint at each call;
    ``solution()`` is source that runs. Raises UnknownNameError.

    >>> plan = ex.EvalPlan()
    >>> handle = plan.register(ex.tensor([1.0, 2.0]) + 1)
    >>> bool(ex.exercise("09.1").check(plan))
    False
    """
    check_type(number, "number", str, "the number of an exercise, as text", 'ex.exercise("09.1")')
    if number not in _EXERCISES:
        raise UnknownNameError(number, kind="exercise", known=_EXERCISES, fix='ex.exercise("09.1")')
    return _EXERCISES[number]


def exercises() -> list[Exercise]:
    """Return all exercises, by number."""
    return [_EXERCISES[number] for number in sorted(_EXERCISES)]
