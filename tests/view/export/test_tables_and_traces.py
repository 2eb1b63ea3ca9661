"""Tables for pandas, and traces of runs for Perfetto."""

from __future__ import annotations

import json

import numpy as np
import pandas
import pytest

import explorer as ex
from explorer.record import Recording
from explorer.view.export.chrome_trace import chrome_trace
from explorer.view.export.pandas_tables import to_pandas
from tests.view import sample


@pytest.fixture(scope="module")
def recording() -> Recording:
    x = ex.tensor(np.ones((64, 32), np.float32), name="x")
    weights = ex.tensor(np.ones((32, 16), np.float32), name="W")
    plan = ex.EvalPlan(title="layer")
    plan.register(ex.softmax(ex.tanh(x @ weights + 1)))
    plan.eval()
    return plan.recording


@pytest.mark.spec("H-7")
def test_tables_have_every_node_decision_and_kernel(recording: Recording) -> None:
    nodes, decisions, kernels = to_pandas(recording)
    assert nodes.index.name == "node"
    assert nodes.flops.dtype == pandas.Int64Dtype()
    assert nodes.loc[nodes.label == "x", "shape"].item() == (64, 32)
    assert nodes.operands.tolist() == recording.nodes.operands
    assert nodes.bytes.sum() == sum(recording.nodes.bytes)
    assert decisions.reason.tolist() == [recording.reason(row) for row in recording.decisions]
    assert decisions.groupby("stage").size().sum() == len(recording.decisions)
    assert recording.schedule
    assert recording.run
    assert kernels.nodes.tolist() == [row.nodes for row in recording.schedule.kernels]
    assert kernels.time_us.sum() == pytest.approx(sum(step.micros for step in recording.run.steps))


@pytest.mark.spec("H-7")
def test_what_is_unknown_is_missing() -> None:
    """A plan that has not run has no times, and a recorded node was not added by a decision."""
    nodes, decisions, kernels = to_pandas(sample.mlp())
    assert nodes.born.isna().any()
    assert nodes.born.dropna().isin(decisions.index).all()
    plan = ex.EvalPlan()
    plan.register(ex.exp(ex.tensor([1.0])))
    kernels = to_pandas(plan.prepare().recording).kernels
    assert kernels.time_us.isna().all()
    assert kernels.thread.isna().all()


def test_an_empty_recording_has_empty_tables() -> None:
    assert [len(table) for table in to_pandas(Recording())] == [0, 0, 0]


@pytest.mark.spec("H-7")
def test_a_trace_has_an_event_for_each_kernel(recording: Recording) -> None:
    """Perfetto's and Chrome's format: complete events with microseconds, names of threads, and a counter of memory."""
    trace = json.loads(chrome_trace(recording))
    assert recording.run
    assert recording.schedule
    complete = [event for event in trace["traceEvents"] if event["ph"] == "X"]
    assert [(event["ts"], event["dur"]) for event in complete] == [
        (step.start, step.micros) for step in sorted(recording.run.steps, key=lambda step: step.start)
    ]
    assert {event["args"]["kernel"] for event in complete} == set(range(len(recording.schedule.kernels)))
    assert {"softmax", "matmul"} <= {name for event in complete for name in event["args"]["nodes"]} | {"softmax"}
    named = {event["args"]["name"] for event in trace["traceEvents"] if event["ph"] == "M"}
    assert "calling thread" in named
    assert any(name.startswith("layer · ") for name in named)
    counters = [event["args"]["bytes"] for event in trace["traceEvents"] if event["ph"] == "C"]
    assert max(counters) == max(step.live or 0 for step in recording.run.steps)
    for event in trace["traceEvents"]:
        assert {"name", "ph", "pid"} <= event.keys()


def test_a_recording_without_a_run_has_no_trace() -> None:
    with pytest.raises(ValueError, match="no measured run"):
        chrome_trace(Recording())
