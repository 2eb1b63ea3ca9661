"""MetaNN's data: constructors, categories, elements, copies and sizes, under their public names."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import explorer as ex
from tests.support.foreign import fixed, there
from tests.support.refusals import refused


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


def _scalable() -> ex.ScalableTensor:
    grown = ex.ScalableTensor((2,))
    grown.push_back([1, 2])
    return grown


NAMED = {"length": {1: 0}, "rows": {2: 0, 3: 1}, "columns": {2: 1, 3: 2}, "channels": {3: 0}}


@pytest.mark.spec("M-D11", "M-D1", headline=True)
@pytest.mark.parametrize(("make", "shape"), [(ex.Vector, (10,)), (ex.Matrix, (10, 20)), (ex.ThreeDArray, (2, 10, 20))])
def test_constructors_accept_sizes_or_a_value(make: Callable[..., ex.Tensor], shape: tuple[int, ...]) -> None:
    """Construct from a shape, Matrix(10, 20), or from values, Matrix(values); both have a shape, dtype and device."""
    by_shape = make(*shape)
    assert (by_shape.shape, by_shape.dtype, by_shape.device) == (shape, np.float32, ex.cpu)
    assert not by_shape.array.any()
    by_value = make(np.ones(shape), np.float64)
    assert (by_value.shape, by_value.dtype) == (shape, np.float64)
    with refused(ex.OperandError, "dtype"):
        make(*shape, 3, 4)


@pytest.mark.spec("M-D1", "M-D11")
@pytest.mark.parametrize("shape", [(), (10,), (10, 20), (4, 5, 6, 7), (2, 1, 3, 0, 2, 2)])
def test_a_tensor_of_any_rank_is_constructed_from_its_sizes(shape: tuple[int, ...]) -> None:
    """Tensor<int, CPU, 4>(4, 5, 6, 7) is ex.Tensor(4, 5, 6, 7, dtype=int): writable zeros."""
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
def test_invalid_sizes_raise_an_error(given: tuple[object, ...]) -> None:
    """A value is not a size, and the error shows how to pass sizes."""
    with pytest.raises(ex.ExplorerError) as refusal:
        ex.Tensor(*given)
    assert refusal.value.rule


@pytest.mark.spec("M-D11")
def test_the_value_of_a_scalar_is_converted_to_the_element_type() -> None:
    assert ex.Scalar(2.7, np.int32).array.tolist() == 2
    assert ex.Scalar(2.5, fixed.dtype).dtype == fixed.dtype
    assert ex.evaluate(ex.TrivialTensor(0.1, (2,), fixed).astype(np.float64)).tolist() == [26 / 256] * 2


@pytest.mark.spec("M-D3", headline=True)
def test_everything_has_a_category() -> None:
    """Return the category of data, expressions and arrays: scalar, vector, matrix or three-d array."""
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


@pytest.mark.spec("M-D8")
def test_elements_can_be_assigned() -> None:
    """t[i] = v and t[1:3] = … assign to a tensor without other readers; numbers are converted to its dtype."""
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
def test_writing_to_shared_storage_raises_an_error(share: Callable[[ex.Tensor], Any]) -> None:
    """Write elements of a tensor until an expression, view or result shares its storage; then raise an error."""
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
    """t[i] and t[1:3] are views that share the tensor's storage, also after evaluation."""
    t = ex.tensor(np.arange(12.0).reshape(4, 3))
    for view in (t[1], t[1:3], t[:, ::2]):
        assert np.shares_memory(ex.evaluate(view), t.array)
        with refused(ex.StateError):
            view[0] = 1.0


