"""Saves that are killed at any moment: the two files of a model always belong to one save.

EXPLORER_SOAK_KILLS is the number of processes to kill.
"""

from __future__ import annotations

import multiprocessing
import os
import random
import time
from collections.abc import Callable
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.soak
KILLS = int(os.environ.get("EXPLORER_SOAK_KILLS", "60"))
CONTEXT = multiprocessing.get_context("forkserver")


@pytest.fixture(autouse=True, scope="module")
def processes() -> Any:
    """Return the functions of `saves`, which processes import from the module that they are forked with."""
    CONTEXT.set_forkserver_preload(["tests.soak.saves"])
    from tests.soak import saves

    return saves


def started(function: Callable[..., None], path: Path) -> BaseProcess:
    """Start a process, and wait until it begins to save."""
    receiving, sending = CONTEXT.Pipe(duplex=False)
    process = CONTEXT.Process(target=function, args=(path, sending))
    process.start()
    sending.close()
    with receiving:
        assert receiving.recv()
    return process


def assert_succeeds(function: Callable[..., None], path: Path) -> None:
    process = CONTEXT.Process(target=function, args=(path,))
    process.start()
    process.join()
    assert process.exitcode == 0


@pytest.mark.spec("C-17", headline=True)
def test_training_killed_at_any_moment_leaves_the_last_complete_checkpoint(tmp_path: Path, processes: Any) -> None:
    """Load the last complete checkpoint of a training run that was killed at any moment.

    It holds exactly the steps that were made, in mid-epoch too.
    """
    path, chance = tmp_path / "run.npz", random.Random(0)
    for _ in range(KILLS * 5 // 6):
        trainer = started(processes.train, path)
        while not path.exists():
            time.sleep(0.001)
        time.sleep(chance.uniform(0, 0.2))
        trainer.kill()
        trainer.join()
        assert_succeeds(processes.restore, path)
        assert os.listdir(tmp_path) == ["run.npz"]


@pytest.mark.spec("I-13", "C-17")
@pytest.mark.parametrize("name", ["m.pnnx.param", "m.json"])
def test_savers_killed_at_any_moment_leave_a_complete_net(tmp_path: Path, name: str, processes: Any) -> None:
    """Kill two savers of one path at a random time: a complete net opens, and the next save cleans up."""
    path, chance = tmp_path / name, random.Random(0)
    for _ in range(max(1, KILLS // 4)):
        savers = [started(processes.save_nets, path) for _ in range(2)]
        while not path.exists():
            time.sleep(0.001)
        for saver in savers:
            time.sleep(chance.uniform(0, 0.2))
            saver.kill()
        for saver in savers:
            saver.join()
        assert_succeeds(processes.read_net, path)
        assert len(os.listdir(tmp_path)) == 2, os.listdir(tmp_path)
