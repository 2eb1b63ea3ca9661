"""DynamicQuantizeLSTM: a long short-term memory whose weights are quantised in the file, and whose operands on the way.

The input is quantised once for all steps, and the state before each of them, between the extremes of all sequences, as
ONNX Runtime does it on one thread; on several it may take parts of a batch apart. Backwards a sequence begins at its
own end, so that all of a batch take their first step at once.
"""

from __future__ import annotations

import numpy as np

from explorer.core.errors import OperandError
from explorer.core.ir.expr import Expr
from explorer.core.ir.tensor import tensor
from explorer.formats.common.onnx_words import left_out
from explorer.formats.common.operator_checks import with_rank
from explorer.formats.onnx.operators.base.table import operator
from explorer.formats.onnx.operators.rnn import (
    Direction,
    Operands,
    Reals,
    Strings,
    Way,
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
"""ONNX Runtime stores input, output, forget, cell; cells have torch's order: input, forget, cell, output"""
_W, _R = ("W", 1, 8, 9), ("R", 2, 10, 11)
"""name of the weights, and positions of these, their scale and their zero point"""


@operator("com.microsoft.DynamicQuantizeLSTM")
def dynamically_quantized_lstm(
    op: OperatorContext,
    *,
    activation_alpha: Reals = (),
    activation_beta: Reals = (),
    activations: Strings | None = None,
    clip: float | None = None,
    direction: Way = "forward",
    hidden_size: int | None = None,
    input_forget: int = 0,
    outputs: Outputs,
) -> tuple[Expr, ...]:
    """Long short-term memory of quantised weights; outputs are the sequence, and the last states."""
    # imported when it is called: operators of com.microsoft need quantized arithmetic of a room of their own
    from explorer.formats.onnx.operators.microsoft.quantized_arithmetic import product_on_the_way

    x = with_rank("X", required(op, "input 0"), "steps", "N", "features")
    whole = with_rank("R", required(op, "input 2"), "directions", "hidden", "4 · hidden")
    bias, lens, initial_h, initial_c, peepholes = [optional(op, f"input {position}") for position in range(3, 8)]
    coupled = bool(input_forget)
    cells = cells_of("LSTM", direction, activations, activation_alpha, activation_beta, clip, coupled=coupled)
    hidden, count = whole.shape[1] if hidden_size is None else hidden_size, len(cells)
    states = (count, x.shape[1], hidden)
    check_shapes(
        {
            "W": (required(op, "input 1"), (count, x.shape[2], 4 * hidden)),
            "R": (whole, (count, hidden, 4 * hidden)),
            "B": (bias, (count, 8 * hidden)),
            "initial_h": (initial_h, states),
            "initial_c": (initial_c, states),
            "P": (peepholes, (count, 3 * hidden)),
        }
    )
    weights, of_state = (_quantized(op, *parts, count, hidden) for parts in (_W, _R))
    is_kept = op.definition.outputs[0] != left_out(op.definition.name, "output 0")
    lengths = lengths_of(lens, x)
    numbers = tensor(np.arange(x.shape[0], dtype=np.int32), name="number")
    # steps behind the end of the longest sequence are not computed, and no part of the extremes
    extent = x if lengths is None else where(reshape(numbers < greatest(lengths), (-1, 1, 1)), x, 0)

    def steps(direction: Direction) -> tuple[Expr, tuple[Expr, ...]]:
        number, cell, peephole, start = direction
        entering = product_on_the_way(x, *_of(weights, number, hidden), extent)
        if bias is not None:
            both = bias[number, : 4 * hidden] + bias[number, 4 * hidden :]
            entering = entering + _ordered(both, hidden)
        recurrent = _of(of_state, number, hidden)

        def step(state: list[Expr], elements: list[Expr]) -> tuple[list[Expr], list[Expr]]:
            h, c = state
            if lengths is None:
                after = cell.lstm(product_on_the_way(h, *recurrent) + elements[0], peephole, c)
                return [*after], [after[0]]
            # The state is read from the sequence where that is kept: an ended one counts once more, and is 0 then.
            seen = where(reshape(elements[1] <= lengths, (-1, 1)), h, 0) if is_kept else h
            after = cell.lstm(product_on_the_way(seen, *recurrent) + elements[0], peephole, c)
            within = reshape(elements[1] < lengths, (-1, 1))
            kept = [where(within, new, old) for new, old in zip(after, state, strict=True)]
            return kept, [where(within, after[0], 0)]

        if lengths is None:
            *last, sequence = scan_operands(step, start, [entering], (0,), None, cell.backwards, "lstm")
            return sequence, tuple(last)
        entering = _reversed(entering, numbers, lengths) if cell.backwards else entering
        *last, sequence = scan_operands(step, start, [entering, numbers], (0, 0), None, False, "lstm")
        return _reversed(sequence, numbers, lengths) if cell.backwards else sequence, tuple(last)

    operands = Operands(x, lengths, (initial_h, initial_c), peepholes, hidden)
    return tuple(each_direction(cells, operands, steps)[:outputs])


def _quantized(
    op: OperatorContext, name: str, place: int, scale: int, zero: int, directions: int, hidden: int
) -> tuple[Expr, Expr, Expr]:
    """Return weights, their scale and their zero point; the last two have one number a direction, or one a column."""
    weights, factor, origin = [required(op, f"input {each}") for each in (place, scale, zero)]
    for title, value in ((f"{name}_scale", factor), (f"{name}_zero_point", origin)):
        if value.shape not in ((directions,), (directions, 4 * hidden)):
            raise OperandError(
                f"{title} is {value.type}",
                rule=f"{title} must have the shape {(directions,)} or {(directions, 4 * hidden)}",
            )
    return weights, factor, origin


def _of(parts: tuple[Expr, Expr, Expr], number: int, hidden: int) -> tuple[Expr, Expr, Expr]:
    """Return weights, scale and zero point of one direction, with columns in torch's order."""
    weights, *rest = [part[number] for part in parts]
    scale, zero = [_ordered(part, hidden) if part.ndim else part for part in rest]
    return _ordered(weights, hidden), scale, zero


def _ordered(x: Expr, hidden: int) -> Expr:
    return concatenate([x[..., gate * hidden : (gate + 1) * hidden] for gate in _ORDER], -1)


def _reversed(x: Expr, numbers: Expr, lengths: Expr) -> Expr:
    """Return sequences (steps, N, features) backwards, each within its own length."""
    rows = reshape(numbers, (-1, 1))
    places = where(rows < lengths, lengths - 1 - rows, rows)
    return take_along_axis(x, reshape(places, (*places.shape, 1)), 0)
