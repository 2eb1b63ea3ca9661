"""Write reference values from PyTorch for a few training steps of an LSTM and a GRU classifier.

README.md in this folder explains how to install the imported packages.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from torch import nn

TARGET = Path(__file__).parent / "recurrent_training.npz"
FEATURES, HIDDEN, CLASSES, STEPS = 3, 4, 3, 4


def main() -> None:
    generator = np.random.default_rng(5)
    inputs = generator.normal(size=(STEPS, 6, 7, FEATURES))
    labels = generator.integers(CLASSES, size=(STEPS, 6))
    arrays = {"inputs": inputs, "labels": labels}
    for name, make in (("lstm", nn.LSTM), ("gru", nn.GRU)):
        torch.manual_seed(1)
        memory, head = make(FEATURES, HIDDEN, batch_first=True).double(), nn.Linear(HIDDEN, CLASSES).double()
        named = {"memory": memory, "head": head}
        parameters = {f"{part}.{key}": value for part, net in named.items() for key, value in net.named_parameters()}
        optimizer = torch.optim.SGD(parameters.values(), lr=0.5, momentum=0.9)
        kept = {key: [value.detach().numpy().copy()] for key, value in parameters.items()}
        losses = []
        for x, label in zip(inputs, labels, strict=True):
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(head(memory(torch.tensor(x))[0][:, -1]), torch.tensor(label))
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
            for key, values in kept.items():
                values.append(parameters[key].detach().numpy().copy())
        arrays[f"{name}/losses"] = np.array(losses)
        arrays[f"{name}/sequence"] = memory(torch.tensor(inputs[0]))[0].detach().numpy()
        arrays |= {f"{name}/{key}": np.stack(values) for key, values in kept.items()}
    np.savez_compressed(TARGET, **arrays)


if __name__ == "__main__":
    main()
