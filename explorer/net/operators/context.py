"""Operator contexts, from which builders read operand values, arguments and weights.

A context hides the differences between formats (operands by position or name, plain numbers as operands), so a builder
reads like the operator's formula. Its methods raise OperandError; the net adds the operator's name and line.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np

from explorer.core.errors import OperandError
from explorer.core.ir.expr import Expr
from explorer.core.ir.function import Body
from explorer.core.ir.tensor import Tensor, tensor
from explorer.core.types.tensor_type import Array, Shape
from explorer.net.definition.definition import OperatorDefinition
from explorer.net.operators.reads import Reads
from explorer.ops.creation.constants import full
from explorer.record.reasons import counted_text

BuildBody: TypeAlias = Callable[[Sequence[Any]], list[Any]]
"""function of the values of an inner graph's parameters that returns the values of its outputs"""
Answer: TypeAlias = Callable[[Sequence[Array]], Hashable]
"""function of the values of some expressions that returns the property that a builder needs, such as a shape"""
Ask: TypeAlias = Callable[[OperatorDefinition, str, Sequence[Expr], Answer, int], Hashable]
"""function that applies an ``Answer`` to the values of expressions; its parameters are the operator, the name of the
value, the expressions, the answer, and the number of operations in the answer"""
_REQUIRED: Final = object()
_DTYPES = {bool: "bool", int: "int64", float: "float32", complex: "complex64"}
"""PyTorch's dtypes for plain numbers"""
_MAX_SHOWN = 16
"""maximum number of elements that are printed"""


UNNAMED = "input "
"""prefix of the name of an unnamed input, followed by the position of the input"""


class UnknownShapeError(OperandError):
    """Error for a shape that depends on the values of inputs, when the net is built without them."""

    body: tuple[Body, tuple[Expr, ...]] | None = None
    """body of the operator's loop or branch with the operands of a call, which is drawn before values exist"""


def unknown_shape(type: str, name: str) -> UnknownShapeError:
    """Return the error for a missing value that determines a shape of an operator of this type."""
    return UnknownShapeError(
        f"{name} depends on the net's inputs",
        rule=f"{type}: {name} must be computable from constants and shapes, or the inputs must be arrays, because a "
        "shape depends on it",
        fix="net.run(array), net.plan(array) or net.explore(array), which compute it first",
    )


class KnownArray(NamedTuple):
    """Hashable value of an array."""

    dtype: str
    shape: Shape
    data: bytes

    @property
    def array(self) -> Array:
        """The array as a read-only view."""
        return np.frombuffer(self.data, self.dtype).reshape(self.shape)

    @classmethod
    def of(cls, arrays: Sequence[Array]) -> KnownArray:
        """Return the only array in ``arrays`` as a hashable value."""
        (array,) = arrays
        return cls(array.dtype.str, array.shape, array.tobytes())

    def __str__(self) -> str:
        return np.array2string(self.array, separator=", ", threshold=_MAX_SHOWN)


