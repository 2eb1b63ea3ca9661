"""Bodies of traced functions, and calls, each of which is a single node for a whole body.

``ex.function`` creates a body for each combination of argument types, and layers and nets create one for their forward
pass. Planning either replaces a call by the nodes of its body, or plans the body separately. Bodies are stored outside
the graph, so a thousand calls share one recording.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Protocol

from explorer.core.errors import StateError
from explorer.core.ir.expr import Expr, Operation
from explorer.core.ir.operation_examples import Example
from explorer.core.ir.recording_context import Scope, recording_at, state
from explorer.core.ir.traversal import reachable, rebuild
from explorer.core.late import late
from explorer.core.policy import Minor, Policy
from explorer.core.types.tensor_type import AnyType, TensorType, TupleType
from explorer.record.reasons import counted_text


class Parameter(Operation):
    """Parameter of a function body, or named input of a net, whose value comes from a call."""

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
            rule="a parameter must get its value from a call of the function",
            fix="evaluate a call of the function, or give the net its inputs",
        )

    def flops(self, result: AnyType, *types: TensorType) -> int:
        return 0

    @property
    def label(self) -> str:
        return self.title


class Item(Operation):
    """One output of a value that has several outputs."""

    index: int
    view = True
    takes_tuples = True
    linear = True
    nondifferentiable = "the gradient goes to its output's place in the operand; see grad/backward"
    unbatchable = "outputs are batched with the operation that makes them"

    def infer(self, value: AnyType) -> AnyType:
        if not isinstance(value, TupleType) or not 0 <= self.index < len(value.parts):
            raise self.refuse((value,), f"the operand must have an output number {self.index}")
        return value.parts[self.index]

    def kernel(self, out: None, value: Any) -> Any:
        return value[self.index]

    def flops(self, result: AnyType, *types: TensorType) -> int:
        return 0


@functools.cache
def item(index: int) -> Item:
    """Return the operation that reads output ``index``; cached, because each call's gradient uses several."""
    return Item(index)


@dataclass(eq=False, slots=True, weakref_slot=True)
class Body:
    """Traced function from ``parameters`` to ``outputs``.

    ``captured`` lists the outer values that the function reads, which become hidden operands of calls.
    """

    name: str
    parameters: tuple[Expr, ...]
    captured: tuple[Expr, ...]
    outputs: tuple[Expr, ...]
    scope: Scope | None = None
    structure: Any = None
    nodes: tuple[Expr, ...] = ()
    """all nodes of the body, including parameters, in order of recording"""
    derived: dict[Any, Any] = field(default_factory=dict)
    """values derived from this body: gradients, vectorized bodies, plans"""
    policies: Mapping[Minor, Policy] = field(default_factory=lambda: state.policies)
    """policies that applied during recording, which also apply to the body's gradient"""

    @property
    def ports(self) -> tuple[dict[str, int], dict[str, int]]:
        """Indices of the parameters, and indices of the outputs, by name."""
        inputs = {node.operation.label: index for index, node in enumerate(self.parameters)}
        container, names = self.derived.get("structure", self.structure) or (None, ())
        outputs = {str(name): index for index, (name, _) in enumerate(names)} if container is dict else {}
        return {name: index for name, index in inputs.items() if name.isidentifier()}, outputs

    @property
    def flops(self) -> int:
        """Number of arithmetic operations of all nodes, including called bodies."""
        # no recursion, because calls may be nested thousands of levels deep
        pending = [self]
        while "flops" not in self.derived:
            called_bodies = [node.operation.body for node in pending[-1].nodes if isinstance(node.operation, Call)]
            unfinished = [body for body in called_bodies if "flops" not in body.derived]
            if unfinished:
                pending += unfinished
                continue
            body = pending.pop()
            body.derived["flops"] = sum(
                [node.operation.flops(node.type, *[operand.type for operand in node.operands]) for node in body.nodes]
            )
        total: int = self.derived["flops"]
        return total

    def __repr__(self) -> str:
        return f"Body({self.name!r}, {counted_text(len(self.nodes), 'node')})"


