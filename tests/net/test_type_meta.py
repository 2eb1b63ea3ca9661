"""Type metadata: one object for each type, and the lifetime of elements in a block."""

from __future__ import annotations

import pickle
import threading
from typing import Any

import numpy as np
import pytest

import explorer as ex
from tests.support.accelerator import accelerator
from tests.support.refusals import refused

EVENTS: list[str] = []


class Telling(ex.Device):
    """Memory that reports when it is freed."""

    def delete(self, memory: Any) -> None:
        EVENTS.append(f"delete {memory.nbytes}")


class Counter:
    """A value that reports its construction and destruction."""

    made = 0

    def __init__(self) -> None:
        Counter.made += 1
        self.number = Counter.made
        self.rows: list[int] = []


def _end(counter: Counter) -> None:
    EVENTS.append(f"destruct {counter.number}")


@pytest.mark.spec("C-3")
def test_a_type_has_one_metadata_object() -> None:
    """Dtypes may be given by any name, and classes are supported; each has a unique id."""
    of_number = ex.TypeMeta.make("float32")
    assert all(ex.TypeMeta.make(name) is of_number for name in (np.float32, np.dtype("f4"), "f4"))
    assert (of_number.itemsize, of_number.type) == (4, np.dtype("float32"))
    assert ex.TypeMeta.of(ex.tensor(np.zeros(3, np.float32))) is of_number
    assert ex.TypeMeta.of({}) is ex.TypeMeta.make(dict)
    metas = [ex.TypeMeta.make(kind) for kind in ("float32", "int64", "bool", dict, list)]
    assert len({meta.id for meta in metas}) == 5
    assert all(pickle.loads(pickle.dumps(meta)) is meta for meta in metas)
    values: list[Any] = []

    class Common:
        """A class that several threads request."""

    threads = [threading.Thread(target=lambda: values.append(ex.TypeMeta.make(Common))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({id(meta) for meta in values}) == 1


@pytest.mark.spec("C-3", headline=True)
def test_elements_are_constructed_copied_destructed_and_freed_in_order() -> None:
    """Construct, copy and destruct a block's elements in order, and then free the memory."""
    meta = ex.TypeMeta.make(Counter, destruct=_end)
    Counter.made = 0
    block = meta.allocate(3, Telling("telling"))
    assert [counter.number for counter in block.memory] == [1, 2, 3]
    block.memory[0].rows.append(7)
    copies = np.empty(3, object)
    meta.copy(block.memory, copies, 2)
    assert [counter.number for counter in copies[:2]] == [1, 2]
    copies[0].rows.append(8)
    assert block.memory[0].rows == [7]
    EVENTS.clear()
    meta.destruct(copies, 2)
    assert EVENTS == ["destruct 1", "destruct 2"]
    assert list(copies) == [None, None, None]
    holder = block
    del block
    assert len(EVENTS) == 2
    del holder
    assert EVENTS[2:] == ["destruct 1", "destruct 2", "destruct 3", "delete 24"]


@pytest.mark.spec("C-3")
def test_numbers_are_copied_bytewise() -> None:
    meta = ex.TypeMeta.make("int16")
    block, target = meta.allocate(4), meta.allocate(4)
    source = block.array((4,), np.int16)
    source[:] = [1, 2, 3, 4]
    meta.construct(source, 4)
    copied = target.array((4,), np.int16)
    copied[:] = 0
    meta.copy(source, copied, 3)
    meta.destruct(source, 4)
    np.testing.assert_array_equal(copied, [1, 2, 3, 0])
    np.testing.assert_array_equal(source, [1, 2, 3, 4])
    for wrong, count in ((source, 5), (source.view(np.uint8), 4)):
        with refused(ex.OperandError, "int16"):
            meta.copy(wrong, copied, count)


@pytest.mark.spec("C-3")
def test_a_type_must_be_constructible_and_copyable() -> None:
    class Unique:
        """A class whose objects cannot be copied."""

        def __deepcopy__(self, memo: Any) -> Any:
            raise TypeError("there is one of each")

    class Named:
        """A class that needs an argument."""

        def __init__(self, name: str) -> None:
            self.name = name

    with refused(ex.DeclarationError, "Unique", "there is one of each", "copyable", "__deepcopy__"):
        ex.TypeMeta.make(Unique)
    with refused(ex.DeclarationError, "copyable"):
        ex.TypeMeta.make(type("Locked", (), {"__init__": lambda self: setattr(self, "lock", threading.Lock())}))
    with refused(ex.DeclarationError, "Named", "callable without arguments", "construct="):
        ex.TypeMeta.make(Named)
    meta = ex.TypeMeta.make(Named, construct=lambda: Named("x"))
    block = meta.allocate(1)
    assert block.memory[0].name == "x"
    assert ex.TypeMeta.make(Named) is meta
    with refused(ex.DeclarationError, "another constructor", "created once"):
        ex.TypeMeta.make(Named, construct=lambda: Named("y"))
    with refused(ex.DeclarationError, "numbers must be stored directly in memory"):
        ex.TypeMeta.make("uint64", destruct=_end)
    for wrong in ("flaot32", 3, np.dtype(object)):
        with refused(ex.OperandError, "a dtype of numbers or a class"):
            ex.TypeMeta.make(wrong)
    with refused(ex.OperandError, "accelerator", "Python addresses"):
        meta.allocate(1, accelerator)
    with refused(ex.OperandError, "references"):
        meta.allocate(1).array((8,), np.uint8)


@pytest.mark.spec("C-3")
def test_elements_constructed_before_a_failure_are_destructed() -> None:
    class Third:
        """A class of which only two objects can be constructed."""

        count = 0

        def __init__(self) -> None:
            if Third.count == 3:
                raise ValueError("no third")
            Third.count += 1

    meta = ex.TypeMeta.make(Third, destruct=lambda one: EVENTS.append("ended"))
    EVENTS.clear()
    with pytest.raises(ValueError, match="no third"):
        meta.allocate(4)
    assert EVENTS == ["ended", "ended"]


@pytest.mark.spec("C-3")
def test_none_is_not_a_type() -> None:
    with pytest.raises(ex.OperandError, match="a dtype of numbers or a class"):
        ex.TypeMeta.make(None)
