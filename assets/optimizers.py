"""Write the parameters after steps of PyTorch's optimizers with fixed gradients, as references for update rules.

README.md in this folder explains how to install the imported packages.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch

TARGET = Path(__file__).parent / "optimizers.npz"
STEPS, SIZE = 20, 7
OPTIMIZERS = {
    "sgd": lambda p: torch.optim.SGD([p], lr=0.1),
    "momentum": lambda p: torch.optim.SGD([p], lr=0.1, momentum=0.9),
    "nesterov": lambda p: torch.optim.SGD([p], lr=0.1, momentum=0.9, nesterov=True),
    "adagrad": lambda p: torch.optim.Adagrad([p], lr=0.1, eps=1e-5),
    "adam": lambda p: torch.optim.Adam([p], lr=0.1),
    "adamw": lambda p: torch.optim.AdamW([p], lr=0.1, weight_decay=0.3),
    "amsgrad": lambda p: torch.optim.Adam([p], lr=0.1, amsgrad=True),
    "decayed": lambda p: torch.optim.SGD([p], lr=0.1, momentum=0.9, weight_decay=0.3),
    "clipped": lambda p: torch.optim.SGD([p], lr=0.1),
}
CLIPPED_NORM = 2.0
FIRST = 3
"""number of elements of the first of two parameters"""
GROUPED = {
    "grouped": lambda p, q: torch.optim.AdamW(
        [{"params": [p], "lr": 0.01, "weight_decay": 0.0}, {"params": [q]}], lr=0.1, weight_decay=0.3
    ),
    "grouped_clipped": lambda p, q: torch.optim.SGD(
        [{"params": [p], "lr": 0.01}, {"params": [q], "weight_decay": 0.3}], lr=0.1, momentum=0.9
    ),
    "frozen_clipped": lambda p, q: torch.optim.SGD([q], lr=0.1, momentum=0.9),
}


def main() -> None:
    generator = np.random.default_rng(0)
    start, gradients = generator.normal(size=SIZE), generator.normal(size=(STEPS, SIZE))
    reached = {"start": start, "gradients": gradients}
    for name, make in OPTIMIZERS.items():
        parameter = torch.nn.Parameter(torch.tensor(start))
        optimizer = make(parameter)
        values = []
        for gradient in gradients:
            parameter.grad = torch.tensor(gradient)
            if name == "clipped":
                torch.nn.utils.clip_grad_norm_([parameter], CLIPPED_NORM)
            optimizer.step()
            values.append(parameter.detach().numpy().copy())
        reached[name] = np.stack(values)
    for name, make in GROUPED.items():
        parameters = [torch.nn.Parameter(torch.tensor(part)) for part in np.split(start, [FIRST])]
        optimizer = make(*parameters)
        values = []
        for gradient in gradients:
            for parameter, part in zip(parameters, np.split(gradient, [FIRST]), strict=True):
                parameter.grad = torch.tensor(part)
            if name.endswith("clipped"):
                torch.nn.utils.clip_grad_norm_(
                    [q for group in optimizer.param_groups for q in group["params"]], CLIPPED_NORM
                )
            optimizer.step()
            values.append(np.concatenate([parameter.detach().numpy() for parameter in parameters]))
        reached[name] = np.stack(values)
    parameter = torch.nn.Parameter(torch.zeros(1))
    optimizer = torch.optim.SGD([parameter], lr=0.5)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=STEPS, eta_min=0.05)
    rates = []
    for _ in range(STEPS + 1):
        rates.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        schedule.step()
    reached["cosine"] = np.array(rates)
    np.savez_compressed(TARGET, **reached)


if __name__ == "__main__":
    main()
