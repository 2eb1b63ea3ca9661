"""Options of losses: class weights, reduction, smoothing and ignored samples together, against PyTorch; on workers."""

from __future__ import annotations

from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import explorer as ex
from tests.support.refusals import refused

T = ex.train
REFERENCE = np.load(Path(__file__).parents[2] / "assets" / "losses.npz")
WEIGHTS = REFERENCE["class_weights"]
REDUCTIONS = ("mean", "sum", "none")
CLASSES = list(enumerate(product((0.0, 0.3), (None, -100, 1), (None, WEIGHTS))))
MIXTURES = list(enumerate(product((0.0, 0.3), (None, WEIGHTS))))


def holds(make: Any, output: np.ndarray, label: np.ndarray, name: str, case: int) -> None:
    """Compare losses with each reduction, and gradients, with a case of the reference."""
    # weights of 0 give gradients of 0, which have no relative error
    close = {"rtol": 1e-12, "atol": 1e-15}
    for number, reduction in enumerate(("mean", "sum")):
        loss = make(reduction)
        np.testing.assert_allclose(loss(output, label), REFERENCE[f"{name}_losses"][case][number], **close)
        expected = REFERENCE[f"{name}_gradients"][case][number]
        np.testing.assert_allclose(loss.gradient(output, label), expected, **close)
        single = output.astype(np.float32)
        np.testing.assert_allclose(loss.gradient(single, label), expected, rtol=2e-4, atol=1e-6)
    each = make("none")(output, label)
    assert each.shape == REFERENCE[f"{name}_each"][case].shape
    np.testing.assert_allclose(each, REFERENCE[f"{name}_each"][case], **close)


@pytest.mark.spec("T-3")
@pytest.mark.parametrize(("case", "options"), CLASSES)
def test_cross_entropies_of_class_numbers_equal_torch(case: int, options: Any) -> None:
    """Test class weights, smoothing, ignored samples and every reduction together, with gradients."""
    smoothing, ignored, weights = options
    label = REFERENCE["left_out" if ignored == -100 else "numbers"]
    holds(lambda r: T.CrossEntropy(smoothing, ignored, weights, r), REFERENCE["scores"], label, "classes", case)


@pytest.mark.spec("T-3")
@pytest.mark.parametrize(("case", "options"), MIXTURES)
def test_cross_entropies_of_probabilities_equal_torch(case: int, options: Any) -> None:
    """The mean is divided by the number of samples, even with class weights."""
    smoothing, weights = options

    def make(reduction: Any) -> T.CrossEntropy:
        return T.CrossEntropy(smoothing, class_weights=weights, reduction=reduction)

    holds(make, REFERENCE["scores"], REFERENCE["rows"], "mixtures", case)


@pytest.mark.spec("T-3")
@pytest.mark.parametrize(("case", "weights"), [(0, None), (1, WEIGHTS)])
def test_nll_losses_equal_torch(case: int, weights: Any) -> None:
    holds(
        partial(T.NegativeLogLikelihood, weights), REFERENCE["probabilities"], REFERENCE["numbers"], "likelihoods", case
    )


@pytest.mark.spec("T-3")
@pytest.mark.parametrize(("name", "loss"), [("squares", T.MeanSquaredError), ("binary", T.BinaryCrossEntropy)])
def test_elementwise_losses_equal_torch(name: str, loss: Any) -> None:
    holds(lambda reduction: loss(reduction), REFERENCE["outputs"], REFERENCE["targets"], name, 0)


@pytest.mark.spec("T-3")
@pytest.mark.parametrize(("case", "weight"), [(0, None), (1, 3), (2, WEIGHTS)])
def test_binary_losses_of_scores_equal_torch(case: int, weight: Any) -> None:
    """Test the weight of positive labels, as a scalar and per position; losses of probabilities are equal."""
    make = partial(T.BinaryCrossEntropy, logits=True, positive_weight=weight)
    scores, label = REFERENCE["scores"], REFERENCE["rows"]
    holds(make, scores, label, "logits", case)
    of_probabilities = T.BinaryCrossEntropy(positive_weight=weight)(1 / (1 + np.exp(-scores)), label)
    assert make("mean")(scores, label) == pytest.approx(of_probabilities, rel=1e-12)


