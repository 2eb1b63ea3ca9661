"""Masks, several indices, scatters, folds and embedding bags: data-dependent shapes, and errors."""

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
    """Return a net of an operator over x, its mask x > 0 as ``m``, and a list with the mask as ``l``."""
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
def test_a_mask_selects_a_data_dependent_number_of_elements(
    type: str, arguments: dict[str, Any], inputs: tuple[str, ...], expected: Any
) -> None:
    """The number may differ between runs, and be zero."""
    net = chosen_by_mask(type, arguments, inputs)
    for x in (X, -X, np.abs(X), -np.abs(X)):
        wanted = np.asarray(expected(x))
        result = net.run(x)
        assert (result.shape, result.dtype) == (wanted.shape, wanted.dtype)
        np.testing.assert_array_equal(result, wanted)


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
            {"dim": 0, "reduce": "norm"},
            [X, X[:1].astype(np.int64), X],
            ("reduce='norm'", "amax"),
        ),
        (
            "torch.index_fill",
            {"dim": 0, "value": None},
            [X, np.array([1])],
            ("value is None", "must be a tensor of numbers"),
        ),
        ("torch.scatter", {"dim": 0, "reduce": "add"}, [X, X.astype(np.int64), X], ("reduce='add'", "op")),
        ("torch.scatter_add", {"dim": 1}, [X, np.zeros((4, 5), np.int64), X[:2]], ("source", "index")),
        ("torch.index_add", {"dim": 0}, [X, np.zeros((2, 2), np.int64), X], ("index must be a vector",)),
        ("torch.index_copy", {"dim": 0}, [X, np.zeros(3, np.int64), X], ("(3, 5)",)),
        ("torch.masked_select", {}, [X, X], ("mask", "boolean")),
        (
            "torch.index_add",
            {"dim": 0, "alpha": 0.5},
            [X.astype(int), np.zeros(3, int), X[:3].astype(int)],
            ("alpha=0.5",),
        ),
        ("torch.scatter_reduce", {"dim": 0, "reduce": "mean"}, [X > 0, np.zeros((1, 5), int), X > 0], ("no mean",)),
        ("Tensor.index", {}, [X, np.array(True)], ("mask scalar bool", "at least one axis")),
        ("nn.Unfold", {"kernel_size": 9}, [X[None, None]], ("window=(9, 9)", "fit")),
        ("nn.Fold", {"kernel_size": 2, "output_size": (4, 5)}, [X], ("images of (4, 5)", "(N, C · 4, 12)")),
        ("nn.AvgPool2d", {"kernel_size": 2, "divisor_override": 0}, [X[None, None]], ("divisor_override=0",)),
        ("nn.LPPool2d", {"kernel_size": 2, "norm_type": 0}, [X[None, None]], ("norm_type=0",)),
        ("nn.MaxPool3d", {"kernel_size": 2}, [X[None, None]], ("(N, C, D, H, W)",)),
        ("aten::embedding_bag", {}, [X[0], np.arange(2), np.zeros(1, np.int64)], ("table", "matrix")),
        ("nn.GRU", {"proj_size": 2, "hidden_size": 4}, [X[None]], ("proj_size=2", "must be 0")),
    ],
)
def test_an_argument_that_misfits_is_named_with_the_rule(
    type: str, arguments: dict[str, Any], given: list[Any], words: tuple[str, ...]
) -> None:
    if type == "aten::scatter_reduce":
        arguments = {**arguments, "include_self": True}
    names = {"index": "x1", "src": "x2"} if "scatter" in type else {}
    names = {"index": "x1", "source": "x2"} if "torch.index" in type else names
    names = dict(list(names.items())[: len(given) - 1])
    net = net_of(type, len(given), arguments, names={"input": "x0", **names} if names else None)
    with refused(ex.OperandError, type, *words):
        net.run(*given)


