"""Functions for processes of `test_killed_saves.py`, which are forked from a process that has imported this module."""

from __future__ import annotations

from multiprocessing.connection import Connection
from pathlib import Path

import numpy as np

import explorer as ex
from tests.formats.common.pairs import net, number

T = ex.train


def save_nets(path: Path, started: Connection) -> None:
    """Save four large nets to one path until the process is killed."""
    nets = [net(each, 700) for each in range(4)]
    started.send(True)
    while True:
        for each in nets:
            each.save(path)


def read_net(path: Path) -> None:
    """Open a net, whose files must belong to one save, and save another one to its path."""
    number(path)
    net(0).save(path)


def train(path: Path, started: Connection) -> None:
    """Train with a checkpoint after each batch until the process is killed."""
    module, loader = _module(), _loader()
    started.send(True)
    module.fit(loader, 100_000, checkpoint=path, every_batches=1)


def restore(path: Path) -> None:
    """Restore a checkpoint, assert that its weights are those after its number of steps, and save it."""
    module, loader = _module(), _loader()
    module.restore(path, loader)
    steps, position = module.optimizer.iteration, loader.state()
    assert steps == 4 * position["epoch"] + position["batch"] > 0
    other, batches = _module(), _loader()
    other.fit(batches, steps // 4)
    for _, batch in zip(range(steps % 4), batches, strict=False):
        other.train_on(*batch)
    for name, held in module.parameters.items():
        assert held.array.tobytes() == other.parameters[name].array.tobytes(), name
    module.save(path, loader)


def _module() -> T.Module:
    module = T.Module("m", loss=T.CrossEntropy(), optimizer=T.Adam(0.01))
    for layer in (T.Linear("hidden", 64, 256), ex.tanh, T.Linear("scores", 256, 10)):
        module.add_node(layer)
    module.attach()
    return module


def _loader() -> T.DataLoader:
    draw = np.random.default_rng(0)
    return T.DataLoader(T.ArrayDataset(draw.normal(size=(64, 64)), draw.integers(10, size=64)), 16, shuffle=True)