def make_body(
    name: str,
    parameters: tuple[Expr, ...],
    captured: tuple[Expr, ...],
    outputs: tuple[Expr, ...],
    scope: Scope | None = None,
    structure: Any = None,
) -> Body:
    """Return a body over its parameters, in which ``captured`` values become hidden operands of calls."""
    # Stop at parameters and captured values, because a call's operands replace them.
    boundary = {node.uid for node in captured} | {node.uid for node in parameters}
    return Body(
        name,
        parameters,
        captured,
        outputs,
        scope,
        structure,
        tuple(reachable((*parameters, *outputs), stop=lambda node: node.uid in boundary)),
    )


class CallGradient(Protocol):
    """Gradients of a call's operands, including hidden operands; None for operands that are not ``wanted``.

    If ``wanted`` is None, all operands are wanted.
    """

    def __call__(
        self,
        call: Call,
        upstream: Expr | Sequence[Expr | None],
        result: Expr,
        operands: tuple[Expr, ...],
        wanted: tuple[bool, ...] | None = None,
        /,
    ) -> list[Expr | None]: ...


class CallBatch(Protocol):
    """Recording of a body's batched form, in which some operands have a leading axis of ``size`` elements."""

    def __call__(self, call: Call, size: int, batched: tuple[bool, ...], operands: tuple[Expr, ...], /) -> Expr: ...


@dataclass(slots=True)
class CallRules:
    """Gradient and batching of calls, which need operations from packages above the core."""

    gradient: CallGradient = late("explorer.gradients.call_gradient:call_gradient")
    batch: CallBatch = late("explorer.plan.batching.vectorize:batch_call")


call_rules = CallRules()


class Call(Operation):
    """Call of a function: one node for the function's whole body."""

    body: Body
    takes_tuples = True
    inlinable: ClassVar[bool] = True
    """whether the body's nodes can replace the call, which is impossible for branches and loops"""
    turns: ClassVar[int] = 1
    """number of times that the body runs, for cost estimates; 1 if it depends on values"""

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "pure", all(node.operation.pure for node in self.body.nodes))

    def infer(self, *types: AnyType) -> AnyType:
        output_types = tuple([output.type for output in self.body.outputs])
        return output_types[0] if len(output_types) == 1 else TupleType(output_types)  # type: ignore[arg-type]  # outputs are unpacked: none is a tuple

    def kernel(self, out: Any, *operands: Any) -> Any:
        raise StateError(
            f"the kernel of the call {self.label!r}",
            rule="a call has no kernel, so it must be planned with its body",
            fix="ex.evaluate(x)",
        )

    def gradient(self, upstream: Any, result: Expr, *operands: Expr) -> tuple[Expr | None, ...]:
        return tuple(self.wanted_gradients(upstream, result, operands, (True,) * len(operands)))

    def wanted_gradients(
        self, upstream: Any, result: Expr, operands: tuple[Expr, ...], wanted: tuple[bool, ...]
    ) -> list[Expr | None]:
        """Return the gradient of each operand; None, with nothing recorded, for operands that are not ``wanted``."""
        return call_rules.gradient(self, upstream, result, operands, wanted)

    def batch(self, size: int, batched: tuple[bool, ...], *operands: Expr) -> Expr:
        return call_rules.batch(self, size, batched, operands)

    def flops(self, result: AnyType, *types: AnyType) -> int:
        return self.body.flops

    @property
    def planned_bodies(self) -> tuple[Body, ...]:
        """Bodies that are planned separately if the call runs as one kernel."""
        return (self.body,)

    @property
    def label(self) -> str:
        return self.body.name


def close_over(body: Body, captured: tuple[Expr, ...]) -> tuple[tuple[Expr, ...], tuple[Expr, ...]]:
    """Return a body's inputs and outputs, with additional parameters in place of the ``captured`` values.

    The inputs are the body's parameters, followed by the parameters for ``captured`` in order. ``captured`` must
    include all values that the body captures; the nodes that compute them are not part of the result.
    """
    if not captured:
        return body.parameters, body.outputs
    parameters_of = {}
    for node in captured:
        with recording_at(body.scope, node.code, node.instruction):
            parameters_of[node.uid] = Parameter(node.type, node.label)()
    images = {**parameters_of, **{node.uid: node for node in body.parameters}}
    copies = rebuild([node for node in body.nodes if node.uid not in images], images, lambda node: node.scope)
    inputs = (*body.parameters, *[parameters_of[node.uid] for node in captured])
    return inputs, tuple([copies[node.uid] for node in body.outputs])
