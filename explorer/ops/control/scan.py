"""Scan: a loop over the elements of sequences that updates a state and stacks outputs.

The body is one step. The gradient is a scan in the opposite direction that recomputes each step from the state before
it, so the forward scan stores only the states, not the intermediate values.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

from explorer.core.errors import DeclarationError, OperandError
from explorer.core.ir.expr import Expr, record
from explorer.core.ir.function import Call, Parameter, call_rules
from explorer.core.ir.recording_context import single_source_line
from explorer.core.memory_budget import claim_steps
from explorer.core.pytree import flatten, unflatten
from explorer.core.registry import public
from explorer.core.tracing.trace import argument_names, outputs_of
from explorer.core.types.tensor_type import AnyType, TensorType, TupleType
from explorer.ops.base import broadcast_to
from explorer.ops.control.bodies import (
    as_operand_tree,
    check_callable,
    check_same_containers,
    check_same_types,
    recorded_body,
)
from explorer.ops.creation.constants import zeros

__all__ = ["scan"]


class Scan(Call):
    """Loop of ``length`` steps: initial states, sequences and captured values → last states and stacked outputs."""

    length: int
    states: int
    """number of tensors in the state"""
    axes: tuple[int, ...]
    """step axis of each sequence"""
    out_axes: tuple[int, ...]
    """step axis of each stacked output"""
    reverse: bool
    name = "scan"
    inlinable: ClassVar[bool] = False

    @property
    def turns(self) -> int:  # type: ignore[override]  # a class attribute in the base class
        """Number of steps."""
        return self.length

    def infer(self, *types: AnyType) -> AnyType:
        outputs = [output.tensor_type for output in self.body.outputs]
        stacked = [
            _inserted(output, axis, self.length)
            for output, axis in zip(outputs[self.states :], self.out_axes, strict=True)
        ]
        parts = (*outputs[: self.states], *stacked)
        return parts[0] if len(parts) == 1 else TupleType(parts)

    def flops(self, result: AnyType, *types: AnyType) -> int:
        return self.length * self.body.flops

    def parts(self, operands: Sequence[Any]) -> tuple[list[Any], list[Any], list[Any]]:
        """Split ``operands``, or a list with one entry per operand, into states, sequences and captured values."""
        sequences = self.states + len(self.axes)
        return [*operands[: self.states]], [*operands[self.states : sequences]], [*operands[sequences:]]

    def wanted_gradients(
        self, upstream: Any, result: Expr, operands: tuple[Expr, ...], wanted: tuple[bool, ...]
    ) -> list[Expr | None]:
        """Return the operands' gradients, computed by a scan in the opposite direction."""
        states, sequences, captured = self.parts(operands)
        step = Call(self.body)
        seeds = [upstream] if isinstance(upstream, Expr) else list(upstream)
        # Only floating values have gradients. Integers in the state, such as counters, are only recomputed.
        is_differentiable = [_is_real(node) for node in self.body.outputs]
        carried = [index for index in range(self.states) if is_differentiable[index]]
        stacked = [
            index
            for index in range(self.states, len(is_differentiable))
            if is_differentiable[index] and seeds[index] is not None
        ]
        others = range(self.states, len(operands))
        requested_sequences = [p for p in others[: len(sequences)] if wanted[p] and _is_real(operands[p])]
        requested_captured = [p for p in others[len(sequences) :] if wanted[p] and _is_real(operands[p])]
        requested = tuple(
            [index in (*carried, *requested_sequences, *requested_captured) for index in range(len(operands))]
        )

        # Record another forward scan that also stacks the initial states of each step, because the recorded scan keeps
        # only the last states.
        def with_input_states(states: list[Expr], elements: list[Expr]) -> tuple[list[Expr], list[Expr]]:
            outputs = outputs_of(record(step, (*states, *elements, *captured)), len(is_differentiable))
            return outputs[: self.states], [*outputs[self.states :], *states]

        out_axes = (*self.out_axes, *[0] * self.states)
        kept = scan_operands(
            with_input_states, states, sequences, self.axes, out_axes, self.reverse, self.body.name, length=self.length
        )
        input_states = kept[len(is_differentiable) :]

        def gradient_step(gradients: list[Expr], elements: list[Expr]) -> tuple[list[Expr], list[Expr]]:
            own = [*elements[: len(operands) - len(captured)], *captured]
            forward = record(step, tuple(own))
            # The state's gradients come first, followed by the sums of the captured values' gradients.
            upstream = dict(zip(carried, gradients, strict=False))
            upstream.update(zip(stacked, elements[len(own) - len(captured) :], strict=True))
            step_seeds = [upstream.get(index) for index in range(len(is_differentiable))]
            parts = step.wanted_gradients(
                step_seeds[0] if len(is_differentiable) == 1 else step_seeds, forward, tuple(own), requested
            )
            totals = [_or_zeros(parts[index], own[index]) for index in carried]
            sums = [
                total if parts[index] is None else total + parts[index]
                for index, total in zip(requested_captured, gradients[len(carried) :], strict=True)
            ]
            return [*totals, *sums], [_or_zeros(parts[index], own[index]) for index in requested_sequences]

        first = [_or_zeros(seeds[index], states[index]) for index in carried]
        first += [_or_zeros(None, operands[index]) for index in requested_captured]
        seed_axes = [self.out_axes[index - self.states] for index in stacked]
        results = scan_operands(
            gradient_step,
            first,
            [*input_states, *sequences, *[seeds[index] for index in stacked]],
            (*[0] * self.states, *self.axes, *seed_axes),
            tuple([self.axes[index - self.states] for index in requested_sequences]),
            not self.reverse,
            f"{self.body.name} gradient",
            length=self.length,
        )
        indices = [*carried, *requested_captured, *requested_sequences]
        by_index = dict(zip(indices, results, strict=True))
        return [by_index.get(index) if wanted[index] else None for index in range(len(operands))]

    def batch(self, size: int, batched: tuple[bool, ...], *operands: Expr) -> Expr:
        states, sequences, captured = self.parts(operands)
        state_flags, sequence_flags, captured_flags = self.parts(batched)
        # even if all batch elements share an initial state, their states differ after the first step
        states = [
            node if is_batched else broadcast_to(node, (size, *node.shape))
            for node, is_batched in zip(states, state_flags, strict=True)
        ]
        flags = (*[True] * len(states), *sequence_flags, *captured_flags)
        step = Call(self.body)

        def members(states: list[Expr], elements: list[Expr]) -> tuple[list[Expr], list[Expr]]:
            whole = call_rules.batch(step, size, flags, (*states, *elements, *captured))
            outputs = outputs_of(whole, len(self.body.outputs))
            return outputs[: self.states], outputs[self.states :]

        axes = tuple([axis + is_batched for axis, is_batched in zip(self.axes, sequence_flags, strict=True)])
        out_axes = tuple([axis + 1 for axis in self.out_axes])
        return _record(members, states, sequences, axes, out_axes, self.reverse, self.body.name, self.length)


