"""Rewrite rules. They are tried in order until one applies to a node; rules that decline are recorded.

A rule returns `Applied` with the replacement, `Declined` with a reason, or None if its structure is not present.
`Declined` is important: if a rule recognises a structure but keeps it, a user who expected the rule to apply can read
the reason. The pass `Simplify` applies the rules.
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
"""old name of a rule attribute → current name"""


class Rule(ABC):
    """Rewrite rule: recognises one structure at nodes whose operation is one of ``roots``, and replaces it.

    A subclass is appended to the chain of rules when it is defined. If a rule with the same module and name exists, the
    subclass replaces it, so a notebook cell can be run again. The first line of the docstring is shown as the rule's
    purpose in panels. The class attributes below only restrict the nodes at which the rule is matched. They save time,
    but do not change its answers.

    ``numerics`` declares how the rewrite changes floating-point numbers: "exact", "rounding", "reordering" or
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
    """class of the changes to floating-point numbers; a reason may declare another class in its own ``numerics``"""
    info: ClassVar[RuleInfo]
    """name (the class name) and purpose (first line of the docstring) with which the rule's decisions are recorded"""
    rules: ClassVar[list[Rule]] = []
    """all registered rules, in the order in which they are matched"""
    producers: ClassVar[tuple[type[Operation], ...]] = ()
    """operation classes; one of them must produce an operand of the node, if it is unary or binary; () means no
    restriction"""
    among: ClassVar[tuple[type[Operation], ...]] = ()
    """operation classes; the graph must contain one of them; () means that the rule is matched in every graph"""
    concrete: ClassVar[bool] = False
    """whether the rule needs the concrete types of operands; if it does, it declines when an operand is dynamic data"""

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
                '"reassociating" if you do not know',
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

        The answer must depend only on the node, on the nodes that it is computed from, and on ``graph.consumers``. The
        rule is matched again if one of these changes. Read operands with ``graph.operands(node)``, which includes
        earlier replacements; ``node.operands`` are the operands in the recorded program. The replacement is recorded
        like any expression. It must have the node's type, and must not read the node.
        """

    def applies_to(self, operation_class: type[Operation]) -> bool:
        """Return whether the rule is matched at nodes with this class of operation."""
        return issubclass(operation_class, self.roots)

    def applies_over(self, operands: tuple[type[Operation], ...]) -> bool:
        """Return whether the rule's structure is possible if operations of these classes produce the operands."""
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
        """Name of the class."""
        return type(self).__name__


def _register(instance: Rule) -> None:
    """Append a rule to the chain, or replace the rule that has the same module and name."""
    key = type(instance).__module__, type(instance).__qualname__
    for index, rule in enumerate(Rule.rules):
        if (type(rule).__module__, type(rule).__qualname__) == key:
            Rule.rules[index] = instance
            return
    Rule.rules.append(instance)


def _check_roots(rule_class: type[Rule]) -> None:
    roots = getattr(rule_class, "roots", ())
    if not roots:
        raise DeclarationError(
            f"rule {rule_class.__name__} without roots",
            rule="a rule must list the operation classes at which it is matched",
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
