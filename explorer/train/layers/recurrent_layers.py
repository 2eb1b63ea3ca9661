"""Recurrent layers over whole sequences: long short-term memory and the gated recurrent unit.

As in torch and ONNX files, a whole recurrence is one operation, which runs in one kernel. `ex.layers.Recurrent`
computes the same values step by step, and supports custom cells.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from explorer.core.errors import DeclarationError, OperandError
from explorer.core.ir.expr import Expr
from explorer.core.types.custom_dtypes import is_floating
from explorer.layers.framework.class_checks import check_integers
from explorer.layers.framework.composite import Composite
from explorer.layers.framework.layer import Layer
from explorer.layers.framework.parameter_layers import ParamSource
from explorer.layers.framework.topology import InConnect, InternalConnect, OutConnect, Sublayer, Topology
from explorer.ops.control.recurrence import recurrence
from explorer.ops.creation.constants import zeros
from explorer.record.reasons import counted_text

_PARAMETERS = ("weight", "state_weight", "bias", "state_bias")


class Recur(Layer):
    """Recurrence of a cell over samples (N, T, features), starting from a zero state.

    The result is (N, T, hidden) or, for only the last state, (N, hidden).
    """

    cell: str
    states: int
    last: bool
    inputs: ClassVar[tuple[str, ...]] = ("input", *_PARAMETERS)

    def forward(self, input: Expr, weight: Expr, state_weight: Expr, bias: Expr, state_bias: Expr) -> Expr:
        """Record the recurrence; raise OperandError for samples of a wrong dtype or shape."""
        if not is_floating(input.dtype):
            raise OperandError(
                f"a recurrent layer with an input {input.type}",
                rule=f"samples must be {weight.dtype}; integers are not converted",
                fix=f"x.astype('{weight.dtype}'), or ex.train.Embedding before it for word indices",
            )
        if input.ndim != 3 or input.shape[2] != weight.shape[0] or not input.shape[1]:
            raise OperandError(
                f"a recurrent layer of {counted_text(weight.shape[0], 'feature')} with an input {input.type}",
                rule="samples must be sequences of at least one step, (N, steps, features)",
                fix=f"reshape the samples to (N, steps, {weight.shape[0]})",
            )
        begin = zeros((input.shape[0], state_weight.shape[0]), input.dtype, input.device)
        # The inputs' contribution to the gates does not depend on the state, so it is computed for all steps at once.
        entering = input @ weight + bias
        sequence, (final, *_) = recurrence(
            self.cell, self.cell, entering, state_weight, state_bias, [begin] * self.states, axis=1
        )
        return final if self.last else sequence


class RecurrentLayer(Composite):
    """Base class of recurrent layers over samples (N, steps, ``features``), whose subclasses specify the cell."""

    features: int
    hidden: int
    last: bool = False
    samples: ClassVar[str] = "first"
    cell: ClassVar[str] = ""
    gates: ClassVar[int] = 0
    states: ClassVar[int] = 1
    topology: ClassVar[Topology] = Topology(
        *[Sublayer(name, ParamSource) for name in _PARAMETERS],
        Sublayer("recur", Recur),
        InConnect("input", "recur", "input"),
        *[InternalConnect(name, "output", "recur", name) for name in _PARAMETERS],
        OutConnect("recur", "output", "output"),
    )

    def prepare(self) -> None:
        """Check the options and create the sublayers."""
        check_integers(self, "features", "hidden")
        if type(self.last) is not bool:
            raise DeclarationError(
                f"{type(self).__name__}({self.name!r}, …, last={self.last!r})",
                rule="last must be True or False",
                fix="last=True",
            )
        super().prepare()

    def arguments(self) -> Mapping[str, Mapping[str, Any]]:
        """Return the parameters' shapes, and the cell."""
        width = self.gates * self.hidden
        shapes = ((self.features, width), (self.hidden, width), (width,), (width,))
        return {
            **{name: {"shape": shape} for name, shape in zip(_PARAMETERS, shapes, strict=True)},
            "recur": {"cell": self.cell, "states": self.states, "last": self.last},
        }


class LSTM(RecurrentLayer):
    """Long short-term memory over sequences: (N, steps, features) → (N, steps, hidden), or (N, hidden) with ``last``.

    c′ = σ(f)·c + σ(i)·tanh(g) and h′ = σ(o)·tanh(c′) with i, f, g, o = x·weight + bias + h·state_weight + state_bias; h
    and c start at zero. ``weight`` (features, 4·hidden) and ``state_weight`` (hidden, 4·hidden) are the transposed
    weights of torch. Source: Hochreiter and Schmidhuber, 1997.

    >>> ex.train.LSTM("memory", 8, 32, last=True).paths()
    ('weight', 'state_weight', 'bias', 'state_bias')
    """

    cell = "lstm"
    gates = 4
    states = 2


class GRU(RecurrentLayer):
    """Gated recurrent unit over sequences: (N, steps, features) → (N, steps, hidden), or (N, hidden) with ``last``.

    h′ = (1 − z)·n + z·h with r, z = σ(x·weight + bias + h·state_weight + state_bias) and n = tanh(xₙ + r·hₙ), where xₙ
    and hₙ are the parts of the two sums for n. h starts at zero. ``weight`` (features, 3·hidden) and ``state_weight``
    (hidden, 3·hidden) are the transposed weights of torch. Source: Cho et al., 2014.

    >>> ex.train.GRU("memory", 8, 32).hidden
    32
    """

    cell = "gru"
    gates = 3
