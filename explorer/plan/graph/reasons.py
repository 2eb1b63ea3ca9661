"""Reasons for decisions, each declared once as an attribute of the rule or pass that gives it.

A reason has a code, a sentence over facts (a template as in record/reasons.py), and two texts for readers who are new
to it: its meaning, and the change that would lead to another decision. All reasons together form the catalogue, from
which assets/reasons.md is generated, and which ``ex.reason`` and the panel read.
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
"""facts of a decision: numbers, strings, expressions, or lists of them; reasons are templates over them"""
_LISTED = 4
"""maximum number of names that a sentence lists"""


@dataclass(frozen=True, eq=False)
class RuleInfo:
    """Rule as recorded in decisions; every rule and every pass has one as ``info``.

    A pass with several criteria declares an additional one for each, as an attribute::

        epilogue = RuleInfo("Epilogue", "An elementwise operation on a product runs while …")
    """

    name: str
    """the name that decisions record"""
    purpose: str
    """one-line purpose, for panels and assets/reasons.md"""
    owner: type | None = field(default=None, repr=False)
    """the rule or the pass"""

    def __set_name__(self, owner: type, name: str) -> None:
        # The class is frozen, and Python calls this only after the object was created.
        object.__setattr__(self, "owner", self.owner or owner)

    @property
    def info(self) -> RuleInfo:
        """The RuleInfo itself, so that `PlanGraph.decide` accepts it in place of a rule or pass."""
        return self

    @functools.cached_property
    def location(self) -> str:
        """Location of the owner: "plan/rewrite/rules/stability.py:12", "cell.py:3", or its name in a console."""
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
    """Return names for a sentence: all if they are few, else the first ones and the number of the rest."""
    return [*names] if len(names) <= _LISTED else [*names[: _LISTED - 1], f"{len(names) - _LISTED + 1:,} more"]


class Decider(Protocol):
    """Anything that makes decisions: a rule, a pass, or the RuleInfo of one criterion of a pass."""

    @property
    def info(self) -> RuleInfo:
        """Name under which its decisions are recorded."""


@named_methods
@dataclass(frozen=True, eq=False)
class Reason:
    """One reason for decisions, registered in the catalogue as an attribute of a rule or a pass.

    The decision fills in facts in braces; ``{count:term is|terms are}`` writes a number with the matching word.

    Example: see ``ex.Rule``.
    """

    code: str
    """identifier for programs; several rules and passes may use the same one"""
    sentence: str
    """the decision, then the fact that decided it, in terms that a NumPy user knows"""
    meaning: str = ""
    """the general rule or cost behind the decision"""
    change: str = ""
    """the change to the program that would lead to another decision; "" if there is none"""
    numerics: Numerics | None = None
    """effect of the rewrite on numbers in this case; None: the class that its rule or pass declares"""
    owner: type | None = field(default=None, init=False, repr=False)
    """the class that declares it, and the attribute's name"""
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
        """Anchor of its entry in assets/reasons.md; "" if it is not a class attribute."""
        return (
            ""
            if self.owner is None
            else f"{self.owner.__name__.removesuffix('Reasons')}-{self.attribute}".lower().replace("_", "-")
        )

    @property
    def effect(self) -> Numerics:
        """Numerics class of a rewrite for this reason (plan/graph/numerics.py): its own, or its rule's or pass's."""
        declared: Numerics = self.numerics or getattr(self.owner, "numerics", None) or "exact"
        return declared

    @functools.cached_property
    def facts(self) -> frozenset[str]:
        """Names of the facts in the sentence."""
        return frozenset(name for name, _, _ in FIELD.findall(self.sentence))

    def applied(self, new: Expr, /, **facts: Any) -> Applied:
        """Return a rule's answer that replaces a node by ``new``."""
        return Applied(new, self, facts)

    def declined(self, /, **facts: Any) -> Declined:
        """Return a rule's answer that keeps a node."""
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
    """Selected reasons of the catalogue, printed as their entries."""

    def __repr__(self) -> str:
        return "\n\n".join(map(str, self))

    __str__ = __repr__


def reason(code: str) -> Reasons:
    """Return the reasons with a code, each with its sentence, its meaning, and how to change the decision.

    Raises UnknownNameError if no reason has the code.

    >>> print(ex.reason("single_term"))
    [single_term] of SumOfOne
      `add_n` is left out, because it is the sum of only one array, so that array is used directly.
      What it means: A sum of several arrays of one shape, ex.add_n(a, b, …), here with one array.
    """
    reasons = Reasons([entry for entry in CATALOGUE.values() if entry.code == code])
    if not reasons:
        raise UnknownNameError(code, kind="reason", known=sorted({entry.code for entry in CATALOGUE.values()}))
    return reasons


@named_methods
@dataclass(frozen=True, slots=True)
class Applied:
    """Answer of a rule that replaces the node by ``new``.

    Without a declared reason, ``reason`` is the sentence and ``code`` the code. Example: see ``ex.Rule``.
    """

    new: Expr
    reason: str | Reason
    facts: Facts = field(default_factory=dict)
    code: str = "applied"

    @property
    def entry(self) -> Reason:
        """The declared reason, or one built from sentence and code."""
        return self.reason if isinstance(self.reason, Reason) else Reason(self.code, self.reason)


@named_methods
@dataclass(frozen=True, slots=True)
class Declined:
    """Answer of a rule that recognises its structure but keeps it, with a coded reason. Example: see ``ex.Rule``."""

    code: str
    reason: str | Reason
    facts: Facts = field(default_factory=dict)

    @property
    def entry(self) -> Reason:
        """The declared reason, or one built from sentence and code."""
        return self.reason if isinstance(self.reason, Reason) else Reason(self.code, self.reason)


Answer: TypeAlias = Applied | Declined | None
