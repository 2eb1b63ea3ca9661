"""Recurrent layers in modules: PyTorch's steps and sequences, node by node, on workers, and errors."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import explorer as ex
from tests.support.refusals import refused

T = ex.train
REFERENCE = np.load(Path(__file__).parents[2] / "assets" / "recurrent_training.npz")
X, LABELS = REFERENCE["inputs"], REFERENCE["labels"]
NAMES = {
    "memory.weight_ih_l0": "memory/weight",
    "memory.weight_hh_l0": "memory/state_weight",
    "memory.bias_ih_l0": "memory/bias",
    "memory.bias_hh_l0": "memory/state_bias",
    "head.weight": "head/weight",
    "head.bias": "head/bias",
}
LAYERS = {"lstm": T.LSTM, "gru": T.GRU}


def expected(name: str, step: int) -> dict[str, np.ndarray]:
    """Return torch's weights after a step in explorer's shapes: only matrices are transposed."""
    return {ours: REFERENCE[f"{name}/{theirs}"][step].T for theirs, ours in NAMES.items()}


def built(name: str, last: bool = True) -> Any:
    module = T.Module("m", loss=T.CrossEntropy(), optimizer=T.Momentum(0.5), dtype="float64")
    module.add_node(LAYERS[name]("memory", 3, 4, last))
    if last:
        module.add_node(T.Linear("head", 4, 3))
    module.attach()
    for key, value in expected(name, 0).items():
        if key in module.parameters:
            module.parameters[key].assign(value)
    return module


@pytest.mark.spec("T-4", "T-5")
@pytest.mark.parametrize("name", LAYERS)
@pytest.mark.parametrize("whole", [True, False])
def test_a_classifier_of_sequences_trains_like_torchs(name: str, whole: bool) -> None:
    """Compare losses and weights of each step, with gradients through time, in one plan and node by node."""
    module = built(name)
    for step in range(4):
        if whole:
            loss = module.train_on(X[step], LABELS[step])
        else:
            module.forward(X[step])
            loss = module.backward(LABELS[step])
            module.step()
        assert loss == pytest.approx(REFERENCE[f"{name}/losses"][step], rel=1e-9)
        for key, value in expected(name, step + 1).items():
            np.testing.assert_allclose(module.parameters[key].array, value, rtol=1e-8, atol=1e-11, err_msg=key)


@pytest.mark.spec("T-5")
@pytest.mark.parametrize("name", LAYERS)
def test_a_sequence_of_states_equals_torch(name: str) -> None:
    module = built(name, last=False)
    for key, value in expected(name, 4).items():
        if key in module.parameters:
            module.parameters[key].assign(value)
    np.testing.assert_allclose(module.predict(X[0]), REFERENCE[f"{name}/sequence"], rtol=1e-9)


@pytest.mark.spec("C-14")
@pytest.mark.xdist_group("dask")
def test_workers_train_an_lstm_like_one_process() -> None:
    here, module = built("lstm"), built("lstm")
    with ex.parallelize(module, 2, processes=False):
        for step in range(3):
            assert module.train_on(X[step], LABELS[step]) == pytest.approx(
                here.train_on(X[step], LABELS[step]), rel=1e-9
            )
    for key, held in here.parameters.items():
        np.testing.assert_allclose(module.parameters[key].array, held.array, rtol=1e-8, atol=1e-11)


@pytest.mark.spec("T-5")
def test_layers_may_be_stacked_over_sequences_of_any_length() -> None:
    module = T.Module(loss=T.CrossEntropy(), optimizer=T.Adam(0.01))
    module.add_node(T.GRU("first", 3, 5))
    module.add_node(T.Dropout("drop", 0.1))
    module.add_node(T.LSTM("second", 5, 4, last=True))
    module.add_node(T.Linear("head", 4, 3))
    module.attach()
    for steps in (7, 3):
        assert np.isfinite(module.train_on(X[0][:, :steps], LABELS[0]))
    assert module.predict(X[0][:2, :1]).shape == (2, 3)


def test_an_input_that_is_no_sequence_raises_an_error() -> None:
    module = built("lstm")
    for wrong in (np.ones((4, 3)), np.ones((4, 5, 2)), np.ones((4, 0, 3))):
        with refused(ex.OperandError, "a recurrent layer of 3 features", "(N, steps, features)"):
            module.predict(wrong)
    for make, rule in (
        (lambda: T.LSTM("m", 0, 4), "features must be an integer of 1 or more"),
        (lambda: T.GRU("m", 3, 4, last=1), "last must be True or False"),
        (lambda: T.LSTM("m", 3, 2.0), "hidden must be an integer of 1 or more"),
    ):
        with refused(ex.DeclarationError, rule):
            make()
    last = T.Module(loss=T.CrossEntropy(), optimizer=T.SGD(0.1), samples="last")
    with refused(ex.DeclarationError, "samples must be along the same axis"):
        last.add_node(T.LSTM("m", 3, 4))


@pytest.mark.spec("T-5")
def test_the_error_of_integer_sequences_contains_their_name() -> None:
    module = T.Module(loss=T.MeanSquaredError(), optimizer=T.SGD(0.1))
    module.add_node(T.GRU("memory", 3, 2))
    module.attach()
    with refused(ex.OperandError, "a recurrent layer with an input 2×4×3 int64", "x.astype('float32')"):
        module.predict(np.zeros((2, 4, 3), np.int64))
