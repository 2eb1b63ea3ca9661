"""Update rules and learning rates against PyTorch and their formulas, and errors of optimizers."""

from __future__ import annotations

import inspect
import math
from dataclasses import dataclass, field
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


def trained_parameter(optimizer: Any, dtype: str = "float64") -> np.ndarray:
    """Return the parameter after each step with the reference's gradients."""
    held = Parameter("p", ex.tensor(START, dtype))
    optimizer.attach({"p": held})
    values = []
    for gradient in GRADIENTS:
        optimizer.step({"p": gradient.astype(dtype)})
        values.append(held.array)
    return np.stack(values)


@pytest.mark.spec("T-4", headline=True)
@pytest.mark.parametrize(
    ("name", "optimizer"),
    [
        ("sgd", lambda: T.SGD(0.1)),
        ("momentum", lambda: T.Momentum(0.1)),
        ("nesterov", lambda: T.Momentum(0.1, nesterov=True)),
        ("adagrad", lambda: T.Adagrad(0.1)),
        ("adam", lambda: T.Adam(0.1)),
        ("adamw", lambda: T.AdamW(0.1, weight_decay=0.3)),
        ("amsgrad", lambda: T.AMSGrad(0.1)),
        ("decayed", lambda: T.Momentum(0.1, weight_decay=0.3)),
        ("clipped", lambda: T.SGD(0.1, clip_norm=2.0)),
    ],
)
def test_update_rules_equal_torch(name: str, optimizer: Any) -> None:
    """Train with gradient descent, momentum, Nesterov, Adagrad, Adam, AdamW and AMSGrad to PyTorch's weights."""
    # torch adds Adam's ε after the correction of √v: a difference of 1e-6 at the first step
    rtol = 1e-6 if name in ("adam", "adamw", "amsgrad") else 1e-12
    np.testing.assert_allclose(trained_parameter(optimizer()), REFERENCE[name], rtol=rtol, atol=1e-6)
    np.testing.assert_allclose(trained_parameter(optimizer(), "float32"), REFERENCE[name], rtol=2e-5, atol=2e-6)


@pytest.mark.spec("T-4")
def test_rmsprop_follows_its_formula() -> None:
    squares = momentum = np.zeros_like(START)
    value, values = START, []
    for gradient in GRADIENTS:
        squares = squares + 0.1 * (gradient**2 - squares)
        momentum = 0.5 * momentum + 0.01 * gradient / np.sqrt(squares + 1e-5)
        value = value - momentum
        values.append(value)
    np.testing.assert_allclose(trained_parameter(T.RMSProp(0.01, momentum=0.5)), np.stack(values), rtol=1e-12)


@pytest.mark.spec("T-4")
def test_ftrl_follows_its_formula() -> None:
    rate, beta, l1, l2 = 0.5, 1.0, 0.3, 0.01
    squares = linear = np.zeros_like(START)
    value, values = START, []
    for gradient in GRADIENTS:
        grown = squares + gradient**2
        linear = linear + gradient - (np.sqrt(grown) - np.sqrt(squares)) / rate * value
        squares = grown
        shrunk = (np.sign(linear) * l1 - linear) / ((beta + np.sqrt(squares)) / rate + l2)
        value = np.where(np.abs(linear) > l1, shrunk, 0.0)
        values.append(value)
    assert (np.stack(values) == 0).any(), "the case must have weights that are cut off"
    np.testing.assert_allclose(trained_parameter(T.Ftrl(rate, beta=beta, l1=l1, l2=l2)), np.stack(values), rtol=1e-12)


@pytest.mark.spec("T-4")
@pytest.mark.parametrize("rate", [T.LinearWarmup(T.Fixed(0.1), steps=4), T.Poly(0.1, steps=3), T.Fixed(0.0)], ids=repr)
@pytest.mark.parametrize("make", [T.SGD, T.Momentum, T.Adagrad, T.Adam, T.RMSProp, T.Ftrl])
def test_a_rate_of_zero_moves_nothing(make: Any, rate: Any) -> None:
    """A warm-up starts with the rate 0, and a polynomial ends with it: parameters stay finite."""
    optimizer = make(rate)
    held = Parameter("p", ex.tensor(START))
    optimizer.attach({"p": held})
    for iteration, gradient in enumerate(GRADIENTS):
        before = held.array
        optimizer.step({"p": gradient})
        assert np.isfinite(held.array).all()
        if rate.at(iteration) == 0 and make is not T.Momentum:  # the accumulated momentum still moves it
            np.testing.assert_array_equal(held.array, before)


