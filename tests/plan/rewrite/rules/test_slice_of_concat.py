from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import explorer as ex
from tests.plan.rewrite.rules.asking import applied, close, decision, declined, simplified, values

x = values((5, 4))
a, b, c = values((5, 2)), values((5, 3)), values((5, 1))
joined = ex.concatenate([a, b, c], axis=1)


@st.composite
def indices(draw: st.DrawFn, shape: tuple[int, ...]) -> tuple[int | slice, ...]:
    results: list[int | slice] = []
    for size in shape:
        if size and draw(st.booleans()):
            results.append(draw(st.integers(0, size - 1)))
        else:
            ends = st.one_of(st.none(), st.integers(-size - 1, size + 1))
            results.append(slice(draw(ends), draw(ends), draw(st.sampled_from((None, 1, 2, 3, -1, -2)))))
    return tuple(results)


@pytest.mark.spec("P-1")
@given(st.data())
def test_parts_of_parts_are_one_part(data: st.DataObject) -> None:
    """Slices of slices, with any steps, are one slice or the tensor itself."""
    y: ex.Expr = values((5, 4, 3))
    expected = y.array
    for _ in range(3):
        index = data.draw(indices(y.shape))
        y, expected = y[index], expected[index]
    graph = simplified(y)
    node = graph.roots[0]
    assert node.operation.name in ("tensor", "slice", "index0")
    assert node.operation.name != "slice" or graph.operands(node)[0].operation.name in ("tensor", "slice")
    np.testing.assert_array_equal(ex.evaluate(y), expected)


@pytest.mark.spec("P-1")
@pytest.mark.parametrize(
    ("root", "source"),
    [
        (joined[:, :2], a),
        (joined[:, 2:5], b),
        (joined[1:3, 3:4], b),
        (joined[:, 4:1:-1], b),
        (joined[2, 5], c),
        (ex.concatenate([a, b, c], axis=1)[::2, 1], a),
    ],
    ids=repr,
)
def test_a_slice_within_one_concatenated_tensor_is_a_slice_of_that_tensor(root: ex.Expr, source: ex.Expr) -> None:
    """Nothing is concatenated."""
    graph = simplified(root)
    assert "part_of_concatenation" in applied(graph)
    result = graph.roots[0]
    assert (result if result is source else graph.operands(result)[0]) is source
    assert close(root, 0.0)


@pytest.mark.spec("P-1")
def test_a_tensor_split_and_concatenated_is_the_tensor() -> None:
    """The pieces must be complete and in order along their axis."""
    for axis in (0, 1):
        pieces = [x[:2], x[2:4], x[4:]] if axis == 0 else [x[:, :1], x[:, 1:4]]
        root = ex.concatenate(pieces, axis=axis)
        graph = simplified(root)
        assert applied(graph) == ["concatenation_of_parts"]
        assert graph.roots[0] is x
    for other in ([x[:2], x[3:], x[2:3]], [x[2:], x[:2]], [x[:2], x[2:4], (x + 0.5)[4:]], [x[:2, ::-1], x[2:, ::-1]]):
        root = ex.concatenate(other)
        assert applied(simplified(root)) == []
        assert close(root, 0.0)


@pytest.mark.spec("P-1", "P-15")
def test_each_declined_decision_has_its_code() -> None:
    """Test a slice across several tensors, and one whose dtype the concatenation changed."""
    over = joined[:, 1:4]
    assert decision(simplified(over), "several_parts").facts["count"] == 3
    mixed = ex.concatenate([a, b.astype("float32")], axis=1)[:, 3:]
    assert declined(simplified(mixed)) == [("SliceOfConcatenation", "dtype")]
    for root in (over, mixed):
        assert close(root, 0.0)


@pytest.mark.spec("P-1")
def test_gradients_through_concatenation_and_slices_are_unchanged() -> None:
    """The gradient of split, changed and concatenated tensors equals that of the program as written."""
    loss = ex.square(ex.concatenate([x[:2], ex.tanh(x[2:])])[1:, ::2]).sum()
    slope = ex.grad(loss, x)
    np.testing.assert_allclose(ex.evaluate(slope), ex.evaluate(slope, without="simplify"), rtol=1e-12)


@pytest.mark.spec("P-1", "M-D2")
@pytest.mark.parametrize(
    ("root", "part"),
    [
        (ex.BiasVector(5, 3, dtype="float64") @ x, "row"),
        (ex.BiasVector(5, 0, 2.5, dtype="float64") @ x, "row"),
        (x @ ex.BiasVector(4, 2, dtype="float64"), "column"),
        (ex.BiasVector(5, 4, dtype="float64") @ x[:, 1], "element"),
        (ex.stack([x, x]) @ ex.BiasVector(4, 1, -1.0, dtype="float64"), "column"),
        (ex.BiasVector(5, 4, dtype="float64") @ ex.stack([x, x]), "row"),
    ],
    ids=repr,
)
def test_a_product_with_a_one_hot_vector_is_a_row(root: ex.Expr, part: str) -> None:
    """This holds on either side of a matrix, in a plan that may drop NaN of other rows."""
    graph = simplified(root, numerics="fast")
    assert "one_hot_product" in applied(graph)
    assert decision(graph, "one_hot_product").facts["part"] == part
    assert close(root)
    single = ex.BiasVector(5, 3, dtype="float64") @ values((5, 4), "float32")
    assert declined(simplified(single)) == [("ProductWithOneHot", "dtype")]


@pytest.mark.spec("P-1", "P-13")
def test_thousands_of_tensors_concatenated_and_sliced() -> None:
    """Each slice finds its own tensor, and nothing is concatenated."""
    tensors = [ex.tensor(np.full((2, 3), float(index))) for index in range(3000)]
    wide = ex.concatenate(tensors)
    graph = simplified(*[wide[2 * index : 2 * index + 2] for index in range(3000)])
    assert all(result is tensor for result, tensor in zip(graph.roots, tensors, strict=True))