class OperatorContext:
    """Operator that is being built; ``passed`` contains the values of its inputs in order.

    A value is an expression. If the file computes with Python values, it may also be a number, string, None or tuple. A
    parameter is looked up by name among the arguments of the operator's line, then among the inputs passed by name.
    ``reads`` records the parameters that the builder requests; access to ``passed`` or ``definition`` is not recorded.
    """

    __slots__ = ("_ask", "_bodies", "_weights", "definition", "passed", "reads")

    def __init__(
        self,
        definition: OperatorDefinition,
        operands: tuple[Any, ...],
        weights: Callable[[str], Tensor],
        bodies: Callable[[str], BuildBody] | None = None,
        ask: Ask | None = None,
    ) -> None:
        self.definition, self.passed, self._weights, self._bodies = definition, operands, weights, bodies
        self._ask = ask
        self.reads = Reads()

    def __repr__(self) -> str:
        return f"<OperatorContext of {self.definition.name}>"

    def ask(self, name: str, nodes: Sequence[Expr], answer: Answer, operations: int = 0) -> Hashable:
        """Return ``answer`` applied to the values of the expressions ``nodes``, which are computed immediately.

        The expressions that the builder records may depend on the values only through the answer. ``operations`` is the
        number of operations in the answer itself. Raise UnknownShapeError if the net is built without input arrays.
        """
        if self._ask is None:
            raise unknown_shape(self.definition.type, name)
        return self._ask(self.definition, name, nodes, answer, operations)

    def value(self, name: str, node: Expr) -> Array:
        """Return the value of an expression on which a shape depends; raise UnknownShapeError as ``ask`` does."""
        known = self.ask(name, [node], KnownArray.of)
        assert isinstance(known, KnownArray)
        return known.array

    def body(self, name: str) -> BuildBody:
        """Return the function that records an inner graph for the values of its parameters and returns its outputs.

        Raise OperandError if the operator has no inner graph with this name.
        """
        if name not in self.definition.bodies or self._bodies is None:
            raise OperandError(
                f"the graph {name!r} is missing",
                rule=f"{self.definition.type} must have it, and some file formats do not store inner graphs",
                fix="open the original model file",
            )
        return self._bodies(name)

    @property
    def arguments(self) -> Mapping[str, Any]:
        """The arguments of the operator's line; all are marked as read."""
        self.reads.arguments.update(self.definition.arguments)
        return self.definition.arguments

    @property
    def operands(self) -> tuple[Any, ...]:
        """The values of the operator's inputs in order; all are marked as read."""
        self.reads.operands.update(range(len(self.passed)))
        return self.passed

    @property
    def x(self) -> Expr:
        """The operand passed as ``input``, else the first operand."""
        return self.tensor(0, "input")

    def tensor(self, position: int, name: str = "") -> Expr:
        """Return an operand as an expression; a number becomes a constant. Raise OperandError for any other value."""
        value = self.operand(position, name)
        if isinstance(value, Expr):
            return value
        if isinstance(value, (bool, int, float, complex)):
            return full((), value, _DTYPES[type(value)])
        raise OperandError(
            f"operand {name or position} is {value!r}", rule=f"{self.definition.type}: this operand must be a tensor"
        )

    def input(self, which: int | str) -> Expr | None:
        """Return an input as an expression, or None if it is absent; the input may be computed, a weight or a number.

        ``which`` is its name, or its position if the format does not name it, as for user-defined types. Raise
        OperandError for a value that is not a tensor of numbers, and for the position of an input that has a name.
        """
        definition = self.definition
        name = which if isinstance(which, str) else self._name_of(which)
        if name is None:
            return self.tensor(which) if isinstance(which, int) and which < len(self.passed) else None
        if name in definition.weights:
            return self.weight(name)
        if not self.has(name):
            return None
        return as_expression(self, name, self.argument(name))

    def _name_of(self, position: int) -> str | None:
        """Return the name of the input at a position; None if the format has only positions."""
        definition = self.definition
        # A builder requests computed inputs, weights and arguments in the same way.
        names = {**definition.input_names, **dict.fromkeys(definition.weights), **definition.arguments}
        # An unnamed input is called by its position.
        if any(name.removeprefix(UNNAMED).isdigit() for name in names):
            return f"{UNNAMED}{position}"
        if definition.input_names:
            raise OperandError(
                f"input {position} of {definition.type}",
                rule="an input that has a name must be read by its name",
                fix=f"op.input({next(iter(definition.input_names))!r}); named: {', '.join(names)}",
            )
        return None

    def tensors(self, start: int = 0) -> tuple[Expr, ...]:
        """Return all operands from position ``start`` on as expressions; tuples are unpacked."""
        tensors: list[Expr] = []
        for position, value in enumerate(self.operands[start:], start):
            if isinstance(value, tuple) and all(isinstance(item, Expr) for item in value):
                tensors.extend(value)
            else:
                tensors.append(self.tensor(position))
        if not tensors and not start:
            raise self._no_operands_error()
        return tuple(tensors)

    def rest(self, name: str, position: int) -> tuple[Expr | None, ...]:
        """Return the remaining inputs: elements ``name.0``, ``name.1``, … of a list, or inputs from ``position`` on.

        An omitted input among numbered inputs is None.
        """
        names = {**self.definition.input_names, **self.definition.weights, **self.definition.arguments}
        numbers = [int(each.removeprefix(UNNAMED)) for each in names if each.startswith(UNNAMED)]
        if numbers:
            return tuple([self.input(f"{UNNAMED}{number}") for number in range(position, max(numbers) + 1)])
        if self.definition.input_names or f"{name}.0" in {**self.definition.weights, **self.definition.arguments}:
            values: list[Expr] = []
            while (value := self.input(f"{name}.{len(values)}")) is not None:
                values.append(value)
            if not values and not position:
                raise self._no_operands_error()
            return tuple(values)
        return self.tensors(position)

    def _no_operands_error(self) -> OperandError:
        return OperandError("no operands are given", rule=f"{self.definition.type} must have at least one operand")

    def operand(self, position: int, name: str = "") -> Any:
        """Return the value of the parameter ``name``, or of an unnamed operand at ``position``."""
        definition = self.definition
        blob = definition.input_names.get(name)
        if blob is not None:
            position = definition.inputs.index(blob)
            # the same value may be passed for several parameters
            self.reads.operands.update([at for at, other in enumerate(definition.inputs) if other == blob])
        elif name in definition.arguments:
            return self.argument(name)
        elif name and 0 < position < len(self.passed) and not self.is_unnamed(position):
            raise self.missing(name)
        if position < len(self.passed):
            self.reads.operands.add(position)
            return self.passed[position]
        rule = f"an operand {name!r}" if name else f"at least {counted_text(position + 1, 'operand')}"
        raise OperandError(
            f"{counted_text(len(self.passed), 'operand')} given", rule=f"{self.definition.type} must have {rule}"
        )

    def is_unnamed(self, position: int) -> bool:
        """Return whether there is an operand at ``position`` and the operator's line gives it no name."""
        definition = self.definition
        return position < len(self.passed) and definition.inputs[position] not in definition.input_names.values()

    def has(self, name: str) -> bool:
        """Return whether the file sets a parameter, even to None; its value is not marked as read."""
        return name in self.definition.arguments or name in self.definition.input_names

    def argument(self, name: str, default: Any = _REQUIRED) -> Any:
        """Return the value of a parameter; raise OperandError if it is missing and has no default."""
        self.reads.arguments.add(name)
        if name in self.definition.arguments:
            return self.definition.arguments[name]
        if name in self.definition.input_names:
            return self.operand(0, name)
        if default is _REQUIRED:
            raise self.missing(name)
        return default

    def missing(self, *names: str) -> OperandError:
        """Return the error for a missing argument, which must have one of these names."""
        return self._missing("argument", names, (*self.definition.arguments, *self.definition.input_names))

    def missing_input(self, *names: str) -> OperandError:
        """Return the error for a missing input or weight, which must have one of these names."""
        definition = self.definition
        unnamed = counted_text(len(self.passed) - len(definition.input_names), "unnamed operand")
        return self._missing("input", names, (unnamed, *definition.input_names, *definition.weights))

    def _missing(self, noun: str, names: Sequence[str], given: Sequence[str]) -> OperandError:
        return OperandError(
            f"the {noun} {' or '.join(map(repr, names))} is missing; given: {', '.join(given) or 'none'}",
            rule=f"{self.definition.type} must have it",
        )

    def integer(self, name: str, default: Any = _REQUIRED) -> int:
        """Return the value of an integer parameter."""
        value = self.argument(name, default)
        # True is an integer in Python, but an error in a file.
        if isinstance(value, bool) or not isinstance(value, int):
            raise self._mismatch(name, value, "an integer")
        return value

    def number(self, name: str, default: Any = _REQUIRED) -> float:
        """Return the value of a numeric parameter, an int or a float as in the file."""
        value = self.argument(name, default)
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            raise self._mismatch(name, value, "a number")
        return value

    def flag(self, name: str, default: Any = _REQUIRED) -> bool:
        """Return the value of a boolean parameter."""
        value = self.argument(name, default)
        if not isinstance(value, bool):
            raise self._mismatch(name, value, "True or False")
        return value

    def word(self, name: str, default: str, choices: Sequence[str]) -> str:
        """Return the value of a string parameter, which must be one of ``choices``."""
        value = self.argument(name, default)
        if not isinstance(value, str):
            raise self._mismatch(name, value, "a string")
        if value not in choices:
            raise self._mismatch(name, value, " or ".join(choices))
        return value

    def integers(self, name: str, default: Any = _REQUIRED) -> Shape:
        """Return the value of a parameter that is a list of integers; a single integer becomes a list of one."""
        value = self.argument(name, default)
        items = value if isinstance(value, (tuple, list)) else (value,)
        if not all(isinstance(item, int) and not isinstance(item, bool) for item in items):
            raise self._mismatch(name, value, "a list of integers")
        return tuple(items)

    def pair(self, name: str, default: Any = _REQUIRED) -> tuple[int, int]:
        """Return the value of a parameter for rows and columns: two integers, or one for both."""
        values = self.integers(name, default)
        if len(values) == 1:
            return values[0], values[0]
        if len(values) != 2:
            raise self._mismatch(name, values, "one or two integers")
        return values[0], values[1]

    def weight(self, name: str) -> Tensor:
        """Return a weight as a tensor named ``operator.name``; raise OperandError if the file does not declare it."""
        if name not in self.definition.weights:
            declared = ", ".join(self.definition.weights) or "none"
            raise OperandError(
                f"the weight {name!r} is missing; declared: {declared}", rule=f"{self.definition.type} must have it"
            )
        self.reads.weights.add(name)
        return self._weights(name)

    def optional_weight(self, name: str) -> Tensor | None:
        """Return a weight, or None if the file does not declare it."""
        return self.weight(name) if name in self.definition.weights else None

    def only(self, name: str, expected: Any, default: Any = _REQUIRED) -> None:
        """Raise OperandError unless a parameter has the only implemented value."""
        value = self.argument(name, expected if default is _REQUIRED else default)
        if value != expected:
            raise OperandError(
                f"{name}={value!r}",
                rule=f"{self.definition.type}: {name} must be {expected!r}",
                fix=f"export the model without it, or register your own {self.definition.type} with file_operator",
            )

    def _mismatch(self, name: str, value: Any, expected: str) -> OperandError:
        return OperandError(f"{name}={value!r}", rule=f"{self.definition.type}: {name} must be {expected}")


def as_expression(op: OperatorContext, name: str, value: Any) -> Expr:
    """Return the value of an input or argument as an expression; raise OperandError unless it is numeric."""
    if isinstance(value, Expr):
        return value
    if isinstance(value, (bool, int, float, complex)):
        return full((), value, _DTYPES[type(value)])
    array = plain_array(value)
    if array is None:
        raise OperandError(f"{name} is {value!r}", rule=f"{op.definition.type}: {name} must be a tensor of numbers")
    return tensor(array)


def plain_array(value: Any) -> Array | None:
    """Return a number or a list of numbers as an int64, float32 or bool array; None for any other value."""
    if not isinstance(value, (bool, int, float, tuple)) or any(isinstance(item, Expr) for item in _items(value)):
        return None
    try:
        array = np.asarray(value)
    except ValueError:
        return None
    # NumPy converts an empty list to float64, but an empty attribute is a list of sizes or axes.
    if array.size == 0 and array.dtype.kind == "f":
        return array.astype(np.int64)
    return array.astype(np.float32) if array.dtype.kind == "f" else array if array.dtype.kind in "ib" else None


def _items(value: Any) -> tuple[Any, ...]:
    return value if isinstance(value, tuple) else ()
