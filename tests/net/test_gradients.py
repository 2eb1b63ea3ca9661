"""Named gradients: Caffe2's names, values equal to ex.grad's, and overwritten versions."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import explorer as ex
from explorer.net import Net
from explorer.net.operators.caffe2 import TABLE

DRAW = np.random.default_rng(3)


def mlp() -> Net:
    """Return a net of two layers with an in-place activation and a loss."""
    net = ex.Net("mlp")
    net.input("x", (None, 4), "float64")
    net.input("label", (None,), "int64")
    for name, shape in (("w1", (8, 4)), ("b1", (8,)), ("w2", (3, 8)), ("b2", (3,))):
        net.input(name, shape, "float64")
    net.FC(["x", "w1", "b1"], "h")
    net.Relu("h", "h")
    net.FC(["h", "w2", "b2"], "s")
    net.SoftmaxWithLoss(["s", "label"], ["p", "loss"])
    return net


def values() -> dict[str, np.ndarray]:
    shapes = {"x": (5, 4), "w1": (8, 4), "b1": (8,), "w2": (3, 8), "b2": (3,)}
    drawn = {name: np.random.default_rng(7).normal(size=shape) for name, shape in shapes.items()}
    return {"x": drawn.pop("x"), "label": np.array([0, 2, 1, 1, 0]), **drawn}


@pytest.mark.spec("C-9", "C-6", headline=True)
def test_gradients_have_caffe2s_names_and_ex_grads_values() -> None:
    """Add gradient operators that have the names of Caffe2 and compute the values of ex.grad."""
    net = mlp()
    gradients = net.add_gradient_operators(["loss"])
    assert gradients == {
        "loss": "loss_autogen_grad",
        **{name: f"{name}_grad" for name in ("s", "h", "w2", "b2", "x", "w1", "b1")},
    }
    added = net.definition.operators[4:]
    assert {(operator.file.split("/")[-1], operator.text) for operator in added} == {
        ("test_gradients.py", 'gradients = net.add_gradient_operators(["loss"])')
    }
    assert len({operator.line for operator in added} - {None, 0}) == 1
    assert [operator.type for operator in added] == [
        "ConstantFill",
        "SoftmaxWithLossGradient",
        "FCGradient",
        "ReluGradient",
        "FCGradient",
    ]
    assert added[3].inputs == ("h", "h_grad")
    assert added[3].outputs == ("h_grad",)
    fed = values()
    names = ("x", "w1", "b1", "w2", "b2")
    net.output(*[gradients[name] for name in names])
    results = net.run(fed)
    x, w1, b1, w2, b2 = (ex.tensor(fed[name]) for name in names)
    scores = ex.relu(x @ w1.T + b1) @ w2.T + b2
    loss = -(ex.log_softmax(scores, -1) * ex.one_hot(fed["label"], 3, "float64")).sum(1).mean()
    for name, wanted in zip(names, ex.evaluate(ex.grad(loss, [x, w1, b1, w2, b2])), strict=True):
        np.testing.assert_allclose(results[f"{name}_grad"], wanted, rtol=1e-12, atol=1e-15)


@pytest.mark.spec("C-9")
def test_gradients_of_several_readers_of_a_blob_are_summed() -> None:
    """``x_grad`` is the sum of itself and of ``_x_grad_autosplit_0``, …."""
    net = ex.Net("thrice")
    net.input("x", (3,), "float64")
    net.Mul(["x", "x"], "a")
    net.Tanh("x", "b")
    net.Add(["a", "b"], "y")
    assert net.add_gradient_operators(["y"])["x"] == "x_grad"
    last = net.definition.operators[-1]
    assert (last.type, last.inputs, last.outputs) == (
        "Sum",
        ("x_grad", "_x_grad_autosplit_0", "_x_grad_autosplit_1"),
        ("x_grad",),
    )
    net.set_outputs(["x_grad"])
    x = np.array([0.5, -1.0, 2.0])
    np.testing.assert_allclose(net.run(x), 2 * x + 1 - np.tanh(x) ** 2, rtol=1e-12)


@pytest.mark.spec("C-9")
def test_gradients_start_from_given_blobs() -> None:
    net = ex.Net("given")
    net.input("x", (3,), "float64")
    net.input("dy", (3,), "float64")
    net.Sigmoid("x", "y")
    assert net.add_gradient_operators({"y": "dy"}) == {"y": "dy", "x": "x_grad"}
    net.set_outputs(["x_grad"])
    x, dy = DRAW.normal(size=(2, 3))
    s = 1 / (1 + np.exp(-x))
    np.testing.assert_allclose(net.run(x, dy), dy * s * (1 - s), rtol=1e-12)


@pytest.mark.spec("C-9")
def test_a_gradient_that_needs_an_overwritten_version_raises_an_error_with_its_history() -> None:
    net = ex.Net("lost")
    net.input("x", (2, 3), "float64")
    net.Mul(["x", "x"], "h")
    net.Mul(["h", "x"], "y")
    net.Relu("x", "x")
    before = net.definition
    with pytest.raises(ex.StateError, match="needs x@0, which is overwritten") as refused:
        net.add_gradient_operators(["y"])
    assert "x@1: written by 'relu'" in str(refused.value)
    assert net.definition == before


@pytest.mark.spec("C-8", headline=True)
def test_an_operator_type_gives_one_of_three_answers() -> None:
    """Answer a gradient request in three ways: there is none, it must not be computed, or it is not implemented."""
    net = ex.Net("stopped")
    net.input("x", (3,), "float64")
    net.StopGradient("x", "s")
    net.Mul(["x", "s"], "y")
    net.add_gradient_operators(["y"])
    net.set_outputs(["x_grad"])
    x = DRAW.normal(size=3)
    np.testing.assert_allclose(net.run(x), x)
    for type, inputs, said in (
        ("Iter", ["x"], "must not be differentiated"),
        ("WeightedSum", ["x", "one"], "has no gradient yet"),
    ):
        net = ex.Net("refused")
        net.input("x", (1,))
        net.input("one", (1,))
        blob = net.add(type, inputs)
        with pytest.raises(ex.StateError, match=said):
            net.add_gradient_operators([blob])


@pytest.mark.spec("C-9")
def test_errors_contain_wrong_blobs() -> None:
    net = mlp()
    with pytest.raises(ex.UnknownNameError, match="los"):
        net.add_gradient_operators(["los"])
    for nothing in ([], None):
        with pytest.raises(ex.OperandError, match="at least one blob"):
            net.add_gradient_operators(nothing)  # type: ignore[arg-type]
    net.input("x_grad", (2,))
    with pytest.raises(ex.OperandError, match="must be unused"):
        net.add_gradient_operators(["loss"])


IN_PLACE = sorted(name for name in TABLE.types() if (schema := TABLE.schema(name)) and schema.by_output is True)


@pytest.mark.spec("C-9")
@pytest.mark.parametrize("type", IN_PLACE)
def test_the_gradient_of_an_in_place_operator_uses_its_output(type: str) -> None:
    def gradient(in_place: bool) -> Any:
        net = ex.Net("one")
        net.input("x", (2, 3), "float64")
        net.input("b", (2, 3), "float64")
        net.Tanh("x", "h")
        schema = TABLE.schema(type)
        assert schema is not None
        operands = ["h"] if 1 in schema.inputs else ["h", "b"]
        blob = net.add(type, operands, "h" if in_place else "y")
        net.Mul([blob, blob], "z")
        net.add_gradient_operators(["z"])
        net.set_outputs(["x_grad"])
        return net.run(*np.random.default_rng(1).normal(size=(2, 2, 3)))

    np.testing.assert_allclose(gradient(True), gradient(False), rtol=1e-12)


DIFFERENTIABLE = {
    "Add": ((2, 3), (3,)),
    "AveragePool": ((1, 2, 4, 4),),
    "AveragedLoss": ((2, 3),),
    "BatchMatMul": ((2, 3, 4), (2, 4, 2)),
    "Cast": ((2, 3),),
    "Concat": ((2, 3), (2, 2)),
    "Conv": ((1, 2, 4, 4), (3, 2, 3, 3), (3,)),
    "Copy": ((2, 3),),
    "Div": ((2, 3), (2, 3)),
    "Dropout": ((2, 3),),
    "FC": ((2, 3), (4, 3), (4,)),
    "Flatten": ((2, 3, 2),),
    "MatMul": ((2, 3), (3, 4)),
    "MaxPool": ((1, 2, 4, 4),),
    "Mul": ((2, 3), (2, 3)),
    "Relu": ((2, 3),),
    "Reshape": ((2, 3),),
    "Sigmoid": ((2, 3),),
    "Slice": ((2, 3),),
    "Softmax": ((2, 3),),
    "Split": ((2, 4),),
    "SquaredL2Distance": ((2, 3), (2, 3)),
    "Sub": ((2, 3), (2, 3)),
    "Sum": ((2, 3), (2, 3)),
    "Tanh": ((2, 3),),
    "Transpose": ((2, 3),),
}
ARGUMENTS: dict[str, dict[str, Any]] = {
    "AveragePool": {"kernel": 2},
    "MaxPool": {"kernel": 2},
    "Cast": {"to": "float64"},
    "Reshape": {"shape": (3, 2)},
    "Slice": {"starts": (0, 1), "ends": (2, 3)},
}
ELSEWHERE = {
    *("LabelCrossEntropy", "SoftmaxWithLoss", "Gather", "SpatialBN"),
    *("Allreduce", "Broadcast", "Allgather", "NCCLAllreduce", "NCCLBroadcast", "CopyToDevice"),
}
"""types with labels, indices or statistics among their operands, tested above and in operators/test_training.py, and
types for several devices, tested in operators/test_collectives.py"""


@pytest.mark.spec("C-8", "C-18")
@pytest.mark.parametrize("type", sorted(DIFFERENTIABLE))
def test_a_gradient_operator_computes_the_gradient_of_its_expressions(type: str) -> None:
    """Each separate gradient type equals finite differences."""
    operands = [np.random.default_rng(2).random(shape) + 0.5 for shape in DIFFERENTIABLE[type]]
    names = [f"x{at}" for at in range(len(operands))]
    net = ex.Net("one")
    for name, operand in zip(names, operands, strict=True):
        net.input(name, operand.shape, "float64")
    blobs = net.add(type, names, ["y", "y2"] if type == "Split" else "y", **ARGUMENTS.get(type, {}))
    blob = blobs if isinstance(blobs, str) else blobs[0]
    net.Mul([blob, blob], "z")
    net.AveragedLoss("z", "loss")
    gradients = net.add_gradient_operators(["loss"])
    net.set_outputs(["loss", *[gradients[name] for name in names]])
    results = net.run(*operands)
    for at, name in enumerate(names):
        step = np.zeros_like(operands[at])
        index = tuple(size - 1 for size in step.shape)
        step[index] = 1e-6
        ends = [
            net.run(*[operand + sign * step if other == at else operand for other, operand in enumerate(operands)])[
                "loss"
            ]
            for sign in (1, -1)
        ]
        difference = (ends[0] - ends[1]) / 2e-6
        assert results[gradients[name]][index] == pytest.approx(difference, rel=1e-5, abs=1e-9)


def test_every_type_with_a_gradient_type_is_tested() -> None:
    own = {
        name
        for name in TABLE.types()
        if TABLE.is_own(name) and (schema := TABLE.schema(name)) and schema.gradient == "own"
    }
    assert own == DIFFERENTIABLE.keys() | ELSEWHERE


def test_nets_with_gradients_are_saved(tmp_path: Any) -> None:
    net = mlp()
    net.add_gradient_operators(["loss"])
    net.output("w1_grad")
    net.save(tmp_path / "m.json")
    fed = values()
    assert (ex.open(tmp_path / "m.json").run(fed) == net.run(fed)).all()


@pytest.mark.parametrize("outputs", [3, 0.5])
def test_an_invalid_blob_name_raises_an_error(outputs: Any) -> None:
    with pytest.raises(ex.OperandError, match="outputs must be a blob's name, or names"):
        mlp().add_gradient_operators(outputs)


def test_an_empty_blob_name_raises_an_error() -> None:
    with pytest.raises(ex.UnknownNameError, match="unknown blob"):
        mlp().add_gradient_operators("")


def test_one_blob_may_be_given_as_a_string() -> None:
    """A string is not treated as a sequence of letters."""
    net, other = mlp(), mlp()
    assert net.add_gradient_operators("loss") == other.add_gradient_operators(["loss"])


@pytest.mark.spec("C-5")
def test_scores_of_minus_infinity_exclude_classes() -> None:
    """With a masked score, SoftmaxWithLoss has the loss and gradients of the remaining scores."""
    net = ex.Net("masked")
    net.input("scores", (2, 3))
    net.input("label", (2,), "int64")
    net.SoftmaxWithLoss(["scores", "label"], ["probability", "loss"])
    gradients = net.add_gradient_operators("loss")
    for name in ("loss", gradients["scores"]):
        net.output(name)
    results = net.run(np.array([[-np.inf, 0, 0], [1, -np.inf, 1]], np.float32), np.array([1, 0]))
    assert results["loss"] == pytest.approx(np.log(2), rel=1e-6)
    np.testing.assert_allclose(results["scores_grad"], [[0, -0.25, 0.25], [-0.25, 0, 0.25]], rtol=1e-6)


@pytest.mark.spec("C-10")
@pytest.mark.parametrize("executor", ["simple", "dag", "async"])
def test_the_error_of_a_failed_gradient_contains_the_operator(executor: str) -> None:
    """The first failure is raised with the operator's name, type, and the line that added it."""
    net = ex.Net("costly")
    net.input("probability", (2, 3))
    net.input("label", (2,), "int64")
    net.LabelCrossEntropy(["probability", "label"], "losses", name="cost")
    net.output("losses")
    with pytest.raises(ex.RunError, match=r"in the operator 'cost' \(LabelCrossEntropy\) recorded at test_gradients"):
        net.run(np.ones((2, 3), np.float32), np.array([0, 3]), executor=executor)
