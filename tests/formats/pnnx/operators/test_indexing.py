"""Masks, several indices, scatters, folds, bags: values of a run as shapes, and what they refuse."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import explorer as ex
from explorer.formats.pnnx.operators import TABLE
from explorer.net import Net
from explorer.net.definition.definition import NetDefinition, OperatorDefinition
from tests.formats.pnnx.nets import net_of
from tests.support.refusals import refused

X = np.random.default_rng(3).normal(size=(4, 5)).astype(np.float32)


def chosen_by_mask(type: str, arguments: dict[str, Any], inputs: tuple[str, ...]) -> Net:
    """A net of an operator over x, its mask x > 0 as ``m``, and that mask in a list as ``l``."""
    operators = [
        OperatorDefinition("torch.gt", "mask", ("x",), ("m",), {"other": 0}),
        OperatorDefinition("pnnx.Expression", "list", ("m",), ("l",), {"expr": "[@0]"}),
        OperatorDefinition(type, "op", inputs, ("y",), arguments),
    ]
    return Net(NetDefinition.of("masked", operators, ["x"], ["y"]), TABLE)


@pytest.mark.parametrize(
    ("type", "arguments", "inputs", "expected"),
    [
        ("Tensor.index", {}, ("x", "l"), lambda x: x[x > 0]),
        ("torch.masked_select", {}, ("x", "m"), lambda x: x[x > 0]),
        ("torch.nonzero", {}, ("m",), lambda x: np.argwhere(x > 0)),
        ("Tensor.index_put", {"values": 0.5, "accumulate": False}, ("x", "l"), lambda x: np.where(x > 0, 0.5, x)),
        ("Tensor.index_put", {"values": 0.5, "accumulate": True}, ("x", "l"), lambda x: np.where(x > 0, x + 0.5, x)),
        ("torch.masked_scatter", {}, ("x", "m", "x"), lambda x: _dealt(x)),
    ],
)
def test_a_mask_chooses_as_many_elements_as_it_holds(
    type: str, arguments: dict[str, Any], inputs: tuple[str, ...], expected: Any
) -> None:
    """The number of elements that a mask of the inputs chooses may differ from run to run, and be none."""
    net = chosen_by_mask(type, arguments, inputs)
    for x in (X, -X, np.abs(X), -np.abs(X)):
        wanted = np.asarray(expected(x))
        found = net.run(x)
        assert (found.shape, found.dtype) == (wanted.shape, wanted.dtype)
        np.testing.assert_array_equal(found, wanted)


def _dealt(x: Any) -> Any:
    y = x.copy()
    y[x > 0] = x.reshape(-1)[: np.count_nonzero(x > 0)]
    return y


@pytest.mark.spec("I-9")
@pytest.mark.parametrize(
    ("type", "arguments", "given", "words"),
    [
        (
            "aten::scatter_reduce",
            {"dim": 0, "reduce": "prod"},
            [X, X[:1].astype(np.int64), X],
            ("reduce='prod'", "amax"),
        ),
        ("torch.scatter", {"dim": 0, "reduce": "add"}, [X, X.astype(np.int64), X], ("reduce='add'", "op")),
        ("torch.scatter_add", {"dim": 1}, [X, np.zeros((4, 5), np.int64), X[:2]], ("source", "index")),
        ("torch.index_add", {"dim": 0}, [X, np.zeros((2, 2), np.int64), X], ("index must be a list",)),
        ("torch.index_copy", {"dim": 0}, [X, np.zeros(3, np.int64), X], ("(3, 5)",)),
        ("torch.masked_select", {}, [X, X], ("mask", "truths")),
        ("nn.Unfold", {"kernel_size": 9}, [X[None, None]], ("kernel_size=(9, 9)", "fit")),
        ("nn.Fold", {"kernel_size": 2, "output_size": (4, 5)}, [X], ("images of (4, 5)", "(N, C · 4, 12)")),
        ("nn.AvgPool2d", {"kernel_size": 2, "divisor_override": 0}, [X[None, None]], ("divisor_override=0",)),
        ("nn.LPPool2d", {"kernel_size": 2, "norm_type": 0}, [X[None, None]], ("norm_type=0",)),
        ("nn.MaxPool3d", {"kernel_size": 2}, [X[None, None]], ("(N, C, D, H, W)",)),
        ("aten::embedding_bag", {}, [X[0], np.arange(2), np.zeros(1, np.int64)], ("table", "matrix")),
        ("nn.GRU", {"proj_size": 2, "hidden_size": 4}, [X[None]], ("proj_size=2", "LSTM")),
    ],
)
def test_an_argument_that_misfits_is_named_with_the_rule(
    type: str, arguments: dict[str, Any], given: list[Any], words: tuple[str, ...]
) -> None:
    if type == "aten::scatter_reduce":
        arguments = {**arguments, "include_self": True}
    names = {"index": "x1", "src": "x2"} if "scatter" in type else {}
    names = {"index": "x1", "source": "x2"} if "torch.index" in type else names
    net = net_of(type, len(given), arguments, names={"input": "x0", **names} if names else None)
    with refused(ex.OperandError, type, *words):
        net.run(*given)


def test_an_index_beyond_its_axis_is_refused_though_it_lies_in_the_merged_axes() -> None:
    operator = OperatorDefinition("prim::ListConstruct", "list", ("x1", "x2"), ("l",))
    index = OperatorDefinition("aten::index", "op", ("x0", "l"), ("y",))
    net = Net(NetDefinition.of("two", [operator, index], ["x0", "x1", "x2"], ["y"]), TABLE)
    rows, columns = np.array([0, -1]), np.array([4, 0])
    np.testing.assert_array_equal(net.run(X, rows, columns), X[rows, columns])
    with pytest.raises(ex.RunError, match="row 5"):
        net.run(X, rows, columns + 1)