@pytest.mark.spec("T-3")
def test_large_scores_have_accurate_losses_and_gradients() -> None:
    """Their sigmoid is 0 or 1, for which a loss of probabilities is inaccurate."""
    loss, scores, label = T.BinaryCrossEntropy("sum", logits=True), np.array([-800.0, 800.0]), np.array([1.0, 0.0])
    assert loss(scores, label) == 1600
    assert loss.gradient(scores, label).tolist() == [-1, 1]
    assert loss(scores.astype("float32"), 1 - label) == 0


@pytest.mark.spec("T-3")
def test_weights_of_positive_labels_must_be_numbers() -> None:
    for wrong in (-1, np.nan, "3", [], [1, -1], True):
        with refused(ex.OperandError, "positive_weight must be a finite number of 0 or more"):
            T.BinaryCrossEntropy(positive_weight=wrong)
    with refused(ex.OperandError, "a number for each position"):
        T.BinaryCrossEntropy(positive_weight=[1, 2])(np.full((2, 3), 0.5), np.ones((2, 3)))
    with refused(ex.OperandError, "logits must be True or False"):
        T.BinaryCrossEntropy(logits=1)  # type: ignore[arg-type]
    assert repr(T.BinaryCrossEntropy(logits=True, positive_weight=np.float32(3))) == (
        "BinaryCrossEntropy(logits=True, positive_weight=3.0)"
    )
    assert T.BinaryCrossEntropy(positive_weight=[1, 2]).settings() == {"positive_weight": [1.0, 2.0]}


def built(loss: Any, dtype: str = "float64", samples: str = "first") -> Any:
    module = T.Module("digits", loss=loss, optimizer=T.Adam(0.01), dtype=dtype, samples=samples)
    module.add_node(T.Linear("hidden", 12, 16, samples))
    module.add_node(ex.tanh)
    module.add_node(T.Linear("scores", 16, 4, samples))
    if isinstance(loss, T.NegativeLogLikelihood):
        module.add_node(ex.softmax)
    module.attach()
    return module


GENERATOR = np.random.default_rng(0)
IMAGES = GENERATOR.normal(size=(26, 12))
NUMBERS = GENERATOR.integers(0, 4, 26)
LEFT_OUT = np.where(np.arange(26) < 14, -100, NUMBERS)
"""the first of two shards has only ignored samples"""
ROWS = GENERATOR.dirichlet(np.ones(4), 26) * GENERATOR.random((26, 1))


@pytest.mark.spec("C-14")
@pytest.mark.xdist_group("dask")
@pytest.mark.parametrize(
    ("make", "label"),
    [
        (lambda: T.CrossEntropy(ignored=-100), LEFT_OUT),
        (lambda: T.CrossEntropy(0.2, -100, WEIGHTS), LEFT_OUT),
        (lambda: T.CrossEntropy(class_weights=WEIGHTS), NUMBERS),
        (lambda: T.CrossEntropy(class_weights=[0, 1, 0, 0]), np.where(np.arange(26) < 14, 0, 1)),
        (lambda: T.CrossEntropy(class_weights=WEIGHTS), ROWS),
        (lambda: T.CrossEntropy(0.2, -100, WEIGHTS, "sum"), LEFT_OUT),
        (lambda: T.NegativeLogLikelihood(WEIGHTS), NUMBERS),
        (lambda: T.NegativeLogLikelihood(), ROWS),
    ],
)
def test_weighted_means_on_workers_equal_those_of_the_batch(make: Any, label: np.ndarray) -> None:
    """Two workers reach the weights of one, bit for bit, and those of local training within rounding, even if a shard
    has only ignored samples."""
    here = built(make())
    losses = [here.train_on(IMAGES, label) for _ in range(8)]
    bits = []
    for count in (1, 2):
        module = built(make())
        with ex.parallelize(module, count, processes=False, shards=2):
            assert [module.train_on(IMAGES, label) for _ in range(8)] == pytest.approx(losses, rel=1e-10)
        bits.append({name: held.array.tobytes() for name, held in module.parameters.items()})
        for name, held in here.parameters.items():
            np.testing.assert_allclose(module.parameters[name].array, held.array, rtol=1e-8, atol=1e-11)
    assert bits[0] == bits[1]


