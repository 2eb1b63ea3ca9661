"""Constant folding: computes operations on structured constants when the plan is built.

Structured constants are numbers in the program or a file, zeros, and one-hot vectors. Their values are attributes of
operations, so they are part of the structure of a graph, and this structure is the key of cached plans. Tensors are
data, and no plan depends on their values. Operations on tensors are therefore never folded, even if the tensors are
constant; the pass `Constants` computes such operations once.

Folding replaces nodes, but is not a rule, because it works on whole subgraphs: of ten operations on numbers, only the
last result needs a constant and a decision. The pass `Simplify` calls ``visit`` for nodes during a sweep, and ``run``
at the end of the sweep.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TypeAlias

import numpy as np

from explorer.core.ir.expr import Expr, Operation
from explorer.core.ir.function import Call, Item
from explorer.core.ir.recording_context import recording_at
from explorer.core.types.tensor_type import AnyType, Array, TensorType
from explorer.ops.creation.constants import Full, Literal, OneHot, Structured, Zero
from explorer.ops.manipulation.concat import Concatenate, Stack
from explorer.ops.manipulation.reshape import BroadcastTo, Reshape, Transpose
from explorer.ops.manipulation.slicing import Index0, Slice
from explorer.ops.reduction.reduce import Max, Mean, Min, Sum
from explorer.plan.graph.cost_model import flops_of, result_bytes
from explorer.plan.graph.plan_graph import PlanGraph
from explorer.plan.graph.reasons import Declined, Reason, RuleInfo

DESCRIBED = frozenset((Full, Zero, OneHot, Literal))
"""operations whose attributes determine their results"""

_MAX_LISTED = 64
"""maximum number of elements of a constant that is stored as a list, because plans, cache keys and recordings contain
the list"""
_MAX_REPORTED = 6
"""maximum number of elements of a constant that are listed in the sentence of a decision"""
_MAX_READ = 4096
"""maximum number of elements of an operand that is converted to an array for a computation"""
_MAX_FLOPS = 1 << 16
"""maximum flops to compute a constant while planning; about 26 µs in the cost model"""
_CHOOSES = (Reshape, Transpose, BroadcastTo, Slice, Index0, Stack, Concatenate, Max, Min)
"""operations whose results contain only elements of their operands"""

_Folded: TypeAlias = "Structured | Declined | None"


class _Explained(set[int]):
    """uids of nodes that an earlier folded constant of the plan made unnecessary"""


class Folding:
    """Finds the nodes of a graph that depend only on structured constants, and replaces them by constants.

    A traversal in topological order adds the uids of structured constants to ``known``, and calls `visit` for their
    readers.
    """

    numerics = "rounding"
    """a sum or mean of equal numbers is computed as one product, which is rounded once"""
    rule = RuleInfo(
        "FoldedConstants",
        "Operations that read only numbers, zeros and one-hot vectors are computed when the plan is built.",
    )
    folded = Reason(
        "folded",
        "`{operation}` is computed while the plan is built, not in each run, because it reads only constants. Its "
        "value is {value}. This saves {count:operation}, {saved_flops} and {saved_bytes} of memory in each run.",
        meaning="Constants are numbers that are written in the program, zeros, and one-hot vectors. Tensors are data: "
        "no plan depends on their values.",
        change="To compute it in each run, use a tensor, ex.tensor(…), instead of one of the numbers.",
    )
    impure = Reason(
        "impure",
        "`{operation}` is computed in each run, even though it reads only constants, because it may return another "
        "value each time or have a side effect, such as printing.",
        meaning="Examples of impure operations are random numbers, and operations that print or count.",
        change="If the operation always returns the same value and has no side effect, declare this in its class: "
        "pure = True.",
    )
    fails = Reason(
        "fails",
        "`{operation}` is computed in the run, even though it reads only constants, because computing it while the "
        "plan is built fails: “{error}”. The run will fail with the same error.",
        meaning="Operations that read only constants are usually computed while the plan is built. If one fails, its "
        "error is raised only by a run that reaches the operation.",
        change="Correct the constants.",
    )
    large = Reason(
        "large",
        "`{operation}` is computed in each run, even though it reads only constants, because its result has "
        "{size:element}, and a plan stores at most {limit}.",
        meaning="A plan stores the elements of its constants as a list. If all elements are equal, only one is stored, "
        "so the result may have any size.",
    )
    large_operand = Reason(
        "large",
        "`{operation}` is computed in each run, even though it reads only constants, because one of them has "
        "{size:element}, and a plan computes with at most {limit} while it is built.",
        meaning="Operations that read only small constants are computed while the plan is built.",
    )
    slow = Reason(
        "large",
        "`{operation}` is computed in each run, even though it reads only constants, because `{operation}` takes "
        "{work_flops}, "
        "and at most {limit_flops} are computed while the plan is built.",
        meaning="A flop is one addition, multiplication or other operation on a number. Operations that read only "
        "constants are computed while the plan is built, if this is fast.",
    )

    def __init__(self) -> None:
        self.known: set[int] = set()
        """uids of structured constants, and of nodes that are computed only from them"""
        self._nodes: list[Expr] = []

    def visit(self, node: Expr, operands: tuple[Expr, ...]) -> None:
        """Visit a node whose first operand is known; if all of its operands are known, the node becomes known too."""
        known = self.known
        for operand in operands:
            if operand.uid not in known or not operand.type.plain:
                return
        if isinstance(node.operation, (Call, Item)) or not node.type.plain or not isinstance(node.type, TensorType):
            return
        known.add(node.uid)
        self._nodes.append(node)

    def run(self, graph: PlanGraph) -> None:
        """Replace the known nodes that are read by unknown nodes with constants; equal nodes get one decision."""
        if not self._nodes:
            return
        results: dict[int, _Folded] = {}
        computed: dict[tuple[object, ...], _Folded] = {}
        nodes_of_constant: dict[tuple[Operation, Structured], list[Expr]] = {}
        known_reads = Counter(
            [o.uid for node in self._nodes if graph.users.get(node.uid) for o in graph.inputs[node.uid]]
        )
        """uid → number of operand slots that read the node, in known nodes that are still read"""
        for node in self._nodes:
            operands = [self._described(operand, results) for operand in graph.inputs[node.uid]]
            key = (node.operation, *operands)
            if key not in computed:
                computed[key] = _folded(node.operation, node.type, operands)
            results[node.uid] = result = computed[key]
            if node.uid in graph.replaced:
                continue
            if isinstance(result, Declined):
                graph.decline(self.rule, result.entry, result.facts, node)
            elif result is None or node.operation.view:  # a view of a constant needs no replacement
                continue
            elif graph.consumers(node) > known_reads[node.uid]:
                nodes_of_constant.setdefault((node.operation, result), []).append(node)
        explained = graph.notes(_Explained)
        for (operation, constant), nodes in nodes_of_constant.items():
            self._replace(operation, constant, nodes, explained, graph)

    @staticmethod
    def _described(node: Expr, results: dict[int, _Folded]) -> Structured | None:
        described_by = results.get(node.uid, node.operation)
        return described_by if isinstance(described_by, Structured) else None

    def _replace(
        self,
        operation: Operation,
        described_constant: Structured,
        nodes: list[Expr],
        explained: set[int],
        graph: PlanGraph,
    ) -> None:
        """Replace nodes that have the same operation and value by one constant, and record the savings."""
        first = nodes[0]
        with recording_at(first.scope, first.code, first.instruction):
            constant = described_constant()
        saved = self._no_longer_needed(nodes, explained, graph)
        facts = {
            "operation": operation.name,
            "value": described(described_constant),
            "count": len(saved),
            "saved_flops": sum([flops_of(node, graph.operands(node)) for node in saved]),
            "saved_bytes": sum([result_bytes(node) for node in saved]),
        }
        decision = graph.decide(self.rule, self.folded, facts, nodes, (constant,))
        graph.add_nodes(decision, [constant], first)
        for node in nodes:
            graph.substitute(decision, node, constant)

    def _no_longer_needed(self, nodes: Sequence[Expr], explained: set[int], graph: PlanGraph) -> list[Expr]:
        """Return ``nodes`` and all nodes that they are computed from.

        Leaves and nodes in ``explained`` are excluded. The returned nodes are added to ``explained``, so a node below
        two constants counts only once as saved.
        """
        replaced: list[Expr] = []
        pending = [*nodes]
        while pending:
            node = pending.pop()
            if node.uid in explained or not node.operands:
                continue
            explained.add(node.uid)
            replaced.append(node)
            pending.extend(graph.operands(node))
        return replaced


def described(constant: Structured) -> str:
    """Return a short description of a structured constant for sentences."""
    if isinstance(constant, Full):
        return f"{constant.label} in each element ({constant.infer()!r})" if constant.shape else constant.label
    if isinstance(constant, OneHot):
        return f"{constant.value} at {constant.position} ({constant.infer()!r})"
    if isinstance(constant, Literal):
        listed = ", ".join([f"{number:.6g}" for number in constant.elements[:_MAX_REPORTED]])
        return f"{listed}{', …' * (len(constant.elements) > _MAX_REPORTED)} ({constant.infer()!r})"
    return repr(constant)


def _folded(operation: Operation, type_: AnyType, operands: Sequence[Structured | None]) -> _Folded:
    """Return the constant result of an operation, or a Declined with the reason why it is not computed.

    Returns None if an operand was not computed. If the operation raises an error, it is not folded; the error then
    occurs in the run and refers to the user's line.
    """
    constants = [operand for operand in operands if operand is not None]
    if len(constants) < len(operands):
        return None
    assert isinstance(type_, TensorType)
    if not operation.pure:
        return Folding.impure.declined(operation=operation.name)
    try:
        # As in a run, overflow and NaN are values, not errors.
        with np.errstate(all="ignore"):
            constant = _uniform(operation, type_, constants)
            return constant if constant is not None else _listed(operation, type_, constants)
    except Exception as error:
        return Folding.fails.declined(operation=operation.name, error=str(error).removesuffix("."))


def _uniform(operation: Operation, type_: TensorType, operands: Sequence[Structured]) -> Structured | None:
    """Return the constant if all elements of the result are the same number, which is computed once, else None."""
    scalars: list[Array] = []
    for operand in operands:
        if not isinstance(operand, (Full, Zero)):
            return None
        scalars.append(np.asarray(operand.value if isinstance(operand, Full) else 0, operand.dtype))
    first = scalars[0]
    value: Array
    if operation.elementwise:
        value = np.asarray(operation.compute(*scalars))
    elif isinstance(operation, _CHOOSES) and all(_same(scalar, first) for scalar in scalars):
        value = first
    elif isinstance(operation, (Sum, Mean)):
        value = _reduce_equal(operation, first, operands[0].type_of(()), type_)
    else:
        return None
    if value.shape or value.dtype != type_.dtype:
        return None
    return Full(value.item(), type_.shape, type_.dtype)


def _same(a: Array, b: Array) -> bool:
    """Return whether two numbers have the same bits: 0.0 and −0.0 do not, and a NaN has the same bits as itself."""
    return a.dtype == b.dtype and a.tobytes() == b.tobytes()


def _reduce_equal(operation: Sum | Mean, element: Array, operand_type: AnyType, type_: TensorType) -> Array:
    """Return the sum or the mean of equal elements, with NumPy's range, precision and signs of zero.

    A floating sum is computed as a product in float64 and rounded once. In float64, the product overflows no earlier
    than the sum in a run.
    """
    assert isinstance(operand_type, TensorType)
    if not operation.axes:
        return element.astype(type_.dtype)
    count = 1
    for axis in operation.axes:
        count *= operand_type.shape[axis]
    if isinstance(operation, Mean):
        return np.asarray(0 + element if count else np.nan).astype(type_.dtype)  # a sum of −0.0 is 0.0
    if not count:
        return np.zeros((), type_.dtype)
    wide = type_.dtype if type_.dtype.kind in "iu" else np.result_type(type_.dtype, np.float64)
    if wide.kind == "c":  # multiply the parts by a real number, because ∞ + 0j times 3 + 0j is ∞ + NaN·j
        return np.asarray(complex(element.real * count, element.imag * count) + 0j).astype(type_.dtype)
    return np.asarray(0 + element.astype(wide) * np.asarray(count).astype(wide)).astype(type_.dtype)


def _listed(operation: Operation, type_: TensorType, operands: Sequence[Structured]) -> Structured | Declined:
    """Return the result as a list of elements or a shorter structured constant; decline if it is too large."""
    types = [operand.type_of(()) for operand in operands]
    largest = max([operand_type.size for operand_type in types if isinstance(operand_type, TensorType)], default=0)
    flops = operation.flops(type_, *types)
    if type_.size > _MAX_LISTED:
        return Folding.large.declined(operation=operation.name, size=type_.size, limit=_MAX_LISTED)
    if largest > _MAX_READ:
        return Folding.large_operand.declined(operation=operation.name, size=largest, limit=_MAX_READ)
    if flops > _MAX_FLOPS:
        return Folding.slow.declined(operation=operation.name, work_flops=flops, limit_flops=_MAX_FLOPS)
    return _described(np.asarray(operation.compute(*[operand.compute() for operand in operands])), type_)


def _described(array: Array, type_: TensorType) -> Structured:
    """Return the shortest structured constant for an array.

    Bits are compared, not numbers, because −0.0 is not one of the zeros of a one-hot vector.
    """
    elements = array.astype(type_.dtype, copy=False).reshape(-1)
    bits = np.ascontiguousarray(elements).view(np.uint8).reshape(elements.size, -1)
    if elements.size and (bits == bits[0]).all():
        return Full(elements[0].item(), type_.shape, type_.dtype)
    nonzero = np.flatnonzero(bits.any(axis=1))
    if type_.rank == 1 and len(nonzero) == 1:
        index = int(nonzero[0])
        return OneHot(type_.size, index, elements[index].item(), type_.dtype)
    return Literal(tuple(elements.tolist()), type_.shape, type_.dtype)
