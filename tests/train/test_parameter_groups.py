"""Parameter groups: rates and decays against PyTorch, frozen parameters, names, files, and workers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import explorer as ex
from explorer.layers import Parameter
from tests.support.refusals import refused

T = ex.train
REFERENCE = np.load(Path(__file__).parents[2] / "assets" / "optimizers.npz")
START, GRADIENTS = REFERENCE["start"], REFERENCE["gradients"]
FIRST = 3
"""number of elements of the reference's first parameter"""
Group = T.ParameterGroup
RATES = [Group("hidden", rate=0.001), Group("scores/bias", weight_decay=0.2)]


def trained_parameters(optimizer: Any, dtype: str = "float64") -> np.ndarray:
    """Return both parameters, joined, after each step with the reference's gradients."""
    held = {
        name: Parameter(name, ex.tensor(part, dtype)) for name, part in zip("pq", np.split(START, [FIRST]), strict=True)
    }
    optimizer.attach(held)
    values = []
    for gradient in GRADIENTS:
        optimizer.step(dict(zip("pq", np.split(gradient.astype(dtype), [FIRST]), strict=True)))
        values.append(np.concatenate([each.array for each in held.values()]))
    return np.stack(values)


def built(optimizer: Any) -> Any:
    module = T.Module("m", loss=T.CrossEntropy(), optimizer=optimizer, dtype="float64")
    module.add_node(T.Linear("hidden", 6, 5))
    module.add_node(ex.tanh)
    module.add_node(T.Linear("scores", 5, 3))
    module.attach()
    return module


def data() -> tuple[np.ndarray, np.ndarray]:
    generator = np.random.default_rng(2)
    return generator.normal(size=(30, 6)), generator.integers(3, size=30)


def weights(module: Any) -> dict[str, bytes]:
    return {name: held.array.tobytes() for name, held in module.parameters.items()}


@pytest.mark.spec("T-4")
@pytest.mark.parametrize(
    ("name", "optimizer"),
    [
        ("grouped", lambda: T.AdamW(0.1, weight_decay=0.3, groups=[Group("p", rate=0.01, weight_decay=0.0)])),
        (
            "grouped_clipped",
            lambda: T.Momentum(0.1, clip_norm=2.0, groups=[Group("p", rate=0.01), Group("q", weight_decay=0.3)]),
        ),
        ("frozen_clipped", lambda: T.Momentum(0.1, clip_norm=2.0, groups=[Group("p", frozen=True)])),
    ],
)
def test_groups_equal_torch(name: str, optimizer: Any) -> None:
    """Groups with separate rates and decays, and frozen ones, reach the weights of PyTorch's parameter groups."""
    rtol = 1e-6 if name == "grouped" else 1e-12  # Adam's ε, as in test_optimizers.py
    np.testing.assert_allclose(
        trained_parameters(optimizer()), REFERENCE[name], rtol=rtol, atol=1e-6 if rtol == 1e-6 else 0
    )
    np.testing.assert_allclose(trained_parameters(optimizer(), "float32"), REFERENCE[name], rtol=2e-5, atol=2e-6)


@pytest.mark.spec("T-4")
def test_the_rate_of_a_group_may_follow_a_policy() -> None:
    """Each of two policies is evaluated at the step number."""
    p, q = (Parameter(name, ex.tensor([1.0])) for name in "pq")
    optimizer = T.SGD(T.Step(0.1, size=2), groups=[Group("q", rate=T.Exp(1.0, gamma=0.5))])
    optimizer.attach({"p": p, "q": q})
    for _ in range(4):
        optimizer.step({"p": np.ones(1), "q": np.ones(1)})
    assert p.array[0] == pytest.approx(1 - 0.2 - 0.02, rel=1e-12)
    assert q.array[0] == pytest.approx(1 - 1.875, rel=1e-12)


@pytest.mark.spec("T-4")
def test_groups_without_changes_give_the_same_bits() -> None:
    x, label = data()
    plain, grouped = built(T.AdamW(0.01)), built(T.AdamW(0.01, groups=[Group("hidden", rate=0.01, weight_decay=0.01)]))
    for _ in range(5):
        assert plain.train_on(x, label) == grouped.train_on(x, label)
    assert weights(plain) == weights(grouped)