@pytest.mark.spec("C-14")
@pytest.mark.xdist_group("dask")
def test_weighted_means_with_a_last_batch_axis_on_workers_equal_those_of_the_batch() -> None:
    first = built(T.CrossEntropy(0.1, class_weights=WEIGHTS))
    last = built(T.CrossEntropy(0.1, class_weights=WEIGHTS), samples="last")
    with ex.parallelize(last, 2, processes=False):
        for _ in range(4):
            assert last.train_on(IMAGES.T, NUMBERS) == pytest.approx(first.train_on(IMAGES, NUMBERS), rel=1e-10)


@pytest.mark.spec("T-1", "T-3")
def test_node_by_node_training_with_a_weighted_loss_equals_one_plan() -> None:
    whole, apart = (built(T.CrossEntropy(0.1, -100, WEIGHTS, "sum")) for _ in range(2))
    for _ in range(3):
        loss = whole.train_on(IMAGES, LEFT_OUT)
        apart.forward(IMAGES)
        assert apart.backward(LEFT_OUT) == pytest.approx(loss, rel=1e-12)
        apart.step()
    for name, held in whole.parameters.items():
        np.testing.assert_allclose(apart.parameters[name].array, held.array, rtol=1e-9)


@pytest.mark.spec("T-3")
def test_a_module_needs_a_scalar_loss() -> None:
    with refused(ex.DeclarationError, "reduction='none'", "must be one number"):
        T.Module(loss=T.CrossEntropy(reduction="none"), optimizer=T.SGD(0.1))
    with refused(ex.OperandError, "only a single number has a gradient"):
        T.CrossEntropy(reduction="none").gradient(np.zeros((2, 3)), np.array([0, 1]))


@pytest.mark.spec("T-3")
@pytest.mark.parametrize("wrong", [[], [1.0, -1.0], [0.0, 0.0], ["a"], [np.nan], {0: 1.0}, "12", 3, [True, False]])
def test_class_weights_must_be_numbers(wrong: Any) -> None:
    for loss in (T.CrossEntropy, T.NegativeLogLikelihood):
        with refused(ex.OperandError, f"{loss.__name__}(class_weights=", "one for each class"):
            loss(class_weights=wrong)


@pytest.mark.spec("T-3")
def test_there_must_be_as_many_class_weights_as_classes() -> None:
    with refused(ex.OperandError, "2 class_weights", "the output has 3 classes"):
        T.CrossEntropy(class_weights=[1, 2])(np.zeros((2, 3)), np.array([0, 1]))
    with refused(ex.UnknownNameError, "class_weights"):
        T.CrossEntropy(class_weight=[1, 2])
    with refused(ex.UnknownNameError, "mean"):
        T.MeanSquaredError("average")


@pytest.mark.spec("T-3")
def test_options_are_shown_as_they_are_written() -> None:
    assert repr(T.CrossEntropy(0.1, 0, [1, 2], "sum")) == (
        "CrossEntropy(smoothing=0.1, ignored=0, class_weights=[1.0, 2.0], reduction='sum')"
    )
    assert repr(T.NegativeLogLikelihood(np.ones(100))).count("1.0") == 6
    assert repr(T.BinaryCrossEntropy("none")) == "BinaryCrossEntropy(reduction='none')"
    assert T.CrossEntropy(class_weights=(1, np.float32(2))).settings() == {"class_weights": [1.0, 2.0]}


@pytest.mark.spec("T-3")
@pytest.mark.parametrize("loss", [T.CrossEntropy(), T.NegativeLogLikelihood(), T.CrossEntropy(class_weights=[1, 2, 3])])
def test_a_class_number_out_of_range_raises_an_error_before_computing(loss: Any) -> None:
    """The error contains the number, and suggests ignoring such samples."""
    output = np.full((3, 3), 1 / 3)
    for label, number in ((np.array([0, -100, 1]), -100), (np.array([0, 3, 1], np.uint8), 3)):
        with refused(ex.OperandError, f"a label {number}", "must be in 0 … 2") as caught:
            loss(output, label)
        assert (f"ignored={number}" in str(caught.value)) == isinstance(loss, T.CrossEntropy)
        with refused(ex.OperandError, f"a label {number}"):
            loss.gradient(output, label)


