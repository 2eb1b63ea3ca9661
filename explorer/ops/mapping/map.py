"""``ex.map``: maps a function over many samples, recorded as one node for each shape of samples.

Calling a function in a loop would record one call per sample, which the plan would have to batch (plan/batching). Here
the samples are stacked during recording, so the cost of recording and planning does not depend on their number.
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
    """Map ``function`` over many samples, recorded as one node that computes all samples at once.

    If the samples are the rows of an array or expression (n, …), each output of the function is stacked to (n, …) too.
    Otherwise they are a sequence of arrays, expressions, numbers, lists of numbers, or nested tuples, lists and dicts
    of these; the result is a sequence of expressions, which ``evaluate`` returns as a list, and one node is recorded
    for each shape of samples. If several ``samples`` are given, they must have equal lengths, and the function receives
    one argument from each. Values that the function captures are shared by all samples, and their gradients are summed.

    An ``ex.function`` is traced once for each shape, any other function at each ``map``. Raises OperandError if the
    samples are invalid or have different lengths.

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
            f"ex.map over samples of lengths {', '.join([str(length) for length in lengths])}",
            rule="all arguments must have the same number of samples",
            fix="ex.map(f, xs[:n], ys[:n])",
        )
    if all(each.stacked is not None for each in columns):
        (group,) = groups(columns)
        return unflatten(*mapped(function, group))
    if not lengths[0]:
        raise OperandError(
            "ex.map over an empty sequence",
            rule="there must be at least one sample, since the shape of the results depends on it",
            fix="ex.map(f, np.empty((0, 3))), an array without rows",
        )
    sample_groups = groups(columns)
    results = [mapped(function, group) for group in sample_groups]
    structures = [structure for structure, _ in results]
    if len(set(structures)) > 1:
        raise DeclarationError(
            f"ex.map of {name_of(function)}, which returns different containers for different shapes",
            rule="a function must return the same containers for all samples",
            fix="return the same number of values for each sample",
        )
    indices: Any = range(lengths[0])
    if len(sample_groups) > 1:
        position_of = {
            index: (number, row)
            for number, group in enumerate(sample_groups)
            for row, index in enumerate(group.indices)
        }
        indices = tuple([position_of[index] for index in range(lengths[0])])
    outputs = zip(*[values for _, values in results], strict=True)
    return unflatten(structures[0], [Members(values, indices) for values in outputs])


def mapped(function: Callable[..., Any], group: Group) -> tuple[Any, list[Expr]]:
    """Map ``function`` over the samples in ``group``; return the structure and the outputs of the result."""
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
    result = record(MappedCall(body, len(group.indices), batched), (*leaves, *captured))
    structure = body.derived.get("structure", body.structure)
    return structure, outputs_of(result, len(body.outputs))


def name_of(function: Callable[..., Any]) -> str:
    """Return the name of ``function``, which is a Python function, a traced function or a layer."""
    name: str = getattr(function, "name", "") or getattr(function, "__name__", "function")
    return name


def check_function(function: object, caller: str) -> None:
    """Raise DeclarationError unless ``function``, the first argument of ``caller``, is callable."""
    if not callable(function):
        raise DeclarationError(
            f"{caller} of {class_text(function)}",
            rule="the first argument must be a function of expressions",
            fix="lambda x: x + 1",
        )


@dataclass(frozen=True, slots=True)
class Rows:
    """Positions of members in stacked values; ``rows(values)`` returns the members."""

    indices: tuple[tuple[int, int], ...] | range
    """for each member, (index of the value, row in this value); a range if the members are all rows of one value, in
    order"""

    def __call__(self, values: Sequence[Any]) -> Any:
        if all(isinstance(value, Expr) for value in values):
            return Members(values, self.indices)
        # with the Ellipsis, indexing returns a 0-d array instead of a scalar
        if isinstance(self.indices, range):
            return [*values[0]] if np.ndim(values[0]) > 1 else [values[0][row, ...] for row in self.indices]
        return [values[value][row, ...] for value, row in self.indices]


