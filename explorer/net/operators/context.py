"""Contexts of builders: the values of an operator's operands, its arguments by name, and its weights.

Every builder of every format gets one. It hides the differences between dialects (positions, names, plain numbers among
operands), so that a builder reads as the operator's formula. Reading raises OperandError with the operator's type; the
net that builds adds the operator's name and line.
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
"""values of an inner graph's parameters → values of its outputs"""
Answer: TypeAlias = Callable[[Sequence[Array]], Hashable]
"""values of some expressions → the fact about them that a builder needs, such as a shape"""
Ask: TypeAlias = Callable[[OperatorDefinition, str, Sequence[Expr], Answer, int], Hashable]
"""operator, name of a value, expressions, answer, operations that the answer takes → that fact about their values"""
_REQUIRED: Final = object()
_DTYPES = {bool: "bool", int: "int64", float: "float32", complex: "complex64"}
"""the dtypes that torch gives plain numbers"""
_SHOWN = 16
"""most elements of a value that are written out"""


UNNAMED = "input "
"""with a number behind it, the name of an input for which the format has none"""


class UnknownShapeError(OperandError):
    """A shape that depends on values of the net's inputs, where these have no values."""

    body: tuple[Body, tuple[Expr, ...]] | None = None
    """what the operator repeats or chooses from, with a call's operands: pictures show it before there are values"""


def unknown_shape(type: str, name: str) -> UnknownShapeError:
    """Return the error for a value that an operator type must know, and that has no value yet."""
    return UnknownShapeError(
        f"{name} depends on the net's inputs",
        rule=f"{type}: {name} must follow from constants and shapes, or the inputs must be arrays, because a shape "
        "depends on it",
        fix="net.run(array), net.plan(array) or net.explore(array) compute it first",
    )


class KnownArray(NamedTuple):
    """The value of an array as a key of tables."""

    dtype: str
    shape: Shape
    data: bytes

    @property
    def array(self) -> Array:
        """The array, read-only."""
        return np.frombuffer(self.data, self.dtype).reshape(self.shape)

    @classmethod
    def of(cls, arrays: Sequence[Array]) -> KnownArray:
        """Return the key of the one array in a list."""
        (array,) = arrays
        return cls(array.dtype.str, array.shape, array.tobytes())

    def __str__(self) -> str:
        return np.array2string(self.array, separator=", ", threshold=_SHOWN)


