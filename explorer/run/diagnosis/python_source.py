"""Python source that records a graph again, with ``ex`` and ``np`` only; leaves are seeded arrays.

Reproducers are made of it. The source is text that a user can read, change and paste into an issue, unlike a pickle,
and it needs no file of values: decisions depend on types and structure, not on elements.
"""

from __future__ import annotations

import builtins
import keyword
import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import MISSING, Field, fields, is_dataclass
from typing import Any

import numpy as np

from explorer.core.errors import OperandError
from explorer.core.ir.expr import Expr
from explorer.core.ir.function import Body, Call, Item
from explorer.core.ir.operation import Operation
from explorer.core.ir.policy_operations import Adjusted
from explorer.core.ir.tensor import Tensor
from explorer.core.policy import Policy
from explorer.core.registry import functions
from explorer.core.types.custom_dtypes import element_of
from explorer.core.types.device import Device, cpu
from explorer.core.types.tensor_type import AnyType, TensorType, TupleType

_CELL_NAMES = ("decision", "loss", "output", "outputs", "root", "taken")
_TAKEN = frozenset({"ex", "np", "plan", "random", *_CELL_NAMES, *keyword.kwlist, *keyword.softkwlist})


class Source:
    """Source lines that record nodes; a node has a name once its line is written."""

    def __init__(self, nodes: Sequence[Expr], cut: Collection[int], parameters: Collection[int] = ()) -> None:
        """Write ``nodes`` in topological order: leaves for those in ``cut``, parameters for those in ``parameters``."""
        self.functions: list[str] = []
        self.lines: list[str] = []
        self.names: dict[int, str] = {}
        self._bodies: dict[int, str] = {}
        self._named: dict[str, str] = {}
        """label of a function → name of the first function with that label"""
        self._used: set[str] = set(_TAKEN)
        self._stored: dict[int, str] = {}
        """storage → name of the tensor that owns it"""
        for body in _bodies(node for node in nodes if node.uid not in cut):
            self._function(body)
        for node in nodes:
            self.names[node.uid] = name = self._name(node.label)
            self.lines.append(f"{name} = {self._leaf(node, parameters) if node.uid in cut else self._value(node)}")

    def _name(self, wish: str) -> str:
        """Return a unique name: that of the leaf or operation if it is an identifier, else v1, v2 …"""
        clean = re.sub(r"[^A-Za-z0-9_]", "_", wish).strip("_")
        base = clean if re.match("[A-Za-z]", clean) and len(clean) <= 24 else "v"
        base += "_" * hasattr(builtins, base)  # the cell leaves Python's own sum and max as they are
        number = 1
        name = base if base != "v" else "v1"
        while name in self._used:
            number += 1
            name = f"{base}{number}"
        self._used.add(name)
        return name

    def _leaf(self, node: Expr, parameters: Collection[int]) -> str:
        type_ = node.tensor_type
        if node.uid in parameters:
            return f'ex.operation("parameter")(kind={written(type_)}, title={node.label!r})()'
        return _array(type_, node.label)

    def _value(self, node: Expr) -> str:
        operation = node.operation
        if isinstance(node, Tensor):
            owner = self._stored.setdefault(id(node.storage), self.names[node.uid])
            return owner if owner != self.names[node.uid] else _array(node.tensor_type, node.name)
        operands = [self.names[operand.uid] for operand in node.operands]
        if isinstance(operation, Adjusted):
            policies = ", ".join(map(written, operation.policies))
            return f"{_called(operation.operation)}({', '.join(operands)}, policies=[{policies}])"
        if isinstance(operation, Item):
            value = node.operands[0].operation
            if isinstance(value, Call) and value.inlinable:  # the function returns a tuple
                return f"{operands[0]}[{operation.index}]"
        elif isinstance(operation, Call):
            name = self._bodies[id(operation.body)]
            if operation.inlinable:
                return f"{name}({', '.join(operands)})"
            types = ", ".join([written(node.type) for node in (*operation.body.parameters, *operation.body.captured)])
            attributes = [f"{n}={written(v)}" for n, v in operation.attributes.items() if n != "body"]
            arguments = ", ".join([f"body={name}.body_for({types})", *attributes])
            return f'ex.operation("{operation.name}")({arguments})({", ".join(operands)})'
        return f"{_called(operation)}({', '.join(operands)})"

    def _function(self, body: Body) -> None:
        """Write a body as a function; captured values become operands."""
        name = self._bodies[id(body)] = self._name(body.name)
        # A function has names and lines of its own, and must not hide those of functions around it.
        outer, lines = (self.names, self._used), self.lines
        self.names, self._used, self.lines = {}, {*self._used}, []
        inputs = (*body.parameters, *body.captured)
        for node in inputs:
            self.names[node.uid] = self._name(node.label)
        arguments = ", ".join([self.names[node.uid] for node in inputs])
        for node in body.nodes:
            if node.uid not in self.names:
                self.names[node.uid] = self._name(node.label)
                self.lines.append(f"{self.names[node.uid]} = {self._value(node)}")
        results = ", ".join([self.names[node.uid] for node in body.outputs])
        inside = [*self.lines, f"return {results}"]
        (self.names, self._used), self.lines = outer, lines
        first = self._named.setdefault(body.name, name)
        self.functions += [
            *[""] * bool(self.functions),
            "@ex.function",
            f"def {name}({arguments}):",
            *[f"    {line}" for line in inside],
            "",
            *["", f"{name}.name = {first!r}"] * (first != name),  # a second body under the same label
        ]