@pytest.mark.spec("T-3")
def test_a_module_rejects_such_labels_and_keeps_its_weights() -> None:
    module = built(T.CrossEntropy())
    before = {name: held.array.tobytes() for name, held in module.parameters.items()}
    with refused(ex.OperandError, "a label -100", "CrossEntropy(ignored=-100)"):
        module.train_on(IMAGES, LEFT_OUT)
    module.forward(IMAGES)
    for call in (module.backward, lambda label: module.plan(IMAGES, label)):
        with refused(ex.OperandError, "a label -100", "CrossEntropy(ignored=-100)"):
            call(LEFT_OUT)
    assert {name: held.array.tobytes() for name, held in module.parameters.items()} == before
    last = built(T.CrossEntropy(), samples="last")
    with refused(ex.OperandError, "a label 4", "0 … 3"):
        last.train_on(IMAGES.T, np.full(26, 4))


@pytest.mark.spec("T-3")
def test_a_mean_of_only_ignored_samples_raises_an_error() -> None:
    """It would make all weights NaN; the sum is 0."""
    label = np.full(26, -100)
    module = built(T.CrossEntropy(ignored=-100))
    with refused(ex.OperandError, "labels (26,), which are all ignored"):
        module.train_on(IMAGES, label)
    summed = built(T.CrossEntropy(ignored=-100, reduction="sum"))
    before = {name: held.array for name, held in summed.parameters.items()}
    assert summed.train_on(IMAGES, label) == 0
    assert all((held.array == before[name]).all() for name, held in summed.parameters.items())


@pytest.mark.spec("T-3")
@pytest.mark.parametrize("wrong", [1.5, -0.1, np.nan])
def test_a_binary_label_must_be_a_probability(wrong: float) -> None:
    label = np.array([0.5, 1.0, wrong])
    with refused(ex.OperandError, "the label", "from 0 to 1"):
        T.BinaryCrossEntropy()(np.full(3, 0.5), label)
    module = T.Module(loss=T.BinaryCrossEntropy(), optimizer=T.SGD(0.1))
    module.add_node(T.Linear("l", 2, 3))
    module.add_node(ex.sigmoid)
    module.attach()
    with refused(ex.OperandError, "the label", "from 0 to 1"):
        module.train_on(np.ones((1, 2)), label[None])
    assert module.optimizer.iteration == 0
    for right in (np.array([0, 1, 1]), np.array([True, False, True]), np.array([0.0, 0.5, 1.0])):
        module.train_on(np.ones((1, 2)), right[None])


@pytest.mark.spec("T-3")
def test_scores_are_rejected_as_probabilities() -> None:
    """A binary loss of probabilities raises an error for scores, and updates nothing."""
    loss = T.BinaryCrossEntropy()
    for output in (np.array([0.5, 1.5]), np.array([-0.5, 0.5])):
        for call in (loss, loss.gradient):
            with refused(ex.OperandError, "of the output", "logits=True"):
                call(output, np.ones(2))
    module = T.Module(loss=T.BinaryCrossEntropy(), optimizer=T.SGD(0.1))
    module.add_node(T.Linear("l", 2, 3))
    module.attach()
    module.parameters["l/bias"].assign([9.0, 9.0, 9.0])
    x, label = np.ones((4, 2)), np.ones((4, 3))
    with refused(ex.OperandError, "of the output", "logits=True"):
        module.train_on(x, label)
    module.forward(x)
    with refused(ex.OperandError, "of the output", "logits=True"):
        module.backward(label)
    assert module.optimizer.iteration == 0
    assert module.parameters["l/bias"].array.tolist() == [9, 9, 9]


@pytest.mark.spec("T-3")
@pytest.mark.parametrize("loss", [T.CrossEntropy(class_weights=[0, 1, 1]), T.NegativeLogLikelihood([0.0, 1.0, 1.0])])
def test_a_mean_of_samples_with_zero_weights_raises_an_error(loss: Any) -> None:
    """It was 0 / 0, and made all weights NaN."""
    output = np.full((2, 3), 1 / 3)
    for call in (loss, loss.gradient):
        with refused(ex.OperandError, "labels (2,), whose class_weights are all 0", "one sample that counts"):
            call(output, np.array([0, 0]))
    assert np.isfinite(loss(output, np.array([0, 1])))


