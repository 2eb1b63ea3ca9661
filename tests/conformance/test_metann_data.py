"""MetaNN's data: every row of its data section, by the names that users write."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import explorer as ex
from tests.support.foreign import Block, Counting, FixedPoint, fixed, there
from tests.support.refusals import refused

LABELS = np.array([2, 0, 3, 2, 1])


class Diagonal(ex.Data):
    """A square matrix that stores its diagonal."""

    def __init__(self, diagonal: Any) -> None:
        self.diagonal = np.asarray(diagonal, np.float32)
        self.evaluated = 0

    @property
    def type(self) -> ex.TensorType:
        return ex.TensorType((self.diagonal.size, self.diagonal.size), self.diagonal.dtype)

    def evaluate(self) -> Any:
        self.evaluated += 1
        return np.diag(self.diagonal)


def decisions(*roots: Any, **options: Any) -> tuple[list[Any], list[Any]]:
    """The values of expressions, and the decisions of their plan."""
    plan = ex.EvalPlan(**options)
    handles = [plan.register(root) for root in roots]
    plan.eval()
    return [handle.data() for handle in handles], plan.recording.decisions


def codes(found: list[Any], applied: bool = True) -> set[str]:
    return {decision.code for decision in found if (decision.verdict == "applied") == applied}


# -- M-D1, M-D3, M-D11: types, categories, constructors ----------------------------------------------------------------


@pytest.mark.spec("M-D11", "M-D1", headline=True)
@pytest.mark.parametrize(("make", "shape"), [(ex.Vector, (10,)), (ex.Matrix, (10, 20)), (ex.ThreeDArray, (2, 10, 20))])
def test_constructors_take_sizes_or_a_value(make: Callable[..., ex.Tensor], shape: tuple[int, ...]) -> None:
    """Construct by shape, Matrix(10, 20), or by value, Matrix(values): both have a shape, a dtype and a device."""
    by_shape = make(*shape)
    assert (by_shape.shape, by_shape.dtype, by_shape.device) == (shape, np.float32, ex.cpu)
    assert not by_shape.array.any()
    by_value = make(np.ones(shape), np.float64)
    assert (by_value.shape, by_value.dtype) == (shape, np.float64)
    with refused(ex.OperandError, "dtype"):
        make(*shape, 3, 4)


@pytest.mark.spec("M-D1", "M-D11")
@pytest.mark.parametrize("shape", [(), (10,), (10, 20), (4, 5, 6, 7), (2, 1, 3, 0, 2, 2)])
def test_a_tensor_of_any_rank_is_made_by_its_sizes(shape: tuple[int, ...]) -> None:
    """Tensor<int, CPU, 4>(4, 5, 6, 7) is ex.Tensor(4, 5, 6, 7, dtype=int): zeros, to be written to."""
    for value in (ex.Tensor(*shape, dtype=int), ex.Tensor(shape, dtype=int)):
        assert type(value) is ex.Tensor
        assert (value.shape, value.dtype, value.device) == (shape, np.dtype(int), ex.cpu)
        assert not value.array.any()
        value[...] = 3
        assert (ex.evaluate(value + 1) == 4).all()
    assert ex.Tensor(*shape).dtype == np.float32
    assert ex.Tensor(*shape, name="w").label == "w"
    assert ex.Tensor(*shape, dtype=fixed.dtype).dtype == fixed.dtype


@pytest.mark.spec("M-D1", "M-O2")
@pytest.mark.parametrize("given", [([1.0, 2.0],), (2.5,), (2, "3"), (True, 2), (np.ones(3),), (2, -1)])
def test_sizes_that_are_none_are_refused(given: tuple[object, ...]) -> None:
    """A value is no size: the error says how sizes are given."""
    with pytest.raises(ex.ExplorerError) as refusal:
        ex.Tensor(*given)
    assert refusal.value.rule


@pytest.mark.spec("M-D11")
def test_a_scalars_value_is_converted() -> None:
    """A scalar's value is converted to the element type."""
    assert ex.Scalar(2.7, np.int32).array.tolist() == 2
    assert ex.Scalar(2.5, fixed.dtype).dtype == fixed.dtype
    assert ex.evaluate(ex.TrivialTensor(0.1, (2,), fixed).astype(np.float64)).tolist() == [26 / 256] * 2


@pytest.mark.spec("M-D3", headline=True)
def test_everything_has_a_category() -> None:
    """Tell the category of data, expressions and arrays: scalar, vector, matrix or three-d array."""
    asked = [ex.is_scalar, ex.is_vector, ex.is_matrix, ex.is_three_d_array]
    x = ex.tensor(np.ones((2, 3, 4)))
    values = [x.sum(), x[0, 0], x[0] @ np.ones((4, 4)), x + 1]
    for rank, value in enumerate(values):
        assert [each(value) for each in asked] == [rank == place for place in range(4)]
    assert [ex.category(value) for value in values] == ["scalar", "vector", "matrix", "three-d array"]
    assert not any(each(np.ones((1, 1, 1, 1))) for each in asked)
    assert ex.category(np.ones((1, 1, 1, 1))) == "4-d array"
    assert ex.category(Diagonal([1, 2])) == ex.category(np.ones((2, 2))) == "matrix"
    assert ex.category(ex.ScalableTensor((2, 3))) == "three-d array"
    with pytest.raises(ex.OperandError, match="the category of a str"):
        ex.category("matrix")


# -- M-D2: structured tensors ------------------------------------------------------------------------------------------


