"""Comparison of real models with seeded weights with references computed by other programs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from assets import seeded
from explorer.net import Net
from explorer.net.definition.definition import NetDefinition
from explorer.net.operators.table import OperatorTable
from explorer.plan import plan
from explorer.run.execution.executors import run_simple
from explorer.run.execution.program import Program

Array = np.ndarray[Any, Any]
CLOSE = 1e-4


def seeded_net(definition: NetDefinition, table: OperatorTable) -> Net:
    """Return the net of a file without weights, with weights generated for the declared shapes."""
    weights = {
        held.key: seeded.weight(held.key, held.shape)
        for operator in definition.operators
        for held in operator.weights.values()
    }
    return Net(replace(definition, weights=weights), table)


def assert_close(found: Array, wanted: Array, what: str = "", within: float = CLOSE) -> None:
    """Assert that every element is correct, relative to the largest."""
    np.testing.assert_allclose(found, wanted, rtol=0, atol=within * np.abs(wanted).max(), err_msg=what)


def assert_operands(
    net: Net,
    given: dict[str, Array],
    names: Sequence[str],
    means: Array,
    deviations: Array,
    picked: Array,
    within: float = CLOSE,
) -> None:
    """Assert that every operand, requested by name, has the reference's mean, deviation and elements."""
    result = net.cut(outputs=list(names)).run(given)
    values = list(result.values()) if isinstance(result, dict) else [result]
    for operand, value, mean, deviation, elements in zip(names, values, means, deviations, picked, strict=True):
        size = within * (abs(mean) + deviation)
        assert value.mean(dtype=float) == pytest.approx(mean, abs=size), operand
        assert value.std(dtype=float) == pytest.approx(deviation, abs=size), operand
        places = seeded.places(value.size, len(elements))
        np.testing.assert_allclose(value.flat[places], elements, rtol=0, atol=6 * size, err_msg=operand)


def assert_reads(net: Net, given: dict[str, Array], wanted: Array) -> None:
    """Assert that each kernel reads the values of a run without memory reuse."""
    outputs = net.build({blob: tuple(array.shape) for blob, array in given.items()})
    planned = plan([outputs])
    schedule, operands = planned.schedule, planned.graph.inputs
    buffers = {placement.buffer for placement in schedule.placements if placement.buffer >= 0}
    assert len(buffers) < len(schedule.kernels) / 2
    program = Program(planned)
    program.bind({parameter: given[parameter.operation.label] for parameter in program.parameters})
    truth = {leaf.uid: program.values[program.slots[leaf.uid]] for leaf in schedule.leaves}
    for kernel in schedule.kernels:
        for node in kernel.nodes:
            truth[node.uid] = node.operation.compute(*[truth[operand.uid] for operand in operands[node.uid]])
    compared = 0

    def compare(index: int) -> None:
        nonlocal compared
        for read in schedule.kernels[index].reads:
            assert_close(program.values[program.slots[read.uid]], truth[read.uid])
            compared += 1

    run_simple(program, SimpleNamespace(before_kernel=compare, after_kernel=lambda index: None))  # type: ignore[arg-type]  # a watch
    assert compared >= len(schedule.kernels)
    (result,) = program.take()
    assert_close(result, wanted)
