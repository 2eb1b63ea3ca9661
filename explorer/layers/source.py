"""Sources: layers without inputs, whose output is a parameter, or a constant."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from explorer.core.errors import DeclarationError, StateError
from explorer.core.expr import Expr
from explorer.layers.initializer import Buffer, Initializer
from explorer.layers.layer import Layer
from explorer.layers.parameter import Parameter
from explorer.layers.policies import GradPolicy, ParameterPolicy


class Source(Layer):
    """A layer that holds one tensor of a shape, named as the layer; policies say its dtype, device and filler."""

    shape: tuple[int, ...]
    inputs: ClassVar[tuple[str, ...]] = ()

    def prepare(self) -> None:
        """Check the shape."""
        super().prepare()
        lengths = self.shape
        if not isinstance(lengths, tuple) or not all(isinstance(n, int) and n >= 0 for n in lengths):
            raise DeclarationError(f"the shape {lengths!r} of {self!r}", rule="a shape is a tuple of lengths")
        self.held: Parameter | None = None

    def init(self, initializer: Initializer | None = None, buffer: Buffer | None = None) -> None:
        """Look in the load buffer, then among the initializer's values, then use a filler; else raise StateError."""
        initializer, buffer = initializer or Initializer(), {} if buffer is None else buffer
        chosen = self.select(ParameterPolicy)
        self.held = initializer.make(self.name, self.shape, chosen.dtype, chosen.device, chosen.filler, buffer)
        buffer[self.held.name] = self.held

    def paths(self) -> tuple[str, ...]:
        """Its own."""
        return ("",)

    def parameters(self) -> dict[str, Parameter]:
        """The one it holds."""
        if self.held is None:
            raise StateError(
                f"the parameter of {self!r} is not initialised",
                rule="a layer is initialised before it is fed forward",
                fix="call init(…) of the outermost layer",
            )
        return {"": self.held}

    def write(self, values: Mapping[str, Expr], parameters: Mapping[str, Expr]) -> Expr:
        """The tensor."""
        (only,) = parameters.values()
        return only


class ParamSource(Source):
    """A parameter: with PUpdate its gradient is built and collected."""

    def updates(self) -> frozenset[str]:
        """Its own path, with PUpdate."""
        return frozenset({""}) if self.select(GradPolicy).update else frozenset()


class ValueSource(Source):
    """A constant: initialised as a parameter is, never changed by training."""
