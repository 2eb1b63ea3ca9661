"""Laws of rewrite rules and passes, which must not change the values of programs.

A rule's formula may be correct for real numbers, but wrong with rounding, signed zeros, integer overflow or NaN.
Programs in which the rule matches are therefore generated, and computed with and without it.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial

import numpy as np

from explorer.core import registry
from explorer.core.errors import ExplorerError
from explorer.core.ir.expr import Expr, Operation
from explorer.core.ir.tensor import Tensor, tensor
from explorer.core.ir.traversal import reachable
from explorer.core.types.tensor_type import Array
from explorer.ops.creation.constants import Full
from explorer.plan.graph.pass_base import KINDS, Pass
from explorer.plan.graph.plan_graph import PlanGraph
from explorer.plan.graph.reasons import Applied, Declined
from explorer.plan.pipeline import PIPELINE, pass_of
from explorer.plan.rewrite.rule import Rule
from explorer.record.reasons import counted_text
from explorer.run.evalplan import EvalPlan
from explorer.testing.laws.law import LawError, agree, number
from explorer.testing.laws.report import LawResult

_LAW = "values with the rule = without"
_PASS_LAW = "values with the pass = without"
_NUMBERS = (1.0, 0.0, 2.0, -1.0, 0.5)
"""constants that rules look for, in the order in which they are tried"""
_MAX_COMPARED = 60
"""maximum number of programs whose values are compared"""
_MAX_COMPARED_QUICK = 12
"""maximum number of compared programs in a check with a deadline"""
_MAX_PROGRAMS = 4_000
"""maximum number of programs on which a rule is tried"""
_TOLERANCES = {"float64": 1e-8, "complex128": 1e-8, "float32": 1e-4, "complex64": 1e-4, "float16": 2e-2}
"""dtype → relative tolerance for rounding; other dtypes are compared exactly"""


@dataclass(slots=True)
class _Trials:
    """Counts of the programs on which a rule was tried."""

    programs: int = 0
    declined: int = 0
    codes: dict[str, int] | None = None


def rule_results(rule: Rule, programs: Sequence[Expr] = (), deadline: float | None = None) -> tuple[LawResult, ...]:
    """Check whether a rule preserves the values of ``programs``; return the law's result.

    By default, programs are generated from the rule's root operations until ``deadline``, in ``time.perf_counter``
    time.
    """
    trials = _Trials(codes={})
    try:
        pairs = _replacements(rule, programs or _generated(rule.roots, deadline), trials)
    except LawError as error:
        return (LawResult("match", False, str(error)),)
    if not pairs:
        return (_unmatched(rule, trials, bool(programs), deadline),)
    pairs = sorted(pairs, key=lambda pair: len(reachable([pair[0]])))[
        : _MAX_COMPARED if deadline is None else _MAX_COMPARED_QUICK
    ]
    for before, after in pairs:
        if before.type is not after.type:
            text = f"in {program_text(before)}: without the rule {before.type}, with it {after.type}"
            return (LawResult("type with the rule = without", False, text),)
    try:
        values = _values([node for pair in pairs for node in pair])
    except ExplorerError:
        # failures of other user-defined operations do not count
        pairs = [pair for pair in pairs if _is_computable(pair[0])]
        try:
            values = [value for pair in pairs for value in _values([*pair])]
        except ExplorerError as error:
            return (LawResult(_LAW, False, f"a replacement cannot be computed: {error}"),)
    compared = 0
    for (before, _), without, with_rule in zip(pairs, values[::2], values[1::2], strict=True):
        try:
            compared += _compared("with the rule", with_rule, without, before)
        except LawError as error:
            return (LawResult(_LAW, False, f"{program_text(before)} {error}"),)
    count = f"{len(pairs)} programs" if len(pairs) > 1 else "one program"
    text = f"{counted_text(compared, 'value')} of {count}, such as {program_text(pairs[0][0])}"
    return (LawResult(_LAW, True, text),)


def pass_results(planning_pass: Pass, programs: Sequence[Expr] = ()) -> tuple[LawResult, ...]:
    """Check whether a plan with this pass and those it requires preserves values; return the law's result."""
    needed = [step for step in map(pass_of, PIPELINE) if step.required and not isinstance(planning_pass, type(step))]
    pipeline = sorted([*needed, planning_pass], key=lambda step: KINDS.index(step.kind))
    selected, changed, compared = list(programs) or _programs_of_passes(), 0, 0
    for program in selected:
        plan = EvalPlan(passes=pipeline)
        handle = plan.register(program)
        try:
            plan.eval()
            changed += any(row.name == planning_pass.name and row.last > row.first for row in plan.recording.stages)
            (without,) = _values([program])
            compared += _compared("with the pass", np.asarray(handle.data()), without, program)
        except LawError as error:
            return (LawResult(_PASS_LAW, False, f"{program_text(program)} {error}"),)
        except Exception as error:  # user-defined passes may raise any exception
            return (LawResult(_PASS_LAW, False, f"at {program_text(program)}: {type(error).__name__}: {error}"),)
    if not changed and planning_pass.kind == "rewrite":
        fix = f"pass a program in which it should: ex.check({type(planning_pass).__name__}, y)"
        return (LawResult(_PASS_LAW, False, f"it decided nothing in {len(selected)} programs; {fix}"),)
    return (LawResult(_PASS_LAW, True, f"{counted_text(compared, 'value')} of {len(selected)} programs"),)


