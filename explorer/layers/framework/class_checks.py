"""What a layer class declares: ports, constructor arguments, forward; checked where the class is written."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from keyword import iskeyword
from typing import TYPE_CHECKING, Any, ClassVar, get_origin

from explorer.core.bit_keys import exact
from explorer.core.errors import DeclarationError
from explorer.core.types.tensor_type import TensorType
from explorer.layers.framework.ports import Ports

if TYPE_CHECKING:
    from explorer.layers.framework.layer import Layer

_REQUIRED = inspect.Parameter.empty


@dataclass(frozen=True, slots=True)
class Field:
    """A constructor argument of a layer class."""

    name: str
    default: Any = _REQUIRED


def fields_of(cls: type[Layer], taken: Iterable[str]) -> tuple[Field, ...]:
    """The constructor arguments that a class inherits, and those that it annotates.

    Raises DeclarationError for names that are ``taken``, or that explorer's own base classes have.
    """
    found = {field.name: field for field in cls.fields}
    bases = [base for base in cls.__mro__[1:] if base.__module__.startswith("explorer.layers.")]
    reserved = {*taken, *[name for base in bases for name in vars(base)]} - set(found)
    for name, kind in inspect.get_annotations(cls).items():
        if _class_variable(kind):
            continue
        if name in reserved:
            raise DeclarationError(
                f"the argument {name!r} of the layer class {cls.__name__}",
                rule="every layer has an attribute of this name",
                fix=f"name it otherwise, or annotate it as ClassVar if the class sets it: {name}: ClassVar[…]",
            )
        found[name] = Field(name, vars(cls).get(name, _REQUIRED))
    given = [field.name for field in found.values() if field.default is not _REQUIRED]
    for field in found.values():
        if field.default is _REQUIRED and given and list(found).index(field.name) > list(found).index(given[0]):
            raise DeclarationError(
                f"the argument {field.name!r} of the layer class {cls.__name__} has no default",
                rule=f"it comes after {given[0]!r}, which has one",
                fix="give it a default, or annotate it first",
            )
    return tuple(found.values())


def bind(layer: Layer, arguments: tuple[Any, ...], named: dict[str, Any]) -> dict[str, Any]:
    """The values of a layer's fields; raises DeclarationError for arguments that do not fit."""
    signature = inspect.Signature(
        [
            inspect.Parameter(field.name, inspect.Parameter.POSITIONAL_OR_KEYWORD, default=field.default)
            for field in layer.fields
        ]
    )
    try:
        bound = signature.bind(*arguments, **named)
    except TypeError as error:
        raise DeclarationError(
            f"the {type(layer).__name__} layer {vars(layer)['_name']!r}: {error}",
            rule=f"its arguments are {signature}, and policies, train, inputs",
        ) from None
    bound.apply_defaults()
    return bound.arguments


def check_hashable(layer: Layer) -> None:
    """Raise DeclarationError for an argument whose value could change."""
    for field in layer.fields:
        value = getattr(layer, field.name)
        try:
            hash(exact(value))
        except TypeError:
            raise DeclarationError(
                f"the argument {field.name!r} of {layer!r} is a {type(value).__name__}",
                rule="arguments can be hashed: layers of equal arguments share what they record",
                fix="pass a tuple for a list, ex.tensor(…) for an array",
            ) from None


def input_types(layer: Layer, given: Mapping[str, TensorType]) -> dict[str, TensorType]:
    """The types of a layer's inputs by port; raises DeclarationError, or what Ports do, where they are none."""
    if not isinstance(given, Mapping):
        raise DeclarationError(
            f"inputs={given!r} of {layer!r}", rule="the types of its inputs by port", fix="inputs={port: ex.TensorType}"
        )
    found = Ports(layer.inputs, repr(layer), given).complete()
    for port, kind in found.items():
        if not isinstance(kind, TensorType):
            raise DeclarationError(
                f"the port {port!r} of {layer!r} made for {kind!r}",
                rule="what a port takes is a TensorType",
                fix="ex.TensorType(shape, dtype), or the type of an expression: x.type",
            )
    return dict(found)


def check_class(cls: type[Layer], base: type[Layer]) -> None:
    """Raise DeclarationError where the constructor, the ports or ``forward`` of a class are not a layer's."""
    if "__init__" in vars(cls):
        raise DeclarationError(
            f"__init__ of the layer class {cls.__name__}",
            rule="a layer's constructor takes its name, the arguments that its class annotates, and policies",
            fix="annotate the arguments (factor: float = 1.0); derive other attributes from them in prepare()",
        )
    check_ports(cls.__name__, cls.inputs, cls.outputs)
    if "forward" not in vars(cls):
        return
    parameters = [*inspect.signature(cls.forward).parameters.values()][1:]
    taken = tuple([p.name for p in parameters if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)])
    if not any(p.kind is p.VAR_KEYWORD for p in parameters) and set(taken) != set(cls.inputs):
        default = " (the default)" if cls.inputs is base.inputs else ""
        raise DeclarationError(
            f"forward of the layer class {cls.__name__} takes ({', '.join(taken)})",
            rule=f"it takes its input ports by name: {', '.join(cls.inputs) or 'none'}{default}",
            fix=f"name its arguments so, or declare the ports: inputs = {taken!r}",
        )


def check_ports(owner: str, inputs: Any, outputs: Any) -> None:
    """Raise DeclarationError for port names that are not tuples of different names."""
    for what, names in (("inputs", inputs), ("outputs", outputs)):
        whole = isinstance(names, tuple) and all(isinstance(name, str) for name in names)
        if not whole or len(set(names)) != len(names):
            raise DeclarationError(
                f"{what} of {owner}: {names!r}",
                rule="ports are a tuple of different names",
                fix=f'{what} = ("{what[:-1]}",)',
            )
        for name in names:
            if not name.isidentifier() or iskeyword(name) or name == "self":
                raise DeclarationError(
                    f"the port {name!r} of {owner}", rule="a port's name can be that of a Python argument"
                )


def _class_variable(kind: Any) -> bool:
    return kind is ClassVar or get_origin(kind) is ClassVar or (isinstance(kind, str) and "ClassVar" in kind)
