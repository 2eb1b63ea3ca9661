"""Workspaces, blobs and model helpers: training through operators' names."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import explorer as ex
from explorer.net import Blob


def positive(name: str = "positive") -> Any:
    net = ex.Net(name)
    net.input("x", (2,), "float64")
    net.Relu("x", "y")
    return net


@pytest.mark.spec("C-11", headline=True)
def test_nets_read_and_write_blobs() -> None:
    """Feed and fetch blobs of a workspace by name; nets read their inputs there and store their results there."""
    workspace = ex.Workspace()
    workspace.feed_blob("x", [1.0, -2.0])
    workspace.create_net(positive())
    workspace.run_net("positive")
    assert workspace.fetch_blob("y").tolist() == [1, 0]
    assert (workspace.blobs(), workspace.nets()) == (["x", "y"], ["positive"])
    workspace.run_operator_once("Sum", ["x", "y"], "z")
    assert workspace.fetch_blob("z").tolist() == [2, -2]
    workspace.reset()
    assert not workspace.has_blob("x")
    assert workspace.nets() == []


@pytest.mark.spec("C-11")
def test_a_duplicate_name_and_a_missing_input_raise_an_error() -> None:
    workspace = ex.Workspace()
    with pytest.raises(ex.StateError, match="without the blob 'x'"):
        workspace.create_net(positive())
    workspace.create_blob("x")
    with pytest.raises(ex.StateError, match=r"feed_blob\('x'"):
        workspace.run_net_once(positive())
    workspace.feed_blob("x", [1.0, -2.0])
    workspace.create_net(positive())
    with pytest.raises(ex.StateError, match="a second net 'positive'"):
        workspace.create_net(positive())
    with pytest.raises(ex.UnknownNameError, match="positve"):
        workspace.run_net("positve")
    with pytest.raises(ex.UnknownNameError, match="blob of the workspace"):
        workspace.fetch_blob("z")
    workspace.create_blob("empty")
    with pytest.raises(ex.StateError, match="is empty"):
        workspace.fetch_blob("empty")
    workspace.feed_blob("x", {"a": 1})
    with pytest.raises(ex.OperandError, match="contains a dict"):
        workspace.run_net("positive")


@pytest.mark.spec("C-11")
def test_a_net_runs_repeatedly_on_its_own_results() -> None:
    workspace = ex.Workspace()
    workspace.feed_blob("n", np.zeros(()))
    count = ex.Net("count")
    count.input("n", (), "float64")
    count.Iter("n", "n")
    workspace.create_net(count)
    workspace.run_net("count", times=5)
    assert workspace.fetch_blob("n") == 5


@pytest.mark.spec("C-11")
def test_a_failing_net_does_not_change_the_workspace() -> None:
    workspace = ex.Workspace()
    workspace.feed_blob("x", np.array([1.0, 2.0]))
    workspace.feed_blob("at", np.array([5]))
    net = ex.Net("fails")
    net.input("x", (2,), "float64")
    net.input("at", (1,), "int64")
    net.Relu("x", "y")
    net.Gather(["y", "at"], "z")
    with pytest.raises(ex.RunError):
        workspace.run_net_once(net)
    assert workspace.blobs() == ["at", "x"]


@pytest.mark.spec("C-11")
def test_workspaces_are_switched_by_name() -> None:
    default = ex.Workspace.switch("one of a test")
    default.feed_blob("x", [1.0])
    other = ex.Workspace.switch("another of a test")
    assert ex.Workspace.current() is other
    assert not other.has_blob("x")
    assert ex.Workspace.switch("one of a test") is default
    assert ex.Workspace.current().has_blob("x")


@pytest.mark.spec("C-4", headline=True)
def test_a_blob_stores_one_value_of_any_type() -> None:
    """Store one value of any type in a blob, which is empty at first; a wrong type is an error that names both."""
    blob = Blob("b")
    assert blob.empty
    assert blob.value_type is None
    with pytest.raises(ex.OperandError, match="is empty"):
        blob.get(int)
    blob.reset([1])
    assert blob.get(list) == [1]
    assert blob.is_type(list)
    assert not blob.is_type(dict)
    assert blob.value_type is list
    with pytest.raises(ex.OperandError, match=r"contains a list\n.*must contain a dict"):
        blob.get(dict)
    blob.get_mutable(dict)["k"] = 1
    assert blob.get(dict) == {"k": 1}
    blob.reset()
    assert blob.empty
    assert repr(blob) == "<blob 'b': empty>"


def digits_by_name(update: Any) -> tuple[Any, Any, np.ndarray]:
    """Return a classifier defined by names, its workspace, and the losses of its steps."""
    model = ex.ModelHelper("mlp")
    net = model.net
    net.input("x", (16, 4))
    net.input("label", (16,), "int64")
    for name, shape in (("w1", (8, 4)), ("w2", (3, 8))):
        model.create_param(name, shape, "XavierFill", seed=1)
    for name, shape in (("b1", (8,)), ("b2", (3,))):
        model.create_param(name, shape, "ConstantFill")
    net.FC(["x", "w1", "b1"], "h")
    net.Relu("h", "h")
    net.FC(["h", "w2", "b2"], "s")
    net.SoftmaxWithLoss(["s", "label"], ["p", "loss"])
    model.add_gradient_operators(["loss"])
    net.input("iteration", (), "float64")
    net.LearningRate("iteration", "rate", base_lr=0.1, policy="exp", gamma=0.99)
    workspace = ex.Workspace()
    draw = np.random.default_rng(0)
    x = draw.normal(size=(16, 4)).astype("float32")
    workspace.feed_blob("x", x)
    workspace.feed_blob("label", (x @ draw.normal(size=(4, 3))).argmax(1))
    workspace.feed_blob("iteration", 0.0)
    workspace.run_net_once(model.param_init_net)
    for name, gradient in model.params_to_grad.items():
        update(net, workspace, name, gradient)
    net.Iter("iteration", "iteration")
    net.output("loss")
    workspace.create_net(net)
    losses = []
    for _ in range(30):
        workspace.run_net("mlp")
        losses.append(float(workspace.fetch_blob("loss")))
    return model, workspace, np.array(losses)


def momentum(net: Any, workspace: Any, name: str, gradient: str) -> None:
    workspace.feed_blob(f"{name}_m", np.zeros_like(workspace.fetch_blob(name)))
    net.input(f"{name}_m", workspace.fetch_blob(name).shape)
    net.MomentumSGDUpdate([gradient, f"{name}_m", "rate", name], [gradient, f"{name}_m", name])


def adam(net: Any, workspace: Any, name: str, gradient: str) -> None:
    for state in ("m", "v"):
        workspace.feed_blob(f"{name}_{state}", np.zeros_like(workspace.fetch_blob(name)))
        net.input(f"{name}_{state}", workspace.fetch_blob(name).shape)
    blobs = [name, f"{name}_m", f"{name}_v"]
    net.Adam([*blobs, gradient, "rate", "iteration"], blobs)


@pytest.mark.spec("C-13", "C-5", headline=True)
@pytest.mark.parametrize("update", [momentum, adam])
def test_a_model_is_trained_by_the_names_of_its_operators(update: Any) -> None:
    """Train a model through the names of its parameters, gradients and updates, as ex.train does."""
    model, workspace, losses = digits_by_name(update)
    assert model.params_to_grad == {name: f"{name}_grad" for name in ("w1", "w2", "b1", "b2")}
    rate = ex.train.Exp(0.1, 0.99)
    optimizer = ex.train.Momentum(rate) if update is momentum else ex.train.Adam(rate)
    module = ex.train.Module(loss=ex.train.CrossEntropy(), optimizer=optimizer)
    for layer in (ex.train.Linear("one", 4, 8), ex.relu, ex.train.Linear("two", 8, 3)):
        module.add_node(layer)
    fresh = ex.Workspace()
    fresh.run_net_once(model.param_init_net)
    module.attach()
    for name, mine in (("w1", "one/weight"), ("w2", "two/weight")):
        module.parameters[mine].assign(fresh.fetch_blob(name).T)
    x, label = workspace.fetch_blob("x"), workspace.fetch_blob("label")
    wanted = [module.train_on(x, label) for _ in range(30)]
    np.testing.assert_allclose(losses, wanted, rtol=2e-4)
    np.testing.assert_allclose(
        workspace.fetch_blob("w1").T, module.parameters["one/weight"].array, rtol=1e-3, atol=1e-4
    )
    assert losses[-1] < 0.5 * losses[0]
    assert workspace.fetch_blob("iteration") == 30


@pytest.mark.spec("C-13")
def test_a_parameter_is_created_once() -> None:
    model = ex.ModelHelper("m")
    model.create_param("w", (2, 2))
    with pytest.raises(ex.OperandError, match="a second parameter 'w'"):
        model.create_param("w", (2, 2))
    assert repr(model) == "<model helper 'm': 1 parameter>"


@pytest.mark.spec("C-5")
def test_fills_depend_on_seed_and_name() -> None:
    """The random numbers are equal on every machine and in every order."""

    def filled(*names: str, type: str = "UniformFill", seed: int = 0, shape: Any = (1000,), **arguments: Any) -> Any:
        net = ex.Net("fills")
        for name in names:
            net.add(type, (), name, shape=shape, seed=seed, **arguments)
        net.output(*names)
        return net.run()

    both, other = filled("a", "b"), filled("b", "a")
    assert (both["a"] == other["a"]).all()
    assert (both["a"] != both["b"]).all()
    assert (filled("a", seed=1) != both["a"]).any()
    assert np.abs(filled("a", type="GaussianFill", mean=3.0, std=0.1) - 3).mean() == pytest.approx(0.08, abs=0.01)
    weight = filled("a", type="XavierFill", shape=(20, 300))
    assert np.abs(weight).max() == pytest.approx(0.1, rel=0.01)
    assert filled("a", type="MSRAFill", shape=(200, 30)).std() == pytest.approx(0.1, rel=0.03)
    assert sorted(filled("a", type="UniqueUniformFill", shape=(5, 2), min=3, max=12).ravel()) == [*range(3, 13)]
    with pytest.raises(ex.OperandError, match="as many integers as elements"):
        filled("a", type="UniqueUniformFill", shape=(5,), min=0, max=3)


@pytest.mark.spec("C-5", "T-4")
@pytest.mark.parametrize(
    ("type", "optimizer", "arguments"),
    [
        ("Adagrad", ex.train.Adagrad(0.1, decay=0.9), {"decay": 0.9}),
        ("RmsProp", ex.train.RMSProp(0.1, momentum=0.5), {"factor": 0.5}),
        ("Ftrl", ex.train.Ftrl(0.1, l1=0.2), {"lambda1": 0.2}),
        ("Adam", ex.train.Adam(0.1, beta1=0.8), {"beta1": 0.8}),
    ],
    ids=["Adagrad", "RmsProp", "Ftrl", "Adam"],
)
def test_an_update_operator_equals_the_optimizer(type: str, optimizer: Any, arguments: Any) -> None:
    """They share one rule, so that steps are equal to the last bit."""
    held = ex.layers.Parameter("w", ex.tensor([1.0, -2.0, 3.0]))
    optimizer.attach({"w": held})
    workspace, net = ex.Workspace(), ex.Net("update")
    state = list(optimizer.rule.state)
    for name in ("w", *state, "g"):
        net.input(name, (3,), "float64")
        workspace.feed_blob(name, np.array([1.0, -2.0, 3.0]) if name == "w" else np.zeros(3))
    for name, value in (("rate", 0.1), ("iteration", 0.0)):
        net.input(name, (), "float64")
        workspace.feed_blob(name, value)
    reads = ["w", *state, "g", "rate", *["iteration"] * (type == "Adam")]
    net.add(type, reads, ["w", *state], **arguments)
    net.Iter("iteration", "iteration")
    workspace.create_net(net)
    for gradient in np.random.default_rng(0).normal(size=(5, 3)):
        workspace.feed_blob("g", gradient)
        workspace.run_net("update")
        optimizer.step({"w": gradient})
        assert (workspace.fetch_blob("w") == held.array).all()


@pytest.mark.spec("C-5")
def test_learning_rates_and_weighted_sums() -> None:
    """LearningRate follows its policy, and WeightedSum adds weighted blobs: gradient descent with operators."""
    for policy, arguments, wanted in (
        ("fixed", {}, 0.5),
        ("step", {"stepsize": 3, "gamma": 0.1}, 0.5 * 0.1**2),
        ("exp", {"gamma": 0.9}, 0.5 * 0.9**7),
        ("inv", {"gamma": 0.1, "power": 2.0}, 0.5 * 1.7**-2),
        ("poly", {"max_iter": 14, "power": 2.0}, 0.5 * 0.25),
        ("poly", {"max_iter": 7, "power": 0.0}, 0.0),
        ("linearWarmup", {"num_iter": 14, "start_multiplier": 0.2}, 0.5 * 0.6),
        ("linearWarmup", {"num_iter": 7}, 0.5),
        ("constantWarmup", {"num_iter": 8, "multiplier": 0.25}, 0.5 * 0.25),
        ("constantWarmup", {"num_iter": 7}, 0.5),
    ):
        workspace = ex.Workspace()
        workspace.feed_blob("n", 7.0)
        workspace.run_operator_once("LearningRate", "n", "rate", base_lr=0.5, policy=policy, **arguments)
        assert workspace.fetch_blob("rate") == pytest.approx(wanted, rel=1e-6)
    for name, value in (("w", [1.0, 2.0]), ("one", 1.0), ("g", [4.0, -4.0]), ("down", -0.25)):
        workspace.feed_blob(name, value)
    workspace.run_operator_once("WeightedSum", ["w", "one", "g", "down"], "w")
    assert workspace.fetch_blob("w").tolist() == [0, 3]
    with pytest.raises(ex.OperandError, match="followed by its weight"):
        workspace.run_operator_once("WeightedSum", ["w", "one", "g"], "w")


@pytest.mark.spec("C-11")
def test_errors_of_unsupported_values_contain_the_blob() -> None:
    workspace = ex.Workspace()
    with pytest.raises(ex.OperandError, match="must be convertible to a rectangular array"):
        workspace.feed_blob("x", [[1.0], [1.0, 2.0]])
    with pytest.raises(ex.UnknownNameError, match="unknown blob of the workspace 3"):
        workspace.blob(3)  # type: ignore[arg-type]
    workspace.feed_blob("words", {"a": 1})
    with pytest.raises(ex.OperandError, match="'words' contains a dict"):
        workspace.run_operator_once("Relu", "words", "y")
    workspace.run_operator_once("ConstantFill", None, "c", shape=(2,))
    net = ex.Net("n")
    with pytest.raises(ex.OperandError, match="boolean or numeric"):
        net.input("when", (2,), "datetime64[s]")
    net.Relu(net.input("c", (2,)), "y")
    workspace.create_net(net)
    with pytest.raises(ex.OperandError, match="times must be"):
        workspace.run_net("n", -1)


@pytest.mark.spec("C-5")
def test_mismatching_updates_raise_an_error() -> None:
    net = ex.Net("n")
    for name, shape in (("w", (2,)), ("m", (3,)), ("g", (2,)), ("rate", (2,))):
        net.input(name, shape)
    net.Adagrad(["w", "m", "g", "rate"], ["w", "m"])
    net.output("w")
    with pytest.raises(ex.OperandError, match="must have the parameter's type"):
        net.run(np.ones(2, "f"), np.ones(3, "f"), np.ones(2, "f"), np.ones(2, "f"))
    other = ex.Net("n")
    for name in ("w", "m", "g", "rate"):
        other.input(name, (2,))
    other.Adagrad(["w", "m", "g", "rate"], ["w", "m"])
    other.output("w")
    with pytest.raises(ex.OperandError, match="must be scalars"):
        other.run(*[np.ones(2, "f")] * 4)