@pytest.mark.spec("M-D2")
@pytest.mark.parametrize(
    ("write", "code"),
    [
        (lambda x: x + ex.ZeroTensor(x.shape, x.dtype), "zero_term"),
        (lambda x: x * ex.ZeroTensor(x.shape, x.dtype), "zero_product"),
        (lambda x: x * ex.TrivialTensor(1.0, x.shape, x.dtype), "neutral"),
        (lambda x: ex.BiasVector(4, 2, 3.0, x.dtype) @ x.T, "one_hot_product"),
        (lambda x: x @ ex.BiasVector(4, 2, 1.0, x.dtype), "one_hot_product"),
        (lambda x: ex.one_hot(LABELS, 4, x.dtype) @ x.T, "one_hot_rows"),
        (lambda x: x @ ex.one_hot(LABELS, 4, x.dtype).T, "one_hot_rows"),
        (lambda x: x.T[:3] @ ex.one_hot(LABELS, 4, x.dtype), "one_hot_rows"),
        (lambda x: ex.one_hot(LABELS, 4, x.dtype).T @ x, "one_hot_rows"),
    ],
)
def test_structure_is_used(write: Callable[[Any], Any], code: str) -> None:
    """Rules use structure: x + 0, x · 0, x · 1; one-hot vectors and matrices pick and add rows, if NaN may be lost."""
    x = ex.tensor(np.random.default_rng(1).normal(size=(5, 4)))
    (short,), taken = decisions(write(x), numerics="fast" if code.startswith("one_hot") else "safe")
    (plain,), declined = decisions(write(x), without=() if code.startswith("one_hot") else "simplify")
    assert not code.startswith("one_hot") or "changes_rounding" in codes(declined, applied=False)
    assert code in codes(taken)
    np.testing.assert_allclose(short, plain, rtol=1e-12)


@pytest.mark.spec("M-D2")
def test_refusals_of_one_hot_rows_say_why() -> None:
    """Products with one-hot rows that stay products say why: a batch of matrices, another dtype."""
    rows = ex.one_hot(LABELS, 4, np.float64)
    batch, narrow = ex.tensor(np.ones((2, 4, 3))), ex.tensor(np.ones((4, 3), np.float32))
    (several, converted), taken = decisions(rows @ batch, rows @ narrow)
    assert (several.shape, converted.dtype) == ((2, 5, 3), np.float64)
    assert {"batched", "dtype"} <= codes(taken, applied=False)


@pytest.mark.spec("M-D2")
def test_wrong_class_numbers_stay_an_error() -> None:
    """A one-hot row of a class that is not there stays an error where rows are picked."""
    with pytest.raises(ex.RunError, match="label 4 with 4 classes"):
        ex.evaluate(ex.one_hot(np.array([0, 4]), 4, np.float64) @ np.ones((4, 3)))


# -- M-D4: a data type of a user's own ---------------------------------------------------------------------------------


@pytest.mark.spec("M-D4", "M-D11", headline=True)
def test_a_users_data_type_takes_part() -> None:
    """Use a data type declared in a cell as an operand; it evaluates to its array and is drawn by its name."""
    d, x = Diagonal([1, 2, 3]), np.arange(9, dtype=np.float32).reshape(3, 3)
    want = np.diag(d.diagonal)
    y = np.exp(d) + d @ x - 2 * d + d.T
    (value,), _ = decisions(y)
    np.testing.assert_allclose(value, np.exp(want) + want @ x - 2 * want + want.T, rtol=1e-6)
    assert d.evaluated == 1  # one node, however often it is used
    np.testing.assert_array_equal(ex.evaluate(d), want)
    np.testing.assert_array_equal(ex.evaluate([d, 3])[0], want)
    handle = d.eval_register()
    ex.default_plan().eval()
    np.testing.assert_array_equal(handle.data(), want)
    plan = ex.EvalPlan()
    plan.register(y)
    assert "Diagonal" in plan.prepare().recording.nodes.label
    assert ex.evaluate(ex.grad((ex.tensor(x) * d).sum(), ex.tensor(x))).shape == (3, 3)


@pytest.mark.spec("M-D4")
def test_rules_can_be_written_for_a_users_data_type() -> None:
    """A rule that has a user's data type among its operands uses its structure."""

    class ScaledRows(ex.Rule):
        """A diagonal times a matrix scales its rows."""

        numerics = "exact"
        roots = (ex.operation("matmul"),)

        def match(self, node: ex.Expr, graph: Any) -> Any:
            a, b = graph.operands(node)
            if not isinstance(a.operation, Diagonal.Operation):
                return None
            rows = ex.tensor(a.operation.data.diagonal).reshape(-1, 1)
            return ex.Applied(rows * b, "{x} is diagonal: rows are scaled", {"x": a}, "scaled_rows")

    try:
        d, x = Diagonal([1, 2, 3]), ex.tensor(np.ones((3, 2), np.float32))
        (value,), taken = decisions(d @ x)
    finally:
        ScaledRows.remove()
    assert "scaled_rows" in codes(taken)
    assert d.evaluated == 0
    np.testing.assert_array_equal(value, [[1, 1], [2, 2], [3, 3]])


@pytest.mark.spec("M-D4")
def test_a_users_data_type_is_used_like_a_tensor() -> None:
    """Data of a user's type is indexed, iterated, stacked, reduced, given to traced functions and explored."""
    d = Diagonal([1, 2, 3])
    want = np.diag(d.diagonal)
    assert len(d) == 3
    assert [ex.evaluate(row).tolist() for row in d] == want.tolist()
    values = [d[1, 1], np.sum(d), d.sum(axis=0), ex.stack([d, want]), ex.where(d > 1, d, 0), ex.exp(d).T, abs(d)]
    wanted = [2, 6, want.sum(axis=0), np.stack([want, want]), np.where(want > 1, want, 0), np.exp(want).T, want]
    for value, expected in zip(values, wanted, strict=True):
        np.testing.assert_allclose(ex.evaluate(value), expected, rtol=1e-6)
    assert float(Diagonal([4])) == 4.0
    np.testing.assert_array_equal(np.asarray(d), want)

    @ex.function
    def twice(x: Any) -> Any:
        return x + x

    np.testing.assert_array_equal(ex.evaluate(twice(d)), 2 * want)
    np.testing.assert_array_equal(ex.evaluate(d @ d), want @ want)
    assert ex.explore(d) is not None
    assert (d + 1).operands[0] is (d * 2).operands[0], "one node for all uses"


