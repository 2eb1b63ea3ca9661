"""Reasons for decisions. Each reason is declared once, as an attribute of the rule or pass that uses it.

A reason has a code, a sentence with placeholders for facts (a template as in record/reasons.py), and two texts for new
readers: the meaning of the reason, and the change that would lead to another decision. All reasons together are the
catalogue. assets/reasons.md is generated from it, and ``ex.reason`` and the panel read it.
"""

from __future__ import annotations

import functools
import inspect
import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeAlias

from explorer.core.argument_checks import named_methods
from explorer.core.errors import DeclarationError, UnknownNameError
from explorer.core.ir.expr import Expr
from explorer.core.ir.source_location import INTERNAL
from explorer.plan.graph.numerics import EFFECTS, Numerics
from explorer.record.reasons import FIELD

Facts: TypeAlias = dict[str, Any]
"""facts of a decision by name: numbers, strings, expressions, or lists of these; they are inserted into the reason's
sentence"""
_LISTED = 4
"""maximum number of names that a sentence lists"""


@dataclass(frozen=True, eq=False)
class RuleInfo:
    """Name and purpose of a rule, as recorded in decisions; every rule and every pass has a RuleInfo as ``info``.

    A pass with several criteria declares one RuleInfo for each criterion, as an attribute::

        epilogue = RuleInfo("Epilogue", "An elementwise operation on a product runs while …")
    """

    name: str
    """the name with which decisions are recorded"""
    purpose: str
    """one-line purpose, for panels and assets/reasons.md"""
    owner: type | None = field(default=None, repr=False)
    """the rule or the pass"""

    def __set_name__(self, owner: type, name: str) -> None:
        # Bypass the frozen class, because Python calls this method only after the object was created.
        object.__setattr__(self, "owner", self.owner or owner)

    @property
    def info(self) -> RuleInfo:
        """The RuleInfo itself, so that `PlanGraph.decide` accepts it in place of a rule or pass."""
        return self

    @functools.cached_property
    def location(self) -> str:
        """Location of the owner, such as "plan/rewrite/rules/stability.py:12" or "cell.py:3".

        In a console, it is the name of the owner.
        """
        owner = self.owner or type(self)
        try:
            path, line = inspect.getsourcefile(owner) or "", inspect.findsource(owner)[1] + 1
        except (OSError, TypeError):
            return owner.__qualname__
        # Paths are not absolute, because recordings are compared between machines and shared.
        package = INTERNAL[0]
        short = path.removeprefix(package) if path.startswith(package) else os.path.basename(path)
        return f"{short}:{line}"

    def __str__(self) -> str:
        return self.name if self.location == self.name else f"{self.name} ({self.location})"


def shortened(names: Sequence[Any]) -> list[Any]:
    """Return the names to list in a sentence: all if they are few, else the first ones and how many more."""
    return [*names] if len(names) <= _LISTED else [*names[: _LISTED - 1], f"{len(names) - _LISTED + 1:,} more"]


class Decider(Protocol):
    """Object that makes decisions: a rule, a pass, or the RuleInfo of one criterion of a pass."""

    @property
    def info(self) -> RuleInfo:
        """Name and purpose with which the decisions are recorded."""


