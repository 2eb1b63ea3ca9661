"""If, Loop and Scan.

Control flow that depends only on constants and shapes is resolved while the net is built. An If is replaced by its
selected branch, in a box whose name states the value of the condition. A Loop with a known number of iterations becomes
a scan, or is unrolled if values change shape between iterations.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Annotated, Any, NamedTuple

import numpy as np

from explorer.core.errors import ExplorerError, OperandError
from explorer.core.ir.expr import Expr
from explorer.core.ir.function import Body, Parameter
from explorer.core.ir.recording_context import scope
from explorer.core.ir.tensor import tensor
from explorer.core.memory_budget import claim_steps
from explorer.core.registry import function
from explorer.core.types.tensor_type import normalize_axis
from explorer.formats.onnx.operators.base.table import TABLE, operator
from explorer.net.building.containers import leaves
from explorer.net.operators.context import BuildBody, OperatorContext, UnknownShapeError
from explorer.net.operators.known_inputs import is_given, is_known, required, value_of
from explorer.net.operators.signature import Ints, Names, Outputs
from explorer.ops.base import reshape
from explorer.ops.control.bodies import recorded_body
from explorer.ops.control.cond import cond
from explorer.ops.control.scan import scan_operands
from explorer.ops.control.while_loop import while_loop
from explorer.ops.creation.constants import full, zeros
from explorer.ops.manipulation.concat import stack
from explorer.record.reasons import counted_text

_NODES = 4
"""minimum number of nodes per iteration, used to check a loop against the maximum size of a plan"""


@operator("If")
def if_(
    op: OperatorContext,
    condition: Annotated[Expr, Names("cond")],
    *,
    then_branch: BuildBody,
    else_branch: BuildBody,
    outputs: Outputs,
) -> Any:
    """Record a choice between two graphs, which have no inputs but may read outer values."""
    condition = _scalar("cond", condition, "b")
    branches = {"then_branch": then_branch, "else_branch": else_branch}
    for name in branches:
        body = op.definition.bodies[name]
        if len(body.outputs) < outputs:
            raise OperandError(
                f"{name} has {counted_text(len(body.outputs), 'output')}, {op.definition.name} has {outputs}",
                rule="each branch of If must have an output for each output of the operator",
            )

    def results(body: BuildBody) -> tuple[Any, ...]:
        return tuple(body(()))[:outputs]  # trailing unused outputs have no name

    def selected_branch(value: bool, certainty: str) -> tuple[Any, ...]:
        name = "then_branch" if value else "else_branch"
        with scope(f"{name}: cond is {certainty}{value}", "file"):
            return results(branches[name])

    if is_known(condition):
        return selected_branch(bool(value_of(condition)), "always ")
    try:
        bodies = (lambda: results(then_branch)), (lambda: results(else_branch))
        return tuple(cond(condition, *bodies, name=op.definition.name))
    except ExplorerError:
        if _has_unknown(op) or not (_can_be_recorded(then_branch) or _can_be_recorded(else_branch)):
            raise
        # The branches return different shapes, or a branch cannot be built, so only the selected branch is recorded.
        try:
            value = bool(op.value("cond", condition))
        except UnknownShapeError as error:
            error.body = recorded_branches(op, condition)
            raise
    return selected_branch(value, "")


def _can_be_recorded(branch: BuildBody) -> bool:
    """Return whether a branch can be recorded, or fails only because values are unknown."""
    try:
        branch(())
    except UnknownShapeError:
        return True
    except ExplorerError:
        return False
    return True


def _has_unknown(op: OperatorContext) -> bool:
    pending = [*op.definition.bodies.values()]
    while pending:
        operators = pending.pop().operators
        if any(operator.type not in TABLE for operator in operators):
            return True
        pending += [body for operator in operators for body in operator.bodies.values()]
    return False


@operator("Loop")
def loop(
    op: OperatorContext,
    M: Expr | None = None,
    condition: Annotated[Expr | None, Names("cond")] = None,
    *,
    body: BuildBody,
    outputs: Outputs,
) -> Any:
    """Record a loop; return the final state, and the stacked values of each further output of ``body``.

    ``body`` is called with the iteration number, the condition and the state. ``M`` is the maximum number of
    iterations.
    """
    state = _list_input(op, "v_initial")
    stacked = len(op.definition.bodies["body"].outputs) - 1 - len(state)
    condition = tensor(np.array(True)) if condition is None else _scalar("cond", condition, "b")
    limit = None if M is None else _scalar("M", M, "iu")
    if stacked < 0 or outputs > len(state) + stacked:
        raise OperandError(
            f"{counted_text(len(state), 'value')} of state, {stacked + len(state) + 1} outputs of the body",
            rule="Loop: the body must return the condition, each value of the state, and the outputs to stack",
        )
    built_loop = _Loop(op, body, state, limit, condition, stacked, _probe(body, state))
    try:
        return tuple(_loop_results(built_loop)[:outputs])
    except UnknownShapeError as error:
        if built_loop.probe is not None:
            error.body = recorded_iteration(op, body, state, limit, condition)
        raise


class _Loop(NamedTuple):
    """A loop's body, initial state, iteration limits, and number of stacked outputs."""

    op: OperatorContext
    body: BuildBody
    state: list[Any]
    limit: Expr | None
    condition: Expr
    stacked: int
    probe: Sequence[Any] | None
    """the values that one iteration records; None if unknown"""


