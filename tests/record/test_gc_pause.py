"""The garbage collector is paused while rows are created, and restored afterwards."""

import functools
import gc
import json

import pytest

import explorer as ex
from explorer.record import loads, to_json
from explorer.record.gc_pause import gc_paused


@pytest.fixture
def collections():
    """Count the garbage collections inside the block."""
    begun = []

    def note(phase, _):
        if phase == "start":
            begun.append(phase)

    gc.callbacks.append(note)
    yield begun
    gc.callbacks.remove(note)


def test_planning_and_recording_a_large_program_are_not_interrupted(collections):
    y = ex.tensor([[1.0, 2.0], [3.0, 4.0]])
    for _ in range(3000):
        y = ex.tanh(y)
    plan = ex.EvalPlan()
    plan.register(y)
    gc.collect()
    collections.clear()
    plan.prepare()
    assert len(plan.recording.nodes) == 3001
    assert len(collections) <= 4


def test_writing_and_reading_a_large_recording_are_not_interrupted(collections):
    plan = ex.EvalPlan()
    y = functools.reduce(lambda x, _: ex.tanh(x), range(3000), ex.tensor([[1.0, 2.0], [3.0, 4.0]]))
    plan.register(y)
    recording = plan.prepare().recording
    gc.collect()
    collections.clear()
    assert loads(json.dumps(to_json(recording))) == recording
    assert len(collections) <= 4


def test_checking_a_net_of_many_unknown_types_is_not_interrupted(collections, tmp_path):
    count = 1000
    lines = [f"my.Type{index} op{index} 1 1 {index} {index + 1}" for index in range(count)]
    path = tmp_path / "net.pnnx.param"
    path.write_text(
        "\n".join(["7767517", f"{count + 1} {count + 1}", "pnnx.Input in 0 1 0 #0=(1,3)f32", *lines]) + "\n"
    )
    net = ex.open(path)
    gc.collect()
    collections.clear()
    assert len(net.check()) == count
    assert len(collections) <= 4


def test_the_garbage_collector_is_restored_even_after_a_failure():
    @gc_paused()
    def fail():
        assert not gc.isenabled()
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert gc.isenabled()
    gc.disable()
    try:
        with gc_paused(), gc_paused():
            pass
        assert not gc.isenabled()
    finally:
        gc.enable()
