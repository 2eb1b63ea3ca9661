"""Models of one function each, for operators.py: products, selections, reductions, creation."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch
from operator_layers import Calls, Case, normal
from torch import Tensor
from torch.nn import functional


def products() -> Iterator[Case]:
    a, b, c = normal(3, 4), normal(4, 5), normal(3, 5)
    many = normal(2, 3, 4), normal(2, 4, 5), normal(2, 3, 5)
    yield Case("torch.addmm", Calls(lambda c, a, b: torch.addmm(c, a, b, beta=0.5, alpha=2)), (c, a, b))
    yield Case("torch.baddbmm", Calls(lambda c, a, b: torch.baddbmm(c, a, b, beta=0.5, alpha=2)), (many[2], *many[:2]))
    yield Case("torch.mv", Calls(torch.mv), (a, normal(4)))
    yield Case("torch.einsum", Calls(lambda a, b: torch.einsum("bij,bjk->bki", a, b)), many[:2])
    yield Case("torch.einsum_outer", Calls(lambda a, b: torch.einsum("ij,k->kij", a, b)), (a, normal(5)))
    many = normal(2, 3, 4), normal(3, 4), normal(4, 5)
    yield Case("torch.einsum_three", Calls(lambda a, b, c: torch.einsum("nij,ij,jk->nk", a, b, c)), many)
    yield Case("torch.outer", Calls(torch.outer), (normal(3), normal(4)))


def choices() -> Iterator[Case]:
    x = normal(3, 4, 5)
    numbers = torch.tensor([2, 0, 3])
    several = torch.randint(0, 4, (3, 2, 5))
    calls: dict[str, tuple[Callable[..., Any], tuple[Tensor, ...]]] = {
        "torch.argmax": (lambda x: torch.argmax(x, 1), (x,)),
        "torch.argmax_all": (lambda x: torch.argmax(x), (x,)),
        "torch.argmin": (lambda x: torch.argmin(x, -1, keepdim=True), (x,)),
        "torch.max": (lambda x: torch.max(x, 1), (x,)),
        "torch.max_all": (lambda x: torch.max(x), (x,)),
        "torch.min": (lambda x: torch.min(x, -1, keepdim=True), (x,)),
        "torch.topk": (lambda x: torch.topk(x, 3, 1), (x,)),
        "torch.topk_smallest": (lambda x: torch.topk(x, 2, -1, largest=False), (x,)),
        "torch.sort": (lambda x: torch.sort(x, 1, descending=True), (x,)),
        "torch.argsort": (lambda x: torch.argsort(x, 1), (x,)),
        "torch.cumsum": (lambda x: torch.cumsum(x, 1), (x,)),
        "torch.flip": (lambda x: torch.flip(x, (0, -1)), (x,)),
        "torch.roll": (lambda x: torch.roll(x, (1, -2), (0, 2)), (x,)),
        "torch.gather": (lambda x, n: torch.gather(x, 1, n), (x, several)),
        "torch.index_select": (lambda x, n: torch.index_select(x, 1, n), (x, numbers)),
        "Tensor.index": (lambda x, n: x[:, n], (x, numbers)),
        "torch.masked_fill": (lambda x: x.masked_fill(x > 0.5, -1.0), (x,)),
        "torch.where": (lambda x: torch.where(x > 0, x, x * 2), (x,)),
        "torch.tril": (lambda x: torch.tril(x, -1), (x,)),
        "torch.triu": (lambda x: torch.triu(x, 1), (x,)),
        "Tensor.repeat": (lambda x: x.repeat(2, 1, 1, 3), (x,)),
        "torch.repeat_interleave": (lambda x: torch.repeat_interleave(x, 2, 1), (x,)),
        "Tensor.unflatten": (lambda x: x.unflatten(1, (2, 2)), (x,)),
        "torch.unbind": (lambda x: torch.unbind(x, 1), (x,)),
        "torch.tensor_split": (lambda x: torch.tensor_split(x, 3, 1), (x,)),
        "torch.movedim": (lambda x: torch.movedim(x, 0, 2), (x,)),
        "Tensor.type_as": (lambda x, n: n.type_as(x), (x, numbers)),
        "Tensor.to": (lambda x: x.to(torch.int64), (x,)),
        "F.one_hot": (lambda n: functional.one_hot(n, 5), (numbers,)),
        "F.embedding": (functional.embedding, (numbers, normal(4, 3))),
        "torch.isnan": (lambda x: torch.isnan(torch.log(x)), (x,)),
        "torch.logical_and": (lambda x: torch.logical_and(x > 0, x < 1), (x,)),
        "torch.logical_or": (lambda x: torch.logical_or(x < 0, x > 1), (x,)),
        "torch.logical_xor": (lambda x: torch.logical_xor(x < 0, x > -1), (x,)),
        "torch.logical_not": (lambda x: torch.logical_not(x > 0), (x,)),
        "torch.max_two": (torch.max, (x, normal(4, 5))),
        "Tensor.expand_as": (lambda x, y: y.expand_as(x) + x, (x, normal(4, 1))),
        "torch.slice_scatter": (lambda x, y: torch.slice_scatter(x, y, 1, 1, 3), (x, normal(3, 2, 5))),
        "torch.select_scatter": (lambda x, y: torch.select_scatter(x, y, 1, 2), (x, normal(3, 5))),
        "torch.minimum": (lambda x, y: torch.minimum(x, y), (x, normal(4, 5))),
        "torch.diff": (lambda x: x[:, 1:] - x[:, :-1], (x,)),
    }
    for name, (function, inputs) in calls.items():
        yield Case(name, Calls(function), inputs)


def reductions() -> Iterator[Case]:
    x = normal(3, 4, 5)
    calls: dict[str, Callable[..., Any]] = {
        "torch.var": lambda x: torch.var(x, (1, 2)),
        "torch.var_biased": lambda x: torch.var(x, 1, unbiased=False, keepdim=True),
        "torch.std": lambda x: torch.std(x, -1),
        "torch.prod": lambda x: torch.prod(x, 1),
        "torch.norm": lambda x: torch.norm(x, dim=1),
        "torch.norm_1": lambda x: torch.norm(x, p=1, dim=(1, 2), keepdim=True),
        "torch.linalg.norm": lambda x: torch.linalg.vector_norm(x, dim=-1),
        "torch.logsumexp": lambda x: torch.logsumexp(x, 1),
        "torch.mean_all": lambda x: torch.mean(x),
        "torch.all": lambda x: torch.all(x > -1, 1),
        "torch.any": lambda x: torch.any(x > 1, 1),
        "torch.clamp": lambda x: torch.clamp(x, -0.5, 0.5),
        "torch.clamp_min": lambda x: x.clamp(min=0.1),
    }
    for name, function in calls.items():
        yield Case(name, Calls(function), (x,))


def creations() -> Iterator[Case]:
    x = normal(3, 4)
    calls: dict[str, Callable[..., Any]] = {
        "torch.zeros": lambda x: x + torch.zeros(x.size(0), 4),
        "torch.ones": lambda x: x + torch.ones(x.size(0), 4),
        "torch.full": lambda x: x + torch.full((x.size(0), 4), 2.5),
        "torch.arange": lambda x: x + torch.arange(x.size(1)),
        "torch.zeros_like": lambda x: torch.cat((x, torch.zeros_like(x))),
        "torch.ones_like": lambda x: torch.cat((x, torch.ones_like(x))),
        "torch.full_like": lambda x: torch.cat((x, torch.full_like(x, 2.5))),
        "Tensor.new_zeros": lambda x: torch.cat((x, x.new_zeros(2, 4))),
        "Tensor.new_full": lambda x: torch.cat((x, x.new_full((2, 4), 1.5))),
        "torch.arange_open": lambda x: x + torch.arange(0, x.size(1), 1, dtype=torch.float32, device=x.device),
        "torch.linspace": lambda x: x + torch.linspace(0, 1, 4),
    }
    for name, function in calls.items():
        yield Case(name, Calls(function), (x,))


FUNCTIONS = (products, choices, reductions, creations)
