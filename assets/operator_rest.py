"""Models of one function each, for operators.py: functions with torch's internal names in pnnx, and sampling."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch
from operator_layers import Calls, Case, normal
from torch import Tensor
from torch.nn import functional

_OFFSETS = {"bilinear": "border", "nearest": "zeros", "bicubic": "reflection"}
"""interpolation mode → padding mode"""


def elements() -> Iterator[Case]:
    x, y = normal(3, 4), normal(3, 4)
    calls: dict[str, tuple[Callable[..., Any], tuple[Tensor, ...]]] = {
        "aten::lerp": (lambda x, y: torch.lerp(x, y, 0.3), (x, y)),
        "aten::addcmul": (lambda x, y: torch.addcmul(x, x, y, value=0.5), (x, y)),
        "aten::addcdiv": (lambda x, y: torch.addcdiv(x, x, y), (x, y)),
        "aten::frac": (lambda x: torch.frac(x * 3), (x,)),
        "aten::hypot": (torch.hypot, (x, y)),
        "aten::copysign": (torch.copysign, (x, y)),
        "aten::heaviside": (lambda x, y: torch.heaviside(torch.round(x), y), (x, y)),
        "aten::nan_to_num": (lambda x: torch.nan_to_num(torch.log(x) / 0), (x,)),
        "aten::logit": (lambda x: torch.logit(torch.sigmoid(x)), (x,)),
        "aten::logit_eps": (lambda x: torch.logit(x, 0.1), (x,)),
        "aten::isclose": (lambda x: torch.isclose(x, x + torch.round(x)), (x,)),
        "Tensor.clone": (lambda x: torch.add(x.clone(), 1), (x,)),
    }
    for name, (call, inputs) in calls.items():
        yield Case(name, Calls(call), inputs)


def arrangements() -> Iterator[Case]:
    x, y, numbers = normal(2, 3, 4), normal(2, 5, 4), torch.randint(0, 3, (2, 1, 1))
    calls: dict[str, tuple[Callable[..., Any], tuple[Tensor, ...]]] = {
        "aten::mT": (lambda x: x.mT, (x,)),
        "aten::ravel": (lambda x: x.ravel(), (x,)),
        "aten::unfold": (lambda x: x.unfold(2, 2, 1), (x,)),
        "aten::unfold_step": (lambda x: x.unfold(1, 1, 2), (x,)),
        "aten::where": (lambda x: torch.where(x > 0), (x,)),
        "aten::argwhere": (lambda x: torch.argwhere(x > 0), (x,)),
        "aten::unsafe_chunk": (lambda x: torch.unsafe_chunk(x, 3, 2), (x,)),
        "aten::broadcast_tensors": (lambda x, y: torch.broadcast_tensors(x, y)[1], (x, normal(3, 1))),
        "aten::take_along_dim": (lambda x, n: torch.take_along_dim(x, n, 1), (x, numbers)),
        "Tensor.slice_several": (lambda x: x[:, ::2, 1::2], (x,)),
        "aten::std_mean": (lambda x: torch.std_mean(x, 2), (x,)),
        "aten::var_mean": (lambda x: torch.var_mean(x, (0, 1), correction=0, keepdim=True), (x,)),
        "aten::count_nonzero": (lambda x: torch.count_nonzero(torch.round(x), 1), (x,)),
        "aten::diff": (lambda x: torch.diff(x, 2, 1), (x,)),
        "aten::cdist": (torch.cdist, (x, y)),
        "aten::cdist_1": (lambda x, y: torch.cdist(x, y, 1.0), (x, y)),
        "aten::median": (lambda x: torch.median(x, 1), (x,)),
        "aten::median_all": (torch.median, (x,)),
        "aten::kthvalue": (lambda x: torch.kthvalue(x, 3, 2, True), (x,)),
        "aten::bincount": (lambda n: torch.bincount(n.flatten(), minlength=7), (torch.randint(0, 5, (3, 4)),)),
        "aten::trace": (lambda x: torch.trace(x[0]), (x,)),
    }
    for name, (call, inputs) in calls.items():
        yield Case(name, Calls(call), inputs)


def samplings() -> Iterator[Case]:
    x, theta = normal(2, 3, 5, 6), normal(2, 2, 3)
    grid = normal(2, 4, 5, 2)
    for aligned in (False, True):
        for mode, padding in _OFFSETS.items():
            call = Calls(lambda x, g, m=mode, p=padding, a=aligned: functional.grid_sample(x, g, m, p, align_corners=a))
            yield Case(f"F.grid_sample_{mode}_{padding}_{aligned}", call, (x, grid))
        points = Calls(lambda t, a=aligned: functional.affine_grid(t, [2, 3, 5, 6], align_corners=a))
        yield Case(f"F.affine_grid_{aligned}", points, (theta,))


REST = (elements, arrangements, samplings)
