"""Linear layer for flattened samples, which are along the first axis, or along the last as in CDNN."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, ClassVar

from explorer.core.argument_checks import check_name
from explorer.core.errors import OperandError
from explorer.core.ir.expr import Expr
from explorer.layers.framework.composite import Composite
from explorer.layers.framework.layer import Layer
from explorer.layers.framework.parameter_layers import ParamSource
from explorer.layers.framework.topology import InConnect, InternalConnect, OutConnect, Sublayer, Topology
from explorer.ops.manipulation.reshape import reshape
from explorer.record.reasons import counted_text

SAMPLES = ("first", "last")


class Affine(Layer):
    """Affine map of samples by a weight (K, M) and a bias (M,); the axes of a sample are flattened to K elements.

    Samples first: (N, …) → (N, M), input @ weight + bias. Samples last: (…, N) → (M, N), weightᵀ @ input + bias.
    """

    samples: str
    inputs: ClassVar[tuple[str, ...]] = ("input", "weight", "bias")

    def forward(self, input: Expr, weight: Expr, bias: Expr) -> Expr:
        """Record the map; raise OperandError if a sample does not have K elements."""
        last = self.samples == "last"
        count = math.prod(input.shape[:-1] if last else input.shape[1:])
        if not input.ndim or count != weight.shape[0]:
            where = "the last axis" if last else "the first axis"
            raise OperandError(
                f"a linear layer of {counted_text(weight.shape[0], 'input')} with an input {input.type}, "
                f"{counted_text(count, 'element')} a sample",
                rule=f"a sample must have as many elements as the layer has inputs; samples are along {where}",
                fix=f"Linear(name, {count}, {weight.shape[1]}), or move the samples' axis",
            )
        # The transposed weight is a view, and BLAS reads either order equally fast.
        if last:
            merged = input if input.ndim == 2 else reshape(input, (count, input.shape[-1]))
            return weight.T @ merged + reshape(bias, (bias.shape[0], 1))
        merged = input if input.ndim == 2 else reshape(input, (input.shape[0], count))
        return merged @ weight + bias


class Linear(Composite):
    """Affine map of samples of ``input_size`` elements to ``output_size`` elements, for any sample shape.

    ``samples`` is the axis of the samples: "first", for (N, …) → (N, output_size), or "last", as in CDNN, for (…, N) →
    (output_size, N). The parameters are ``weight`` (input_size, output_size) and ``bias`` (output_size,). CDNN's text
    writes "I W + b" with b of shape (K, 1), but its shapes require Wᵀ I + b with b of shape (M, 1).

    >>> layer = ex.train.Linear("hidden", 784, 128)
    >>> layer.paths()
    ('weight', 'bias')
    """

    input_size: int
    output_size: int
    samples: str = "first"
    topology: ClassVar[Topology] = Topology(
        Sublayer("weight", ParamSource),
        Sublayer("bias", ParamSource),
        Sublayer("affine", Affine),
        InConnect("input", "affine", "input"),
        InternalConnect("weight", "output", "affine", "weight"),
        InternalConnect("bias", "output", "affine", "bias"),
        OutConnect("affine", "output", "output"),
    )

    def prepare(self) -> None:
        """Check the axis of the samples and create the sublayers."""
        check_name(self.samples, "samples", SAMPLES)
        super().prepare()

    def arguments(self) -> Mapping[str, Mapping[str, Any]]:
        """Return the parameters' shapes."""
        return {
            "weight": {"shape": (self.input_size, self.output_size)},
            "bias": {"shape": (self.output_size,)},
            "affine": {"samples": self.samples},
        }
