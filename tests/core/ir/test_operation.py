"""User-declared operations: complete or rejected with a clear error, interned by attributes, replaced by name."""

from __future__ import annotations

import gc
import pickle
import weakref
from typing import Any

import numpy as np
import pytest

import explorer as ex
from explorer.core import registry
from explorer.core.ir.expr import kernel_of
from explorer.ops.creation.constants import Full
from tests.support.refusals import refused


def declare() -> Any:
    """Declare x³ as a cell does; every call declares the same class again."""

    class CubeOfCell(ex.Elementwise):
        """x³."""

        examples = (ex.Example(ex.real(2, 3)), ex.Example(ex.real()))

        def kernel(self, out: Any, x: Any) -> Any:
            return np.multiply(x * x, x, out=out)

        def gradient(self, g: Any, y: Any, x: Any) -> Any:
            return (g * 3 * x * x,)

    return CubeOfCell


@pytest.mark.spec("M-O4", headline=True)
def test_an_operation_is_declared_with_one_class() -> None:
    """Declare an operation in one class; checks, gradient, batching, planning and functions then support it."""
    if "cube_of_cell" not in registry.operations:
        declare()
    x = ex.tensor([1.0, 2.0])

    @ex.function
    def f(a: ex.Expr) -> ex.Expr:
        return ex.cube_of_cell(a).sum()

    np.testing.assert_array_equal(ex.evaluate(ex.cube_of_cell(x)), [1.0, 8.0])
    np.testing.assert_array_equal(ex.evaluate(ex.grad(f(x), x)), [3.0, 12.0])
    np.testing.assert_array_equal(
        ex.evaluate(ex.cube_of_cell.batch(2, (True,), ex.stack([x, 2 * x]))), [[1, 8], [8, 64]]
    )
    with pytest.raises(ex.OperandError, match="must have 1 operand"):
        ex.cube_of_cell(x, x)


def test_declaring_an_operation_again_replaces_it_with_a_message() -> None:
    if "cube_of_cell" not in registry.operations:
        declare()
    held = registry.operations["cube_of_cell"]
    with pytest.warns(ex.OperationRedefined, match="'cube_of_cell' is declared again"):
        again = declare()
    assert registry.operations["cube_of_cell"] is again is not held
    assert isinstance(ex.cube_of_cell, again)


def test_missing_facets_are_all_listed() -> None:
    """An operation without required facets raises an error at its declaration that lists all of them."""
    with pytest.raises(ex.DeclarationError) as caught:

        class Empty(ex.Operation):
            pass

    message = str(caught.value)
    for missing in ("docstring", "infer()", "kernel()", "flops()", "gradient()", "batch()", "examples"):
        assert missing in message
    assert "empty" not in registry.operations
    with pytest.raises(ex.DeclarationError) as caught:

        class Half(ex.Elementwise):
            """x / 2."""

            def kernel(self, out: Any, x: Any) -> Any:
                return np.divide(x, 2, out=out)

    assert "gradient()" in str(caught.value)
    assert "docstring" not in str(caught.value)


def test_a_facet_without_a_facet_that_it_requires_raises_an_error() -> None:
    """The error is raised when the class is declared, not during a run."""
    with pytest.raises(
        ex.DeclarationError, match=r"lacks partial_reduce\(\), .*; pack_operand\(\), for the operand number 0"
    ):

        class Announced(ex.Elementwise):
            """x."""

            nondifferentiable = "a test"
            packed_operand = 0
            examples = (ex.Example(ex.real(3)),)

            @property
            def combine_ufunc(self) -> np.ufunc:
                return np.add

            def kernel(self, out: Any, x: Any) -> Any:
                return np.copyto(out, x)

    assert "announced" not in registry.operations


def test_a_name_belongs_to_one_operation() -> None:
    with pytest.raises(ex.DeclarationError, match="a second operation 'exp'"):

        class Exp(ex.Elementwise):
            """Not the exponential."""

            examples = (ex.Example(ex.real(2)),)
            nondifferentiable = "it is declared to fail"

            def kernel(self, out: Any, x: Any) -> Any:
                return out

    assert registry.operations["exp"].__module__ == "explorer.ops.elementwise.unary"
    with refused(ex.DeclarationError, "function"):

        class Flatten(ex.Elementwise):
            """Would replace a function of the package."""

            examples = (ex.Example(ex.real(2)),)
            nondifferentiable = "it is declared to fail"

            def kernel(self, out: Any, x: Any) -> Any:
                return out

    assert ex.flatten.__module__ == "explorer.ops.manipulation.reshape"


