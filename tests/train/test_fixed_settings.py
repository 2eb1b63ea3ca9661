"""Assigning a setting after steps were planned with the old value raises an error instead of having no effect."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import explorer as ex
from tests.support.refusals import refused

T = ex.train


@pytest.mark.spec("T-4")
@pytest.mark.parametrize(
    "name", ["lr", "learning_rate", "weight_decay", "clip_norm", "decoupled", "beta1", "param_groups"]
)
def test_only_the_rate_of_an_optimizer_can_be_assigned(name: str) -> None:
    """``optimizer.lr = 0.001`` used to create an attribute without effect."""
    optimizer = T.Adam(0.1)
    with refused(ex.StateError, f"{name} of Adam(rate=Fixed(base=0.1)", "set to 0.001", "only its rate"):
        setattr(optimizer, name, 0.001)
    assert name not in vars(optimizer)
    with refused(ex.StateError, "optimizer.rate = 0.001"):
        optimizer.lr = 0.001
    optimizer.rate = 0.001
    assert optimizer.rate == T.Fixed(0.001)


@pytest.mark.spec("T-4")
def test_a_user_defined_optimizer_may_have_attributes() -> None:
    class Noted(T.SGD):
        """Optimizer with a note."""

    optimizer = Noted(0.1)
    optimizer.note = "first"  # type: ignore[attr-defined]  # the note is ours
    assert vars(optimizer)["note"] == "first"


@pytest.mark.spec("T-4")
@pytest.mark.parametrize(("name", "value"), [("rate", 0.5), ("frozen", False), ("weight_decay", -5.0), ("lr", 0.5)])
def test_settings_of_a_group_cannot_be_assigned(name: str, value: Any) -> None:
    group = T.ParameterGroup("hidden", rate=0.1)
    shown = repr(group)
    with refused(ex.StateError, f"{name} of {shown} set to {value}", "must not change", "a policy as its rate"):
        setattr(group, name, value)
    assert repr(group) == shown


@pytest.mark.spec("T-3")
def test_settings_of_a_loss_in_a_module_cannot_be_assigned() -> None:
    loss = T.CrossEntropy(class_weights=[1, 2])
    loss.note = "mine"  # type: ignore[attr-defined]  # before it belongs to a module it is ours
    module = T.Module("m", loss=loss, optimizer=T.SGD(0.1))
    for name, value in (("class_weights", (1.0, 3.0)), ("smoothing", 0.1), ("reduction", "sum")):
        with refused(
            ex.StateError, f"{name} of CrossEntropy(class_weights=[1.0, 2.0]) set to", "to a module, here 'm'"
        ):
            setattr(loss, name, value)
    module.close()
    loss.smoothing = 0.1
    assert loss(np.zeros((1, 2)), np.array([0])) == pytest.approx(np.log(2) * (0.9 + 0.1 * 1.5))


@pytest.mark.spec("T-1")
def test_parts_of_a_module_are_set_once() -> None:
    """Planned steps used to keep the old ones, and another optimizer had no parameters."""
    module = T.Module("m", loss=T.MeanSquaredError(), optimizer=T.SGD(0.1))
    module.add_node(T.Linear("l", 2, 2))
    module.attach()
    x = np.ones((2, 2))
    module.train_on(x, x)
    parts: dict[str, Any] = {"loss": T.CrossEntropy(), "optimizer": T.Adam(0.1), "dtype": "float64", "samples": "last"}
    for name, value in parts.items():
        held = getattr(module, name)
        with refused(ex.StateError, f"{name} of <module 'm'", f"the {name} of a module is set once"):
            setattr(module, name, value)
        assert getattr(module, name) is held
    module.close()
    assert module.loss is None


@pytest.mark.spec("T-5")
def test_statistics_of_a_frozen_batch_norm_are_updated() -> None:
    group = T.ParameterGroup("norm", frozen=True)
    module = T.Module("m", loss=T.MeanSquaredError(), optimizer=T.SGD(0.1, groups=[group]))
    module.add_node(T.BatchNorm("norm", 2))
    module.add_node(T.Linear("l", 2, 2))
    module.attach()
    x = np.arange(6.0).reshape(3, 2)
    module.train_on(x, x)
    values = {name: held.array for name, held in module.parameters.items()}
    assert (values["norm/scale"] == 1).all()
    assert (values["norm/shift"] == 0).all()
    np.testing.assert_allclose(values["norm/mean"], 0.1 * x.mean(0), rtol=1e-6)
    np.testing.assert_allclose(values["norm/variance"], 0.9 + 0.1 * x.var(0, ddof=1), rtol=1e-6)
