"""Nodes of a module: layers with the values that they keep between forward and backward (CDNN: Layer).

A node computes immediately, whereas a layer only records. Until the next forward, the node keeps the last input, which
it takes over from the caller, and a copy of the last output. Planned steps do not use these values (module.py).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager
from typing import Any
from weakref import WeakValueDictionary

import numpy as np

from explorer.core.argument_checks import named_methods
from explorer.core.errors import DeclarationError, OperandError, StateError
from explorer.core.ir.explore_options import Kernels
from explorer.core.ir.expr import Expr
from explorer.core.ir.recording_context import recording_at, scope, state
from explorer.core.ir.tensor import Tensor, tensor
from explorer.core.types.custom_dtypes import is_floating
from explorer.core.types.device import Device, cpu
from explorer.core.types.tensor_type import Array, TensorType
from explorer.gradients import grad
from explorer.layers.framework.layer import Layer
from explorer.layers.framework.parameter_layers import ParamSource
from explorer.layers.framework.parameters import Parameter
from explorer.layers.framework.policy_classes import GradPolicy
from explorer.ops.creation.constants import zeros
from explorer.plan.options import Options
from explorer.record.reasons import counted_text
from explorer.train.compiled import Compiled, parameter
from explorer.train.layers.training_layers import Training, TrainingLayer, check_outermost, step_operand
from explorer.train.module_device import elements_on, samples_of

_owned: WeakValueDictionary[int, Tensor] = WeakValueDictionary()
"""tensors that nodes have taken over, by uid"""


class Apply(Layer):
    """Layer without parameters that applies a function of one expression."""

    applied: Callable[[Expr], Expr]

    def forward(self, input: Expr) -> Expr:
        """Record the function's result; raise DeclarationError unless it is one expression."""
        result = self.applied(input)
        if not isinstance(result, Expr):
            raise DeclarationError(
                f"the node {self.name!r}, whose function returned a {type(result).__name__}",
                rule="a node's function must return one expression",
                fix="module.add_node(lambda x: ex.tanh(x) * 2)",
            )
        return result


