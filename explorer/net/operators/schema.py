"""Schemas of operator types: inputs, arguments and weights, read from the signature of the declaring function.

Positional parameters are the blobs that an operator reads. A parameter with a default is optional, and ``*x`` is any
number of blobs. Parameters after ``*`` are arguments with their types and defaults, or weights if their type is Tensor.
The return type determines the number of blobs that the operator writes: one for ``Expr``, two for ``tuple[Expr,
Expr]``, and one or more for ``tuple[Expr, ...]``. The parameter ``outputs`` receives the number of outputs, and
``blob`` receives the name of the first output.
"""

from __future__ import annotations

import inspect
import types
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Annotated, Any, Literal, TypeAlias, Union, get_args, get_origin, get_type_hints

from explorer.core.errors import DeclarationError, ExplorerError, OperandError, UnknownNameError
from explorer.core.ir.tensor import Tensor
from explorer.net.definition.operator_definition import OperatorDefinition
from explorer.record.reasons import counted_text

Pairs: TypeAlias = tuple[tuple[int, int], ...]
"""pairs of the position of an input and the position of an output"""
GradientKind: TypeAlias = Literal["own", "none", "refused", "missing"]
RESERVED = frozenset(("inputs", "outputs", "name", "before", "after", "weights", "doc"))
"""parameter names of ``net.add``, which arguments of operator types must not have"""
_PLAIN: dict[Any, tuple[type, ...]] = {
    bool: (bool,),
    int: (int,),
    float: (int, float),
    complex: (int, float, complex),
    str: (str,),
    type(None): (type(None),),
}


@dataclass(frozen=True, slots=True)
class Count:
    """Allowed numbers of blobs that an operator reads or writes: a range, or the numbers in ``allowed``."""

    minimum: int
    maximum: int | None
    allowed: frozenset[int] | None = None

    def __contains__(self, number: int) -> bool:
        if self.allowed is not None:
            return number in self.allowed
        return self.minimum <= number and (self.maximum is None or number <= self.maximum)

    def __str__(self) -> str:
        if self.allowed is not None:
            return " or ".join(map(str, sorted(self.allowed)))
        if self.maximum is None:
            return f"{self.minimum} or more" if self.minimum else "any number of"
        return str(self.minimum) if self.minimum == self.maximum else f"{self.minimum} to {self.maximum}"

    @property
    def phrase(self) -> str:
        """The allowed numbers with a noun: ``2 to 3 blobs``, ``1 blob``."""
        return f"{self} blob{'s' * (str(self) != '1')}"


@dataclass(frozen=True, slots=True)
class Argument:
    """Argument of an operator type: annotation, default unless ``required``, and description."""

    name: str
    kind: Any
    required: bool
    default: Any = None
    doc: str = ""

    def __str__(self) -> str:
        default = "" if self.required else f" = {self.default!r}"
        return f"{self.name}: {kind_text(self.kind)}{default}"


@dataclass(slots=True)
class _Declared:
    """Parameters of a declaring function, separated into inputs, arguments and weights."""

    inputs: list[str] = field(default_factory=list)
    minimum: int = 0
    maximum: int | None = 0
    arguments: dict[str, Argument] = field(default_factory=dict)
    weights: dict[str, bool] = field(default_factory=dict)

    @classmethod
    def of(cls, type: str, function: Callable[..., Any], hints: Mapping[str, Any]) -> _Declared:
        declared = cls()
        variadic = False
        for name, parameter in inspect.signature(function).parameters.items():
            annotation, required = hints.get(name, Any), parameter.default is parameter.empty
            if parameter.kind in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD):
                declared.inputs.append(name if required else f"{name} = None")
                declared.minimum += required
            elif parameter.kind is parameter.VAR_POSITIONAL:
                declared.inputs.append(f"*{name}")
                variadic = True
            # Files do not contain these two; the builder passes them.
            elif name in ("outputs", "blob"):
                continue
            elif parameter.kind is parameter.VAR_KEYWORD or name in RESERVED:
                raise DeclarationError(
                    f"{type}: the parameter {name!r}",
                    rule="each argument must be a separate parameter, with a name other than "
                    f"{', '.join(sorted(RESERVED))}",
                    fix="declare each argument after * with another name",
                )
            # A weight may be optional: ``Tensor | None``.
            elif Tensor in (annotation, *get_args(annotation)):
                declared.weights[name] = required
            else:
                declared.arguments[name] = _argument(name, annotation, parameter)
        declared.maximum = None if variadic else len(declared.inputs)
        return declared


