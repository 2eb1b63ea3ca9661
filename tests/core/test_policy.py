"""Policies as keys of tables that outlive modules, and in other processes."""

from __future__ import annotations

import pickle
import subprocess
import sys
from unittest.mock import patch

import explorer as ex
from explorer.core import policy as module


def test_a_policy_can_be_hashed_at_interpreter_exit() -> None:
    """Weak tables hash their keys again at exit, when functions of modules are None."""
    given = ex.PAccumulateIn("float64")
    held = {given: 1}
    with patch.object(module, "exact", None):
        del held[given]
    assert not held


def test_an_unpickled_policy_is_the_same_key() -> None:
    """String hashes differ between processes, so the hash is computed again."""
    given = ex.PAccumulateIn("float64")
    again = pickle.loads(pickle.dumps(given))
    assert (again, hash(again)) == (given, hash(given))
    write = "import pickle, sys, explorer as ex; sys.stdout.buffer.write(pickle.dumps(ex.PAccumulateIn('float64')))"
    done = subprocess.run([sys.executable, "-c", write], capture_output=True, check=True)
    other = pickle.loads(done.stdout)
    assert {given: 1}[other] == 1