@pytest.mark.spec("M-D4", "M-D10")
def test_a_users_data_type_lives_on_a_users_device() -> None:
    """Data of a user's type may live on a user's device: its value is written there."""

    class Elsewhere(Diagonal):
        """A diagonal on another device."""

        @property
        def type(self) -> ex.TensorType:
            return ex.TensorType(super().type.shape, np.float32, there)

    d = Elsewhere([1, 2])
    assert d.device is there
    assert ex.evaluate(d @ d + d).tolist() == [[2, 0], [0, 6]]


@pytest.mark.spec("M-D4")
def test_any_object_takes_part_by_one_method() -> None:
    """An object of any class is an operand once __expr__() says which expression it stands for."""

    class Offset:
        def __expr__(self) -> ex.Expr:
            return ex.TrivialTensor(4.0, (2,), np.float64)

    x = ex.tensor([1.0, 2.0])
    assert ex.evaluate(ex.add(x, Offset())).tolist() == [5.0, 6.0]
    assert ex.evaluate({"offset": Offset()})["offset"].tolist() == [4.0, 4.0]


@pytest.mark.spec("M-D4")
def test_an_incomplete_data_type_is_told() -> None:
    """A data type without type, evaluate() or docstring, or with a value of another shape, is told what is missing."""
    with pytest.raises(ex.DeclarationError, match="without evaluate"):

        class Half(ex.Data):
            """Names its type only."""

            @property
            def type(self) -> ex.TensorType:
                return ex.TensorType(())

    class Wrong(Diagonal):
        """A diagonal whose value has another shape."""

        def evaluate(self) -> Any:
            return self.diagonal

    with pytest.raises(ex.RunError, match=r"gave an array of shape \(3,\)"):
        ex.evaluate(Wrong([1, 2, 3]))


# -- M-D5: dynamic data ------------------------------------------------------------------------------------------------


@pytest.mark.spec("M-D5", "M-D11", headline=True)
def test_dynamic_data_hides_its_type() -> None:
    """Hide the concrete type of data with make_dynamic; values and identity stay, try_cast gives the type back."""
    matrices = [ex.ZeroTensor((2, 2)), ex.TrivialTensor(2.0, (2, 2)), ex.Matrix([[1, 2], [3, 4]], np.float32)]
    matrices += [Diagonal([1, 2]), matrices[2] + 1]
    held = [ex.make_dynamic(each, "matrix") for each in matrices]
    assert len({type(each.operation) for each in held}) == 1
    for hidden, concrete in zip(held, matrices, strict=True):
        np.testing.assert_array_equal(ex.evaluate(hidden), ex.evaluate(concrete))
        assert ex.same(hidden, ex.make_dynamic(concrete))
    assert ex.make_dynamic(held[0]) is held[0]
    (a, b), _ = decisions(held[4], matrices[4])
    assert ex.same(a, b)
    assert ex.try_cast(held[0], ex.ZeroTensor) is matrices[0]
    assert ex.try_cast(held[0], ex.TrivialTensor) is None
    assert ex.try_cast(held[2], ex.Tensor) is matrices[2]
    assert ex.try_cast(held[3], Diagonal) is matrices[3]
    assert ex.try_cast(held[3], type("Other", (Diagonal,), {"__doc__": "Another diagonal."})) is None
    assert ex.try_cast(held[2], Diagonal) is None
    with pytest.raises(ex.OperandError, match="this is a vector"):
        ex.make_dynamic(np.ones(3), "matrix")
    with pytest.raises(ex.OperandError, match="try_cast to 'zero'"):
        ex.try_cast(held[0], "zero")


@pytest.mark.spec("M-D5")
def test_rules_say_that_a_type_is_hidden() -> None:
    """A rule that needs the concrete type of dynamic data declines and says so."""
    x = ex.tensor(np.ones((2, 2)))
    zero = ex.make_dynamic(ex.ZeroTensor((2, 2), np.float64))
    (value,), taken = decisions(x + zero)
    np.testing.assert_array_equal(value, x.array)
    hidden = [decision for decision in taken if decision.code == "hidden_type"]
    assert "SumWithZero" in {decision.rule for decision in hidden}
    softmax = ex.make_dynamic(ex.softmax(x))
    _, taken = decisions(np.log(softmax), np.log(ex.try_cast(softmax, ex.operation("softmax"))))
    assert ("LogOfSoftmax", "hidden_type") in {(decision.rule, decision.code) for decision in taken}
    assert "LogOfSoftmax" in {decision.rule for decision in taken if decision.verdict == "applied"}
    (_,), taken = decisions(x + ex.try_cast(zero, ex.ZeroTensor))
    assert "zero_term" in codes(taken)


@pytest.mark.spec("M-D5")
def test_gradients_pass_dynamic_data() -> None:
    """The gradient of dynamic data is that of what it hides."""
    x = ex.tensor([1.0, 2.0])
    assert ex.evaluate(ex.grad((ex.make_dynamic(x) * x).sum(), x)).tolist() == [2.0, 4.0]


# -- M-D6: scalable tensors --------------------------------------------------------------------------------------------


