"""Simplify: at each node, the first applicable rule of a chain replaces the structure that it recognises.

The built-in rules are in plan/rewrite/rules, and users may add others (`ex.Rule`). If no rule applies, the node is
kept.

Most rules look for one operation applied to another. A graph may have some hundred thousand nodes, so calling every
rule at every node would take longer than all other passes. `ApplicableRules` therefore caches the applicable rules for
each combination of an operation class and the classes of its operands' operations. A sweep visits operands before their
readers, so rules see simplified operands. Later sweeps revisit only the nodes at which a rule used the number of
readers of a value, because only there the rule's answer can have changed.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from explorer.core.errors import DeclarationError, FileError
from explorer.core.ir.expr import Expr, Operation, runs_on
from explorer.core.ir.function import Call
from explorer.core.ir.recording_context import state
from explorer.core.ir.traversal import reachable
from explorer.data.type_erasure import Dynamic
from explorer.ops.creation.constants import Zero
from explorer.plan.graph.constancy import is_constant
from explorer.plan.graph.cost_model import kernel_cost
from explorer.plan.graph.decisions import PlanDecision
from explorer.plan.graph.pass_base import Pass
from explorer.plan.graph.plan_graph import PlanGraph
from explorer.plan.graph.reasons import Facts, Reason
from explorer.plan.passes.inline import InlinedCalls
from explorer.plan.rewrite.constant_folding import DESCRIBED, Folding
from explorer.plan.rewrite.rule import Applied, Declined, Rule

_ENDLESS = 10_000
"""maximum number of replacements at one node; if there are more, rules are assumed to undo each other. Without this
limit, a user's rule that rewrites its own result would never terminate"""


