"""The graph that passes change: its live nodes, the substitutions made so far, and the decisions that explain them.

Operands are read through the substitutions, so replacing a node rebuilds no other node, and a user's expressions never
change. Every substitution stores the index
of its decision. From these indices the recording reproduces the graph at any step (assets/decisions/0001 and 0002).

Every pass and every rule reads and changes this graph. Between two refreshes its tables may be out of date: ``live``
and ``inputs`` are from the last refresh. ``users`` may count too many readers of a node, but never too few.

An invalid change immediately raises an error that names the rule or pass. Otherwise, the error would occur in a later
pass or in the run, where the faulty pass is not known.

Declined decisions show a user why nothing happened. In a loop, the same rule may decline for the same reason thousands
of times, so equal declined decisions of a stage are merged into one decision with many subjects.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np

from explorer.core.errors import DeclarationError, StateError
from explorer.core.ir.expr import Expr, Operation
from explorer.core.ir.function import Call, Parameter
from explorer.core.ir.traversal import reachable
from explorer.data.type_erasure import Dynamic
from explorer.plan.graph.decisions import NodeGroup, PlanDecision, PlanStage
from explorer.plan.graph.numerics import Level
from explorer.plan.graph.reasons import Decider, Facts, Reason, RuleInfo
from explorer.plan.schedule.blocked_kernel import tiling_for
from explorer.plan.schedule.schedule import OrderedKernels, Schedule

N = TypeVar("N")


class ReaderLists:
    """For each node, the distinct live nodes that read it, in topological order; computed on first use."""

    __slots__ = ("_inputs", "_live", "_readers")

    def __init__(self, live: Sequence[Expr], inputs: Mapping[int, tuple[Expr, ...]]) -> None:
        self._live, self._inputs = live, inputs
        self._readers: dict[int, list[Expr]] | None = None

    def of(self, node: Expr) -> list[Expr]:
        """Return the readers of ``node``."""
        if self._readers is None:
            readers = self._readers = {}
            for reader in self._live:
                operands = self._inputs[reader.uid]
                for operand in operands if len(operands) < 2 else dict.fromkeys(operands):
                    if operand.uid in readers:
                        readers[operand.uid].append(reader)
                    else:
                        readers[operand.uid] = [reader]
        return self._readers.get(node.uid, [])


class PlanGraph:
    """Graph of the expressions to plan: roots, live nodes in topological order, substitutions and decisions.

    A rule calls `operands`, `consumers` and `resolve`. A pass also iterates over ``live``, records decisions (`decide`,
    `decline`), and then makes the changes that belong to a decision (`substitute`, `add_nodes`, `fuse`).
    """

    def __init__(self, roots: Sequence[Expr], numerics: Level = "safe", inference: bool = False) -> None:
        self.decisions: list[PlanDecision] = []
        """decisions in the order in which they were made; they are identified by their indices, so none is removed or
        moved"""
        self.stages: list[PlanStage] = []
        """finished stages"""
        self._declined: dict[Any, PlanDecision] = {}
        """(stage, rule, reason, facts) → the decision"""
        self._subject_uids: dict[int, set[int]] = {}
        """id of a declined decision with several subjects → uids of the subjects"""
        self.numerics, self.inference = numerics, inference
        """``numerics``: permitted changes to numbers; ``inference``: whether weights are known and constant, so that
        rules may read them"""
        self.recorded_roots = tuple(roots)
        self.replaced: dict[int, Expr] = {}
        """uid → the node that replaces the node with this uid; it may itself have been replaced, see `resolve`"""
        self.substitutions: list[tuple[int, Expr, Expr]] = []
        """(decision, old, new), in order"""
        self._resolved_operands: dict[int, tuple[int, tuple[Expr, ...]]] = {}
        """uid → the number of substitutions when `operands` resolved the node's operands, and the result"""
        self.removed: list[tuple[int, Expr]] = []
        """(decision, removed node)"""
        self.added: list[tuple[int, Expr]] = []
        """(decision, produced node)"""
        self.groups: list[NodeGroup] = []
        self.schedule: OrderedKernels | None = None
        """ordered kernels after the pass `Order`; a Schedule after the pass `Buffers`"""
        self.live: list[Expr] = []
        self.inputs: dict[int, tuple[Expr, ...]] = {}
        """uid → operands of the live nodes, read through the substitutions"""
        self.users: dict[int, int] = {}
        """uid → number of readers of the node: operand slots of live nodes, and roots"""
        self.reader_lists = ReaderLists(self.live, self.inputs)
        """the readers of each node at the last refresh"""
        self.introduced: set[int] = set()
        self.position_of: dict[int, int] = {}
        """uid of a new node → uid of the recorded node that it replaces; kernels run in the order of these uids"""
        self.constancy: dict[int, bool] = {}
        """uid → whether the node depends on no parameter; computed when needed (plan/graph/constancy.py)"""
        self._notes: dict[type, Any] = {}
        self.current_node: Expr | None = None
        """the node that rules are currently matched against"""
        self.consumer_queries: set[int] = set()
        """uids of the nodes at which a rule used the number of readers of a value"""
        self.fused: dict[int, int] = {}
        """uid of a node in a fused kernel → the decision that fused it"""
        self._dead: set[int] = set()
        """uids of nodes that have lost all readers since the last refresh"""
        self._operation_classes: frozenset[type[Operation]] | None = None
        """result of `operation_classes`; computed on first use"""
        self._base_classes: set[type] | None = None
        """these classes and their base classes; computed on first use"""
        self._available: set[int] | None = None
        """result of `available_before_run`; computed on first use"""
        self._changed = True
        self._roots = self.recorded_roots
        """the roots at the last refresh"""
        self._refreshed = 0
        """number of substitutions that are already reflected in the operands of the live nodes"""
        # The first refresh finds the graph as recorded, before any pass.
        self.refresh()
        self.recorded = tuple(self.live)
        self.introduced.update(self.inputs)
        self.has_parameters = self.has(Parameter)
        """whether there are parameters, whose values are passed at each run; other values are computed once for all
        runs"""
        self.has_dynamic = self.has(Dynamic, Call)
        """whether some node may be dynamic data, whose concrete type is not known"""

    def __repr__(self) -> str:
        return f"PlanGraph(live={len(self.live)}, decisions={len(self.decisions)})"

    @property
    def roots(self) -> tuple[Expr, ...]:
        """The current roots."""
        if not self._changed:
            return self._roots
        replaced = self.replaced
        return tuple([self.resolve(root) if root.uid in replaced else root for root in self._roots])

    @property
    def ordered(self) -> OrderedKernels:
        """The ordered kernels; raises StateError if the pass `Order` has not run."""
        if self.schedule is None:
            raise StateError(
                "the schedule of a graph that is not ordered",
                rule="passes that read the order of kernels must come after the pass 'order'",
                fix="move the pass to the end of passes=[…]",
            )
        return self.schedule

    @property
    def scheduled(self) -> Schedule:
        """The finished schedule; raises StateError if the pass `Buffers` has not assigned memory."""
        if not isinstance(self.ordered, Schedule):
            raise StateError(
                "the placements of a graph without assigned memory",
                rule="passes that read memory offsets must come after buffers",
                fix="move the pass to the end of passes=[…]; graph.ordered has the kernels and their order",
            )
        return self.ordered

    def notes(self, kind: type[N]) -> N:
        """Return the notes of class ``kind``, which one pass stores for other passes; they are empty on first use."""
        found: N | None = self._notes.get(kind)
        if found is None:
            found = self._notes[kind] = kind()
        return found

    def note(self, notes: object) -> None:
        """Store ``notes`` as the notes of its class."""
        self._notes[type(notes)] = notes

    def resolve(self, node: Expr) -> Expr:
        """Return the node that currently replaces ``node``, or ``node`` itself if it was not replaced.

        Paths are compressed as in union-find, so a chain of replacements is followed only once.
        """
        replaced = self.replaced
        new = replaced.get(node.uid)
        if new is None:
            return node
        if new.uid not in replaced:
            return new
        path = []
        while node.uid in replaced:
            path.append(node.uid)
            node = replaced[node.uid]
        for uid in path:
            replaced[uid] = node
        return node

    def operands(self, node: Expr) -> tuple[Expr, ...]:
        """Return the current operands of ``node``."""
        # If a rule has just recorded the node, the last refresh did not find it, so use its own operands.
        operands, replaced = self.inputs.get(node.uid) or node.operands, self.replaced
        for operand in operands:
            if operand.uid in replaced:
                # Several rules read the operands of one node, of which there may be thousands.
                count, resolved = self._resolved_operands.get(node.uid, (0, ()))
                if count != len(self.substitutions):
                    resolved = tuple([self.resolve(operand) for operand in operands])
                    self._resolved_operands[node.uid] = len(self.substitutions), resolved
                return resolved
        return operands

    def operand(self, node: Expr, index: int) -> Expr:
        """Return one current operand of ``node``, without resolving the others, of which there may be thousands."""
        return self.resolve(node.operands[index])

    def consumers(self, node: Expr) -> int:
        """Return the number of operand slots and roots that read ``node``.

        The number is exact after a refresh, otherwise an upper bound. If a rule calls this method, the node at which it
        is matched is remembered. The next sweep of the pass `Simplify` revisits only such nodes, because only there the
        rule's answer can change.
        """
        if self.current_node is not None:
            self.consumer_queries.add(self.current_node.uid)
        return self.users.get(node.uid, 0)

    def readers(self, node: Expr) -> list[Expr]:
        """Return the distinct live nodes that read ``node``, in topological order."""
        return self.reader_lists.of(node)

    @property
    def operation_classes(self) -> frozenset[type[Operation]]:
        """Classes of the live nodes' operations at the last refresh."""
        if self._operation_classes is None:
            self._operation_classes = frozenset([node.operation.__class__ for node in self.live])
        return self._operation_classes

    def has(self, *classes: type[Operation]) -> bool:
        """Return whether an operation of one of these classes was live at the last refresh.

        A pass without such operations has no work. Most graphs have few classes, so no pass has to visit their nodes.
        """
        if self._base_classes is None:
            self._base_classes = set[type]().union(*[kind.__mro__ for kind in self.operation_classes])
        return not self._base_classes.isdisjoint(classes)

    def available_before_run(self) -> set[int]:
        """Return the uids of the live nodes whose values exist before the first kernel: leaves and views of leaves.

        The graph must be refreshed, and the set must not be changed.
        """
        if self._available is None:
            self._available = self._find_available()
        return self._available

    def _find_available(self) -> set[int]:
        available: set[int] = set()
        for node in self.live:
            operation = node.operation
            # Items are views too, but of a call's result, which a kernel computes. The value of a parameter is passed
            # when the plan runs.
            if operation.view and not operation.takes_tuples and not isinstance(operation, Parameter):
                operands = self.inputs[node.uid]
                if not operands or all(operand.uid in available for operand in operands):
                    available.add(node.uid)
        return available

    def refresh(self) -> None:
        """Traverse the graph again, depth first from the first root; update topological order, operands and users.

        Does nothing if no node was replaced since the last refresh. The traversal uses its own stack, because graphs
        are deeper than Python's stack. It takes about 0.7 µs for each node, so a pass may call it after every sweep.
        """
        if not self._changed:
            return
        inputs: dict[int, tuple[Expr, ...]] = {}
        users: dict[int, int] = {}
        live: list[Expr] = []
        roots = self.roots
        for root in roots:
            users[root.uid] = users.get(root.uid, 0) + 1
        # Reuse the operands of the last refresh, because only nodes replaced since then have to be resolved.
        last_inputs, replaced, resolve = self.inputs, self.replaced, self.resolve
        # Resolve these nodes completely first, so that one look-up suffices even if a node was replaced twice.
        replaced_since = {old.uid: resolve(old) for _, old, _ in self.substitutions[self._refreshed :]}
        pending: list[Expr | None] = [*reversed(roots)]
        finished: set[int] = set()
        pop, push, finish, count, mark = pending.pop, pending.append, live.append, users.get, finished.add
        while pending:
            node = pop()
            if node is None:  # all operands of the next node are already in the order
                node = pop()
                finish(node)  # type: ignore[arg-type]  # appended below None
                mark(node.uid)  # type: ignore[union-attr]
                continue
            uid = node.uid
            if uid in inputs:
                continue
            operands, replacements = last_inputs.get(uid), replaced_since
            if operands is None:
                # Passes have recorded this node since the last refresh.
                operands, replacements = node.operands, replaced
            if not operands:
                inputs[uid] = operands
                finish(node)
                mark(uid)
                continue
            if replacements:
                for operand in operands:
                    if operand.uid in replacements:
                        operands = tuple([resolve(operand) for operand in operands])
                        break
            inputs[uid] = operands
            push(node)
            push(None)
            for operand in reversed(operands):
                operand_uid = operand.uid
                users[operand_uid] = count(operand_uid, 0) + 1
                if operand_uid not in inputs:
                    push(operand)
                elif operand_uid not in finished:
                    raise _cycle(self, node, operand)
        self.inputs, self.users, self.live, self._roots = inputs, users, live, roots
        self.reader_lists = ReaderLists(live, inputs)
        self._operation_classes = self._base_classes = self._available = None
        self._refreshed = len(self.substitutions)
        self._dead.clear()
        self._resolved_operands.clear()
        self._changed = False

    def decide(
        self,
        rule: Decider,
        reason: Reason,
        facts: Facts,
        subjects: Iterable[Expr],
        produced: tuple[Expr, ...] = (),
        remaining: Callable[[], Facts] | None = None,
    ) -> int:
        """Record an applied decision; return its index for `substitute` and `add_nodes`.

        ``rule`` is the rule, the pass or a RuleInfo. ``facts`` are inserted into the sentence of the reason.
        ``produced`` are the nodes that replace the subjects. ``remaining`` returns the other facts, when somebody reads
        them.
        """
        self._add_decision(rule, True, reason, facts, list(subjects), produced, remaining)
        return len(self.decisions) - 1

    def decider(self, decision: int) -> RuleInfo:
        """Return the rule or pass of the decision with this index; raise DeclarationError if there is none."""
        if type(decision) is not int or not 0 <= decision < len(self.decisions):
            raise DeclarationError(
                f"a change of the graph by the decision {decision!r}",
                rule="a change must name an applied decision",
                fix="decision = graph.decide(self, reason, facts, subjects)",
            )
        return self.decisions[decision].info

    def decline(
        self,
        rule: Decider,
        reason: Reason,
        facts: Facts,
        *subjects: Expr,
        estimated_cost_us: float | None = None,
        remaining: Callable[[], Facts] | None = None,
    ) -> PlanDecision:
        """Record a declined decision about ``subjects``, or add them to an equal decision of this stage.

        Returns the decision. ``estimated_cost_us`` is the estimated cost of declining in µs, summed over these
        subjects. ``remaining`` returns facts that follow from ``facts`` and are computed only when somebody reads them.
        """
        values = [value if value.__class__ is str else _key(value) for value in facts.values()]
        info = rule.info
        # The key includes the owner, because two users' rules may have the same name. It includes the sentence, because
        # several reasons may have the same code.
        key = (len(self.stages), info.name, info.owner, reason.code, reason.sentence, *values)
        decision = self._declined.get(key)
        if decision is None:
            distinct = [*subjects] if len(subjects) < 2 else [*dict.fromkeys(subjects)]
            decision = self._declined[key] = self._add_decision(rule, False, reason, facts, distinct, (), remaining)
            decision.estimated_cost_us = None if estimated_cost_us is None else float(estimated_cost_us)
            return decision
        uids = self._subject_uids.get(id(decision))
        if uids is None:
            uids = self._subject_uids[id(decision)] = {subject.uid for subject in decision.subjects}
        # If sweeps visit a node twice, its cost must count only once.
        if estimated_cost_us is not None and subjects[0].uid not in uids:
            decision.estimated_cost_us = (decision.estimated_cost_us or 0.0) + estimated_cost_us
        for subject in subjects:
            if subject.uid not in uids:
                uids.add(subject.uid)
                decision.subjects.append(subject)
        return decision

    def _add_decision(
        self,
        rule: Decider,
        applied: bool,
        reason: Reason,
        facts: Facts,
        subjects: list[Expr],
        produced: tuple[Expr, ...] = (),
        remaining: Callable[[], Facts] | None = None,
    ) -> PlanDecision:
        """Add a decision to the current stage; raise DeclarationError if the facts do not match the reason.

        Facts of which some remain to be computed are not checked.
        """
        if not isinstance(reason, Reason):
            raise DeclarationError(
                f"{rule.info} decides with the reason {reason!r:.80}",
                rule="the reason of a decision must be an ex.Reason, an attribute of the rule or pass",
                fix='found = ex.Reason("found", "{count:node} were found."), then self.found',
            )
        if remaining is None and not reason.facts <= facts.keys():
            missing = sorted(reason.facts - facts.keys())
            raise DeclarationError(
                f"{rule.info} gives the reason {reason.sentence!r} with the facts {sorted(facts)}",
                rule=f"every fact that a reason names must be given; missing: {', '.join(missing)}",
                fix=f"give {{{', '.join(f'{name!r}: …' for name in missing)}}}, or correct the name in the sentence",
            )
        for name, value in facts.items():
            if not isinstance(value, _FACT_TYPES) and not _is_fact(value):
                raise DeclarationError(
                    f"{rule.info} gives the fact {name} = {value!r:.80}",
                    rule="a fact must be a number, a string, an expression, or a list of them",
                    fix=f'{{"{name}": str(…)}}, or a number',
                )
        stage = len(self.stages)
        decision = PlanDecision(stage, rule.info, applied, reason, facts, subjects, produced, remaining=remaining)
        self.decisions.append(decision)
        return decision

    def substitute(self, decision: int, old: Expr, new: Expr) -> None:
        """Replace ``old`` by ``new``, so that every reader of ``old`` reads ``new`` instead.

        Raises DeclarationError if ``new`` has another type, or if ``old`` is in a fused kernel.
        """
        _check_substitution(self, decision, old, new)
        if new.uid not in self.introduced:
            introduced = self.introduced
            fresh = reachable([new], stop=lambda node: node.uid in introduced)
            self.add_nodes(decision, [node for node in fresh if node.uid not in introduced], old)
        self._changed = True
        self.replaced[old.uid] = new
        # `replaced` contains the current replacements; path compression removes intermediate ones. This list keeps
        # every replacement for the recording.
        self.substitutions.append((decision, old, new))
        self.removed.append((decision, old))
        self._transfer_readers(old, new)

    def _transfer_readers(self, old: Expr, new: Expr) -> None:
        """Add the reader count of ``old`` to that of ``new``, and update the counts of operands.

        If a node has no readers any more, the counts of its operands are decremented. Without this update, a rule that
        requires a value with a single reader could apply only after the next refresh.
        """
        users, dead = self.users, self._dead
        users[new.uid] = users.get(new.uid, 0) + users.pop(old.uid, 0)
        if old.uid in dead:  # The counts of its operands were decremented already.
            return
        dead.add(old.uid)
        pending = [old]
        while pending:
            for operand in self.operands(pending.pop()):
                # Stop at nodes that still have readers. Each node is thus visited only once, when it loses its last
                # reader.
                remaining = users[operand.uid] = users.get(operand.uid, 1) - 1
                if remaining == 0 and operand.uid not in dead:
                    dead.add(operand.uid)
                    pending.append(operand)

    def substitute_many(self, decision: int, pairs: Iterable[tuple[Expr, Expr]]) -> None:
        """Replace many nodes at once by new nodes of one decision; ``pairs`` contains (old, new).

        The reader counts of the old nodes' operands are updated only by the next refresh.
        """
        self._changed = True
        users, ranks = self.users, self.position_of
        pairs = [*pairs]
        self.decider(decision)
        replaced, fused = self.replaced, self.fused
        for old, new in pairs:
            # New nodes are not replaced yet, so other errors are impossible.
            if new.type is not old.type or new is old or new.uid in replaced or old.uid in fused:
                _check_substitution(self, decision, old, new)
        old_uids, new_uids = [old.uid for old, _ in pairs], [new.uid for _, new in pairs]
        self.introduced.update(new_uids)
        self.added += [(decision, new) for _, new in pairs]
        self.removed += [(decision, old) for old, _ in pairs]
        self.substitutions += [(decision, old, new) for old, new in pairs]
        replaced.update(zip(old_uids, [new for _, new in pairs], strict=True))
        ranks.update(zip(new_uids, [ranks.get(uid, uid) for uid in old_uids], strict=True))
        users.update(zip(new_uids, [users.pop(uid, 0) for uid in old_uids], strict=True))
        self._dead.update(old_uids)

    def fuse(self, decision: int, members: Sequence[Expr], label: str = "") -> None:
        """Make ``members``, live nodes in topological order, run as one kernel.

        Its result is the value of the last node. Only nodes in the kernel may read the values of the other members,
        because these are never written to memory. The members are elementwise operations of one shape; a product may
        come before them, and a reduction after them. Raises DeclarationError for other nodes.
        """
        _check_kernel(self, decision, members)
        self.join(decision, members, label)

    def join(self, decision: int, members: Sequence[Expr], label: str = "") -> None:
        """Make ``members``, live nodes in topological order, run as one kernel, without checks.

        As in ``fuse``, only nodes in the kernel may read the values of the members but the last. The members may be
        nodes of several kernels.
        """
        self.fused.update(dict.fromkeys([node.uid for node in members], decision))
        self.groups.append(NodeGroup(decision, "kernel", [*members], label))

    def add_nodes(self, decision: int, nodes: Iterable[Expr], subject: Expr) -> None:
        """Add new nodes of a decision.

        Their kernels are ordered as if the nodes were at the position of ``subject``.
        """
        self._changed = True
        # uids increase in the order of recording. A new node has a large uid, but belongs at the position of its
        # subject. Without the rank, a simplified program would run in another order than the program as written.
        rank = self.position_of.get(subject.uid, subject.uid)
        for node in nodes:
            if node.uid not in self.introduced:
                self.introduced.add(node.uid)
                self.added.append((decision, node))
                self.position_of[node.uid] = rank
                for operand in self.operands(node):
                    self.users[operand.uid] = self.users.get(operand.uid, 0) + 1


