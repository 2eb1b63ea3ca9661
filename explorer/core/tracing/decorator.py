"""Functions: a Python body traced once per combination of operand types; a call of it is one node.

``@ex.function`` and layers use it. A body is looked up by operand types and static arguments, then its captures are
checked, since a global or an attribute may have changed; only then is a call recorded. Tracing anew at each call would
need no checks, but costs what the body costs, and gives a thousand calls a thousand bodies to plan.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, ParamSpec, TypeVar

import numpy as np

from explorer.core.bit_keys import exact
from explorer.core.errors import DeclarationError
from explorer.core.ir.expr import Expr, next_uid, record, record_typed
from explorer.core.ir.function import Body, Call, Parameter, item, make_body
from explorer.core.ir.identity_comparison import Watched, unchanged
from explorer.core.ir.operation import as_operands
from explorer.core.ir.recording_context import scope, state
from explorer.core.ir.source_location import INTERNAL
from explorer.core.ir.tensor import Tensor
from explorer.core.ir.traversal import reachable
from explorer.core.pytree import flatten, unflatten
from explorer.core.recursion_limit import one_deeper
from explorer.core.tracing.captures import reading, watch
from explorer.core.types.tensor_type import AnyType

_Parameters = ParamSpec("_Parameters")
_Result = TypeVar("_Result")
_KEPT = 4
"""bodies that are kept for one combination of types: the newest, after variables were bound to other values"""
_KEYS = 256
"""combinations of types and static values whose bodies are kept: the newest"""


@dataclass(slots=True)
class _Trace:
    body: Body
    watched: Watched
    call: Call
    type: AnyType
    """of a call's result"""


class Function(Generic[_Parameters, _Result]):
    """A traced Python function; ``traces`` counts how often its body was recorded.

    A body is recorded for each combination of operand types and static arguments, and again when anything that it reads
    from outside has changed: a variable, an attribute, an item of a container, an element of an array.

    >>> double = ex.function(lambda x: x + x)
    >>> a, b = double(ex.tensor([1.0])), double(ex.tensor([2.0]))
    >>> double.traces
    1
    """

    def __init__(self, function: Callable[_Parameters, _Result], name: str = "", kind: str = "function") -> None:
        functools.update_wrapper(self, function)
        self._function = function
        self.name = name or getattr(function, "__name__", "function")
        self.kind = kind
        self.traces = 0
        self._known: dict[Any, list[_Trace]] = {}
        self._active: set[tuple[int, Any]] = set()
        """what is being recorded: threads, each with the key of its call"""

    def __call__(self, *args: _Parameters.args, **kwargs: _Parameters.kwargs) -> _Result:
        """Record a call: one node. Raises DeclarationError for arguments or results that cannot be traced."""
        kinds: list[Any] = []
        operands: tuple[Any, ...] = args
        # the usual call, expressions by position, takes no flattening
        for argument in args:
            if not isinstance(argument, Expr):
                break
            kinds.append(argument.type)
        if not kwargs and len(kinds) == len(args):
            structure = _positional(len(args))
        else:
            kinds, operands, structure = _operands_in(args, kwargs)
        key: Any = (structure, tuple(kinds))
        if state.policies:
            key = (*key, frozenset(state.policies.values()))
        trace = self._find(key) or self._record(key, operands, args, kwargs)
        if reading.noted is not None:
            reading.noted += trace.watched
        body = trace.body
        result = record_typed(trace.call, trace.type, operands, body.captured)
        return result if body.structure is None else _unpack(body, result)  # type: ignore[return-value]

    def __get__(self, owner: Any, cls: type | None = None) -> Any:
        """The function bound to an object, as methods are; the object is then a static argument."""
        return self if owner is None else functools.partial(self, owner)

    def _find(self, key: Any) -> _Trace | None:
        try:
            traces = self._known.get(key, ())
        except TypeError:
            raise DeclarationError(
                f"a call of {self.name} with an argument that cannot be hashed",
                rule="arguments are expressions, arrays, containers of them, or static values that can be hashed",
                fix="pass a tuple for a list of numbers, or ex.tensor for an array",
            ) from None
        for trace in traces:
            if unchanged(trace.watched):
                return trace
        return None

    def _record(self, key: Any, operands: tuple[Expr, ...], args: Any, kwargs: Any) -> _Trace:
        # other threads may record the same body meanwhile; only this one's stack makes a recursion
        recording = threading.get_ident(), key
        if recording in self._active:
            raise DeclarationError(
                f"{self.name} calls itself with operands of the same types",
                rule="a body is recorded before any value is known, so such a recursion has no end",
                fix="let a static argument count down, or use a Python loop",
            )
        start = next_uid()
        names = self._names(args, kwargs, operands)
        outer, state.scope = (state.scope, state.origin), None
        if not _is_internal(self._function):  # its lines are its own, whoever records it first
            state.origin = None
        around, reading.noted = reading.noted, []
        state.traces = (*state.traces, start)
        self._active.add(recording)
        try:
            with one_deeper(f"a call of {self.name}"), scope(self.name, self.kind) as inside:
                parameters = tuple(Parameter(node.type, name)() for node, name in zip(operands, names, strict=True))
                traced_args, traced_kwargs = _replace((args, kwargs), parameters)
                result = self._function(*traced_args, **traced_kwargs)
        finally:
            self._active.discard(recording)
            state.traces = state.traces[:-1]
            state.scope, state.origin = outer
            noted, reading.noted = tuple(reading.noted or ()), around
        statics = [leaf for leaf in flatten((args, kwargs))[0] if not _is_operand(leaf)]
        leaves, structure = flatten(result)
        if not leaves or not all(isinstance(leaf, Expr) for leaf in leaves):
            raise DeclarationError(
                f"{self.name} returned {_kinds(result, leaves)}",
                rule="a function returns an expression, or nested containers of expressions",
                fix="return what it computes; wrap a constant in ex.tensor",
            )
        own = {node.uid for node in parameters}

        def is_outer(node: Expr) -> bool:
            if node.uid in own:
                return False
            # a value recorded before the body began, and not a constant: the body reads it from outside
            before = node.uid < start and bool(node.operands)
            return before or isinstance(node, Tensor) or isinstance(node.operation, Parameter)

        captured = tuple(node for node in reachable(leaves, stop=is_outer) if is_outer(node))
        body = make_body(self.name, parameters, captured, tuple(leaves), inside, structure)
        call = Call(body)
        for node in captured:
            node.mark_used()
        type_ = call.type_of(tuple([node.type for node in (*operands, *captured)]))
        watched = {id(row): row for row in (*watch(self._function, statics), *noted)}.values()
        trace = _Trace(body, tuple(watched), call, type_)
        # popped and entered anew: dicts keep the order of entry, and the oldest keys are dropped below
        self._known[key] = [trace, *self._known.pop(key, ())][:_KEPT]
        for old in [*self._known][:-_KEYS]:
            self._known.pop(old, None)
        self.traces += 1
        return trace

    def _names(self, args: Any, kwargs: Any, operands: tuple[Expr, ...]) -> list[str]:
        code = getattr(self._function, "__code__", None)
        positional = code.co_varnames[: code.co_argcount] if code is not None else ()
        titles = [positional[i] if i < len(positional) else f"argument{i}" for i in range(len(args))]
        names: list[str] = []
        for title, argument in zip((*titles, *kwargs), (*args, *kwargs.values()), strict=True):
            leaves = [leaf for leaf in flatten(argument)[0] if _is_operand(leaf)]
            names += [title] if len(leaves) == 1 else [f"{title}{index}" for index in range(len(leaves))]
        return names


