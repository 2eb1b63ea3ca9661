"""Text form of nets, and times of their operators."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import explorer as ex
from explorer.run.execution.executors import EXECUTORS, RegisteredExecutor

ASSETS = Path(__file__).parents[2] / "assets"


@pytest.mark.spec("C-16", headline=True)
def test_each_operator_and_each_type_has_its_time() -> None:
    """Measure time, arithmetic and bytes for each operator of a net (fused ones together) and each operator type."""
    net = ex.open(ASSETS / "digits.onnx")
    images = np.load(ASSETS / "digits.npz")["images"]
    profile = net.profile(images, runs=3)
    named = [name for row in profile.rows for name in row.operators]
    assert set(named) <= {operator.name for operator in net.definition.operators}
    assert {"/conv2/Conv", "/fc2/Gemm", "/softmax/Softmax"} <= set(named)
    assert any(row.types[:2] == ("Conv", "Relu") for row in profile.rows)
    (second,) = [row for row in profile.rows if row.operators == ("/fc2/Gemm",)]
    assert second.flops == pytest.approx(2 * 12 * 24 * 10, rel=0.05)
    assert second.bytes == 4 * (12 * 24 + 24 * 10 + 10 + 12 * 10)
    assert all(row.micros > 0 for row in profile.rows)
    by_type = profile.by_type()
    assert sum(row.micros for row in by_type) == pytest.approx(profile.micros)
    assert [row.micros for row in by_type] == sorted([row.micros for row in by_type], reverse=True)
    text = str(profile)
    assert all(word in text for word in ("medians of 3 warm runs", "Gflop/s", "Conv + Relu ×2", "/softmax/Softmax"))
    slowest = sorted(profile.rows, key=lambda row: -row.micros)[:5]
    shares = [f"{' + '.join(row.operators)} {100 * row.micros / profile.micros:.1f} %" for row in slowest]
    assert f"slowest: {', '.join(shares)}" in text.splitlines()
    assert "slowest" not in profile.text("type")
    (line,) = [line.split() for line in text.splitlines() if line.startswith("/fc2/Gemm ")]
    assert (line[1], line[3]) == (f"{second.micros:,.1f}", f"{second.flops / 1e6:,.3f}")
    assert (line[5], float(line[2])) == (f"{second.bytes / 1e6:,.3f}", round(100 * second.micros / profile.micros, 1))


@pytest.mark.spec("C-16")
def test_times_are_medians_assigned_to_operators() -> None:
    """A kernel with runs of 1, 9 and 3 µs takes 3; operations in an operator's own scope belong to the operator."""
    micros = iter((0, 1, 9, 3))  # the first run is not measured

    def timed(program: Any, observer: Any) -> Any:
        timing = program.blank_timing()
        for index in range(len(program.planned.schedule.kernels)):
            program.run_kernel(index, timing, observer)
        ended = next(micros) * 1000
        timing.began[:], timing.ended[:] = [0] * len(timing.began), [ended] * len(timing.ended)
        return timing

    @ex.net_operator("Scoped")
    def scoped(x: ex.Expr) -> ex.Expr:
        """tanh, inside a scope."""
        with ex.scope("inner"):
            return ex.tanh(x)

    net = ex.Net("n")
    net.input("x", (1, 2))
    net.output(net.Softmax(net.Scoped("x", "y", name="scoped"), "z", name="softmax"))
    EXECUTORS.register("timed", RegisteredExecutor(timed, 1))
    try:
        profile = net.profile(np.ones((1, 2), np.float32), runs=3, executor="timed")
    finally:
        EXECUTORS.pop("timed")
    assert {row.micros for row in profile.rows} == {3.0}
    assert {name for row in profile.rows for name in row.operators} == {"scoped", "softmax"}


@pytest.mark.spec("C-16")
def test_a_profile_does_not_change_the_net() -> None:
    net = ex.open(ASSETS / "digits.onnx")
    images = np.load(ASSETS / "digits.npz")["images"]
    before = net.run(images)
    net.profile({"image": images}, executor="dag")
    assert (net.run(images) == before).all()
    with pytest.raises(ex.OperandError, match="runs must be"):
        net.profile(images, runs=0)
    with pytest.raises(ex.OperandError):
        net.profile(images[:, :, :4])


@pytest.mark.spec("C-16")
def test_a_net_is_printed() -> None:
    """The text has a line for each operator, with outputs, type, named inputs, arguments and weights."""
    net = ex.Net("mlp")
    net.input("x", (None, 4))
    net.GivenTensorFill([], "w", values=np.ones((3, 4), "float32"))
    net.FC(["x", "w"], "h", axis=1)
    net.Relu("h", "h")
    net.output("h")
    assert net.text().splitlines() == [
        "net mlp",
        "  input x: (?, 4) float32",
        "  w = GivenTensorFill(values: float32 (3, 4))  # given_tensor_fill",
        "  h = FC(x, w, axis=1)  # fc",
        "  h = Relu(h)  # relu",
        "  output h",
    ]


@pytest.mark.spec("C-16")
def test_a_hostile_name_is_escaped() -> None:
    net = ex.Net("a\nb")
    net.input("x", (1,))
    net.output(net.Relu("x", "y\u202e"))
    assert "\u202e" not in net.text()
    assert net.text().splitlines()[0] == "net a\\nb"
