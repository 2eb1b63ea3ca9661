"""Models of one function each, for operators.py: results with other dtypes than operands, and signs of NaN."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch
from operator_layers import Calls, Case
from torch import Tensor
from torch.nn import functional

_REAL = torch.arange(-5, 7, dtype=torch.float32).reshape(3, 4) / 4
_LONG = torch.arange(12).reshape(3, 4)
_SMALL = torch.full((3, 4), 200, dtype=torch.uint8)
_NAN = torch.tensor([[1.0, torch.nan, -2.0, 0.0]])


def converted() -> Iterator[Case]:
    calls: dict[str, tuple[Callable[..., Any], tuple[Tensor, ...]]] = {
        "torch.sum_uint8": (lambda x: torch.sum(x, 1), (_SMALL,)),
        "torch.sum_double": (lambda x: torch.sum(x, 1, dtype=torch.float64), (_REAL,)),
        "torch.prod_uint8": (lambda x: torch.prod(x, 1), (_SMALL,)),
        "torch.mean_float": (lambda x: torch.mean(x, 1, dtype=torch.float32), (_LONG,)),
        "torch.cumsum_uint8": (lambda x: torch.cumsum(x, 1), (_SMALL,)),
        "torch.cumsum_double": (lambda x: torch.cumsum(x, 1, dtype=torch.float64), (_REAL,)),
        "torch.cumsum_int32": (lambda x: torch.cumsum(x, 0, dtype=torch.int32), (_LONG,)),
        "torch.cumsum_truths": (lambda x: torch.cumsum(x > 0, 1), (_REAL,)),
        "F.softmax_double": (lambda x: functional.softmax(x, 1, dtype=torch.float64), (_REAL,)),
        "F.log_softmax_double": (lambda x: functional.log_softmax(x, 1, dtype=torch.float64), (_REAL,)),
        "F.softmax_long": (lambda x: functional.softmax(x, 1, dtype=torch.float32), (_LONG,)),
        "torch.where_mixed": (lambda x, n: torch.where(x > 0, x, n), (_REAL, _LONG)),
        "torch.cat_mixed": (lambda x, n: torch.cat([x, n], 1), (_REAL, _LONG)),
        "torch.stack_mixed": (lambda x, n: torch.stack([n, x], 1), (_REAL, _LONG)),
        "F.sigmoid_long": (torch.sigmoid, (_LONG,)),
        "torch.any_uint8": (lambda x: torch.any(x, 1), (_SMALL,)),
        "torch.all_uint8": (lambda x: torch.all(x, 0), (_SMALL,)),
        "torch.sign_nan": (torch.sign, (_NAN,)),
        "aten::heaviside_nan": (lambda x: torch.heaviside(x, x), (_NAN,)),
    }
    for name, (call, inputs) in calls.items():
        yield Case(name, Calls(call), inputs)


DTYPES = (converted,)
