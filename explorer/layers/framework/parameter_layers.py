"""Sources: layers without inputs, whose output is a parameter, or a constant."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import ClassVar

from explorer.core.errors import DeclarationError, StateError
from explorer.core.ir.expr import Expr
from explorer.core.tracing.captures import note
from explorer.core.types.tensor_type import TensorType
from explorer.layers.framework.expand import current_expander
from explorer.layers.framework.initializer import Buffer, Initializer
from explorer.layers.framework.layer import Layer
from explorer.layers.framework.parameters import Parameter
from explorer.layers.framework.policy_classes import GradPolicy, ParameterPolicy


class Source(Layer):
    """A layer that holds one tensor of a shape, named as the layer; policies say its dtype, device and filler."""

    shape: tuple[int, ...]
    inputs: ClassVar[tuple[str, ...]] = ()
    _running: ClassVar[frozenset[str]] = Layer._running | {"held"}

    def prepare(self) -> None:
        """Check the shape."""
        super().prepare()
        lengths = self.shape
        if not isinstance(lengths, tuple) or not all(type(n) is int and n >= 0 for n in lengths):
            raise DeclarationError(
                f"the shape {lengths!r} of {self!r}",
                rule="a shape is a tuple of lengths, which are whole numbers, zero or more",
                fix="write (3,) for three elements, () for one",
            )
        self.held: Parameter | None = None

    def begin(self, initializer: Initializer | None, buffer: Buffer) -> Parameter:
        """What it begins with: in the load buffer, else among the initializer's values, else drawn by a filler.

        The parameter enters the buffer. Raises StateError where there is nothing, OperandError where it does not fit.
        """
        chosen = self.select(ParameterPolicy)
        type_ = TensorType(self.shape, chosen.dtype, chosen.device)
        made = (initializer or Initializer()).make(self.name, type_, self.policies, buffer)
        buffer[made.name] = made
        return made

    def hold(self, parameter: Parameter) -> None:
        """Take a parameter."""
        vars(self)["held"] = parameter

    def sources(self) -> Iterator[Source]:
        """Itself."""
        yield self

    def skeleton(self) -> Layer:
        """The source without its parameter."""
        made = super().skeleton()
        vars(made)["held"] = None
        return made

    def paths(self) -> tuple[str, ...]:
        """Its own."""
        return ("",)

    def parameters(self) -> dict[str, Parameter]:
        """The one it holds."""
        if self.held is None:
            raise StateError(
                f"the parameter of {self!r} is not initialised",
                rule="parameters are initialised before they are used",
                fix="call init(…) of the outermost layer",
            )
        note(lambda: self.held)
        return {"": self.held}

    def call(self, values: Mapping[str, Expr], parameters: Mapping[str, Expr]) -> dict[str, Expr]:
        """The tensor itself by port, without a call: a function that gives its operand back only costs."""
        if current_expander() is None and type(self).expand is Source.expand:
            return self.outputs_of(self.expand(values, parameters))
        return super().call(values, parameters)

    def expand(self, values: Mapping[str, Expr], parameters: Mapping[str, Expr]) -> Expr:
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
