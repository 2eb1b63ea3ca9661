"""Forks while another thread works: the child plans, runs and draws without waiting for its parent's threads."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[2] / "explorer"
MODEL = str(Path(__file__).parents[2] / "assets" / "digits.pnnx.param")
# A thread holds every lock at the moment of the fork, so that the test does not depend on timing.
_FORKING = """
import os, sys, threading, faulthandler
import numpy as np
import explorer as ex
from explorer.core.ir import expr as interning
from explorer.core.registry import changes
from explorer.run.plan_cache import cache
from explorer.run import result_cache as results
from explorer.view.layout.graphviz_engine import dot
from explorer.view.layout.box_layout import Layouts
from explorer.view.export.html_page import html

x = ex.tensor(np.ones((8, 8), np.float32))
net = ex.open(sys.argv[1])
images = np.zeros((1, 1, 8, 8), np.float32)

def work():
    plan = ex.EvalPlan(executor="dag")
    plan.register(np.tanh(x @ x) + ex.tensor(np.ones((8, 8), np.float32)))
    plan.eval()
    html(plan.recording)
    ex.evaluate(np.exp(x @ x + 3) * 0.5)
    return net.run(images)

expected = work()
inside, over = threading.Event(), threading.Event()
def hold():
    with changes.held, interning._interning, cache._lock, results._lock, dot()._lock, net._lock:
        inside.set()
        over.wait()
thread = threading.Thread(target=hold)
thread.start()
inside.wait()
child = os.fork()
if not child:
    faulthandler.dump_traceback_later(60, exit=True)
    ex.kernel("tanh", on=ex.Device("of the child"))(lambda operation, out, x: np.tanh(x, out=out))
    np.testing.assert_array_equal(work(), expected)
    os._exit(0)
over.set()
thread.join()
_, status = os.waitpid(child, 0)
np.testing.assert_array_equal(work(), expected)
sys.exit(os.waitstatus_to_exitcode(status))
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.parametrize("cached", [True, False])
def test_a_child_forked_while_a_thread_holds_every_lock_works(tmp_path: Path, cached: bool) -> None:
    """The thread may be inside the layout, the caches or a net."""
    environment = dict(os.environ) if cached else {**os.environ, "HOME": "/proc/none", "XDG_CACHE_HOME": "/proc/none"}
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", _FORKING, MODEL],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def test_every_lock_is_created_again_in_a_child() -> None:
    """Each file that creates a lock also resets it in a forked process."""
    results = []
    for path in sorted(SOURCE.rglob("*.py")):
        text = path.read_text(encoding="utf-8")
        makes = [
            ast.unparse(node)
            for node in ast.walk(ast.parse(text))
            if isinstance(node, ast.Call)
            and ast.unparse(node.func).rpartition(".")[2] in ("Lock", "RLock", "Condition")
        ]
        if makes and "renew_in_children" not in text and "register_at_fork" not in text:
            results.append(path.relative_to(SOURCE).as_posix())
    assert not results
