"""Sources: layers without inputs, whose output is a parameter or a constant.

They are the leaves of every tree of layers. Elsewhere layers pass expressions on; only these decide where a value comes
from (see initializer.py), and hold it between calls.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import ClassVar, Self

from explorer.core.errors import DeclarationError, StateError
from explorer.core.ir.expr import Expr
from explorer.core.policy import ResolvedPolicy
from explorer.core.tracing.captures import note
from explorer.core.types.tensor_type import TensorType
from explorer.layers.framework.fillers import Filler
from explorer.layers.framework.initializer import Buffer, Initializer
from explorer.layers.framework.layer import Layer
from explorer.layers.framework.parameters import Parameter
from explorer.layers.framework.policy_classes import GradPolicy, ParameterPolicy
from explorer.layers.framework.recording_state import current_expander


class Source(Layer):
    """Layer that holds one tensor of a shape, named like the layer; policies set its dtype, device and filler."""

    shape: tuple[int, ...]
    inputs: ClassVar[tuple[str, ...]] = ()
    begins_with: ClassVar[Filler | None] = None
    """filler of a class's values where no policy sets one"""
    _running: ClassVar[frozenset[str]] = Layer._running | {"held"}

    def prepare(self) -> None:
        """Check the shape."""
        super().prepare()
        lengths = self.shape
        if not isinstance(lengths, tuple) or not all(type(n) is int and n >= 0 for n in lengths):
            raise DeclarationError(
                f"the shape {lengths!r} of {self!r}",
                rule="a shape must be a tuple of integers of 0 or more",
                fix="write (3,) for three elements, () for one",
            )
        if self.begins_with is not None:
            self.policies.given.setdefault(ParameterPolicy.filler, ResolvedPolicy(self.begins_with, "its beginning"))
        self.held: Parameter | None = None

    def begin(self, initializer: Initializer | None, buffer: Buffer) -> Parameter:
        """Return its initial value: from the load buffer, else by name from the initializer, else drawn by a filler.

        The parameter enters the buffer. Raises StateError if there is none, OperandError if it does not fit.
        """
        chosen = self.select(ParameterPolicy)
        type_ = TensorType(self.shape, chosen.dtype, chosen.device)
        parameter = (initializer or Initializer()).make(self.name, type_, self.policies, buffer)
        buffer[parameter.name] = parameter
        return parameter

    def hold(self, parameter: Parameter) -> None:
        """Hold a parameter."""
        # Past __setattr__: which parameter a layer holds is no part of its blueprint.
        vars(self)["held"] = parameter

    def sources(self) -> Iterator[Source]:
        """Yield itself."""
        yield self

    def skeleton(self) -> Self:
        """Return the source without its parameter."""
        copy = super().skeleton()
        vars(copy)["held"] = None
        return copy

    def paths(self) -> tuple[str, ...]:
        """Return its own path."""
        return ("",)

    def parameters(self) -> dict[str, Parameter]:
        """Return its own parameter."""
        if self.held is None:
            raise StateError(
                f"the parameter of {self!r} is not initialised",
                rule="parameters must be initialised before they are used",
                fix="call init(…) of the outermost layer",
            )
        note(lambda: self.held)
        return {"": self.held}

    def call(self, values: Mapping[str, Expr], parameters: Mapping[str, Expr]) -> dict[str, Expr]:
        """Return the tensor by port, without a call: a function that returns its operand would only cost time."""
        if current_expander() is None and type(self).expand is Source.expand:
            return self.outputs_of(self.expand(values, parameters))
        return super().call(values, parameters)

    def expand(self, values: Mapping[str, Expr], parameters: Mapping[str, Expr]) -> Expr:
        """Return the tensor."""
        (only,) = parameters.values()
        return only


class ParamSource(Source):
    """Source of a parameter: with PUpdate its gradient is built and collected."""

    def updates(self) -> frozenset[str]:
        """Return its own path with PUpdate, else nothing."""
        return frozenset({""}) if self.select(GradPolicy).update else frozenset()


class ValueSource(Source):
    """Source of a constant: initialised like a parameter, never changed by training."""
