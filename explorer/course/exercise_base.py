"""Base class of exercises, and cards, which display exercises.

A card shows a task, hints, a solution, or a verdict on an answer. Its text and its HTML have the same content.
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
"""maximum number of characters of a displayed finding"""
_MAX_FINDINGS = 9
"""maximum number of displayed findings; if there are more findings, failed findings come first"""
_PACKAGE = str(Path(__file__).parents[1])
_INSTALLED = (_PACKAGE, sys.prefix, sys.base_prefix)
_EXERCISES: Registry[str, Exercise] = Registry("exercise")


@named_methods
@dataclass(frozen=True)
class Card:
    """Title, paragraphs, and source code, which a notebook displays folded."""

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
        return str(element("div", *parts))  # marimo refuses instances of subclasses


class Finding(NamedTuple):
    """Result of one part of a check: whether the answer satisfies this part of the task, and a fact that proves it."""

    holds: bool
    text: str


class Verdict(Card):
    """Result of a check, with its findings; the answer is right if all findings are positive."""

    right: bool
    findings: tuple[Finding, ...]

    def __init__(self, name: str, findings: Sequence[Finding]) -> None:
        right = bool(findings) and all(finding.holds for finding in findings)
        shown = (
            findings
            if len(findings) <= _MAX_FINDINGS
            else sorted(findings, key=lambda finding: finding.holds)[:_MAX_FINDINGS]
        )
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
    """Yield the pieces of a string as HTML; pieces between backquotes become code elements."""
    for number, part in enumerate(re.split(r"`([^`]*)`", text)):
        yield element("code", part) if number % 2 else part


@named_methods
class Exercise(ABC):
    """Base class of exercises, which check an answer against its recorded plan and state why it is right or not.

    `ex.exercise` finds a subclass by its ``number``; a later subclass with the same number replaces an earlier one. The
    docstring of the class is the task.
    """

    number: ClassVar[str] = ""
    """number of the notebook and position of the exercise in it, such as "09.1" """
    title: ClassVar[str]
    level: ClassVar[int]
    """difficulty, 1 to 3 stars"""
    answer: ClassVar[str]
    """object that the reader passes to `check`, such as "the plan" """
    accepts: ClassVar[tuple[type, ...]]
    """accepted types of an answer"""
    hints: ClassVar[tuple[str, ...]]
    """hints, from a small hint to nearly the solution"""
    source: ClassVar[str]
    """source code of a solution, which can be run in the folder of the notebooks, and assigns ``answer`` at the end"""
    mistakes: ClassVar[tuple[tuple[str, str], ...]]
    """two or more common mistakes, each given by a substring of the solution and a wrong replacement for it"""

    def __init_subclass__(cls) -> None:
        if cls.number:
            cls.source = dedent(cls.source).strip()
            _EXERCISES.register(cls.number, cls(), help=cls.title, replace=True)

    def __init__(self) -> None:
        self._hinted = 0

    @abstractmethod
    def findings(self, answer: Any) -> Iterable[Finding]:
        """Yield findings about an answer of an accepted type; the answer is right if all findings are positive."""

    def check(self, answer: Any) -> Verdict:
        """Return a verdict that states whether an answer is right, with facts from the recording of its plan.

        If the answer raises an error, it is not right, and the verdict contains the error and the line of the answer.
        """
        if (isinstance(answer, bool) and bool not in self.accepts) or not isinstance(answer, self.accepts):
            given = (
                f"`{answer.__name__}` is a class"
                if isinstance(answer, type)
                else f"The answer has the type `{type(answer).__name__}`"
            )
            return Verdict(self._name, [Finding(False, f"{given}; hand in {self.answer} instead.")])
        if isinstance(answer, type) and answer.__module__.startswith("explorer."):
            return Verdict(self._name, [Finding(False, f"`{answer.__name__}` is Explorer's class; write your own.")])
        findings: list[Finding] = []
        try:
            findings.extend(self.findings(answer))
        except Exception as error:
            findings.append(_raised_by_answer(error, answer))
        return Verdict(self._name, findings)

    def hint(self, count: int | None = None) -> Card:
        """Return the first ``count`` hints; by default, each call returns one more hint."""
        if count is not None:
            check_type(count, "count", int, "a number of hints", "hint(1)")
        self._hinted = min(self._hinted + 1 if count is None else max(count, 0), len(self.hints))
        title = f"{self._name}: hint {self._hinted} of {len(self.hints)}"
        return Card(title, self.hints[: self._hinted])

    def solution(self) -> Card:
        """Return a solution that runs by itself; a notebook displays it folded."""
        return Card(f"{self._name}: a solution", code=self.source)

    @property
    def task(self) -> str:
        """Task on one line."""
        return " ".join((self.__doc__ or "").split())

    @property
    def _name(self) -> str:
        return f"Exercise {self.number}"

    @property
    def _card(self) -> Card:
        title = f"{self._name} {'★' * self.level}{'☆' * (3 - self.level)} {self.title}"
        call = f'ex.exercise("{self.number}")'
        return Card(
            title,
            (self.task, f"Hand in {self.answer} with `{call}.check(…)`. For help, call `.hint()` or `.solution()`."),
        )

    def __repr__(self) -> str:
        return repr(self._card)

    def _repr_html_(self) -> str:
        return self._card._repr_html_()


def exercise(number: str) -> Exercise:
    """Return the exercise with a number, such as "09.1"; a notebook displays its task.

    ``check(answer)`` returns whether the answer is right, and why. Each call of ``hint()`` returns one more hint, and
    ``solution()`` returns the source code of a solution. Raise UnknownNameError if no exercise has the number.

    >>> plan = ex.EvalPlan()
    >>> handle = plan.register(ex.tensor([1.0, 2.0]) + 1)
    >>> bool(ex.exercise("09.1").check(plan))
    False
    """
    check_type(number, "number", str, "the number of an exercise, as a string", 'ex.exercise("09.1")')
    if number not in _EXERCISES:
        raise UnknownNameError(number, kind="exercise", known=_EXERCISES, fix='ex.exercise("09.1")')
    return _EXERCISES[number]


def exercises() -> list[Exercise]:
    """Return all exercises, sorted by number."""
    return [_EXERCISES[number] for number in sorted(_EXERCISES)]


def _raised_by_answer(error: Exception, answer: Any = None) -> Finding:
    """Return a finding about an error that the answer raised, with the line of the answer; reraise any other error.

    The answer raised the error if the traceback contains a frame of the answer, or if explorer rejected its result with
    an ExplorerError. Errors of an answer that is a function are also included, because its parameters or results may be
    wrong.
    """
    chain: list[BaseException] = [error]
    while (cause := chain[-1].__cause__) is not None:
        chain.append(cause)
    frames = [frame for each in chain for frame in traceback.extract_tb(each.__traceback__)]
    own_frames = [
        frame for frame in frames if not frame.filename.startswith(_INSTALLED) and not _is_library(frame.filename)
    ]
    is_function = inspect.isfunction(answer)
    if not own_frames and not isinstance(error, ExplorerError) and not is_function:
        raise error
    first = chain[-1]
    text = " ".join(f"{type(first).__name__}: {first}".split())
    if not own_frames and is_function:
        called = f"`{answer.__name__}{inspect.signature(answer)}`"
        return Finding(False, f"Calling {called} with the arguments of the exercise raised {text}")
    if not own_frames:
        return Finding(False, f"The answer cannot be planned and run: {text}")
    last = own_frames[-1]
    line = linecache.getline(last.filename, last.lineno or 0).strip()
    source = f", `{line}`," if line and "`" not in line else ""
    return Finding(False, f"Line {last.lineno} of the answer{source} raised {text}")


def _is_library(filename: str) -> bool:
    return filename.startswith("<frozen") or "site-packages" in Path(filename).parts
