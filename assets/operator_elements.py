"""Models of one function each, for operators.py: elementwise functions with NaN, infinities and integers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch
from operator_layers import Calls, Case, Functions, cases
from torch import inf, nan

_REAL = torch.tensor([[nan, inf, -inf, 0.0, -0.0, 1.0, -1.0, 2.5], [-2.5, 0.5, -0.5, 30.0, -7.25, 1e-3, 90.0, 180.0]])
_OTHER = torch.tensor([[1.0, 2.0, inf, nan, 3.0, -1.0, 0.5, 0.0], [nan, 4.0, -2.0, 29.0, 1.5, -inf, 0.25, 2.0]])
_LONG = torch.arange(-6, 6).reshape(3, 4)
_BYTES = torch.tensor([[0, 1, 44, 100], [200, 254, 255, 7]], dtype=torch.uint8)
_SHORT = torch.tensor([-128, -1, 0, 44, 127], dtype=torch.int8)


def unary() -> Iterator[Case]:
    functions: tuple[Callable[..., Any], ...] = (
        torch.log2, torch.exp2, torch.deg2rad, torch.rad2deg, torch.positive, torch.sgn, torch.angle, torch.isposinf,
        torch.isneginf, torch.sinc,
    )  # fmt: skip
    for function in functions:
        for kind, x in {"": _REAL, "_long": _LONG, "_double": _REAL.double()}.items():
            yield Case(f"torch.{function.__name__}{kind}", Calls(function), (x,))
    yield Case("aten::special_entr", Calls(torch.special.entr), (_REAL,))


def binary() -> Iterator[Case]:
    calls: Functions = {
        "aten::fmax": (torch.fmax, (_REAL, _OTHER)),
        "aten::fmin": (torch.fmin, (_REAL, _OTHER)),
        "aten::fmax_long": (torch.fmax, (_LONG, _OTHER[1, 4:])),
        "aten::logaddexp2": (torch.logaddexp2, (_REAL, _OTHER)),
        "aten::xlogy": (torch.xlogy, (_REAL, _OTHER)),
        "aten::xlogy_long": (torch.xlogy, (_LONG, _LONG + 7)),
        "aten::xlogy_number": (lambda x: torch.xlogy(x, 2), (_LONG,)),
        "aten::xlogy_of_number": (lambda x: torch.xlogy(0.0, x), (_REAL,)),
        "aten::float_power": (torch.float_power, (_REAL, _OTHER)),
        "aten::float_power_number": (lambda x: torch.float_power(x, 2), (_LONG,)),
        "aten::float_power_of_number": (lambda x: torch.float_power(2, x), (_LONG,)),
        "aten::ldexp": (torch.ldexp, (_REAL, _OTHER)),
        "aten::ldexp_long": (torch.ldexp, (_LONG, torch.tensor([3, 0, -1, 2]))),
        "aten::gcd": (torch.gcd, (_LONG, torch.tensor([4, 6, 0, -9]))),
        "aten::lcm": (torch.lcm, (_LONG, torch.tensor([4, 6, 0, -9]))),
    }
    yield from cases(calls)


def modular() -> Iterator[Case]:
    """Integers outside the range of the tensor's dtype."""
    calls: dict[str, Callable[..., Any]] = {
        "add": lambda x: x + 300,
        "sub": lambda x: x - 300,
        "rsub": lambda x: 300 - x,
        "mul": lambda x: x * 300,
        "floor_divide": lambda x: x // 300,
        "remainder": lambda x: x % 300,
        "fmod": lambda x: torch.fmod(x, 300),
        "and": lambda x: x & 300,
        "chain": lambda x: (x + 300) * 1000 - 7,
        "gt": lambda x: x > 300,
        "eq": lambda x: x == -1,
        "div": lambda x: x / 300,
    }
    for name, call in calls.items():
        for kind, x in {"uint8": _BYTES, "int8": _SHORT}.items():
            yield Case(f"modular_{name}_{kind}", Calls(call), (x,))


