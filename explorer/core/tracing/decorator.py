"""Functions: Python functions that are traced once per combination of operand types, with each call as one node.

``@ex.function`` and layers use this module. A body is looked up by operand types and static arguments. Before a call is
recorded, the body's captures are checked, because a global or an attribute may have changed.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, ParamSpec, TypeVar

from explorer.core.argument_checks import named_methods
from explorer.core.errors import DeclarationError, class_text
from explorer.core.exact_keys import exact
from explorer.core.ir.expr import Expr, as_operands, record_typed
from explorer.core.ir.function import Body, Call, Parameter
from explorer.core.ir.identity_comparison import Watched, unchanged
from explorer.core.ir.recording_context import state
from explorer.core.pytree import flatten
from explorer.core.tracing.captures import reading, watch
from explorer.core.tracing.trace import is_array, is_operand, trace, unpack
from explorer.core.types.tensor_type import AnyType

_Parameters = ParamSpec("_Parameters")
_Result = TypeVar("_Result")
_MAX_BODIES = 4
"""maximum number of bodies per combination of types; variables may change and change back"""
_MAX_KEYS = 256
"""maximum number of combinations of types and static values whose bodies are kept"""


@dataclass(slots=True)
class _Trace:
    body: Body
    watched: Watched
    call: Call
    type: AnyType
    """type of a call's result"""


