"""Bodies of branches and loops, recorded by calling functions with nested containers of operands.

A control-flow operation stores its bodies as attributes, which are compared by identity. Equal bodies are therefore
shared, so that equal operations compare equal.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any
from weakref import WeakValueDictionary

from explorer.core.argument_checks import takes
from explorer.core.errors import DeclarationError, OperandError
from explorer.core.ir.expr import WEAK, Expr
from explorer.core.ir.function import Body, close_over, make_body
from explorer.core.pytree import flatten, unflatten
from explorer.core.registry import functions
from explorer.core.tracing.trace import trace
from explorer.record.reasons import counted_text

_shared: WeakValueDictionary[Any, Body] = WeakValueDictionary()
"""nodes and their source lines → the first body recorded with them"""


def recorded_body(
    function: Callable[..., Any], name: str, *arguments: Any, titles: Sequence[str] | None = None
) -> tuple[Body, tuple[Expr, ...]]:
    """Call ``function`` once to record a body; return the body and the captured values.

    The expressions in ``arguments`` and the captured values become the body's parameters, which makes the body
    independent of the program. An equal body recorded earlier from the same source lines is reused, so a branch or loop
    recorded a thousand times is planned once. ``titles`` are the parameters' names.
    """
    body = trace(function, name, "function", arguments, {}, flatten(arguments)[0], titles)
    return closed_body(body, body.captured), body.captured


def closed_body(body: Body, captured: tuple[Expr, ...]) -> Body:
    """Return ``body``, or an equal earlier body, with additional parameters for the values ``captured``."""
    inputs, outputs = close_over(body, captured)
    closed = make_body(body.name, inputs, (), outputs, body.scope, body.structure)
    number = {node.uid: index for index, node in enumerate(inputs)}
    nodes = []
    for node in closed.nodes:
        if node.uid not in number:
            number[node.uid] = len(number)
            operand_numbers = tuple([number[operand.uid] for operand in node.operands])
            nodes.append((node.operation, operand_numbers, node.code, node.instruction))
    parameters = tuple([node.operation for node in inputs])
    results = tuple([number[output.uid] for output in outputs])
    key = body.name, parameters, tuple(nodes), results, body.structure, frozenset(body.policies.values())
    # setdefault, so that threads that record equal bodies concurrently share one
    return _shared.setdefault(key, closed)


def as_operand_tree(value: Any, what: str) -> Any:
    """Convert the numbers and arrays in nested containers to expressions; return the same containers.

    Raises OperandError if a leaf is not an operand, or if the containers have no leaves.
    """
    leaves, structure = flatten(value)
    if not leaves:
        raise OperandError(f"{what} {value!r}", rule=f"{what} must contain at least one tensor", fix="ex.tensor(0.0)")
    convert = functions["as_expr"]
    operands = []
    for leaf in leaves:
        if not (isinstance(leaf, (Expr, *WEAK)) or hasattr(leaf, "__array__")):
            raise OperandError(
                f"{what} with a {type(leaf).__name__}",
                rule=f"{what} must be a tensor, or nested tuples, lists and dicts of tensors",
                fix="pass a setting in a closure: lambda x: f(x, setting)",
            )
        operand = leaf if isinstance(leaf, Expr) else convert(leaf, ())
        operand.tensor_type  # noqa: B018 # raises an error if the operand has several outputs
        operands.append(operand)
    return unflatten(structure, operands)


def check_callable(function: Any, what: str, arguments: Sequence[str]) -> None:
    """Raise DeclarationError unless ``function`` accepts one argument per name in ``arguments``."""
    if not callable(function):
        raise DeclarationError(
            f"{what}={function!r}", rule=f"{what} must be a function of expressions", fix="lambda x: x + 1"
        )
    if not takes(function, len(arguments)):
        names = ", ".join(arguments)
        raise DeclarationError(
            f"{what}, a function with the arguments {inspect.signature(function, follow_wrapped=False)}",
            rule=f"{what} must take {counted_text(len(arguments), 'argument')}{': ' * bool(names)}{names}",
            fix=f"def {what}({names}): …"
            + "; a state of several values is one tuple: a, b = state" * ("state" in names),
        )


def check_same_containers(before: Any, after: Any, names: tuple[str, str], what: str) -> None:
    """Raise OperandError unless ``before`` and ``after`` have the same container structure."""
    if before != after:
        raise OperandError(
            f"{what}: {names[0]} and {names[1]} have different containers",
            rule=f"{names[0]} and {names[1]} must have the same containers and keys",
            fix="return tuples of equal length, or dicts with equal keys, for both",
        )


def check_same_types(before: Sequence[Expr], after: Sequence[Expr], names: tuple[str, str], what: str) -> None:
    """Raise OperandError unless ``before`` and ``after`` have the same number of values with the same types."""
    if len(before) != len(after):
        raise OperandError(
            f"{what}: {names[0]} has {counted_text(len(before), 'value')}, {names[1]} has {len(after)}",
            rule=f"{names[0]} and {names[1]} must have the same containers with the same number of values",
            fix="return the same number of values for both",
        )
    for index, (first, second) in enumerate(zip(before, after, strict=True)):
        if first.type != second.type:
            number = f"value {index} of " if len(before) > 1 else ""
            fix = f"value.astype({first.dtype.name!r})" if first.shape == second.shape else "reshape one of them"
            raise OperandError(
                f"{what}: {number}{names[0]} is {first.type}, {number}{names[1]} is {second.type}",
                rule=f"{names[0]} and {names[1]} must have the same shapes and dtypes",
                fix=fix,
            )