@public
def scan(
    step: Callable[..., Any],
    initial: Any,
    sequences: Any = None,
    *,
    length: int | None = None,
    reverse: bool = False,
    name: str = "scan",
) -> Any:
    """Record a loop over the first axis of ``sequences``: ``state, output = step(state, element)``.

    Return the last state and the outputs of all steps, stacked along a new first axis. A step without an output returns
    ``(state, None)``. States, elements and outputs are tensors or nested containers of tensors. ``step`` must preserve
    the state's shapes and dtypes. It may capture tensors, which become operands. If ``sequences`` is None, there are
    ``length`` steps, and ``element`` is None. If ``reverse`` is true, the loop begins with the last element, and each
    output is stacked at its element's index.

    >>> x = ex.tensor([1.0, 2.0, 3.0])
    >>> total, sums = ex.scan(lambda total, x: (total + x, total + x), ex.tensor(0.0), x)
    >>> ex.evaluate([total, sums, ex.grad(total * total, x)])
    [array(6.), array([1., 3., 6.]), array([12., 12., 12.])]
    """
    check_callable(step, "step", ["state", "element"])
    initial = as_operand_tree(initial, "the initial state")
    sequences = None if sequences is None else as_operand_tree(sequences, "the sequences")
    states, state_structure = flatten(initial)
    elements, element_structure = flatten(() if sequences is None else sequences)
    steps = _length(elements, length, name)
    claim_steps(f"the scan {name!r}", steps)
    output_structures: list[Any] = []

    def flat(states: list[Expr], elements: list[Expr]) -> tuple[list[Expr], list[Expr]]:
        element = None if sequences is None else unflatten(element_structure, elements)
        result = step(unflatten(state_structure, states), element)
        if not isinstance(result, tuple) or len(result) != 2:
            raise DeclarationError(
                f"{name}: a step returned a {type(result).__name__}",
                rule="a step must return a tuple of the next state and an output",
                fix="return state, output (or state, None)",
            )
        after, after_structure = flatten(as_operand_tree(result[0], "the next state"))
        check_same_containers(state_structure, after_structure, ("the state", "the next state"), name)
        outputs, output_structure = flatten(() if result[1] is None else as_operand_tree(result[1], "an output"))
        # a list, because tracing returns the outputs without their structure
        output_structures[:] = [result[1] is None, output_structure]
        return after, outputs

    with single_source_line():
        titles = argument_names(step, (initial, () if sequences is None else sequences), {})
        axes = (0,) * len(elements)
        results = scan_operands(flat, states, elements, axes, None, reverse, name, length=steps, titles=titles)
    has_no_output, output_structure = output_structures
    stacks = None if has_no_output else unflatten(output_structure, results[len(states) :])
    return unflatten(state_structure, results[: len(states)]), stacks


