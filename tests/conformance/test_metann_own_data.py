"""MetaNN's user-defined data types, dynamic data, scalable tensors, and equality of data."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest

import explorer as ex
from tests.support.foreign import there


class Diagonal(ex.Data):
    """A square matrix that stores only its diagonal."""

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
    """Return the values of expressions and the decisions of their plan."""
    plan = ex.EvalPlan(**options)
    handles = [plan.register(root) for root in roots]
    plan.eval()
    return [handle.data() for handle in handles], plan.recording.decisions


def codes(found: list[Any], applied: bool = True) -> set[str]:
    return {decision.code for decision in found if (decision.verdict == "applied") == applied}


A, B = ex.tensor([1.0, 2.0]), ex.tensor([1.0, 2.0])


D = Diagonal([1.0, 2.0])


@pytest.mark.spec("M-D4", "M-D11", headline=True)
def test_a_user_defined_data_type_can_be_an_operand() -> None:
    """Use a data type defined in a cell as an operand; it evaluates to its array and is drawn with its name."""
    d, x = Diagonal([1, 2, 3]), np.arange(9, dtype=np.float32).reshape(3, 3)
    want = np.diag(d.diagonal)
    y = np.exp(d) + d @ x - 2 * d + d.T
    (value,), _ = decisions(y)
    np.testing.assert_allclose(value, np.exp(want) + want @ x - 2 * want + want.T, rtol=1e-6)
    assert d.evaluated == 1  # one node for any number of uses
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
def test_rules_can_match_a_user_defined_data_type() -> None:
    """A rule uses the structure of an operand with such a type."""

    class ScaledRows(ex.Rule):
        """A diagonal matrix times a matrix scales the matrix's rows."""

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
def test_a_user_defined_data_type_is_used_like_a_tensor() -> None:
    """Test indexing, iteration, stacking, reduction, traced functions and exploring."""
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
def test_data_of_a_user_defined_type_on_a_user_defined_device() -> None:
    """Its value is written to the device."""

    class Elsewhere(Diagonal):
        """A diagonal matrix on another device."""

        @property
        def type(self) -> ex.TensorType:
            return ex.TensorType(super().type.shape, np.float32, there)

    d = Elsewhere([1, 2])
    assert d.device is there
    assert ex.evaluate(d @ d + d).tolist() == [[2, 0], [0, 6]]


@pytest.mark.spec("M-D4")
def test_an_object_with_an_expr_method_is_an_operand() -> None:
    """Any object is an operand if its __expr__() returns an expression."""

    class Offset:
        def __expr__(self) -> ex.Expr:
            return ex.TrivialTensor(4.0, (2,), np.float64)

    x = ex.tensor([1.0, 2.0])
    assert ex.evaluate(ex.add(x, Offset())).tolist() == [5.0, 6.0]
    assert ex.evaluate({"offset": Offset()})["offset"].tolist() == [4.0, 4.0]


@pytest.mark.spec("M-D4")
def test_an_incomplete_data_type_raises_an_error() -> None:
    """The error names the missing type, evaluate() or docstring, or the value's wrong shape."""
    with pytest.raises(ex.DeclarationError, match="without evaluate"):

        class Half(ex.Data):
            """Data with only a type."""

            @property
            def type(self) -> ex.TensorType:
                return ex.TensorType(())

    class Wrong(Diagonal):
        """A diagonal matrix whose value has another shape."""

        def evaluate(self) -> Any:
            return self.diagonal

    with pytest.raises(ex.RunError, match=r"returned an array of shape \(3,\)"):
        ex.evaluate(Wrong([1, 2, 3]))


@pytest.mark.spec("M-D5", "M-D11", headline=True)
def test_dynamic_data_hides_its_type() -> None:
    """Hide the concrete type of data with make_dynamic; values and identity stay, and try_cast recovers the type."""
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
def test_a_rule_declines_dynamic_data_with_a_reason() -> None:
    """The rule needs the concrete type, which dynamic data hides."""
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
def test_the_gradient_of_dynamic_data_is_the_gradient_of_the_hidden_data() -> None:
    x = ex.tensor([1.0, 2.0])
    assert ex.evaluate(ex.grad((ex.make_dynamic(x) * x).sum(), x)).tolist() == [2.0, 4.0]


@pytest.mark.spec("M-D6", "M-D11", headline=True)
def test_a_scalable_tensor_grows() -> None:
    """Grow a list of values and expressions of one shape, and use it as an operand with one more dimension."""
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
        with pytest.raises(ex.OperandError, match="all items must be 2 float64"):
            grown.push_back(wrong)


@pytest.mark.spec("M-D6")
def test_appending_allocates_rarely() -> None:
    """Memory doubles when it is full, reserve() allocates in advance, and operands are unchanging views."""
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
def test_gradients_of_appended_values() -> None:
    """The gradient of a pushed value is its element of the whole tensor's gradient."""
    x = ex.tensor([1.0, 2.0])
    grown = ex.ScalableTensor((2,), np.float64)
    for factor in (1.0, 2.0, 3.0):
        grown.push_back(x * factor)
    assert ex.evaluate(ex.grad((grown * grown).sum(), x)).tolist() == [28.0, 56.0]


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
    """Recognise copies, equal structures over one storage and equal metadata with same(a, b), reading no elements."""
    assert ex.same(a, b) is equal
    assert ex.same(b, a) is equal


@pytest.mark.spec("M-D7")
def test_results_of_a_copy_and_its_original_are_the_same() -> None:
    """Results of evaluating a copy and the original are the same; results of merely equal elements are not."""
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
    """Graphs of any depth are compared, visiting each pair of nodes once."""
    a = b = A
    for _ in range(20_000):
        a, b = a + a, b + b
    assert ex.same(a, b)
