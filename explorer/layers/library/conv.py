"""Convolution layer with parameters."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from explorer.core.errors import DeclarationError
from explorer.core.ir.expr import Expr
from explorer.layers.framework.class_checks import check_integers
from explorer.layers.framework.composite import Composite
from explorer.layers.framework.layer import Layer
from explorer.layers.framework.parameter_layers import ParamSource
from explorer.layers.framework.topology import InConnect, InternalConnect, OutConnect, Sublayer, Topology
from explorer.ops.nn.conv import conv2d


class Convolve(Layer):
    """Layer that convolves images (N, C, H, W) with filters (O, C / groups, h, w) and adds a bias (O,).

    Images, filters and bias are all inputs.
    """

    stride: int = 1
    padding: int = 0
    groups: int = 1
    inputs: ClassVar[tuple[str, ...]] = ("input", "filters", "bias")

    def forward(self, input: Expr, filters: Expr, bias: Expr) -> Expr:
        """Record the convolution."""
        return conv2d(input, filters, bias, strides=self.stride, padding=self.padding, groups=self.groups)


class Conv2d(Composite):
    """Convolution of images (cross-correlation) with a bias: (N, in_channels, H, W) → (N, out_channels, H′, W′).

    The parameters are ``weight`` (out_channels, in_channels / groups, size, size) and ``bias`` (out_channels,).
    Example: ``Conv2d("first", 1, 8, 3, padding=1)``. Sublayers: weight, bias, convolution.
    """

    in_channels: int
    out_channels: int
    size: int = 3
    stride: int = 1
    padding: int = 0
    groups: int = 1
    topology: ClassVar[Topology] = Topology(
        Sublayer("weight", ParamSource),
        Sublayer("bias", ParamSource),
        Sublayer("convolution", Convolve),
        InConnect("input", "convolution", "input"),
        InternalConnect("weight", "output", "convolution", "filters"),
        InternalConnect("bias", "output", "convolution", "bias"),
        OutConnect("convolution", "output", "output"),
    )

    def prepare(self) -> None:
        """Check the arguments and create the sublayers."""
        check_integers(self, "in_channels", "out_channels", "size", "stride", "groups")
        check_integers(self, "padding", least=0)
        if self.in_channels % self.groups or self.out_channels % self.groups:
            raise DeclarationError(
                f"Conv2d({self.name!r}, {self.in_channels}, {self.out_channels}, groups={self.groups})",
                rule="in_channels and out_channels must be multiples of groups",
                fix="groups=1",
            )
        super().prepare()

    def arguments(self) -> Mapping[str, Mapping[str, Any]]:
        """Return the parameters' shapes and the convolution's options."""
        filters = (self.out_channels, self.in_channels // self.groups, self.size, self.size)
        return {
            "weight": {"shape": filters},
            "bias": {"shape": (self.out_channels,)},
            "convolution": {"stride": self.stride, "padding": self.padding, "groups": self.groups},
        }
