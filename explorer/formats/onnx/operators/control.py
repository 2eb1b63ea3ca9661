"""If, Loop and Scan: inner graphs as branches, turns and steps.

Where the course is known when the net is built, from constants and shapes, nothing is left to the run: an If is the
branch that it takes, in a box that says so; a Loop of a known number of turns is a scan, or is unrolled where values
change their shapes from turn to turn.
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
"""nodes that a turn records at least, for the limit of a plan"""


@operator("If")
def if_(
    op: OperatorContext,
    condition: Annotated[Expr, Names("cond")],
    *,
    then_branch: BuildBody,
    else_branch: BuildBody,
    outputs: Outputs,
) -> Any:
    """A choice between two graphs, which read outer values only."""
    condition = _scalar("cond", condition, "b")
    branches = {"then_branch": then_branch, "else_branch": else_branch}
    for name in branches:
        body = op.definition.bodies[name]
        if len(body.outputs) < outputs:
            raise OperandError(
                f"{name} has {counted_text(len(body.outputs), 'output')}, {op.definition.name} has {outputs}",
                rule="each branch of If must have an output for each of the operator's",
            )

    def results(body: BuildBody) -> tuple[Any, ...]:
        return tuple(body(()))[:outputs]  # those behind the last that is used have no name

    def taken(value: bool, word: str) -> tuple[Any, ...]:
        name = "then_branch" if value else "else_branch"
        with scope(f"{name}: cond is {word}{value}", "file"):
            return results(branches[name])

    if is_known(condition):
        return taken(bool(value_of(condition)), "always ")
    try:
        both = (lambda: results(then_branch)), (lambda: results(else_branch))
        return tuple(cond(condition, *both, name=op.definition.name))
    except ExplorerError:
        if _has_unknown(op) or not (_fits(then_branch) or _fits(else_branch)):
            raise
        # The branches give other shapes, or one of them does not fit the inputs: the one that is taken decides.
        try:
            value = bool(op.value("cond", condition))
        except UnknownShapeError as error:
            error.body = recorded_branches(op, condition)
            raise
    return taken(value, "")


def _fits(branch: BuildBody) -> bool:
    """Whether a branch can be recorded, as far as it is known without values."""
    try:
        branch(())
    except UnknownShapeError:
        return True
    except ExplorerError:
        return False
    return True


def _has_unknown(op: OperatorContext) -> bool:
    """Whether an operator's inner graphs have operators of unknown types, at any depth."""
    waiting = [*op.definition.bodies.values()]
    while waiting:
        operators = waiting.pop().operators
        if any(operator.type not in TABLE for operator in operators):
            return True
        waiting += [body for operator in operators for body in operator.bodies.values()]
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
    """Turns over a graph of the turn's number, the condition and the state; outputs are last state and stacks."""
    state = _members(op, "v_initial")
    stacked = len(op.definition.bodies["body"].outputs) - 1 - len(state)
    condition = tensor(np.array(True)) if condition is None else _scalar("cond", condition, "b")
    limit = None if M is None else _scalar("M", M, "iu")
    if stacked < 0 or outputs > len(state) + stacked:
        raise OperandError(
            f"{counted_text(len(state), 'value')} of state, {stacked + len(state) + 1} outputs of the body",
            rule="Loop: the body must return the condition, each value of the state, and what is stacked",
        )
    whole = _Loop(op, body, state, limit, condition, stacked, _probe(body, state))
    try:
        return tuple(_turns(whole)[:outputs])
    except UnknownShapeError as error:
        if whole.probe is not None:
            error.body = recorded_turn(op, body, state, limit, condition)
        raise


class _Loop(NamedTuple):
    """Body of a loop with its first state, the limits of its turns, and the number of outputs that are stacked."""

    op: OperatorContext
    body: BuildBody
    state: list[Any]
    limit: Expr | None
    condition: Expr
    stacked: int
    probe: Sequence[Any] | None
    """what one turn records, where that could be found out"""


