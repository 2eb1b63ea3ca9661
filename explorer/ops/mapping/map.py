"""``ex.map``: a function over many samples, recorded as one node for each shape of sample.

A loop that calls a function records one call for each sample, and planning finds the calls and stacks their operands
(plan/batching). Here the samples are stacked at once, so that recording and planning do not depend on their number.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Any, overload

import numpy as np

from explorer.core.attributes import as_written, stands_for_expression
from explorer.core.errors import DeclarationError, OperandError, class_text
from explorer.core.ir.expr import WEAK, Expr, as_operands, record
from explorer.core.ir.function import Parameter
from explorer.core.ir.mapped_call import MappedCall
from explorer.core.ir.recording_context import recording_at
from explorer.core.ir.tensor import tensor
from explorer.core.pytree import Container, flatten, unflatten
from explorer.core.registry import public
from explorer.core.tracing.decorator import Function
from explorer.core.tracing.trace import outputs_of
from explorer.ops.control.bodies import recorded_body
from explorer.ops.manipulation.concat import GatherStack, Stack
from explorer.ops.manipulation.gather import Take
from explorer.ops.manipulation.slicing import Index0
from explorer.record.reasons import counted_text

__all__ = ["map"]


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


@dataclass(frozen=True, slots=True)
class Rows:
    """Places of members in values whose first axis holds them; called with values, it returns their members."""

    places: tuple[tuple[int, int], ...] | range
    """number of the value, and row in it, of each member; a range for all rows of one value in their order"""

    def __call__(self, values: Sequence[Any]) -> Any:
        if all(isinstance(value, Expr) for value in values):
            return Members(values, self.places)
        # The index … keeps a number an array.
        if isinstance(self.places, range):
            return [*values[0]] if np.ndim(values[0]) > 1 else [values[0][row, ...] for row in self.places]
        return [values[value][row, ...] for value, row in self.places]


class Members(Container):
    """Sequence of the results of a mapped function; an index or an iteration records the rows that it reads.

    ``ex.evaluate`` returns a list of arrays. ``stacked`` is one expression for all members, where they have one shape.

    >>> members = ex.map(lambda x: x.sum(), [np.ones(2), np.ones(3)])
    >>> len(members), members[1].shape, members.stacked.shape
    (2, (), (2,))
    >>> ex.evaluate(members)
    [array(2.), array(3.)]
    """

    __slots__ = ("layout", "leaves")
    leaves: tuple[Expr, ...]
    """values whose rows the members are"""
    layout: Rows

    def __init__(self, values: Sequence[Expr], places: tuple[tuple[int, int], ...] | range) -> None:
        self.leaves, self.layout = tuple(values), Rows(places)

    def __len__(self) -> int:
        return len(self.layout.places)

    @overload
    def __getitem__(self, index: int) -> Expr: ...

    @overload
    def __getitem__(self, index: slice) -> list[Expr]: ...

    def __getitem__(self, index: int | slice) -> Expr | list[Expr]:
        if isinstance(index, slice):
            return [self._member(place) for place in range(*index.indices(len(self)))]
        length = len(self)
        if not -length <= index < length:
            raise OperandError(
                f"member {index} of {self!r}",
                rule=f"the index must be from {-length} to {length - 1}" if length else "there must be members",
                fix=f"members[{length - 1}]" if length else "",
            )
        return self._member(index % length)

    def __iter__(self) -> Iterator[Expr]:
        return (self._member(place) for place in range(len(self)))

    def __expr__(self) -> Expr:
        return self.stacked

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        return self.stacked.__array__(dtype, copy)

    def __repr__(self) -> str:
        shapes = ", ".join(sorted({repr(value.shape[1:]) for value in self.leaves}))
        return f"<{counted_text(len(self), 'member')} of shape {shapes}>"

    @property
    def stacked(self) -> Expr:
        """The members as the rows of one expression: n of (…) → (n, …); raises OperandError if shapes differ."""
        places = self.layout.places
        if isinstance(places, range):
            return self.leaves[0]
        types = {value.tensor_type.with_shape(value.shape[1:]) for value in self.leaves}
        if len(types) > 1:
            raise OperandError(
                f"the stack of {self!r}",
                rule="members of a stack must have one shape and dtype",
                fix="read the members one by one, or pad the samples to one shape",
            )
        return GatherStack.of([(self.leaves[value], row) for value, row in places])

    def _member(self, place: int) -> Expr:
        places = self.layout.places
        value, row = (0, place) if isinstance(places, range) else places[place]
        return Index0(row)(self.leaves[value])


_RULE = (
    "samples must be an array or expression whose first axis they are, or a sequence of arrays, expressions, numbers "
    "or nested tuples, lists and dicts of them; a list of numbers is an array"
)


@dataclass(frozen=True, slots=True)
class Group:
    """Samples of one shape: their places among all samples, and for each argument its structure and stacked leaves."""

    places: list[int] | range
    arguments: list[tuple[Any, list[Expr]]]


@dataclass(frozen=True, slots=True)
class Column:
    """Samples for one argument: ``stacked``, or one by one with the type of each."""

    length: int
    stacked: Expr | None = None
    samples: tuple[Any, ...] | list[Any] = ()
    keys: tuple[Any, ...] | list[Any] = ()
    """structure and leaf types of each sample"""
    is_uniform: bool = False
    """they are known to be the same for all samples"""

    def argument(self, places: list[int] | range) -> tuple[Any, list[Expr]]:
        """Return the structure of the samples at some places, of one type, and their leaves, stacked."""
        everything = len(places) == self.length
        if self.stacked is not None:
            rows = None if everything else tensor(np.array(places), name="rows", device=self.stacked.device)
            return None, [self.stacked if rows is None else Take(0)(self.stacked, rows)]
        samples = self.samples if everything else [self.samples[place] for place in places]
        structure, _ = self.keys[places[0]]
        if structure is None:
            return None, [_stack(samples)]
        leaves = [flatten(sample)[0] for sample in samples]
        return structure, [_stack(of_one) for of_one in zip(*leaves, strict=True)]


def column(value: Any, function: str) -> Column:
    """Return the samples for one argument; raises OperandError for what has none."""
    if isinstance(value, Members) and isinstance(value.layout.places, range):
        return Column(len(value), value.leaves[0])
    if isinstance(value, Members):
        value = [*value]
    elif stands_for_expression(value):
        value = as_written(value)
    if isinstance(value, Expr) or (hasattr(value, "__array__") and not isinstance(value, np.generic)):
        (stacked,) = as_operands((value,))
        if not stacked.shape:
            raise OperandError(f"{function} over the scalar {stacked!r}", rule=_RULE, fix=f"{function}(f, [x])")
        return Column(stacked.shape[0], stacked)
    if not isinstance(value, Iterable) or isinstance(value, (str, bytes, Mapping, Set)):
        raise OperandError(f"{function} over a {type(value).__name__}", rule=_RULE, fix=f"{function}(f, [x, y, z])")
    samples = value if isinstance(value, (list, tuple)) else [*value]
    types = {type(sample) for sample in samples}
    if len(types) == 1 and types <= {*WEAK, np.ndarray} and samples:
        # The usual samples, arrays and numbers, take no flattening, and no call or key each where they are alike.
        key = None, _leaf_key(samples[0], function)
        if types <= {*WEAK} or all((sample.shape, sample.dtype) == key[1] for sample in samples):
            return Column(len(samples), None, samples, [key] * len(samples), True)
        return Column(len(samples), None, samples, [(None, (sample.shape, sample.dtype)) for sample in samples])
    samples = [_of_numbers(sample) if type(sample) is list else sample for sample in samples]
    return Column(len(samples), None, samples, [_key(sample, function) for sample in samples])


def groups(columns: list[Column]) -> list[Group]:
    """Divide samples into groups of one shape, structure and dtype, in the order of their first samples."""
    listed = [each for each in columns if each.stacked is None]
    everything = range(columns[0].length)
    if all(each.is_uniform or len(set(each.keys)) == 1 for each in listed):
        return [Group(everything, [each.argument(everything) for each in columns])]
    places_of: dict[Any, list[int]] = {}
    for place, key in enumerate(zip(*[each.keys for each in listed], strict=True)):
        places_of.setdefault(key, []).append(place)
    return [Group(places, [each.argument(places) for each in columns]) for places in places_of.values()]


def _of_numbers(sample: list[Any]) -> Any:
    """Return a nested list of numbers as the array that it is for ex.tensor, any other list as it is."""
    return np.array(sample) if {type(leaf) for leaf in flatten(sample)[0]} <= {*WEAK} else sample


def _key(sample: Any, function: str) -> Any:
    """Return structure and leaf types of a sample, by which samples are grouped."""
    leaves, structure = flatten(sample)
    types = tuple([_leaf_key(leaf, function) for leaf in leaves])
    return structure, types if structure is not None else types[0]


def _leaf_key(leaf: Any, function: str) -> Any:
    if isinstance(leaf, np.ndarray):
        return leaf.shape, leaf.dtype
    if isinstance(leaf, Expr):
        return leaf.tensor_type.shape, leaf.dtype
    if isinstance(leaf, (*WEAK, np.generic)):
        return (), np.result_type(type(leaf))
    if stands_for_expression(leaf) or hasattr(leaf, "__array__"):
        (operand,) = as_operands((leaf,))
        return operand.shape, operand.dtype
    raise OperandError(
        f"{function} over samples with a {type(leaf).__name__}", rule=_RULE, fix=f"{function}(f, [x, y])"
    )


def _stack(leaves: Any) -> Expr:
    """Return samples of one type as the rows of one expression; arrays are copied at once, not recorded one by one."""
    arrays: Any = leaves
    types = {type(leaf) for leaf in leaves}
    if len(types) == 1 and types <= {*WEAK}:
        return tensor([*leaves], name="samples")
    if types != {np.ndarray}:
        if any(isinstance(leaf, Expr) or stands_for_expression(leaf) for leaf in leaves):
            return Stack()(*[tensor(leaf) if isinstance(leaf, WEAK) else leaf for leaf in leaves])
        arrays = [np.asarray(leaf) for leaf in leaves]
    first = arrays[0]
    rows = np.empty((len(arrays), *first.shape), first.dtype)
    if first.ndim:  # np.stack takes three times as long
        np.concatenate(arrays, out=rows.reshape(len(arrays) * first.shape[0], *first.shape[1:]))
    else:
        rows[...] = arrays
    return tensor(rows, name="samples", copy=False)