def scan_operands(
    step: Callable[[list[Expr], list[Expr]], tuple[list[Expr], list[Expr]]],
    states: Sequence[Expr],
    sequences: Sequence[Expr],
    axes: tuple[int, ...],
    out_axes: tuple[int, ...] | None,
    reverse: bool,
    name: str,
    *,
    length: int | None = None,
    titles: Sequence[str] | None = None,
) -> list[Expr]:
    """Record a scan over lists of states and sequences; return a list of the last states and the stacked outputs.

    ``axes`` and ``out_axes`` are the step axes of the sequences and of the outputs, by default 0. ``titles`` name the
    states and elements in the body.
    """
    steps = sequences[0].shape[axes[0]] if length is None else length
    result = _record(step, states, sequences, axes, out_axes, reverse, name, steps, titles)
    operation = result.operation
    assert isinstance(operation, Scan)
    return outputs_of(result, len(operation.body.outputs))


def _record(
    step: Callable[[list[Expr], list[Expr]], tuple[list[Expr], list[Expr]]],
    states: Sequence[Expr],
    sequences: Sequence[Expr],
    axes: tuple[int, ...],
    out_axes: tuple[int, ...] | None,
    reverse: bool,
    name: str,
    length: int,
    titles: Sequence[str] | None = None,
) -> Expr:
    elements = [
        Parameter(element_type(node.tensor_type, axis), "element")() for node, axis in zip(sequences, axes, strict=True)
    ]

    def one_step(state: list[Expr], element: list[Expr]) -> list[Expr]:
        after, outputs = step([*state], [*element])
        check_same_types(states, after, ("the state before a step", "the state after it"), name)
        return [*after, *outputs]

    body, captured = recorded_body(one_step, name, [*states], elements, titles=titles)
    stacked = len(body.outputs) - len(states)
    operation = Scan(body, length, len(states), axes, (0,) * stacked if out_axes is None else out_axes, reverse)
    return record(operation, (*states, *sequences, *captured))


def _length(elements: Sequence[Expr], length: int | None, name: str) -> int:
    if length is not None:
        try:
            length = operator.index(length)
        except TypeError:
            length = -1
        if length < 0:
            raise OperandError(
                f"{name}: length={length}",
                rule="length must be an integer of 0 or more",
                fix="omit length, which is then the length of the sequences' first axis",
            )
    lengths = {node.shape[0] if node.ndim else -1 for node in elements} | ({length} if length is not None else set())
    if len(lengths) != 1 or -1 in lengths:
        shapes = ", ".join([repr(tuple(node.shape)) for node in elements]) or "none"
        raise OperandError(
            f"{name}: sequences of shapes {shapes}" + (f" and length={length}" if length is not None else ""),
            rule="sequences must have equal lengths along their first axis, or length must be set",
            fix=f"truncate them to equal lengths: sequence[:{min(lengths)}]"
            if len(lengths) > 1 and -1 not in lengths
            else "ex.scan(step, initial, length=10)",
        )
    return lengths.pop()


def element_type(type_: TensorType, axis: int) -> TensorType:
    """Return the type of one element of a sequence, which is ``type_`` without ``axis``."""
    return type_.with_shape((*type_.shape[:axis], *type_.shape[axis + 1 :]))


def _inserted(type_: TensorType, axis: int, size: int) -> TensorType:
    return type_.with_shape((*type_.shape[:axis], size, *type_.shape[axis:]))


def _is_real(node: Expr) -> bool:
    return isinstance(node.type, TensorType) and node.type.dtype.kind == "f"


def _or_zeros(gradient: Expr | None, operand: Expr) -> Expr:
    return zeros(operand.shape, operand.dtype, operand.device) if gradient is None else gradient
