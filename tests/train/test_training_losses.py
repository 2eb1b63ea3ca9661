"""Losses: values and gradients against formulas and finite differences, and errors."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import explorer as ex

T = ex.train
LOSSES = [T.MeanSquaredError(), T.CrossEntropy(), T.NegativeLogLikelihood(), T.BinaryCrossEntropy()]


def case(loss: Any, shape: tuple[int, ...] = (4, 3)) -> tuple[np.ndarray, np.ndarray]:
    """Return an output and a label for a loss; the output contains probabilities if the loss needs them."""
    generator = np.random.default_rng(1)
    output, label = generator.random(shape) * 0.8 + 0.1, generator.random(shape)
    if not isinstance(loss, T.BinaryCrossEntropy):
        label /= label.sum(-1, keepdims=True)
    return output, label


@pytest.mark.spec("T-3")
@pytest.mark.parametrize("loss", LOSSES, ids=repr)
@pytest.mark.parametrize("shape", [(4, 3), (3,), (2, 3, 5)])
def test_gradients_equal_finite_differences(loss: Any, shape: tuple[int, ...]) -> None:
    output, label = case(loss, shape)
    gradient = loss.gradient(output, label)
    assert gradient.shape == output.shape
    for index in np.ndindex(shape):
        step = np.zeros(shape)
        step[index] = 1e-6
        difference = (loss(output + step, label) - loss(output - step, label)) / 2e-6
        assert gradient[index] == pytest.approx(difference, rel=1e-5, abs=1e-8)


@pytest.mark.spec("T-3", headline=True)
def test_losses_equal_their_formulas() -> None:
    """Compute mean squared error, cross-entropy, NLL and binary cross-entropy with the values of their formulas."""
    output, label = case(LOSSES[0])
    assert LOSSES[0](output, label) == pytest.approx(((output - label) ** 2).mean())
    softmax = np.exp(output) / np.exp(output).sum(-1, keepdims=True)
    assert LOSSES[1](output, label) == pytest.approx(-(label * np.log(softmax)).sum(-1).mean())
    assert LOSSES[2](output, label) == pytest.approx(-(label * np.log(output)).sum() / label.sum())
    binary = label * np.log(output) + (1 - label) * np.log(1 - output)
    assert LOSSES[3](output, label) == pytest.approx(-binary.mean())


def of_classes(scores: np.ndarray, classes: np.ndarray, smoothing: float, counted: np.ndarray) -> float:
    """Return the textbook cross-entropy of the samples that are not ignored."""
    losses = []
    for row, number in zip(scores[counted], classes[counted], strict=True):
        logarithms = row - np.log(np.exp(row - row.max()).sum()) - row.max()
        losses.append(-(1 - smoothing) * logarithms[number] - (smoothing and smoothing * logarithms.mean()))
    return float(np.mean(losses))


@pytest.mark.spec("T-3")
@pytest.mark.parametrize("smoothing", [0.0, 0.3])
@pytest.mark.parametrize("ignored", [None, -100, 1])
def test_labels_can_be_smoothed_and_ignored(smoothing: float, ignored: int | None) -> None:
    """Smoothing gives each class a fraction of a label, and samples with the ignored number do not count."""
    generator = np.random.default_rng(4)
    scores, classes = generator.normal(size=(6, 4)), np.array([0, 1, 3, 2, 1, 3])
    loss = T.CrossEntropy(smoothing, ignored)
    if ignored == -100:
        classes[[1, 4]] = -100
    counted = np.array([number != ignored for number in classes])
    assert loss(scores, classes) == pytest.approx(of_classes(scores, classes, smoothing, counted), rel=1e-12)
    gradient = loss.gradient(scores, classes)
    assert not gradient[~counted].any()
    for index in np.ndindex(scores.shape):
        step = np.zeros(scores.shape)
        step[index] = 1e-6
        difference = (loss(scores + step, classes) - loss(scores - step, classes)) / 2e-6
        assert gradient[index] == pytest.approx(difference, rel=1e-5, abs=1e-8)
    if ignored is None:
        rows = np.eye(4)[classes]
        assert loss(scores, rows) == pytest.approx(loss(scores, classes), rel=1e-12)


@pytest.mark.spec("T-3")
def test_a_score_of_minus_infinity_excludes_a_class() -> None:
    """The loss and its gradient equal those without the class."""
    scores, classes = np.array([[0.5, -np.inf, 2.0], [1.0, 0.0, -np.inf]]), np.array([2, 1])
    loss = T.CrossEntropy()
    rows = np.array([[0.5, 2.0], [1.0, 0.0]])
    assert loss(scores, classes) == pytest.approx(loss(rows, np.array([1, 1])), rel=1e-12)
    gradient = loss.gradient(scores, classes)
    np.testing.assert_allclose(gradient[np.isfinite(scores)], loss.gradient(rows, np.array([1, 1])).ravel())
    assert not gradient[~np.isfinite(scores)].any()


@pytest.mark.spec("T-3")
def test_options_of_a_loss_are_checked_and_displayed() -> None:
    for wrong in (1.5, -0.1, True, "much", np.float32(2), np.nan):
        with pytest.raises(ex.OperandError, match="smoothing must be a fraction"):
            T.CrossEntropy(wrong)  # type: ignore[arg-type]
    for wrong in (1.5, True, np.True_, "none"):
        with pytest.raises(ex.OperandError, match="ignored must be an integer"):
            T.CrossEntropy(ignored=wrong)  # type: ignore[arg-type]
    with pytest.raises(ex.UnknownNameError, match="smoothing"):
        T.CrossEntropy(label_smoothing=0.1)  # type: ignore[call-arg]
    assert repr(T.CrossEntropy(0.1, 0)) == "CrossEntropy(smoothing=0.1, ignored=0)"
    assert repr(T.CrossEntropy(np.float32(0.5), np.int8(-1))) == "CrossEntropy(smoothing=0.5, ignored=-1)"
    assert repr(T.CrossEntropy()) == "CrossEntropy()"


@pytest.mark.spec("T-3")
@pytest.mark.parametrize("dtype", [np.float64, np.int64])
def test_labels_as_probabilities_cannot_be_ignored_by_class_number(dtype: Any) -> None:
    """They have no number to compare, so that every sample would count."""
    with pytest.raises(ex.OperandError, match="only labels that are class indices, one per sample, can be ignored"):
        T.CrossEntropy(ignored=0)(np.zeros((2, 3)), np.eye(2, 3, dtype=dtype))


@pytest.mark.spec("T-3")
def test_a_mean_of_many_half_precision_losses_does_not_overflow() -> None:
    """Both their number and their sum exceed float16."""
    loss = T.CrossEntropy(ignored=-100)
    classes = np.zeros(140_000, np.int64)
    classes[::2] = -100
    assert loss(np.zeros((140_000, 2), np.float16), classes) == pytest.approx(np.log(2), rel=2e-3)


@pytest.mark.spec("T-3")
def test_class_numbers_are_rows_of_one() -> None:
    output, classes = case(LOSSES[1])[0], np.array([2, 0, 1, 1])
    for loss in LOSSES[1:3]:
        assert loss(output, classes) == pytest.approx(loss(output, np.eye(3)[classes]), rel=1e-12)
    several = np.random.default_rng(2).random((2, 4, 3))
    numbers = np.random.default_rng(3).integers(3, size=(2, 4))
    assert LOSSES[1](several, numbers) == pytest.approx(LOSSES[1](several, np.eye(3)[numbers]), rel=1e-12)
    with pytest.raises(ex.OperandError, match="a label 3, of an output with 3 classes"):
        LOSSES[1](output, np.array([3, 0, 1, 1]))


@pytest.mark.spec("T-3")
def test_confident_wrong_probabilities_have_a_finite_loss() -> None:
    for dtype in ("float32", "float64"):
        output, label = np.array([0.0, 1.0], dtype), np.array([1.0, 0.0], dtype)
        assert np.isfinite(T.BinaryCrossEntropy()(output, label))
        assert np.isfinite(T.BinaryCrossEntropy().gradient(output, label)).all()
        assert T.BinaryCrossEntropy()(label, label) == 0


@pytest.mark.spec("T-3")
def test_output_and_label_must_have_equal_shapes_and_a_loss_has_a_type() -> None:
    with pytest.raises(ex.OperandError, match="the same shape"):
        T.MeanSquaredError()(np.ones((2, 3)), np.ones((3, 2)))
    with pytest.raises(ex.OperandError, match="class indices"):
        T.CrossEntropy()(np.ones((2, 3)), np.array([1, 2, 0]))
    assert [loss.type for loss in LOSSES] == [
        "MeanSquaredError",
        "CrossEntropy",
        "NegativeLogLikelihood",
        "BinaryCrossEntropy",
    ]


def test_a_complex_label_raises_an_error() -> None:
    with pytest.raises(ex.OperandError, match="label real"):
        ex.train.MeanSquaredError()(np.ones(2), np.ones(2) * 1j)


def test_a_user_defined_loss_must_be_a_scalar() -> None:
    class Wide(T.Loss):
        def record(self, output: Any, label: Any) -> Any:
            return output - label

    with pytest.raises(ex.DeclarationError, match="scalar"):
        Wide()(np.ones(2), np.ones(2))
    with pytest.raises(ex.DeclarationError, match="without record"):
        T.Loss()(np.ones(2), np.ones(2))