@pytest.mark.spec("T-4")
def test_gradients_are_clipped_by_their_global_norm_before_weight_decay() -> None:
    """Two parameters share one norm; decay is added to the clipped gradients."""
    held = {name: Parameter(name, ex.tensor([2.0], dtype)) for name, dtype in (("p", "float64"), ("q", "float32"))}
    optimizer = T.SGD(1.0, clip_norm=1.0, weight_decay=0.25)
    optimizer.attach(held)
    optimizer.step({"p": np.array([3.0]), "q": np.array([4.0], np.float32)})
    assert held["p"].array[0] == pytest.approx(2 - 0.6 - 0.5, rel=1e-6)
    assert held["q"].array[0] == pytest.approx(2 - 0.8 - 0.5, rel=1e-6)
    optimizer.step({"p": np.array([0.0]), "q": np.array([0.0], np.float32)})
    assert held["p"].array[0] == pytest.approx(0.75 * 0.9, rel=1e-6)
    assert repr(optimizer) == "SGD(rate=Fixed(base=1.0), weight_decay=0.25, clip_norm=1.0)"
    assert optimizer.settings()["options"] == {"weight_decay": 0.25, "decoupled": False, "clip_norm": 1.0}


@pytest.mark.spec("T-4")
def test_half_precision_gradients_are_clipped_by_their_norm() -> None:
    """The square of 300 exceeds float16: the norm was infinite, and clipped gradients zeros."""
    held = Parameter("p", ex.tensor(np.zeros(2, np.float16)))
    optimizer = T.SGD(1.0, clip_norm=5.0)
    optimizer.attach({"p": held})
    optimizer.step({"p": np.array([300, -400], np.float16)})
    np.testing.assert_allclose(held.array, [-3, 4], rtol=1e-3)


@pytest.mark.spec("T-4")
def test_the_repr_of_an_optimizer_has_all_explicit_options() -> None:
    """Explicit defaults are included, so that the repr constructs an equal one."""
    assert repr(T.AdamW(0.1)).endswith("epsilon=1e-08, weight_decay=0.01, decoupled=True)")
    assert repr(T.AdamW(0.1, weight_decay=0.0)).endswith("epsilon=1e-08, weight_decay=0.0, decoupled=True)")
    assert repr(T.AdamW(0.1, decoupled=False)).endswith("epsilon=1e-08, weight_decay=0.01, decoupled=False)")
    assert repr(T.Adam(0.1)).endswith("epsilon=1e-08)")


@pytest.mark.spec("T-4")
def test_a_step_shows_clipping_as_a_box() -> None:
    module = T.Module(loss=T.MeanSquaredError(), optimizer=T.AdamW(0.1, clip_norm=1.0))
    module.add_node(T.Linear("l", 3, 2))
    module.attach()
    scopes = module.plan(np.ones((4, 3)), np.ones((4, 2))).recording.scopes
    assert "clip" in [scope.name for scope in scopes]


@pytest.mark.spec("T-4")
@pytest.mark.parametrize(
    ("make", "rule"),
    [
        (lambda: T.SGD(-0.1), "a learning rate must be 0 or more"),
        (lambda: T.Adam(T.LinearWarmup(T.Step(-0.1, size=3), steps=2)), "a learning rate must be 0 or more"),
        (lambda: T.Momentum(0.1, momentum=-0.9), "momentum must be 0 or more"),
        (lambda: T.Adagrad(0.1, epsilon=-1e-5), "epsilon must be 0 or more"),
        (lambda: T.RMSProp(0.1, decay=2.0), "decay must be a number from 0 to 1"),
        (lambda: T.Ftrl(0.1, beta=-1.0), "beta must be 0 or more"),
        (lambda: T.SGD(0.1, weight_decay=-0.1), "weight_decay must be 0 or more"),
        (lambda: T.AdamW(0.1, clip_norm=-1.0), r"Optimizer\(clip_norm=-1.0\)\n  rule: clip_norm must be 0 or more"),
        (lambda: T.SGD(0.1, weight_decay=10**400), "weight_decay must be a finite number"),
        (lambda: T.Step(0.1, size=10**400), "size must be an integer"),
        (lambda: T.Exp(0.1, gamma=-0.5), "gamma must be 0 or more"),
        (lambda: T.ConstantWarmup(T.Fixed(0.1), steps=3, factor=-1.0), "factor must be 0 or more"),
        (lambda: T.SGD(lr=0.1), "among rate, weight_decay, decoupled, clip_norm, groups"),
        (lambda: T.Adam(0.1, 0.9), r"Adam\(0.1, 0.9\)"),
    ],
)
def test_options_that_would_train_in_the_wrong_direction_raise_an_error(make: Any, rule: str) -> None:
    with pytest.raises(ex.DeclarationError, match=rule):
        make()