@dataclass(frozen=True)
class Simplify(Pass):
    """Rewrite parts of the graph to simpler, cheaper or numerically safer forms."""

    sweeps: int = 4
    """maximum number of sweeps; several are needed, because some rules require that a value has one reader, which may
    be true only after a replacement"""
    rules: tuple[Rule, ...] | None = None
    """rules to apply, without constant folding; None means the registered rules, with constant folding"""
    name = "simplify"
    unreached = Reason(
        "unreached",
        "This gradient ({type}) is not computed, because it is zero: the loss does not depend on the value with "
        "respect to which it is differentiated.",
        meaning="Such a gradient is a ZeroTensor: it has a shape and a dtype, but stores no elements and takes no "
        "time to compute.",
        change="If the loss should depend on this value, use the value in its computation.",
    )
    no_kernel = Reason(
        "no_kernel",
        "`{node}` is computed as written, not rewritten with the operation `{operation}`, because the device "
        "`{device}` has code for `{node}`, but none for `{operation}`.",
        meaning="An operation runs only on devices for which somebody has written code (a kernel) that computes it.",
        change="Register a kernel for the missing operation on this device: @ex.kernel(operation, on=device).",
    )
    hidden_type = Reason(
        "hidden_type",
        "`{reader}` is computed as written, because its operand `{x}` was created by ex.make_dynamic, which hides how "
        "the operand was made. `{reader}` might otherwise be simplified, for example if the operand is zeros or a "
        "one-hot vector.",
        meaning="If y is zeros, x + y is x. If y is one-hot (a single 1, like a row of np.eye), y @ x is a row of x. "
        "A plan recognises such data by its class, which ex.make_dynamic hides.",
        change="Pass the data that y hides: ex.try_cast(y, ex.ZeroTensor) returns the data if they are a ZeroTensor, "
        "and None otherwise.",
    )

    differentiated = Reason(
        "differentiated",
        "`{written}` is rewritten to a stable form by the rule {rule} before its gradient is computed. The "
        "gradient of the written form may overflow, or divide by a number that is rounded to 0.",
        meaning="ex.grad rewrites a program to a stable form before it differentiates. For example, the gradient of "
        "log(softmax(x)) divides by softmax(x), which may be 0. The gradient of log_softmax(x), which is the same "
        "function, does not.",
        change="Differentiate with respect to the inner value, such as p in ex.log(p) with p = ex.softmax(x): the "
        "written form is then kept.",
    )
    changes_rounding = Reason(
        "changes_rounding",
        "`{node}` is computed as written, not by the rule {rule}, because the result of the rule might overflow, "
        "underflow or lose digits where the program as written does not. The rule would save an estimated {saved_us}; "
        'numerics="fast" permits it. Its formula: {formula}.',
        meaning="In exact arithmetic, (1e8 + 0.3) − 1e8 is 0.3; in float64 it is 0.2999999970197678, and in float32 "
        "it is 0. The order of operations decides which digits are lost, so a plan keeps the order that was written.",
        change='Use ex.EvalPlan(numerics="fast") if the last digits, overflow and underflow do not matter.',
    )

    def run(self, graph: PlanGraph) -> None:
        """Sweep until nothing changes, but at most ``sweeps`` times.

        The limit is reached only if many rules enable each other one after another. The graph is valid after every
        sweep.
        """
        explained = {decision.subjects[0].uid for decision in graph.decisions if decision.code == "unreached"}
        only: set[int] | None = None
        for _ in range(self.sweeps):
            before = len(graph.substitutions)
            only = self._sweep(graph, explained, only)
            if len(graph.substitutions) == before:
                return
            graph.refresh()

    def _sweep(self, graph: PlanGraph, explained: set[int], only: set[int] | None = None) -> set[int] | None:
        """Apply the rules to every node in topological order, and to the nodes that rules record.

        ``only`` contains the uids of nodes to visit: those at which an earlier rule used a number of readers, so its
        answer may differ now. None means all nodes. Returns this set for the next sweep, or None if constants were
        folded. ``explained`` contains the uids of gradients that already have a decision.
        """
        graph.consumer_queries.clear()
        gradients: dict[str, list[Expr]] = {}
        """description of a rewrite before differentiation → the gradient nodes"""
        chains, folding, inputs = applicable_rules(graph, self.rules), Folding(), graph.inputs
        constants, substitutions = folding.known, graph.substitutions
        refreshed = len(substitutions)
        # Rules record nodes at the current scope and source line, like a program. Restore both afterwards for the
        # planner's caller.
        outer_context = state.scope, state.origin
        try:
            for node in graph.live:
                operation_class = node.operation.__class__
                operands = inputs[node.uid]
                scope = node.scope
                if only is None and scope is not None and scope.kind == "twin" and scope.type:
                    gradients.setdefault(scope.type, []).append(node)
                if not operands:
                    # Only structured constants count, because folding reads their attributes without computing an
                    # array.
                    if operation_class in DESCRIBED:
                        constants.add(node.uid)
                elif operands[0].uid in constants:
                    folding.visit(node, operands)
                is_candidate = chains[operation_class] and (only is None or node.uid in only)
                rules: _IndexedRules | tuple[()] = ()
                if is_candidate:
                    current = operands if len(substitutions) == refreshed else graph.operands(node)
                    rules = chains.at(operation_class, current)
                if rules:
                    pending = self._apply_first(node, rules, graph)
                    if pending:
                        self._settle(node, pending, chains, graph)
                elif operation_class is Zero and node.operation.cause and node.uid not in explained:  # type: ignore[attr-defined]
                    explained.add(node.uid)
                    graph.decide(self, self.unreached, {"type": repr(node.type)}, [node])
        finally:
            state.scope, state.origin = outer_context
            graph.current_node = None
        stage = len(graph.stages)
        explained_gradients = {
            node.uid
            for decision in (graph.decisions if gradients else ())
            if decision.reason is self.differentiated and decision.stage == stage
            for node in decision.subjects
        }
        for note, nodes in gradients.items():
            rule, written = note.split("\n")
            if not explained_gradients.isdisjoint([node.uid for node in nodes]):  # second sweep
                continue
            graph.decide(self, self.differentiated, {"rule": rule, "written": written}, nodes)
        rules_applied = len(graph.substitutions)
        # While there are calls, constants are not folded, because after inlining rules may recognise structures in the
        # bodies.
        if self.rules is None and (Call not in chains.kinds or graph.notes(InlinedCalls)):
            folding.run(graph)
        return set(graph.consumer_queries) if len(graph.substitutions) == rules_applied else None

    def _settle(self, node: Expr, pending: list[Expr], chains: ApplicableRules, graph: PlanGraph) -> None:
        """Apply the rules to ``pending`` and to their replacements, until no rule applies.

        ``pending`` are the nodes that replaced ``node``.
        """
        # Visit operands before their readers, as in the sweep; the last node in the list is visited first.
        pending.reverse()
        for _ in range(_ENDLESS):
            if not pending:
                return
            current = pending.pop()
            # A rule at another node may have replaced this node in the meantime.
            if current.uid not in graph.replaced:
                rules = chains.at(type(current.operation), graph.operands(current))
                # The nodes are in topological order, and are popped from the end.
                pending.extend(reversed(self._apply_first(current, rules, graph)))
        raise DeclarationError(
            f"rules that replaced {node.operation.label} and its replacements {_ENDLESS:,} times",
            rule=f"a rule must return None for its own replacement; the last rule was {graph.decisions[-1].rule}",
            fix="return None from match() for a node that already has the form of the replacement",
        )

    def _apply_first(self, node: Expr, rules: _IndexedRules, graph: PlanGraph) -> list[Expr]:
        """Try the rules in order until one applies; return the nodes that it recorded, in topological order.

        A rule records its replacement like a program. Meanwhile the current scope and source line are those of
        ``node``, so the replacement belongs to the same line of the user's code. New products keep the scope and the
        line of the product that they replace.
        """
        state.scope, state.origin = node.scope, (node.code, node.instruction)
        graph.current_node = node
        for index, rule in rules:
            try:
                answer: Any = rule.match(node, graph)
            except FileError:  # of weights that the rule reads
                raise
            except Exception as error:
                raise DeclarationError(
                    f"rule {rule.name} ({rule.info.location}) failed at {node!r}: {type(error).__name__}: {error}",
                    rule="a rule must return Applied, Declined or None at every node of its roots",
                    fix=f"correct its match(), or take it out: {rule.name}.remove()",
                ) from error
            if answer is None:
                if rule.concrete and graph.has_dynamic:
                    hidden = next((o for o in graph.operands(node) if isinstance(o.operation, Dynamic)), None)
                    if hidden is not None:
                        facts: Facts = {"x": hidden, "reader": node.operation.label}
                        graph.decline(rule, self.hidden_type, facts, node).rule_index = index
                continue
            if isinstance(answer, Declined):
                graph.decline(rule, answer.entry, answer.facts, node).rule_index = index
                continue
            if not isinstance(answer, Applied):
                raise DeclarationError(
                    f"rule {rule.name} returned {answer!r}",
                    rule="a rule must return Applied, Declined or None",
                    fix="return one of them",
                )
            if not isinstance(answer.new, Expr):
                raise DeclarationError(
                    f"rule {rule.name} replaced {node!r} by {answer.new!r:.80}",
                    rule="a replacement must be an expression",
                    fix="ex.tensor(value), or an operation on the node's operands",
                )
            # A rule may return a node of the program that an earlier rule has already replaced.
            new = graph.resolve(answer.new)
            # The replacement may also read nodes that were recorded outside the graph; add them too.
            fresh = [
                n for n in reachable([new], stop=lambda n: n.uid in graph.introduced) if n.uid not in graph.introduced
            ]
            _check(rule, node, new, fresh, graph)
            refused = self._decline_forbidden(rule, answer, node, fresh, graph)
            if refused is not None:
                refused.rule_index = index
                continue
            _keep_products_in_place(node, fresh, graph)
            decision = graph.decide(rule, answer.entry, answer.facts, [node], (new,))
            graph.decisions[decision].rule_index = index
            graph.add_nodes(decision, fresh, node)
            graph.substitute(decision, node, new)
            return fresh
        return []

    def _decline_forbidden(
        self, rule: Rule, answer: Applied, node: Expr, fresh: Sequence[Expr], graph: PlanGraph
    ) -> PlanDecision | None:
        """Record a declined decision if the device or the plan's numerics forbids the answer, else return None."""
        missing = next((part for part in fresh if not runs_on(part.operation, part.type.device)), None)
        facts: Facts
        if missing is not None:
            facts = {"operation": missing.operation.name, "device": missing.type.device.name}
            return graph.decline(rule, self.no_kernel, {**facts, "node": node.operation.label}, node)
        effect = answer.entry.numerics or rule.numerics
        # Integer overflow wraps around, so every order of operations gives the same bits.
        if effect == "reassociating" and graph.numerics == "safe" and node.dtype.kind not in "biu":
            saved = _saved_us(node, fresh, graph)
            facts = {"node": node.operation.label, "rule": rule.name, "saved_us": saved}
            facts["formula"] = rule.info.purpose.removesuffix(".")
            return graph.decline(rule, self.changes_rounding, facts, node, estimated_cost_us=saved)
        return None


