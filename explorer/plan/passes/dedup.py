"""Dedup: merges equal subexpressions into one node (common subexpression elimination by value numbering).

The pass runs before batching, so that equal calls become one call. It runs again after inlining, when the operations in
bodies are visible. For example, a function and its gradient may both compute the forward pass; their operations are
then merged, without a special rule for gradients. Equality is structural; the values of tensors are never compared.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from explorer.core.ir.expr import Expr, Operation, record
from explorer.core.ir.function import Call, Item
from explorer.core.ir.mapped_call import call_like
from explorer.core.ir.recording_context import recording_at
from explorer.core.ir.tensor import Tensor
from explorer.core.types.tensor_type import TupleType
from explorer.gradients.call_gradient import Differentiated
from explorer.ops.creation.constants import Full
from explorer.plan.graph.cost_model import flops_of, result_bytes
from explorer.plan.graph.pass_base import Pass
from explorer.plan.graph.plan_graph import PlanGraph
from explorer.plan.graph.reasons import Reason


@dataclass(frozen=True)
class Dedup(Pass):
    """Compute equal expressions once."""

    name = "dedup"
    decides = "merging"
    merged = Reason(
        "merged",
        "`{first}` is computed once, and its result used {count} times, because the program contains {count} equal "
        "expressions. This saves {saved_flops} and {saved_bytes} of memory.",
        meaning="Two expressions are equal if they apply the same operation, with the same options, to the same "
        "values.",
        change='ex.EvalPlan(without=["dedup"]) computes each of them.',
    )
    commuted = Reason(
        "commuted",
        "`{first}` is computed once, and its result used {count} times, because the program contains {count} equal "
        "expressions. {turned:of them has|of them have} the operands in the other order, which `{operation}` allows. "
        "This saves {saved_flops} and {saved_bytes} of memory.",
        meaning="a + b and b + a have the same bits. Two expressions are equal if they apply the same operation, with "
        "the same options, to the same values.",
        change='ex.EvalPlan(without=["dedup"]) computes each of them.',
    )
    constants = Reason(
        "constants",
        "{count:copy of a constant is|copies of constants are} removed and {kept:constant is|constants are} kept, "
        "because operations that read equal constants can all read the same copy.",
        meaning="Numbers written in the program are equal constants if they have the same value, dtype and shape.",
    )
    order_of_zeros = Reason(
        "order_of_zeros",
        "`{node}` is computed separately, even though `{other}` has the same operands in the other order, because the "
        "results may differ: of the operands 0.0 and −0.0, `{operation}` returns the first.",
        meaning="0.0 and −0.0 compare equal, but 1 / 0.0 is ∞ and 1 / −0.0 is −∞.",
        change="Write the operands in the same order both times: only one of the two expressions is then computed.",
    )
    augmented = Reason(
        "augmented",
        "{count:call is|calls are} removed that computed only the value of `{name}`, because a call that computes the "
        "gradient with the same operands also gives the value.",
        meaning="The gradient of a function needs intermediate results of the function. Computing them also gives the "
        "value, so value and gradient are computed by one call instead of two.",
    )

    def run(self, graph: PlanGraph) -> None:
        """Merge equal nodes by value numbering.

        Equal operations on operands with equal numbers get the same number, and so do tensors with the same storage.
        One traversal suffices: when a node is visited, its operands have numbers, so equal subgraphs of any depth are
        found with one look-up for each node. Equal operations are the same object and are compared by identity.
        """
        first_of: dict[Any, Expr] = {}
        survivor: dict[int, int] = {}
        merged: dict[int, list[Expr]] = {}
        swapped: list[tuple[Expr, int, int]] = []
        inputs = graph.inputs
        for node in graph.live:
            uid, operation = node.uid, node.operation
            operands = inputs[uid]
            count = len(operands)
            if not operation.pure:  # side effects must happen once for each node
                key: Any = uid
            elif count == 1:
                key = operation, survivor[operands[0].uid]
            elif count == 2:
                first_operand, second_operand = operands
                left, right = survivor[first_operand.uid], survivor[second_operand.uid]
                # Sort the operands, so that a + b and b + a get the same key, except if `_commutes` excludes it.
                if right < left and operation.commutative:
                    if operation.idempotent:
                        swapped.append((node, left, right))
                    else:
                        left, right = right, left
                key = operation, left, right
            elif count:
                key = (operation, *[survivor[operand.uid] for operand in operands])
            # Tensors that use the same array have the same value. Each parameter is a separate value.
            elif isinstance(node, Tensor):
                key = node.storage
            else:
                key = uid if operation.name == "parameter" else operation
            # The first node in topological order is kept, so that no node is replaced by a node that depends on it.
            first = first_of.setdefault(key, node)
            if first is node:
                survivor[uid] = uid
            else:
                survivor[uid] = first.uid
                merged.setdefault(first.uid, []).append(node)
        if merged:
            self._merge(merged, survivor, graph)
        if swapped:
            self._explain_swapped(swapped, first_of, survivor, graph)
        self._augment(first_of, survivor, graph)

    def _explain_swapped(
        self,
        swapped: Sequence[tuple[Expr, int, int]],
        first_of: Mapping[Any, Expr],
        survivor: Mapping[int, int],
        graph: PlanGraph,
    ) -> None:
        """Record why a node is kept that equals another node except for the order of operands."""
        explained = {decision.subjects[0].uid for decision in graph.decisions if decision.code == "order_of_zeros"}
        # A decision about 0.0 and −0.0 is useful only if there is a node with swapped operands.
        for node, left, right in swapped:
            counterpart = first_of.get((node.operation, right, left))
            if counterpart is not None and survivor[node.uid] == node.uid and node.uid not in explained:
                facts = {"node": node, "other": counterpart, "operation": node.operation.name}
                graph.decline(self, self.order_of_zeros, facts, node)

    def _merge(self, merged: dict[int, list[Expr]], survivor: dict[int, int], graph: PlanGraph) -> None:
        """Replace equal nodes by the first of them.

        There is only one decision for all constants, because they are many. ``merged`` maps the uid of the first node
        to the other equal nodes. ``survivor`` maps each uid to the uid of the first equal node.
        """
        by_uid = {node.uid: node for node in graph.live}
        constants: list[tuple[Expr, list[Expr]]] = []
        for uid, copies in merged.items():
            first = by_uid[uid]
            # A number in a loop becomes one constant for each iteration, and separate decisions for them would hide the
            # others.
            if isinstance(first.operation, Full):
                constants.append((first, copies))
                continue
            facts = {
                "first": first,
                "count": len(copies) + 1,
                "saved_flops": flops_of(first, graph.inputs[uid]) * len(copies),
                "saved_bytes": result_bytes(first) * len(copies),
            }
            swapped_count = _swapped_count(first, copies, survivor, graph) if _commutes(first.operation) else 0
            if swapped_count:
                facts |= {"turned": swapped_count, "operation": first.operation.name}
            decision = graph.decide(self, self.commuted if swapped_count else self.merged, facts, copies, (first,))
            for copy in copies:
                graph.substitute(decision, copy, first)
        if constants:
            copies = [copy for _, copies_of_one in constants for copy in copies_of_one]
            decision = graph.decide(
                self,
                self.constants,
                {"count": len(copies), "kept": len(constants)},
                copies,
                tuple(first for first, _ in constants),
            )
            for first, copies_of_one in constants:
                for copy in copies_of_one:
                    graph.substitute(decision, copy, first)

    def _augment(self, first_of: dict[Any, Expr], survivor: dict[int, int], graph: PlanGraph) -> None:
        """Replace calls that are also differentiated by calls that return the value and the residuals.

        A gradient needs intermediate values (residuals) of the forward call. It therefore records a second call, which
        returns the residuals too. The second call also computes the value, so the first call is not needed.
        """
        if not graph.has(Call):
            return
        operations = {node.operation for node in graph.live}
        augmented_of = {
            operation: [
                call_like(operation, derived.augmented.body)
                for derived in (*operation.body.derived.values(),)
                if isinstance(derived, Differentiated) and derived.augmented.body is not operation.body
            ]
            for operation in operations
            if isinstance(operation, Call)
        }
        # A derived body may belong to another program, so consider only calls in this graph.
        augmented_of = {
            call: augmented_calls
            for call, augmented_calls in augmented_of.items()
            if not operations.isdisjoint(augmented_calls)
        }
        if not augmented_of:
            return
        items: dict[int, list[Expr]] = {}
        pairs: dict[int, list[tuple[Expr, Expr]]] = {}
        for node in graph.live:
            operation = node.operation
            # `_merge` has already removed the other equal nodes.
            if survivor[node.uid] != node.uid:
                continue
            if isinstance(operation, Item):
                items.setdefault(survivor[graph.inputs[node.uid][0].uid], []).append(node)
            elif isinstance(operation, Call) and operation in augmented_of:
                operands = [survivor[operand.uid] for operand in graph.inputs[node.uid]]
                for augmented in augmented_of[operation]:
                    augmented_node = first_of.get((augmented, *operands))
                    if augmented_node is not None:
                        pairs.setdefault(id(operation), []).append((node, augmented_node))
                        break
        for call_pairs in pairs.values():
            self._read_from(call_pairs, items, first_of, graph)

    def _read_from(
        self, pairs: list[tuple[Expr, Expr]], items: dict[int, list[Expr]], first_of: dict[Any, Expr], graph: PlanGraph
    ) -> None:
        """Make the readers of the first call of each pair read the second call.

        ``items`` maps calls to their outputs.
        """
        decision = graph.decide(
            self,
            self.augmented,
            {"count": len(pairs), "name": pairs[0][0].operation.label},
            [node for node, _ in pairs],
            tuple([augmented_node for _, augmented_node in pairs]),
        )
        for node, augmented_node in pairs:
            for reader in items.get(node.uid, ()) if isinstance(node.type, TupleType) else (node,):
                replacement = augmented_node
                if isinstance(augmented_node.type, TupleType):
                    output = Item(
                        reader.operation.index if isinstance(reader.operation, Item) and reader is not node else 0
                    )
                    # The gradient may already read the same output; if so, use its Item.
                    item = first_of.get((output, augmented_node.uid))
                    if item is None:
                        with recording_at(reader.scope, reader.code, reader.instruction):
                            item = first_of[output, augmented_node.uid] = record(output, (augmented_node,))
                        graph.add_nodes(decision, [item], reader)
                    replacement = item
                graph.substitute(decision, reader, graph.resolve(replacement))
            if isinstance(node.type, TupleType):
                graph.removed.append((decision, node))


def _commutes(operation: Operation) -> bool:
    """Return whether swapping the operands gives the same bits.

    If the operands are 0.0 and −0.0, NumPy's maximum and minimum return the first one. Idempotent operations, such as
    these, are therefore excluded.
    """
    return operation.commutative and not operation.idempotent


def _swapped_count(first: Expr, copies: list[Expr], survivor: dict[int, int], graph: PlanGraph) -> int:
    """Return how many of ``copies`` have the operands of ``first`` in another order."""

    def order(node: Expr) -> list[int]:
        return [survivor[operand.uid] for operand in graph.inputs[node.uid]]

    return sum([order(copy) != order(first) for copy in copies])
