"""Decision log: every decision of a plan, applied or declined, in the order in which it was taken.

A declined rule is worth as much as an applied one to somebody who asks why nothing happened. There are many more of
them, though: a loop declines the same rule for the same reason thousands of times. Equal ones of a stage are therefore
one decision with many subjects, and the log knows which.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from explorer.core.errors import DeclarationError
from explorer.core.ir.expr import Expr
from explorer.plan.graph.decisions import PlanDecision, PlanStage
from explorer.plan.graph.reasons import Decider, Facts, Reason, RuleInfo


class DecisionLog:
    """Decisions so far, and the stages that have ended.

    A decision's number is its place in the list: lists of substitutions refer to it, so no decision is ever taken out
    or moved.
    """

    def __init__(self) -> None:
        self.decisions: list[PlanDecision] = []
        self.stages: list[PlanStage] = []
        self._declined: dict[Any, tuple[PlanDecision, set[int]]] = {}
        """stage, rule, reason and facts → the decision, and the uids of its subjects"""

    def decide(
        self,
        rule: Decider,
        reason: Reason,
        facts: Facts,
        subjects: Iterable[Expr],
        produced: tuple[Expr, ...] = (),
        rule_index: int = 0,
    ) -> int:
        """Enter an applied decision; return its number, which `substitute` and `add_nodes` take.

        ``rule`` is the rule, the pass or its RuleInfo; ``facts`` fill in the sentence of the reason; ``produced`` are
        the nodes that stand for the subjects afterwards; ``rule_index`` is the place of the rule in its chain.
        """
        self._enter(rule, True, reason, facts, list(subjects), produced, rule_index)
        return len(self.decisions) - 1

    def decider(self, decision: int) -> RuleInfo:
        """Return the rule or pass that took a decision; raise DeclarationError for no decision."""
        if type(decision) is not int or not 0 <= decision < len(self.decisions):
            raise DeclarationError(
                f"a change of the graph by the decision {decision!r}",
                rule="a change must be made in the name of a decision that was applied",
                fix="decision = graph.decide(self, reason, facts, subjects)",
            )
        return self.decisions[decision].info

    def decline(
        self,
        rule: Decider,
        reason: Reason,
        facts: Facts,
        subject: Expr,
        rule_index: int = 0,
        estimated_cost_us: float | None = None,
        unfused_operand: Expr | None = None,
        also_subject: bool = False,
        unfused_reader: Expr | None = None,
    ) -> None:
        """Enter a declined decision about a subject, or add the subject to an equal one of this stage.

        ``estimated_cost_us`` are the µs that it may cost, added up; ``unfused_operand`` is an operand that is written
        for the subject, and is a subject too if ``also_subject``; ``unfused_reader`` reads the subject.
        """
        values = [_key(value) for value in facts.values()]
        info = rule.info
        # The owner, too: two users' rules may have one name. The sentence, since a code may be shared by several
        # reasons.
        key = (len(self.stages), info.name, info.owner, reason.code, reason.sentence, *values)
        entry = self._declined.get(key)
        if entry is None:
            entry = self._enter(rule, False, reason, facts, [], (), rule_index), set()
            self._declined[key] = entry
        decision, subjects = entry
        is_known = subject.uid in subjects
        # A sweep asks again at the same node: its cost is counted once.
        if is_known and unfused_operand is None and unfused_reader is None:
            return
        if estimated_cost_us is not None:
            decision.estimated_cost_us = (decision.estimated_cost_us or 0.0) + estimated_cost_us
        if not is_known:
            subjects.add(subject.uid)
            decision.subjects.append(subject)
        if unfused_reader is not None:
            decision.unfused_edges.append((subject, unfused_reader))
        if unfused_operand is not None:
            decision.unfused_edges.append((unfused_operand, subject))
            if also_subject and unfused_operand.uid not in subjects:
                subjects.add(unfused_operand.uid)
                decision.subjects.append(unfused_operand)

    def _enter(
        self,
        rule: Decider,
        applied: bool,
        reason: Reason,
        facts: Facts,
        subjects: list[Expr],
        produced: tuple[Expr, ...],
        rule_index: int,
    ) -> PlanDecision:
        """Add a decision of the stage that is not closed yet; raise DeclarationError for facts that do not fit it."""
        if not isinstance(reason, Reason):
            raise DeclarationError(
                f"{rule.info} decides with the reason {reason!r:.80}",
                rule="the reason of a decision must be an ex.Reason, an attribute of the rule or pass",
                fix='found = ex.Reason("found", "{count:node} were found."), then self.found',
            )
        if not reason.facts <= facts.keys():
            missing = sorted(reason.facts - facts.keys())
            raise DeclarationError(
                f"{rule.info} gives the reason {reason.sentence!r} with the facts {sorted(facts)}",
                rule=f"every fact that a reason names must be given; missing: {', '.join(missing)}",
                fix=f"give {{{', '.join(f'{name!r}: …' for name in missing)}}}, or correct the name in the sentence",
            )
        for name, value in facts.items():
            if not _is_fact(value):
                raise DeclarationError(
                    f"{rule.info} gives the fact {name} = {value!r:.80}",
                    rule="a fact must be a number, a string, an expression, or a list of them",
                    fix=f'{{"{name}": str(…)}}, or a number',
                )
        stage = len(self.stages)
        decision = PlanDecision(stage, rule.info, applied, reason, facts, subjects, produced, rule_index)
        self.decisions.append(decision)
        return decision


def _is_fact(value: Any) -> bool:
    if isinstance(value, (list, tuple)):
        return all(_is_fact(item) for item in value)
    return value is None or isinstance(value, (str, int, float, np.generic, Expr))


def _key(value: Any) -> Any:
    """Return a hashable key of a fact: 1 and True, which are equal, are two keys."""
    if isinstance(value, Expr):
        return value.uid
    return tuple([_key(item) for item in value]) if isinstance(value, (list, tuple)) else (type(value), value)
