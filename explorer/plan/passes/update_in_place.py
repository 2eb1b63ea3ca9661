"""Updates in place: the new value of a parameter overwrites the old value when nothing needs the old value any
more.

Training steps request such updates (train/module.py). A value overwrites its parameter only under three conditions:
every other kernel that reads the old value runs before; only other updates are computed from the new value; and the
kernel consists of Explorer's elementwise operations, which do not fail. Updates thus run at the end of a step, after
everything that can fail. If a step fails, every parameter is unchanged.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from explorer.core.ir.expr import Expr
from explorer.core.ir.expr import kernels as registered_kernels
from explorer.plan.graph.constancy import Prepared
from explorer.plan.graph.cost_model import REFERENCE_COST_MODEL
from explorer.plan.graph.pass_base import Pass
from explorer.plan.graph.plan_graph import PlanGraph
from explorer.plan.graph.reasons import Facts, Reason

_BESIDE = (
    "`{result}`, the new value of `{parameter}`, is written to separate memory and copied to `{parameter}` after the "
    "step, because "
)
_SAFE = "A step that fails or is interrupted leaves all parameters unchanged, so updates run last and must not fail."


class _Kernel(NamedTuple):
    """Nodes that will run as one kernel, and the values that it reads."""

    nodes: tuple[Expr, ...]
    reads: tuple[Expr, ...]


class _Refusal(NamedTuple):
    """Reason why a value cannot overwrite its parameter."""

    reason: Reason
    facts: Facts


@dataclass
class Updates:
    """Results that overwrite parameters; their kernels run after all others."""

    parameters: dict[int, Expr] = field(default_factory=dict)
    """uid of a result → the parameter that it overwrites"""
    after: dict[int, tuple[int, ...]] = field(default_factory=dict)
    """uid of a result → uids of other updates that read the old value, and must therefore run earlier"""


@dataclass(frozen=True, eq=False)
class UpdateInPlace(Pass):
    """Overwrite parameters with their new values after all other kernels that read the old values.

    ``pairs`` are (parameter, root that computes its new value). `Module` sets them. Plans without pairs do not have
    this stage.
    """

    name = "update"
    in_place = Reason(
        "in_place",
        "{count:parameter is|parameters are} updated in place, without separate memory for the new values, because "
        "all other reads of the old values come first, and the updates themselves cannot fail. This saves "
        "{saved_bytes}.",
        meaning="A kernel is one operation, or several fused ones. A step that fails or is interrupted leaves all "
        "parameters unchanged, so updates run last and must not fail. Elementwise updates overwrite an operand, as `p "
        "-= step` does in NumPy.",
        change="The update gets new memory if the old value is still needed after it, for example as an output, or if "
        "the update uses an operation that may fail.",
    )
    read_later = Reason(
        "read_later",
        f"{_BESIDE}`{{reader}}`, which also reads the old value, must run later: `{{reader}}` needs the result of "
        "`{needed}`.",
        meaning="A new value can overwrite the old value only after the last read of the old value.",
        change="Compute each new value only from old values, or only from new values.",
    )
    needed = Reason(
        "needed",
        f"{_BESIDE}`{{reader}}` also reads the new value: if `{{reader}}` failed, the old value would be lost.",
        meaning=_SAFE,
        change="Read new values only in other updates, or in the next step.",
    )
    not_elementwise = Reason(
        "not_elementwise",
        f"{_BESIDE}`{{operation}}` would overwrite old values before all of them have been read.",
        meaning="An elementwise operation reads each old value right before overwriting this value. Other operations, "
        "such as a matrix product that is fused with the update, write elements while they still read others.",
        change="For a matrix product, use an optimizer with state, such as Adam, which reads the gradient twice: the "
        "product is then not fused with the update.",
    )
    may_fail = Reason(
        "may_fail",
        f"{_BESIDE}`{{operation}}` {{has_own_code}} and may raise an error after writing some elements.",
        meaning=_SAFE,
        change="Write the update with the library's operations, such as p - 0.1 * gradient.",
    )
    shown = Reason(
        "shown",
        f"{_BESIDE}the kernel of `{{result}}` reads elements of `{{parameter}}` in another order, through "
        "`{reader}`.",
        meaning="A kernel is one operation, or several fused ones. An element can be overwritten only after its last "
        "read.",
        change="Compute the new value from the parameter itself, without transpose, reshape or slice.",
    )
    asked_for = Reason(
        "asked_for",
        f"{_BESIDE}`{{result}}` is also {{used}}.",
        meaning="A parameter, another parameter and a requested result need separate memory, because the next step "
        "overwrites the parameter.",
        change="Do not request the new value: read the parameter after the step.",
    )
    not_computed = Reason(
        "not_computed",
        f"{_BESIDE}the step does not compute `{{result}}`: `{{result}}` has its own memory and keeps its value.",
        meaning="Constants, inputs and other parameters have their own memory. So have values that depend only on "
        "constants: they are computed once, before the first step.",
    )
    other_type = Reason(
        "not_computed",
        f"{_BESIDE}`{{parameter}}` is {{wanted}}, but `{{result}}` is {{given}}.",
        meaning="A new value can overwrite the old value only if both have the same shape and dtype.",
        change="Convert the new value to the dtype of the parameter: x.astype(...).",
    )
    pairs: tuple[tuple[Expr, Expr], ...] = ()

    # Compare by identity, because == between expressions records a comparison.
    def __eq__(self, other: object) -> bool:
        return isinstance(other, UpdateInPlace) and self._uids == other._uids

    def __hash__(self) -> int:
        return hash(self._uids)

    @property
    def _uids(self) -> tuple[int, ...]:
        return tuple([node.uid for pair in self.pairs for node in pair])

    def has_work(self, graph: PlanGraph) -> bool:
        """Return whether parameters have new values."""
        return bool(self.pairs)

    def run(self, graph: PlanGraph) -> None:
        """Accept all updates, then refuse one after another until the remaining updates satisfy the conditions."""
        kernels = _kernels(graph)
        parameters = {parameter.uid for parameter, _ in self.pairs}
        base = _viewed_parameters(graph, parameters)
        readers: dict[int, list[Expr]] = {uid: [] for uid in parameters}
        users: dict[int, list[Expr]] = {}
        for kernel in kernels.values():
            for read in kernel.reads:
                users.setdefault(read.uid, []).append(kernel.nodes[-1])
                if read.uid in base:
                    readers[base[read.uid].uid].append(kernel.nodes[-1])
        # Accept all updates first, because most are valid. A refusal can make another update invalid, but never valid,
        # so the loop has at most as many iterations as there are updates.
        accepted: dict[int, Expr] = {}
        refused: list[tuple[Expr, Expr, _Refusal]] = []
        roots = [root.uid for root in graph.roots]
        for parameter, root in self.pairs:
            result = graph.resolve(root)
            refusal = self._why_unfit(parameter, result, kernels.get(result.uid), roots, graph, base)
            if refusal is None:
                accepted[result.uid] = parameter
            else:
                refused.append((parameter, result, refusal))
        # A refusal may invalidate another update that reads the new value, so check all updates again.
        while True:
            failing = self._first_failing(accepted, kernels, users, readers)
            if failing is None:
                break
            uid, refusal = failing
            refused.append((accepted.pop(uid), kernels[uid].nodes[-1], refusal))
        updates = graph.notes(Updates)
        updates.parameters = accepted
        updates.after = {
            uid: tuple(
                [reader.uid for reader in readers[parameter.uid] if reader.uid in accepted and reader.uid != uid]
            )
            for uid, parameter in accepted.items()
        }
        if accepted:
            saved = sum([parameter.type.nbytes for parameter in accepted.values()])
            counts: Facts = {"count": len(accepted), "saved_bytes": saved}
            graph.decide(self, self.in_place, counts, [kernels[uid].nodes[-1] for uid in accepted])
        for parameter, result, refusal in refused:
            facts: Facts = {"result": result, "parameter": parameter, **refusal.facts}
            copied = REFERENCE_COST_MODEL.call + 2 * parameter.type.nbytes / REFERENCE_COST_MODEL.bandwidth
            graph.decline(self, refusal.reason, facts, result, estimated_cost_us=copied)

    def _why_unfit(
        self,
        parameter: Expr,
        result: Expr,
        kernel: _Kernel | None,
        roots: list[int],
        graph: PlanGraph,
        base: dict[int, Expr],
    ) -> _Refusal | None:
        """Return why a new value can never overwrite its parameter, whatever other kernels do, or None if it can."""
        if kernel is None or result.uid in graph.notes(Prepared):
            return _Refusal(self.not_computed, {})
        if result.type != parameter.type:
            return _Refusal(self.other_type, {"given": repr(result.type), "wanted": repr(parameter.type)})
        # The value is one root because of the pair. If it is a root twice, the caller also requests it.
        if roots.count(result.uid) > 1:
            count = sum([graph.resolve(root) is result for _, root in self.pairs])
            return _Refusal(
                self.asked_for, {"used": "the new value of another parameter" if count > 1 else "requested as a result"}
            )
        for node in kernel.nodes:
            if not node.operation.elementwise:
                return _Refusal(self.not_elementwise, {"operation": node})
            # If the kernel failed halfway, the parameter would contain a mix of old and new numbers.
            is_builtin = type(node.operation).__module__.startswith("explorer.")
            if not is_builtin or (type(node.operation), node.device) in registered_kernels:
                has_own_code = "runs a user-defined kernel on this device" if is_builtin else "is user-defined"
                return _Refusal(self.may_fail, {"operation": node, "has_own_code": has_own_code})
        for read in kernel.reads:
            if base.get(read.uid) is parameter and read is not parameter:
                return _Refusal(self.shown, {"reader": read})
        if any(read is parameter for read in kernel.reads) and not result.operation.reuses_operand:
            return _Refusal(self.not_elementwise, {"operation": result})
        return None

    def _first_failing(
        self,
        accepted: dict[int, Expr],
        kernels: dict[int, _Kernel],
        users: dict[int, list[Expr]],
        readers: dict[int, list[Expr]],
    ) -> tuple[int, _Refusal] | None:
        """Return (uid of the result, reason) for the first update that violates a condition; None if all are valid."""
        for uid in accepted:
            for user in users.get(uid, ()):
                if user.uid not in accepted:
                    return uid, _Refusal(self.needed, {"reader": user})
        before: dict[int, set[int]] = {uid: set() for uid in accepted}
        """uid of an update → the updates that must have run before it"""
        for uid in accepted:
            before[uid].update([read.uid for read in kernels[uid].reads if read.uid in accepted])
        for uid, parameter in accepted.items():
            for reader in readers[parameter.uid]:
                if reader.uid == uid or reader.uid not in accepted:
                    continue
                intermediate = _first_step(before, reader.uid, uid)
                if intermediate is not None:
                    facts = {"reader": reader, "needed": kernels[intermediate].nodes[-1]}
                    return uid, _Refusal(self.read_later, facts)
                # The reader reads the old value, so it must run earlier too; add this edge for later checks.
                before[uid].add(reader.uid)
        return None


def _first_step(before: dict[int, set[int]], start: int, goal: int) -> int | None:
    """Return the first step on a path from the update ``start`` to ``goal``, along updates that must run before.

    None if there is no path.
    """
    for first in sorted(before[start]):
        visited, pending = {first}, [first]
        while pending:
            uid = pending.pop()
            if uid == goal:
                return first
            earlier = before[uid] - visited
            visited |= earlier
            pending += earlier
    return None


def _kernels(graph: PlanGraph) -> dict[int, _Kernel]:
    """Return the kernels that the pass `Order` will create: uid of the result → kernel."""
    groups = [group.members for group in graph.groups if group.kind == "kernel"]
    members_of = {members[-1].uid: members for members in groups}
    inner = {node.uid for members in groups for node in members[:-1]}
    available = graph.available_before_run()
    kernels: dict[int, _Kernel] = {}
    for node in graph.live:
        if node.uid in inner or node.uid in available or not graph.inputs[node.uid]:
            continue
        nodes = tuple(members_of.get(node.uid, (node,)))
        member_uids = {member.uid for member in nodes}
        reads = dict.fromkeys(
            [read for member in nodes for read in graph.inputs[member.uid] if read.uid not in member_uids]
        )
        kernels[node.uid] = _Kernel(nodes, tuple(reads))
    return kernels


def _viewed_parameters(graph: PlanGraph, parameters: set[int]) -> dict[int, Expr]:
    """Return a map from the uid of each parameter, and of each view of a parameter, to the parameter."""
    base: dict[int, Expr] = {}
    for node in graph.live:
        operands = graph.inputs[node.uid]
        if node.uid in parameters:
            base[node.uid] = node
        elif node.operation.view and operands and operands[0].uid in base:
            base[node.uid] = base[operands[0].uid]
    return base
