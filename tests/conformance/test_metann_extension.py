"""M-O4: new operations, and new operand combinations for existing operations, need one declaration each."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import explorer as ex
from explorer.core import registry
from explorer.testing.laws import method_laws
from explorer.testing.laws.cases import Case

CELL = """
import explorer as ex
import numpy as np

class MatmulOfScalar(ex.Elementwise, extends=ex.matmul):
    "A scalar @ a tensor, or a tensor @ a scalar, is their product."

    commutative = True
    examples = (ex.Example(ex.real(), ex.real(2, 3)), ex.Example(ex.real(4), ex.real()))

    def infer(self, a, b):
        if a.shape and b.shape:
            raise self.refuse((a, b), "one of the operands is a scalar")
        return super().infer(a, b)

    def kernel(self, out, a, b):
        return np.multiply(a, b, out=out)

    def gradient(self, g, y, a, b):
        return g * b, g * a

    def batch(self, size, batched, a, b):
        return ex.multiply.batch(size, batched, a, b)
"""


@pytest.fixture
def cell() -> Iterator[dict[str, Any]]:
    """Return the names that a notebook cell with the declaration defines; the registry is restored after the test."""
    held = {name: dict(getattr(registry, name)) for name in ("operations", "functions", "extensions")}
    space: dict[str, Any] = {"__name__": "__main__"}
    exec(compile(CELL, "<cell 7>", "exec"), space)
    yield space
    for name, before in held.items():
        table = getattr(registry, name)
        table.clear()
        table.update(before)


MATRIX = np.arange(6.0).reshape(2, 3)


@pytest.mark.spec("M-O4")
def test_a_new_operand_combination_is_one_declaration(cell: dict[str, Any]) -> None:
    """matmul rejects scalars until a cell declares their meaning, which then has checks, dtypes and values."""
    x = ex.tensor(MATRIX)
    for y in (2.0 @ x, x @ 2.0, ex.matmul(ex.tensor(2.0), x), np.matmul(x, ex.tensor(2.0))):
        assert (y.shape, y.dtype) == ((2, 3), np.float64)
        np.testing.assert_array_equal(ex.evaluate(y), 2 * MATRIX)
    assert (x @ np.ones((3, 2))).operation is ex.matmul
    with pytest.raises(ex.OperandError) as caught:
        _ = x @ x
    assert caught.value.given.startswith("matmul")
    assert "the last axis of x (3)" in caught.value.rule
    assert "or, for matmul_of_scalar, one of the operands is a scalar" in caught.value.rule


@pytest.mark.spec("M-O4")
def test_a_new_combination_has_gradients_and_is_planned_batched_and_drawn(cell: dict[str, Any]) -> None:
    """Test the gradient, calls that become one batch, the plan's decisions and the drawing."""
    x, scale = ex.tensor(MATRIX, name="x"), ex.tensor(0.5, name="scale")
    loss = ex.tanh(scale @ x).sum()
    inner = 1 - np.tanh(0.5 * MATRIX) ** 2
    result = ex.evaluate(ex.grad(loss, [scale, x]))
    np.testing.assert_allclose(result[0], (inner * MATRIX).sum(), rtol=1e-13)
    np.testing.assert_allclose(result[1], inner * 0.5, rtol=1e-13)

    one = ex.function(lambda row: ex.tanh(scale @ row) * 2.0)
    plan = ex.EvalPlan()
    handle = plan.register(ex.add_n(*[one(ex.tensor(np.full(300, float(n)))) for n in range(40)]))
    again = plan.register(ex.tanh(scale @ x) + ex.tanh(scale @ x))
    plan.eval()
    np.testing.assert_allclose(handle.data(), sum(2 * np.tanh(0.5 * n) for n in range(40)) * np.ones(300), rtol=1e-13)
    np.testing.assert_allclose(again.data(), 2 * np.tanh(0.5 * MATRIX), rtol=1e-13)
    said = plan.explain()
    assert "matmul_of_scalar" in said
    assert {"merged", "batched"} <= {decision.code for decision in plan.recording.decisions}
    assert "matmul_of_scalar" in ex.explore(loss)._repr_mimebundle_()[0]["image/svg+xml"]


@pytest.mark.spec("M-O4")
@pytest.mark.parametrize("example", [0, 1])
def test_the_laws_hold_for_a_user_defined_combination(cell: dict[str, Any], example: int) -> None:
    """Its declaration contains examples, so that every law about operations can be tested."""
    kind = cell["MatmulOfScalar"]
    case = Case(kind(), kind.examples[example])
    method_laws.gradient_equals_differences(case)
    method_laws.second_gradient_equals_differences(case)
    method_laws.batched_equals_loop(case, 3)
    method_laws.inferred_type_is_the_kernels(case, "float32")
    method_laws.garbage_does_not_matter(case, "float64")


