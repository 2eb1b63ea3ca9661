"""Saves that are killed at any moment: the two files of a model always belong to one save.

EXPLORER_SOAK_KILLS is the number of processes to kill.
"""

from __future__ import annotations

import os
import random
import subprocess
import sys
import time
from pathlib import Path

import pytest

pytestmark = pytest.mark.soak
KILLS = int(os.environ.get("EXPLORER_SOAK_KILLS", "60"))
FORMATS = Path(__file__).parents[1] / "formats" / "common"
_SAVER = """
import sys
sys.path.insert(0, sys.argv[1])
from pairs import net
nets = [net(number, 700) for number in range(4)]
print("saving", flush=True)
while True:
    for one in nets:
        one.save(sys.argv[2])
"""
_READER = """
import sys
sys.path.insert(0, sys.argv[1])
from pairs import net, number
number(sys.argv[2])
net(0).save(sys.argv[2])
"""
_TRAINER = """
import sys
import numpy as np
import explorer as ex

T = ex.train

def made():
    module = T.Module("m", loss=T.CrossEntropy(), optimizer=T.Adam(0.01))
    for layer in (T.Linear("hidden", 64, 256), ex.tanh, T.Linear("scores", 256, 10)):
        module.add_node(layer)
    module.attach()
    return module

def data():
    draw = np.random.default_rng(0)
    return T.DataLoader(T.ArrayDataset(draw.normal(size=(64, 64)), draw.integers(10, size=64)), 16, shuffle=True)

module, loader = made(), data()
if sys.argv[2] == "train":
    print("training", flush=True)
    module.fit(loader, 100_000, checkpoint=sys.argv[1], every_batches=1)
else:
    module.restore(sys.argv[1], loader)
    steps, position = module.optimizer.iteration, loader.state()
    assert steps == 4 * position["epoch"] + position["batch"] > 0
    other, batches = made(), data()
    other.fit(batches, steps // 4)
    for _, batch in zip(range(steps % 4), batches):
        other.train_on(*batch)
    for name, held in module.parameters.items():
        assert held.array.tobytes() == other.parameters[name].array.tobytes(), name
    module.save(sys.argv[1], loader)
"""


@pytest.mark.spec("C-17", headline=True)
def test_training_killed_at_any_moment_leaves_the_last_complete_checkpoint(tmp_path: Path) -> None:
    """Load the last complete checkpoint of a training run that was killed at any moment.

    It holds exactly the steps that were made, in mid-epoch too.
    """
    path, chance = tmp_path / "run.npz", random.Random(0)
    for _ in range(KILLS * 5 // 6):
        trainer = subprocess.Popen([sys.executable, "-c", _TRAINER, str(path), "train"], stdout=subprocess.PIPE)
        assert trainer.stdout is not None
        assert trainer.stdout.readline() == b"training\n"
        while not path.exists():
            time.sleep(0.001)
        time.sleep(chance.uniform(0, 0.2))
        trainer.kill()
        trainer.communicate()
        subprocess.run([sys.executable, "-c", _TRAINER, str(path), "restore"], check=True)
        assert os.listdir(tmp_path) == ["run.npz"]


@pytest.mark.spec("I-13", "C-17")
@pytest.mark.parametrize("name", ["m.pnnx.param", "m.json"])
def test_savers_killed_at_any_moment_leave_a_complete_net(tmp_path: Path, name: str) -> None:
    """Kill two savers of one path at a random time: a complete net opens, and the next save cleans up."""
    path, chance = tmp_path / name, random.Random(0)
    for _ in range(max(1, KILLS // 4)):
        savers = [
            subprocess.Popen([sys.executable, "-c", _SAVER, str(FORMATS), str(path)], stdout=subprocess.PIPE)
            for _ in range(2)
        ]
        for saver in savers:
            assert saver.stdout is not None
            assert saver.stdout.readline() == b"saving\n"
        while not path.exists():
            time.sleep(0.001)
        for saver in savers:
            time.sleep(chance.uniform(0, 0.2))
            saver.kill()
        for saver in savers:
            saver.communicate()
        subprocess.run([sys.executable, "-c", _READER, str(FORMATS), str(path)], check=True)
        assert len(os.listdir(tmp_path)) == 2, os.listdir(tmp_path)
