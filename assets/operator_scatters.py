"""Models of one function each, for operators.py: scatters, masked selections, bit operations."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch
from operator_layers import Calls, Case, normal
from torch import Tensor


def _capped(x: Tensor) -> Tensor:
    y = x.clone()
    y[x > 0.5] = 0.5
    return y


def scatters() -> Iterator[Case]:
    x, few, numbers = normal(3, 5), normal(2, 4), torch.randint(0, 5, (2, 4))
    several = torch.stack([torch.randperm(5)[:4] for _ in range(2)])
    rows, columns = torch.tensor([0, 2, 2]), torch.tensor([1, 4, 0])
    calls: dict[str, tuple[Callable[..., Any], tuple[Tensor, ...]]] = {
        "torch.scatter": (lambda x, n, s: torch.scatter(x, 1, n, s), (x, several, few)),
        "torch.scatter_value": (lambda x, n: torch.scatter(x, 1, n, 7.5), (x, numbers)),
        "Tensor.scatter_": (lambda x, n, s: x.clone().scatter_(1, n, s), (x, several, few)),
        "torch.scatter_add": (lambda x, n, s: torch.scatter_add(x, 1, n, s), (x, numbers, few)),
        "Tensor.scatter_add_": (lambda x, n, s: x.clone().scatter_add_(1, n, s), (x, numbers, few)),
        "torch.scatter_reduce": (lambda x, n, s: torch.scatter_reduce(x, 1, n, s, "amax"), (x, numbers, few)),
        "torch.scatter_reduce_mean": (
            lambda x, n, s: torch.scatter_reduce(x, 1, n, s, "mean", include_self=False),
            (x, numbers, few),
        ),
        "torch.index_add": (lambda x, n, s: torch.index_add(x, 0, n, s), (x, rows, normal(3, 5))),
        "torch.index_copy": (lambda x, n, s: torch.index_copy(x, 0, n, s), (x, torch.tensor([2, 0]), normal(2, 5))),
        "torch.index_fill": (lambda x, n: torch.index_fill(x, 0, n, 2.5), (x, rows)),
        "Tensor.index_put": (lambda x, i, j, v: x.index_put((i, j), v), (x, rows, columns, normal(3))),
        "Tensor.index_put_add": (
            lambda x, i, v: x.index_put((i,), v, accumulate=True),
            (x, rows, normal(3, 5)),
        ),
        "Tensor.index_put_one": (lambda x, i, v: x.index_put((i,), v), (x, torch.tensor([2, 0]), normal(5))),
        "Tensor.index_put_mask": (_capped, (x,)),
        "Tensor.index_put_chosen": (lambda x: x.index_put((x > 0,), x[x > 0] * 2), (x,)),
        "torch.masked_scatter": (lambda x, v: x.masked_scatter(x > 0, v), (x, normal(3, 5))),
        "Tensor.index_two": (lambda x, i, j: x[i, j], (x, rows, columns)),
        "Tensor.index_apart": (lambda x, i, j: x[i, :, j], (normal(3, 4, 5), rows, columns)),
        "Tensor.index_behind": (lambda x, i, j: x[:, i, j], (normal(3, 4, 5), rows, columns)),
        "Tensor.index_mask": (lambda x: x[x > 0], (x,)),
        "Tensor.index_mask_rows": (lambda x: x[x[:, 0] > 0] * 2, (x,)),
        "Tensor.index_mask_columns": (lambda x: x[:, x[0] > 0].sum(1), (x,)),
        "torch.masked_select": (lambda x: torch.masked_select(x, x > 0), (x,)),
        "torch.nonzero": (lambda x: torch.nonzero(x > 0), (x,)),
        "torch.bitwise_not": (torch.bitwise_not, (numbers,)),
        "torch.bitwise_not_truths": (lambda x: torch.bitwise_not(x > 0), (x,)),
        "Tensor.invert": (lambda n: ~n + 1, (numbers,)),
        "torch.bitwise_and": (torch.bitwise_and, (numbers, several)),
        "torch.bitwise_or": (torch.bitwise_or, (numbers, several)),
        "torch.bitwise_xor": (torch.bitwise_xor, (numbers, several)),
        "torch.bitwise_left_shift": (lambda n: torch.bitwise_left_shift(n, 2), (numbers,)),
    }
    for name, (function, inputs) in calls.items():
        yield Case(name, Calls(function), inputs)


SCATTERS = (scatters,)
