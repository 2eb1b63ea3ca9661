"""Functions: a body traced once per combination of operand types; a call of it is one node."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass, field
from types import FunctionType
from typing import Any, ClassVar, Generic, ParamSpec, TypeVar

from explorer.core.errors import DeclarationError, StateError
from explorer.core.example import Example
from explorer.core.expr import Expr, Scope, record, scope, state
from explorer.core.expr import next_uid as _next_uid
from explorer.core.graph import reachable
from explorer.core.hooks import hooks
from explorer.core.operation import Operation, as_operands
from explorer.core.structure import flatten, unflatten
from explorer.core.tensor import Tensor
from explorer.core.types import AnyType, TensorType, TupleType

_Parameters = ParamSpec("_Parameters")
_Result = TypeVar("_Result")


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


@dataclass(eq=False, slots=True)
class Body:
    """A traced function: parameters in, outputs out; ``captured`` are the outer values that it reads, as hidden operands."""

    name: str
    parameters: tuple[Expr, ...]
    captured: tuple[Expr, ...]
    outputs: tuple[Expr, ...]
    scope: Scope | None = None
    structure: Any = None
    nodes: tuple[Expr, ...] = ()
    """every node of the body in order of recording, parameters included"""
    augmented: Any = None
    """what differentiating this body gave, made when it is first asked for (see grad/calls)"""
    derived: dict[Any, Any] = field(default_factory=dict)
    """other bodies made from this one, by what they are for: planning, batching"""

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

    def infer(self, *types: AnyType) -> AnyType:
        kinds = tuple([output.type for output in self.body.outputs])
        return kinds[0] if len(kinds) == 1 else TupleType(kinds)  # type: ignore[arg-type]

    def kernel(self, out: Any, *operands: Any) -> Any:
        raise StateError(f"the kernel of the call {self.label!r}", rule="a call is run by planning its body")

    def gradient(self, upstream: Any, result: Expr, *operands: Expr) -> tuple[Expr | None, ...]:
        return tuple(hooks.call_gradient(self, upstream, result, operands))

    def batch(self, size: int, batched: tuple[bool, ...], *operands: Expr) -> Expr:
        found: Expr = hooks.batch_call(self, size, batched, operands)
        return found

    def flops(self, result: AnyType, *types: AnyType) -> int:
        total = 0
        for node in self.body.nodes:
            total += node.operation.flops(node.type, *[operand.type for operand in node.operands])  # type: ignore[arg-type]
        return total

    @property
    def label(self) -> str:
        return self.body.name



@dataclass(slots=True)
class _Trace:
    body: Body
    watched: tuple[tuple[Callable[[], Any], int], ...]
    """readers of outer variables and the identity of what they held while tracing"""
    call: Call


class Function(Generic[_Parameters, _Result]):
    """A traced Python function; ``traces`` counts how often its body was recorded."""

    def __init__(self, function: Callable[_Parameters, _Result], name: str = "") -> None:
        functools.update_wrapper(self, function)
        self._function = function
        self.name = name or getattr(function, "__name__", "function")
        self._traces: dict[Any, list[_Trace]] = {}

    @property
    def traces(self) -> int:
        """How many bodies were recorded: one for each combination of operand types and static arguments."""
        return sum(map(len, self._traces.values()))

    def __call__(self, *args: _Parameters.args, **kwargs: _Parameters.kwargs) -> _Result:
        if kwargs:
            leaves, structure = flatten((args, kwargs))
        elif all([isinstance(argument, Expr) for argument in args]):
            leaves, structure = list(args), len(args)
        else:
            leaves, structure = flatten((args, kwargs))
        operands: list[Expr] = []
        statics: list[Any] = []
        for leaf in leaves:
            if isinstance(leaf, Expr):
                operands.append(leaf)
                statics.append(leaf.type)
            elif hasattr(leaf, "__array__") and getattr(leaf, "ndim", 0):
                (operand,) = as_operands((leaf,))
                operands.append(operand)
                statics.append(operand.type)
            else:
                statics.append((type(leaf), leaf))
        key = (structure, tuple(statics))
        trace = self._find(key) or self._record(key, operands, args, kwargs)
        result = record(trace.call, (*operands, *trace.body.captured))
        return self._unpack(trace.body, result)

    def _find(self, key: Any) -> _Trace | None:
        try:
            known = self._traces.get(key, ())
        except TypeError:
            raise DeclarationError(
                f"a call of {self.name} with an argument that cannot be hashed",
                rule="arguments are expressions, arrays, containers of them, or static values that can be hashed",
                fix="pass a tuple for a list of numbers, or ex.tensor for an array",
            ) from None
        for trace in known:
            if all(id(read()) == held for read, held in trace.watched):
                return trace
        return None

    def _record(self, key: Any, operands: list[Expr], args: Any, kwargs: Any) -> _Trace:
        start = _next_uid()
        names = self._names(args, kwargs, operands)
        outer, state.scope = state.scope, None
        state.traces = (*state.traces, start)
        try:
            with scope(self.name, "function") as inside:
                parameters = tuple(Parameter(node.type, name)() for node, name in zip(operands, names, strict=True))
                given = iter(parameters)
                traced_args, traced_kwargs = _replace((args, kwargs), given)
                result = self._function(*traced_args, **traced_kwargs)
        finally:
            state.traces = state.traces[:-1]
            state.scope = outer
        leaves, structure = flatten(result)
        if not leaves or not all(isinstance(leaf, Expr) for leaf in leaves):
            raise DeclarationError(
                f"{self.name} returned {type(result).__name__}",
                rule="a function returns an expression, or nested containers of expressions",
                fix="return what it computes; wrap a constant in ex.tensor",
            )
        own = {node.uid for node in parameters}

        def is_outer(node: Expr) -> bool:
            return node.uid not in own and (isinstance(node, Tensor) or (node.uid < start and bool(node.operands)) or _foreign(node))

        captured = tuple(node for node in reachable(leaves, stop=is_outer) if is_outer(node))
        body = make_body(self.name, parameters, captured, tuple(leaves), inside, structure)
        trace = _Trace(body, self._watched(captured), Call(body))
        self._traces.setdefault(key, []).append(trace)
        return trace

    def _names(self, args: Any, kwargs: Any, operands: list[Expr]) -> list[str]:
        code = getattr(self._function, "__code__", None)
        names: list[str] = []
        positional = code.co_varnames[: code.co_argcount] if code is not None else ()
        for index, argument in enumerate(args):
            title = positional[index] if index < len(positional) else f"argument{index}"
            names.extend(_leaf_names(title, argument))
        for title, argument in kwargs.items():
            names.extend(_leaf_names(title, argument))
        return names if len(names) == len(operands) else [f"argument{i}" for i in range(len(operands))]

    def _watched(self, captured: tuple[Expr, ...]) -> tuple[tuple[Callable[[], Any], int], ...]:
        """The outer variables that hold captured values: rebinding one makes the next call trace again."""
        function = self._function
        if not isinstance(function, FunctionType):
            return ()
        readers: list[Callable[[], Any]] = []
        for cell in function.__closure__ or ():
            readers.append(functools.partial(getattr, cell, "cell_contents", None))
        for name in function.__code__.co_names:
            if name in function.__globals__:
                readers.append(functools.partial(function.__globals__.get, name))
        held = {id(node) for node in captured}
        simple = (int, float, complex, str, tuple, Expr)
        return tuple((read, id(value)) for read in readers if id(value := read()) in held or isinstance(value, simple))

    @staticmethod
    def _unpack(body: Body, result: Expr) -> Any:
        if body.structure is None:
            return result
        if len(body.outputs) == 1:
            return unflatten(body.structure, [result])
        return unflatten(body.structure, [record(Item(index), (result,)) for index in range(len(body.outputs))])


def _foreign(node: Expr) -> bool:
    return isinstance(node.operation, Parameter)


def _replace(value: Any, given: Any) -> Any:
    leaves, structure = flatten(value)
    is_operand = [isinstance(leaf, Expr) or (hasattr(leaf, "__array__") and getattr(leaf, "ndim", 0)) for leaf in leaves]
    return unflatten(structure, [next(given) if yes else leaf for leaf, yes in zip(leaves, is_operand, strict=True)])


def _leaf_names(title: str, argument: Any) -> list[str]:
    leaves, _ = flatten(argument)
    operands = [leaf for leaf in leaves if isinstance(leaf, Expr) or (hasattr(leaf, "__array__") and getattr(leaf, "ndim", 0))]
    return [title] if len(operands) == 1 else [f"{title}{index}" for index in range(len(operands))]


def function(body: Callable[_Parameters, _Result]) -> Function[_Parameters, _Result]:
    """Trace a Python function once per combination of operand types: each call is then one node, one box.

    Expressions that the body reads from outside become hidden operands; rebinding such a variable records the body
    again. Arguments that are neither expressions nor arrays are static: each value has its own body.
    """
    return Function(body)