def kept() -> Iterator[Case]:
    """Integers and booleans whose dtype NumPy would change."""
    calls: Functions = {
        "torch.round_long": (torch.round, (_LONG,)),
        "torch.round_uint8": (torch.round, (_BYTES,)),
        "torch.square_truths": (lambda x: torch.square(x > 1), (_LONG,)),
        "torch.sign_truths": (lambda x: torch.sign(x > 1), (_LONG,)),
        "torch.masked_fill_truths": (lambda x: (x > 1).masked_fill(x > 3, 0), (_LONG,)),
        "aten::heaviside_long": (torch.heaviside, (_LONG, _LONG + 3)),
        "aten::copysign_long": (torch.copysign, (_LONG, _LONG.flip(0))),
        "aten::copysign_mixed": (torch.copysign, (_LONG, _REAL[:1, 4:])),
        "torch.logsumexp_long": (lambda x: torch.logsumexp(x, 1), (_LONG,)),
        "torch.logsumexp_uint8": (lambda x: torch.logsumexp(x, 1), (_BYTES,)),
    }
    yield from cases(calls)


def special() -> Iterator[Case]:
    functions = {
        "aten::erfc": torch.erfc, "aten::special_ndtr": torch.special.ndtr, "torch.lgamma": torch.lgamma,
        "aten::digamma": torch.digamma, "aten::erfinv": torch.erfinv, "aten::i0": torch.i0,
        "aten::special_i0e": torch.special.i0e,
    }  # fmt: skip
    finite = torch.clamp(torch.nan_to_num(_REAL, 0.75, 9.5, 8.0), max=60)
    for name, function in functions.items():
        # torch's i0 is NaN at infinity, and in single precision infinite from 89 on, instead of 2e37
        x = finite if "i0" in name else _REAL
        for kind, value in {"": x, "_long": _LONG, "_double": x.double()}.items():
            yield Case(f"{name}{kind}", Calls(function), (value,))


def bounds() -> Iterator[Case]:
    short, x = _LONG.int(), torch.linspace(-1, 2, 12).reshape(3, 4) ** 3
    calls: Functions = {
        "aten::clamp_min": (lambda x: x.clamp_min(0.5), (_REAL,)),
        "aten::clamp_max": (lambda x: torch.clamp_max(x, 0.5), (_REAL,)),
        "aten::clamp_min_long": (lambda x: x.clamp_min(0.5), (_LONG,)),
        "aten::clamp_max_short": (lambda x: x.clamp_max(2), (short,)),
        "torch.clamp_long": (lambda x: torch.clamp(x, -0.5, 2.5), (_LONG,)),
        "aten::fake_quantize_per_tensor_affine": (
            lambda x: torch.fake_quantize_per_tensor_affine(x, 0.1, 3, -128, 127),
            (_REAL,),
        ),
        "aten::fake_quantize_per_channel_affine": (
            lambda x, s, z: torch.fake_quantize_per_channel_affine(x, s, z.int(), 0, 0, 255),
            (x, torch.tensor([0.1, 0.02, 0.003]), torch.tensor([3, 0, 128])),
        ),
        "aten::dist": (torch.dist, (x, x.flip(0))),
        "aten::dist_3": (lambda x, y: torch.dist(x, y, 3), (x, x[0])),
        "aten::trapezoid": (lambda x: torch.trapezoid(x, dim=0), (x,)),
        "aten::trapezoid_step": (lambda x: torch.trapezoid(x, dx=0.3), (x,)),
        "aten::trapezoid_points": (lambda x, p: torch.trapezoid(x, p, dim=0), (x, torch.tensor([0.0, 0.5, 2.0]))),
        "aten::block_diag": (lambda a, b: torch.block_diag(a, b, a[0]), (x, x[:2, :3])),
        "aten::hsplit": (lambda x: torch.hsplit(x, [1, 3]), (x,)),
        "aten::hsplit_line": (lambda x: torch.hsplit(x, 2), (x[0],)),
        "aten::vsplit": (lambda x: torch.vsplit(x, 3), (x,)),
        "aten::dsplit": (lambda x: torch.dsplit(x, 2), (x.reshape(3, 2, 2),)),
    }
    yield from cases(calls)


ELEMENTS = (unary, binary, modular, kept, special, bounds)