def _programs_of_passes() -> list[Expr]:
    """Return programs with constants, equal nodes, products, chains, reductions and shared values."""
    random = np.random.default_rng(3)
    x, w = (tensor(random.uniform(-1, 1, shape), name=name) for shape, name in (((4, 6), "x"), ((6, 6), "w")))
    exp, tanh = registry.functions.find("exp"), registry.functions.find("tanh")
    product = x @ w
    return [
        tanh(product + 1) * 2,
        2 * x + 2 * exp(x),
        (x + tanh(x)) * (tanh(x) + x),
        exp(product).sum(axis=1) - product.sum(axis=1),
        (x - 1) - (1 - x),
        tanh(x).T @ exp(x - 1) + (product @ w).sum(),
    ]


def _unmatched(rule: Rule, trials: _Trials, are_given: bool, deadline: float | None) -> LawResult:
    codes = ", ".join(sorted(trials.codes or ()))
    text = f"it matched in none of {trials.programs} programs" + (
        f", and declined in {trials.declined} ({codes})" if codes else ""
    )
    if deadline is not None:
        return LawResult(_LAW, None, text)
    fix = f"pass a program in which it should: ex.check({rule.name}, y)"
    return LawResult(_LAW, False, f"{text}; {'it should match in the given programs' if are_given else fix}")


def _replacements(rule: Rule, programs: Iterable[Expr], trials: _Trials) -> list[tuple[Expr, Expr]]:
    """Return (node, replacement) for all nodes at which the rule applies; raise LawError if it fails."""
    graph = PlanGraph(tuple(programs))
    pairs: list[tuple[Expr, Expr]] = []
    trials.programs = len(graph.recorded_roots)
    for node in graph.live:
        if not rule.applies_to(type(node.operation)):
            continue
        graph.current_node = node
        try:
            answer = rule.match(node, graph)
        except Exception as error:
            raise LawError(f"at {program_text(node)}: {type(error).__name__}: {error}") from error
        if isinstance(answer, Declined):
            trials.declined += 1
            assert trials.codes is not None
            trials.codes[answer.entry.code] = trials.codes.get(answer.entry.code, 0) + 1
        elif isinstance(answer, Applied):
            pairs.append((node, answer.new))
        elif answer is not None:
            raise LawError(f"at {program_text(node)}: answered {answer!r}, not Applied, Declined or None")
    return pairs


def _values(nodes: list[Expr]) -> list[Array]:
    """Return the values of expressions without any rule."""
    plan = EvalPlan(record="off", without=("simplify",))
    handles = [plan.register(node) for node in nodes]
    with np.errstate(all="ignore"):
        plan.eval()
    return [np.asarray(handle.data()) for handle in handles]


def _is_computable(node: Expr) -> bool:
    try:
        _values([node])
    except ExplorerError:
        return False
    return True


def _largest_finite(value: Array) -> float:
    numbers = np.abs(value[np.isfinite(value)]) if value.dtype.kind in "fc" else np.zeros(0)
    return float(numbers.max()) if numbers.size else 0.0


def _compared(name: str, changed: Array, without: Array, program: Expr) -> int:
    """Return the number of compared elements of two arrays; raise LawError if an element differs."""
    tolerance = _tolerance(without)
    return agree(
        changed,
        without,
        names=(name, "without"),
        at=partial(_where, program),
        rtol=tolerance,
        atol=tolerance * max(1.0, _largest_finite(without)),
    )


def _tolerance(value: Array) -> float:
    return _TOLERANCES.get(value.dtype.name, 0.0)


def _where(root: Expr, index: tuple[int, ...]) -> str:
    """Return the elements of a program's tensors at an index of its result."""
    leaves = [leaf for leaf in reachable([root]) if isinstance(leaf, Tensor) and leaf.shape == root.shape]
    return ", ".join([f"{leaf.label} = {number(leaf.array[index])}" for leaf in leaves])


def program_text(root: Expr) -> str:
    """Return an expression as a string, such as ``subtract(x, sigmoid(y))``; long expressions are shortened."""
    strings: dict[int, str] = {}
    for node in reachable([root]):
        if isinstance(node, Tensor):
            strings[node.uid] = node.label
        elif "value" in node.operation.attributes and not node.operands:
            strings[node.uid] = number(node.operation.attributes["value"])
        else:
            inside = ", ".join([strings[operand.uid] for operand in node.operands])
            strings[node.uid] = f"{node.operation.name}({inside if len(inside) < 120 else '…'})"
    return strings[root.uid]


