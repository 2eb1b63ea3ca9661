"""Programs that loop over samples or trees, written with calls, plain operations or scopes."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from itertools import pairwise
from typing import Any

import numpy as np

import explorer as ex

SIZES = (16, 32, 32, 4)


def layers() -> Iterator[tuple[ex.Tensor, ex.Tensor]]:
    """Return the weight and the bias of each layer."""
    random = np.random.default_rng(0)
    for number, (wide, high) in enumerate(pairwise(SIZES)):
        weight = random.normal(size=(wide, high)).astype(np.float32)
        yield ex.tensor(weight, name=f"w{number}"), ex.tensor(np.ones(high, np.float32), name=f"b{number}")


def samples(count: int, *, functions: bool = False, scopes: bool = False) -> list[ex.Expr]:
    """Return the outputs of a network of tanh layers, one sample at a time."""
    parameters = list(layers())

    def mlp(x: Any) -> Any:
        for weight, bias in parameters:
            x = ex.tanh(x @ weight + bias)
        return x

    network = ex.function(mlp) if functions else mlp
    outputs = []
    for number, row in enumerate(np.random.default_rng(1).normal(size=(count, SIZES[0])).astype(np.float32)):
        if scopes:
            with ex.scope(f"sample {number}"):
                outputs.append(network(ex.tensor(row)))
        else:
            outputs.append(network(ex.tensor(row)))
    return outputs


def trees(count: int, *, functions: bool) -> list[ex.Expr]:
    """Return the roots of random binary trees."""
    random = np.random.default_rng(2)
    left, right = (ex.tensor(np.eye(8, dtype=np.float32) * scale, name=name) for name, scale in (("l", 1), ("r", 2)))

    def compose(one: Any, other: Any) -> Any:
        return ex.tanh(one @ left + other @ right)

    composed = ex.function(compose) if functions else compose

    def grow(leaves: int) -> ex.Expr:
        if leaves == 1:
            return ex.tensor(random.normal(size=8).astype(np.float32))
        split = int(random.integers(1, leaves))
        grown: ex.Expr = composed(grow(split), grow(leaves - split))
        return grown

    return [grow(int(random.integers(4, 13))) for _ in range(count)]


@cache
def recorded(name: str, run: bool = False, **options: Any) -> ex.Recording:
    """Return the recording of a program by name, planned or also run."""
    programs = {
        "calls": lambda: samples(1000, functions=True),
        "plain": lambda: samples(1000),
        "few": lambda: samples(40),
        "scopes": lambda: samples(40, scopes=True),
        "trees of calls": lambda: trees(60, functions=True),
        "trees": lambda: trees(60, functions=False),
    }
    plan = ex.EvalPlan(title=name, **options)
    for root in programs[name]():
        plan.register(root)
    (plan.eval if run else plan.prepare)()
    return plan.recording