def _turns(whole: _Loop) -> list[Any]:
    """Return the results of a loop; raises UnknownShapeError where they depend on the values of inputs without one."""
    op, body, state, limit, condition, stacked, probe = whole
    if probe is None or not all(isinstance(value, Expr) for value in state):
        return _one_by_one(whole)
    if limit is not None and is_known(limit) and is_known(condition):
        turns = int(value_of(limit)) if bool(value_of(condition)) else 0
        again = probe[0]
        # Where the body may end the loop earlier, how many turns there are is known after them only.
        if is_known(again) and (value_of(again).all() or turns <= 1):
            return _repeated(whole, turns, probe)
    if any(before.shape != after.shape for before, after in zip(state, probe[1:], strict=False)):
        return _one_by_one(whole)

    def goes_on(values: tuple[Expr, ...]) -> Expr:
        number, again, *_ = values
        return again if limit is None else function("logical_and")(again, number < limit)

    def turn(values: tuple[Expr, ...]) -> tuple[Expr, ...]:
        number, *rest = values
        again, *after = body([number, *rest])
        return (number + 1, reshape(again, ()), *after[: len(state)])

    start = tensor(np.array(0, np.int64)), condition, *state
    final = [*while_loop(goes_on, turn, start, name=op.definition.name)]
    if not stacked:
        return final[2:]
    # A stack has as many elements as there were turns: the loop runs without its stacks to count them.
    turns = int(op.value("the number of turns", final[0]))
    return _repeated(whole, turns, probe)


def _probe(body: BuildBody, state: list[Any]) -> list[Any] | None:
    """Return what a turn records; None where a shape or a position in a sequence follows from the turn's number."""
    try:
        return body([Parameter(tensor(np.array(0)).type, "number")(), tensor(np.array(True)), *state])
    except ExplorerError as error:
        if isinstance(error.__cause__, UnknownShapeError):
            return None
        raise


def _repeated(whole: _Loop, turns: int, probe: Sequence[Expr]) -> list[Expr]:
    """Return the results of so many turns, whatever condition the body gives; ``probe`` is what one turn records."""
    body, state = whole.body, whole.state
    # The number of turns is known, so that no turn asks its condition.
    always = tensor(np.array(True))
    if [value.type for value in probe[1 : 1 + len(state)]] != [value.type for value in state]:
        return _unrolled(whole, turns)

    def step(state: list[Expr], elements: list[Expr]) -> tuple[list[Expr], list[Expr]]:
        results = body([elements[0], always, *state])[1:]
        return results[: len(state)], results[len(state) :]

    numbers = tensor(np.arange(turns))
    return scan_operands(step, state, [numbers], (0,), None, False, whole.op.definition.name)


def _one_by_one(whole: _Loop) -> list[Any]:
    """Return the results of turns whose number, and whether each is taken, are computed while they are recorded."""
    op, limit = whole.op, whole.limit

    def value(name: str, node: Expr) -> Any:
        return (value_of(node) if is_known(node) else op.value(name, node)).item()

    def goes_on(again: Expr) -> bool:
        return bool(value("the condition", _scalar("cond", again, "b")))

    turns = None if limit is None else max(0, value("the number of turns", limit))
    return _unrolled(whole, turns if goes_on(whole.condition) else 0, goes_on)