def test_an_index_out_of_range_raises_an_error_even_if_it_is_within_the_merged_axes() -> None:
    operator = OperatorDefinition("prim::ListConstruct", "list", ("x1", "x2"), ("l",))
    index = OperatorDefinition("aten::index", "op", ("x0", "l"), ("y",))
    net = Net(NetDefinition.of("two", [operator, index], ["x0", "x1", "x2"], ["y"]), TABLE)
    rows, columns = np.array([0, -1]), np.array([4, 0])
    np.testing.assert_array_equal(net.run(X, rows, columns), X[rows, columns])
    with pytest.raises(ex.RunError, match="row 5"):
        net.run(X, rows, columns + 1)


def test_a_uint8_mask_selects_like_a_boolean_one() -> None:
    """torch treats a uint8 index as a mask."""
    rows, place = np.array([1, 0, 0, 2], np.uint8), (X[:, 0] > 0).astype(np.uint8)
    np.testing.assert_array_equal(net_of("Tensor.index", 2).run(X, rows), X[[0, 3]])
    put = net_of("Tensor.index_put", 2, {"values": 0.5}, names={"input": "x0", "indices": "x1"})
    np.testing.assert_array_equal(put.run(X, place), np.where(place[:, None], np.float32(0.5), X))


def test_a_source_with_too_few_elements_raises_an_error() -> None:
    """An empty source matches a mask that selects nothing."""
    net = net_of("torch.masked_scatter", 3, names={"input": "x0", "mask": "x1", "source": "x2"})
    source, highest = np.arange(2, dtype=np.float32), np.equal(X, X.max())
    np.testing.assert_array_equal(net.run(X, highest, source), np.where(highest, 0, X))
    np.testing.assert_array_equal(net.run(X, X > 99, source[:0]), X)
    for few in (source, source[:0]):
        with pytest.raises(ex.RunError, match="row"):
            net.run(X, X > 0, few)


@pytest.mark.parametrize(("reduce", "extreme"), [("amin", np.minimum), ("amax", np.maximum)])
def test_the_extreme_of_elements_with_nan_is_nan(reduce: str, extreme: Any) -> None:
    net = net_of(
        "torch.scatter_reduce", 3, {"dim": 0, "reduce": reduce}, names={"input": "x0", "index": "x1", "src": "x2"}
    )
    x, source = X[0].copy(), np.array([1, np.nan, 2, -3], np.float32)
    expected = x.copy()
    expected[1], expected[2] = np.nan, extreme(extreme(x[2], 2), -3)
    np.testing.assert_array_equal(net.run(x, np.array([1, 1, 2, 2]), source), expected)


@pytest.mark.parametrize("with_own", [True, False])
@pytest.mark.parametrize("axis", [0, 1])
def test_a_scatter_product_combines_all_elements_for_an_index(axis: int, with_own: bool) -> None:
    """As in torch, positions without an element are unchanged, including rows after the index's."""
    names = {"input": "x0", "index": "x1", "src": "x2"}
    arguments = {"dim": axis, "reduce": "prod", "include_self": with_own}
    net = net_of("torch.scatter_reduce", 3, arguments, names=names)
    index = np.array([[0, 2, 2, 1], [2, 2, 3, 3], [2, 0, 0, 0]])
    source = np.arange(1, 13, dtype=np.float32).reshape(3, 4) - 5
    expected, fresh = X.copy(), np.ones(X.shape, bool)
    for place in np.ndindex(index.shape):
        at = (index[place], place[1]) if axis == 0 else (place[0], index[place])
        expected[at] = source[place] * (1 if fresh[at] and not with_own else expected[at])
        fresh[at] = False
    np.testing.assert_allclose(net.run(X, index, source), expected, rtol=1e-6)
    with pytest.raises(ex.RunError, match="row 9"):
        net.run(X, np.where(index == 3, 9, index), source)


