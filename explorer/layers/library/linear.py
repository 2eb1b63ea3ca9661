"""Composite layers with one weight: linear maps and the perceptron.

Each layer is composed of smaller layers, down to single parameters: the weight of ``Linear("hidden", …)`` belongs to
the sublayer ``hidden/weight/parameter``. A policy set at any level of this path applies to all parameters below it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from explorer.layers.framework.composite import Composite
from explorer.layers.framework.parameter_layers import ParamSource
from explorer.layers.framework.policy_classes import PerceptronPolicy
from explorer.layers.framework.topology import InConnect, InternalConnect, OutConnect, Sublayer, Topology
from explorer.layers.library.operation_layers import Add, Dot


class Weight(Composite):
    """Linear map without bias: (…, in_features) → (…, out_features), input @ weight.

    The parameter has shape (in_features, out_features). Sublayers: parameter, product.
    """

    in_features: int
    out_features: int
    topology: ClassVar[Topology] = Topology(
        Sublayer("parameter", ParamSource),
        Sublayer("product", Dot),
        InConnect("input", "product", "left"),
        InternalConnect("parameter", "output", "product", "right"),
        OutConnect("product", "output", "output"),
    )

    def arguments(self) -> Mapping[str, Mapping[str, Any]]:
        """Return the shape of the parameter."""
        return {"parameter": {"shape": (self.in_features, self.out_features)}}


class Bias(Composite):
    """Addition of a bias: (…, features) → (…, features), input + bias.

    The parameter has shape (features,). Sublayers: parameter, sum.
    """

    features: int
    topology: ClassVar[Topology] = Topology(
        Sublayer("parameter", ParamSource),
        Sublayer("sum", Add),
        InConnect("input", "sum", "left"),
        InternalConnect("parameter", "output", "sum", "right"),
        OutConnect("sum", "output", "output"),
    )

    def arguments(self) -> Mapping[str, Mapping[str, Any]]:
        """Return the shape of the parameter."""
        return {"parameter": {"shape": (self.features,)}}


class Linear(Composite):
    """Affine map: (…, in_features) → (…, out_features), input @ weight + bias.

    Example: ``Linear("hidden", 784, 128, train=True)``. Sublayers: weight, bias.
    """

    in_features: int
    out_features: int
    topology: ClassVar[Topology] = Topology(
        Sublayer("weight", Weight),
        Sublayer("bias", Bias),
        InConnect("input", "weight", "input"),
        InternalConnect("weight", "output", "bias", "input"),
        OutConnect("bias", "output", "output"),
    )

    def arguments(self) -> Mapping[str, Mapping[str, Any]]:
        """Return the feature counts of the sublayers."""
        return {
            "weight": {"in_features": self.in_features, "out_features": self.out_features},
            "bias": {"features": self.out_features},
        }


class SingleLayerPerceptron(Composite):
    """Linear map followed by an activation. PerceptronPolicy sets the activation, and whether a bias is added.

    Shapes: (…, in_features) → (…, out_features). Sublayers: linear, activation.
    """

    in_features: int
    out_features: int
    inputs: ClassVar[tuple[str, ...]] = ("input",)
    outputs: ClassVar[tuple[str, ...]] = ("output",)

    def declare(self) -> Topology:
        """Return the topology: a linear map followed by the activation."""
        policies = self.select(PerceptronPolicy)
        return Topology(
            Sublayer("linear", Linear if policies.bias_involved else Weight),
            Sublayer("activation", policies.activation),
            InConnect("input", "linear", "input"),
            InternalConnect("linear", "output", "activation", "input"),
            OutConnect("activation", "output", "output"),
        )

    def arguments(self) -> Mapping[str, Mapping[str, Any]]:
        """Return the feature counts of the linear layer."""
        return {"linear": {"in_features": self.in_features, "out_features": self.out_features}}