def _bodies(nodes: Iterable[Expr]) -> list[Body]:
    """Return the bodies that nodes call, inner ones first."""
    bodies: dict[int, Body] = {}
    pending = [node.operation.body for node in nodes if isinstance(node.operation, Call)]
    while pending:
        body = pending.pop()
        bodies.pop(id(body), None)
        bodies[id(body)] = body  # moved to the end: all of its callers come before it
        pending.extend([node.operation.body for node in body.nodes if isinstance(node.operation, Call)])
    return list(reversed(bodies.values()))


def _called(operation: Operation) -> str:
    """Return the callable that records an operation."""
    name = operation.name
    if not operation.attribute_names and functions.get(name) is operation:
        return f"ex.{name}"
    attributes = [f"{name}={written(value)}" for name, value in operation.attributes.items()]
    return f'ex.operation("{name}")({", ".join(attributes)})'


def _array(type_: TensorType, name: str) -> str:
    """Return the source of a tensor of this type, drawn from the seeded ``random``."""
    if not type_.plain:
        raise OperandError(
            f"a tensor of {type_}",
            rule="a leaf must have a NumPy dtype and be on cpu",
            fix="convert it first: x.to_device(ex.cpu)",
        )
    shape = written(type_.shape)
    drawn = {
        "b": f"random.integers(0, 2, {shape}).astype(bool)",
        "c": f"random.normal(size={shape}).astype({type_.dtype.name!r})",
        "f": f"random.normal(size={shape}).astype({type_.dtype.name!r})",
    }.get(type_.dtype.kind, f"random.integers(0, 2, {shape}).astype({type_.dtype.name!r})")
    return f"ex.tensor({drawn}, name={name!r})"


def written(value: Any) -> str:
    """Return the source of an attribute or option; raise OperandError if it has none, such as a function."""
    if value is None or isinstance(value, (bool, int, str)):
        return repr(value)
    # Before Python's own floats: np.float64 is one, too, and would lose its dtype.
    if isinstance(value, np.generic):
        return f"np.{value.dtype.name}({written(value.item())})"
    if isinstance(value, float):
        return repr(value) if np.isfinite(value) else f'float("{value}")'
    if isinstance(value, complex):
        return f"complex({written(value.real)}, {written(value.imag)})"
    if isinstance(value, np.dtype) and element_of(value) is None:
        return f'np.dtype("{value.name}")'
    if isinstance(value, (tuple, list)):
        inside = ", ".join(map(written, value)) + ("," if isinstance(value, tuple) and len(value) == 1 else "")
        return f"({inside})" if isinstance(value, tuple) else f"[{inside}]"
    if isinstance(value, TensorType):
        device = "" if value.device is cpu else f", {written(value.device)}"
        return f"ex.TensorType({written(value.shape)}, {written(value.dtype)}{device})"
    if isinstance(value, Device):
        return "ex.cpu" if value is cpu else f"ex.device({value.name!r})"
    if isinstance(value, Operation):
        return _called(value)
    if isinstance(value, Policy) and value.minor.major is not None:
        major = value.minor.major
        return f"{_imported(major)}.{value.minor.name}({written(value.value)})"
    cls = type(value)
    if is_dataclass(cls):
        return f"{_imported(cls)}({options(value)})"
    raise _without_source(value)


def _imported(cls: type) -> str:
    """Return the name of one of explorer's classes; raise OperandError for others, which the source cannot import."""
    if not cls.__module__.startswith("explorer."):
        raise _without_source(cls)
    return f"ex.{cls.__module__.removeprefix('explorer.')}.{cls.__qualname__}"


def _without_source(value: Any) -> OperandError:
    return OperandError(
        f"{value!r} as source",
        rule="attributes must be numbers, strings, types, or tuples of them",
        fix="select the function by a number or a name instead of passing it as an attribute",
    )


def options(value: Any) -> str:
    """Return the fields of a dataclass that differ from their defaults, as keyword arguments."""
    return ", ".join(
        [f"{f.name}={written(getattr(value, f.name))}" for f in fields(value) if getattr(value, f.name) != _default(f)]
    )


def _default(field: Field[Any]) -> Any:
    return field.default_factory() if field.default_factory is not MISSING else field.default


def is_drawable(type_: AnyType) -> bool:
    """Whether a value of this type can be replaced by a random array."""
    return not isinstance(type_, TupleType) and type_.plain
