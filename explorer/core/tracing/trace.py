"""Recording of a Python function's body with parameters for its operands, and of results with several outputs.

Bodies of calls (``ex.function``, decorator.py) and of branches and loops (ops/control) are recorded here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from explorer.core.errors import DeclarationError
from explorer.core.ir.expr import Expr, next_uid, record
from explorer.core.ir.function import Body, Parameter, item, make_body
from explorer.core.ir.recording_context import scope, state
from explorer.core.ir.source_location import INTERNAL
from explorer.core.ir.tensor import Tensor
from explorer.core.ir.traversal import reachable
from explorer.core.pytree import flatten, unflatten
from explorer.core.recursion_limit import one_deeper
from explorer.core.tracing.random_draws import watched_draws


def trace(
    function: Callable[..., Any],
    name: str,
    kind: str,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    operands: Sequence[Expr],
    titles: Sequence[str] | None = None,
) -> Body:
    """Record a function's body in a scope with this name and kind.

    Parameters with the types of ``operands`` replace the expressions and arrays among the arguments. Outer values that
    the body reads are captured. ``titles`` are the parameters' names; None: the function's own names. Raises
    DeclarationError if the result does not consist of expressions.
    """
    start = next_uid()
    titles = argument_names(function, args, kwargs) if titles is None else titles
    outer_context, state.scope = (state.scope, state.origin), None
    if not is_internal(function):  # attribute nodes to the function's own lines, regardless of its first caller
        state.origin = None
    # nodes with smaller uids were recorded outside the body
    state.traces = (*state.traces, start)
    try:
        with one_deeper(f"a call of {name}"), scope(name, kind) as function_scope:
            parameters = tuple(Parameter(node.type, title)() for node, title in zip(operands, titles, strict=True))
            traced_args, traced_kwargs = _replace((args, kwargs), parameters)
            with watched_draws(name):
                result = function(*traced_args, **traced_kwargs)
    finally:
        state.traces = state.traces[:-1]
        state.scope, state.origin = outer_context
    leaves, structure = flatten(result)
    if not leaves or not all(isinstance(leaf, Expr) for leaf in leaves):
        raise DeclarationError(
            f"{name} returned {_kinds(result, leaves)}",
            rule="a function must return an expression, or nested containers of expressions",
            fix="return what it computes; wrap a constant in ex.tensor",
        )
    parameter_uids = {node.uid for node in parameters}

    def is_outer(node: Expr) -> bool:
        if node.uid in parameter_uids:
            return False
        # a node from outside the body that is not a constant
        before = node.uid < start and bool(node.operands)
        return before or isinstance(node, Tensor) or isinstance(node.operation, Parameter)

    captured = tuple(node for node in reachable(leaves, stop=is_outer) if is_outer(node))
    for node in captured:
        node.mark_used()
    return make_body(name, parameters, captured, tuple(leaves), function_scope, structure)


def unpack(body: Body, result: Expr) -> Any:
    """Return a call's result in the same containers that the function returned."""
    if len(body.outputs) == 1:
        return unflatten(body.structure, [result])
    return unflatten(body.structure, outputs_of(result, len(body.outputs)))


def outputs_of(result: Expr, count: int) -> list[Expr]:
    """Return the ``count`` outputs of a value."""
    return [result] if count == 1 else [record(item(index), (result,)) for index in range(count)]


def argument_names(function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[str]:
    """Return each operand's name: its argument's name, with a number if it is inside a container."""
    code = getattr(function, "__code__", None)
    positional = code.co_varnames[: code.co_argcount] if code is not None else ()
    titles = [positional[i] if i < len(positional) else f"argument{i}" for i in range(len(args))]
    names: list[str] = []
    for title, argument in zip((*titles, *kwargs), (*args, *kwargs.values()), strict=True):
        leaves = [leaf for leaf in flatten(argument)[0] if is_operand(leaf)]
        names += [title] if len(leaves) == 1 else [f"{title}{index}" for index in range(len(leaves))]
    return names


def is_internal(function: Any) -> bool:
    """Return whether a function belongs to explorer."""
    code = getattr(function, "__code__", None)
    return code is not None and code.co_filename.startswith(INTERNAL)


def is_array(leaf: Any) -> bool:
    """Return whether a value is an array of any library, except a NumPy scalar."""
    return hasattr(leaf, "__array__") and not isinstance(leaf, np.generic)


def is_operand(leaf: Any) -> bool:
    """Return whether an argument is an operand rather than a static value."""
    return isinstance(leaf, Expr) or is_array(leaf)


def _replace(value: Any, parameters: tuple[Expr, ...]) -> Any:
    leaves, structure = flatten(value)
    replacements = iter(parameters)
    return unflatten(structure, [next(replacements) if is_operand(leaf) else leaf for leaf in leaves])


def _kinds(result: Any, leaves: list[Any]) -> str:
    type_name = type(result).__name__
    wrong = sorted({type(leaf).__name__ for leaf in leaves if not isinstance(leaf, Expr)} - {type_name})
    return f"{type_name} holding {', '.join(wrong)}" if wrong else type_name
