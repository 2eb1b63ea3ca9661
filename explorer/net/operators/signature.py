"""Signatures of operator types: an operator type is a function of expressions, and its signature is the schema.

A parameter is looked up by name among the operator's weights, among the inputs that the file passes by name, and among
the arguments of its line. Otherwise, it is looked up by position among inputs that are unnamed or have numbered names
(``input 0``). Positions do not count parameters that were found among the arguments. Annotations are:

- ``Expr``: a tensor (computed, a weight or a number); ``Expr | None = None`` is optional, and ``Expr | None`` may be
  omitted between other inputs;
- ``Known[Ints]``: a value on which a shape depends, a constant or computed while the net is built; likewise
  ``Known[int]`` (which a file may store as a float), ``Known[float]`` and ``Known[Array]``;
- ``int``, ``float``, ``bool``, ``str``, ``Literal["a", "b"]``, ``Ints`` (one number is a list of one),
  ``tuple[int, int]`` (one number is used for both), ``tuple[float, ...]`` and their unions: plain arguments;
- ``Annotated[Expr, Names("X", "input")]``: a parameter with these names in files, instead of its Python name;
- ``FlaggedWeight``: an optional weight; an argument with its name may be a flag for whether it exists;
- ``Unused``: an argument, input or weight that changes no value; the comment next to it gives the reason;
- ``BuildBody``: an inner graph; ``*inputs: Expr``: all further inputs; ``outputs: Outputs``: the number of outputs that
  the file requests;
- a dataclass: a group of parameters, its fields, that several types share. A keyword-only group is read by name only,
  any other group from as many inputs as it has fields;
- ``OperatorContext``: the operator itself, for anything that no parameter can express.

An argument, weight or input that no parameter reads raises an error (reads.py).
"""

from __future__ import annotations

import inspect
import types
from collections.abc import Callable, Sequence
from dataclasses import is_dataclass
from functools import cached_property
from typing import Annotated, Any, Final, Literal, TypeAlias, TypeVar, Union, get_args, get_origin, get_type_hints

from explorer.core.errors import DeclarationError, OperandError
from explorer.core.ir.expr import Expr
from explorer.core.ir.tensor import Tensor
from explorer.core.types.tensor_type import Array
from explorer.net.operators.context import UNNAMED, BuildBody, OperatorContext, as_expression
from explorer.net.operators.known_inputs import as_integer, as_integers, as_number, known_value

_T = TypeVar("_T")
_KNOWN, _UNUSED, _OUTPUTS, _FLAGGED = object(), object(), object(), object()
Ints: TypeAlias = tuple[int, ...]
"""list of integers as an argument; one number is a list of one"""
Known = Annotated[_T, _KNOWN]
"""value of an input or argument that must be known while the net is built"""
FlaggedWeight = Annotated[Expr | None, _FLAGGED]
"""optional weight; an argument with its name is a boolean flag for whether it exists"""
Unused = Annotated[Any, _UNUSED]
"""argument, input or weight that does not change the result"""
Outputs = Annotated[int, _OUTPUTS]
"""number of outputs that the file requests"""
_MISSING: Final = object()


class Names:
    """Names of a parameter in files, if they differ from its Python name; the first name that is present is used."""

    def __init__(self, *names: str) -> None:
        self.names = names


