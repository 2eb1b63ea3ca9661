"""Contestants that train a classifier of handwritten digits: a hidden layer, cross-entropy, two optimizers."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import explorer as ex
from explorer.plan.options import Kernels

STORED = Path(__file__).parents[2] / "assets" / "handwriting.npz"
Epoch = Callable[[], Any]


class Digits:
    """The digits as rows, their batches in a fixed order, and the initial weights."""

    def __init__(self, batch: int, hidden: int) -> None:
        stored = np.load(STORED)
        self.images = (stored["images"] / 16).astype(np.float32).reshape(-1, 64)
        self.labels = stored["labels"].astype(np.int64)
        order = np.random.default_rng(0).permutation(len(self.images))
        self.batches = [order[at : at + batch] for at in range(0, len(order) - batch + 1, batch)]
        draw = np.random.default_rng(1).normal
        self.weights = [(draw(size=shape) / 8).astype(np.float32) for shape in ((64, hidden), (hidden, 10))]

    def __iter__(self) -> Any:
        """Yield batches gathered as in a loop."""
        return ((self.images[batch], self.labels[batch]) for batch in self.batches)


def of_explorer(digits: Digits, adam: bool, kernels: Kernels = "numpy") -> tuple[Epoch, Callable[[], list[np.ndarray]]]:
    optimizer = ex.train.Adam(0.003) if adam else ex.train.SGD(0.3)
    module = ex.train.Module("digits", loss=ex.train.CrossEntropy(), optimizer=optimizer, kernels=kernels)
    hidden = digits.weights[0].shape[1]
    for layer in (ex.train.Linear("hidden", 64, hidden), ex.relu, ex.train.Linear("scores", hidden, 10)):
        module.add_node(layer)
    module.attach()
    for name, weight in zip(("hidden/weight", "scores/weight"), digits.weights, strict=True):
        module.parameters[name].assign(weight)

    def epoch() -> None:
        for images, labels in digits:
            module.train_on(images, labels)

    return epoch, lambda: [module.parameters[name].array for name in ("hidden/weight", "scores/weight")]


def of_numpy(digits: Digits, adam: bool) -> tuple[Epoch, Callable[[], list[np.ndarray]]]:
    """Return a hand-written step that updates in place."""
    w1, w2 = (weight.copy() for weight in digits.weights)
    b1, b2 = np.zeros(w1.shape[1], np.float32), np.zeros(10, np.float32)
    parameters = [w1, b1, w2, b2]
    means, squares = ([np.zeros_like(p) for p in parameters] for _ in range(2))
    steps = 0

    def epoch() -> None:
        nonlocal steps
        for images, labels in digits:
            steps += 1
            hidden = np.maximum(images @ w1 + b1, 0)
            scores = hidden @ w2 + b2
            scores -= scores.max(1, keepdims=True)
            slope = np.exp(scores)
            slope /= slope.sum(1, keepdims=True)
            rows = np.arange(len(labels))
            float(-np.log(slope[rows, labels]).mean())
            slope[rows, labels] -= 1
            slope /= len(labels)
            back = slope @ w2.T
            back *= hidden > 0
            gradients = [images.T @ back, back.sum(0), hidden.T @ slope, slope.sum(0)]
            if not adam:
                for parameter, gradient in zip(parameters, gradients, strict=True):
                    gradient *= 0.3
                    parameter -= gradient
                continue
            length = 0.003 * np.sqrt(1 - 0.999**steps) / (1 - 0.9**steps)
            for p, g, m, v in zip(parameters, gradients, means, squares, strict=True):
                m *= 0.9
                m += 0.1 * g
                v *= 0.999
                v += 0.001 * g * g
                p -= length * m / (np.sqrt(v) + 1e-8)

    return epoch, lambda: [w1, w2]


def of_torch(digits: Digits, adam: bool) -> tuple[Epoch, Callable[[], list[np.ndarray]]]:
    import torch

    hidden = digits.weights[0].shape[1]
    net = torch.nn.Sequential(torch.nn.Linear(64, hidden), torch.nn.ReLU(), torch.nn.Linear(hidden, 10))
    with torch.no_grad():
        for layer, weight in zip((net[0], net[2]), digits.weights, strict=True):
            layer.weight.copy_(torch.tensor(weight.T))
            layer.bias.zero_()
    factory = partial(torch.optim.Adam, lr=0.003) if adam else partial(torch.optim.SGD, lr=0.3)
    optimizer, criterion = factory(net.parameters()), torch.nn.CrossEntropyLoss()

    def epoch() -> None:
        for images, labels in digits:
            optimizer.zero_grad()
            loss = criterion(net(torch.from_numpy(images)), torch.from_numpy(labels))
            loss.backward()
            optimizer.step()
            loss.item()

    return epoch, lambda: [net[at].weight.detach().numpy().T for at in (0, 2)]