@pytest.mark.spec("T-1", "T-4")
@pytest.mark.parametrize(
    "names", [("hidden",), ("hidden/*",), ("hidden/weight", "hidden/bias"), ("h*",), ("hidden/?*",)]
)
def test_frozen_parameters_stay_and_have_no_gradients(names: tuple[str, ...]) -> None:
    """In one plan and node by node, their layer is not part of the backward pass."""
    x, label = data()
    whole, apart = (built(T.Adam(0.05, groups=[Group(*names, frozen=True)])) for _ in range(2))
    before = weights(whole)
    for _ in range(3):
        loss = whole.train_on(x, label)
        apart.forward(x)
        assert apart.backward(label) == pytest.approx(loss, rel=1e-12)
        apart.step()
    assert [*whole.optimizer.parameters] == ["scores/weight", "scores/bias"] == [*apart.gradients]
    for module in (whole, apart):
        assert {name for name, bits in weights(module).items() if bits != before[name]} == {*whole.optimizer.parameters}
    for name, held in whole.parameters.items():
        np.testing.assert_allclose(apart.parameters[name].array, held.array, rtol=1e-9)
    everything = built(T.Adam(0.05)).plan(x, label).recording.schedule.kernels
    assert len(whole.plan(x, label).recording.schedule.kernels) < len(everything)


@pytest.mark.spec("T-4")
def test_a_parameter_shared_by_two_nodes_is_frozen_in_both() -> None:
    shared: dict[str, Any] = {}
    layers = [ex.layers.Linear(name, 3, 3) for name in ("a", "b")]
    layers[0].init(ex.layers.Initializer(filler=ex.layers.VarScale()), shared)
    names = {f"b/{path}": f"a/{path}" for path in ("weight/parameter", "bias/parameter")}
    layers[1].init(ex.layers.Initializer(names=names), shared)
    module = T.Module(loss=T.MeanSquaredError(), optimizer=T.SGD(0.1, groups=[Group("a/weight", frozen=True)]))
    for layer in layers:
        module.add_node(layer)
    module.attach()
    x = np.ones((2, 3))
    module.forward(x)
    module.backward(x)
    assert [*module.gradients] == ["a/bias/parameter"] == [*module.optimizer.parameters]


@pytest.mark.spec("T-11", "C-17")
def test_training_with_groups_is_restored_bit_for_bit(tmp_path: Path) -> None:
    """Test rates, decays and frozen parameters in the middle of two policies."""

    def made() -> Any:
        groups = [Group("hidden/weight", rate=T.Exp(0.01, 0.9)), Group("*/bias", weight_decay=0.0)]
        return built(T.AdamW(T.LinearWarmup(T.Fixed(0.02), steps=5), groups=[*groups]))

    x, label = data()
    whole, first, second = made(), made(), made()
    for _ in range(8):
        whole.train_on(x, label)
    for _ in range(3):
        first.train_on(x, label)
    first.save(tmp_path / "run.npz")
    second.restore(tmp_path / "run.npz")
    for _ in range(5):
        second.train_on(x, label)
    assert weights(second) == weights(whole)
    assert {k: v.tobytes() for k, v in second.optimizer.state().items()} == {
        k: v.tobytes() for k, v in whole.optimizer.state().items()
    }


@pytest.mark.spec("T-11")
def test_frozen_parameters_are_not_part_of_the_state(tmp_path: Path) -> None:
    """A module that trains more or fewer parameters than the saved one raises an error before assigning anything."""
    frozen, free = built(T.Adam(0.05, groups=[Group("hidden", frozen=True)])), built(T.Adam(0.05))
    frozen.train_on(*data())
    frozen.save(tmp_path / "frozen.npz")
    before = weights(free)
    with refused(ex.FileError, "frozen.npz"):
        free.restore(tmp_path / "frozen.npz")
    assert weights(free) == before


