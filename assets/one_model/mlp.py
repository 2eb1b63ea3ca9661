"""Two linear layers, tanh and a softmax."""

import torch
from torch import Tensor, nn


class MLP(nn.Module):
    """Multilayer perceptron that also returns twice its hidden values."""

    def __init__(self) -> None:
        super().__init__()
        self.l1 = nn.Linear(64, 48)
        self.l2 = nn.Linear(48, 10)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        h = torch.tanh(self.l1(x))
        z = self.l2(h)
        return torch.softmax(z, -1), 2 * h


torch.manual_seed(0)
program, inputs = MLP().eval(), (torch.randn(32, 64),)
