"""The same program gives the same plan: twice here, and in a new process with another hash seed."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pytest

import explorer as ex
from explorer.plan.passes import Inline
from explorer.view.export.text import text

PROGRAM = """
import numpy as np
import explorer as ex

double = ex.function(lambda x, w: ex.tanh(x @ w) * 2.0)

def program():
    w = ex.tensor(np.eye(8) * 0.5, name="w")
    rows = [ex.tensor(np.full(8, float(n)), name="row") for n in range(64)]
    calls = [double(row, w) for row in rows]
    loss = ex.log(ex.softmax(ex.add_n(*calls))).sum() + sum(ex.exp(c).sum() for c in calls[:5])
    plan = ex.EvalPlan(record="off")
    plan.register(loss)
    plan.register(ex.grad(loss, w))
    plan.eval()
    return plan.recording
"""


def plan_text(recording: ex.Recording) -> str:
    return recording.fingerprint + "\n" + text(recording)


@pytest.mark.spec("P-14", headline=True)
def test_the_same_program_gives_the_same_fingerprint_and_text_in_every_process() -> None:
    """Plan a program with the same fingerprint, order and text in every process."""
    names: dict[str, object] = {}
    exec(compile(PROGRAM, "<program>", "exec"), names)
    here = [plan_text(names["program"]()) for _ in range(2)]  # type: ignore[operator]
    script = (
        PROGRAM + "\nfrom explorer.view.export.text import text\nr = program()\n"
        "print(r.fingerprint)\nprint(text(r), end='')\n"
    )
    there = []
    for seed in ("1", "77"):
        environment = {**os.environ, "PYTHONHASHSEED": seed, "PYTHONIOENCODING": "utf-8"}
        process = subprocess.run(
            [sys.executable, "-c", script],
            env=environment,
            capture_output=True,
            text=True,
            encoding="utf-8",
            check=True,
        )
        there.append(process.stdout)
    assert here[0] == here[1]
    assert there[0] == there[1]
    assert there[0].splitlines()[0] == here[0].splitlines()[0]
    assert len(there[0].splitlines()) > 20


@pytest.mark.spec("P-14")
def test_the_fingerprint_depends_on_structure_but_not_on_values() -> None:
    def of(*roots: ex.Expr, **options: object) -> str:
        plan = ex.EvalPlan(**options)  # type: ignore[arg-type]
        for root in roots:
            plan.register(root)
        return plan.prepare().recording.fingerprint

    a, b = ex.tensor(np.ones((2, 3))), ex.tensor(np.zeros((2, 3)))
    assert of(ex.tanh(a)) == of(ex.tanh(b))
    different = [
        of(ex.tanh(a)),
        of(ex.sin(a)),
        of(a + b),
        of(a + a),
        of(a * 2.0),
        of(a * 3.0),
        of(ex.tanh(ex.tensor(np.ones((3, 2))))),
        of(ex.tanh(ex.cast(a, "float32"))),
        of(a.sum(axis=0)),
        of(a.sum(axis=1)),
        of(ex.sin(ex.tanh(a))),
        of(ex.sin(ex.tanh(a)), without=["fuse"]),
        of(a @ ex.transpose(b)),
        of(b[0] + a),
    ]
    assert len(set(different)) == len(different)


@pytest.mark.spec("P-14")
def test_a_function_attribute_adds_no_address_to_the_fingerprint() -> None:
    class Mapped(ex.Elementwise):
        """Apply f to each element of x."""

        function: object
        nondifferentiable = "a test"
        examples = (ex.Example(ex.real(3), function=np.sin),)

        def kernel(self, out: object, x: object) -> object:
            return self.function(x, out=out)  # type: ignore[operator]

    def made() -> object:
        def wave(x: object, out: object) -> object:
            return np.sin(x, out=out)  # type: ignore[call-overload]

        return wave

    prints = []
    for function in (made(), made()):
        plan = ex.EvalPlan()
        handle = plan.register(Mapped(function)(ex.tensor(np.arange(3.0))))
        plan.eval()
        assert np.array_equal(handle.data(), np.sin(np.arange(3.0)))
        prints.append(plan.recording.fingerprint)
    assert prints[0] == prints[1]


def test_unopened_calls_of_different_bodies_have_different_fingerprints() -> None:
    def plan_text(limit: float, swap: bool = False) -> str:
        inner = ex.function(lambda v: ex.clip(v, 0.0, limit))
        body = ex.function(lambda v, w: ex.tanh(inner(w) - v) if swap else ex.tanh(inner(v) - w))
        evaluation = ex.EvalPlan(inline=Inline(0))
        evaluation.register(body(ex.tensor(np.ones(2)), ex.tensor(np.ones(2))))
        return evaluation.prepare().recording.fingerprint

    assert plan_text(1.0) == plan_text(1.0)
    assert len({plan_text(1.0), plan_text(2.0), plan_text(1.0, swap=True)}) == 3