def _loop_results(loop: _Loop) -> list[Any]:
    op, body, state, limit, condition, stacked, probe = loop
    if probe is None or not all(isinstance(value, Expr) for value in state):
        return _one_by_one(loop)
    if limit is not None and is_known(limit) and is_known(condition):
        iterations = int(value_of(limit)) if bool(value_of(condition)) else 0
        next_condition = probe[0]
        # If the body may end the loop early, it must run before the number of iterations is known.
        if is_known(next_condition) and (value_of(next_condition).all() or iterations <= 1):
            return _repeated(loop, iterations, probe)
    if any(before.shape != after.shape for before, after in zip(state, probe[1:], strict=False)):
        return _one_by_one(loop)

    def goes_on(values: tuple[Expr, ...]) -> Expr:
        number, again, *_ = values
        return again if limit is None else function("logical_and")(again, number < limit)

    def iteration(values: tuple[Expr, ...]) -> tuple[Expr, ...]:
        number, *rest = values
        again, *after = body([number, *rest])
        return (number + 1, reshape(again, ()), *after[: len(state)])

    start = tensor(np.array(0, np.int64)), condition, *state
    final = [*while_loop(goes_on, iteration, start, name=op.definition.name)]
    if not stacked:
        return final[2:]
    # Stacks have one element per iteration, so the loop first runs without stacks to count the iterations.
    iterations = int(op.value("the number of iterations", final[0]))
    return _repeated(loop, iterations, probe)


def _probe(body: BuildBody, state: list[Any]) -> list[Any] | None:
    """Return the values that one iteration records; None if a shape or sequence index depends on the iteration."""
    try:
        return body([Parameter(tensor(np.array(0)).type, "number")(), tensor(np.array(True)), *state])
    except ExplorerError as error:
        if isinstance(error.__cause__, UnknownShapeError):
            return None
        raise


def _repeated(loop: _Loop, iterations: int, probe: Sequence[Expr]) -> list[Expr]:
    """Return the results of a known number of iterations; ``probe`` contains the values of one iteration."""
    body, state = loop.body, loop.state
    always = tensor(np.array(True))
    if [value.type for value in probe[1 : 1 + len(state)]] != [value.type for value in state]:
        return _unrolled(loop, iterations)

    def step(state: list[Expr], elements: list[Expr]) -> tuple[list[Expr], list[Expr]]:
        results = body([elements[0], always, *state])[1:]
        return results[: len(state)], results[len(state) :]

    numbers = tensor(np.arange(iterations))
    return scan_operands(step, state, [numbers], (0,), None, False, loop.op.definition.name)