class Parameter:
    """Parameter of an operator function: names in files, position among the inputs, and type."""

    position: int | None = None
    """position among the inputs; None for an argument"""
    earlier: tuple[Parameter, ...] = ()
    """parameters at earlier positions"""

    def __init__(self, name: str, parameter: inspect.Parameter, annotation: Any) -> None:
        marks: tuple[Any, ...] = ()
        while get_origin(annotation) is Annotated:
            annotation, *inner = get_args(annotation)
            marks = (*marks, *inner)
        if get_origin(annotation) in (Union, types.UnionType):
            # In Optional[Known[Ints]], the annotation of Known is inside the union.
            members = [get_args(part) if get_origin(part) is Annotated else (part,) for part in get_args(annotation)]
            marks = (*marks, *[mark for _, *inner in members for mark in inner])
            annotation = Union[tuple([part for part, *_ in members])]  # noqa: UP007  # of a list
        self.name, self.default = name, parameter.default
        self.names = next((mark.names for mark in marks if isinstance(mark, Names)), (name,))
        self.is_known, self.is_unused = _KNOWN in marks, _UNUSED in marks
        self.is_count, self.is_flagged = _OUTPUTS in marks, _FLAGGED in marks
        self.is_variadic = parameter.kind is inspect.Parameter.VAR_POSITIONAL
        union = get_origin(annotation) in (Union, types.UnionType)
        self.kinds: tuple[Any, ...] = get_args(annotation) if union else (annotation,)
        self.group = Signature(annotation, None) if isinstance(annotation, type) and is_dataclass(annotation) else None
        """signature of a dataclass, whose fields are parameters"""

    @property
    def is_input(self) -> bool:
        """Whether the parameter may be an input of the operator: a tensor, a known value, or any positional value."""
        if self.group is not None:
            return self.group.earlier is not None
        is_any = Any in self.kinds and self.position is not None
        return self.is_known or is_any or Expr in self.kinds or Tensor in self.kinds

    def read(self, op: OperatorContext) -> Any:
        """Return the value of the parameter for an operator; raise OperandError if it is missing or invalid."""
        if OperatorContext in self.kinds:
            return op
        if self.group is not None:
            return self.group.call(op)
        if self.is_count:
            return len(op.definition.outputs)
        if BuildBody in self.kinds:
            return op.body(self.name) if self.default is inspect.Parameter.empty or self._has_body(op) else self.default
        if self.is_unused:
            self._mark_read(op)
            return None
        name = next((name for name in self._file_names if name in op.definition.weights or op.has(name)), self.names[0])
        value = self._lookup(op, name)
        if value is _MISSING:
            # Errors list all requested names.
            op.reads.arguments.update(self.names)
            if self.default is inspect.Parameter.empty:
                if self.position is not None and types.NoneType in self.kinds:
                    return None
                raise op.missing(*self.names) if not self.is_input else op.missing_input(*self.names)
            return self.default
        if value is None and types.NoneType in self.kinds:
            return None
        name = self.name if name.startswith(UNNAMED) else name
        return self._known(op, name, value) if self.is_known else self._converted(op, name, value)

    @property
    def _file_names(self) -> tuple[str, ...]:
        """Names that the parameter may have in a file, including the numbered name of an unnamed input."""
        return self.names if self.position is None else (*self.names, f"{UNNAMED}{self.position}")

    def input_position(self, op: OperatorContext) -> int | None:
        """Return the position of the parameter's input; earlier parameters that are arguments are not counted."""
        arguments = op.definition.arguments
        if self.position is None or not arguments:
            return self.position
        return self.position - sum([any(name in arguments for name in each.names) for each in self.earlier])

    def _has_body(self, op: OperatorContext) -> bool:
        return self.name in op.definition.bodies

    def _lookup(self, op: OperatorContext, name: str) -> Any:
        flag = op.definition.arguments.get(name) if self.is_flagged else None
        if flag is not None:
            if not isinstance(op.argument(name), bool):
                raise OperandError(f"{name}={flag!r}", rule=f"{op.definition.type}: {name} must be True or False")
            return op.weight(name) if flag else None
        if name in op.definition.weights:
            return op.weight(name)
        if op.has(name):
            return op.argument(name)
        position = self.input_position(op)
        return op.operand(position) if position is not None and op.is_unnamed(position) else _MISSING

    def _mark_read(self, op: OperatorContext) -> None:
        """Mark the value of an ``Unused`` parameter as read."""
        op.reads.arguments.update(self.names)
        op.reads.weights.update(self._file_names)
        for name in self._file_names:
            if name in op.definition.input_names:
                op.operand(0, name)
        position = self.input_position(op)
        if position is not None and op.is_unnamed(position):
            op.operand(position)

    def _known(self, op: OperatorContext, name: str, value: Any) -> Any:
        array = known_value(op, name, value)
        if Array in self.kinds:
            return array
        if int in self.kinds:
            return as_integer(op, name, array)
        return as_number(op, name, array) if float in self.kinds else as_integers(op, name, array)

    def _converted(self, op: OperatorContext, name: str, value: Any) -> Any:
        for kind in self.kinds:
            converted = _plain(kind, value)
            if converted is not _MISSING:
                return converted
        if Expr in self.kinds or Tensor in self.kinds:
            return as_expression(op, name, value)
        narrower = (types.NoneType, *((bool, int) if float in self.kinds else ()))
        kinds = [kind for kind in self.kinds if kind not in narrower]
        expected = " or ".join(dict.fromkeys(map(_description, kinds))) or "None"
        raise OperandError(f"{name}={value!r:.80}", rule=f"{op.definition.type}: {name} must be {expected}")


def _is_integer(value: Any) -> bool:
    # True is an integer in Python, but an error in a file.
    return isinstance(value, int) and not isinstance(value, bool)


def _plain(kind: Any, value: Any) -> Any:
    """Return ``value`` converted to the type ``kind`` of a parameter, or _MISSING if it does not have this type."""
    if kind is Any:
        return value
    if get_origin(kind) in (Union, types.UnionType):
        return value if any(_plain(each, value) is not _MISSING for each in get_args(kind)) else _MISSING
    if kind is bool or kind is str or kind is types.NoneType:
        return value if type(value) is kind else _MISSING
    if kind is int:
        return value if _is_integer(value) else _MISSING
    if kind in (float, complex):
        allowed = (int, float) if kind is float else (int, float, complex)
        return value if isinstance(value, allowed) and not isinstance(value, bool) else _MISSING
    if get_origin(kind) is Literal:
        return value if any(type(value) is type(choice) and value == choice for choice in get_args(kind)) else _MISSING
    if get_origin(kind) is tuple:
        item, *more = get_args(kind)
        items = tuple(value) if isinstance(value, (tuple, list)) else (value,)
        if more != [Ellipsis]:
            items = items * (1 + len(more)) if len(items) == 1 else items
            if len(items) != 1 + len(more):
                return _MISSING
        return items if all(_plain(item, each) is not _MISSING for each in items) else _MISSING
    return value if isinstance(kind, type) and isinstance(value, kind) else _MISSING