def test_equal_attributes_are_one_object() -> None:
    """Attributes are compared by type and bits: 1, 1.0 and True differ, 0.0 and −0.0 too, and NaN equals itself."""
    f64 = np.dtype("float64")

    def full(value: Any) -> Full:
        return Full(value, (2,), f64)

    different = [full(value) for value in (1, 1.0, True, 1 + 0j, 0.0, -0.0, 0, False, float("nan"), "1")]
    assert len({id(operation) for operation in different}) == len(different)
    assert full(float("nan")) is different[8]
    assert full(-0.0) is different[5]
    assert Full(value=1, shape=(2,), dtype=f64) is different[0]
    assert pickle.loads(pickle.dumps(different[5])) is different[5]
    assert Full(1, (2, True), f64) is not Full(1, (2, 1), f64)


def test_unused_operations_are_freed() -> None:
    held = [Full(1e6 + number, (3,), np.dtype("float64")) for number in range(100)]
    references = [weakref.ref(operation) for operation in held]
    assert all(reference() is not None for reference in references)
    del held
    gc.collect()
    assert all(reference() is None for reference in references)


def test_incomparable_attributes_raise_an_error() -> None:
    with refused(ex.DeclarationError, "operands"):
        Full(1.0, [2, 3], np.dtype("float64"))
    with refused(ex.DeclarationError, "operands"):
        Full(np.ones(2), (2,), np.dtype("float64"))


def test_attributes_are_immutable() -> None:
    operation = Full(1.0, (2,), np.dtype("float64"))
    with pytest.raises(AttributeError):
        operation.value = 2.0
    assert operation.attributes == {"value": 1.0, "shape": (2,), "dtype": np.dtype("float64")}


def test_the_error_of_an_unknown_operation_lists_similar_ones() -> None:
    with pytest.raises(ex.UnknownNameError, match="softmax"):
        registry.function("sofmax")
    with pytest.raises(ex.UnknownNameError, match="conv2d"):
        ex.operation("conv2")


def test_operands_must_be_on_one_device() -> None:
    other = _device("law-test-device")
    here, there = ex.TensorType((2,)), ex.TensorType((2,), np.float32, other)
    with refused(ex.OperandError, "device") as caught:
        ex.add.type_of((here, there))
    assert "law-test-device" in str(caught.value)
    assert ex.add.type_of((there, there)).device is other
    with refused(ex.DeclarationError, "kernel"):
        kernel_of(ex.add, other)
    ex.kernels[type(ex.add), other] = lambda operation, out, a, b: (operation.name, a + b)
    try:
        assert kernel_of(ex.add, other)(None, 1, 2) == ("add", 3)
    finally:
        del ex.kernels[type(ex.add), other]


def _device(name: str) -> ex.Device:
    try:
        return ex.device(name)
    except ex.UnknownNameError:
        return ex.Device(name)


def test_errors_about_wrong_and_about_unhashable_attributes_differ() -> None:
    with refused(ex.DeclarationError, "operands"):
        Full(np.ones(3), (3,), np.dtype("float64"))
    with pytest.raises(TypeError, match="missing 1 required positional argument: 'dtype'"):
        Full(1.0, (3,))


def test_a_mistake_inside_an_operation_is_not_reported_as_an_unhashable_attribute() -> None:
    class Mistaken(ex.Elementwise):
        """x, with a mistake in its constructor."""

        size: int
        nondifferentiable = "a test"
        examples = (ex.Example(ex.real(2), size=1),)

        def __post_init__(self) -> None:
            super().__post_init__()
            len(self.size)  # type: ignore[arg-type]

        def kernel(self, out: Any, x: Any) -> Any:
            np.copyto(out, x)
            return out

    with pytest.raises(TypeError, match="has no len"):
        Mistaken(3)
    del registry.operations[Mistaken.name]