@pytest.mark.spec("M-D6", "M-D11", headline=True)
def test_a_scalable_tensor_grows() -> None:
    """Grow a list of values and expressions of one shape, and use it as an operand of one dimension more."""
    grown = ex.ScalableTensor((2,), np.float64)
    assert (len(grown), grown.shape, grown.ndim) == (0, (0, 2), 2)
    with pytest.raises(ex.OperandError, match="empty scalable tensor"):
        ex.evaluate(grown)
    grown.push_back([1, 2])
    grown.push_back(ex.Vector([3.0, 4.0]))
    before = grown + 1
    grown.push_back(ex.tensor([2.0, 3.0]) * 2)
    grown.reverse()
    assert ex.evaluate(grown).tolist() == [[4, 6], [3, 4], [1, 2]]
    assert ex.evaluate(before).tolist() == [[2, 3], [4, 5]]
    assert [ex.evaluate(each).tolist() for each in grown] == [[4, 6], [3, 4], [1, 2]]
    handle = grown.eval_register()
    grown.clear()
    ex.default_plan().eval()
    assert handle.data().shape == (3, 2)
    assert len(grown) == 0
    for wrong in ([1, 2, 3], ex.tensor(np.ones(2, np.float32)) + 1, [1j, 2]):
        with pytest.raises(ex.OperandError, match="all members must be 2 float64"):
            grown.push_back(wrong)


@pytest.mark.spec("M-D6")
def test_pushing_allocates_rarely() -> None:
    """Memory doubles when it is full, and reserve() makes room before; operands are no copies and never change."""
    grown = ex.ScalableTensor((3,))
    rooms = set()
    for number in range(1000):
        grown.push_back(np.full(3, number))
        rooms.add(grown.capacity)
    assert len(rooms) <= 10
    whole, again = ex.evaluate(grown), ex.evaluate(grown)
    assert np.shares_memory(whole, again)
    if grown.capacity > len(grown):
        grown.push_back(np.ones(3))
        assert np.shares_memory(whole, ex.evaluate(grown)), "an operand is a view of the list's memory"
    grown.clear()
    grown.push_back([7, 7, 7])
    assert whole[0].tolist() == [0, 0, 0]
    reserved = ex.ScalableTensor((3,))
    reserved.reserve(500)
    for _ in range(500):
        reserved.push_back(np.ones(3))
    assert reserved.capacity == 500


@pytest.mark.spec("M-D6")
def test_gradients_flow_through_a_scalable_tensor() -> None:
    """The gradient of what was pushed is its member of the whole's gradient."""
    x = ex.tensor([1.0, 2.0])
    grown = ex.ScalableTensor((2,), np.float64)
    for factor in (1.0, 2.0, 3.0):
        grown.push_back(x * factor)
    assert ex.evaluate(ex.grad((grown * grown).sum(), x)).tolist() == [28.0, 56.0]


# -- M-D7: sameness ----------------------------------------------------------------------------------------------------

A, B = ex.tensor([1.0, 2.0]), ex.tensor([1.0, 2.0])
D = Diagonal([1.0, 2.0])


@pytest.mark.spec("M-D7", headline=True)
@pytest.mark.parametrize(
    ("a", "b", "equal"),
    [
        (A, copy.copy(A), True),
        (A, copy.deepcopy(A), True),
        (A, B, False),
        (A + 1, copy.copy(A + 1), True),
        (np.exp(A) + A, np.exp(A) + A, True),
        (np.exp(A), np.exp(B), False),
        (np.exp(A), np.sin(A), False),
        (A[0], A[0], True),
        (A[0], A[1], False),
        (A.sum(axis=0), A.sum(axis=0, keepdims=True), False),
        (ex.ZeroTensor((2, 3)), ex.ZeroTensor((2, 3)), True),
        (ex.ZeroTensor((2, 3)), ex.ZeroTensor((3, 2)), False),
        (ex.ZeroTensor((2,)), ex.TrivialTensor(0.0, (2,)), False),
        (ex.TrivialTensor(2.0, (2,)), ex.TrivialTensor(2.0, (2,)), True),
        (ex.TrivialTensor(2.0, (2,)), ex.TrivialTensor(3.0, (2,)), False),
        (ex.BiasVector(5, 2), ex.BiasVector(5, 2), True),
        (ex.BiasVector(5, 2), ex.BiasVector(5, 3), False),
        (ex.make_dynamic(A), ex.make_dynamic(A), True),
        (ex.make_dynamic(A), A, False),
        (D, D, True),
        (D + 1, D + 1, True),
        (D, Diagonal([1.0, 2.0]), False),
        (A.array, A, True),
        (np.ones(2), np.ones(2), False),
    ],
)
def test_sameness_never_compares_elements(a: Any, b: Any, equal: bool) -> None:
    """Compare by same(a, b) without elements: copies, equal structure over one storage, equal descriptions."""
    assert ex.same(a, b) is equal
    assert ex.same(b, a) is equal


@pytest.mark.spec("M-D7")
def test_results_of_a_copy_and_its_original_are_the_same() -> None:
    """Results of evaluating a copy and its original are the same; those of equal elements alone are not."""
    y = np.exp(A)
    (first, second, third), _ = decisions(y, copy.copy(y), np.exp(B))
    assert ex.same(first, second)
    assert not ex.same(first, third)
    assert first.tolist() == third.tolist()
    assert ex.same(ex.evaluate(A), ex.evaluate(copy.copy(A)))
    with pytest.raises(ex.OperandError, match="same\\(\\) of a float"):
        ex.same(1.0, A)


@pytest.mark.spec("M-D7")
def test_sameness_of_deep_graphs() -> None:
    """Graphs of any depth are compared, a pair of nodes once."""
    a = b = A
    for _ in range(20_000):
        a, b = a + a, b + b
    assert ex.same(a, b)


# -- M-D8: elements ----------------------------------------------------------------------------------------------------