@named_methods
class Function(Generic[_Parameters, _Result]):
    """Traced Python function; ``traces`` counts how often its body was recorded.

    A body is recorded for each combination of operand types and static arguments, and again if something that it reads
    from outside has changed: a variable, an attribute, an item of a container, or an element of an array.

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
        self._traces: dict[Any, list[_Trace]] = {}
        self._active: set[tuple[int, Any]] = set()
        """(thread that is recording a body, key of its call) pairs"""

    def __repr__(self) -> str:
        return f"<function {self.name}>"

    def __call__(self, *args: _Parameters.args, **kwargs: _Parameters.kwargs) -> _Result:
        """Record a call as one node; raise DeclarationError if the arguments or results cannot be traced."""
        kinds: list[Any] = []
        operands: tuple[Any, ...] = args
        # positional expressions need no flattening
        for argument in args:
            if not isinstance(argument, Expr):
                break
            kinds.append(argument.type)
        if not kwargs and len(kinds) == len(args):
            structure = _positional(len(args))
        else:
            kinds, operands, structure = _operands_in(args, kwargs)
        trace_ = self._traced(structure, kinds, operands, args, kwargs)
        body = trace_.body
        result = record_typed(trace_.call, trace_.type, operands, body.captured)
        return result if body.structure is None else unpack(body, result)  # type: ignore[return-value]  # as annotated

    def body_of_call(self, *args: Any) -> Body:
        """Return the body for a call with these arguments, without recording the call."""
        kinds, operands, structure = _operands_in(args, {})
        return self._traced(structure, kinds, operands, args, {}).body

    def __get__(self, owner: Any, cls: type | None = None) -> Any:
        """Bind the function to the object ``owner`` like a method; the object becomes a static argument."""
        return self if owner is None else functools.partial(self, owner)

    def retrace(self) -> None:
        """Discard all traces, so that the next call with each combination of types traces the body again."""
        self._traces.clear()

    def body_for(self, *types: AnyType) -> Body:
        """Return the body for positional operands of these types, for operations with bodies as attributes."""
        operands = tuple([Parameter(type_, "x")() for type_ in types])
        return trace(self._function, self.name, self.kind, operands, {}, operands)

    def _traced(
        self, structure: Any, kinds: list[Any], operands: tuple[Expr, ...], args: Any, kwargs: dict[str, Any]
    ) -> _Trace:
        """Return the trace for a call; record the body if there is none, or if a captured value has changed."""
        key: Any = (structure, tuple(kinds))
        if state.policies:
            key = (*key, frozenset(state.policies.values()))
        trace_ = self._find(key) or self._record(key, operands, args, kwargs)
        if reading.dependencies is not None:
            reading.dependencies += trace_.watched
        return trace_

    def _find(self, key: Any) -> _Trace | None:
        try:
            traces = self._traces.get(key, ())
        except TypeError:
            raise DeclarationError(
                f"a call of {self.name} with an argument that cannot be hashed",
                rule="arguments must be expressions, arrays, containers of them, or static values that can be hashed",
                fix="pass a tuple for a list of numbers, or ex.tensor for an array",
            ) from None
        # newest first: if values change and change back, the earlier body is used again
        for trace_ in traces:
            if unchanged(trace_.watched):
                return trace_
        return None

    def _record(self, key: Any, operands: tuple[Expr, ...], args: Any, kwargs: Any) -> _Trace:
        # Other threads may record the same body concurrently; only a nested call on this thread is a recursion.
        recording = threading.get_ident(), key
        if recording in self._active:
            raise DeclarationError(
                f"{self.name} calls itself with operands of the same types",
                rule="a call must not lead to the same call: bodies are recorded before any value is known",
                fix="let a static argument count down, or use a Python loop",
            )
        outer_dependencies, reading.dependencies = reading.dependencies, []
        self._active.add(recording)
        try:
            body = trace(self._function, self.name, self.kind, args, kwargs, operands)
        finally:
            self._active.discard(recording)
            dependencies, reading.dependencies = tuple(reading.dependencies or ()), outer_dependencies
        statics = [leaf for leaf in flatten((args, kwargs))[0] if not is_operand(leaf)]
        call = Call(body)
        type_ = call.type_of(tuple([node.type for node in (*operands, *body.captured)]))
        watched = {id(row): row for row in (*watch(self._function, statics), *dependencies)}.values()
        recorded = _Trace(body, tuple(watched), call, type_)
        # Reinsert the key: dicts keep insertion order, and the oldest keys are dropped below.
        self._traces[key] = [recorded, *self._traces.pop(key, ())][:_MAX_BODIES]
        for oldest in [*self._traces][:-_MAX_KEYS]:
            self._traces.pop(oldest, None)
        self.traces += 1
        return recorded


def function(body: Callable[_Parameters, _Result]) -> Function[_Parameters, _Result]:
    """Trace a Python function once per combination of operand types; each call is then one node, shown as one box.

    Expressions and arrays among the arguments are operands. All other arguments are static: each combination of their
    values has its own body. Expressions that the body reads from outside become hidden operands.

    The body runs only while it is traced. Before each call, the values that your code reads by name are compared, and
    the body is traced again if one of them has changed. These values are: variables and attributes named in the body,
    or in a function, method or class that the body uses, except in installed packages; items of such containers and
    elements of such arrays; and parameters, nets, blobs and learning rates of explorer. A name is looked up as
    variable, attribute and module, and a class that the body uses is assumed to use its operators, comparisons and
    ``__hash__``.

    Everything else is only read during tracing, and again after ``retrace()``: the state of Python and of installed
    packages (settings, registries, files, clocks, random numbers). Draws from the global generators of ``random`` and
    NumPy cause the warning ``RandomTraced``.

    Tracing raises DeclarationError for values that cannot be compared: a writable array of more than 64 KB, a container
    of more than 10,000 items, an iterator, a random generator, and variables that are not read by name (``globals()``,
    ``eval``, ``sys.modules``).

    >>> @ex.function
    ... def norm(x):
    ...     return ex.sqrt((x * x).sum())
    >>> length = norm(ex.tensor([3.0, 4.0]))
    >>> length.label, ex.evaluate(length)
    ('norm', array(5.))
    """
    if not callable(body):
        raise DeclarationError(
            f"ex.function of {class_text(body)}",
            rule="ex.function must have a Python function",
            fix="write @ex.function above its def",
        )
    return Function(body)


@functools.cache
def _positional(count: int) -> Any:
    """Return the structure of a call with ``count`` arguments that are all positional expressions."""
    return flatten(((None,) * count, {}))[1]


def _operands_in(args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[list[Any], tuple[Expr, ...], Any]:
    """Return the key (operand types and static values), the operands, and the structure of a call."""
    leaves, structure = flatten((args, kwargs))
    kinds: list[Any] = []
    operands: list[Expr] = []
    for leaf in leaves:
        if isinstance(leaf, Expr):
            operands.append(leaf)
            kinds.append(leaf.type)
        elif is_array(leaf):
            (operand,) = as_operands((leaf,))
            operands.append(operand)
            kinds.append(operand.type)
        else:
            kinds.append(exact(leaf))
    return kinds, tuple(operands), structure
