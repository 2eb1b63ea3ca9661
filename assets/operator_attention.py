"""Attention modules for operators.py, with various masks and shared operands."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from operator_layers import Case
from torch import Tensor, inf, nn

# pnnx.export accepts no boolean inputs, so the models convert integers to booleans
_HIDDEN = torch.tensor([[0, 0, 1, 1], [1, 1, 1, 1], [0, 0, 0, 1]])
"""masked keys of three samples; all keys of the second sample are masked"""
_PAIRS = torch.tensor([[0, 1, 0, 1], [0, 0, 1, 1], [0, 0, 0, 0], [0, 1, 1, 0]])


def _mask(x: Tensor) -> Tensor:
    return x if x.is_floating_point() else x > 0


class _Attends(nn.Module):
    """Attention with the given input positions of queries, keys and values, followed by masks."""

    def __init__(self, places: tuple[int, int, int], masks: tuple[str, ...], weights: bool, **options: Any) -> None:
        super().__init__()
        self.attention = nn.MultiheadAttention(8, 2, **options)
        nn.init.normal_(self.attention.in_proj_bias)
        nn.init.normal_(self.attention.out_proj.bias)
        self.places, self.masks, self.weights = places, masks, weights

    def forward(self, *inputs: Tensor) -> Any:
        numbers = inputs[len(inputs) - len(self.masks) :]
        masks = {name: _mask(x) for name, x in zip(self.masks, numbers, strict=True)}
        values = self.attention(*[inputs[place] for place in self.places], need_weights=self.weights, **masks)
        return values if self.weights else values[0]


class _Decodes(nn.Module):
    """Decoder layer with three masks."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.TransformerDecoderLayer(8, 2, 16, batch_first=True)

    def forward(self, x: Tensor, memory: Tensor, pairs: Tensor, hidden: Tensor, unread: Tensor) -> Any:
        return self.layer(
            x, memory, tgt_mask=pairs, tgt_key_padding_mask=_mask(hidden), memory_key_padding_mask=_mask(unread)
        )


def masked() -> Iterator[Case]:
    with torch.random.fork_rng():
        torch.manual_seed(7)
        x, other, long, draw = torch.randn(3, 4, 8), torch.randn(3, 4, 8), torch.randn(3, 5, 8), torch.rand(6, 4, 4)
        added, unread = torch.zeros(4, 4).masked_fill(_mask(_PAIRS), -inf), torch.arange(5).expand(3, 5) // 4
        one, itself, pairs, keys = (0, 0, 0), (0, 1, 1), ("attn_mask",), ("key_padding_mask",)
        both = (*pairs, *keys)
        first: dict[str, Any] = {"batch_first": True}
        cases: dict[str, tuple[nn.Module, tuple[Tensor, ...]]] = {
            "pairs": (_Attends(one, pairs, False, **first), (x, _PAIRS)),
            "pairs_weights": (_Attends(one, pairs, True, **first), (x, _PAIRS)),
            "pairs_last": (_Attends(one, pairs, False), (x.transpose(0, 1).contiguous(), _PAIRS)),
            "pairs_of_each_head": (_Attends(one, pairs, False, **first), (x, (draw > 0.8).long())),
            "pairs_added": (_Attends(one, pairs, False, **first), (x, added)),
            "hidden": (_Attends(one, keys, False, **first), (x, _HIDDEN)),
            "hidden_last": (_Attends(one, keys, False), (x.transpose(0, 1).contiguous(), _HIDDEN)),
            "both": (_Attends(one, both, False, **first), (x, _PAIRS, _HIDDEN)),
            "both_weights": (_Attends(one, both, True, **first), (x, _PAIRS, _HIDDEN[[0, 2, 0]])),
            "both_mixed": (_Attends(one, both, False, **first), (x, added, _HIDDEN[[0, 2, 0]])),
            "cross": (_Attends(itself, keys, False, **first), (x, long, unread)),
            "three": (_Attends((2, 1, 0), keys, False, **first), (x, other, x + other, _HIDDEN)),
            "decoder": (_Decodes(), (x, long, added, _HIDDEN[[0, 2, 0]], unread)),
        }
        for name, (model, inputs) in cases.items():
            yield Case(f"nn.MultiheadAttention_{name}", model, inputs)


ATTENTION = (masked,)
