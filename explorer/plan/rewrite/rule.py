"""Rewrite rules, as a chain of responsibility: the first applicable rule ends it, and rules that declined are recorded.

A rule returns `Applied` with the replacement, `Declined` with a coded reason, or None if its structure is not present.
`Declined` matters most: a rule that recognises a structure but keeps it must give a reason, so that a user who expected
the rule to apply can read it. The pass `Simplify` applies the rules.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, ClassVar

from explorer.core.attributes import check_names
from explorer.core.errors import DeclarationError, StateError
from explorer.core.ir.expr import Expr, Operation
from explorer.core.ir.hooks import hooks
from explorer.plan.graph.numerics import CLASSES, Numerics
from explorer.plan.graph.reasons import Answer, Applied, Declined, Reason, RuleInfo

if TYPE_CHECKING:
    from explorer.plan.graph.plan_graph import PlanGraph


__all__ = ["Answer", "Applied", "Declined", "Reason", "Rule"]


_RENAMED = {"over": "producers", "takes": "applies_to", "takes_over": "applies_over", "chain": "rules"}
"""old name of an attribute of rules → current name"""


class Rule(ABC):
    """Rewrite rule: recognises one structure at nodes whose operation is one of ``roots``, and replaces it.

    A subclass takes effect when it is defined, after the rules before it. One with the same module and name replaces
    the earlier one, so that a cell can be run again. The first line of its docstring is its purpose in panels. The
    class attributes below only restrict the nodes at which the rule is matched: they save time and do not change its
    answers.

    ``numerics`` declares what the rewrite does to floating-point numbers: "exact", "rounding", "reordering" or
    "reassociating" (plan/graph/numerics.py). A plan applies rules of the last class only with ``numerics="fast"``.

    Raises DeclarationError if a subclass has no ``match``, ``roots``, ``numerics`` or docstring.

    >>> class SumOfNegative(ex.Rule):
    ...     "Σ(−x) is −Σx, so that one number changes its sign instead of all."
    ...     roots, numerics = (ex.operation("sum"),), "exact"
    ...     moved = ex.Reason("sum_first", "`{x}` is added up before the sign changes, because −a − b is −(a + b).")
    ...
    ...     def match(self, node, graph):
    ...         (y,) = graph.operands(node)
    ...         if y.operation.name != "negative":
    ...             return None
    ...         (x,) = graph.operands(y)
    ...         return self.moved.applied(-node.operation(x), x=x)
    >>> plan = ex.EvalPlan()
    >>> total = plan.register((-ex.tensor([1.0, 2.0])).sum())
    >>> plan.eval().recording.decisions[0].code, float(total.data())
    ('sum_first', -3.0)
    >>> SumOfNegative.remove()
    """

    roots: ClassVar[tuple[type[Operation], ...]]
    numerics: ClassVar[Numerics]
    """effect on floating-point numbers; a reason may declare another class in its own ``numerics``"""
    info: ClassVar[RuleInfo]
    """name and purpose (class name, first line of its docstring) under which the rule's decisions are recorded"""
    rules: ClassVar[list[Rule]] = []
    """all simplifying rules, in the order in which they are matched"""
    producers: ClassVar[tuple[type[Operation], ...]] = ()
    """operations one of which must produce an operand of a unary or binary node; (): no restriction"""
    among: ClassVar[tuple[type[Operation], ...]] = ()
    """operations one of which a graph must contain; (): the rule is matched in every graph"""
    concrete: ClassVar[bool] = False
    """the rule reads the concrete types of operands: if dynamic data hides one, it declines"""

    def __repr__(self) -> str:
        return f"{self.name}()"

    def __init_subclass__(cls, *, abstract: bool = False, **options: Any) -> None:
        super().__init_subclass__(**options)
        check_names(cls, Rule, "the rule", _RENAMED)
        if abstract:
            return
        if cls.match is Rule.match:
            raise DeclarationError(
                f"rule {cls.__name__} without match()",
                rule="a rule must define match(), which recognises its structure at a node",
                fix="def match(self, node, graph); or class X(ex.Rule, abstract=True) for a base of rules",
            )
        _check_roots(cls)
        if getattr(cls, "numerics", None) not in CLASSES:
            given = repr(cls.numerics) if hasattr(cls, "numerics") else "no numerics"
            raise DeclarationError(
                f"rule {cls.__name__} with {given}",
                rule=f"a rule must declare what it does to numbers: {', '.join(CLASSES)}",
                fix='numerics = "exact" if the result has the same bits, "rounding" if last digits may differ, '
                '"reassociating" where you do not know',
            )
        purpose = (cls.__doc__ or "").strip().split("\n")[0]
        if not purpose:
            raise DeclarationError(
                f"rule {cls.__name__} without a docstring",
                rule="a rule must describe in one line what it does, which decisions show",
                fix='"""log(exp(x)) is x."""',
            )
        cls.info = RuleInfo(cls.__name__, purpose, cls)
        _register(cls())
        if cls.__module__ == "__main__":
            hooks.note_declaration(cls)

    @abstractmethod
    def match(self, node: Expr, graph: PlanGraph) -> Answer:
        """Return Applied, Declined, or None if the rule's structure is not present.

        The answer must depend only on the node, on nodes below it, and on ``graph.consumers``: the rule is matched
        again if one of these changed. Read operands with ``graph.operands(node)``, which includes earlier replacements;
        ``node.operands`` are those of the recorded program. The replacement is recorded like any expression, must have
        the node's type, and must not read the node.
        """

    def applies_to(self, operation_class: type[Operation]) -> bool:
        """Whether the rule is matched at nodes of this class of operation."""
        return issubclass(operation_class, self.roots)

    def applies_over(self, operands: tuple[type[Operation], ...]) -> bool:
        """Whether the structure is possible if operations of these classes produce the one or two operands."""
        return not self.producers or any(issubclass(operation_class, self.producers) for operation_class in operands)

    @classmethod
    def remove(cls) -> None:
        """Remove the rule from the chain, for plans built from now on; raise StateError if it is not in the chain."""
        for index, rule in enumerate(Rule.rules):
            if type(rule) is cls:
                del Rule.rules[index]
                return
        raise StateError(
            f"removing {cls.__name__}",
            rule="a rule must be in the chain to be removed",
            fix="ex.Rule.rules lists those in the chain",
        )

    @property
    def name(self) -> str:
        """The class's name."""
        return type(self).__name__