@named_methods
@dataclass(frozen=True, eq=False)
class Reason:
    """One reason for decisions, registered in the catalogue as an attribute of a rule or a pass.

    The facts of a decision are inserted for names in braces; ``{count:term is|terms are}`` inserts a number with the
    singular or the plural.

    Example: see ``ex.Rule``.
    """

    code: str
    """identifier for programs; several rules and passes may use the same code"""
    sentence: str
    """the decision, followed by the fact that decided it, in terms that a NumPy user knows"""
    meaning: str = ""
    """the general rule or cost behind the decision"""
    change: str = ""
    """the change to the program that would lead to another decision; "" if there is none"""
    numerics: Numerics | None = None
    """class of the changes to numbers in this case; None means the class that the rule or pass declares"""
    owner: type | None = field(default=None, init=False, repr=False)
    """the class that declares the reason, and the name of the attribute"""
    attribute: str = field(default="", init=False, repr=False)

    def __post_init__(self) -> None:
        text_between_fields = FIELD.sub("", self.sentence)
        if "{" in text_between_fields or "}" in text_between_fields:
            raise DeclarationError(
                f"the reason {self.code!r} with the sentence {self.sentence!r}",
                rule="a field of a sentence must be {fact}, {count:noun} or {count:singular|plural}",
                fix="{node}, {count:operation}",
            )

    def __set_name__(self, owner: type, name: str) -> None:
        object.__setattr__(self, "owner", owner)
        object.__setattr__(self, "attribute", name)
        CATALOGUE[f"{owner.__module__}.{owner.__qualname__}", name] = self

    @property
    def anchor(self) -> str:
        """Anchor of the reason's entry in assets/reasons.md; "" if the reason is not a class attribute."""
        return (
            ""
            if self.owner is None
            else f"{self.owner.__name__.removesuffix('Reasons')}-{self.attribute}".lower().replace("_", "-")
        )

    @property
    def effect(self) -> Numerics:
        """Class of the changes to numbers (plan/graph/numerics.py).

        It is the reason's own class, or the class that the rule or pass declares.
        """
        declared: Numerics = self.numerics or getattr(self.owner, "numerics", None) or "exact"
        return declared

    @functools.cached_property
    def facts(self) -> frozenset[str]:
        """Names of the facts in the sentence."""
        return frozenset(name for name, _, _ in FIELD.findall(self.sentence))

    def applied(self, new: Expr, /, **facts: Any) -> Applied:
        """Return a rule's answer that replaces the node by ``new`` for this reason."""
        return Applied(new, self, facts)

    def declined(self, /, **facts: Any) -> Declined:
        """Return a rule's answer that keeps the node for this reason."""
        return Declined(self.code, self, facts)

    def __str__(self) -> str:
        where = "" if self.owner is None else f" of {self.owner.__name__}"
        lines = [f"[{self.code}]{where}", f"  {self.sentence}"]
        lines += [f"  What it means: {self.meaning}"] if self.meaning else []
        lines += [f"  What would change it: {self.change}"] if self.change else []
        lines += [f"  Numbers: {self.effect}, {EFFECTS[self.effect]}."] if self.effect != "exact" else []
        return "\n".join(lines)


CATALOGUE: dict[tuple[str, str], Reason] = {}
"""(class, attribute) → declared reason, in order of declaration"""


class Reasons(tuple[Reason, ...]):
    """Reasons from the catalogue; their string lists the catalogue's entries."""

    def __repr__(self) -> str:
        return "\n\n".join(map(str, self))

    __str__ = __repr__


def reason(code: str) -> Reasons:
    """Return the reasons with ``code``; each shows its sentence, its meaning, and how to change the decision.

    Raises UnknownNameError if no reason has this code.

    >>> print(ex.reason("single_term"))
    [single_term] of SumOfOne
      `add_n` is removed and its operand is used directly, because here `add_n` adds only one array.
      What it means: ex.add_n(a, b, …) is the sum of several arrays of one shape. The sum of one array is the array.
    """
    reasons = Reasons([entry for entry in CATALOGUE.values() if entry.code == code])
    if not reasons:
        raise UnknownNameError(code, kind="reason", known=sorted({entry.code for entry in CATALOGUE.values()}))
    return reasons


@named_methods
@dataclass(frozen=True, slots=True)
class Applied:
    """Answer of a rule that replaces the node by ``new``.

    ``reason`` is a declared Reason, or a sentence with its ``code``. Example: see ``ex.Rule``.
    """

    new: Expr
    reason: str | Reason
    facts: Facts = field(default_factory=dict)
    code: str = "applied"

    @property
    def entry(self) -> Reason:
        """The declared reason, or a new Reason made of sentence and code."""
        return self.reason if isinstance(self.reason, Reason) else Reason(self.code, self.reason)


@named_methods
@dataclass(frozen=True, slots=True)
class Declined:
    """Answer of a rule that recognises its structure but keeps it, with the reason. Example: see ``ex.Rule``."""

    code: str
    reason: str | Reason
    facts: Facts = field(default_factory=dict)

    @property
    def entry(self) -> Reason:
        """The declared reason, or a new Reason made of sentence and code."""
        return self.reason if isinstance(self.reason, Reason) else Reason(self.code, self.reason)


Answer: TypeAlias = Applied | Declined | None
