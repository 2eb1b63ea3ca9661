"""Embedding: a row of numbers for each integer, such as the index of a word."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from explorer.core.errors import OperandError
from explorer.core.ir.expr import Expr
from explorer.layers.framework.class_checks import check_integers
from explorer.layers.framework.composite import Composite
from explorer.layers.framework.layer import Layer
from explorer.layers.framework.parameter_layers import ParamSource
from explorer.layers.framework.topology import InConnect, InternalConnect, OutConnect, Sublayer, Topology
from explorer.ops.manipulation.gather import take
from explorer.ops.manipulation.one_hot import Labels


class Rows(Layer):
    """Selection of rows of a weight (count, features) by integers (N, …) → (N, …, features)."""

    inputs: ClassVar[tuple[str, ...]] = ("input", "weight")

    def forward(self, input: Expr, weight: Expr) -> Expr:
        """Record the rows; raise OperandError unless the input contains integers."""
        if input.dtype.kind not in "iu":
            raise OperandError(
                f"an Embedding with an input {input.type}",
                rule="samples must be integers, each the index of a row",
                fix="x.astype('int64')",
            )
        # Negative indices would count from the end.
        return take(weight, Labels(weight.shape[0])(input), 0)


class Embedding(Composite):
    """Embedding: integers (N, …) from 0 to ``count`` − 1 select rows of ``features`` numbers, (N, …, features).

    The rows are the only parameter, ``weight`` (count, features). An integer out of range raises RunError.

    >>> ex.train.Embedding("words", 1000, 16).paths()
    ('weight',)
    """

    count: int
    features: int
    samples: ClassVar[str] = "first"
    topology: ClassVar[Topology] = Topology(
        Sublayer("weight", ParamSource),
        Sublayer("rows", Rows),
        InConnect("input", "rows", "input"),
        InternalConnect("weight", "output", "rows", "weight"),
        OutConnect("rows", "output", "output"),
    )

    def prepare(self) -> None:
        """Check the options and create the sublayers."""
        check_integers(self, "count", "features")
        super().prepare()

    def arguments(self) -> Mapping[str, Mapping[str, Any]]:
        """Return the shape of the weight."""
        return {"weight": {"shape": (self.count, self.features)}}
