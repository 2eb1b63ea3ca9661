"""DynamicQuantizeLSTM: a long short-term memory with quantised weights and dynamically quantised operands.

The input is quantised once for all steps; the state is quantised again before each step. The scale covers the elements
of the whole batch, as in single-threaded ONNX Runtime; with several threads, ONNX Runtime may quantise slices of a
batch separately. In the reverse direction, each sequence starts at its own end, so that all sequences of a batch start
at the same step.
"""

from __future__ import annotations

import numpy as np

from explorer.core.errors import OperandError
from explorer.core.ir.expr import Expr
from explorer.core.ir.tensor import tensor
from explorer.formats.common.onnx_names import omitted_output_name
from explorer.formats.common.operator_checks import with_rank
from explorer.formats.onnx.operators.base.table import operator
from explorer.formats.onnx.operators.rnn import (
    Direction,
    DirectionName,
    Operands,
    Reals,
    Strings,
    cells_of,
    check_shapes,
    each_direction,
    lengths_of,
)
from explorer.net.operators.context import OperatorContext
from explorer.net.operators.known_inputs import optional, required
from explorer.net.operators.signature import Outputs
from explorer.ops.base import reshape
from explorer.ops.control.scan import scan_operands
from explorer.ops.elementwise.arithmetic import where
from explorer.ops.manipulation.concat import concatenate
from explorer.ops.manipulation.gather import take_along_axis
from explorer.ops.reduction.reduce import max as greatest

_ORDER = (0, 2, 3, 1)
"""indices of torch's gates (input, forget, cell, output) in ONNX Runtime's order (input, output, forget, cell)"""
_W, _R = ("W", 1, 8, 9), ("R", 2, 10, 11)
"""name of the weights, and input indices of the weights, their scale and their zero point"""


@operator("com.microsoft.DynamicQuantizeLSTM")
def dynamically_quantized_lstm(
    op: OperatorContext,
    *,
    activation_alpha: Reals = (),
    activation_beta: Reals = (),
    activations: Strings | None = None,
    clip: float | None = None,
    direction: DirectionName = "forward",
    hidden_size: int | None = None,
    input_forget: int = 0,
    outputs: Outputs,
) -> tuple[Expr, ...]:
    """Record a long short-term memory with quantised weights; return the sequence and the last states."""
    # imported on call, because only files that need com.microsoft import its package
    from explorer.formats.onnx.operators.microsoft.quantized_arithmetic import dynamic_product

    x = with_rank("X", required(op, "input 0"), "steps", "N", "features")
    recurrence_weights = with_rank("R", required(op, "input 2"), "directions", "hidden", "4 · hidden")
    bias, lens, initial_h, initial_c, peepholes = [optional(op, f"input {position}") for position in range(3, 8)]
    coupled = bool(input_forget)
    cells = cells_of("LSTM", direction, activations, activation_alpha, activation_beta, clip, coupled=coupled)
    hidden, count = recurrence_weights.shape[1] if hidden_size is None else hidden_size, len(cells)
    states = (count, x.shape[1], hidden)
    check_shapes(
        {
            "W": (required(op, "input 1"), (count, x.shape[2], 4 * hidden)),
            "R": (recurrence_weights, (count, hidden, 4 * hidden)),
            "B": (bias, (count, 8 * hidden)),
            "initial_h": (initial_h, states),
            "initial_c": (initial_c, states),
            "P": (peepholes, (count, 3 * hidden)),
        }
    )
    weights, state_weights = (_quantized(op, *parts, count, hidden) for parts in (_W, _R))
    returns_sequence = op.definition.outputs[0] != omitted_output_name(op.definition.name, "output 0")
    lengths = lengths_of(lens, x)
    numbers = tensor(np.arange(x.shape[0], dtype=np.int32), name="number")
    # steps beyond the longest sequence are not computed, so they do not affect the scale
    extent = x if lengths is None else where(reshape(numbers < greatest(lengths), (-1, 1, 1)), x, 0)

    def steps(direction: Direction) -> tuple[Expr, tuple[Expr, ...]]:
        number, cell, peephole, start = direction
        gate_inputs = dynamic_product(x, *_of_direction(weights, number, hidden), extent)
        if bias is not None:
            both = bias[number, : 4 * hidden] + bias[number, 4 * hidden :]
            gate_inputs = gate_inputs + _ordered(both, hidden)
        recurrent = _of_direction(state_weights, number, hidden)

        def step(state: list[Expr], elements: list[Expr]) -> tuple[list[Expr], list[Expr]]:
            h, c = state
            if lengths is None:
                after = cell.lstm(dynamic_product(h, *recurrent) + elements[0], peephole, c)
                return [*after], [after[0]]
            # If there is a sequence output, ONNX Runtime reads the state from it, so the state is 0 from the second
            # step after the end of a sequence.
            seen = where(reshape(elements[1] <= lengths, (-1, 1)), h, 0) if returns_sequence else h
            after = cell.lstm(dynamic_product(seen, *recurrent) + elements[0], peephole, c)
            within = reshape(elements[1] < lengths, (-1, 1))
            new_state = [where(within, new, old) for new, old in zip(after, state, strict=True)]
            return new_state, [where(within, after[0], 0)]

        if lengths is None:
            *last, sequence = scan_operands(step, start, [gate_inputs], (0,), None, cell.backwards, "lstm")
            return sequence, tuple(last)
        gate_inputs = _reversed(gate_inputs, numbers, lengths) if cell.backwards else gate_inputs
        *last, sequence = scan_operands(step, start, [gate_inputs, numbers], (0, 0), None, False, "lstm")
        return _reversed(sequence, numbers, lengths) if cell.backwards else sequence, tuple(last)

    operands = Operands(x, lengths, (initial_h, initial_c), peepholes, hidden)
    return tuple(each_direction(cells, operands, steps)[:outputs])


def _quantized(
    op: OperatorContext, name: str, index: int, scale: int, zero: int, directions: int, hidden: int
) -> tuple[Expr, Expr, Expr]:
    """Return the weights with their scales and zero points, one per direction or one per column of the weights."""
    weights, scales, zero_point = [required(op, f"input {each}") for each in (index, scale, zero)]
    for title, value in ((f"{name}_scale", scales), (f"{name}_zero_point", zero_point)):
        if value.shape not in ((directions,), (directions, 4 * hidden)):
            raise OperandError(
                f"{title} is {value.type}",
                rule=f"{title} must have the shape {(directions,)} or {(directions, 4 * hidden)}",
            )
    return weights, scales, zero_point


def _of_direction(parts: tuple[Expr, Expr, Expr], number: int, hidden: int) -> tuple[Expr, Expr, Expr]:
    weights, *rest = [part[number] for part in parts]
    scale, zero = [_ordered(part, hidden) if part.ndim else part for part in rest]
    return _ordered(weights, hidden), scale, zero


def _ordered(x: Expr, hidden: int) -> Expr:
    return concatenate([x[..., gate * hidden : (gate + 1) * hidden] for gate in _ORDER], -1)


def _reversed(x: Expr, numbers: Expr, lengths: Expr) -> Expr:
    """Reverse sequences (steps, N, features), each within its own length."""
    rows = reshape(numbers, (-1, 1))
    indices = where(rows < lengths, lengths - 1 - rows, rows)
    return take_along_axis(x, reshape(indices, (*indices.shape, 1)), 0)
