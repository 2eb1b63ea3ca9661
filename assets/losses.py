"""Write reference values from PyTorch for losses and their gradients.

The leading axes of arrays correspond to the options, in the order of the constants below. The last axes belong to the
losses of samples or to the gradient. README.md in this folder explains how to install the imported packages.
"""

from __future__ import annotations

from itertools import product
from pathlib import Path

import numpy as np
import torch
from torch.nn import functional

TARGET = Path(__file__).parent / "losses.npz"
SMOOTHINGS = (0.0, 0.3)
IGNORED = (None, -100, 1)
REDUCTIONS = ("mean", "sum")
CLASS_WEIGHTS = (0.5, 2.0, 0.0, 1.5)
SAMPLES = (3, 4)


def both(loss, output, **options):
    """Return the losses for each reduction, the loss of each sample, and the gradients for each reduction."""
    values, gradients = [], []
    for reduction in REDUCTIONS:
        at = torch.tensor(output, requires_grad=True)
        value = loss(at, reduction=reduction, **options)
        value.backward()
        values.append(value.item())
        gradients.append(at.grad.numpy())
    each = loss(torch.tensor(output), reduction="none", **options).numpy()
    return np.array(values), each, np.stack(gradients)


def of_scores(scores, reduction, target, **options):
    # torch's classes are along axis 1.
    target = target.movedim(-1, 1) if target.is_floating_point() else target
    return functional.cross_entropy(scores.movedim(-1, 1), target, reduction=reduction, **options)


def of_probabilities(probabilities, reduction, target, **options):
    return functional.nll_loss(probabilities.log().movedim(-1, 1), target, reduction=reduction, **options)


def of_logits(scores, reduction, target, **options):
    return functional.binary_cross_entropy_with_logits(scores, target, reduction=reduction, **options)


def main() -> None:
    generator = np.random.default_rng(7)
    classes = len(CLASS_WEIGHTS)
    scores = generator.normal(size=(*SAMPLES, classes))
    numbers = generator.integers(classes, size=SAMPLES)
    left_out = np.where(generator.random(SAMPLES) < 0.3, -100, numbers)
    rows = generator.dirichlet(np.ones(classes), SAMPLES)
    probabilities = generator.dirichlet(np.ones(classes), SAMPLES)
    targets, outputs = generator.random(SAMPLES), generator.random(SAMPLES)
    weighed = (None, torch.tensor(CLASS_WEIGHTS, dtype=torch.float64))
    arrays = {
        "scores": scores,
        "numbers": numbers,
        "left_out": left_out,
        "rows": rows,
        "probabilities": probabilities,
        "targets": targets,
        "outputs": outputs,
        "class_weights": np.array(CLASS_WEIGHTS),
    }
    found = {
        "classes": [
            both(
                of_scores,
                scores,
                target=torch.tensor(left_out if ignored == -100 else numbers),
                label_smoothing=smoothing,
                weight=weight,
                **({} if ignored is None else {"ignore_index": ignored}),
            )
            for smoothing, ignored, weight in product(SMOOTHINGS, IGNORED, weighed)
        ],
        "mixtures": [
            both(of_scores, scores, target=torch.tensor(rows), label_smoothing=smoothing, weight=weight)
            for smoothing, weight in product(SMOOTHINGS, weighed)
        ],
        "likelihoods": [
            both(of_probabilities, probabilities, target=torch.tensor(numbers), weight=weight) for weight in weighed
        ],
        "squares": [
            both(
                lambda x, reduction, target: functional.mse_loss(x, target, reduction=reduction),
                outputs,
                target=torch.tensor(targets),
            )
        ],
        "logits": [
            both(of_logits, scores, target=torch.tensor(rows), pos_weight=weight)
            for weight in (None, torch.tensor([3.0], dtype=torch.float64), weighed[1])
        ],
        "binary": [
            both(
                lambda x, reduction, target: functional.binary_cross_entropy(x, target, reduction=reduction),
                outputs,
                target=torch.tensor(targets),
            )
        ],
    }
    for name, cases in found.items():
        for part, of_cases in zip(("losses", "each", "gradients"), zip(*cases, strict=True), strict=True):
            arrays[f"{name}_{part}"] = np.stack(of_cases)
    np.savez_compressed(TARGET, **arrays)


if __name__ == "__main__":
    main()