class OperatorContext:
    """One operator while it is built; ``passed`` are the values of its inputs in order.

    A value is an expression, or a plain number, text, None, or tuple where the file computes with such. A parameter
    of the operator is found by its name: among the arguments of its line, else among the inputs passed by name.
    ``reads`` notes what the builder asks for; looking at ``passed`` or at the definition is not noted.
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
        """Return what follows from the values of expressions, which are computed while the net is built.

        What the builder records must depend on the answer alone; ``operations`` are those that the answer itself takes.
        Raises UnknownShapeError where the net is built without the arrays of its inputs.
        """
        if self._ask is None:
            raise unknown_shape(self.definition.type, name)
        return self._ask(self.definition, name, nodes, answer, operations)

    def value(self, name: str, node: Expr) -> Array:
        """Return the value of an expression that a shape depends on; raises UnknownShapeError as ``ask`` does."""
        known = self.ask(name, [node], KnownArray.of)
        assert isinstance(known, KnownArray)
        return known.array

    def body(self, name: str) -> BuildBody:
        """Return the function that records an inner graph over values for its parameters, and returns its outputs.

        Raises OperandError where there is none of this name.
        """
        if name not in self.definition.bodies or self._bodies is None:
            raise OperandError(
                f"the graph {name!r} is missing",
                rule=f"{self.definition.type} must have it; files of formats without inner graphs do not keep them",
                fix="open the model's own file",
            )
        return self._bodies(name)

    @property
    def arguments(self) -> Mapping[str, Any]:
        """The arguments of the operator's line, all of which count as read."""
        self.reads.arguments.update(self.definition.arguments)
        return self.definition.arguments

    @property
    def operands(self) -> tuple[Any, ...]:
        """The values of its inputs in order, all of which count as read."""
        self.reads.operands.update(range(len(self.passed)))
        return self.passed

    @property
    def x(self) -> Expr:
        """The first operand, or the one passed as ``input``."""
        return self.tensor(0, "input")

    def tensor(self, position: int, name: str = "") -> Expr:
        """An operand as an expression; a plain number becomes a constant. Raises OperandError for anything else."""
        value = self.operand(position, name)
        if isinstance(value, Expr):
            return value
        if isinstance(value, (bool, int, float, complex)):
            return full((), value, _DTYPES[type(value)])
        raise OperandError(
            f"operand {name or position} is {value!r}", rule=f"{self.definition.type} must have a tensor there"
        )

    def input(self, which: int | str) -> Expr | None:
        """Return an input of the operator as an expression, be it computed, a weight or a number; None without it.

        ``which`` is its name, or its position where the format has no name for it, as for types of one's own. Raises
        OperandError for what is no tensor of numbers, and for the position of an input that has a name.
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
        """Return the name of the input at a position; None where the format has positions alone."""
        definition = self.definition
        # An input may be computed, stored with the file or written into its line: for the builder these are one.
        names = {**definition.input_names, **dict.fromkeys(definition.weights), **definition.arguments}
        # Inputs without names are numbered by their format: the number is the position.
        if any(name.removeprefix(UNNAMED).isdigit() for name in names):
            return f"{UNNAMED}{position}"
        if definition.input_names:
            raise OperandError(
                f"input {position} of {definition.type}",
                rule="an input must be read by its name where it has one",
                fix=f"op.input({next(iter(definition.input_names))!r}); named: {', '.join(names)}",
            )
        return None

    def tensors(self, start: int = 0) -> tuple[Expr, ...]:
        """All operands as expressions, one or more; a tuple among them is unpacked."""
        tensors: list[Expr] = []
        for position, value in enumerate(self.operands[start:], start):
            if isinstance(value, tuple) and all(isinstance(item, Expr) for item in value):
                tensors.extend(value)
            else:
                tensors.append(self.tensor(position))
        if not tensors and not start:
            raise self._no_operands()
        return tuple(tensors)

    def rest(self, name: str, position: int) -> tuple[Expr | None, ...]:
        """Return all further inputs: the members ``name.0``, ``name.1``, … of a list, or those from a position.

        One that is left out among inputs that are numbered is None.
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
                raise self._no_operands()
            return tuple(values)
        return self.tensors(position)

    def _no_operands(self) -> OperandError:
        return OperandError("no operands are given", rule=f"{self.definition.type} must have one operand or more")

    def operand(self, position: int, name: str = "") -> Any:
        """The value of the parameter of this name, else of the operand at this position, unless it has another name."""
        definition = self.definition
        blob = definition.input_names.get(name)
        if blob is not None:
            position = definition.inputs.index(blob)
            # one value may be passed for several parameters
            self.reads.operands.update([at for at, other in enumerate(definition.inputs) if other == blob])
        elif name in definition.arguments:
            return self.argument(name)
        elif name and 0 < position < len(self.passed) and not self.is_unnamed(position):
            raise self.missing(name)
        if position < len(self.passed):
            self.reads.operands.add(position)
            return self.passed[position]
        rule = f"an operand {name!r}" if name else f"{position + 1} operands or more"
        raise OperandError(
            f"{counted_text(len(self.passed), 'operand')} given", rule=f"{self.definition.type} must have {rule}"
        )

    def is_unnamed(self, position: int) -> bool:
        """Whether there is an operand at a position, and its line gives it no name."""
        definition = self.definition
        return position < len(self.passed) and definition.inputs[position] not in definition.input_names.values()

    def has(self, name: str) -> bool:
        """Whether the file gives a parameter, be it None; its value does not count as read."""
        return name in self.definition.arguments or name in self.definition.input_names

    def argument(self, name: str, default: Any = _REQUIRED) -> Any:
        """The value of a parameter; without a default a missing one raises OperandError."""
        self.reads.arguments.add(name)
        if name in self.definition.arguments:
            return self.definition.arguments[name]
        if name in self.definition.input_names:
            return self.operand(0, name)
        if default is _REQUIRED:
            raise self.missing(name)
        return default

    def missing(self, *names: str) -> OperandError:
        """Return the error for an argument that must be there, under one of these names."""
        return self._missing("argument", names, (*self.definition.arguments, *self.definition.input_names))

    def missing_input(self, *names: str) -> OperandError:
        """Return the error for an input that must be there, be it passed or a weight, under one of these names."""
        definition = self.definition
        unnamed = counted_text(len(self.passed) - len(definition.input_names), "operand") + " without a name"
        return self._missing("input", names, (unnamed, *definition.input_names, *definition.weights))

    def _missing(self, noun: str, names: Sequence[str], given: Sequence[str]) -> OperandError:
        return OperandError(
            f"the {noun} {' or '.join(map(repr, names))} is missing; given: {', '.join(given) or 'none'}",
            rule=f"{self.definition.type} must have it",
        )

    def integer(self, name: str, default: Any = _REQUIRED) -> int:
        """A parameter that is a whole number."""
        value = self.argument(name, default)
        # True is a whole number for Python, and a mistake in a file.
        if isinstance(value, bool) or not isinstance(value, int):
            raise self._mismatch(name, value, "an integer")
        return value

    def number(self, name: str, default: Any = _REQUIRED) -> float:
        """A parameter that is a number, as it is written."""
        value = self.argument(name, default)
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            raise self._mismatch(name, value, "a number")
        return value

    def flag(self, name: str, default: Any = _REQUIRED) -> bool:
        """A parameter that is True or False."""
        value = self.argument(name, default)
        if not isinstance(value, bool):
            raise self._mismatch(name, value, "True or False")
        return value

    def word(self, name: str, default: str, choices: Sequence[str]) -> str:
        """A parameter that is one of some words."""
        value = self.argument(name, default)
        if not isinstance(value, str):
            raise self._mismatch(name, value, "a text")
        if value not in choices:
            raise self._mismatch(name, value, " or ".join(choices))
        return value

    def integers(self, name: str, default: Any = _REQUIRED) -> Shape:
        """A parameter that is a list of integers; one number is a list of one."""
        value = self.argument(name, default)
        items = value if isinstance(value, (tuple, list)) else (value,)
        if not all(isinstance(item, int) and not isinstance(item, bool) for item in items):
            raise self._mismatch(name, value, "a list of integers")
        return tuple(items)

    def pair(self, name: str, default: Any = _REQUIRED) -> tuple[int, int]:
        """A parameter that is one whole number for rows and columns, or one for each."""
        values = self.integers(name, default)
        if len(values) == 1:
            return values[0], values[0]
        if len(values) != 2:
            raise self._mismatch(name, values, "one integer, or two")
        return values[0], values[1]

    def weight(self, name: str) -> Tensor:
        """A weight as a tensor named ``operator.name``; raises OperandError where the file declares none."""
        if name not in self.definition.weights:
            declared = ", ".join(self.definition.weights) or "none"
            raise OperandError(
                f"the weight {name!r} is missing; declared: {declared}", rule=f"{self.definition.type} must have it"
            )
        self.reads.weights.add(name)
        return self._weights(name)

    def optional_weight(self, name: str) -> Tensor | None:
        """A weight, None where the file declares none of this name."""
        return self.weight(name) if name in self.definition.weights else None

    def only(self, name: str, expected: Any, default: Any = _REQUIRED) -> None:
        """Refuse any value of a parameter but the one that is implemented."""
        value = self.argument(name, expected if default is _REQUIRED else default)
        if value != expected:
            raise OperandError(
                f"{name}={value!r}",
                rule=f"{self.definition.type}: {name} must be {expected!r}",
                fix=f"export the model without it, or register {self.definition.type} yourself with file_operator",
            )

    def _mismatch(self, name: str, value: Any, wanted: str) -> OperandError:
        return OperandError(f"{name}={value!r}", rule=f"{self.definition.type}: {name} must be {wanted}")


def as_expression(op: OperatorContext, name: str, value: Any) -> Expr:
    """Return the value of an input or argument as an expression; raises OperandError for no tensor of numbers."""
    if isinstance(value, Expr):
        return value
    if isinstance(value, (bool, int, float, complex)):
        return full((), value, _DTYPES[type(value)])
    array = plain_array(value)
    if array is None:
        raise OperandError(f"{name} is {value!r}", rule=f"{op.definition.type}: {name} must be a tensor of numbers")
    return tensor(array)


def plain_array(value: Any) -> Array | None:
    """Return a plain number or list as the array that it was, int64, float32 or bool; None for what is none."""
    if not isinstance(value, (bool, int, float, tuple)) or any(isinstance(item, Expr) for item in _items(value)):
        return None
    try:
        array = np.asarray(value)
    except ValueError:
        return None
    # NumPy makes an empty list float64; among attributes it is an empty list of sizes or axes.
    if array.size == 0 and array.dtype.kind == "f":
        return array.astype(np.int64)
    return array.astype(np.float32) if array.dtype.kind == "f" else array if array.dtype.kind in "ib" else None


def _items(value: Any) -> tuple[Any, ...]:
    return value if isinstance(value, tuple) else ()