@pytest.mark.spec("T-3")
@pytest.mark.parametrize("samples", ["first", "last"])
def test_a_module_rejects_a_batch_of_only_ignored_samples(samples: str) -> None:
    module = T.Module(loss=T.NegativeLogLikelihood([1, 0, 0]), optimizer=T.SGD(0.1), samples=samples)
    module.add_node(T.Linear("l", 2, 3, samples=samples))
    module.add_node(lambda x: ex.softmax(x, -1 if samples == "first" else 0), name="softmax")
    module.attach()
    before = module.parameters["l/weight"].array.tobytes()
    x, label = np.ones((4, 2)), np.eye(3)[[1, 2, 1, 2]]
    turned = (lambda array: array) if samples == "first" else np.transpose
    with refused(ex.OperandError, "labels (4, 3), whose sum is 0"):
        module.train_on(turned(x), turned(label))
    with refused(ex.OperandError, "labels (4,), whose class_weights are all 0"):
        module.train_on(turned(x), np.array([1, 2, 1, 2]))
    assert module.parameters["l/weight"].array.tobytes() == before
    assert np.isfinite(module.train_on(turned(x), turned(np.eye(3)[[1, 0, 1, 2]])))


@pytest.mark.spec("T-3")
def test_classes_are_counted_along_the_axis_before_a_last_batch_axis() -> None:
    """Test an output (positions, classes, N)."""
    module = T.Module(loss=T.CrossEntropy(), optimizer=T.SGD(0.1), samples="last")
    module.add_node(T.Linear("l", 2, 8, samples="last"))
    module.add_node(lambda x: ex.reshape(x, (2, 4, x.shape[1])), name="positions")
    module.attach()
    assert np.isfinite(module.train_on(np.ones((2, 3)), np.full((2, 3), 3)))
    with refused(ex.OperandError, "a label 4", "0 … 3"):
        module.train_on(np.ones((2, 3)), np.full((2, 3), 4))


@pytest.mark.spec("T-3")
@pytest.mark.parametrize("outside", [1.5, -0.5])
def test_nll_losses_need_probabilities(outside: float) -> None:
    """Scores had a negative loss, and log-probabilities gave NaN."""
    loss, label = T.NegativeLogLikelihood(), np.array([0, 1])
    for call in (loss, loss.gradient):
        with refused(ex.OperandError, f"of the output {outside}", "from 0 to 1", "CrossEntropy() for scores"):
            call(np.full((2, 2), outside), label)
    module = T.Module(loss=T.NegativeLogLikelihood(), optimizer=T.SGD(0.1))
    module.add_node(T.Linear("l", 2, 2))
    module.attach()
    module.parameters["l/bias"].assign([9.0, -9.0])
    with refused(ex.OperandError, "of the output", "ex.softmax as the last node"):
        module.train_on(np.ones((2, 2)), label)
    assert module.optimizer.iteration == 0
    assert loss(np.array([[1.0 + 1e-6, 0.5]]), np.array([0])) == pytest.approx(0, abs=1e-5)


@pytest.mark.spec("T-3")
@pytest.mark.parametrize("wrong", [np.array(3.0), [10**400, 1], [np.inf, 1.0]])
def test_invalid_weights_raise_an_error(wrong: Any) -> None:
    with refused(ex.OperandError, "CrossEntropy(class_weights="):
        T.CrossEntropy(class_weights=wrong)
    with refused(ex.OperandError, "BinaryCrossEntropy(positive_weight="):
        T.BinaryCrossEntropy(logits=True, positive_weight=wrong)


@pytest.mark.spec("T-3")
def test_weights_must_be_in_the_range_of_the_dtype_of_the_output() -> None:
    """Beyond the largest float32 they became infinite, and the loss NaN."""
    output, label = np.zeros((2, 2), np.float32), np.array([0, 1])
    with refused(ex.OperandError, "class_weights 1e+39", "float32 must be able"):
        T.CrossEntropy(class_weights=[1e39, 1])(output, label)
    with refused(ex.OperandError, "positive_weight 1e+39", "float32 must be able"):
        T.BinaryCrossEntropy(logits=True, positive_weight=[1e39, 1])(output, np.eye(2))
    assert np.isfinite(T.CrossEntropy(class_weights=[1e39, 1])(output.astype(float), label))