@pytest.mark.spec("M-D8")
def test_elements_are_written() -> None:
    """t[i] = v and t[1:3] = … write to a tensor that nothing else reads; numbers are converted to its dtype."""
    t = ex.Matrix(4, 3)
    t[0] = 1
    t[1:3] = [[1, 2, 3], [4, 5, 6]]
    t[3, -1] = ex.Scalar(2.5) * 2
    t[::2, 1] = ex.Vector([8.0, 9.0])
    t[t.array > 8] = -1
    assert t.array.tolist() == [[1, 8, 1], [1, 2, 3], [4, -1, 6], [0, 0, 5]]
    assert ex.evaluate(t.sum()) == 30
    factor = ex.Vector([2.0, 3.0])
    scaled = ex.function(lambda x: x * float(factor.array[0]))
    assert ex.evaluate(scaled(ex.Scalar(1.0))) == 2
    factor[0] = 5
    assert ex.evaluate(scaled(ex.Scalar(1.0))) == 5, "who read the elements reads them anew"
    for index, value in ((9, 1.0), (0, [1, 2]), (0, "a"), (0, 1j), (ex.Scalar(0), 1.0)):
        with pytest.raises(ex.OperandError, match="writing"):
            ex.Vector(3)[index] = value
    for imaginary in (np.array([1j, 2.0]), ex.tensor([1j, 2.0]), [1j, 2.0]):
        with pytest.raises(ex.OperandError, match="complex128 does not convert to float32"):
            ex.Vector(2)[:] = imaginary
    number = ex.tensor(np.zeros(2, np.int8))
    with pytest.raises(ex.OperandError, match="writing int to elements 0 of 2 int8"):
        number[0] = 300
    assert number.array.tolist() == [0, 0]


@pytest.mark.spec("M-D8", headline=True)
@pytest.mark.parametrize(
    "share",
    [
        lambda t: t + 1,
        lambda t: t[1],
        lambda t: t.reshape(4, 1),
        ex.evaluate,
        np.asarray,
        lambda t: t.eval_register(),
        lambda t: [ex.function(lambda x: x + t)(np.ones(4))],
    ],
)
def test_shared_writes_are_refused(share: Callable[[ex.Tensor], Any]) -> None:
    """Write elements of a tensor until an expression, a view or a result shares its storage, and refuse it then."""
    t = ex.tensor([1.0, 2.0, 3.0, 4.0])
    t[0] = 0
    held = share(t)
    with pytest.raises(ex.StateError, match="whose storage is shared"):
        t[0] = 5.0
    assert t.array.tolist() == [0, 2, 3, 4]
    assert held is not None
    free = ex.tensor(t)
    free[0] = 5.0
    assert (free.array[0], t.array[0]) == (5, 0)
    ex.default_plan().eval()


@pytest.mark.spec("M-D8")
def test_views_share_storage() -> None:
    """t[i] and t[1:3] are views that share the tensor's storage, also when they are evaluated."""
    t = ex.tensor(np.arange(12.0).reshape(4, 3))
    for view in (t[1], t[1:3], t[:, ::2]):
        assert np.shares_memory(ex.evaluate(view), t.array)
        with refused(ex.StateError):
            view[0] = 1.0


# -- M-D9: copies ------------------------------------------------------------------------------------------------------


@pytest.mark.spec("M-D9", headline=True)
@pytest.mark.parametrize("target", [np.float64, np.float32, np.int32, fixed.dtype])
@pytest.mark.parametrize("source", [np.float64, np.float32, np.int32, fixed.dtype])
@pytest.mark.parametrize("devices", [(ex.cpu, ex.cpu), (ex.cpu, there), (there, ex.cpu), (there, there)])
def test_values_are_copied_between_dtypes_and_devices(target: Any, source: Any, devices: Any) -> None:
    """Copy between tensors of any dtypes on any devices; another shape is an error."""
    into = ex.tensor(np.zeros((2, 2)), target, device=devices[0])
    copied = ex.tensor([[1, 2], [3, 4]], source, device=devices[1])
    ex.copyto(into, copied, casting="unsafe")
    for shape in ((2, 3), (4,), (1, 2)):
        with pytest.raises(ex.OperandError, match="copyto of shape"):
            ex.copyto(into, ex.tensor(np.zeros(shape), source, device=devices[1]), casting="unsafe")
    assert ex.evaluate(into.to_device(ex.cpu).astype(np.float64)).tolist() == [[1, 2], [3, 4]]


@pytest.mark.spec("M-D9")
def test_wrong_copies_are_refused() -> None:
    """A copy of another shape, of a dtype that does not convert, or into a shared storage, overwrites nothing."""
    into = ex.Vector([1, 2, 3], np.int32)
    with pytest.raises(ex.OperandError, match="copyto of shape \\(2,\\) into 3 int32"):
        ex.copyto(into, [1, 2])
    with pytest.raises(ex.OperandError, match="casting='unsafe'"):
        ex.copyto(into, np.array([1.5, 2.5, 3.5]))
    real = ex.Vector([1.0, 2.0])
    with pytest.raises(ex.OperandError, match=r"copyto of complex128 into 2 float64"):
        ex.copyto(real, np.array([1j, 2.0]))
    assert real.array.tolist() == [1, 2]
    with pytest.raises(ex.OperandError, match="copyto into a list"):
        ex.copyto([1, 2], [1, 2])  # type: ignore[arg-type]
    assert into.array.tolist() == [1, 2, 3]
    ex.copyto(into, ex.Vector([1, 2, 3]) * 2)
    assert into.array.tolist() == [2, 4, 6]
    held = into + 1
    with pytest.raises(ex.StateError, match="shared"):
        ex.copyto(into, [1, 2, 3])
    assert ex.evaluate(held).tolist() == [3, 5, 7]


# -- M-D10, M-E10: element types and devices from outside --------------------------------------------------------------


