"""Nets, and the commands of the command line, run compiled kernels."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import explorer as ex
from explorer.cli import main
from explorer.net import Net
from explorer.plan.options import Kernels
from explorer.run.native import library

X = np.random.default_rng(0).normal(size=(100, 100)).astype(np.float32)


@pytest.fixture
def net(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, compiler: None) -> Net:
    """Net of two kernels on 10,000 elements; only the first is elementwise."""
    monkeypatch.chdir(tmp_path)
    ex.save(lambda x: ex.tanh(x * 2) + x, "gate.onnx", {"x": X.shape})
    np.savez("x.npz", x=X)
    opened = ex.open("gate.onnx")
    opened.init()
    return opened


@pytest.mark.spec("K-2", "K-3")
def test_a_net_runs_compiled_kernels(net: Net, folder: Path) -> None:
    expected = net.run(X)
    assert not folder.exists()
    np.testing.assert_allclose(net.run(X, kernels="native"), expected, rtol=1e-6, atol=1e-6)
    assert len([*folder.glob("*.so")]) == 1
    np.testing.assert_array_equal(net.run(X), expected)
    assert net.profile(X, kernels="native", runs=1).rows
    view = net.explore(X, kernels="native")
    assert "tanh_f32(" in "".join([code.text for code in view.recording.codes.values()])
    assert net.explore(kernels="native").recording.codes


@pytest.mark.spec("K-3")
def test_values_of_compiled_kernels_are_compared(net: Net, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    reference = {"x": X, net.definition.outputs[0]: np.tanh(X * 2) + X}
    assert net.compare(reference, kernels="native").equal
    (built,) = folder.glob("*.so")
    np.savez("reference.npz", **reference)
    assert main(["compare", "reference.npz", "gate.onnx", "--input", "x.npz", "--kernels", "native"]) == 0
    assert [*folder.glob("*.so")] == [built]
    with pytest.raises(ex.OperandError, match=r"kernels='native' with executor='onnxruntime'"):
        net.compare(reference, kernels="native", executor="onnxruntime")


@pytest.mark.spec("K-3")
def test_a_module_trains_with_compiled_kernels(folder: Path, compiler: None) -> None:
    """Losses and outputs equal NumPy's; each program is compiled."""
    images, labels = np.random.default_rng(1).normal(size=(64, 100)).astype(np.float32), np.arange(64) % 10
    losses, outputs = [], []
    modes: tuple[Kernels, Kernels] = ("numpy", "native")
    for kernels in modes:
        module = ex.train.Module(loss=ex.train.CrossEntropy(), optimizer=ex.train.Adam(0.01), kernels=kernels)
        for layer in (ex.train.Linear("hidden", 100, 100), ex.tanh, ex.sigmoid, ex.train.Linear("scores", 100, 10)):
            module.add_node(layer)
        module.attach()
        losses.append([module.train_on(images, labels) for _ in range(5)])
        outputs.append(module.predict(images))
        module.nodes["tanh"].forward(images)
        assert bool([*folder.glob("*.so")] if folder.exists() else []) == (kernels == "native")
    np.testing.assert_allclose(losses[1], losses[0], rtol=1e-4)
    np.testing.assert_allclose(outputs[1], outputs[0], rtol=1e-2, atol=1e-4)
    assert "sqrt_f32(" in module.plan(images, labels).code()
    with pytest.raises(ex.UnknownNameError, match="known: native, numpy"):
        ex.train.Module(kernels="c")  # type: ignore[arg-type]


@pytest.mark.spec("K-3")
def test_kernels_of_a_net_are_checked(net: Net) -> None:
    with pytest.raises(ex.OperandError, match="kernels must be one of the names native, numpy"):
        net.run(X, kernels=X)  # type: ignore[arg-type]
    for call in (net.run, net.profile, net.explore):
        with pytest.raises(ex.OperandError, match=r"(?s)kernels='native' with executor='onnxruntime'.*remove kernels"):
            call(X, kernels="native", executor="onnxruntime")


@pytest.mark.spec("K-2")
def test_commands_compile_kernels(net: Net, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "gate.onnx", "--input", "x.npz", "--kernels", "native", "--plan", "-o", "y.npz"]) == 0
    assert "is computed by the C function compute_" in capsys.readouterr().out
    (built,) = folder.glob("*.so")
    (value,) = np.load("y.npz").values()
    np.testing.assert_allclose(value, net.run(X), rtol=1e-6, atol=1e-6)
    for command in (["show", "-o", "-"], ["profile", "--runs", "1"], ["show", "-o", "gate.json"]):
        assert main([command[0], "gate.onnx", "--input", "x.npz", "--kernels", "native", *command[1:]]) == 0
    assert [*folder.glob("*.so")] == [built]
    assert "tanh_f32(" in Path("gate.json").read_text(encoding="utf-8")
    capsys.readouterr()
    assert main(["show", "gate.json", "--kernels", "native", "-o", "-"]) == 2
    assert "--kernels for a recording" in capsys.readouterr().err


@pytest.mark.spec("K-5")
@pytest.mark.filterwarnings("default")
def test_a_command_states_that_there_is_no_compiler(
    net: Net, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(library, "compiler", lambda: None)
    assert main(["run", "gate.onnx", "--input", "x.npz", "--kernels", "native"]) == 0
    expected = (
        "NumPy computes kernels that could be compiled, because no C compiler is in PATH (cc, gcc, clang); "
        "pip install ziglang adds one."
    )
    assert capsys.readouterr().err.splitlines() == [expected]
