"""Training step of two transformer blocks with Adam."""

import torch
from torch import Tensor, nn

Tensors = dict[str, Tensor]


class Block(nn.Module):
    """Attention with a causal mask, and a gated feedforward net, each with a norm and a residual connection."""

    def __init__(self, width: int = 64, heads: int = 4) -> None:
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.RMSNorm(width), nn.RMSNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width, bias=False), nn.Linear(width, width, bias=False)
        self.gate, self.up = (nn.Linear(width, 2 * width, bias=False) for _ in range(2))
        self.down = nn.Linear(2 * width, width, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        batch, length, width = x.shape
        parts = self.qkv(self.norm1(x)).chunk(3, -1)
        q, k, v = (part.view(batch, length, self.heads, -1).transpose(1, 2) for part in parts)
        scores = q @ k.transpose(-1, -2) / (width // self.heads) ** 0.5
        unseen = torch.ones(length, length, dtype=torch.bool).triu(1)
        weights = torch.softmax(scores.masked_fill(unseen, float("-inf")), -1)
        x = x + self.out((weights @ v).transpose(1, 2).reshape(batch, length, width))
        h = self.norm2(x)
        return x + self.down(nn.functional.silu(self.gate(h)) * self.up(h))


class Model(nn.Module):
    """Language model of two blocks."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(100, 64)
        self.blocks = nn.Sequential(Block(), Block())
        self.head = nn.Linear(64, 100, bias=False)

    def forward(self, tokens: Tensor) -> Tensor:
        return self.head(self.blocks(self.embed(tokens)))


torch.manual_seed(0)
model = Model()


def program(
    weights: Tensors, mean: Tensors, square: Tensors, tokens: Tensor
) -> tuple[Tensors, Tensors, Tensors, Tensor]:
    """Return the weights and Adam's moments after a step, and the loss."""

    def loss_of(weights: Tensors) -> Tensor:
        scores = torch.func.functional_call(model, weights, (tokens[:, :-1],))
        return nn.functional.cross_entropy(scores.flatten(0, 1), tokens[:, 1:].flatten())

    gradients, loss = torch.func.grad_and_value(loss_of)(weights)
    mean = {name: 0.9 * mean[name] + 0.1 * gradient for name, gradient in gradients.items()}
    square = {name: 0.999 * square[name] + 0.001 * gradient**2 for name, gradient in gradients.items()}
    weights = {name: weights[name] - 1e-3 * mean[name] / (square[name].sqrt() + 1e-8) for name in weights}
    return weights, mean, square, loss


weights = {name: weight.detach() for name, weight in model.named_parameters()}
zeros = {name: torch.zeros_like(weight) for name, weight in weights.items()}
inputs = weights, zeros, {**zeros}, torch.randint(100, (2, 17))