@pytest.mark.spec("M-D10", headline=True)
def test_a_users_element_type_works() -> None:
    """Use an element type declared in a cell as float32 is used: operators, products, views, gradients."""
    numbers = np.array([[1.5, -2.25], [0.5, 3.0]])
    x = ex.tensor(numbers, fixed)
    assert repr(x.type) == "2×2 fixed8"
    y = (x @ x + x.T * 0.5 - 1).sum(axis=0)
    assert y.dtype == fixed.dtype
    want = (numbers @ numbers + numbers.T * 0.5 - 1).sum(axis=0)
    np.testing.assert_allclose(ex.evaluate(y.astype(np.float64)), want, atol=2 / 256)
    assert fixed.read(ex.evaluate(y)).tolist() == ex.evaluate(y.astype(np.float64)).tolist()
    np.testing.assert_allclose(ex.evaluate(ex.grad((x * x).sum(), x).astype(float)), 2 * numbers, atol=2 / 256)
    parts = [x[0], x.reshape(4)[1:3], ex.concatenate([x, x])[2], ex.stack([x, x])[1, 0], ex.where(x > 0, x, -x)[0]]
    assert ex.evaluate(x > 0).tolist() == (numbers > 0).tolist()
    assert [ex.evaluate(part.astype(float)).tolist() for part in parts] == [
        [1.5, -2.25],
        [-2.25, 0.5],
        [1.5, -2.25],
        [1.5, -2.25],
        [1.5, 2.25],
    ]
    assert ex.evaluate(ex.tensor([100.0], fixed).astype(float) + 1).tolist() == [101.0]
    assert ex.evaluate((ex.tensor([100.0], fixed) * 2).astype(float)).tolist() == [32767 / 256]
    with pytest.raises(ex.OperandError, match="x\\.astype\\(fixed8\\)"):
        x + ex.tensor(numbers)
    assert float(x[0, 0] + 1) == 2.5
    assert np.asarray(x, np.float32).tolist() == numbers.tolist()
    into = ex.Matrix(2, 2)
    into[0] = x[0]
    into[1] = x.array[1]
    assert into.array.tolist() == numbers.tolist()


@pytest.mark.spec("M-D10")
def test_structure_and_sameness_of_a_users_element_type() -> None:
    """Rules, dedup, pictures and recordings know a user's element type."""
    x = ex.tensor([1.5, 2.5], fixed)
    plan = ex.EvalPlan(record="values")
    handle = plan.register(x * 1 + ex.ZeroTensor((2,), fixed) + (x + x) * (x + x))
    plan.eval()
    assert fixed.read(handle.data()).tolist() == [10.5, 27.5]
    assert {"neutral", "zero_term", "merged"} <= codes(plan.recording.decisions)
    assert "fixed8" in {kind.dtype for kind in plan.recording.types}
    assert "fixed8" in str(x)


@pytest.mark.spec("M-D10")
def test_kernels_of_an_element_type() -> None:
    """A kernel registered for (operation, element type) computes on what is stored."""

    class Saturating(FixedPoint):
        """Fixed point whose sums are of whole numbers."""

    element = Saturating("saturating8")
    seen = []
    x = ex.tensor([1.5, 120.0], element)
    assert element.read(ex.evaluate(x + x)).tolist() == [3.0, 32767 / 256]

    @ex.kernel("add", on=element)
    def add(operation: ex.Operation, out: Any, a: Any, b: Any) -> None:
        seen.append(a.dtype)
        np.copyto(out, np.clip(a.astype(np.int32) + b, -32768, 32767), casting="unsafe")

    assert element.read(ex.evaluate(x + x)).tolist() == [3.0, 32767 / 256]
    assert seen == [np.int16]

    @ex.kernel("add", on=element)
    def again(operation: ex.Operation, out: Any, a: Any, b: Any) -> None:
        np.subtract(a, b, out=out)

    assert element.read(ex.evaluate(x + x)).tolist() == [0.0, 0.0]  # the newest kernel, in every plan
    assert Saturating("saturating8") == element  # the cell is run again
    with pytest.raises(ex.DeclarationError, match="a second element type 'saturating8'"):
        FixedPoint("saturating8")


@pytest.mark.spec("M-D10")
def test_dtypes_of_numpy_extensions_work() -> None:
    """A dtype that an extension of NumPy declares works where NumPy computes with it."""
    from numpy._core._rational_tests import rational

    x = ex.tensor(np.array([rational(1, 2), rational(1, 3)]))
    assert ex.evaluate(x * x + x).tolist() == [rational(3, 4), rational(4, 9)]


@pytest.mark.spec("M-D10", "M-E10")
def test_a_users_device_works() -> None:
    """A device declared in a cell, with memory of its own and kernels registered, runs expressions in plans."""
    numbers = np.array([[1.0, 2.0], [3.0, 4.0]])
    x = ex.tensor(numbers, device=there)
    assert (x.device, x.array.tolist()) == (there, numbers.tolist())
    y = (x @ x + x) * 2 - 1
    assert repr(y.type) == "2×2 float64 on conformance"
    there.told.clear()
    (value,), taken = decisions(y)
    np.testing.assert_array_equal(value, (numbers @ numbers + numbers) * 2 - 1)
    assert not value.flags.writeable
    assert there.told.count("read") == 1  # the result
    assert "device" in codes(taken, applied=False)
    x = ex.tensor([1.0, 2.0], device=there)
    x[0] = 7.0
    assert x.array.tolist() == [7.0, 2.0]
    assert ex.evaluate(ex.ZeroTensor((2,), np.float64, there)).tolist() == [0.0, 0.0]


