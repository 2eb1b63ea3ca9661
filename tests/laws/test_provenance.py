"""Provenance is complete in both directions, for golden and random programs, with passes on and off."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import explorer as ex
from explorer.plan.passes import Inline
from tests.golden.programs import PROGRAMS, recorded
from tests.support.programs import programs

LEFT_OUT = ((), ("simplify",), ("dedup", "prune"), ("batch",), ("fuse",), ("prune", "fuse", "constants"))


def planned(roots: list[ex.Expr], **options: object) -> ex.Recording:
    plan = ex.EvalPlan(**options)  # type: ignore[arg-type]
    for root in roots:
        plan.register(root)
    return plan.prepare().recording


def check(recording: ex.Recording) -> None:
    result, rows = recording.provenance, recording.nodes
    assert recording.schedule is not None
    assert len(result.kernels) == len(recording.schedule.kernels)
    for number, origin in enumerate(result.kernels):
        assert origin.nodes
        assert result.lines(number)
        for node in origin.nodes:
            assert rows.born[node] < 0
            assert not rows.operands[node] or number in result.nodes[node].kernels
    needed, pending = set(recording.roots), list(recording.roots)
    while pending:
        for operand in rows.operands[pending.pop()]:
            if operand not in needed:
                needed.add(operand)
                pending.append(operand)
    assert needed <= set(result.nodes)
    for node, account in result.nodes.items():
        for number in account.kernels:
            assert node in result.kernels[number].nodes
        if account.fate in ("computed", "there"):
            assert account.stands >= 0
        else:
            assert account.decisions, (node, account)
        if account.fate == "unneeded":
            assert not account.kernels
        elif account.fate != "there":
            assert account.kernels
    for root in recording.roots:
        assert result.nodes[root].fate != "unneeded"
    replaced = {old: new for _, old, new in recording.substitutions}

    def now(node: int) -> int:
        while node in replaced:
            node = replaced[node]
        return node

    live, pending = set(), [now(root) for root in recording.roots]
    while pending:
        node = pending.pop()
        if node not in live:
            live.add(node)
            pending += [now(operand) for operand in rows.operands[node]]
    for node, account in result.nodes.items():
        assert account.stands == (now(node) if now(node) in live else -1), (node, account)


@pytest.mark.spec("P-16", headline=True)
@pytest.mark.parametrize("name", PROGRAMS)
def test_provenance_of_golden_programs_is_complete(name: str) -> None:
    """Trace every kernel to its recorded nodes and lines, and every recorded node to its kernels or its removal."""
    check(recorded(name))


@pytest.mark.spec("P-16")
@settings(max_examples=60)
@given(programs(), st.sampled_from(LEFT_OUT), st.booleans())
def test_random_programs_are_accounted_for(roots: list[ex.Expr], without: tuple[str, ...], closed: bool) -> None:
    """Whatever the program and the passes left out: no kernel without a line, no recorded node without an account."""
    check(planned(roots, without=without, inline=Inline(6 if closed else 500_000)))


@pytest.mark.spec("P-16")
def test_provenance_reports_each_fate_in_both_directions() -> None:
    """Computed, merged, replaced, absorbed, present and unneeded nodes are reported with their kernels and
    decisions."""
    x = ex.tensor(np.ones((3, 4), np.float32), name="x")
    inner = ex.softmax(x)
    outer = ex.log(inner)
    first, second = ex.sin(x), ex.sin(x)
    dropped = ex.exp(x) * ex.ZeroTensor((3, 4))
    plan = ex.EvalPlan()
    for root in (outer, first + second, dropped + x):
        plan.register(root)
    recording = plan.prepare().recording
    result = recording.provenance
    node = {label: number for number, label in reversed(list(enumerate(recording.nodes.label)))}
    rows = {label: result.nodes[node[label]] for label in ("x", "softmax", "log", "sin", "exp")}
    assert {label: account.fate for label, account in rows.items()} == {
        "x": "there",
        "softmax": "absorbed",
        "log": "replaced",
        "sin": "computed",
        "exp": "unneeded",
    }
    merged = [account for account in result.nodes.values() if account.fate == "merged"]
    assert [account.kernels for account in merged] == [rows["sin"].kernels]
    assert rows["softmax"].kernels == rows["log"].kernels
    (kernel,) = rows["log"].kernels
    assert [source.text.strip() for source in result.lines(kernel)] == [
        "inner = ex.softmax(x)",
        "outer = ex.log(inner)",
    ]
    assert result.at("inner = ex.softmax(x)") == (kernel,)
    assert result.at(result.lines(kernel)[1].line, "test_provenance.py") == (kernel,)


@pytest.mark.spec("P-16")
def test_the_calls_of_a_batch_share_its_kernels() -> None:
    """A kernel over stacked rows belongs to every call of the batch and to the function's own line."""
    recording = recorded("batch")
    result = recording.provenance
    calls = [number for number, label in enumerate(recording.nodes.label) if label == "layer"]
    shared = set(result.nodes[calls[0]].kernels).intersection(*[result.nodes[call].kernels for call in calls])
    assert recording.schedule is not None
    labels = {recording.nodes.label[node] for number in shared for node in recording.schedule.kernels[number].nodes}
    assert {"matmul", "tanh"} <= labels
