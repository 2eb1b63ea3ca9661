"""Batches: which nodes and kernels compute many equal operations."""

import pytest

import explorer as ex
from explorer.record.batches import batches, together
from tests.support.samples import ROWS, weights


def recorded(roots, **options):
    plan = ex.EvalPlan(**options)
    for root in roots:
        plan.register(root)
    return plan.prepare().recording


def plain(**options):
    w, b = weights()
    return recorded([ex.tanh(ex.tensor(row) @ w + b) for row in ROWS], **options)


def called(**options):
    w, b = weights()

    @ex.function
    def layer(x, w, b):
        return ex.tanh(x @ w + b)

    return recorded([layer(ex.tensor(row), w, b) for row in ROWS], **options)


def kernels_of(recording, batch):
    return [[recording.label(node) for node in recording.schedule.kernels[number].nodes] for number in batch.kernels]


@pytest.mark.spec("P-4", "P-16")
def test_a_batch_of_calls_is_computed_by_the_kernels_of_its_opened_body():
    """The kernels that stack a batch's operands, compute it, and read its members' rows are known."""
    recording = called()
    (batch,) = batches(recording)
    assert (batch.label, batch.called, len(batch.members)) == ("layer", True, 30)
    assert {recording.nodes.kind[node] for node in batch.members} == {"call"}
    kernels = kernels_of(recording, batch)
    assert kernels[:2] == [["stack"], ["matmul", "add", "tanh"]]
    assert kernels[2:] == [["index0"]] * 30
    assert len(kernels) == len(recording.schedule.kernels)


@pytest.mark.spec("P-4", "P-16")
def test_batches_of_operations_that_one_kernel_computes_belong_together():
    recording = plain()
    result = batches(recording)
    assert [(batch.label, batch.called) for batch in result] == [("matmul", False), ("add", False), ("tanh", False)]
    assert [kernels_of(recording, batch)[0] for batch in result] == [["stack"], *[["matmul", "add", "tanh"]] * 2]
    assert together(result) == [result]


@pytest.mark.spec("P-4")
def test_a_later_batch_is_not_part_of_the_batch_whose_rows_it_reads():
    """A stack that equals an earlier batch's whole result belongs to the earlier batch."""
    w, b = weights()
    fused = recorded([ex.tanh(ex.tensor(row) @ w + b) @ w for row in ROWS], without=["fuse"])
    result = batches(fused)
    assert [kernels_of(fused, batch)[:1] for batch in result] == [[["stack"]], [["add"]], [["tanh"]], [["matmul"]]]
    assert len(together(result)) == len(result)
    spread = [kernel for batch in result for kernel in batch.kernels]
    assert len(spread) == len(set(spread)) == len(fused.schedule.kernels)


def test_without_batches_there_are_none():
    assert batches(plain(without=["batch"])) == []
    assert together([]) == []
