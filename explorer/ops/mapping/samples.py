"""Samples of mapped functions: stacked arrays, or sequences of samples that are stacked here, shape by shape.

`map` works on stacks. A list of samples of different shapes becomes one stack for each shape (Group), and the places
remember the order in which results are handed out.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass
from typing import Any

import numpy as np

from explorer.core.attributes import as_written, stands_for_expression
from explorer.core.errors import OperandError
from explorer.core.ir.expr import Expr
from explorer.core.ir.operation import WEAK, as_operands
from explorer.core.ir.tensor import tensor
from explorer.core.pytree import flatten
from explorer.ops.manipulation.concat import Stack
from explorer.ops.manipulation.gather import Take
from explorer.ops.mapping.members import Members

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