@pytest.mark.spec("M-E10", "M-D10")
def test_copies_between_devices_are_seen() -> None:
    """Mixed devices are refused, naming the fix; a copy is a node with a gradient, and goes where it is not needed."""
    here, x = ex.tensor([1.0, 2.0]), ex.tensor([3.0, 4.0], device=there)
    with pytest.raises(ex.OperandError, match=r"x\.to_device\(explorer\.device\('cpu'\)\)"):
        here + x
    loss = ((x * x).to_device(ex.cpu) * here).sum()
    (value, gradient), taken = decisions(loss, ex.grad(loss, x))
    assert value == 9.0 + 32.0
    assert gradient.tolist() == [6.0, 16.0]
    plan = ex.EvalPlan(record="values")
    plan.register(loss)
    plan.eval()
    assert "to cpu" in plan.recording.nodes.label
    texts = {plan.recording.type_text(node) for node in range(len(plan.recording.nodes))}
    assert {"2 float64 on conformance", "2 float64"} <= texts
    (value,), taken = decisions(here.to_device(there).to_device(ex.cpu) + 1)
    assert value.tolist() == [2.0, 3.0]
    assert "RoundTripCopy" in {decision.rule for decision in taken}
    for described in (ex.ZeroTensor((2,)), ex.TrivialTensor(3.0, (2,)), ex.BiasVector(2, 1)):
        copied = described.to_device(there)
        (value,), taken = decisions(copied + copied)
        assert value.tolist() == (2 * ex.evaluate(described)).tolist()
        assert "RecreateConstantOnDevice" in {decision.rule for decision in taken}


@pytest.mark.spec("M-E10", headline=True)
def test_a_plan_for_each_device() -> None:
    """Keep a default plan for each device; a plan of a device refuses values that are elsewhere."""
    x, here = ex.tensor([1.0, 2.0], device=there), ex.tensor([1.0])
    handles = [(x + x).eval_register(), (here + here).eval_register()]
    ex.default_plan(there).eval()
    assert handles[0].data().tolist() == [2.0, 4.0]
    with pytest.raises(ex.StateError, match="before its evaluation"):
        handles[1].data()
    ex.default_plan().eval()
    assert handles[1].data().tolist() == [2.0]
    with pytest.raises(ex.OperandError, match="in the plan of conformance"):
        ex.EvalPlan(device=there).register(here)


@pytest.mark.spec("M-D10", "M-E10")
def test_what_a_device_cannot_do_is_told() -> None:
    """An operation without a kernel on a device is told before anything runs, and no rule brings one in."""
    x = ex.tensor([1.0, 2.0], device=there)
    with pytest.raises(ex.DeclarationError, match=r"@explorer\.kernel\('exp', on=conformance\)"):
        ex.evaluate(np.exp(x))
    a, b, c = x * 1.5, x * 2.5, x * 3.5
    (value,), _ = decisions(a + b + c)
    assert value.tolist() == [7.5, 15.0]

    @ex.kernel("negative", on=there)
    def wrong(operation: ex.Operation, out: Any, a: Any) -> Any:
        return Block(np.ones(7))

    with pytest.raises(ex.RunError, match="gave the shapes"):
        ex.evaluate(-x)


@pytest.mark.spec("M-D10")
def test_memory_of_a_device_is_given_back() -> None:
    """A chain of a hundred operations on a device holds few of its arrays at a time."""
    import gc
    import weakref

    alive: weakref.WeakSet[Block] = weakref.WeakSet()
    most = 0
    real = there.empty

    def empty(shape: Any, dtype: Any) -> Any:
        nonlocal most
        tensor = real(shape, dtype)
        alive.add(tensor)
        most = max(most, len(alive))
        return tensor

    x = ex.tensor(np.ones(4), device=there)
    y = x
    for _ in range(100):
        y = y + x
    there.empty = empty  # type: ignore[method-assign]
    try:
        value = ex.evaluate(y)
    finally:
        del there.empty  # type: ignore[method-assign]
        gc.collect()
    assert value.tolist() == [101.0] * 4
    assert most <= 3


@pytest.mark.spec("M-D10")
def test_a_cell_may_be_run_again() -> None:
    """A device declared again by the same class is the same device; another class of that name is refused."""
    before = ex.tensor([1.0], device=there)
    assert Counting("conformance") is there
    assert ex.evaluate(before + before).tolist() == [2.0]
    with pytest.raises(ex.DeclarationError, match="a second device 'conformance'"):
        ex.Device("conformance")


# -- M-D11: every data type registers for evaluation -------------------------------------------------------------------


@pytest.mark.spec("M-D11")
@pytest.mark.parametrize(
    "make",
    [
        lambda: ex.Scalar(2.0, np.float32),
        lambda: ex.Matrix([[1, 2], [3, 4]], np.float32),
        lambda: ex.ZeroTensor((2, 2)),
        lambda: ex.TrivialTensor(2.0, (2, 2)),
        lambda: ex.BiasVector(100, 37, 4.0),
        lambda: Diagonal([1, 2]),
        lambda: ex.make_dynamic(ex.BiasVector(5, 1)),
        lambda: _scalable(),
        lambda: ex.Matrix(2, 2) @ ex.Matrix(2, 2),
    ],
)
def test_all_data_registers_for_evaluation(make: Callable[[], Any]) -> None:
    """Every data type, plain tensors too, registers for evaluation and evaluates to its principal type."""
    data = make()
    handle = data.eval_register()
    with pytest.raises(ex.StateError, match="before its evaluation"):
        handle.data()
    ex.default_plan().eval()
    value = handle.data()
    assert type(value) is np.ndarray
    assert (value.shape, value.dtype) == (data.shape, data.dtype)
    np.testing.assert_array_equal(value, ex.evaluate(data))


def _scalable() -> ex.ScalableTensor:
    grown = ex.ScalableTensor((2,))
    grown.push_back([1, 2])
    return grown


@pytest.mark.spec("M-D11")
def test_positions_count_from_zero() -> None:
    """BiasVector(100, 37, v) has v at index 37, counted from zero, and its docstring says so."""
    assert np.flatnonzero(ex.evaluate(ex.BiasVector(100, 37, 2.0))).tolist() == [37]
    assert "counted from zero" in (ex.BiasVector.__doc__ or "")


# -- M-D2, M-D11, M-D12: sizes -----------------------------------------------------------------------------------------