@named_methods
class Node:
    """Layer of a module: ``type``, ``input_size`` and ``output_size`` (elements per sample), parameters and gradients.

    ``forward`` and ``backward`` compute immediately, on the module's device, and return NumPy arrays. ``last_input``
    and ``last_output`` are None before the first forward.
    """

    def __init__(
        self, layer: Layer, samples: str = "first", dtype: Any = np.float32, kernels: Kernels = "numpy"
    ) -> None:
        if len(layer.inputs) != 1 or len(layer.outputs) != 1:
            raise DeclarationError(
                f"the layer {layer!r} with the ports {', '.join([*layer.inputs, *layer.outputs])}",
                rule="a module's layer must have one input and one output",
                fix="join layers in a Composite first",
            )
        check_outermost(layer)
        self.layer, self._samples, self._dtype = layer, samples, np.dtype(dtype)
        self._device = cpu
        self._options = Options(kernels=kernels)
        self._origin = state.origin or (None, 0)
        """line where the user added the node, which is used as the line of its operations"""
        self.input_size: int | None = getattr(layer, "input_size", getattr(layer, "in_features", None))
        self.output_size: int | None = getattr(layer, "output_size", getattr(layer, "out_features", None))
        self.last_input: Tensor | None = None
        self.last_output: Array | None = None
        self.gradients: dict[str, Array] | None = None
        """gradients of the parameters by name, from the last backward"""
        self.statistics: dict[str, Array] = {}
        """new statistics of the last forward by parameter name, which the module uses after a backward"""
        self._frozen: frozenset[str] = frozenset()
        self._steps: Callable[[], int] = int
        """function that returns the number of completed steps"""
        self._step: tuple[Array, ...] = ()
        """step number of the last forward, if the layer reads it"""
        self._programs: dict[TensorType, tuple[Compiled, Compiled]] = {}

    @property
    def name(self) -> str:
        """Name of the layer."""
        return self.layer.name

    @property
    def type(self) -> str:
        """Name of the layer's class, or of its function."""
        function = self.layer.applied if isinstance(self.layer, Apply) else None
        if function is None:
            return type(self.layer).__name__
        return str(getattr(function, "__name__", getattr(function, "name", type(function).__name__)))

    @property
    def parameters(self) -> dict[str, Parameter]:
        """Parameters of the layer by name; raises StateError before they are initialized."""
        return {parameter_.name: parameter_ for parameter_ in self.layer.parameters().values()}

    def record(self, value: Expr, parameters: Mapping[str, Expr], training: Training | None = None) -> Expr:
        """Record the layer's output from its input and its parameters by name, in training or in inference."""
        layer = self.layer
        by_path = {path: parameters[parameter_.name] for path, parameter_ in layer.parameters().items()}
        with recording_at(state.scope, *self._origin), self._box(by_path.values()):
            if isinstance(layer, Apply):
                return layer.forward(value)  # a call would only hide the single operation
            if training is not None and isinstance(layer, TrainingLayer):
                output, statistics = layer.in_training(value, by_path, training)
                for path, statistic in statistics.items():
                    training.replace(layer.parameters()[path].name, statistic)
                return output
            return layer.call({layer.inputs[0]: value}, by_path)[layer.outputs[0]]

    def operands(self) -> dict[str, Expr]:
        """Record an operand for each parameter in the layer's box; return the operands by name."""
        with scope(self.layer.name, "layer", self.type, self.layer):
            return {name: parameter(parameter_.type, name) for name, parameter_ in self.parameters.items()}

    def _box(self, parameters: Iterable[Expr]) -> AbstractContextManager[object]:
        """Return the context of the layer's box: the box of its parameters, or a new box."""
        for box in (operand.scope for operand in parameters):
            if box is not None and box.payload is self.layer and box.parent is state.scope:
                return recording_at(box, *self._origin)
        return scope(self.layer.name, "layer", self.type, self.layer)

    def updates(self) -> set[str]:
        """Return the names of the trained parameters: all but those with the policy PNoUpdate and frozen ones."""
        return {
            source.parameter.name
            for source in self.layer.sources()
            if isinstance(source, ParamSource) and source.parameter is not None and _is_trained(source)
        } - self._frozen

    @property
    def replaced(self) -> dict[str, Parameter]:
        """Parameters, by name, that a training step replaces by new statistics."""
        if not isinstance(self.layer, TrainingLayer):
            return {}
        parameters = self.layer.parameters()
        return {parameters[path].name: parameters[path] for path in self.layer.replaced}

    def attach(self, frozen: Iterable[str], steps: Callable[[], int]) -> None:
        """From now on, compute no gradients of ``frozen`` parameters; ``steps`` returns the number of completed steps.

        Values of the last run are released.
        """
        self._frozen, self._steps = frozenset(frozen), steps
        self.release()

    # -- forward and backward --------------------------------------------------------------------------------------

    def forward(self, value: Any) -> Array:
        """Compute the output; an input tensor is taken over, and the previous input and output are released.

        Raises OperandError for samples of a wrong size, and StateError for a tensor that was already taken over.
        """
        tensor_ = self.take_over(value)
        size = self._size(tensor_.tensor_type)
        if self.input_size not in (None, size):
            raise OperandError(
                f"the node {self.name!r} with an input {tensor_.type}, {counted_text(size, 'element')} a sample",
                rule=f"a sample must have {self.input_size} elements, in any shape",
                fix=f"reshape the samples to {counted_text(self.input_size, 'element')} each",
            )
        elements = self._elements()
        forward, _ = self._compiled(tensor_.tensor_type)
        self._step = (np.array(self._steps()),) if isinstance(self.layer, TrainingLayer) else ()
        output, *statistics = forward.on_host(tensor_.storage.array, *elements, *self._step)
        # Copy the statistics, like the output.
        self.statistics = dict(zip(self.replaced, map(np.array, statistics), strict=True))
        self.input_size, self.output_size = size, self._size(TensorType(output.shape, output.dtype))
        if isinstance(value, Tensor):
            # Only now, because a tensor may be passed again if its forward failed.
            _owned[value.uid] = value
        # A copy, since the next run overwrites the program's memory.
        self.last_input, self.last_output = tensor_, np.array(output)
        return self.last_output

    def backward(self, gradient: Any) -> Array:
        """Compute the gradients of the last input and of the parameters from the last output's gradient; return the
        input's gradient."""
        if self.last_input is None or self.last_output is None:
            raise StateError(
                f"backward of the node {self.name!r}, without a forward",
                rule="forward must come before backward",
                fix="node.forward(x)",
            )
        upstream = np.asarray(gradient, self.last_output.dtype)
        if upstream.size != self.last_output.size:
            raise OperandError(
                f"the node {self.name!r} with a gradient of shape {upstream.shape}",
                rule=f"the gradient must have the last output's shape, {self.last_output.shape}",
                fix="pass the gradient of this output",
            )
        elements = self._elements()
        _, backward = self._compiled(self.last_input.tensor_type)
        upstream = np.ascontiguousarray(upstream.reshape(self.last_output.shape))
        parameters = self.parameters
        results = backward.on_host(self.last_input.storage.array, *elements, *self._step, upstream)
        self.gradients = dict(zip([name for name in parameters if name in self.updates()], results[1:], strict=True))
        result: Array = results[0]
        return result

    def take_over(self, value: Any) -> Tensor:
        """Return an input as a contiguous tensor of the module's dtype; arrays are copied, tensors taken over."""
        if isinstance(value, Tensor):
            if value.uid in _owned:
                raise StateError(
                    f"the tensor {value.label!r} passed to the node {self.name!r}",
                    rule="a tensor must not be passed to a node once a node has taken it over",
                    fix="pass a copy: ex.tensor(x)",
                )
            has_dtype = value.dtype == self._dtype or not is_floating(value.dtype)
            if has_dtype and value.device is self._device:
                return value
            return tensor(value.array, None if has_dtype else self._dtype, device=self._device)
        array, name = samples_of(value), f"input of {self.name}"
        return tensor(array, self._dtype if array.dtype.kind == "f" else None, name=name, device=self._device)

    def to_device(self, device: Device) -> None:
        """Move the parameters and the computation to ``device``; values of the last run are released."""
        self.release()
        self._device = device
        if all(getattr(source, "parameter", True) is not None for source in self.layer.sources()):
            for parameter_ in self.parameters.values():
                parameter_.to_device(device)

    def _elements(self) -> list[Any]:
        return [elements_on(parameter_, self._device) for parameter_ in self.parameters.values()]

    def _size(self, type_: TensorType) -> int:
        return math.prod(type_.shape[:-1] if self._samples == "last" else type_.shape[1:])

    def _compiled(self, type_: TensorType) -> tuple[Compiled, Compiled]:
        """Return the programs of forward and backward for an input type."""
        if type_ not in self._programs:
            value = parameter(type_, self.layer.inputs[0])
            operands = {name: parameter(parameter_.type, name) for name, parameter_ in self.parameters.items()}
            step = [step_operand(self._device)] if isinstance(self.layer, TrainingLayer) else []
            training = Training(step[0], self._samples) if step else None
            output = self.record(value, operands, training)
            statistics = [training.statistics[name] for name in self.replaced] if training else []
            forward = Compiled([output, *statistics], [value, *operands.values(), *step], options=self._options)
            upstream = parameter(output.type, "gradient")
            differentiated = [operands[name] for name in operands if name in self.updates()]
            if is_floating(value.dtype):
                gradients = grad(output, [value, *differentiated], seed=upstream)
            else:  # integers have no gradient, so zeros are returned
                zero = zeros(value.shape, self._dtype, self._device)
                gradients = [zero, *(grad(output, differentiated, seed=upstream) if differentiated else [])]
            self._programs[type_] = (
                forward,
                Compiled(gradients, [value, *operands.values(), *step, upstream], options=self._options),
            )
        return self._programs[type_]

    def release(self) -> None:
        """Forget the last input and output, the gradients, and the compiled programs."""
        self.last_input = self.last_output = self.gradients = None
        self.statistics = {}
        self._programs.clear()

    def __repr__(self) -> str:
        sizes = f"{self.input_size or '?'} → {self.output_size or '?'}"
        return f"<node {self.name!r}: {self.type}, {sizes} elements a sample>"


def _is_trained(source: ParamSource) -> bool:
    """Return whether a source's parameter is trained; in a module, it is trained unless a policy disables this."""
    policy = source.policies.given.get(GradPolicy.update)
    return policy is None or bool(policy.value)
