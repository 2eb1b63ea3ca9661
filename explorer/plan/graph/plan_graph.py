"""The graph that passes work on: the live nodes, what was put in the place of others, and the decisions why.

Nothing is rebuilt when a node is replaced: operands are read through the substitutions. So a replacement deep in a
graph costs nothing above it, an expression of the user is never changed, and every substitution can carry the number of
its decision. From these numbers the recording reproduces the graph at any position (assets/decisions/0001 and 0002).

Every pass and every rule reads and writes it. Between two refreshes the tables may lag behind: ``live`` and ``inputs``
are those of the last walk, and ``users`` never counts fewer readers than there are.

Changes that cannot be are refused where they are made, in the name of the rule or pass that makes them: a wrong pass of
a user would otherwise fail in a later pass or in the run, where nobody knows its name.

A declined rule is worth as much as an applied one to somebody who asks why nothing happened. There are many more of
them, though: a loop declines the same rule for the same reason thousands of times. Equal ones of a stage are therefore
one decision with many subjects.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, TypeVar

import numpy as np

from explorer.core.errors import DeclarationError, StateError
from explorer.core.ir.expr import Expr
from explorer.core.ir.function import Call, Parameter
from explorer.core.ir.traversal import reachable
from explorer.data.type_erasure import Dynamic
from explorer.plan.graph.decisions import NodeGroup, PlanDecision, PlanStage
from explorer.plan.graph.numerics import Level
from explorer.plan.graph.reasons import Decider, Facts, Reason, RuleInfo
from explorer.plan.schedule.blocked_kernel import tiling_for
from explorer.plan.schedule.schedule import OrderedKernels, Schedule

N = TypeVar("N")


class PlanGraph:
    """Graph of expressions under planning: roots, live nodes in topological order, substitutions and decisions.

    A rule asks it for `operands`, `consumers` and `resolve`; a pass also walks ``live``, enters decisions (`decide`,
    `decline`) and then changes the graph in their name (`substitute`, `add_nodes`, `fuse`).
    """

    def __init__(self, roots: Sequence[Expr], numerics: Level = "safe", inference: bool = False) -> None:
        self.decisions: list[PlanDecision] = []
        """in the order in which they were taken; a decision is named by its number, so none is taken out or moved"""
        self.stages: list[PlanStage] = []
        """the stages that have ended"""
        self._declined: dict[Any, tuple[PlanDecision, set[int]]] = {}
        """stage, rule, reason and facts → the decision, and the uids of its subjects"""
        self.numerics, self.inference = numerics, inference
        """what rules may do to numbers; whether weights are known and stay as they are, so that rules may read them"""
        self.recorded_roots = tuple(roots)
        self.replaced: dict[int, Expr] = {}
        """uid → the node that replaces it, which may have been replaced in its turn: see `resolve`"""
        self.substitutions: list[tuple[int, Expr, Expr]] = []
        """(decision, old, new), in order"""
        self.removed: list[tuple[int, Expr]] = []
        """(decision, node that it removed)"""
        self.added: list[tuple[int, Expr]] = []
        """(decision, node that it produced)"""
        self.groups: list[NodeGroup] = []
        self.schedule: OrderedKernels | None = None
        """kernels in their order, from the pass order on; a Schedule from the pass buffers on"""
        self.live: list[Expr] = []
        self.inputs: dict[int, tuple[Expr, ...]] = {}
        """uid → operands of the live nodes, read through the substitutions"""
        self.users: dict[int, int] = {}
        """uid → how many operand places of live nodes, and roots, read the node"""
        self._readers: dict[int, list[Expr]] | None = None
        """uid → the live nodes that read the node, once somebody asked"""
        self.introduced: set[int] = set()
        self.position_of: dict[int, int] = {}
        """uid of a produced node → uid of the recorded node in whose place it stands: kernels run in this order"""
        self.constancy: dict[int, bool] = {}
        """uid → whether no parameter lies below the node, as far as anyone asked (plan/graph/constancy.py)"""
        self._notes: dict[type, Any] = {}
        self.current_node: Expr | None = None
        """the node at which a rule is asked"""
        self.consumer_queries: set[int] = set()
        """uids of nodes at which rules asked how many read a value"""
        self.fused: dict[int, int] = {}
        """uid of a node in a kernel → the decision that put it there"""
        self._dead: set[int] = set()
        """uids of nodes that nobody reads any more since the last refresh"""
        self._changed = True
        self._refreshed = 0
        """number of the substitutions through which the operands of the live nodes are read"""
        # The first walk: what it reaches is the graph as it was recorded, before any pass.
        self.refresh()
        self.recorded = tuple(self.live)
        self.introduced.update(self.inputs)
        kinds = {type(node.operation) for node in self.live}
        self.has_parameters = any(issubclass(operation_class, Parameter) for operation_class in kinds)
        """whether some values are passed at each run: what depends on none of them is computed once for all runs"""
        self.has_dynamic = any(issubclass(operation_class, (Dynamic, Call)) for operation_class in kinds)
        """whether some data may hide its concrete type"""

    def __repr__(self) -> str:
        return f"PlanGraph(live={len(self.live)}, decisions={len(self.decisions)})"

    @property
    def roots(self) -> tuple[Expr, ...]:
        """The roots as they stand now."""
        return tuple([self.resolve(root) for root in self.recorded_roots])

    @property
    def ordered(self) -> OrderedKernels:
        """The kernels in their order; raises StateError before the pass order has run."""
        if self.schedule is None:
            raise StateError(
                "the schedule of a graph that is not ordered",
                rule="passes that read the order of kernels must stand behind order",
                fix="move the pass to the end of passes=[…]",
            )
        return self.schedule

    @property
    def scheduled(self) -> Schedule:
        """The finished schedule; raises StateError before the pass buffers has placed results in memory."""
        if not isinstance(self.ordered, Schedule):
            raise StateError(
                "the placements of a graph whose results have no place yet",
                rule="passes that read where results lie must stand behind buffers",
                fix="move the pass to the end of passes=[…]; graph.ordered has the kernels and their order",
            )
        return self.ordered

    def notes(self, kind: type[N]) -> N:
        """Return what a pass notes about the graph for others, an object of a class of its own, empty at first."""
        found: N | None = self._notes.get(kind)
        if found is None:
            found = self._notes[kind] = kind()
        return found

    def note(self, made: object) -> None:
        """Keep an object as the notes of its class."""
        self._notes[type(made)] = made

    def resolve(self, node: Expr) -> Expr:
        """Return the node that stands for another one now, itself if it was not replaced.

        Paths are compressed, as in union-find: a chain of replacements is walked once.
        """
        replaced = self.replaced
        if node.uid not in replaced:
            return node
        path = []
        while node.uid in replaced:
            path.append(node.uid)
            node = replaced[node.uid]
        for uid in path:
            replaced[uid] = node
        return node

    def operands(self, node: Expr) -> tuple[Expr, ...]:
        """Return a node's operands as they stand now."""
        # A node that a rule has just recorded is in no walk yet: its own operands stand for it.
        operands, replaced = self.inputs.get(node.uid) or node.operands, self.replaced
        for operand in operands:
            if operand.uid in replaced:
                return tuple([self.resolve(operand) for operand in operands])
        return operands

    def operand(self, node: Expr, index: int) -> Expr:
        """Return one of a node's operands as it stands now, without a look at the others: there may be thousands."""
        return self.resolve(node.operands[index])

    def consumers(self, node: Expr) -> int:
        """Return how many operand places and roots read a node; never too few, and exact after a refresh.

        The pass simplify remembers where a rule asked, since another answer may be right there in the next sweep.
        """
        if self.current_node is not None:
            self.consumer_queries.add(self.current_node.uid)
        return self.users.get(node.uid, 0)

    def readers(self, node: Expr) -> list[Expr]:
        """Return the live nodes that read a node, each once, in topological order."""
        if self._readers is None:
            self._readers = {}
            for reader in self.live:
                for operand in dict.fromkeys(self.inputs[reader.uid]):
                    self._readers.setdefault(operand.uid, []).append(reader)
        return self._readers.get(node.uid, [])

    def available_before_run(self) -> set[int]:
        """Return the uids of live nodes whose values exist before the first kernel runs: leaves, and views of them."""
        available: set[int] = set()
        for node in self.live:
            operation = node.operation
            # Items of calls are views, too, but of results that a kernel computes. A parameter's value comes with the
            # run.
            if operation.view and not operation.takes_tuples and not isinstance(operation, Parameter):
                operands = self.inputs[node.uid]
                if not operands or all(operand.uid in available for operand in operands):
                    available.add(node.uid)
        return available

    def refresh(self) -> None:
        """Walk the live graph again: topological order (operands in order, first root first), operands, users.

        Nothing is done where nothing was replaced since. The walk keeps its own stack, since graphs are deeper than
        Python's; it takes about 0.7 µs a node, so that a pass may ask for it after every sweep.
        """
        if not self._changed:
            return
        inputs: dict[int, tuple[Expr, ...]] = {}
        users: dict[int, int] = {}
        live: list[Expr] = []
        roots = self.roots
        for root in roots:
            users[root.uid] = users.get(root.uid, 0) + 1
        # Operands of the last walk are read again: of these only nodes replaced since then have to be resolved.
        before, replaced, resolve = self.inputs, self.replaced, self.resolve
        # All of them already resolved to the end: two replacements of one node since the last walk take one look-up.
        since = {old.uid: resolve(old) for _, old, _ in self.substitutions[self._refreshed :]}
        pending: list[Expr | None] = [*reversed(roots)]
        finished: set[int] = set()
        pop, push, finish, count, mark = pending.pop, pending.append, live.append, users.get, finished.add
        while pending:
            node = pop()
            if node is None:  # everything below the next one stands in the order
                node = pop()
                finish(node)  # type: ignore[arg-type]  # it was put there below None
                mark(node.uid)  # type: ignore[union-attr]
                continue
            uid = node.uid
            if uid in inputs:
                continue
            operands, changed = before.get(uid), since
            if operands is None:
                operands, changed = node.operands, replaced
            if not operands:
                inputs[uid] = operands
                finish(node)
                mark(uid)
                continue
            if changed:
                for operand in operands:
                    if operand.uid in changed:
                        operands = tuple([resolve(operand) for operand in operands])
                        break
            inputs[uid] = operands
            push(node)
            push(None)
            for operand in reversed(operands):
                other = operand.uid
                users[other] = count(other, 0) + 1
                if other not in inputs:
                    push(operand)
                elif other not in finished:
                    raise _cycle(self, node, operand)
        self.inputs, self.users, self.live, self._readers = inputs, users, live, None
        self._refreshed = len(self.substitutions)
        self._dead.clear()
        self._changed = False

    def decide(
        self,
        rule: Decider,
        reason: Reason,
        facts: Facts,
        subjects: Iterable[Expr],
        produced: tuple[Expr, ...] = (),
    ) -> int:
        """Enter an applied decision; return its number, which `substitute` and `add_nodes` take.

        ``rule`` is the rule, the pass or its RuleInfo; ``facts`` fill in the sentence of the reason; ``produced`` are
        the nodes that stand for the subjects afterwards.
        """
        self._enter(rule, True, reason, facts, list(subjects), produced)
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
        self, rule: Decider, reason: Reason, facts: Facts, *subjects: Expr, estimated_cost_us: float | None = None
    ) -> PlanDecision:
        """Enter a declined decision about subjects, or add the subjects to an equal one of this stage; return it.

        ``estimated_cost_us`` are the µs that it may cost for these subjects, added up.
        """
        values = [_key(value) for value in facts.values()]
        info = rule.info
        # The owner, too: two users' rules may have one name. The sentence, since a code may be shared by several
        # reasons.
        key = (len(self.stages), info.name, info.owner, reason.code, reason.sentence, *values)
        entry = self._declined.get(key)
        if entry is None:
            entry = self._declined[key] = self._enter(rule, False, reason, facts, []), set()
        decision, known = entry
        # A sweep asks again at the same node: its cost is counted once.
        if estimated_cost_us is not None and subjects[0].uid not in known:
            decision.estimated_cost_us = (decision.estimated_cost_us or 0.0) + estimated_cost_us
        for subject in subjects:
            if subject.uid not in known:
                known.add(subject.uid)
                decision.subjects.append(subject)
        return decision

    def _enter(
        self,
        rule: Decider,
        applied: bool,
        reason: Reason,
        facts: Facts,
        subjects: list[Expr],
        produced: tuple[Expr, ...] = (),
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
        decision = PlanDecision(stage, rule.info, applied, reason, facts, subjects, produced)
        self.decisions.append(decision)
        return decision

    def substitute(self, decision: int, old: Expr, new: Expr) -> None:
        """Put ``new`` in the place of ``old``: from this decision on, every reader of ``old`` reads ``new``.

        Raises DeclarationError where ``new`` has another type, or ``old`` is in a kernel.
        """
        _check_substitution(self, decision, old, new)
        if new.uid not in self.introduced:
            known = self.introduced
            fresh = reachable([new], stop=lambda node: node.uid in known)
            self.add_nodes(decision, [node for node in fresh if node.uid not in known], old)
        self._changed = True
        self.replaced[old.uid] = new
        # `replaced` answers what stands for a node now, and forgets the way there when paths are compressed; the list
        # keeps every step for the recording.
        self.substitutions.append((decision, old, new))
        self.removed.append((decision, old))
        self._transfer_readers(old, new)

    def _transfer_readers(self, old: Expr, new: Expr) -> None:
        """Count the readers of ``old`` for ``new``; operands that only ``old`` read have one fewer, and so on down.

        Without it a rule that may only act on a value with one reader would wait for the next refresh.
        """
        users, dead = self.users, self._dead
        users[new.uid] = users.get(new.uid, 0) + users.pop(old.uid, 0)
        if old.uid in dead:  # its operands lost this reader before
            return
        dead.add(old.uid)
        pending = [old]
        while pending:
            for operand in self.operands(pending.pop()):
                # Down to what is still read: each node is walked through once in its life, when its last reader goes.
                left = users[operand.uid] = users.get(operand.uid, 1) - 1
                if left == 0 and operand.uid not in dead:
                    dead.add(operand.uid)
                    pending.append(operand)

    def substitute_many(self, decision: int, pairs: Iterable[tuple[Expr, Expr]]) -> None:
        """Put new nodes, which a decision produced, in the place of old ones: ``pairs`` of (old, new), many at once.

        Readers of the old ones' operands are counted anew by the next refresh only.
        """
        self._changed = True
        users, ranks = self.users, self.position_of
        pairs = [*pairs]
        for old, new in pairs:
            _check_substitution(self, decision, old, new)
        before, after = [old.uid for old, _ in pairs], [new.uid for _, new in pairs]
        self.introduced.update(after)
        self.added += [(decision, new) for _, new in pairs]
        self.removed += [(decision, old) for old, _ in pairs]
        self.substitutions += [(decision, old, new) for old, new in pairs]
        self.replaced.update(zip(before, [new for _, new in pairs], strict=True))
        ranks.update(zip(after, [ranks.get(uid, uid) for uid in before], strict=True))
        users.update(zip(after, [users.pop(uid, 0) for uid in before], strict=True))
        self._dead.update(before)

    def fuse(self, decision: int, members: Sequence[Expr], label: str = "") -> None:
        """Have live nodes, operands first, run as one kernel, whose result is the value of the last one.

        Only nodes of the kernel may read the others, since these are never written. Members are elementwise operations
        of one shape, after at most one product, and before at most one reduction. Raises DeclarationError for others.
        """
        _check_kernel(self, decision, members)
        self.fused.update(dict.fromkeys([node.uid for node in members], decision))
        self.groups.append(NodeGroup(decision, "kernel", label or " · ".join([n.label for n in members]), [*members]))

    def add_nodes(self, decision: int, nodes: Iterable[Expr], subject: Expr) -> None:
        """Enter nodes that a decision produced for a subject; in the order of kernels they stand in its place."""
        self._changed = True
        # uids grow with time, so that they are the order of recording. A new node has a late uid, but belongs where its
        # subject was: without the rank a simplified program would run in another order than the program was written in.
        rank = self.position_of.get(subject.uid, subject.uid)
        for node in nodes:
            if node.uid not in self.introduced:
                self.introduced.add(node.uid)
                self.added.append((decision, node))
                self.position_of[node.uid] = rank
                for operand in self.operands(node):
                    self.users[operand.uid] = self.users.get(operand.uid, 0) + 1


def _is_fact(value: Any) -> bool:
    if isinstance(value, (list, tuple)):
        return all(_is_fact(item) for item in value)
    return value is None or isinstance(value, (str, int, float, np.generic, Expr))


def _key(value: Any) -> Any:
    """Return a hashable key of a fact: 1 and True, which are equal, are two keys."""
    if isinstance(value, Expr):
        return value.uid
    return tuple([_key(item) for item in value]) if isinstance(value, (list, tuple)) else (type(value), value)


def _cycle(graph: PlanGraph, reader: Expr, operand: Expr) -> DeclarationError:
    """Return the error that a node waits for itself, in the name of the last substitution."""
    decision, old, new = graph.substitutions[-1]
    return DeclarationError(
        f"{graph.decider(decision)} put {new.label} in the place of {old.label}: {reader.label} reads "
        f"{operand.label}, which reads it",
        rule="a replacement must not read the node that it replaces",
        fix="build it from the node's operands: graph.operands(node)",
    )


def _check_substitution(graph: PlanGraph, decision: int, old: Expr, new: Expr) -> None:
    """Raise DeclarationError where a node cannot stand for another one."""
    decider = graph.decider(decision)
    # Types are interned, so that identity is equality.
    if getattr(new, "type", None) is not old.type:
        given = f"{new.label}, {new.type}," if isinstance(new, Expr) else f"{new!r:.80}"
        rule, fix = "a replacement must have the node's type", "convert it: new.reshape(…), new.astype(…)"
    elif old.uid in graph.fused:
        given, rule = new.label, "nodes must be replaced before they are in a kernel"
        fix = f"run this pass before {graph.decider(graph.fused[old.uid])}"
    elif graph.resolve(new) is old:
        given, rule = new.label, "a replacement must not be, or be replaced by, the node itself"
        fix = "leave the node as it is: graph.resolve(new) is not old"
    else:
        return
    raise DeclarationError(f"{decider} put {given} in the place of {old.label}, {old.type}", rule=rule, fix=fix)


def _check_kernel(graph: PlanGraph, decision: int, members: Sequence[Expr]) -> None:
    """Raise DeclarationError where nodes cannot run as one kernel."""
    decider = graph.decider(decision)
    rule, fix = _kernel_fault(graph, members)
    if rule:
        names = " and ".join([getattr(node, "label", repr(node)) for node in members]) or "nothing"
        raise DeclarationError(f"{decider} makes a kernel of {names}", rule=rule, fix=fix)


def _kernel_fault(graph: PlanGraph, members: Sequence[Expr]) -> tuple[str, str]:
    """Return the rule that a kernel of some nodes would break, with a fix; "" where it breaks none."""
    inputs, inside = graph.inputs, {node.uid for node in members if isinstance(node, Expr)}
    for node in members:
        if not isinstance(node, Expr) or node.uid not in inputs or node.uid in graph.replaced:
            return f"members must be live nodes, and {node!r:.80} is none", "take them from graph.live"
        if node.uid in graph.fused:
            other = graph.decider(graph.fused[node.uid])
            fix = "let one pass fuse: yours in the place of ex.passes.Fuse()"
            return f"a node must be in one kernel, and {node.label} is in one of {other}", fix
    if len(inside) < max(2, len(members)):
        return "a kernel must have two operations or more, each once", "fuse members only if there are several"
    reads: dict[int, int] = {}
    before: set[int] = set()
    for node in members:
        for operand in inputs[node.uid]:
            if operand.uid in inside:
                reads[operand.uid] = reads.get(operand.uid, 0) + 1
                if operand.uid not in before:
                    return f"operands must come first, and {node.label} reads {operand.label}", "sort the members"
        before.add(node.uid)
    for node in members[:-1]:
        # More readers than inside the kernel: one of them is outside, or the node is a root.
        if reads.get(node.uid, 0) < graph.users[node.uid]:
            return (
                f"only the last node of a kernel may be read outside it, and {node.label} is",
                "graph.consumers(node) == 1 for all nodes of a kernel but the last",
            )
    first, last = members[0], members[-1]
    is_reduced = last.operation.reduced_axes is not None and not last.operation.elementwise
    shape = inputs[last.uid][0].shape if is_reduced else last.shape
    for node in members:
        operation = node.operation
        is_product = operation.is_tileable and node is first and not is_reduced
        if operation.view or not (operation.elementwise or is_product or (is_reduced and node is last)):
            return (
                "members must be elementwise operations, after at most one product or before at most one "
                f"reduction, and {node.label} is none there",
                "node.operation.elementwise; node.operation.is_tileable for the first",
            )
        if node.shape != shape and not (is_reduced and node is last):
            return (
                f"members must have one shape, and {node.label} is {node.type}, {last.label} {last.type}",
                "node.shape == last.shape",
            )
    if is_reduced and tiling_for(members, lambda member: inputs[member.uid]) is None:
        return f"the rows that {last.label} reduces must fit into the cache", "leave the reduction out"
    return "", ""
