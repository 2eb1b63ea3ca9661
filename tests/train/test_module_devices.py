"""Modules on devices: training gives the CPU's weights, and state can be moved."""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest

import explorer as ex
from explorer.core import registry
from explorer.core.ir.expr import kernels
from explorer.layers import PNoUpdate, Sub
from explorer.layers.framework.policy_classes import ParameterPolicy
from explorer.train.module import TrainingStep
from tests.support.accelerator import accelerator

T = ex.train
DEVICES = [accelerator.name, pytest.param("cuda", marks=pytest.mark.gpu)]
RNG = np.random.default_rng(5)
X, LABELS = RNG.normal(size=(24, 6)), RNG.integers(3, size=24)


def built(optimizer: Any = None, device: str = "cpu", **options: Any) -> Any:
    """Return a module of two linear layers on a device, attached."""
    module = T.Module("small", loss=T.CrossEntropy(), optimizer=optimizer or T.Adam(0.05), **options)
    module.add_node(T.Linear("hidden", 6, 5))
    module.add_node(ex.tanh)
    module.add_node(T.Linear("scores", 5, 3))
    module.to_device(device).attach(seed=3)
    return module


def loader() -> Any:
    return T.DataLoader(T.ArrayDataset(X, LABELS), 8, shuffle=True, seed=4)


def check_equal(module: Any, other: Any, tolerance: float = 2e-5) -> None:
    for name, held in module.parameters.items():
        np.testing.assert_allclose(
            held.array, other.parameters[name].array, rtol=tolerance, atol=tolerance, err_msg=name
        )
    state, expected = module.optimizer.state(), other.optimizer.state()
    for name, array in state.items():
        np.testing.assert_allclose(array, expected[name], rtol=tolerance, atol=tolerance, err_msg=name)


@pytest.mark.spec("C-1", "T-1", "T-4")
@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("make", [T.SGD, T.Momentum, T.Adam, T.Adagrad, T.RMSProp, T.Ftrl])
def test_a_module_is_trained_on_a_device(make: Any, device: str) -> None:
    """Forward, loss, gradients and updates run on the device of to_device(), and equal those on the CPU."""
    here, there = built(make(T.Exp(0.05, 0.9))), built(make(T.Exp(0.05, 0.9)), device)
    for module in (here, there):
        module.losses = [epoch.loss for epoch in module.fit(loader(), 3)]
    assert there.device is ex.device(device)
    assert {held.device for held in there.parameters.values()} == {there.device}
    assert np.abs(there.parameters["hidden/weight"].array - built().parameters["hidden/weight"].array).max() > 1e-3
    np.testing.assert_allclose(there.losses, here.losses, rtol=2e-5)
    np.testing.assert_allclose(there.last_output, here.last_output, rtol=2e-4, atol=2e-5)
    np.testing.assert_allclose(there.predict(X), here.predict(X), rtol=2e-4, atol=2e-5)
    check_equal(there, here)


@pytest.mark.spec("C-1", "T-1")
@pytest.mark.parametrize("device", DEVICES)
def test_forward_backward_and_step_run_on_a_device(device: str) -> None:
    here, there = built(), built(device=device)
    for module in (here, there):
        for _ in range(3):
            module.output = module.forward(X)
            module.loss_value = module.backward(LABELS)
            module.step()
    assert there.nodes["hidden"].last_input.device is there.device
    assert there.loss_value == pytest.approx(here.loss_value, rel=2e-5)
    np.testing.assert_allclose(there.output, here.output, rtol=2e-4, atol=2e-5)
    check_equal(there, here)


def regularized(device: str, whole: bool) -> list[Any]:
    """Return losses and weights of a module with every layer and option that has a training mode."""
    groups = [T.ParameterGroup("hidden", rate=0.02, weight_decay=0.1), T.ParameterGroup("scores/bias", frozen=True)]
    loss = T.CrossEntropy(0.1, -100, [1.0, 2.0, 0.5])
    module = T.Module("m", loss=loss, optimizer=T.AdamW(T.Cosine(0.05, steps=9), clip_norm=1.0, groups=groups))
    module.add_node(T.Linear("hidden", 6, 5))
    module.add_node(T.BatchNorm("norm", 5))
    module.add_node(T.Dropout("drop", 0.3))
    module.add_node(T.Linear("scores", 5, 3))
    module.to_device(device).attach(seed=3)
    losses = []
    label = np.where(np.arange(24) % 5 == 0, -100, LABELS)
    for _ in range(6):
        if whole:
            losses.append(module.train_on(X, label))
        else:
            module.forward(X)
            losses.append(module.backward(label))
            module.step()
    return [np.array(losses), module.predict(X), *[held.array for held in module.parameters.values()]]


