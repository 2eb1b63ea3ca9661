"""The body of a traced function, and the call of one: a single node that stands for the whole body."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

from explorer.core.errors import StateError
from explorer.core.hooks import hooks
from explorer.core.ir.examples import Example
from explorer.core.ir.expr import Expr, Scope, state
from explorer.core.ir.operation import Operation
from explorer.core.ir.traversal import reachable
from explorer.core.policy import Minor, Policy
from explorer.core.types.tensor_type import AnyType, TensorType, TupleType


class Parameter(Operation):
    """An operand of a function's body, or a named input of a net: its value is given from outside."""

    kind: AnyType
    title: str
    view = True
    nondifferentiable = "a parameter has no operands"
    unbatchable = "a parameter has no operands to batch"
    examples: ClassVar[tuple[Example, ...]] = (Example(kind=TensorType(()), title="x"),)

    def infer(self) -> AnyType:
        return self.kind

    def kernel(self, out: None) -> Any:
        raise StateError(
            f"the value of the parameter {self.title!r}",
            rule="a parameter stands for a value that a call gives",
            fix="evaluate a call of the function, or give the net its inputs",
        )

    def flops(self, result: AnyType, *types: TensorType) -> int:
        return 0

    @property
    def label(self) -> str:
        return self.title


class Item(Operation):
    """One output of a value with several outputs."""

    index: int
    view = True
    takes_tuples = True
    linear = True
    nondifferentiable = "the gradient goes to its output's place in the operand; see grad/backward"
    unbatchable = "outputs are batched with the operation that makes them"

    def infer(self, value: AnyType) -> AnyType:
        if not isinstance(value, TupleType) or not 0 <= self.index < len(value.parts):
            raise self.refuse((value,), f"the operand has an output number {self.index}")
        return value.parts[self.index]

    def kernel(self, out: None, value: Any) -> Any:
        return value[self.index]

    def flops(self, result: AnyType, *types: TensorType) -> int:
        return 0


@functools.cache
def item(index: int) -> Item:
    """The operation that reads an output of this number: gradients ask for some at each call."""
    return Item(index)


@dataclass(eq=False, slots=True)
class Body:
    """A traced function: parameters in, outputs out; ``captured``, the outer values it reads, are hidden operands."""

    name: str
    parameters: tuple[Expr, ...]
    captured: tuple[Expr, ...]
    outputs: tuple[Expr, ...]
    scope: Scope | None = None
    structure: Any = None
    nodes: tuple[Expr, ...] = ()
    """every node of the body in order of recording, parameters included"""
    derived: dict[Any, Any] = field(default_factory=dict)
    """what was made from this body, by what it is for: gradients, batches, plans"""
    policies: Mapping[Minor, Policy] = field(default_factory=lambda: state.policies)
    """what was around it when it was recorded: its gradient is recorded under them too"""

    @property
    def ports(self) -> tuple[dict[str, int], dict[str, int]]:
        """Places of the operands and outputs that have names, by name."""
        inputs = {node.operation.label: place for place, node in enumerate(self.parameters)}
        kind, names = self.derived.get("structure", self.structure) or (None, ())
        outputs = {str(name): place for place, (name, _) in enumerate(names)} if kind is dict else {}
        return {name: place for name, place in inputs.items() if name.isidentifier()}, outputs

    @property
    def flops(self) -> int:
        """Arithmetic of all nodes, those of the bodies that they call too, which may be nested deep."""
        pending = [self]
        while "flops" not in self.derived:
            inner = [node.operation.body for node in pending[-1].nodes if isinstance(node.operation, Call)]
            waiting = [body for body in inner if "flops" not in body.derived]
            if waiting:
                pending += waiting
                continue
            body = pending.pop()
            body.derived["flops"] = sum(
                [node.operation.flops(node.type, *[operand.type for operand in node.operands]) for node in body.nodes]
            )
        found: int = self.derived["flops"]
        return found

    def __repr__(self) -> str:
        return f"Body({self.name!r}, {len(self.nodes)} nodes)"


def make_body(
    name: str,
    parameters: tuple[Expr, ...],
    captured: tuple[Expr, ...],
    outputs: tuple[Expr, ...],
    scope: Scope | None = None,
    structure: Any = None,
) -> Body:
    """A body over its parameters; what it reads and ``captured`` names becomes a hidden operand at each call."""
    outer = {node.uid for node in captured} | {node.uid for node in parameters}
    return Body(
        name,
        parameters,
        captured,
        outputs,
        scope,
        structure,
        tuple(reachable((*parameters, *outputs), stop=lambda node: node.uid in outer)),
    )


class Call(Operation):
    """A call of a function: one node that stands for the function's whole body."""

    body: Body
    takes_tuples = True

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "pure", all(node.operation.pure for node in self.body.nodes))

    def infer(self, *types: AnyType) -> AnyType:
        kinds = tuple([output.type for output in self.body.outputs])
        return kinds[0] if len(kinds) == 1 else TupleType(kinds)  # type: ignore[arg-type]  # outputs are unpacked: none is a tuple

    def kernel(self, out: Any, *operands: Any) -> Any:
        raise StateError(f"the kernel of the call {self.label!r}", rule="a call is run by planning its body")

    def gradient(self, upstream: Any, result: Expr, *operands: Expr) -> tuple[Expr | None, ...]:
        return tuple(hooks.call_gradient(self, upstream, result, operands))

    def batch(self, size: int, batched: tuple[bool, ...], *operands: Expr) -> Expr:
        found: Expr = hooks.batch_call(self, size, batched, operands)
        return found

    def flops(self, result: AnyType, *types: AnyType) -> int:
        return self.body.flops

    @property
    def label(self) -> str:
        return self.body.name