_FACT_TYPES = (str, int, float, np.generic, Expr)


def _is_fact(value: Any) -> bool:
    if isinstance(value, (list, tuple)):
        return all(_is_fact(item) for item in value)
    return value is None or isinstance(value, _FACT_TYPES)


def _key(value: Any) -> Any:
    """Return a hashable key for a fact; the keys of 1 and True differ, although 1 == True."""
    if isinstance(value, Expr):
        return value.uid
    if isinstance(value, str):  # it equals no other kind of key
        return value
    return tuple([_key(item) for item in value]) if isinstance(value, (list, tuple)) else (type(value), value)


def _cycle(graph: PlanGraph, reader: Expr, operand: Expr) -> DeclarationError:
    """Return the error for a node that depends on itself; it names the last substitution."""
    decision, old, new = graph.substitutions[-1]
    return DeclarationError(
        f"{graph.decider(decision)} put {new.label} in the place of {old.label}: {reader.label} reads "
        f"{operand.label}, which reads it",
        rule="a replacement must not read the node that it replaces",
        fix="build it from the node's operands: graph.operands(node)",
    )


def _check_substitution(graph: PlanGraph, decision: int, old: Expr, new: Expr) -> None:
    decider = graph.decider(decision)
    # Equal types are the same object, so compare identity.
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
    decider = graph.decider(decision)
    rule, fix = _kernel_fault(graph, members)
    if rule:
        names = " and ".join([getattr(node, "label", repr(node)) for node in members]) or "nothing"
        raise DeclarationError(f"{decider} makes a kernel of {names}", rule=rule, fix=fix)


