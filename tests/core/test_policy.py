"""Policies as keys: of tables that outlive modules, and of other processes."""

from __future__ import annotations

import pickle
import subprocess
import sys
from unittest.mock import patch

import explorer as ex
from explorer.core import policy as module


def test_a_policy_is_hashed_after_the_modules_are_gone() -> None:
    """At the exit of the interpreter weak tables hash their keys once more, when functions of modules are None."""
    given = ex.PAccumulateIn("float64")
    held = {given: 1}
    with patch.object(module, "exact", None):
        del held[given]
    assert not held


def test_a_policy_read_from_a_pickle_is_the_same_key() -> None:
    """Hashes of strings differ between processes: a policy that comes from another one computes its own."""
    given = ex.PAccumulateIn("float64")
    again = pickle.loads(pickle.dumps(given))
    assert (again, hash(again)) == (given, hash(given))
    write = "import pickle, sys, explorer as ex; sys.stdout.buffer.write(pickle.dumps(ex.PAccumulateIn('float64')))"
    done = subprocess.run([sys.executable, "-c", write], capture_output=True, check=True)
    other = pickle.loads(done.stdout)
    assert {given: 1}[other] == 1