# -- programs ----------------------------------------------------------------------------------------------------


def _generated(roots: tuple[type[Operation], ...], deadline: float | None) -> list[Expr]:
    """Return programs whose last operation is one of ``roots``, applied to tensors, constants and other operations."""
    programs: list[Expr] = []
    for program in _interleaved([_programs(root) for root in _classes(roots)]):
        programs.append(program)
        if len(programs) >= _MAX_PROGRAMS or (deadline is not None and time.perf_counter() > deadline):
            break
    return programs


def _classes(roots: tuple[type[Operation], ...]) -> list[type[Operation]]:
    """Return the registered operation classes to which rules with these roots apply."""
    return [each for each in registry.operations.values() if issubclass(each, roots) and each.examples]


def _interleaved(streams: list[Iterator[Expr]]) -> Iterator[Expr]:
    while streams:
        for stream in [*streams]:
            program = next(stream, None)
            if program is None:
                streams.remove(stream)
            else:
                yield program


def _programs(root: type[Operation]) -> Iterator[Expr]:
    """Yield valid programs whose last operation is of one class, starting with the simplest."""
    for example in root.examples:
        operation = root(**example.attributes)
        leaves = [_leaf(array, index) for index, array in enumerate(example.draw(1))]
        yield from _recorded(operation, leaves)
        if len(leaves) == 2 and leaves[0].type is leaves[1].type:
            yield from _recorded(operation, [leaves[0], leaves[0]])
        for inner in (_constants, _unary, _binary):
            for index, leaf in enumerate(leaves):
                for operand in inner(leaf):
                    yield from _recorded(operation, [*leaves[:index], operand, *leaves[index + 1 :]])
                    if inner is _unary and len(leaves) == 2:
                        # with a constant, the tensor itself, and the same operation on the other tensor
                        other = leaves[1 - index]
                        pairs = [(operand, constant) for constant in _constants(other)]
                        pairs += [(operand, leaf), (operand, operand)]
                        pairs += [(operand, same) for same in [_same_operation(operand, other)] if same is not None]
                        for pair in pairs:
                            yield from _recorded(operation, [*(pair if index == 0 else pair[::-1])])
    for example in root.examples[:1]:
        operation = root(**example.attributes)
        leaves = [_leaf(array, index) for index, array in enumerate(example.draw(1))]
        for index, leaf in enumerate(leaves):
            for inside in _unary(leaf):
                for operand in _unary(inside):
                    yield from _recorded(operation, [*leaves[:index], operand, *leaves[index + 1 :]])


def _leaf(array: Array, index: int) -> Tensor:
    return tensor(array, name="xyzuvw"[index] if index < 6 else f"x{index}")


def _recorded(operation: Operation, operands: Sequence[Expr]) -> Iterator[Expr]:
    """Yield the operation on the operands if it accepts them."""
    try:
        yield operation(*operands)
    except ExplorerError:
        return


def _constants(leaf: Expr) -> Iterator[Expr]:
    type_ = leaf.tensor_type
    if type_.dtype.kind != "f":
        return
    for value in _NUMBERS:
        for shape in dict.fromkeys([(), type_.shape]):
            yield Full(value=value, shape=shape, dtype=type_.dtype)()


def _same_operation(operand: Expr, other: Expr) -> Expr | None:
    return next(_recorded(operand.operation, [other]), None)


def _unary(leaf: Expr) -> Iterator[Expr]:
    """Yield unary operations on a value, starting with operations without attributes."""
    for operation in _operations(1):
        yield from _recorded(operation, [leaf])


def _binary(leaf: Expr) -> Iterator[Expr]:
    """Yield binary operations on a value and a tensor of its type, or a constant."""
    other = _second(leaf)
    constants = list(_constants(leaf))[::2]
    for operation in _operations(2):
        for operands in ([leaf, other], [other, leaf], [leaf, leaf], *[[leaf, constant] for constant in constants]):
            yield from _recorded(operation, operands)


def _second(leaf: Expr) -> Expr:
    type_ = leaf.tensor_type
    random = np.random.default_rng(5)
    return tensor(random.uniform(-1, 1, type_.shape).astype(type_.dtype), name="w")


def _operations(count: int) -> list[Operation]:
    """Return pure operations with ``count`` operands, with attributes of the first example, user-defined ones first."""
    return _operations_with_count(count, tuple(registry.operations.values()))


@lru_cache(maxsize=2)
def _operations_with_count(count: int, registered: tuple[type[Operation], ...]) -> list[Operation]:
    return [
        operation_class(**operation_class.examples[0].attributes)
        for operation_class in sorted(registered, key=_familiarity)
        if operation_class.pure and operation_class.examples and operation_class.count_operands() == count
    ]


def _familiarity(operation_class: type[Operation]) -> tuple[bool, bool, bool, str]:
    is_own = not operation_class.__module__.startswith("explorer.")
    return not is_own, bool(operation_class.attribute_names), not operation_class.elementwise, operation_class.name