def _kernel_fault(graph: PlanGraph, members: Sequence[Expr]) -> tuple[str, str]:
    """Return the rule that a kernel of ``members`` would violate, and a fix; both are "" if it violates none."""
    inputs, member_uids = graph.inputs, {node.uid for node in members if isinstance(node, Expr)}
    replaced, fused, users = graph.replaced, graph.fused, graph.users
    for node in members:
        if not isinstance(node, Expr) or node.uid not in inputs or node.uid in replaced:
            return f"members must be live nodes, and {node!r:.80} is none", "take them from graph.live"
        if node.uid in fused:
            other_pass = graph.decider(fused[node.uid])
            fix = "let one pass fuse: yours in the place of ex.passes.Fuse()"
            return f"a node must be in one kernel, and {node.label} is in one of {other_pass}", fix
    if len(member_uids) < max(2, len(members)):
        return "a kernel must have two operations or more, each once", "fuse members only if there are several"
    reads: dict[int, int] = {}
    visited: set[int] = set()
    for node in members:
        for operand in inputs[node.uid]:
            if operand.uid in member_uids:
                reads[operand.uid] = reads.get(operand.uid, 0) + 1
                if operand.uid not in visited:
                    return f"operands must come first, and {node.label} reads {operand.label}", "sort the members"
        visited.add(node.uid)
    for node in members[:-1]:
        # If the node has more readers than those in the kernel, one reader is outside, or the node is a root.
        if reads.get(node.uid, 0) < users[node.uid]:
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
        if (is_reduced or node.type is not last.type) and node.shape != shape and not (is_reduced and node is last):
            return (
                f"members must have one shape, and {node.label} is {node.type}, {last.label} {last.type}",
                "node.shape == last.shape",
            )
    if is_reduced and tiling_for(members, lambda member: inputs[member.uid]) is None:
        return f"the rows that {last.label} reduces must fit into the cache", "leave the reduction out"
    return "", ""
