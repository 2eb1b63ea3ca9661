"""Sources: layers without inputs whose output is a parameter or a constant.

Sources are the leaves of the layer tree. Only they are initialized (see initializer.py) and keep values between calls;
all other layers compute expressions from expressions.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, ClassVar, Self

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
from explorer.record.renamed import renamed_attributes


class Source(Layer):
    """Layer that outputs one tensor of ``shape``, named after the layer. Policies set its dtype, device and filler."""

    shape: tuple[int, ...]
    inputs: ClassVar[tuple[str, ...]] = ()
    begins_with: ClassVar[Filler | None] = None
    """filler to use if no policy sets one"""
    _running: ClassVar[frozenset[str]] = Layer._running | {"parameter"}

    def prepare(self) -> None:
        """Raise DeclarationError unless ``shape`` is a tuple of nonnegative integers."""
        super().prepare()
        shape = self.shape
        if not isinstance(shape, tuple) or not all(type(n) is int and n >= 0 for n in shape):
            raise DeclarationError(
                f"the shape {shape!r} of {self!r}",
                rule="a shape must be a tuple of integers of 0 or more",
                fix="write (3,) for three elements, () for one",
            )
        if self.begins_with is not None:
            self.policies.given.setdefault(ParameterPolicy.filler, ResolvedPolicy(self.begins_with, "its beginning"))
        self.parameter: Parameter | None = None

    if not TYPE_CHECKING:
        __getattr__ = renamed_attributes(held="parameter")

    def begin(self, initializer: Initializer | None, buffer: Buffer) -> Parameter:
        """Return the parameter, initialized from the load buffer, the initializer's values or a filler; add it to the
        buffer.

        Raises StateError if there is no value, and OperandError if the value has the wrong shape or dtype.
        """
        policies = self.select(ParameterPolicy)
        type_ = TensorType(self.shape, policies.dtype, policies.device)
        parameter = (initializer or Initializer()).make(self.name, type_, self.policies, buffer)
        buffer[parameter.name] = parameter
        return parameter

    def hold(self, parameter: Parameter) -> None:
        """Store ``parameter`` in the source."""
        # bypass __setattr__, which would raise; the parameter is not part of the blueprint
        vars(self)["parameter"] = parameter

    def sources(self) -> Iterator[Source]:
        """Yield this source."""
        yield self

    def skeleton(self) -> Self:
        """Return a copy of the source without its parameter."""
        copy = super().skeleton()
        vars(copy)["parameter"] = None
        return copy

    def paths(self) -> tuple[str, ...]:
        """Return the path of the source's parameter, ""."""
        return ("",)

    def parameters(self) -> dict[str, Parameter]:
        """Return the parameter by its path, ""; raise StateError if it is not initialized."""
        if self.parameter is None:
            raise StateError(
                f"the parameter of {self!r} is not initialized",
                rule="parameters must be initialized before they are used",
                fix="call init(…) of the outermost layer",
            )
        note(lambda: self.parameter)
        return {"": self.parameter}

    def call(self, values: Mapping[str, Expr], parameters: Mapping[str, Expr]) -> dict[str, Expr]:
        """Return the tensor by port, without a call that would only return its operand."""
        if current_expander() is None and type(self).expand is Source.expand:
            return self.outputs_of(self.expand(values, parameters))
        return super().call(values, parameters)

    def expand(self, values: Mapping[str, Expr], parameters: Mapping[str, Expr]) -> Expr:
        """Return the tensor."""
        (only,) = parameters.values()
        return only


class ParamSource(Source):
    """Source of a parameter, whose gradient is built and collected if PUpdate is set."""

    def updates(self) -> frozenset[str]:
        """Return the source's own path, "", if PUpdate is set, else an empty set."""
        return frozenset({""}) if self.select(GradPolicy).update else frozenset()


class ValueSource(Source):
    """Source of a constant, which is initialized like a parameter but not changed by training."""
