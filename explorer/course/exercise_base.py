"""Exercises: one class body holds a task, its level, hints, a solution, usual mistakes and the check of an answer.

What an exercise shows is a card, the same as text and as HTML: the task, hints, a solution, or the verdict on an answer
with its findings.
"""

from __future__ import annotations

import inspect
import linecache
import re
import sys
import traceback
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from textwrap import dedent, fill
from typing import Any, ClassVar, NamedTuple

from explorer.core.argument_checks import check_type, named_methods
from explorer.core.errors import ExplorerError, UnknownNameError
from explorer.core.registry import Registry
from explorer.view.base.markup import Markup, element

_WIDTH = 110
_LONGEST = 600
"""letters of a finding that a verdict shows"""
_MOST = 9
"""findings that a verdict shows, those that do not hold before others"""
_OWN = str(Path(__file__).parents[1])
_INSTALLED = (_OWN, sys.prefix, sys.base_prefix)
_EXERCISES: Registry[str, Exercise] = Registry("exercise")


@named_methods
@dataclass(frozen=True)
class Card:
    """Title, paragraphs, and source code that a notebook shows folded."""

    title: str
    paragraphs: tuple[str, ...] = ()
    code: str = ""

    def __repr__(self) -> str:
        lines = [self.title, *(fill(f"  {text}", _WIDTH, subsequent_indent="    ") for text in self.paragraphs)]
        lines += [f"    {line}".rstrip() for line in self.code.splitlines()]
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        parts = [element("p", element("strong", *_inline(self.title)))]
        parts += [element("p", *_inline(text)) for text in self.paragraphs]
        if self.code:
            lines = [Markup(f"{element('span', line) if line else ''}\n") for line in self.code.splitlines()]
            source = element("pre", element("code", *lines))
            parts.append(element("details", element("summary", "show the source"), source))
        return element("div", *parts)


class Finding(NamedTuple):
    """One thing that a check looked at: whether it is as the task asks, and the fact that says so."""

    holds: bool
    text: str


class Verdict(Card):
    """Answer of a check: right if every finding holds, and the findings, each with its fact."""

    right: bool
    findings: tuple[Finding, ...]

    def __init__(self, name: str, findings: Sequence[Finding]) -> None:
        right = bool(findings) and all(finding.holds for finding in findings)
        shown = findings if len(findings) <= _MOST else sorted(findings, key=lambda finding: finding.holds)[:_MOST]
        lines = [f"{'✓' if finding.holds else '✗'} {_shortened(finding.text)}" for finding in shown]
        if len(findings) > len(shown):
            lines.append(f"… and {len(findings) - len(shown)} more")
        super().__init__(f"{name}: {'right' if right else 'not yet'}", tuple(lines))
        object.__setattr__(self, "right", right)
        object.__setattr__(self, "findings", tuple(findings))

    def __bool__(self) -> bool:
        return self.right


def _shortened(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]} …"


def _inline(text: str) -> Iterator[str]:
    """Yield the parts of a text; what stands between backquotes is code."""
    for number, part in enumerate(re.split(r"`([^`]*)`", text)):
        yield element("code", part) if number % 2 else part


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
            findings.append(_raised_by_answer(error, answer))
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


def _raised_by_answer(error: Exception, answer: Any = None) -> Finding:
    """Return the finding that an answer raised an error, with the line of the answer; raise an error of explorer's own.

    An error is the answer's where a frame of it is on the way, or where explorer refused, on purpose, what it made; of
    a function, any: it may have other parameters than the exercise gives it, or return another thing.
    """
    chain: list[BaseException] = [error]
    while (cause := chain[-1].__cause__) is not None:
        chain.append(cause)
    frames = [frame for each in chain for frame in traceback.extract_tb(each.__traceback__)]
    own = [frame for frame in frames if not frame.filename.startswith(_INSTALLED) and not _is_library(frame.filename)]
    is_function = inspect.isfunction(answer)
    if not own and not isinstance(error, ExplorerError) and not is_function:
        raise error
    first = chain[-1]
    text = " ".join(f"{type(first).__name__}: {first}".split())
    if not own and is_function:
        called = f"`{answer.__name__}{inspect.signature(answer)}`"
        return Finding(False, f"Where {called} was called as the exercise calls it, this was raised: {text}")
    if not own:
        return Finding(False, f"It cannot be planned and run: {text}")
    line = linecache.getline(own[-1].filename, own[-1].lineno or 0).strip()
    place = f"line {own[-1].lineno} of the answer" + (f", `{line}`," if line and "`" not in line else "")
    return Finding(False, f"At {place} this was raised: {text}")


def _is_library(filename: str) -> bool:
    return filename.startswith("<frozen") or "site-packages" in Path(filename).parts
