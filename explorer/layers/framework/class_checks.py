"""Checks of layer classes: ports, constructor arguments and ``forward``.

``Layer`` runs them when a class is defined and when a layer is built, so a wrong name raises an error where it is
written, and not later at the first feed-forward.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from keyword import iskeyword
from typing import Any, ClassVar, get_origin

from explorer.core.errors import DeclarationError
from explorer.core.exact_keys import exact
from explorer.core.types.tensor_type import TensorType
from explorer.layers.framework.ports import Ports

REQUIRED = inspect.Parameter.empty
"""marks a constructor argument that has no default"""


@dataclass(frozen=True, slots=True)
class Field:
    """Constructor argument of a layer class, with its default."""

    name: str
    default: Any = REQUIRED


def fields_of(cls: type[Any], taken: Iterable[str]) -> tuple[Field, ...]:
    """Return the constructor arguments of ``cls``: inherited ones first, then the class's own.

    Raises DeclarationError if a name is in ``taken`` or is an attribute of explorer's base classes.
    """
    fields = {field.name: field for field in cls.fields}
    bases = [base for base in cls.__mro__[1:] if base.__module__.startswith("explorer.layers.")]
    reserved = {*taken, *[name for base in bases for name in vars(base)]} - set(fields)
    for name, annotation in inspect.get_annotations(cls).items():
        # class variables are set by the class, so they are not constructor arguments
        if _class_variable(annotation):
            continue
        if name in reserved:
            raise DeclarationError(
                f"the argument {name!r} of the layer class {cls.__name__}",
                rule="a constructor argument must not have the name of an attribute of all layers",
                fix=f"rename it, or annotate it as ClassVar if the class sets it: {name}: ClassVar[…]",
            )
        fields[name] = Field(name, vars(cls).get(name, REQUIRED))
    with_default = [field.name for field in fields.values() if field.default is not REQUIRED]
    for field in fields.values():
        if (
            field.default is REQUIRED
            and with_default
            and list(fields).index(field.name) > list(fields).index(with_default[0])
        ):
            raise DeclarationError(
                f"the argument {field.name!r} of the layer class {cls.__name__} has no default",
                rule=f"an argument without a default must not follow {with_default[0]!r}, which has a default",
                fix="give it a default, or annotate it first",
            )
    return tuple(fields.values())


def signature_of(cls: type[Any]) -> inspect.Signature:
    """Return the signature of a layer class: the name, its fields, and the options of every layer."""
    parameters = []
    for parameter in [*inspect.signature(cls.__init__).parameters.values()][1:]:
        if parameter.kind is parameter.VAR_POSITIONAL:
            kind = parameter.POSITIONAL_OR_KEYWORD
            parameters += [inspect.Parameter(field.name, kind, default=field.default) for field in cls.fields]
        elif parameter.kind is not parameter.VAR_KEYWORD:
            parameters.append(parameter)
    return inspect.Signature(parameters)


def bind(layer: Any, arguments: tuple[Any, ...], named: dict[str, Any]) -> dict[str, Any]:
    """Return the values of a layer's fields by name; raise DeclarationError if the arguments do not match."""
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
            rule=f"the arguments must be {signature}, and policies, train, inputs",
            fix=f"help({type(layer).__name__}) documents the arguments",
        ) from None
    bound.apply_defaults()
    return bound.arguments


def check_integers(layer: Any, *names: str, least: int = 1) -> None:
    """Raise DeclarationError unless the arguments ``names`` of ``layer`` are integers ≥ ``least``."""
    for name in names:
        number = getattr(layer, name)
        if type(number) is not int or number < least:
            raise DeclarationError(
                f"{type(layer).__name__}({vars(layer)['_name']!r}, …, {name}={number!r})",
                rule=f"{name} must be an integer of {least} or more",
                fix=f"{name}={max(least, 1)}",
            )


def check_hashable(layer: Any) -> None:
    """Raise DeclarationError if an argument of ``layer`` is not hashable, because its value could then change."""
    for field in layer.fields:
        value = getattr(layer, field.name)
        try:
            hash(exact(value))
        except TypeError:
            raise DeclarationError(
                f"the argument {field.name!r} of {layer!r} is a {type(value).__name__}",
                rule="arguments must be hashable, because layers with equal arguments share one traced function",
                fix="pass a tuple for a list, ex.tensor(…) for an array",
            ) from None


def input_types(layer: Any, inputs: Mapping[str, TensorType]) -> dict[str, TensorType]:
    """Return the types of a layer's inputs by port; raise an error if ``inputs`` is invalid."""
    if not isinstance(inputs, Mapping):
        raise DeclarationError(
            f"inputs={inputs!r} of {layer!r}",
            rule="inputs must be a mapping of ports to types",
            fix="inputs={port: ex.TensorType}",
        )
    types = Ports(layer.inputs, repr(layer), inputs).complete()
    for port, port_type in types.items():
        if not isinstance(port_type, TensorType):
            raise DeclarationError(
                f"the port {port!r} of {layer!r} for {port_type!r}",
                rule="the type of a port must be a TensorType",
                fix="ex.TensorType(shape, dtype), or the type of an expression: x.type",
            )
    return dict(types)


def check_class(cls: type[Any], base: type[Any]) -> None:
    """Raise DeclarationError if the constructor, ports or ``forward`` of ``cls`` are invalid."""
    # Copies and sublayers are rebuilt from a layer's arguments, so the arguments must determine the layer completely.
    if "__init__" in vars(cls):
        raise DeclarationError(
            f"__init__ of the layer class {cls.__name__}",
            rule="a layer class must not define __init__; its arguments are a name, the annotated fields and policies",
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
            rule=f"forward must take the input ports by name: {', '.join(cls.inputs) or 'none'}{default}",
            fix=f"rename its arguments, or declare the ports: inputs = {taken!r}",
        )


def check_ports(owner: str, inputs: Any, outputs: Any) -> None:
    """Raise DeclarationError unless ``inputs`` and ``outputs`` are tuples of distinct identifiers."""
    for what, names in (("inputs", inputs), ("outputs", outputs)):
        is_tuple_of_names = isinstance(names, tuple) and all(isinstance(name, str) for name in names)
        if not is_tuple_of_names or len(set(names)) != len(names):
            raise DeclarationError(
                f"{what} of {owner}: {names!r}",
                rule="ports must be a tuple of different names",
                fix=f'{what} = ("{what[:-1]}",)',
            )
        for name in names:
            if not name.isidentifier() or iskeyword(name) or name == "self":
                raise DeclarationError(
                    f"the port {name!r} of {owner}",
                    rule="a port's name must be a Python identifier",
                    fix="use only letters, digits and _, such as 'left_half'",
                )


def _class_variable(annotation: Any) -> bool:
    return (
        annotation is ClassVar
        or get_origin(annotation) is ClassVar
        or (isinstance(annotation, str) and "ClassVar" in annotation)
    )
