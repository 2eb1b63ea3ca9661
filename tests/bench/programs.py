"""Programs recorded by loops: many samples through one small network, many trees of one composition."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from typing import Any, TypeAlias

import numpy as np
from threadpoolctl import threadpool_limits

import explorer as ex
from explorer.run.plan_cache import cache as plans

Vector: TypeAlias = np.ndarray[Any, np.dtype[np.float32]]
Tree: TypeAlias = "int | tuple[Tree, Tree]"
"""the number of a word, or two trees"""
Compute: TypeAlias = Callable[[], list[Vector]]


@contextmanager
def one_thread() -> Iterator[None]:
    """Limit NumPy's BLAS, and so explorer, and torch to one thread; DyNet has one, and conftest gives XLA one."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with threadpool_limits(1):
            yield
    finally:
        torch.set_num_threads(before)


@cache
def dynet() -> Any:
    """Return DyNet with automatic batching, which must be selected before the import."""
    import dynet_config  # type: ignore[import-not-found]

    dynet_config.set(mem=1024, autobatch=1, random_seed=1)
    import dynet  # type: ignore[import-not-found]

    return dynet


@dataclass(frozen=True)
class Samples:
    """Vectors and a network of tanh layers for each of them: ``weights`` (in, out), ``biases`` (out)."""

    inputs: list[Vector]
    weights: list[Vector]
    biases: list[Vector]


def network(x: Any, weights: Any, biases: Any, tanh: Callable[[Any], Any]) -> Any:
    """Return the outputs, for any array library with ``@`` and ``+``."""
    for weight, bias in zip(weights, biases, strict=True):
        x = tanh(x @ weight + bias)
    return x


def samples(count: int = 1000, sizes: tuple[int, ...] = (128, 256, 256, 10)) -> Samples:
    """Return the samples of the table."""
    rng = np.random.default_rng(0)
    weights = [normal(rng, a, b) / np.float32(np.sqrt(a)) for a, b in pairwise(sizes)]
    return Samples([normal(rng, sizes[0]) for _ in range(count)], weights, [normal(rng, b) for b in sizes[1:]])


@dataclass(frozen=True)
class Trees:
    """Binary trees over words; two vectors l, r are composed to tanh(l·left + r·right + bias)."""

    trees: list[Tree]
    words: list[Vector]
    left: Vector
    right: Vector
    bias: Vector

    def roots(self, word: Callable[[int], Any], compose: Callable[[Any, Any], Any]) -> list[Any]:
        """Return the values of all trees' roots."""

        def value(tree: Tree) -> Any:
            return word(tree) if isinstance(tree, int) else compose(value(tree[0]), value(tree[1]))

        return [value(tree) for tree in self.trees]


def trees(count: int = 200, smallest: int = 10, largest: int = 30, size: int = 128) -> Trees:
    """Return the trees of the table, each split at random down to its leaves."""
    rng = np.random.default_rng(1)

    def grow(leaves: int) -> Tree:
        if leaves == 1:
            return int(rng.integers(1000))
        split = int(rng.integers(1, leaves))
        return grow(split), grow(leaves - split)

    grown = [grow(int(rng.integers(smallest, largest + 1))) for _ in range(count)]
    scale = np.float32(np.sqrt(2 * size))
    left, right = normal(rng, size, size) / scale, normal(rng, size, size) / scale
    return Trees(grown, [normal(rng, size) for _ in range(1000)], left, right, normal(rng, size))


def normal(rng: np.random.Generator, *shape: int) -> Vector:
    """Return normally distributed float32 numbers."""
    return rng.standard_normal(shape).astype(np.float32)


def evaluated(roots: list[ex.Expr], **options: Any) -> list[Any]:
    """Evaluate all roots as a user does: register them, use a new or cached plan, run and read."""
    plan = ex.EvalPlan(**options)
    handles = [plan.register(root) for root in roots]
    plan.eval()
    return [handle.data() for handle in handles]


def planned_anew(compute: Compute) -> Compute:
    """Evaluate all roots without any cached plan."""

    def run() -> list[Any]:
        plans.clear()
        return compute()

    return run


def chain(x: Any, y: Any) -> Any:
    """Return ten operations on x and y."""
    return abs(((x * 1.5 + y) * x - y) * 0.5 * (x + 2.0) - y) * 0.25