_SINGULARS = {int: "an integer", float: "a number", complex: "a number", bool: "True or False", str: "a string"}
_PLURALS = {int: "integers", float: "numbers", bool: "booleans", str: "strings", Expr: "tensors"}


def _description(kind: Any) -> str:
    """Return a description of a parameter's type for error messages."""
    if get_origin(kind) is Literal:
        return " or ".join([str(choice) for choice in get_args(kind)])
    if get_origin(kind) is tuple:
        item, *more = get_args(kind)
        plural = _PLURALS.get(item, "values")
        return f"a list of {plural}" if more == [Ellipsis] else f"one of {1 + len(more)} {plural}, or all of them"
    return _SINGULARS.get(kind, "a tensor" if kind in (Expr, Tensor) else "another value")


class Signature:
    """Parameters of an operator type's function, read when they are first requested."""

    def __init__(self, function: Callable[..., Any], earlier: Sequence[Parameter] | None = ()) -> None:
        self.function = function
        self.earlier = earlier
        """inputs before the first input of a group; None if all parameters are read only by name"""

    @cached_property
    def takes_context(self) -> bool:
        """Whether the operator's context is the function's only parameter."""
        parameters = list(inspect.signature(self.function).parameters.values())
        return len(parameters) == 1 and (
            parameters[0].annotation in (inspect.Parameter.empty, Any, object, OperatorContext)
            or str(parameters[0].annotation).rpartition(".")[2] in ("OperatorContext", "Any", "object")
        )

    @cached_property
    def parameters(self) -> tuple[Parameter, ...]:
        """The parameters in order; raise DeclarationError if one has no annotation, or if there is ``**arguments``."""
        hints = get_type_hints(self.function, include_extras=True)
        parameters: list[Parameter] = []
        inputs = list(self.earlier or ())
        for name, parameter in inspect.signature(self.function).parameters.items():
            if name not in hints or parameter.kind is inspect.Parameter.VAR_KEYWORD:
                raise DeclarationError(
                    f"the parameter {name!r} of {self.function.__name__}",
                    rule="each parameter of an operator's function must be named and have a type",
                    fix=f"def {self.function.__name__}(x: Expr, *, alpha: float = 0.01) -> Expr",
                )
            own = Parameter(name, parameter, hints[name])
            by_name = parameter.kind is inspect.Parameter.KEYWORD_ONLY or self.earlier is None
            if own.group is not None and not by_name:
                own.group = Signature(own.group.function, tuple(inputs))
                inputs.extend(own.group.parameters)
            elif not (by_name or OperatorContext in own.kinds):
                own.position, own.earlier = len(inputs), tuple(inputs)
                inputs.append(own)
            parameters.append(own)
        return tuple(parameters)

    def input_names(self, count: int) -> tuple[str, ...]:
        """Return the names of up to ``count`` inputs; a variadic parameter ``inputs`` has the names ``inputs.0``, …

        A function with fewer parameters has fewer names. A function of the operator's context has none.
        """
        names: list[str] = []
        for parameter in () if self.takes_context else self.parameters:
            if parameter.is_variadic:
                names += [f"{parameter.name}.{index}" for index in range(count - len(names))]
            elif parameter.position is not None:
                names.append(parameter.names[0])
        return tuple(names[:count])

    @cached_property
    def known_names(self) -> frozenset[str]:
        """Names of the inputs whose values must be known while the net is built, such as shapes."""
        parameters = () if self.takes_context else self.parameters
        return frozenset([name for parameter in parameters if parameter.is_known for name in parameter.names])

    def call(self, op: OperatorContext) -> Any:
        """Call the function with an operator's values for the parameters, and return its result."""
        if self.takes_context:
            return self.function(op)
        # Arguments first, so that a wrong argument is reported before a missing input.
        values = {
            parameter.name: parameter.read(op)
            for parameter in sorted(self.parameters, key=lambda each: each.is_input)
            if not parameter.is_variadic
        }
        positional: list[Any] = []
        for parameter in self.parameters:
            if parameter.is_variadic:
                positional.extend(op.rest(parameter.name, parameter.input_position(op) or 0))
            elif (
                parameter.position is not None
                or OperatorContext in parameter.kinds
                or (parameter.group is not None and parameter.group.earlier is not None)
            ):
                positional.append(values.pop(parameter.name))
        return self.function(*positional, **values)