def _one_by_one(loop: _Loop) -> list[Any]:
    """Return the results of a loop whose condition is evaluated after each recorded iteration."""
    op, limit = loop.op, loop.limit

    def value(name: str, node: Expr) -> Any:
        return (value_of(node) if is_known(node) else op.value(name, node)).item()

    def goes_on(condition: Expr) -> bool:
        return bool(value("the condition", _scalar("cond", condition, "b")))

    iterations = None if limit is None else max(0, value("the number of iterations", limit))
    return _unrolled(loop, iterations if goes_on(loop.condition) else 0, goes_on)


def _unrolled(loop: _Loop, iterations: int | None, goes_on: Callable[[Expr], bool] | None = None) -> list[Any]:
    """Return the results of a loop, recorded iteration by iteration because a value changes shape.

    ``goes_on`` returns whether a condition requests another iteration. If ``iterations`` is None, the loop ends only
    when ``goes_on`` returns False. If no iteration runs, the probe determines the types of the stacks.
    """
    body, state, stacked, probe = loop.body, loop.state, loop.stacked, loop.probe
    outputs: list[list[Expr]] = [[] for _ in range(stacked)]
    number = 0
    claim_steps("a loop whose values change shape", _NODES * (iterations or 1))
    while iterations is None or number < iterations:
        with scope(f"iteration {number}", "file"):
            condition, *results = body([tensor(np.array(number)), tensor(np.array(True)), *state])
        state = results[: len(state)]
        for values, output in zip(outputs, results[len(state) :], strict=True):
            values.append(output)
        number += 1
        if goes_on is not None and number != iterations and not goes_on(condition):
            break
        claim_steps("a loop whose values change shape", _NODES * number)
    if stacked and not number:
        if probe is None:
            raise OperandError(
                "a loop without iterations has stacked outputs",
                rule="Loop: an iteration must run to determine their shapes",
            )
        return [*state, *[zeros((0, *value.shape), value.dtype) for value in probe[1 + len(state) :]]]
    return [*state, *[stack(values) for values in outputs]]


@operator("Scan")
def scan(
    op: OperatorContext,
    *,
    body: BuildBody,
    num_scan_inputs: int,
    scan_input_axes: Ints | None = None,
    scan_input_directions: Ints | None = None,
    scan_output_axes: Ints | None = None,
    scan_output_directions: Ints | None = None,
    outputs: Outputs,
) -> Any:
    """Record a scan of ``body`` over sequences; return the final state and the stacked outputs."""
    operands = _list_input(op, "initial_state_and_scan_inputs")
    count, graph = num_scan_inputs, op.definition.bodies["body"]
    if not 0 < count <= len(operands):
        raise OperandError(
            f"num_scan_inputs={count} of {len(operands)} inputs",
            rule="Scan: the number of sequences must be 1 or more, and at most the number of inputs",
        )
    if not all(isinstance(value, Expr) for value in operands):
        raise OperandError("a sequence or an optional", rule="Scan: states and sequences must be tensors")
    states, sequences = operands[:-count], operands[-count:]
    stacked = len(graph.outputs) - len(states)
    axes = [
        normalize_axis(axis, x.ndim, "Scan")
        for axis, x in zip(_integers("scan_input_axes", scan_input_axes, count), sequences, strict=True)
    ]
    # backward sequences are flipped, unless all sequences and outputs are backward
    directions = (
        _integers("scan_input_directions", scan_input_directions, count),
        _integers("scan_output_directions", scan_output_directions, stacked),
    )
    reverse = all(direction == 1 for group in directions for direction in group)
    flipped = [direction == 1 and not reverse for direction in directions[0]]
    flip = function("flip")
    sequences = [
        flip(x, axis) if is_flipped else x for x, axis, is_flipped in zip(sequences, axes, flipped, strict=True)
    ]
    lengths = {x.shape[axis] for x, axis in zip(sequences, axes, strict=True)}
    if len(lengths) != 1:
        raise OperandError(
            f"sequences of {', '.join(map(str, sorted(lengths)))} steps",
            rule="Scan: all sequences must have the same number of steps",
        )

    def step(state: list[Expr], elements: list[Expr]) -> tuple[list[Expr], list[Expr]]:
        results = body([*state, *elements])
        return results[: len(state)], results[len(state) :]

    results = scan_operands(step, states, sequences, tuple(axes), None, reverse, op.definition.name)
    axes_and_directions = zip(_integers("scan_output_axes", scan_output_axes, stacked), directions[1], strict=True)
    for index, (axis, direction) in enumerate(axes_and_directions, len(states)):
        output = flip(results[index], 0) if direction == 1 and not reverse else results[index]
        target = normalize_axis(axis, output.ndim, "Scan")
        results[index] = function("moveaxis")(output, 0, target) if target else output
    return tuple(results[:outputs])