@pytest.mark.spec("M-D2", "M-D11")
def test_structured_tensors_take_a_shape_or_sizes_one_by_one() -> None:
    """ZeroTensor(5, 10, 20) is ZeroTensor((5, 10, 20)); a dtype and a device may follow by place, as ever."""
    for value, shape, dtype in (
        (ex.ZeroTensor(5, 10, 20), (5, 10, 20), np.float32),
        (ex.ZeroTensor((5, 10), np.int8), (5, 10), np.int8),
        (ex.ZeroTensor(5, 10, np.float64, ex.cpu), (5, 10), np.float64),
        (ex.ZeroTensor(np.int64(2), 1, 1, 1, 3, dtype=bool), (2, 1, 1, 1, 3), np.bool_),
        (ex.ZeroTensor(()), (), np.float32),
        (ex.TrivialTensor(4, 10, 20), (10, 20), np.float32),
        (ex.TrivialTensor(4, (10, 20), np.int16), (10, 20), np.int16),
        (ex.TrivialTensor(4, [2], dtype=np.int16), (2,), np.int16),
    ):
        assert (value.shape, value.dtype) == (shape, dtype)
        assert ex.evaluate(value).shape == shape
    for wrong in (
        lambda: ex.ZeroTensor(),
        lambda: ex.ZeroTensor(np.float32),
        lambda: ex.ZeroTensor((2, 3), 4),
        lambda: ex.ZeroTensor(2, -3),
        lambda: ex.ZeroTensor(2, np.float32, 3),
        lambda: ex.TrivialTensor(1.0),
    ):
        with pytest.raises(ex.OperandError):
            wrong()
    with refused(ex.OperandError, "dtype"):
        ex.tensor(10, 20)


@pytest.mark.spec("M-D2")
def test_the_element_type_is_the_given_scalars() -> None:
    """BiasVector(100, 37, Scalar(3, int32)) is int32; Python's numbers are float32; dtype= says otherwise."""
    for make in (lambda v, **o: ex.TrivialTensor(v, 2, 3, **o), lambda v, **o: ex.BiasVector(100, 37, v, **o)):
        for dtype in (np.int32, np.float64, np.uint8, np.complex64):
            tensor = make(ex.Scalar(3, dtype=dtype))
            assert tensor.dtype == dtype
            assert ex.evaluate(tensor).max() == 3
        assert make(3).dtype == make(0.3).dtype == np.float32
        assert make(ex.Scalar(0.3, dtype=np.float64), dtype=np.float32).dtype == np.float32
        with refused(ex.OperandError, "Scalar"):
            make(ex.Scalar(0.3) + 1)
        with refused(ex.OperandError, "Scalar"):
            make(ex.Vector([0.3]))


NAMED = {"length": {1: 0}, "rows": {2: 0, 3: 1}, "columns": {2: 1, 3: 2}, "channels": {3: 0}}


@pytest.mark.spec("M-D12", headline=True)
@pytest.mark.parametrize("rank", range(5))
def test_a_shape_tells_the_sizes_that_its_category_has(rank: int) -> None:
    """Read sizes by the names of the category: length, rows and columns, channels; others are an error."""
    shape = (5, 6, 7, 8)[:rank]
    x = ex.tensor(np.ones(shape))
    for value in (x, x + 1, ex.ZeroTensor(shape)):
        assert value.shape == shape
        assert hash(value.shape) == hash(shape)
        assert repr(value.shape) == repr(shape)
        for name, places in NAMED.items():
            if rank in places:
                assert getattr(value.shape, name) == shape[places[rank]]
                continue
            assert not hasattr(value.shape, name)
            with pytest.raises(ex.OperandError, match=f"the {name} of a {ex.category(value)}"):
                getattr(value.shape, name)


@pytest.mark.spec("M-D12")
def test_shapes_as_attributes_are_plain_tuples() -> None:
    """An operation made of an expression's shape is the one made of the tuple, and keeps a tuple."""
    x = ex.Matrix(3, 4)
    y = x.reshape(12).reshape(x.shape)
    assert y.operation is x.reshape(12).reshape((3, 4)).operation
    assert type(y.operation.attributes["shape"]) is tuple
    d = Diagonal([1, 2, 3])
    assert d.shape.rows == 3


@pytest.mark.spec("M-D3")
def test_a_class_has_a_category_where_all_its_data_have_one() -> None:
    """A class attribute `type` answers; where it is a property, the error says to ask an instance."""

    class Eye(ex.Data):
        """The unit matrix of 3 × 3."""

        type = ex.TensorType((3, 3), np.float32)

        def evaluate(self) -> Any:
            return np.eye(3, dtype=np.float32)

    assert ex.is_matrix(Eye)
    assert ex.is_matrix(Eye())
    for ask in (ex.is_matrix, ex.is_scalar, ex.is_vector, ex.is_three_d_array, ex.category):
        for kind in (Diagonal, ex.Data, int, np.ndarray):
            with pytest.raises(ex.OperandError, match=f"the category of the class {kind.__name__}"):
                ask(kind)
    assert ex.is_matrix(Diagonal([1, 2]).type)


@pytest.mark.spec("M-D7")
def test_equality_by_operators_is_elementwise() -> None:
    """== and != record comparisons of elements, as NumPy's: same() alone asks for identity."""
    x = ex.tensor([1.0, 2.0, np.nan])
    assert ex.evaluate(x == copy.copy(x)).tolist() == [True, True, False]
    assert ex.evaluate(x != copy.copy(x)).tolist() == [False, False, True]
    assert ex.same(x, copy.copy(x))
    assert "==" in (ex.same.__doc__ or "")


@pytest.mark.spec("M-O7")
def test_the_nested_form_tells_a_device_that_is_not_cpu() -> None:
    """print(y) names the device beside shape and dtype where it is another one than cpu."""
    other = ex.Device("elsewhere")
    text = str(ex.tensor(np.ones((2, 3)), device=other).to_device(ex.cpu) + 1)
    assert text.count(" on elsewhere") == 1
    assert "matrix 2×3 float64 on elsewhere" in text
