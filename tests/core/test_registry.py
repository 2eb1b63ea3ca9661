"""Registries: unique keys, help, suggestions, and threads that register and list concurrently."""

from __future__ import annotations

import threading
from typing import Any

import pytest

import explorer as ex
from explorer.core import registry
from explorer.core.ir.expr import kernels
from explorer.core.types import device
from explorer.formats.registry import FORMATS
from explorer.net.operators.caffe2 import TABLE
from explorer.net.operators.table import OperatorTable
from explorer.run.execution.executors import EXECUTORS
from tests.support.refusals import refused


class Point:
    """A point of the plane.

    More about it.
    """

    def __init__(self, x: float, y: float = 0.0) -> None:
        self.x, self.y = x, y


@pytest.mark.spec("C-21", headline=True)
def test_objects_are_registered_created_and_explained_by_key() -> None:
    """Register any object under a key, and create, list and explain it with that key."""
    shapes: ex.Registry[Any, Any] = ex.Registry("shape")
    assert shapes.register("point", Point) is Point
    assert shapes.register((2, 3), [1, 2], help="Two numbers.") == [1, 2]

    @shapes.register("area", help="Width times height.")
    def area(width: float, height: float) -> float:
        return width * height

    assert list(shapes) == ["point", (2, 3), "area"]
    assert (shapes.create("point", 3, y=4).y, shapes.create("area", 2, 5)) == (4, 10)
    assert [shapes.help(key) for key in shapes] == ["A point of the plane.", "Two numbers.", "Width times height."]
    assert repr(shapes) == "<registry of 3 shape entries>"
    with refused(ex.DeclarationError, "(2, 3)", "find"):
        shapes.create((2, 3))
    for asked in (shapes.find, shapes.create, shapes.help):
        with refused(ex.UnknownNameError, "unknown shape 'piont'", "point"):
            asked("piont")


@pytest.mark.spec("C-21", "C-6")
def test_a_key_is_unique_unless_replaced_explicitly() -> None:
    shapes: ex.Registry[str, Any] = ex.Registry("shape")
    shapes.register("point", Point, help="The first.")
    shapes.register("point", Point)
    with refused(ex.DeclarationError, "a second shape 'point'", "Point", "replace=True"):
        shapes.register("point", list)
    assert shapes["point"] is Point
    shapes.register("point", list, replace=True)
    assert shapes.help("point") == "Built-in mutable sequence."
    shapes["point"] = Point
    assert shapes.help("point") == "A point of the plane."
    del shapes["point"]
    shapes.register("point", list)


@pytest.mark.spec("C-21")
def test_explorers_own_tables_are_registries() -> None:
    """Operations and their functions, kernels, devices, formats, executors, operator types, schemas and gradients."""
    own = OperatorTable("own")
    tables: list[Any] = [registry.operations, registry.functions, kernels, device._devices, FORMATS, EXECUTORS]
    tables += [TABLE._builders, TABLE._schemas, TABLE._gradients, own._builders]
    assert all(isinstance(table, ex.Registry) for table in tables)
    assert registry.operations.help("relu") == registry.operations["relu"].__doc__.splitlines()[0]
    assert TABLE._gradients["ReluGradient"] == "Relu"
    with refused(ex.DeclarationError, "a second executor 'simple'"):
        EXECUTORS.register("simple", EXECUTORS["dag"])


@pytest.mark.spec("C-21")
def test_threads_register_and_list_concurrently() -> None:
    """Of several threads that register one key, one succeeds; concurrent registration does not disturb listing."""
    numbers: ex.Registry[int, int] = ex.Registry("number", {-1: 0})
    threads, count = 8, 300
    accepted: list[tuple[int, int]] = []
    failures: list[BaseException] = []
    start = threading.Barrier(threads + 1)

    def enter(thread: int) -> None:
        start.wait()
        for key in range(count):
            try:
                numbers.register(key, 1000 * thread + key)
            except ex.DeclarationError:
                continue
            accepted.append((key, 1000 * thread + key))

    def list_all() -> None:
        start.wait()
        try:
            while len(numbers) <= count:
                for key, value in numbers.items():
                    assert numbers[key] == value
                assert len(list(numbers)) <= count + 1
        except BaseException as error:  # asserted below, because an exception in a thread does not fail the test
            failures.append(error)

    workers = [threading.Thread(target=enter, args=(thread,)) for thread in range(threads)]
    workers.append(threading.Thread(target=list_all))
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert not failures
    assert sorted(key for key, _ in accepted) == [*range(count)]
    assert dict(accepted) == {key: value for key, value in numbers.items() if key >= 0}