def _keep_products_in_place(node: Expr, fresh: Sequence[Expr], graph: PlanGraph) -> None:
    """Give new products and convolutions the scope and source line of the product that they replace.

    This product is below ``node``. For example, if a batch norm is moved into the convolution before it, the new
    convolution mainly does the work of the old one, so its time belongs to the line of the old one.
    """
    for part in fresh:
        kind = type(part.operation)
        if kind.kept_axes is Operation.kept_axes or isinstance(node.operation, kind):
            continue
        # A rule may also return nodes that the user recorded elsewhere.
        if (part.scope, part.code, part.instruction) != (node.scope, node.code, node.instruction):
            continue
        below = graph.operands(node)
        # A term may lie between the product and the node: (x @ W + b) · s.
        candidates = [*below, *[inner for operand in below for inner in graph.operands(operand)]]
        # A product of another type does other work: it may, for example, replace a sum of products.
        written = next((each for each in candidates if type(each.operation) is kind and each.type is part.type), None)
        if written is not None:
            part.scope, part.code, part.instruction = written.scope, written.code, written.instruction


def _saved_us(node: Expr, fresh: Sequence[Expr], graph: PlanGraph) -> float:
    """Return the time in µs that a replacement saves.

    It is the cost of nodes that are not needed any more, minus the cost of the new nodes.
    """
    fresh_uids = {part.uid for part in fresh}
    read_uids = {operand.uid for part in fresh for operand in graph.operands(part)} - fresh_uids
    removed, pending = [], [node]
    while pending:
        current = pending.pop()
        removed.append(current)
        pending += [
            operand
            for operand in graph.operands(current)
            if operand.operands and operand.uid not in read_uids and graph.users.get(operand.uid, 0) == 1
        ]
    varying = [part for part in fresh if not (graph.has_parameters and is_constant(part, graph))]
    old_us, new_us = [sum([kernel_cost(part, graph.operands(part)) for part in nodes]) for nodes in (removed, varying)]
    return round(max(0.0, old_us - new_us), 2)


