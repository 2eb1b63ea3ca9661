"""Write reference values from PyTorch for a few training steps of two small nets with batch normalization.

README.md in this folder explains how to install the imported packages.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from torch import nn

TARGET = Path(__file__).parent / "batch_norm.npz"
STEPS = 4
NETS = {
    "rows": (
        lambda: nn.Sequential(nn.Linear(5, 4), nn.BatchNorm1d(4), nn.ReLU(), nn.Linear(4, 3)),
        (6, 5),
    ),
    "pictures": (
        lambda: nn.Sequential(
            nn.Conv2d(2, 3, 3, padding=1),
            nn.BatchNorm2d(3, eps=1e-3, momentum=0.3),
            nn.ReLU(),
            nn.Flatten(),
            nn.Linear(48, 3),
        ),
        (5, 2, 4, 4),
    ),
}


def main() -> None:
    generator = np.random.default_rng(3)
    arrays = {}
    for name, (make, shape) in NETS.items():
        torch.manual_seed(0)
        net = make().double()
        inputs = generator.normal(loc=1.0, size=(STEPS, *shape))
        labels = generator.integers(3, size=(STEPS, shape[0]))
        arrays[f"{name}/inputs"], arrays[f"{name}/labels"] = inputs, labels
        optimizer = torch.optim.SGD(net.parameters(), lr=0.2, momentum=0.9)
        kept = {key: [value.numpy().copy()] for key, value in net.state_dict().items() if value.is_floating_point()}
        losses = []
        for x, label in zip(inputs, labels, strict=True):
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(net(torch.tensor(x)), torch.tensor(label))
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
            for key, values in kept.items():
                values.append(net.state_dict()[key].numpy().copy())
        net.eval()
        arrays[f"{name}/losses"] = np.array(losses)
        arrays[f"{name}/inference"] = net(torch.tensor(inputs[0])).detach().numpy()
        arrays |= {f"{name}/{key}": np.stack(values) for key, values in kept.items()}
    np.savez_compressed(TARGET, **arrays)


if __name__ == "__main__":
    main()