@pytest.mark.spec("M-O4")
def test_the_first_matching_combination_is_recorded(cell: dict[str, Any]) -> None:
    """Running the cell of a combination again replaces it."""
    with pytest.warns(ex.OperationRedefined, match="matmul_of_scalar"):
        exec(compile(CELL.replace("np.multiply(", "np.add("), "<cell 8>", "exec"), cell)
    assert [operation_class.name for operation_class in registry.extensions["matmul"]] == ["matmul_of_scalar"]
    np.testing.assert_array_equal(ex.evaluate(2.0 @ ex.tensor(MATRIX)), 2 + MATRIX)

    class Never(ex.Elementwise, extends=ex.matmul):
        """Another meaning of a scalar, declared too late."""

        examples = (ex.Example(ex.real(), ex.real(2, 3)),)
        nondifferentiable = "it is never recorded"

        def kernel(self, out: Any, a: Any, b: Any) -> Any:
            return np.subtract(a, b, out=out)

    assert (ex.tensor(2.0) @ ex.tensor(MATRIX)).operation.name == "matmul_of_scalar"


@pytest.mark.spec("M-O4")
def test_every_combination_of_an_operation_is_tried(cell: dict[str, Any]) -> None:
    """The second of two combinations accepts what the first rejects; an error contains the rules of both."""

    class RowDots(ex.Operation, extends=ex.matmul):
        """Dot products of the rows of two matrices with equal shapes."""

        examples = (ex.Example(ex.real(2, 3), ex.real(2, 3)),)
        nondifferentiable = "a test's operation"
        unbatchable = "a test's operation"

        def infer(self, a: Any, b: Any) -> Any:
            if a.shape != b.shape or a.rank != 2:
                raise self.refuse((a, b), "both have one shape")
            return a.with_shape(a.shape[:1])

        def flops(self, result: Any, a: Any, b: Any) -> int:
            return 2 * a.size

        def kernel(self, out: Any, a: Any, b: Any) -> Any:
            return np.sum(a * b, axis=1, out=out)

    x = ex.tensor(MATRIX)
    np.testing.assert_array_equal(ex.evaluate(x @ x), (MATRIX * MATRIX).sum(axis=1))
    np.testing.assert_array_equal(ex.evaluate(2.0 @ x), 2 * MATRIX)
    assert [(x @ x).operation.name, (x @ 2.0).operation.name, (x @ x.T).operation.name] == [
        "row_dots", "matmul_of_scalar", "matmul"
    ]  # fmt: skip
    with pytest.raises(ex.OperandError) as caught:
        _ = x @ ex.tensor(np.ones((2, 4)))
    assert "for matmul_of_scalar, one of the operands is a scalar" in caught.value.rule
    assert "for row_dots, both have one shape" in caught.value.rule


@pytest.mark.spec("M-O4")
def test_a_combination_has_the_attributes_of_the_operation_that_it_extends(cell: dict[str, Any]) -> None:
    """Attributes are passed by name; an unknown attribute raises an error immediately."""
    from explorer.ops.manipulation.reshape import Cast

    class CastOfComplex(ex.Operation, extends=Cast):
        """Convert complex numbers to their absolute value."""

        dtype: np.dtype[Any]
        nondifferentiable = "must be real"
        unbatchable = "a test's operation"
        examples = (ex.Example(ex.real(2, dtype="complex128"), dtype=np.dtype("float64")),)

        def infer(self, x: ex.TensorType) -> ex.TensorType:
            if x.dtype.kind != "c":
                raise self.refuse((x,), "elements are complex")
            return x.with_dtype(self.dtype)

        def kernel(self, out: Any, x: Any) -> Any:
            np.copyto(out, np.abs(x), casting="same_kind")
            return out

        def flops(self, result: Any, *types: Any) -> int:
            return int(result.size)

    outcome = ex.evaluate(ex.tensor([3 + 4j]).astype(np.float32))
    assert outcome.dtype == np.float32
    np.testing.assert_array_equal(outcome, [5.0])
    with pytest.raises(ex.DeclarationError, match=r"with the attributes slope\n.*attributes of matmul: none"):

        class Wrong(ex.Elementwise, extends=ex.matmul):
            """x · slope."""

            slope: float
            nondifferentiable = "it is declared to fail"
            examples = (ex.Example(ex.real(2), slope=1.0),)

            def kernel(self, out: Any, x: Any) -> Any:
                return np.multiply(x, self.slope, out=out)