_IndexedRules: TypeAlias = list[tuple[int, Rule]]
"""(position in the chain, rule)"""


class ApplicableRules(dict[type, _IndexedRules]):
    """Map from an operation class to its applicable rules, filled when needed.

    ``kinds`` are all operation classes of a graph, and ``rules`` are the registered rules. Graphs with the same kinds
    and rules share one instance.
    """

    def __init__(self, kinds: frozenset[type], rules: tuple[Rule, ...]) -> None:
        super().__init__()
        self.kinds = kinds
        self._by_producers: dict[tuple[type, ...], _IndexedRules] = {}
        self._rules = [
            (index, rule)
            for index, rule in enumerate(rules)
            if not rule.among or any(issubclass(operation_class, rule.among) for operation_class in kinds)
        ]

    def __missing__(self, cls: type) -> _IndexedRules:
        self[cls] = rules = [(index, rule) for index, rule in self._rules if rule.applies_to(cls)]
        return rules

    def at(self, cls: type, operands: tuple[Expr, ...]) -> _IndexedRules:
        """Return the rules for an operation of class ``cls`` applied to ``operands``."""
        if len(operands) == 1:
            (only,) = operands
            key: tuple[type, ...] = cls, only.operation.__class__
        elif len(operands) == 2:
            first, second = operands
            key = cls, first.operation.__class__, second.operation.__class__
        else:
            return self[cls]
        rules = self._by_producers.get(key)
        return self._select(key) if rules is None else rules

    def _select(self, key: tuple[type, ...]) -> _IndexedRules:
        """Select the rules for an operation class and the operation classes of its operands.

        Rules that need concrete data are also selected if an operand is dynamic, so that they can decline.
        """
        cls, *producers = key
        is_hidden = any(issubclass(producer, Dynamic) for producer in producers)
        rules = self._by_producers[key] = [
            (index, rule)
            for index, rule in self[cls]
            if rule.applies_over(tuple(producers)) or (is_hidden and rule.concrete)
        ]
        return rules


_shared_rules = functools.lru_cache(maxsize=64)(ApplicableRules)


def applicable_rules(graph: PlanGraph, rules: tuple[Rule, ...] | None = None) -> ApplicableRules:
    """Return the cached rules for a graph.

    Selecting them again would take a tenth of the time to plan a small graph.
    """
    return _shared_rules(graph.operation_classes, rules or tuple(Rule.rules))


def _check(rule: Rule, node: Expr, new: Expr, fresh: list[Expr], graph: PlanGraph) -> None:
    # Equal types are the same object, so compare identity; this check runs for every replacement.
    if new.type is not node.type:
        raise DeclarationError(
            f"rule {rule.name} replaced {node.type} by {new.type}",
            rule="a replacement must have the node's type",
            fix="convert the result, or decline",
        )
    if new is node or any(operand is node for part in fresh for operand in graph.operands(part)):
        raise DeclarationError(
            f"rule {rule.name} replaced {node!r} by a value that reads it",
            rule="a replacement must not read the node",
            fix="build the new value from the node's operands, or return None",
        )