@pytest.mark.spec("M-D9", headline=True)
@pytest.mark.parametrize("target", [np.float64, np.float32, np.int32, fixed.dtype])
@pytest.mark.parametrize("source", [np.float64, np.float32, np.int32, fixed.dtype])
@pytest.mark.parametrize("devices", [(ex.cpu, ex.cpu), (ex.cpu, there), (there, ex.cpu), (there, there)])
def test_values_are_copied_between_dtypes_and_devices(target: Any, source: Any, devices: Any) -> None:
    """Copy between tensors of any dtypes on any devices; different shapes are an error."""
    into = ex.tensor(np.zeros((2, 2)), target, device=devices[0])
    copied = ex.tensor([[1, 2], [3, 4]], source, device=devices[1])
    ex.copyto(into, copied, casting="unsafe")
    for shape in ((2, 3), (4,), (1, 2)):
        with pytest.raises(ex.OperandError, match="copyto of shape"):
            ex.copyto(into, ex.tensor(np.zeros(shape), source, device=devices[1]), casting="unsafe")
    assert ex.evaluate(into.to_device(ex.cpu).astype(np.float64)).tolist() == [[1, 2], [3, 4]]


@pytest.mark.spec("M-D9")
def test_invalid_copies_raise_an_error() -> None:
    """A copy of another shape or an inconvertible dtype, or into shared storage, changes nothing."""
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
def test_all_data_can_be_registered_for_evaluation(make: Callable[[], Any]) -> None:
    """Every data type, including plain tensors, evaluates to its principal type."""
    data = make()
    handle = data.eval_register()
    with pytest.raises(ex.StateError, match="before its evaluation"):
        handle.data()
    ex.default_plan().eval()
    value = handle.data()
    assert type(value) is np.ndarray
    assert (value.shape, value.dtype) == (data.shape, data.dtype)
    np.testing.assert_array_equal(value, ex.evaluate(data))


@pytest.mark.spec("M-D11")
def test_positions_count_from_zero() -> None:
    """BiasVector(100, 37, v) has v at index 37, counted from zero, and its docstring states this."""
    assert np.flatnonzero(ex.evaluate(ex.BiasVector(100, 37, 2.0))).tolist() == [37]
    assert "counted from zero" in (ex.BiasVector.__doc__ or "")


@pytest.mark.spec("M-D2", "M-D11")
def test_structured_tensors_accept_a_shape_or_separate_sizes() -> None:
    """ZeroTensor(5, 10, 20) is ZeroTensor((5, 10, 20)); dtype and device may be positional, too."""
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
def test_the_element_type_is_the_type_of_the_given_scalar() -> None:
    """BiasVector(100, 37, Scalar(3, int32)) is int32; Python numbers give float32; dtype= overrides both."""
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


@pytest.mark.spec("M-D12", headline=True)
@pytest.mark.parametrize("rank", range(5))
def test_a_shape_has_named_sizes_for_its_category(rank: int) -> None:
    """Read sizes with the names of the category (length, rows and columns, channels); other names are an error."""
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
def test_shapes_as_attributes_become_plain_tuples() -> None:
    """An operation from an expression's shape is the same as one from a tuple, and stores a tuple."""
    x = ex.Matrix(3, 4)
    y = x.reshape(12).reshape(x.shape)
    assert y.operation is x.reshape(12).reshape((3, 4)).operation
    assert type(y.operation.attributes["shape"]) is tuple
    d = Diagonal([1, 2, 3])
    assert d.shape.rows == 3


@pytest.mark.spec("M-D3")
def test_a_class_with_one_type_has_a_category() -> None:
    """The class attribute `type` determines it; if `type` is a property, the error asks for an instance."""

    class Eye(ex.Data):
        """The 3 × 3 identity matrix."""

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
    """== and != record elementwise comparisons, as in NumPy; only same() compares identity."""
    x = ex.tensor([1.0, 2.0, np.nan])
    assert ex.evaluate(x == copy.copy(x)).tolist() == [True, True, False]
    assert ex.evaluate(x != copy.copy(x)).tolist() == [False, False, True]
    assert ex.same(x, copy.copy(x))
    assert "==" in (ex.same.__doc__ or "")


@pytest.mark.spec("M-O7")
def test_the_nested_form_includes_a_device_other_than_cpu() -> None:
    """print(y) shows the device after shape and dtype unless it is cpu."""
    other = ex.Device("elsewhere")
    text = str(ex.tensor(np.ones((2, 3)), device=other).to_device(ex.cpu) + 1)
    assert text.count(" on elsewhere") == 1
    assert "matrix 2×3 float64 on elsewhere" in text