def _integers(name: str, values: Ints | None, count: int) -> Ints:
    values = (0,) * count if values is None else values
    if len(values) != count:
        raise OperandError(f"{name}={values}", rule=f"Scan: {name} must have {count} numbers")
    return values


def _list_input(op: OperatorContext, name: str) -> list[Any]:
    values: list[Any] = []
    while is_given(op, item_name := f"{name}.{len(values)}"):
        value = op.argument(item_name, None)
        values.append(
            value if isinstance(value, tuple) or (value is None and op.has(item_name)) else required(op, item_name)
        )
    return values


def _scalar(name: str, value: Expr, kinds: str) -> Expr:
    """Return a one-element value as a scalar; raise OperandError if its dtype kind is not in ``kinds``."""
    if value.size != 1 or value.dtype.kind not in kinds:
        wanted = "boolean" if kinds == "b" else "integer"
        raise OperandError(f"{name} is {value.type}", rule=f"{name} must be one {wanted}")
    scalar = reshape(value, ())
    return tensor(value_of(value).reshape(())) if is_known(value) else scalar


def recorded_branches(op: OperatorContext, condition: Expr) -> tuple[Body, tuple[Expr, ...]] | None:
    """Return one body with all branches that can be recorded, and its operands; None if there are no such branches."""
    branches: dict[str, BuildBody] = {}
    for name in op.definition.bodies:
        with suppress(ExplorerError):
            if leaves(op.body(name)(())):
                branches[name] = op.body(name)

    def all_results(condition: Expr) -> list[Expr]:
        results: list[Any] = []
        for name, branch in branches.items():
            with scope(name, "file"):
                results += branch(())
        return leaves(results)

    if not branches:
        return None
    recorded, captured = recorded_body(all_results, op.definition.name, condition)
    return recorded, (condition, *captured)


def recorded_iteration(
    op: OperatorContext, body: BuildBody, state: list[Any], limit: Expr | None, condition: Expr
) -> tuple[Body, tuple[Expr, ...]]:
    """Return the first iteration of a loop as a body, and the operands of the body."""
    # recorded as constants, since they are not weights of the file
    first = full((), bool(value_of(condition)), "bool") if is_known(condition) else condition
    start = full((), 0, "int64"), first, *state, *([] if limit is None else [limit])

    def iteration(number: Expr, again: Expr, *rest: Any) -> list[Expr]:
        goes_on, *results = body([number, again, *rest[: len(state)]])
        if limit is not None:
            goes_on = function("logical_and")(goes_on, number + 1 < rest[-1])
        return leaves([goes_on, *results])

    recorded, captured = recorded_body(iteration, op.definition.name, *start)
    return recorded, (*leaves(start), *captured)