@pytest.mark.spec("T-4")
@pytest.mark.parametrize("step", [-1, 1.5, "two", float("nan")])
def test_the_rate_of_an_invalid_step_raises_an_error(step: Any) -> None:
    with pytest.raises(ex.OperandError, match=r"steps must be counted from 0|must be an integer"):
        T.Step(0.1, size=3).at(step)


@pytest.mark.spec("T-4")
@pytest.mark.parametrize(
    ("policy", "formula"),
    [
        (T.Fixed(0.3), lambda t: 0.3),
        (T.Step(0.1, size=3, gamma=0.5), lambda t: 0.1 * 0.5 ** (t // 3)),
        (T.Exp(0.1, gamma=0.9), lambda t: 0.1 * 0.9**t),
        (T.Inv(0.1, gamma=0.2, power=0.75), lambda t: 0.1 * (1 + 0.2 * t) ** -0.75),
        (T.Poly(0.1, steps=8, power=2.0), lambda t: 0.1 * (1 - min(t, 8) / 8) ** 2),
        (T.Poly(0.1, steps=8, power=0.0), lambda t: 0.1 if t < 8 else 0.0),
        (T.Cosine(0.1, steps=8, end=0.02), lambda t: 0.02 + 0.04 * (1 + math.cos(math.pi * min(t, 8) / 8))),
        (T.LinearWarmup(T.Fixed(0.1), steps=4, start=0.2), lambda t: 0.1 * (0.2 + 0.8 * min(t, 4) / 4)),
        (
            T.ConstantWarmup(T.Step(0.1, size=5), steps=4, factor=0.3),
            lambda t: (0.3 if t < 4 else 1) * 0.1 * 0.1 ** (t // 5),
        ),
    ],
)
def test_learning_rates_follow_their_formulas(policy: Any, formula: Any) -> None:
    for iteration in range(12):
        assert policy.at(iteration) == pytest.approx(formula(iteration), rel=1e-12)
    expected, value = [], START
    for iteration, gradient in enumerate(GRADIENTS):
        value = value - formula(iteration) * gradient
        expected.append(value)
    np.testing.assert_allclose(trained_parameter(T.SGD(policy)), np.stack(expected), rtol=1e-12)


@pytest.mark.spec("T-4")
def test_the_cosine_schedule_equals_torch() -> None:
    policy = T.Cosine(0.5, steps=20, end=0.05)
    np.testing.assert_allclose([policy.at(step) for step in range(21)], REFERENCE["cosine"], rtol=1e-12)
    assert policy.at(1000) == policy.at(20)


@pytest.mark.spec("T-4")
def test_an_assigned_rate_is_used_in_the_next_step() -> None:
    """This holds for an optimizer and for a module with a planned step, which silently kept the old rate before."""
    held = Parameter("p", ex.tensor([1.0]))
    optimizer = T.SGD(0.5)
    optimizer.attach({"p": held})
    module = T.Module(loss=T.MeanSquaredError(), optimizer=T.SGD(0.0), dtype="float64")
    module.add_node(T.Linear("l", 1, 1))
    module.attach()
    x, label = np.ones((2, 1)), np.full((2, 1), 5.0)
    before = module.parameters["l/bias"].array.copy()
    for rate, reached_by in ((0.5, 0.5), (0.1, 0.4), (T.Fixed(0.2), 0.2), (0.5, -0.3)):
        optimizer.rate = rate
        optimizer.step({"p": np.ones(1)})
        assert held.array[0] == pytest.approx(reached_by)
    module.train_on(x, label)
    assert module.parameters["l/bias"].array == before
    module.optimizer.rate = 0.1
    loss = module.train_on(x, label)
    assert module.parameters["l/bias"].array != before
    assert module.train_on(x, label) < loss
    assert repr(module.optimizer) == "SGD(rate=Fixed(base=0.1))"
    for wrong, rule in ((-0.1, "must be 0 or more"), ("fast", "base must be a finite number")):
        with pytest.raises(ex.DeclarationError, match=rule):
            module.optimizer.rate = wrong
    for name in ("rule", "options", "groups"):
        with pytest.raises(AttributeError):
            setattr(module.optimizer, name, None)


@pytest.mark.spec("T-4")
def test_constructor_options_must_be_numbers() -> None:
    for make in (lambda: T.Adam(0.1, beta1="0.9"), lambda: T.SGD([0.1]), lambda: T.SGD(math.nan), lambda: T.Adam(True)):
        with pytest.raises(ex.DeclarationError, match=r"rule: .* must be"):
            make()
    with pytest.raises(ex.DeclarationError, match="among rate, beta1"):
        T.Adam(0.1, beta=0.9)
    with pytest.raises(ex.DeclarationError, match="integer of 1 or more"):
        T.Step(0.1, size=0)
    with pytest.raises(ex.DeclarationError, match="less than 1"):
        T.Adam(0.1, beta2=1.0)
    numbers = T.Step(np.float32(0.5), size=np.int64(3), gamma=np.float64(0.5))
    assert numbers == T.Step(0.5, size=3, gamma=0.5)
    assert [type(value) for value in vars(numbers).values()] == [float, int, float]


@pytest.mark.spec("T-2", "T-4")
def test_a_released_optimizer_starts_again() -> None:
    optimizer = T.Momentum(0.1)
    for _ in range(2):
        with T.Module(loss=T.MeanSquaredError(), optimizer=optimizer) as module:
            module.add_node(T.Linear("l", 2, 1))
            module.attach()
            module.train_on(np.ones((3, 2)), np.ones((3, 1)))
            assert optimizer.iteration == 1
        assert (optimizer.parameters, optimizer.state(), optimizer.iteration) == ({}, {}, 0)


@pytest.mark.spec("T-4")
def test_the_options_of_a_rule_are_plain_numbers() -> None:
    """They are checked at construction, and can be written to a file."""
    from dataclasses import make_dataclass

    rule = make_dataclass("OfCells", [("mu", float, 0.5), ("steps", int, 3)], bases=(T.UpdateRule,), frozen=True)
    assert T.Optimizer(rule(), 0.1).settings()["rule"] == {"type": "OfCells", "mu": 0.5, "steps": 3}
    with pytest.raises(ex.DeclarationError, match="steps must be an integer"):
        rule(steps=0.5)
    with pytest.raises(ex.DeclarationError, match="must be annotated as one of int, float, bool"):
        make_dataclass("OfLists", [("history", list)], bases=(T.UpdateRule,), frozen=True)([])


@pytest.mark.spec("T-4")
def test_signature_and_help_show_the_options_of_a_rule() -> None:
    options = ["weight_decay", "decoupled", "clip_norm", "groups"]
    assert [*inspect.signature(T.Momentum).parameters] == ["rate", "momentum", "nesterov", *options]
    assert "m ← μ·m + lr·g" in (T.Momentum.__doc__ or "")
    assert repr(T.Momentum(0.1)) == "Momentum(rate=Fixed(base=0.1), momentum=0.9, nesterov=False)"


@pytest.mark.spec("T-4")
def test_an_optimizer_refers_to_parameters_without_owning_them() -> None:
    """The next step updates parameters assigned in between; expressions keep older values."""
    held = Parameter("p", ex.tensor([1.0, 2.0]))
    optimizer = T.SGD(0.5)
    optimizer.attach({"p": held})
    before = held.value * 1
    optimizer.step({"p": np.array([1.0, 1.0])})
    assert held.array.tolist() == [0.5, 1.5]
    held.assign([10.0, 20.0])
    optimizer.step({"p": np.array([2.0, 2.0])})
    assert held.array.tolist() == [9.0, 19.0]
    assert ex.evaluate(before).tolist() == [1.0, 2.0]


@pytest.mark.spec("T-4")
def test_steps_without_gradients_or_parameters_raise_an_error() -> None:
    with pytest.raises(ex.StateError, match="attach"):
        T.SGD(0.1).step({})
    optimizer = T.SGD(0.1)
    optimizer.attach({"p": Parameter("p", ex.tensor([1.0]))})
    with pytest.raises(ex.OperandError, match="without gradients of 'p'"):
        optimizer.step({})
    for wrong in ([1.0, 2.0], [1j], ["a"], [[1.0], [2.0, 3.0]], None):
        with pytest.raises(ex.OperandError, match="real numbers of its parameter's shape"):
            optimizer.step({"p": wrong})
    with pytest.raises(ex.OperandError, match="gradients must be a mapping"):
        optimizer.step(None)  # type: ignore[arg-type]
    with pytest.raises(ex.OperandError, match="0 or more"):
        optimizer.load_state(optimizer.state(), -1)
    assert optimizer.iteration == 0
    with pytest.raises(ex.StateError, match="attached twice"):
        optimizer.attach({})


def test_a_parameter_class_that_limits_weights_applies_in_training() -> None:
    class Limited(Parameter):
        def assign(self, array: Any) -> None:
            super().assign(np.clip(array, -1, 1))

    held = Limited("p", ex.tensor([0.9]))
    optimizer = T.SGD(1.0)
    optimizer.attach({"p": held})
    for _ in range(3):
        optimizer.step({"p": np.array([-1.0])})
        assert held.array.tolist() == [1.0]
    optimizer.step({"p": np.array([0.5])})
    assert held.array.tolist() == [0.5]


def test_a_user_defined_rule_keeps_the_type_of_the_parameter() -> None:
    from dataclasses import dataclass

    @dataclass(frozen=True)
    class Widening(T.UpdateRule):
        def record(self, parameter: Any, gradient: Any, length: Any, state: Any) -> Any:
            return parameter.astype("float64") - gradient, {}

    optimizer = T.Optimizer(Widening(), 0.1)
    optimizer.attach({"p": Parameter("p", ex.tensor([1.0], "float32"))})
    with pytest.raises(ex.DeclarationError, match="must have the parameter's type"):
        optimizer.step({"p": np.ones(1, "float32")})


class Constant(T.LearningRate):
    """Rate whose number is not a field."""

    def __init__(self, number: float) -> None:
        object.__setattr__(self, "number", number)

    def record(self, iteration: ex.Expr) -> ex.Expr:
        """Record the rate."""
        return iteration * 0.0 + self.number


@dataclass(frozen=True)
class Uncompared(T.LearningRate):
    """Rate whose number is excluded from comparisons."""

    number: float = field(compare=False)

    def record(self, iteration: ex.Expr) -> ex.Expr:
        """Record the rate."""
        return iteration * 0.0 + self.number


@pytest.mark.spec("T-4")
@pytest.mark.parametrize("policy", [Constant, Uncompared])
def test_rate_policies_are_compared_with_all_their_numbers(policy: Any) -> None:
    """Two different ones were equal, so that a group had the other's rate, and an assigned one was ignored."""
    optimizer = T.SGD(0.1)
    for make in (
        lambda: T.SGD(policy(0.1)),
        lambda: T.SGD(T.LinearWarmup(policy(0.1), steps=3)),
        lambda: T.ParameterGroup("a", rate=policy(0.1)),
        lambda: setattr(optimizer, "rate", policy(0.1)),
    ):
        with refused(ex.DeclarationError, "'number' of the learning-rate policy", "a frozen dataclass"):
            make()
    assert optimizer.rate == T.Fixed(0.1)


def test_the_documentation_of_an_optimizer_contains_its_rule() -> None:
    documentation = inspect.cleandoc(ex.train.SGD.__doc__ or "")
    assert documentation == "Optimizer that uses gradient descent.\n\nGradient descent: p ← p − lr·g."
    assert "\n\nt is 1 at the first step." in inspect.cleandoc(ex.train.Adam.__doc__ or "")
