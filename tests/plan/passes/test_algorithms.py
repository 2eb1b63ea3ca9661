"""Algorithms and layout: tiled convolutions and channels-last images, each with its reasons."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import explorer as ex
from explorer.core.ir.function import Parameter
from explorer.plan.options import Options
from explorer.plan.planner import Plan, plan
from explorer.record.reasons import render
from explorer.run.execution.executors.simple import run_simple
from explorer.run.execution.program import Program

RNG = np.random.default_rng(0)
NET = Options(inference=True)


def images(*shape: int) -> Any:
    return Parameter(ex.TensorType(shape, np.float32), "x")()


def filters(*shape: int) -> Any:
    return ex.tensor(RNG.standard_normal(shape).astype(np.float32) / 16)


def codes(planned: Plan, rule: str) -> list[tuple[bool, str]]:
    return [(decision.applied, decision.code) for decision in planned.graph.decisions if decision.rule == rule]


def value(planned: Plan, x: Any, array: Any) -> Any:
    program = Program(planned)
    program.bind({x: array})
    run_simple(program)
    return program.take()[0]


@pytest.mark.spec("P-1", "P-9", "P-15")
def test_3x3_convolutions_are_tiled_with_equal_values() -> None:
    """A 3×3 convolution with constant filters equals the direct one within rounding."""
    x = images(2, 32, 15, 14)
    y = ex.relu(ex.conv2d(ex.relu(ex.conv2d(x, filters(48, 32, 3, 3), padding=1)), filters(32, 48, 3, 3), padding=1))
    tiles, direct = (
        plan([y.sum(axis=(2, 3))], NET),
        plan([y.sum(axis=(2, 3))], Options(("algorithms", "memory_format"))),
    )
    assert codes(tiles, "Winograd") == [(True, "tiles"), (True, "tiles")]
    assert not codes(direct, "Winograd")
    array = RNG.standard_normal((2, 32, 15, 14)).astype(np.float32)
    expected = value(direct, x, array)
    np.testing.assert_allclose(value(tiles, x, array), expected, rtol=0, atol=1e-5 * np.abs(expected).max())


@pytest.mark.spec("P-15")
@pytest.mark.parametrize(
    ("shape", "kernel", "options", "code"),
    [
        ((1, 32, 16, 16), (32, 32, 3, 3), {"strides": 2}, "windows"),
        ((1, 64, 16, 16), (32, 32, 3, 3), {"groups": 2}, "windows"),
        ((1, 3, 32, 32), (32, 3, 3, 3), {}, "few_channels"),
        ((1, 64, 7, 7), (64, 64, 3, 3), {}, "few_tiles"),
    ],
)
def test_a_direct_3x3_convolution_has_a_coded_reason(shape: Any, kernel: Any, options: Any, code: str) -> None:
    planned = plan([ex.conv2d(images(*shape), filters(*kernel), **options)])
    assert codes(planned, "Winograd") == [(False, code)]


@pytest.mark.spec("P-15", "V-2")
def test_the_tiling_decision_contains_the_saved_flops() -> None:
    """Its sentence has the saved flops and the original flops."""
    planned = plan([ex.conv2d(images(1, 64, 56, 56), filters(64, 64, 3, 3), padding=1)], NET)
    (decision,) = [c for c in planned.graph.decisions if c.rule == "Winograd"]
    said = render(decision.reason.sentence, decision.facts, str)
    assert all(amount in said for amount in ("126 M flops", "231 M flops"))


def test_variable_filters_are_not_transformed() -> None:
    weights = Parameter(ex.TensorType((32, 32, 3, 3), np.float32), "w")()
    planned = plan([ex.conv2d(images(1, 32, 16, 16), weights)])
    assert codes(planned, "Winograd") == [(False, "filters_vary")]


@pytest.mark.spec("P-8")
def test_images_between_convolutions_are_channels_last() -> None:
    """Requested results are returned in row-major order."""
    x = images(1, 8, 12, 12)
    inner = ex.relu(ex.conv2d(x, filters(8, 8, 1, 1)))
    planned = plan([ex.conv2d(inner, filters(8, 8, 5, 5))])
    assert codes(planned, "ChannelsLast") == [(True, "channels_last"), (False, "asked_for")]
    assert [kernel.channels_last for kernel in planned.schedule.kernels] == [True, False]
    array = RNG.standard_normal((1, 8, 12, 12)).astype(np.float32)
    result = value(planned, x, array)
    assert result.flags.c_contiguous
    np.testing.assert_allclose(
        result,
        value(
            plan([ex.conv2d(inner, planned.graph.recorded_roots[0].operands[1])], Options(("memory_format", "fuse"))),
            x,
            array,
        ),
        atol=1e-5,
    )


def test_a_convolution_of_constants_is_tiled_and_computed_once() -> None:
    """What is computed once for all runs stays so with another algorithm."""
    x = images(1, 32, 16, 16)
    held = ex.tensor(RNG.standard_normal((1, 32, 16, 16)).astype(np.float32))
    planned = plan([x * ex.conv2d(held, filters(32, 32, 3, 3), padding=1).sum(axis=0)], NET)
    assert codes(planned, "Winograd") == [(True, "tiles")]
    assert [kernel.constant for kernel in planned.schedule.kernels] == [True, True, False]