@pytest.mark.spec("C-1", "T-1")
@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("whole", [True, False])
def test_training_layers_and_options_on_a_device(device: str, whole: bool) -> None:
    """Dropout drops the same elements; statistics and weighted losses are equal."""
    for here, there in zip(regularized("cpu", whole), regularized(device, whole), strict=True):
        np.testing.assert_allclose(there, here, rtol=2e-4, atol=2e-5)


@pytest.mark.spec("C-1", "T-11")
@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("way", ["to a device", "from a device", "by a checkpoint"])
def test_training_continues_after_a_module_is_moved(way: str, device: str, tmp_path: Path) -> None:
    """Parameters, the optimizer's state and the step number are moved, or restored from a checkpoint."""
    whole = built()
    whole.fit(loader(), 4)
    module, batches = built(device="cpu" if way == "to a device" else device), loader()
    module.fit(batches, 2)
    if way == "by a checkpoint":
        module.save(tmp_path / "run.npz", batches)
        module, batches = built(), loader()
        module.restore(tmp_path / "run.npz", batches)
    elif way == "from a device":
        module.to_device(ex.cpu)
    else:
        module.to_device(device)
    module.fit(batches, 2)
    assert module.optimizer.iteration == whole.optimizer.iteration == 12
    check_equal(module, whole)


@pytest.mark.spec("C-1", "T-11")
@pytest.mark.parametrize("device", DEVICES)
def test_a_checkpoint_is_restored_onto_a_device(device: str, tmp_path: Path) -> None:
    first, second = built(), built(device=device)
    first.fit(loader(), 2)
    first.save(tmp_path / "run.npz")
    second.restore(tmp_path / "run.npz")
    assert second.parameters["hidden/weight"].device is ex.device(device)
    check_equal(second, first, 0)
    for module in (first, second):
        module.train_on(X, LABELS)
    check_equal(second, first)


@pytest.mark.spec("C-1")
def test_tensors_on_the_device_of_a_module_are_not_copied_to_the_cpu() -> None:
    """A batch from elsewhere is copied once."""
    module, expected = built(device="accelerator"), built()
    x, labels = ex.tensor(X, "float32", device=accelerator), ex.tensor(LABELS, device=accelerator)
    module.train_on(x, labels)
    accelerator.log.clear()
    module.train_on(x, labels)
    written = [entry for entry in accelerator.log if entry.startswith(("write", "read"))]
    # the learning rate to the device, the loss back
    assert written == ["write 4", "read 4"]
    for _ in range(2):
        expected.train_on(X, LABELS)
    check_equal(module, expected)
    np.testing.assert_allclose(module.predict(x), expected.predict(X), rtol=2e-4, atol=2e-5)


@pytest.mark.spec("C-1")
def test_a_step_on_a_device_can_be_shown_before_it_is_run() -> None:
    module = built(device="accelerator")
    before = module.parameters["hidden/weight"].array
    plan = module.plan(ex.tensor(X, "float32", device=accelerator), LABELS).eval()
    assert "to accelerator" in [node.operation.label for node in plan.planned.graph.live]
    np.testing.assert_array_equal(module.parameters["hidden/weight"].array, before)


@pytest.mark.spec("C-1")
@pytest.mark.parametrize("device", DEVICES)
def test_a_frozen_parameter_moves_and_is_not_trained(device: str) -> None:
    here, there = (_frozen(place) for place in ("cpu", device))
    for module in (here, there):
        module.train_on(X, LABELS)
    np.testing.assert_array_equal(
        there.parameters["hidden/weight"].array, _frozen("cpu").parameters["hidden/weight"].array
    )
    check_equal(there, here)


def _frozen(device: str) -> Any:
    module = T.Module("m", loss=T.CrossEntropy(), optimizer=T.SGD(0.1))
    module.add_node(T.Linear("hidden", 6, 3, policies=[Sub("weight", PNoUpdate)]))
    module.to_device(device).attach(seed=1)
    return module


@pytest.mark.spec("C-1")
def test_the_error_of_parameters_on_several_devices_contains_the_fix() -> None:
    """It has the parameter, its device, and to_device(), which works."""
    module = T.Module("mixed", loss=T.CrossEntropy(), optimizer=T.SGD(0.1))
    module.add_node(T.Linear("hidden", 6, 3))
    module.add_node(T.Linear("scores", 3, 3, policies=[ParameterPolicy.device(accelerator)]))
    with pytest.raises(
        ex.DeclarationError, match="'scores/weight' on accelerator, and 'hidden/weight' on cpu"
    ) as caught:
        module.attach()
    assert "module.to_device('accelerator') before attach()" in caught.value.fix
    module.to_device("accelerator").attach()
    module.train_on(X, LABELS)