@pytest.mark.spec("C-14")
@pytest.mark.xdist_group("dask")
def test_groups_train_equally_on_workers() -> None:
    """Two workers reach the weights of one, bit for bit, and those of local training within rounding."""
    groups = [Group("hidden/weight", rate=0.002, weight_decay=0.1), Group("scores/bias", frozen=True)]
    x, label = data()
    here = built(T.AdamW(0.01, groups=groups))
    for _ in range(10):
        here.train_on(x, label)
    bits = []
    for count in (1, 2):
        module = built(T.AdamW(0.01, groups=groups))
        with ex.parallelize(module, count, processes=False, shards=2):
            for _ in range(10):
                module.train_on(x, label)
        bits.append(weights(module))
        for name, held in here.parameters.items():
            np.testing.assert_allclose(module.parameters[name].array, held.array, rtol=1e-9, atol=1e-12)
    assert bits[0] == bits[1]


@pytest.mark.spec("T-4")
def test_unknown_names_raise_an_error_with_similar_ones() -> None:
    for name, near in (
        ("hiden", "hidden"),
        ("hidden/wieght", "hidden/weight"),
        ("bias", "scores/bias"),
        ("*/beta", ""),
    ):
        with refused(ex.UnknownNameError, f"unknown trained parameter or layer of a ParameterGroup '{name}'", near):
            built(T.SGD(0.1, groups=[Group(name, rate=0.01)]))


@pytest.mark.spec("T-4")
def test_a_parameter_in_two_groups_raises_an_error() -> None:
    with refused(ex.DeclarationError, "'hidden/bias' in ParameterGroup('hidden'", "at most one group"):
        built(T.SGD(0.1, groups=[Group("hidden", rate=0.01), Group("*/bias", weight_decay=0.0)]))


@pytest.mark.spec("T-4")
@pytest.mark.parametrize(
    ("make", "rule"),
    [
        (lambda: Group(rate=0.1), "must name parameters or layers"),
        (lambda: Group("a", "a", rate=0.1), "each once"),
        (lambda: Group("", rate=0.1), "by strings"),
        (lambda: Group(["a"], rate=0.1), "by strings"),
        (lambda: Group("a"), "must be frozen, or have a separate rate"),
        (lambda: Group("a", frozen=True, rate=0.1), "but not both"),
        (lambda: Group("a", rate=-0.1), "a learning rate must be 0 or more"),
        (lambda: Group("a", weight_decay=-0.1), r"ParameterGroup(weight_decay=-0.1)"),
        (lambda: Group("a", frozen=1), "frozen must be True or False"),
        (lambda: Group("a", lr=0.1), "rate"),
        (lambda: T.SGD(0.1, groups=Group("a", rate=0.1)), "must be a list of ParameterGroup"),
        (lambda: T.SGD(0.1, groups=[{"params": "a", "lr": 0.1}]), "must be a list of ParameterGroup"),
        (lambda: T.SGD(0.1, groups="hidden"), "must be a list of ParameterGroup"),
    ],
)
def test_groups_without_settings_raise_an_error(make: Any, rule: str) -> None:
    with refused(ex.ExplorerError, rule):
        make()


@pytest.mark.spec("T-4")
def test_groups_are_displayed_and_written_as_plain_data() -> None:
    optimizer = T.SGD(0.1, groups=[Group("a", "b/*", rate=np.float32(0.5)), Group("c", frozen=True)])
    text = "ParameterGroup('a', 'b/*', rate=Fixed(base=0.5)), ParameterGroup('c', frozen=True)"
    assert repr(optimizer) == f"SGD(rate=Fixed(base=0.1), groups=[{text}])"
    assert optimizer.settings()["groups"] == [
        {"names": ["a", "b/*"], "frozen": False, "rate": {"type": "Fixed", "base": 0.5}},
        {"names": ["c"], "frozen": True},
    ]


@pytest.mark.spec("T-4")
def test_a_name_with_wildcard_characters_is_taken_literally() -> None:
    held = {name: Parameter(name, ex.tensor([1.0])) for name in ("w[0]", "w0")}
    optimizer = T.SGD(1.0, groups=[Group("w[0]", rate=0.5)])
    optimizer.attach(held)
    optimizer.step({name: np.ones(1) for name in held})
    assert [each.array[0] for each in held.values()] == [0.5, 0.0]