def _unrolled(whole: _Loop, turns: int | None, goes_on: Callable[[Expr], bool] | None = None) -> list[Any]:
    """Return the results of turns that are recorded one after the other, since a value changes its shape.

    Stacks of no turns have the types of the probe. ``goes_on`` tells whether a turn's condition asks for another one;
    without a number of ``turns`` it decides alone.
    """
    body, state, stacked, probe = whole.body, whole.state, whole.stacked, whole.probe
    outputs: list[list[Expr]] = [[] for _ in range(stacked)]
    number = 0
    claim_steps("a loop whose values change their shapes", _NODES * (turns or 1))
    while turns is None or number < turns:
        with scope(f"turn {number}", "file"):
            again, *results = body([tensor(np.array(number)), tensor(np.array(True)), *state])
        state = results[: len(state)]
        for values, output in zip(outputs, results[len(state) :], strict=True):
            values.append(output)
        number += 1
        if goes_on is not None and number != turns and not goes_on(again):
            break
        claim_steps("a loop whose values change their shapes", _NODES * number)
    if stacked and not number:
        if probe is None:
            raise OperandError(
                "a loop of no turns with stacked outputs", rule="Loop: there must be a turn that gives their shapes"
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
    """Steps of a graph over the elements of sequences; outputs are the last state and stacks."""
    operands = _members(op, "initial_state_and_scan_inputs")
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
        for axis, x in zip(_listed("scan_input_axes", scan_input_axes, count), sequences, strict=True)
    ]
    # a sequence that is read backwards is reversed, unless all of them are, and all outputs too
    directions = (
        _listed("scan_input_directions", scan_input_directions, count),
        _listed("scan_output_directions", scan_output_directions, stacked),
    )
    reverse = all(direction == 1 for group in directions for direction in group)
    turned = [direction == 1 and not reverse for direction in directions[0]]
    flip = function("flip")
    sequences = [flip(x, axis) if is_turned else x for x, axis, is_turned in zip(sequences, axes, turned, strict=True)]
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
    places = zip(_listed("scan_output_axes", scan_output_axes, stacked), directions[1], strict=True)
    for place, (axis, direction) in enumerate(places, len(states)):
        whole = flip(results[place], 0) if direction == 1 and not reverse else results[place]
        target = normalize_axis(axis, whole.ndim, "Scan")
        results[place] = function("moveaxis")(whole, 0, target) if target else whole
    return tuple(results[:outputs])


def _listed(name: str, values: Ints | None, count: int) -> Ints:
    """Return an attribute that has an integer for each sequence; 0 for all where it is left out."""
    values = (0,) * count if values is None else values
    if len(values) != count:
        raise OperandError(f"{name}={values}", rule=f"Scan: {name} must have {count} numbers, one for each")
    return values


def _members(op: OperatorContext, name: str) -> list[Any]:
    values: list[Any] = []
    while is_given(op, member := f"{name}.{len(values)}"):
        value = op.argument(member, None)
        values.append(value if isinstance(value, tuple) or (value is None and op.has(member)) else required(op, member))
    return values


def _scalar(name: str, value: Expr, kinds: str) -> Expr:
    """Return a value of one element as a scalar; raises OperandError for another size or kind of number."""
    if value.size != 1 or value.dtype.kind not in kinds:
        wanted = "boolean" if kinds == "b" else "integer"
        raise OperandError(f"{name} is {value.type}", rule=f"{name} must be one {wanted}")
    scalar = reshape(value, ())
    return tensor(value_of(value).reshape(())) if is_known(value) else scalar


def recorded_branches(op: OperatorContext, condition: Expr) -> tuple[Body, tuple[Expr, ...]] | None:
    """Return the branches that can be recorded as one body, and the operands of its call; None if none can."""
    branches: dict[str, BuildBody] = {}
    for name in op.definition.bodies:
        with suppress(ExplorerError):
            if leaves(op.body(name)(())):
                branches[name] = op.body(name)

    def both(condition: Expr) -> list[Expr]:
        results: list[Any] = []
        for name, branch in branches.items():
            with scope(name, "file"):
                results += branch(())
        return leaves(results)

    if not branches:
        return None
    recorded, captured = recorded_body(both, op.definition.name, condition)
    return recorded, (condition, *captured)


def recorded_turn(
    op: OperatorContext, body: BuildBody, state: list[Any], limit: Expr | None, condition: Expr
) -> tuple[Body, tuple[Expr, ...]]:
    """Return the first turn as a body, and the operands of its call."""
    # numbers of the loop's own, which are no weights of the file
    first = full((), bool(value_of(condition)), "bool") if is_known(condition) else condition
    start = full((), 0, "int64"), first, *state, *([] if limit is None else [limit])

    def turn(number: Expr, again: Expr, *rest: Any) -> list[Expr]:
        goes_on, *results = body([number, again, *rest[: len(state)]])
        if limit is not None:
            goes_on = function("logical_and")(goes_on, number + 1 < rest[-1])
        return leaves([goes_on, *results])

    recorded, captured = recorded_body(turn, op.definition.name, *start)
    return recorded, (*leaves(start), *captured)