def _argument(name: str, annotation: Any, parameter: inspect.Parameter) -> Argument:
    """Return the argument of a keyword parameter; its description is the text in ``Annotated``."""
    doc = ""
    if get_origin(annotation) is Annotated:
        annotation, doc, *_ = get_args(annotation)
    if parameter.default is parameter.empty:
        return Argument(name, annotation, True, None, str(doc))
    return Argument(name, annotation, False, parameter.default, str(doc))


@dataclass(frozen=True)
class OperatorSchema:
    """Inputs, arguments and weights of an operator type; :meth:`of` creates a schema, :meth:`check` checks an operator.

    ``in_place`` contains (input, output) pairs that may be the same blob, and ``enforced`` the pairs that must be.
    """

    type: str
    doc: str
    inputs: Count
    outputs: Count
    input_names: tuple[str, ...]
    arguments: Mapping[str, Argument]
    weights: Mapping[str, bool]
    """weight → whether it is required"""
    in_place: Pairs
    enforced: Pairs
    gradient: GradientKind = "own"
    """"own": the gradient of the operator's expressions; "none": no gradient; "refused": an error, because the gradient
    must not be used; "missing": an error, because the gradient is not implemented"""
    no_gradient: tuple[int, ...] = ()
    """positions of inputs that have no gradient, such as class labels"""
    by_output: bool | tuple[int, ...] = False
    """whether the gradient can be computed after an output has overwritten an input, or the positions of the inputs
    that may be overwritten"""
    planned: bool = True
    """whether the operator is part of a plan; otherwise a workspace runs it separately"""

    @classmethod
    def of(
        cls,
        type: str,
        function: Callable[..., Any],
        *,
        in_place: bool | Pairs = (),
        enforced: Pairs = (),
        inputs: Collection[int] = (),
        outputs: Collection[int] = (),
        gradient: GradientKind = "own",
        no_gradient: tuple[int, ...] = (),
        by_output: bool | tuple[int, ...] = False,
        planned: bool = True,
    ) -> OperatorSchema:
        """Return the schema of a function; ``inputs`` and ``outputs`` restrict the allowed numbers of blobs.

        Raise DeclarationError for a signature that no operator can have.
        """
        hints = get_type_hints(function, include_extras=True)
        declared = _Declared.of(type, function, hints)
        return cls(
            type,
            inspect.getdoc(function) or "",
            Count(declared.minimum, declared.maximum, frozenset(inputs) or None),
            _outputs(hints.get("return"), outputs),
            tuple(declared.inputs),
            declared.arguments,
            declared.weights,
            ((0, 0),) if in_place is True else tuple(in_place or ()),
            tuple(enforced),
            gradient,
            no_gradient,
            by_output,
            planned,
        )

    def may_be_overwritten(self, position: int) -> bool:
        """Return whether an output may overwrite the input at ``position`` before the gradient is computed."""
        return self.by_output is True or (self.by_output is not False and position in self.by_output)

    def check(self, operator: OperatorDefinition) -> None:
        """Raise OperandError or UnknownNameError unless an operator conforms to its type."""
        self._check_blobs(operator)
        self._check_arguments(operator.arguments)
        for name in operator.weights:
            if name not in self.weights:
                raise UnknownNameError(name, kind=f"weight of {self.type}", known=self.weights)
        missing = [name for name, required in self.weights.items() if required and name not in operator.weights]
        if missing:
            raise self._refusal(f"the weight {missing[0]!r} is missing", f"it must have {', '.join(self.weights)}")

    def _check_blobs(self, operator: OperatorDefinition) -> None:
        """Raise OperandError for wrong numbers of blobs, and for outputs that must not overwrite an input."""
        for verb, names, count in (
            ("reads", operator.inputs, self.inputs),
            ("writes", operator.outputs, self.outputs),
        ):
            if len(names) not in count:
                raise self._refusal(
                    f"it {verb} {counted_text(len(names), 'blob')}: {', '.join(names) or 'none'}",
                    f"it must {verb.removesuffix('s')} {count.phrase}: {self}",
                )
        if operator.input_names:
            raise self._refusal(
                f"blobs are passed by name: {', '.join(operator.input_names)}", "blobs must be passed in order"
            )
        allowed = {*self.in_place, *self.enforced}
        for output, blob in enumerate(operator.outputs):
            at = [position for position, read in enumerate(operator.inputs) if read == blob]
            # The blob may be several inputs, one of which must allow it.
            if at and not any((position, output) in allowed for position in at):
                pairs = ", ".join(f"input {a} → output {b}" for a, b in sorted(allowed))
                raise self._refusal(
                    f"it reads and overwrites {blob!r}",
                    "an output must not be an input" + f", except {pairs}" * bool(pairs),
                    "give the output another name",
                )
        for position, output in self.enforced:
            pair = operator.inputs[position : position + 1], operator.outputs[output : output + 1]
            if all(pair) and pair[0] != pair[1]:
                raise self._refusal(
                    f"it reads {pair[0][0]!r} and writes {pair[1][0]!r}",
                    f"output {output} must overwrite input {position}",
                    f"name the output {pair[0][0]!r}",
                )

    def _check_arguments(self, arguments: Mapping[str, Any]) -> None:
        for name, value in arguments.items():
            argument = self.arguments.get(name)
            if argument is None:
                raise UnknownNameError(name, kind=f"argument of {self.type}", known=self.arguments)
            if not accepts(argument.kind, value):
                raise self._refusal(f"{name}={value!r}", f"{name} must be of type {kind_text(argument.kind)}")
        missing = [name for name, argument in self.arguments.items() if argument.required and name not in arguments]
        if missing:
            raise self._refusal(f"the argument {missing[0]!r} is missing", f"the arguments must conform to {self}")

    def _refusal(self, problem: str, rule: str, fix: str = "") -> ExplorerError:
        return OperandError(problem, rule=f"{self.type}: {rule}", fix=fix)

    @cached_property
    def signature(self) -> inspect.Signature:
        """Signature of the net method for this type."""
        parameters = [
            inspect.Parameter("inputs", inspect.Parameter.POSITIONAL_OR_KEYWORD, default=()),
            inspect.Parameter("outputs", inspect.Parameter.POSITIONAL_OR_KEYWORD, default=None),
        ]
        for name, required in self.weights.items():
            default = inspect.Parameter.empty if required else None
            parameters.append(
                inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation="array")
            )
        for argument in self.arguments.values():
            default = inspect.Parameter.empty if argument.required else argument.default
            parameters.append(
                inspect.Parameter(
                    argument.name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=kind_text(argument.kind)
                )
            )
        return inspect.Signature(parameters)

    def __str__(self) -> str:
        keywords = [f"{name}: array{'' if required else ' = None'}" for name, required in self.weights.items()]
        keywords += map(str, self.arguments.values())
        return f"{self.type}({', '.join([*self.input_names, *['*'] * bool(keywords), *keywords])}) → {self.outputs}"

    @cached_property
    def help(self) -> str:
        """Description of the schema, shown by ``help``."""
        lines = [str(self), *([""] * bool(self.doc)), *self.doc.splitlines(), "", f"reads {self.inputs.phrase}"]
        lines += [f"  {name}" for name in self.input_names] + [f"writes {self.outputs.phrase}"]
        lines += [f"input {a} and output {b} may be one blob" for a, b in self.in_place]
        lines += [f"input {a} and output {b} are one blob" for a, b in self.enforced]
        lines += [f"weight {name}{'' if required else ', optional'}" for name, required in self.weights.items()]
        lines += [
            f"argument {argument}{f': {argument.doc}' * bool(argument.doc)}" for argument in self.arguments.values()
        ]
        return "\n".join(lines)


def _outputs(annotation: Any, allowed: Collection[int]) -> Count:
    if get_origin(annotation) is tuple:
        parts = get_args(annotation)
        number = None if parts[-1:] == (Ellipsis,) else len(parts)
        return Count(1 if number is None else number, number, frozenset(allowed) or None)
    return Count(1, 1, frozenset(allowed) or None)


def accepts(annotation: Any, value: Any) -> bool:
    """Return whether a plain value has the annotated type; an integer is also a float, but a boolean is no number."""
    if annotation is Any:
        return True
    origin, parts = get_origin(annotation), get_args(annotation)
    if origin in (Union, types.UnionType):
        return any(accepts(part, value) for part in parts)
    if origin is Literal:
        return any(type(value) is type(part) and value == part for part in parts)
    if origin is tuple and isinstance(value, tuple):
        if parts[-1] is Ellipsis:
            return all(accepts(parts[0], item) for item in value)
        return len(value) == len(parts) and all(map(accepts, parts, value))
    # By type, not isinstance, since bool is a subclass of int.
    return type(value) in _PLAIN.get(annotation, ())


def kind_text(annotation: Any) -> str:
    """Return an annotation as source code."""
    return inspect.formatannotation(annotation)
