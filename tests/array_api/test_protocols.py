"""Protocols of the array API standard: namespace, DLPack, Python numbers and indices."""

from __future__ import annotations

import operator

import numpy as np
import pytest

import explorer as ex
from explorer import array_api as xp


def norm(x):
    """Compute with the namespace of an operand, as libraries for the standard do."""
    names = x.__array_namespace__()
    scaled = names.astype(x, names.float64) / names.max(names.abs(x))
    return names.sqrt(names.sum(scaled * scaled, axis=-1))


@pytest.mark.spec("H-8")
def test_a_function_written_for_the_standard_records_expressions() -> None:
    """The same function computes with NumPy, and its recording is planned."""
    values = np.arange(6.0).reshape(2, 3)
    plan = ex.EvalPlan()
    handle = plan.register(norm(ex.tensor(values)))
    plan.eval()
    np.testing.assert_allclose(handle.data(), norm(values))


@pytest.mark.spec("H-8")
def test_another_version_of_the_standard_is_an_error() -> None:
    assert ex.tensor([1.0]).__array_namespace__(api_version="2023.12") is xp
    assert xp.__array_api_version__ == "2024.12"
    with pytest.raises(ex.OperandError, match=r"2024\.12"):
        ex.tensor([1.0]).__array_namespace__(api_version="2019.01")


@pytest.mark.spec("H-8")
def test_the_namespace_describes_itself() -> None:
    info, numpys = xp.__array_namespace_info__(), np.__array_namespace_info__()
    assert info.dtypes() == numpys.dtypes()
    for kind in ("bool", "signed integer", "integral", "numeric", ("real floating", "bool")):
        assert info.dtypes(kind=kind) == numpys.dtypes(kind=kind)
    assert info.default_dtypes() == numpys.default_dtypes()
    assert info.capabilities() == {**numpys.capabilities(), "boolean indexing": False, "data-dependent shapes": False}
    assert info.default_device() in info.devices()
    with pytest.raises(ex.OperandError, match="numeric"):
        info.dtypes(kind="integer")


@pytest.mark.spec("H-8")
def test_python_numbers_and_indices_of_scalars() -> None:
    count = ex.sum(ex.tensor([1, 2]))
    assert (operator.index(count), list(range(count)), "abcd"[count]) == (3, [0, 1, 2], "d")
    assert complex(ex.tensor(np.array(1 + 2j)) * 2) == 2 + 4j
    assert complex(ex.tensor(1.5)) == 1.5
    for wrong in (ex.tensor(1.0), ex.tensor([1]), ex.tensor(np.array(True))):
        with pytest.raises(ex.OperandError, match="an integer scalar"):
            operator.index(wrong)
    with pytest.raises(ex.StateError, match=r"inside an @ex\.function"):
        ex.function(lambda x: ex.tensor([1.0, 2.0])[operator.index(x)])(ex.tensor(1))


@pytest.mark.spec("H-8")
def test_values_go_to_other_libraries_and_back_by_dlpack() -> None:
    """A result is copied, so another library may write to it; an array that is read is copied, too."""
    y = ex.tensor(np.arange(3.0)) + 1
    assert y.__dlpack_device__() == np.ones(1).__dlpack_device__()
    array = np.from_dlpack(y)
    np.testing.assert_array_equal(array, [1, 2, 3])
    np.testing.assert_array_equal(ex.evaluate(y), [1, 2, 3])
    source = np.arange(4)
    read = xp.from_dlpack(source)
    source[0] = 9
    np.testing.assert_array_equal(ex.evaluate(read), [0, 1, 2, 3])
    with pytest.raises(BufferError, match="must not be written to"):
        np.from_dlpack(y, copy=False)
    with pytest.raises(ex.OperandError, match="omit copy"):
        xp.from_dlpack(source, copy=False)


def test_creation_functions_state_what_is_wrong() -> None:
    with pytest.raises(ex.OperandError, match="copy=False"):
        xp.asarray([1, 2], copy=False)
    with pytest.raises(ex.OperandError, match="at least one array or dtype"):
        xp.result_type(1, 2.0)
    with pytest.raises(ex.OperandError, match='side must be "left" or "right"'):
        xp.searchsorted(ex.tensor([1.0]), ex.tensor([1.0]), side="above")
    for call in (lambda: xp.eye(-1), lambda: xp.linspace(0, 1, -1), lambda: xp.arange(1, 5, 0)):
        with pytest.raises(ex.OperandError, match="must be those of np"):
            call()
    with pytest.raises(ex.OperandError, match="aligned at their last axes"):
        xp.broadcast_arrays(ex.tensor([1.0, 2.0]), ex.tensor([1.0, 2.0, 3.0]))
    with pytest.raises(ex.OperandError, match="must be a vector"):
        xp.searchsorted(ex.tensor([[1.0]]), ex.tensor([1.0]))
    x = ex.tensor([1.0])
    assert xp.asarray(x, device="cpu") is x
    assert xp.zeros_like(x).operation.name == "zeros"
    assert xp.asarray([x[0], 2.0]).shape == (2,)


@pytest.mark.spec("H-8")
def test_descending_orders_are_stable() -> None:
    x = ex.tensor(np.array([2, 1, 2, 3, 1]))
    assert ex.evaluate(xp.argsort(x, descending=True)).tolist() == [3, 0, 2, 1, 4]
    assert ex.evaluate(xp.sort(x, descending=True)).tolist() == [3, 2, 2, 1, 1]


@pytest.mark.spec("H-8")
def test_searchsorted_accepts_a_sorter() -> None:
    x = ex.tensor([3.0, 1.0, 2.0])
    found = xp.searchsorted(x, ex.tensor([1.0, 2.5]), side="right", sorter=xp.argsort(x))
    assert ex.evaluate(found).tolist() == [1, 2]
