"""Models of one function each, for operators.py: indices, similarities, diagonals, grids, concatenation."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from operator_layers import Calls, Case, Functions, cases, normal_by_seed
from torch import inf, nan, nn
from torch.nn import functional


def poolings() -> Iterator[Case]:
    image, line, volume = normal_by_seed(2, 3, 7, 8), normal_by_seed(2, 3, 11), normal_by_seed(1, 2, 5, 6, 7)
    # equal elements, a window of only −∞, and several NaN
    equal = torch.round(image)
    least = torch.where(image > -0.5, -inf, image)
    absent = torch.where(image > 0.8, nan, image)
    options: dict[str, Any] = {"kernel_size": 3, "stride": 2, "padding": 1, "return_indices": True}
    for kind, x in {"": image, "_equal": equal, "_least": least, "_nan": absent}.items():
        yield Case(f"F.max_pool2d_places{kind}", Calls(nn.MaxPool2d(**options)), (x,))
        adaptive = nn.AdaptiveMaxPool2d((3, 5), return_indices=True)
        yield Case(f"F.adaptive_max_pool2d_places{kind}", Calls(adaptive), (x,))
    calls: Functions = {
        # a computed window is an operand
        "aten::avg_pool2d": (
            lambda x: functional.avg_pool2d(x.abs() ** 3.0, (x.size(-2), x.size(-1))) ** 0.5,
            (image,),
        ),
        "aten::max_pool2d": (lambda x: functional.max_pool2d(x.abs(), (x.size(-2) // 2, x.size(-1) // 3)), (image,)),
        "aten::avg_pool1d": (lambda x: functional.avg_pool1d(x.abs(), x.size(-1) // 3, x.size(-1) // 4), (line,)),
    }
    yield from cases(calls)
    dilated = nn.MaxPool2d((2, 3), (1, 2), (1, 0), dilation=(3, 2), ceil_mode=True, return_indices=True)
    yield Case("F.max_pool2d_places_dilated", Calls(dilated), (image,))
    yield Case("F.max_pool2d_places_ceil", Calls(nn.MaxPool2d(3, 2, ceil_mode=True, return_indices=True)), (image,))
    yield Case("F.max_pool1d_places", Calls(nn.MaxPool1d(**options)), (line,))
    yield Case("F.max_pool3d_places", Calls(nn.MaxPool3d(**options)), (volume,))


def searches() -> Iterator[Case]:
    row = torch.tensor([-1.5, -0.5, -0.5, 0.0, 0.25, 1.0, inf])
    x = torch.tensor([[nan, inf, -inf, 0.0, -0.0], [-0.5, 0.25, 0.3, 5.0, -2.0]])
    rows, order = torch.sort(normal_by_seed(3, 6))[0], torch.tensor([5, 4, 3, 2, 1, 0])
    integers = torch.tensor([1, 3, 3, 8])
    calls: Functions = {
        "aten::searchsorted": (torch.searchsorted, (row, x)),
        "aten::searchsorted_right": (lambda s, x: torch.searchsorted(s, x, right=True), (row, x)),
        "aten::searchsorted_side": (lambda s, x: torch.searchsorted(s, x, side="right", out_int32=True), (row, x)),
        "aten::searchsorted_rows": (torch.searchsorted, (rows, normal_by_seed(3, 4, seed=1))),
        "aten::searchsorted_order": (lambda s, n, x: torch.searchsorted(s, x, sorter=n), (rows[0].flip(0), order, x)),
        "aten::searchsorted_number": (lambda s: torch.searchsorted(s, 0.1), (row,)),
        "aten::searchsorted_none": (torch.searchsorted, (row[:0], x)),
        "aten::bucketize": (torch.bucketize, (x, row)),
        "aten::bucketize_right": (lambda x, s: torch.bucketize(x, s, right=True), (x, row)),
        "aten::bucketize_short": (lambda x, s: torch.bucketize(x, s, out_int32=True), (integers * 2 - 3, integers)),
        "aten::isin": (lambda x: torch.isin(x, torch.tensor([1, 8])), (integers,)),
        "aten::isin_inverted": (lambda x, y: torch.isin(x, y, invert=True), (x, row)),
    }
    yield from cases(calls)


def similarities() -> Iterator[Case]:
    x, y = normal_by_seed(3, 4, 5), normal_by_seed(3, 4, 5, seed=1)
    empty = torch.where(torch.arange(3).reshape(3, 1, 1) == 1, 0.0, x)
    calls: Functions = {
        "aten::cosine_similarity": (lambda x, y: functional.cosine_similarity(x, y, dim=1), (x, y)),
        "aten::cosine_similarity_zero": (functional.cosine_similarity, (empty, y)),
        "aten::cosine_similarity_eps": (lambda x, y: functional.cosine_similarity(x, y, -1, 2.5), (x, y)),
        "aten::cosine_similarity_pairs": (
            lambda x, y: functional.cosine_similarity(x[:, None], y[None], dim=-1),
            (x[:, 0], y[:, 1]),
        ),
        "aten::cosine_similarity_ranks": (lambda x, y: functional.cosine_similarity(x, y, dim=0), (x, y[0, :, :1])),
        "F.pairwise_distance": (functional.pairwise_distance, (x, y)),
        "F.pairwise_distance_1": (lambda x, y: functional.pairwise_distance(x, y, 1.0, 0.1, True), (x, y[0])),
    }
    yield from cases(calls)


def diagonals() -> Iterator[Case]:
    x, matrix = normal_by_seed(2, 3, 4), normal_by_seed(4, 6)
    calls: Functions = {
        "aten::diagonal": (lambda x: torch.diagonal(x, 0, 1, 2), (x,)),
        "aten::diagonal_last": (lambda x: torch.diagonal(x, 1, -1, 0), (x,)),
        "aten::diagonal_below": (lambda x: torch.diagonal(x, -2), (matrix,)),
        "aten::diagonal_above": (lambda x: torch.diagonal(x, 3), (matrix,)),
        "torch.diag": (torch.diag, (matrix,)),
        "torch.diag_vector": (lambda x: torch.diag(x, -2), (matrix[0],)),
        "aten::diag_embed": (torch.diag_embed, (x,)),
        "aten::diag_embed_moved": (lambda x: torch.diag_embed(x, 1, 0, 2), (x,)),
        "aten::diagflat": (lambda x: torch.diagflat(x, 1), (matrix[:2, :2],)),
    }
    yield from cases(calls)


def joined() -> Iterator[Case]:
    x, y = normal_by_seed(3, 4), torch.arange(12).reshape(3, 4)
    line, word = normal_by_seed(3), torch.arange(3)
    calls: Functions = {
        "aten::meshgrid": (lambda a, b: torch.meshgrid(a, b, indexing="ij"), (line, x[0])),
        "aten::meshgrid_xy": (lambda a, b, c: torch.meshgrid(a, b, c, indexing="xy"), (line, x[1], x[0, :2])),
        "torch.narrow": (lambda x: torch.narrow(x, 1, -3, 2), (x,)),
        "Tensor.narrow": (lambda x: x.narrow(0, 1, 2), (x,)),
    }
    for name in ("hstack", "vstack", "dstack", "column_stack"):
        call = getattr(torch, name)
        calls[f"aten::{name}"] = (lambda a, b, call=call: call([a, b]), (x, y))
        calls[f"aten::{name}_lines"] = (lambda a, b, call=call: call([a, b]), (line, word))
    for rank in (1, 2, 3):
        call = getattr(torch, f"atleast_{rank}d")
        for kind, value in {"line": line, "matrix": x}.items():
            calls[f"aten::atleast_{rank}d_{kind}"] = (lambda x, call=call: call(x) + 0, (value,))
    yield from cases(calls)


PLACES = (poolings, searches, similarities, diagonals, joined)