def function(body: Callable[_Parameters, _Result]) -> Function[_Parameters, _Result]:
    """Trace a Python function once per combination of operand types: each call is then one node, one box.

    Arguments that are neither expressions nor arrays are static: each value has its own body. Expressions that the body
    reads from outside become hidden operands. Everything else that it reads is compared at each call, and the body is
    recorded again where something has changed: variables and attributes (of ``self`` too) bound to another object;
    items of lists, dicts, sets and other containers of the standard library, nested ones too; elements of NumPy arrays;
    defaults; all of these also where a function, method or class that the body uses reads them.

    Raises DeclarationError where it reads a writable array of more than 64 KB or a container of more than 10,000 items,
    which are too large to compare (make it an ``ex.tensor``, or pass it as an argument), or an iterator or a random
    generator, which give another value each time. Not seen are changes inside installed packages and inside objects of
    other libraries written in C, variables read through ``globals()``, and files, clocks and random numbers: what
    Python computes from these is computed once, when the body is recorded.

    >>> @ex.function
    ... def norm(x):
    ...     return ex.sqrt((x * x).sum())
    >>> length = norm(ex.tensor([3.0, 4.0]))
    >>> length.label, ex.evaluate(length)
    ('norm', array(5.))
    """
    if not callable(body):
        raise DeclarationError(
            f"ex.function of a {type(body).__name__}",
            rule="what is traced is a Python function",
            fix="write @ex.function above its def",
        )
    return Function(body)


@functools.cache
def _positional(count: int) -> Any:
    """The structure of a call's arguments that are all expressions, by position."""
    return flatten(((None,) * count, {}))[1]


def _operands_in(args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[list[Any], tuple[Expr, ...], Any]:
    """Return types of operands and keys of static values in order, the operands, and the structure of a call."""
    leaves, structure = flatten((args, kwargs))
    kinds: list[Any] = []
    operands: list[Expr] = []
    for leaf in leaves:
        if isinstance(leaf, Expr):
            operands.append(leaf)
            kinds.append(leaf.type)
        elif _is_array(leaf):
            (operand,) = as_operands((leaf,))
            operands.append(operand)
            kinds.append(operand.type)
        else:
            kinds.append(exact(leaf))
    return kinds, tuple(operands), structure


def _is_internal(function: Any) -> bool:
    code = getattr(function, "__code__", None)
    return code is not None and code.co_filename.startswith(INTERNAL)


def _is_array(leaf: Any) -> bool:
    return hasattr(leaf, "__array__") and not isinstance(leaf, np.generic)


def _is_operand(leaf: Any) -> bool:
    return isinstance(leaf, Expr) or _is_array(leaf)


def _replace(value: Any, parameters: tuple[Expr, ...]) -> Any:
    leaves, structure = flatten(value)
    replacements = iter(parameters)
    return unflatten(structure, [next(replacements) if _is_operand(leaf) else leaf for leaf in leaves])


def _kinds(result: Any, leaves: list[Any]) -> str:
    type_name = type(result).__name__
    wrong = sorted({type(leaf).__name__ for leaf in leaves if not isinstance(leaf, Expr)} - {type_name})
    return f"{type_name} holding {', '.join(wrong)}" if wrong else type_name


def _unpack(body: Body, result: Expr) -> Any:
    if len(body.outputs) == 1:
        return unflatten(body.structure, [result])
    return unflatten(body.structure, [record(item(index), (result,)) for index in range(len(body.outputs))])