@pytest.mark.spec("C-1")
def test_parameters_on_one_device_determine_the_device_of_the_module() -> None:
    module = T.Module("there", loss=T.CrossEntropy(), optimizer=T.SGD(0.1))
    module.add_node(T.Linear("scores", 6, 3, policies=[ParameterPolicy.device(accelerator)]))
    module.attach()
    module.train_on(X, LABELS)
    assert module.device is accelerator


@pytest.mark.spec("C-1")
@pytest.mark.parametrize("run", ["train_on", "forward", "predict"])
def test_the_error_of_a_parameter_moved_by_another_module_contains_its_name(run: str) -> None:
    buffer: dict[str, Any] = {}
    modules = []
    for name in ("first", "second"):
        layer = T.Linear("scores", 6, 3)
        layer.init(ex.layers.Initializer(filler=ex.layers.VarScale()), buffer)
        module = T.Module(name, loss=T.CrossEntropy(), optimizer=T.SGD(0.1))
        module.add_node(layer)
        module.attach()
        modules.append(module)
    first, second = modules
    first.train_on(X, LABELS)
    second.to_device("accelerator")
    arguments = (X, LABELS) if run == "train_on" else (X,)
    with pytest.raises(ex.StateError, match="'scores/weight' on accelerator, in a module on cpu") as caught:
        getattr(first, run)(*arguments)
    assert caught.value.fix == "module.to_device('accelerator') or to_device('cpu') moves all parameters"
    first.to_device("accelerator")
    getattr(first, run)(*arguments)


@pytest.mark.spec("C-1")
def test_weights_assigned_on_a_device_are_used() -> None:
    here, there = built(), built(device="accelerator")
    for module in (here, there):
        module.train_on(X, LABELS)
        module.parameters["hidden/weight"].assign(np.full((6, 5), 0.1))
        module.train_on(X, LABELS)
    check_equal(there, here)


@pytest.mark.spec("C-1")
def test_the_error_of_an_invalid_device_contains_it() -> None:
    module = built()
    with pytest.raises(ex.UnknownNameError, match="accelerater"):
        module.to_device("accelerater")
    with pytest.raises(ex.OperandError, match="the device must be a device or its name"):
        module.to_device(3)
    with pytest.raises(ex.OperandError, match="the device must be a device or its name"):
        ex.tensor([1.0], device=3)  # type: ignore[arg-type]
    assert ex.tensor([1.0], device="accelerator").to_device("cpu").device is ex.cpu
    with pytest.raises(AttributeError, match=r"no attribute 'to': use module.to_device\('cuda'\)"):
        module.to("cuda")
    with (
        pytest.raises(ex.StateError, match="which is on accelerator, on several workers"),
        _parallel(module) as parallel,
    ):
        parallel.module.to_device("accelerator").train_on(X, LABELS)


def _parallel(module: Any) -> Any:
    return ex.parallelize(module, workers=1)


@pytest.mark.spec("C-1", "T-4")
@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("make", [T.SGD, T.Momentum, T.Adam, T.Adagrad, T.RMSProp, T.Ftrl])
def test_parameters_are_updated_in_place_on_a_device(make: Any, device: str) -> None:
    """As many as on the CPU, without a copy; training without in-place updates gives the same bits."""

    class Beside(TrainingStep):  # type: ignore[misc]
        options: ClassVar = {"without": ("update",)}

    module, beside = built(make(0.1), device), built(make(0.1), device)
    beside.set_step(Beside)
    for _ in range(4):
        module.train_on(X, LABELS)
        beside.train_on(X, LABELS)
    check_equal(module, beside, 0)
    # on the CPU a product may be fused with the update, which then has its own memory
    assert _in_place(module) >= _in_place(built(make(0.1))) > 0
    if device == accelerator.name:
        accelerator.log.clear()
        module.train_on(X, LABELS)
        copies = [entry for entry in accelerator.log if entry.startswith("direct")]
        assert len(copies) == 4 + len(module.optimizer.state()) - _in_place(module)


def _in_place(module: Any) -> int:
    recording = module.plan(X, LABELS).recording
    decisions = [each for each in recording.decisions if recording.stages[each.stage].name == "update"]
    return sum([len(decision.subjects) for decision in decisions if decision.code == "in_place"])


@pytest.mark.spec("T-4")
def test_a_user_defined_kernel_on_the_device_does_not_update_in_place() -> None:
    """It may fail after it has written some elements."""
    board = ex.device("accelerator")
    ex.kernel("subtract", on=board)(lambda operation, out, x, y: operation.kernel(out, x, y))
    try:
        module, expected = built(T.SGD(0.1), "accelerator"), built(T.SGD(0.1))
        reasons = {decision.code for decision in module.plan(X, LABELS).recording.decisions}
        assert "may_fail" in reasons
        assert "in_place" not in reasons
        for _ in range(3):
            module.train_on(X, LABELS)
            expected.train_on(X, LABELS)
    finally:
        del kernels[registry.operations["subtract"], board]
    check_equal(module, expected)
