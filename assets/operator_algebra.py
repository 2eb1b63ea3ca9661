"""Models of one function each, for operators.py: products, norms, cumulative values, quantiles and rotated tensors."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from operator_layers import Case, Functions, cases, normal_by_seed
from torch import inf, nan
from torch.nn import functional

_X, _Y = normal_by_seed(2, 3, 4), normal_by_seed(2, 3, 4, seed=1)
_MATRIX, _SHORT = normal_by_seed(3, 3), torch.arange(12).reshape(3, 4)
_GAPS = torch.tensor([[1.0, nan, 3.0, 2.0, nan, 3.0], [nan, inf, -inf, 0.0, -0.0, 5.0], [4.0, 3.0, 3.0, 7.0, 7.0, 1.0]])


def products() -> Iterator[Case]:
    many, rest = normal_by_seed(2, 3, 5), normal_by_seed(2, 5, 4, seed=2)
    linalg = torch.linalg
    calls: Functions = {
        "aten::tensordot": (lambda x, y: torch.tensordot(x, y, dims=([1, 2], [1, 2])), (_X, _Y)),
        "aten::tensordot_count": (lambda x, y: torch.tensordot(x, y, 1), (_X, rest[0, :4])),
        "aten::inner": (torch.inner, (_X, _Y[0])),
        "aten::vdot": (torch.vdot, (_X[0, 0], _Y[0, 0])),
        "aten::linalg_vecdot": (lambda x, y: linalg.vecdot(x, y, dim=1), (_X, _Y[:1])),
        "aten::kron": (torch.kron, (_MATRIX, _X[0, :2])),
        "aten::kron_ranks": (torch.kron, (_X, _X[0, 0])),
        "aten::bilinear": (functional.bilinear, (many[0], rest[0, :3], normal_by_seed(2, 5, 4), normal_by_seed(2))),
        "torch.cross": (lambda x, y: torch.cross(x, y, dim=1), (_X, _Y)),
        "aten::linalg_cross": (linalg.cross, (_MATRIX, _X[0, :, :1].T.contiguous())),
        "aten::linalg_multi_dot": (lambda a, b, c: linalg.multi_dot([a, b, c]), (_MATRIX, many[0], rest[0])),
        "aten::linalg_matrix_power": (lambda x: linalg.matrix_power(x, 5), (_MATRIX,)),
        "aten::linalg_matrix_power_0": (lambda x: linalg.matrix_power(x, 0), (_MATRIX,)),
        "aten::addbmm": (lambda c, a, b: torch.addbmm(c, a, b, beta=0.5, alpha=2), (_X[0], many, rest)),
        "aten::addr": (lambda c, a, b: torch.addr(c, a, b, beta=0.5, alpha=2), (_X[0], _X[0, :, 0], _X[0, 0])),
        "torch.addmm_without": (lambda c, a, b: torch.addmm(c, a, b, beta=0), (_X[0] / 0 * 0, many[0], rest[0])),
        "torch.baddbmm_without": (lambda c, a, b: torch.baddbmm(c, a, b, beta=0), (_X / 0 * 0, many, rest)),
    }
    yield from cases(calls)


def reductions() -> Iterator[Case]:
    linalg = torch.linalg
    calls: Functions = {
        "aten::std": (lambda x: x.std(), (_X,)),
        "aten::var": (lambda x: x.var(unbiased=False), (_X,)),
        "aten::std_correction": (lambda x: torch.std(x, 1, correction=2, keepdim=True), (_X,)),
        "aten::std_mean_all": (torch.std_mean, (_X,)),
        "aten::var_mean_biased": (lambda x: torch.var_mean(x, 1, unbiased=False), (_X,)),
        "aten::nansum": (lambda x: torch.nansum(x, 1), (_GAPS,)),
        "aten::nansum_all": (torch.nansum, (_GAPS[0],)),
        "aten::nanmean": (lambda x: torch.nanmean(x, 1, keepdim=True), (_GAPS,)),
        "aten::aminmax": (lambda x: torch.aminmax(x, dim=1), (_GAPS,)),
        "aten::aminmax_all": (torch.aminmax, (_X,)),
        "aten::linalg_norm": (linalg.norm, (_X,)),
        "aten::linalg_norm_axis": (lambda x: linalg.norm(x, dim=1), (_X,)),
        "aten::linalg_norm_vector": (lambda x: linalg.norm(x, 3, 1, True), (_X,)),
        "aten::linalg_norm_matrix": (lambda x: linalg.norm(x, 1), (_MATRIX,)),
        "aten::linalg_norm_infinite": (lambda x: linalg.norm(x, -inf, (0, 2), True), (_X,)),
        "aten::linalg_matrix_norm": (linalg.matrix_norm, (_X,)),
        "aten::linalg_matrix_norm_1": (lambda x: linalg.matrix_norm(x, -1, (0, 1)), (_X,)),
        "aten::linalg_matrix_norm_infinite": (lambda x: linalg.matrix_norm(x, inf), (_X,)),
    }
    yield from cases(calls)


def running() -> Iterator[Case]:
    calls: Functions = {
        "torch.cumprod": (lambda x: torch.cumprod(x, 1), (_X,)),
        "torch.cumprod_short": (lambda x: torch.cumprod(x, 1), ((_SHORT + 1).to(torch.uint8),)),
        "torch.cumprod_double": (lambda x: torch.cumprod(x, 0, dtype=torch.float64), (_SHORT + 1,)),
        "aten::logcumsumexp": (lambda x: torch.logcumsumexp(x, -1), (100 * _X,)),
        "aten::logcumsumexp_nan": (lambda x: torch.logcumsumexp(x, 1), (_GAPS,)),
        "aten::cummax": (lambda x: torch.cummax(x, 1), (_GAPS,)),
        "aten::cummin": (lambda x: torch.cummin(x, 1), (_GAPS,)),
        "aten::cummax_long": (lambda x: torch.cummax(x % 3, 0), (_SHORT,)),
    }
    for form in ("linear", "lower", "higher", "nearest", "midpoint"):
        calls[f"aten::quantile_{form}"] = (
            lambda x, form=form: torch.quantile(x, 0.3, 1, True, interpolation=form),
            (normal_by_seed(3, 6),),
        )
    calls["aten::quantile_nan"] = (lambda x: torch.quantile(x, 0.6, 1), (_GAPS,))
    calls["aten::quantile_all"] = (lambda x: torch.quantile(x, 1.0), (_X,))
    calls["aten::msort"] = (torch.msort, (_X,))
    yield from cases(calls)


def rotations() -> Iterator[Case]:
    numbers = torch.tensor([2, 0, 3])
    calls: Functions = {
        "aten::fliplr": (torch.fliplr, (_X,)),
        "aten::flipud": (torch.flipud, (_X,)),
        "aten::rot90": (lambda x: torch.rot90(x, 1, (1, 2)), (_X,)),
        "aten::rot90_2": (lambda x: torch.rot90(x, 2, (2, 0)), (_X,)),
        "aten::rot90_back": (lambda x: torch.rot90(x, -1, (0, 1)), (_X,)),
        "aten::numpy_T": (lambda x: x.T + 0, (_MATRIX,)),
        "aten::view_as": (lambda x, y: x.view_as(y), (_X, normal_by_seed(6, 4))),
        "aten::broadcast_to": (lambda x: x.broadcast_to(2, 3, 4), (_X[0],)),
        "torch.squeeze_several": (lambda x: x.squeeze((0, 1, -1)), (_X[:1, :, :1],)),
        "aten::take": (lambda x, n: torch.take(x, n), (_X, numbers - 4)),
        "torch.repeat_interleave_numbers": (lambda x: x.repeat_interleave(torch.tensor([2, 0, 3]), 1), (_X,)),
        "torch.repeat_interleave_input": (lambda x, n: torch.repeat_interleave(x, n, 1), (_X, numbers)),
        "aten::channel_shuffle": (lambda x: torch.channel_shuffle(x, 2), (normal_by_seed(1, 4, 2, 3),)),
    }
    yield from cases(calls)


ALGEBRA = (products, reductions, running, rotations)