def _register(instance: Rule) -> None:
    """Append a rule to the chain, or replace the one with the same module and name."""
    key = type(instance).__module__, type(instance).__qualname__
    for index, rule in enumerate(Rule.rules):
        if (type(rule).__module__, type(rule).__qualname__) == key:
            Rule.rules[index] = instance
            return
    Rule.rules.append(instance)


def _check_roots(rule_class: type[Rule]) -> None:
    """Raise DeclarationError if a rule's roots are missing or not operation classes."""
    roots = getattr(rule_class, "roots", ())
    if not roots:
        raise DeclarationError(
            f"rule {rule_class.__name__} without roots",
            rule="a rule must list the operations at which it is asked",
            fix='roots = (ex.operation("log"),)',
        )
    if isinstance(roots, type) and issubclass(roots, Operation):
        raise DeclarationError(
            f"rule {rule_class.__name__} with roots = {roots.__name__}",
            rule="roots must be a tuple of classes of operations",
            fix=f"roots = ({roots.__name__},)",
        )
    for root in roots if isinstance(roots, tuple) else (roots,):
        if not (isinstance(root, type) and issubclass(root, Operation)):
            name = root.name if isinstance(root, Operation) else root if isinstance(root, str) else "log"
            raise DeclarationError(
                f"rule {rule_class.__name__} with {root!r} in roots",
                rule="roots must be a tuple of classes of operations",
                fix=f'roots = (ex.operation("{name}"),)',
            )