class Members(Container):
    """Sequence of a mapped function's results; each member that is read is recorded as a row of a stacked value.

    ``ex.evaluate`` returns a list of arrays. If all members have the same shape, ``stacked`` is one expression that
    contains all of them.

    >>> members = ex.map(lambda x: x.sum(), [np.ones(2), np.ones(3)])
    >>> len(members), members[1].shape, members.stacked.shape
    (2, (), (2,))
    >>> ex.evaluate(members)
    [array(2.), array(3.)]
    """

    __slots__ = ("layout", "leaves")
    leaves: tuple[Expr, ...]
    """values whose rows are the members"""
    layout: Rows

    def __init__(self, values: Sequence[Expr], indices: tuple[tuple[int, int], ...] | range) -> None:
        self.leaves, self.layout = tuple(values), Rows(indices)

    def __len__(self) -> int:
        return len(self.layout.indices)

    @overload
    def __getitem__(self, index: int) -> Expr: ...

    @overload
    def __getitem__(self, index: slice) -> list[Expr]: ...

    def __getitem__(self, index: int | slice) -> Expr | list[Expr]:
        if isinstance(index, slice):
            return [self._member(index) for index in range(*index.indices(len(self)))]
        length = len(self)
        if not -length <= index < length:
            raise OperandError(
                f"member {index} of {self!r}",
                rule=f"the index must be from {-length} to {length - 1}" if length else "there must be members",
                fix=f"members[{length - 1}]" if length else "",
            )
        return self._member(index % length)

    def __iter__(self) -> Iterator[Expr]:
        return (self._member(index) for index in range(len(self)))

    def __expr__(self) -> Expr:
        return self.stacked

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        return self.stacked.__array__(dtype, copy)

    def __repr__(self) -> str:
        shapes = ", ".join(sorted({repr(value.shape[1:]) for value in self.leaves}))
        return f"<{counted_text(len(self), 'member')} of shape {shapes}>"

    @property
    def stacked(self) -> Expr:
        """All n members as the rows of one expression (n, …); raises OperandError if their shapes differ."""
        indices = self.layout.indices
        if isinstance(indices, range):
            return self.leaves[0]
        types = {value.tensor_type.with_shape(value.shape[1:]) for value in self.leaves}
        if len(types) > 1:
            raise OperandError(
                f"the stack of {self!r}",
                rule="members of a stack must have the same shape and dtype",
                fix="read the members individually, or pad the samples to the same shape",
            )
        return GatherStack.of([(self.leaves[value], row) for value, row in indices])

    def _member(self, index: int) -> Expr:
        indices = self.layout.indices
        value, row = (0, index) if isinstance(indices, range) else indices[index]
        return Index0(row)(self.leaves[value])


_RULE = (
    "samples must be an array or expression (its rows are the samples), or a sequence of arrays, expressions, numbers "
    "or nested tuples, lists and dicts of them; a list of numbers is treated as an array"
)


@dataclass(frozen=True, slots=True)
class Group:
    """Samples of equal shape: their indices, and for each argument its structure and stacked leaves."""

    indices: list[int] | range
    arguments: list[tuple[Any, list[Expr]]]


@dataclass(frozen=True, slots=True)
class Column:
    """Samples for one argument: either ``stacked``, or listed in ``samples``, with their types in ``keys``."""

    length: int
    stacked: Expr | None = None
    samples: tuple[Any, ...] | list[Any] = ()
    keys: tuple[Any, ...] | list[Any] = ()
    """for each sample, its structure and the types of its leaves"""
    is_uniform: bool = False
    """whether the keys are known to be the same for all samples"""

    def argument(self, indices: list[int] | range) -> tuple[Any, list[Expr]]:
        """Return the structure and the stacked leaves of the samples at ``indices``, which must have equal types."""
        all_indices = len(indices) == self.length
        if self.stacked is not None:
            rows = None if all_indices else tensor(np.array(indices), name="rows", device=self.stacked.device)
            return None, [self.stacked if rows is None else Take(0)(self.stacked, rows)]
        samples = self.samples if all_indices else [self.samples[index] for index in indices]
        structure, _ = self.keys[indices[0]]
        if structure is None:
            return None, [_stack(samples)]
        leaves = [flatten(sample)[0] for sample in samples]
        return structure, [_stack(values) for values in zip(*leaves, strict=True)]


def column(value: Any, function: str) -> Column:
    """Return the samples in ``value`` for one argument; raise OperandError if there are none."""
    if isinstance(value, Members) and isinstance(value.layout.indices, range):
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
        # fast path: arrays and numbers need no flattening, and one key is enough if all have the same shape and dtype
        key = None, _leaf_key(samples[0], function)
        if types <= {*WEAK} or all((sample.shape, sample.dtype) == key[1] for sample in samples):
            return Column(len(samples), None, samples, [key] * len(samples), True)
        return Column(len(samples), None, samples, [(None, (sample.shape, sample.dtype)) for sample in samples])
    samples = [_as_array(sample) if type(sample) is list else sample for sample in samples]
    return Column(len(samples), None, samples, [_key(sample, function) for sample in samples])


def groups(columns: list[Column]) -> list[Group]:
    """Divide samples into groups of equal shape, structure and dtype, in the order of their first samples."""
    listed = [each for each in columns if each.stacked is None]
    all_indices = range(columns[0].length)
    if all(each.is_uniform or len(set(each.keys)) == 1 for each in listed):
        return [Group(all_indices, [each.argument(all_indices) for each in columns])]
    indices_of: dict[Any, list[int]] = {}
    for index, key in enumerate(zip(*[each.keys for each in listed], strict=True)):
        indices_of.setdefault(key, []).append(index)
    return [Group(indices, [each.argument(indices) for each in columns]) for indices in indices_of.values()]


def _as_array(sample: list[Any]) -> Any:
    """Convert ``sample`` to an array if it is a nested list of numbers; otherwise return it unchanged."""
    return np.array(sample) if {type(leaf) for leaf in flatten(sample)[0]} <= {*WEAK} else sample


def _key(sample: Any, function: str) -> Any:
    """Return the structure and the leaf types of ``sample``, which determine its group."""
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
    """Stack ``leaves``, which have equal types, as the rows of one expression; copy arrays together into one tensor."""
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
