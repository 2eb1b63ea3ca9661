"""Epochs of a training: one step for each batch of a loader, counted and saved also where it is stopped."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sized
from typing import Any, NamedTuple, Protocol

import numpy as np

from explorer.core.errors import OperandError
from explorer.core.progress import Progress, current_callback
from explorer.train.data_loader import Pass, Resumable
from explorer.train.optimizers.optimizer import Optimizer


class Epoch(NamedTuple):
    """Result of an epoch: its number, the mean loss of its batches, and the samples that it saw."""

    epoch: int
    loss: float
    samples: int


class Trained(Protocol):
    """Module that is trained batch by batch, and can be saved."""

    samples: str

    def require_optimizer(self) -> Optimizer:
        """Return the optimizer, which counts the steps."""

    def train_on(self, value: Any, label: Any) -> float:
        """Make one training step; return the loss before it."""

    def save(self, path: str | os.PathLike[str], loader: Any = None) -> None:
        """Write the training state to a file."""


def train_epoch(
    module: Trained,
    loader: Iterable[tuple[Any, ...]],
    epoch: int,
    epochs: int,
    checkpoint: str | os.PathLike[str] | None,
    every_batches: int | None,
) -> Epoch:
    """Take a step for each batch; where it is stopped, count the batches whose steps were taken, and save them.

    Raises OperandError for a batch that is no pair of input and label, and for an epoch without batches.
    """
    optimizer = module.require_optimizer()
    steps, batches = optimizer.iteration, len(loader) if isinstance(loader, Sized) else 0
    total, samples = 0.0, 0
    batches_of_epoch, resumable = iter(loader), loader if isinstance(loader, Resumable) else None
    try:
        for number, batch in enumerate(batches_of_epoch):
            if not isinstance(batch, (tuple, list)) or len(batch) != 2:
                raise OperandError(
                    f"a batch of {len(batch) if isinstance(batch, (tuple, list)) else type(batch).__name__}",
                    rule="a batch must be a pair, input and label",
                    fix="DataLoader(ArrayDataset(images, labels))",
                )
            # Before the step, so that a callback that cancels leaves all batches that were counted trained.
            if (report := current_callback()) is not None:
                report(Progress("training", f"epoch {epoch}", (epoch - 1) * batches + number, epochs * batches))
            loss = module.train_on(*batch)
            count = np.shape(batch[0])[-1 if module.samples == "last" else 0]
            # Weighed by samples: the last batch may be smaller, and its mean counts for less.
            total += loss * count
            samples += count
            if checkpoint is not None and every_batches is not None and (number + 1) % every_batches == 0:
                module.save(checkpoint, resumable)
    except BaseException:
        new_steps = optimizer.iteration - steps
        if isinstance(batches_of_epoch, Pass):
            # A batch that was loaded, and whose step did not end, is not behind: training goes on with it.
            batches_of_epoch.delivered = batches_of_epoch.first + new_steps
        # Without a step the file stays, which may hold more than this module.
        if checkpoint is not None and new_steps:
            module.save(checkpoint, resumable)
        raise
    if not samples:
        raise OperandError(
            f"no batch in epoch {epoch} of fit()",
            rule="a loader must give at least one batch in each epoch, and begin anew for each",
            fix="pass a DataLoader, or a list of batches; a generator gives its batches once",
        )
    return Epoch(epoch, total / samples, samples)
