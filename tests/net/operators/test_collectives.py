"""Collective operators: sums, copies and concatenations of blobs on several devices, with gradients."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import explorer as ex
from explorer.core.types.tensor_type import Array
from tests.support.accelerator import accelerator, second_accelerator
from tests.support.refusals import refused

VALUES: list[Array] = [np.arange(6.0).reshape(2, 3) + 10 * at for at in range(3)]
DEVICES = (accelerator, second_accelerator, ex.cpu)


def _net(type: str, outputs: list[str] | None = None, placed: bool = False, **arguments: Any) -> ex.Net:
    """Return a net that combines three blobs, on three devices if ``placed``, and reads all results on the CPU."""
    net = ex.Net("joined")
    blobs = []
    for at in range(3):
        name = net.input(f"x{at}", (2, 3), "float64")
        blobs.append(net.CopyToDevice(name, f"there{at}", device=DEVICES[at].name) if placed else name)
    joined = net.add(type, blobs, outputs or ["y0", "y1", "y2"], **arguments)
    for at in range(3):
        net.output(net.CopyToDevice(joined[at], f"z{at}", device="cpu"))
    return net


@pytest.mark.spec("C-5", "C-1")
@pytest.mark.parametrize("placed", [False, True])
@pytest.mark.parametrize(
    ("type", "arguments", "expected"),
    [
        ("Allreduce", {}, sum(VALUES)),
        ("Broadcast", {"root": 1}, VALUES[1]),
        ("Allgather", {}, np.concatenate(VALUES)),
        ("Allgather", {"axis": 1}, np.concatenate(VALUES, 1)),
    ],
)
def test_every_device_receives_the_combined_value(type: str, arguments: Any, expected: Array, placed: bool) -> None:
    net = _net(type, placed=placed, **arguments)
    for value in net.run(*VALUES).values():
        np.testing.assert_array_equal(value, expected)
    if placed:
        types = [net.nodes(f"y{at}")[0].device for at in range(3)]
        assert tuple(types) == DEVICES


@pytest.mark.spec("C-5", "C-9")
@pytest.mark.parametrize("placed", [False, True])
@pytest.mark.parametrize("type", ["Allreduce", "Broadcast", "Allgather"])
def test_a_gradient_is_on_the_device_of_its_input(type: str, placed: bool) -> None:
    """The loss is a weighted sum of all outputs."""
    net = ex.Net("joined")
    blobs = []
    for at in range(3):
        name = net.input(f"x{at}", (2, 3), "float64")
        blobs.append(net.CopyToDevice(name, f"there{at}", device=DEVICES[at].name) if placed else name)
    joined = net.add(type, blobs, ["y0", "y1", "y2"])
    parts = []
    for at in range(3):
        here = net.CopyToDevice(joined[at], f"z{at}", device="cpu")
        net.ConstantFill(here, f"w{at}", value=float(at + 1), dtype="like")
        parts.append(net.AveragedLoss(net.Mul([here, f"w{at}"], f"p{at}"), f"l{at}"))
    net.Sum(parts, "loss")
    gradients = net.add_gradient_operators(["loss"])
    net.set_outputs([gradients[f"x{at}"] for at in range(3)])
    results = net.run(*VALUES)
    each = (1 + 2 + 3) / (18 if type == "Allgather" else 6)
    for at in range(3):
        expected = each if type != "Broadcast" or at == 0 else 0.0
        np.testing.assert_allclose(results[gradients[f"x{at}"]], np.full((2, 3), expected), rtol=1e-12)


@pytest.mark.spec("C-5")
def test_results_may_overwrite_their_operands() -> None:
    net = ex.Net("in place")
    for at in range(2):
        net.input(f"x{at}", (2, 3), "float64")
    net.Allreduce(["x0", "x1"], ["x0", "x1"])
    net.set_outputs(["x0", "x1"])
    for value in net.run(*VALUES[:2]).values():
        np.testing.assert_array_equal(value, VALUES[0] + VALUES[1])


@pytest.mark.spec("C-5", "C-1")
def test_operators_for_gpus_and_mismatching_operands_raise_an_error() -> None:
    for type, other in (("NCCLAllreduce", "Allreduce"), ("NCCLBroadcast", "Broadcast")):
        with refused(ex.OperandError, f"{type} of blobs on cpu", "placed on GPUs", f"net.{other}"):
            _net(type).run(*VALUES)
    with refused(ex.OperandError, "root=3 of 3 blobs"):
        _net("Broadcast", root=3).run(*VALUES)
    net = ex.Net("misfit")
    net.input("a", (2,)), net.input("b", (3,))
    net.Allreduce(["a", "b"], ["c", "d"])
    net.set_outputs(["c", "d"])
    with refused(ex.OperandError, "2 float32, 3 float32", "the same shape"):
        net.run(np.zeros(2, np.float32), np.zeros(3, np.float32))
    net = ex.Net("placed")
    net.output(net.CopyToDevice(net.input("x", (2,)), "y", device="acelerator"))
    with pytest.raises(ex.ExplorerError, match="unknown device 'acelerator'"):
        net.run(np.zeros(2, np.float32))
