"""``ex.map``: a function over many samples, recorded as one node for each shape of sample.

A loop that calls a function records one call for each sample, and planning finds the calls and stacks their operands
(plan/batching). Here the samples are stacked at once, so that recording and planning do not depend on their number.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from explorer.core.errors import DeclarationError, OperandError, class_text
from explorer.core.ir.expr import Expr, record
from explorer.core.ir.function import Parameter
from explorer.core.ir.mapped_call import MappedCall
from explorer.core.ir.recording_context import recording_at
from explorer.core.pytree import unflatten
from explorer.core.registry import public
from explorer.core.tracing.decorator import Function
from explorer.core.tracing.trace import outputs_of
from explorer.ops.control.bodies import recorded_body
from explorer.ops.mapping.members import Members
from explorer.ops.mapping.samples import Group, column, groups


@public
def map(function: Callable[..., Any], *samples: Any) -> Any:
    """Record the calls of a function on many samples as one node, which is computed for all of them at once.

    Samples are the rows of an array or expression, (n, …): the result has the same form, (n, …) for each output of the
    function. Or they are a sequence of arrays, expressions, numbers, lists of numbers, or nested tuples, lists and
    dicts of these: then the results are a sequence of expressions in their order (``evaluate`` returns a list), and
    samples of different shapes make one node for each shape. With several ``samples``, all of one length, the function
    takes one argument of each. What it reads from outside is the same for all members; its gradient is the sum of
    theirs.

    An ``ex.function`` is traced once for each shape, another function at each ``map``. Raises OperandError for samples
    that are none, or of different lengths.

    >>> w = ex.tensor([[1.0], [2.0]])
    >>> @ex.function
    ... def score(x):
    ...     return x @ w
    >>> ex.map(score, np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])).shape
    (3, 1)
    >>> scores = ex.map(score, [np.array([1.0, 0.0]), np.array([0.0, 1.0])])
    >>> ex.evaluate(scores)
    [array([1.]), array([2.])]
    >>> ex.evaluate(ex.map(lambda x, n: x.sum() * n, [np.ones(2), np.ones(3)], [10.0, 20.0]))
    [array(20.), array(60.)]
    """
    check_function(function, "ex.map")
    if not samples:
        raise OperandError("ex.map without samples", rule="there must be samples to map over", fix="ex.map(f, samples)")
    columns = [column(value, "ex.map") for value in samples]
    lengths = [each.length for each in columns]
    if len(set(lengths)) > 1:
        raise OperandError(
            f"ex.map over samples of the lengths {', '.join([str(length) for length in lengths])}",
            rule="all arguments must have as many samples",
            fix="ex.map(f, xs[:n], ys[:n])",
        )
    if all(each.stacked is not None for each in columns):
        (group,) = groups(columns)
        return unflatten(*mapped(function, group))
    if not lengths[0]:
        raise OperandError(
            "ex.map over an empty sequence",
            rule="there must be a sample, since the shape of the results depends on it",
            fix="ex.map(f, np.empty((0, 3))): an array without rows has a shape",
        )
    divided = groups(columns)
    results = [mapped(function, group) for group in divided]
    structures = [structure for structure, _ in results]
    if len(set(structures)) > 1:
        raise DeclarationError(
            f"ex.map of {name_of(function)}, which returns other containers for other shapes",
            rule="results of one function must be in containers of one structure",
            fix="return as many values for each sample",
        )
    places: Any = range(lengths[0])
    if len(divided) > 1:
        place_of = {
            place: (number, row) for number, group in enumerate(divided) for row, place in enumerate(group.places)
        }
        places = tuple([place_of[place] for place in range(lengths[0])])
    outputs = zip(*[values for _, values in results], strict=True)
    return unflatten(structures[0], [Members(values, places) for values in outputs])


def mapped(function: Callable[..., Any], group: Group) -> tuple[Any, list[Expr]]:
    """Record a function mapped over a group of samples; return the structure of its result, and its outputs."""
    leaves = [leaf for _, stacked in group.arguments for leaf in stacked]
    with recording_at(None, None):
        members = iter([Parameter(leaf.tensor_type.with_shape(leaf.shape[1:]), "member")() for leaf in leaves])
    arguments = [unflatten(structure, members) for structure, _ in group.arguments]
    if isinstance(function, Function):
        body = function.body_of_call(*arguments)
        captured = body.captured
    else:
        body, captured = recorded_body(function, name_of(function), *arguments)
    batched = (*[True] * len(leaves), *[False] * len(captured))
    result = record(MappedCall(body, len(group.places), batched), (*leaves, *captured))
    structure = body.derived.get("structure", body.structure)
    return structure, outputs_of(result, len(body.outputs))


def name_of(function: Callable[..., Any]) -> str:
    """Return the name of a function, of a traced one, or of a layer."""
    name: str = getattr(function, "name", "") or getattr(function, "__name__", "function")
    return name


def check_function(function: object, caller: str) -> None:
    """Raise DeclarationError unless the first argument is a function."""
    if not callable(function):
        raise DeclarationError(
            f"{caller} of {class_text(function)}",
            rule="a function of expressions must be passed, and not a value",
            fix="lambda x: x + 1",
        )