@pytest.mark.parametrize("mode", [0, 1])
@pytest.mark.parametrize("offsets", [[0, 3, 1], [0, 5]])
def test_offsets_of_bags_must_not_decrease(mode: int, offsets: list[int]) -> None:
    """Decreasing offsets, or ones beyond the numbers, raise an error at run time, as in torch."""
    constants = [
        OperatorDefinition("prim::Constant", f"c{i}", (), (f"c{i}",), {"value": v}) for i, v in enumerate((False, mode))
    ]
    bag = OperatorDefinition("aten::embedding_bag", "op", ("w", "n", "s", "c0", "c1"), ("y", "b", "k", "m"))
    net = Net(NetDefinition.of("bags", [*constants, bag], ["w", "n", "s"], ["y"]), TABLE)
    with pytest.raises(ex.ExplorerError, match="row"):
        net.run(X, np.array([1, 0, 2, 3]), np.array(offsets))


def test_results_of_conditions_are_boolean() -> None:
    names = {"input": "x0", "index": "x1"}
    x, place = X > 0, np.zeros((1, 5), np.int64)
    total = net_of(
        "torch.scatter_reduce", 3, {"dim": 0, "reduce": "sum", "include_self": False}, names={**names, "src": "x2"}
    )
    expected = np.concatenate([~x[:1], x[1:]])
    np.testing.assert_array_equal(total.run(x, place, ~x[:1]), expected, strict=True)
    added = net_of("torch.index_add", 3, {"dim": 0, "alpha": 2}, names={**names, "source": "x2"})
    np.testing.assert_array_equal(added.run(x, place[0, :1], ~x[:1]), x | (np.arange(4) == 0)[:, None], strict=True)


def test_an_empty_batch_of_images_has_no_columns() -> None:
    result = net_of("nn.Unfold", 1, {"kernel_size": 2}).run(np.zeros((0, 3, 4, 5), np.float32))
    assert result.shape == (0, 12, 12)


@pytest.mark.parametrize("mode", [0, 1, 2])
def test_bags_must_begin_with_the_first_number(mode: int) -> None:
    """A number before the first bag belongs to none; previously it was added to the last one or dropped."""
    constants = [
        OperatorDefinition("prim::Constant", f"c{i}", (), (f"c{i}",), {"value": v}) for i, v in enumerate((False, mode))
    ]
    bags = OperatorDefinition("aten::embedding_bag", "op", ("x0", "x1", "x2", "c0", "c1", "c0"), ("y", "a", "b", "c"))
    net = Net(NetDefinition.of("bags", [*constants, bags], ["x0", "x1", "x2"], ["y"]), TABLE)
    numbers = np.array([3, 1, 2])
    reduce = (np.sum, np.mean, np.max)[mode]
    wanted = np.stack([reduce(X[[3]], 0), reduce(X[[1, 2]], 0)])
    np.testing.assert_allclose(net.run(X, numbers, np.array([0, 1])), wanted, rtol=1e-6)
    with pytest.raises(ex.ExplorerError, match=r"row 2|offsets"):
        net.run(X, numbers, np.array([1, 2]))


@pytest.mark.parametrize(
    ("arguments", "part"),
    [
        ({"dim": 1, "start": 1, "end": 3, "step": 1}, np.s_[:, 1:3]),
        ({"dim": 1, "start": 0, "end": 0, "step": 0, "select": -1}, np.s_[:, -1]),
        (
            {"dims": (0, 1), "starts": (1, 0), "ends": (3, 2**31 - 1), "steps": (1, 2), "selects": (2**31 - 1,) * 2},
            np.s_[1:3, ::2],
        ),
    ],
)
def test_a_part_is_replaced(arguments: dict[str, Any], part: Any) -> None:
    """``x[1:3, ::2] = y``, as pnnx writes it, also with a value that is broadcast."""
    operator = OperatorDefinition("Tensor.slice_copy", "op", ("x", "s"), ("y",), arguments)
    net = Net(NetDefinition.of("part", [operator], ["x", "s"], ["y"]), TABLE)
    for source in (2 * X[part], np.float32([7])):
        wanted = X.copy()
        wanted[part] = source
        np.testing.assert_array_equal(net.run(X, source), wanted)
    with refused(ex.OperandError, "into a part of the shape", "must broadcast to the part that it replaces"):
        net.build(X.shape, (9, 9, 9))
