"""Captured values of every kind, changed in every way: a traced function equals the plain one."""

from __future__ import annotations

import array
import builtins
import functools
import itertools
import operator
import os
import sys
import types
import warnings
import weakref
from collections import ChainMap, Counter, OrderedDict, UserDict, UserList, defaultdict, deque
from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import dataclass, field
from os import environ, getenv
from typing import Any

import numpy as np
import pytest

import explorer as ex
from explorer.core.errors import DeclarationError
from explorer.core.tracing.captured_contents import ARRAY_BYTES, ITEMS
from tests.support.refusals import refused

GIVEN = np.array([1.0, 2.0, 3.0])


class Held:
    """An object with the attributes ``v``, ``w`` and any others."""

    shared = 2.0

    def __init__(self, v: Any = 2.0, **further: Any) -> None:
        self.v = v
        vars(self).update(further)

    def scaled(self, a: Any) -> Any:
        return a * self.v

    def __call__(self, a: Any) -> Any:
        return a * self.v

    def __getitem__(self, index: int) -> Any:
        return self.v * index

    @property
    def doubled(self) -> Any:
        return 2 * self.v

    @classmethod
    def of_class(cls) -> Any:
        return cls.shared


class Heir(Held):
    """An object whose method calls the overridden one."""

    def scaled(self, a: Any) -> Any:
        return super().scaled(a) + 1


@dataclass(slots=True)
class Slotted:
    v: Any = 2.0
    items: list[Any] = field(default_factory=lambda: [2.0])


@dataclass(order=True)
class Version:
    """An object with generated comparison methods."""

    major: Any = 2.0
    table: Any = None


class Tolerant:
    """An object with its own comparison and hash methods."""

    def __init__(self, v: Any = 2.0) -> None:
        self.v = v

    def __eq__(self, other: object) -> bool:
        return abs(self.v - float(getattr(other, "v", other))) < 1  # type: ignore[arg-type]

    def __hash__(self) -> int:
        return int(self.v)


class Scaling(UserDict[str, float]):
    """A user-defined dict class."""


class Factor(ex.Data):
    """A user-defined number type."""

    def __init__(self, number: float) -> None:
        self.number = number

    @property
    def type(self) -> ex.TensorType:
        return ex.TensorType((), np.float64)

    def evaluate(self) -> Any:
        return np.asarray(self.number)


SETTINGS = types.ModuleType("settings_of_a_test")
SETTINGS.__file__ = "/somewhere/settings_of_a_test.py"
GLOBAL: Any = {"k": 2.0}
CONTEXT: ContextVar[float] = ContextVar("CONTEXT", default=2.0)


def through_global(a: Any) -> Any:
    return a * GLOBAL["k"]


Case = tuple[Callable[..., Any], Callable[[], object]]
CASES: dict[str, Callable[[], Case]] = {}


def case(make: Callable[[], Case]) -> Callable[[], Case]:
    CASES[make.__name__.replace("_", " ").strip()] = make
    return make


def over(name: str, value: Any, read: Callable[[Any], Any], *changes: Callable[[Any], object]) -> None:
    """Return a case for each change of a value that is read by ``read``."""
    for number, change in enumerate(changes):

        def make(change: Any = change) -> Case:
            held = value()
            return (lambda a: a * read(held)), lambda: change(held)

        CASES[f"{name} {number}" if len(changes) > 1 else name] = make


def assign(key: Any, item: Any) -> Callable[[Any], object]:
    return lambda held: held.__setitem__(key, item)


def bind(name: str, item: Any) -> Callable[[Any], object]:
    def change(held: Any) -> None:
        with warnings.catch_warnings():
            # NumPy 2.5 warns when the shape or dtype of an array is set, but sets it.
            warnings.filterwarnings("ignore", "Setting the (shape|dtype) on a NumPy array", DeprecationWarning)
            setattr(held, name, item)

    return change


first: Callable[[Any], Any] = lambda held: held[0]  # noqa: E731
total: Callable[[Any], Any] = lambda held: sum(held)  # noqa: E731
attribute: Callable[[Any], Any] = lambda held: held.v  # noqa: E731

over(
    "list item",
    lambda: [2.0, 3.0],
    first,
    assign(0, 5.0),
    lambda held: held.insert(0, 5.0),
    lambda held: held.sort(reverse=True),
)
over(
    "list length",
    lambda: [2.0, 3.0],
    total,
    lambda held: held.append(4.0),
    lambda held: held.pop(),
    lambda held: held.clear(),
)
over("dict item", lambda: {"k": 2.0}, lambda held: held["k"], assign("k", 5.0), lambda held: held.update(k=6.0))
over("dict keys", lambda: {2.0: 1, 3.0: 1}, total, assign(4.0, 1), lambda held: held.pop(2.0))
over(
    "dict order",
    lambda: {2.0: 1, 3.0: 1},
    lambda held: next(iter(held)),
    lambda held: held.update({2.0: held.pop(2.0)}),
)
over("dict with a default", lambda: {"j": 2.0}, lambda held: held.get("k", 3.0), assign("k", 5.0))
over("set", lambda: {2.0, 3.0}, total, lambda held: held.add(4.0), lambda held: held.discard(2.0))
over("deque", lambda: deque([2.0, 3.0]), first, lambda held: held.rotate(1), lambda held: held.appendleft(7.0))
over("other dicts", lambda: OrderedDict(k=2.0), lambda held: held["k"], assign("k", 5.0))
over("default dict", lambda: defaultdict(float, k=2.0), lambda held: held["k"], assign("k", 5.0))
over("counter", lambda: Counter("aab"), lambda held: held["a"], lambda held: held.update("a"))
over(
    "objects compared by a generated method",
    lambda: (Version(2.0), Version(2.0)),
    lambda held: 3.0 if held[0] == held[1] and sorted(held)[0] is held[0] else 4.0,
    lambda held: bind("major", 5.0)(held[0]),
)
over("object compared with a constant", Tolerant, lambda held: 3.0 if held == 2.0 else 4.0, bind("v", 5.0))
over("object in a set", Tolerant, lambda held: float(len({held, 2.0})), bind("v", 5.0))
over(
    "object that is looked up",
    lambda: (Tolerant(), {2: 3.0, 5: 4.0}),
    lambda held: held[1][held[0]],
    lambda held: bind("v", 5.0)(held[0]),
)
over("user dict", lambda: Scaling(k=2.0), lambda held: held["k"], assign("k", 5.0))
over("user list", lambda: UserList([2.0]), first, assign(0, 5.0))
over("chain map", lambda: ChainMap({}, {"k": 2.0}), lambda held: held["k"], assign("k", 5.0))
over("packed array", lambda: array.array("d", [2.0, 3.0]), first, assign(0, 5.0))
over("bytes in place", lambda: bytearray(b"ab"), first, assign(0, 99))
over("list in a tuple", lambda: ([2.0],), lambda held: held[0][0], lambda held: assign(0, 5.0)(held[0]))
over(
    "nested",
    lambda: Held(l=[Held(2.0)]),
    lambda held: held.l[0].v,
    lambda held: bind("v", 5.0)(held.l[0]),
    lambda held: assign(0, Held(6.0))(held.l),
    lambda held: bind("l", [Held(7.0)])(held),
)
over(
    "dict in dict",
    lambda: {"a": {"b": [2.0]}},
    lambda held: held["a"]["b"][0],
    lambda held: assign(0, 5.0)(held["a"]["b"]),
    lambda held: assign("b", [6.0])(held["a"]),
)
over("attribute", Held, attribute, bind("v", 5.0), lambda held: vars(held).update(v=5.0))
over("attribute of a class", Held, lambda held: held.shared, bind("shared", 5.0))
over("attribute in a slot", Slotted, attribute, bind("v", 5.0))
over("list in a slot", Slotted, lambda held: held.items[0], lambda held: assign(0, 5.0)(held.items))
over("property", Held, lambda held: held.doubled, bind("v", 5.0))
over("getattr", Held, lambda held: getattr(held, "v"), bind("v", 5.0))  # noqa: B009
over("getattr of no attribute", Held, lambda held: getattr(held, "later", 3.0), bind("later", 5.0))
over("hasattr", Held, lambda held: 3.0 if hasattr(held, "later") else 4.0, bind("later", 5.0))
over("computed attribute", Held, lambda held: getattr(held, "".join(["v"])), bind("v", 5.0))
over("vars", Held, lambda held: vars(held)["v"], bind("v", 5.0))
over("index method", Held, lambda held: held[3], bind("v", 5.0))
over("namespace", lambda: types.SimpleNamespace(v=2.0), attribute, bind("v", 5.0))
over(
    "weak reference",
    lambda: (strong := Held(), weakref.ref(strong)),
    lambda held: held[1]().v,
    lambda held: bind("v", 5.0)(held[0]),
)
over(
    "array",
    lambda: np.array([3.0, 2.0, 1.0]),
    lambda held: held,
    assign(slice(None), 9.0),
    assign(0, -0.0),
    assign(1, np.nan),
    lambda held: held.sort(),
    lambda held: np.multiply(held, 2, out=held),
)
over("array read as a number", lambda: np.array([2.0, 3.0]), lambda held: float(held.sum()), assign(0, 9.0))
over("array of integers", lambda: np.arange(3), lambda held: held, assign(0, 9))
over("array of objects", lambda: np.array([2.0, None], object), first, assign(0, 5.0))
over("array without dimensions", lambda: np.array(2.0), lambda held: held, assign((), 5.0))
over("array read as another dtype", lambda: np.ones(3), lambda held: held[0], bind("dtype", np.dtype(np.int64)))
over("array reshaped in place", lambda: np.arange(6.0).reshape(2, 3), lambda held: held[0].sum(), bind("shape", (3, 2)))
over(
    "array in containers",
    lambda: {"a": [np.ones(3)]},
    lambda held: held["a"][0],
    lambda held: assign(0, 9.0)(held["a"][0]),
)
over("array in an attribute", lambda: Held(np.ones(3)), attribute, lambda held: assign(0, 9.0)(held.v))
over(
    "read-only view of an array",
    lambda: (base := np.ones(3), np.broadcast_to(base, (3,))),
    lambda held: held[1],
    lambda held: assign(0, 9.0)(held[0]),
)
over(
    "view of part of an array",
    lambda: (base := np.arange(8.0), base[1:7:2]),
    lambda held: held[1],
    lambda held: assign(3, 9.0)(held[0]),
)
over(
    "array over other memory",
    lambda: (memory := bytearray(24), np.frombuffer(memory)),
    lambda held: held[1],
    lambda held: assign(7, 64)(held[0]),
)
over("tensor read as a number", lambda: ex.tensor([2.0, 3.0]), lambda held: float(held.array[0]), assign(0, 9.0))
over("growing tensor", lambda: grown(2.0, 3.0), lambda held: np.asarray(held).sum(), lambda held: held.push_back(4.0))
over("data of a user's type", lambda: Factor(2.0), lambda held: held.number, bind("number", 5.0))


def grown(*values: float) -> ex.ScalableTensor:
    held = ex.ScalableTensor((), np.float64)
    for value in values:
        held.push_back(value)
    return held


@case
def mutable_default() -> Case:
    items = [2.0]

    def body(a: Any, held: Any = items) -> Any:
        return a * held[0]

    return body, lambda: items.append(items.pop() + 1)


@case
def mutable_keyword_default() -> Case:
    def body(a: Any, *, held: Any = {"k": 2.0}) -> Any:  # noqa: B006
        return a * held["k"]

    return body, lambda: assign("k", 5.0)(body.__kwdefaults__["held"])  # type: ignore[index]


@case
def other_defaults() -> Case:
    def helper(a: Any, held: Any = 2.0) -> Any:
        return a * held

    return (lambda a: helper(a)), lambda: setattr(helper, "__defaults__", (5.0,))


@case
def default_of_a_helper() -> Case:
    items = [2.0]

    def helper(a: Any, held: Any = items) -> Any:
        return a * held[0]

    return (lambda a: helper(a)), lambda: assign(0, 5.0)(items)


@case
def closure_of_a_decorator() -> Case:
    factor = [2.0]

    def times(function: Any) -> Any:
        @functools.wraps(function)
        def wrapper(a: Any) -> Any:
            return function(a) * factor[0]

        return wrapper

    @times
    def body(a: Any) -> Any:
        return a + 1

    return body, lambda: assign(0, 5.0)(factor)


@case
def container_in_a_global() -> Case:
    return (lambda a: through_global(a)), lambda: assign("k", GLOBAL["k"] + 1)(GLOBAL)


@case
def attribute_of_a_module() -> Case:
    SETTINGS.gain = 2.0
    return (lambda a: a * SETTINGS.gain), lambda: setattr(SETTINGS, "gain", 5.0)


@case
def module_imported_inside() -> Case:
    SETTINGS.gain = 2.0
    sys.modules[SETTINGS.__name__] = SETTINGS

    def body(a: Any) -> Any:
        import settings_of_a_test  # type: ignore[import-not-found]

        return a * settings_of_a_test.gain

    return body, lambda: setattr(SETTINGS, "gain", 5.0)


@case
def attribute_of_a_class_itself() -> Case:
    class Config:
        gain = 2.0

    return (lambda a: a * Config.gain), lambda: setattr(Config, "gain", 5.0)


@case
def class_made_inside() -> Case:
    class Local:
        gain = 2.0

        def __init__(self) -> None:
            self.v = self.gain

    return (lambda a: a * Local().v), lambda: setattr(Local, "gain", 5.0)


@case
def attribute_read_by_a_class_method() -> Case:
    cls = type("Kind", (Held,), {"shared": 2.0})
    return (lambda a: a * cls.of_class()), lambda: setattr(cls, "shared", 5.0)  # type: ignore[attr-defined]


@case
def overridden_method() -> Case:
    held = Heir()
    return (lambda a: held.scaled(a)), lambda: setattr(held, "v", 5.0)


@case
def callable_object() -> Case:
    held = Held()
    return (lambda a: held(a)), lambda: setattr(held, "v", 5.0)


@case
def object_itself() -> Case:
    held = Held()
    return held.__call__, lambda: setattr(held, "v", 5.0)


@case
def bound_method_of_a_container() -> Case:
    held = {"k": 2.0}
    get = held.get
    return (lambda a: a * get("k")), lambda: assign("k", 5.0)(held)


@case
def partial_function() -> Case:
    items = [2.0]
    multiply = functools.partial(lambda held, a: a * held[0], items)
    return (lambda a: multiply(a)), lambda: assign(0, 5.0)(items)


@case
def context_variable() -> Case:
    CONTEXT.set(2.0)
    return (lambda a: a * CONTEXT.get()), lambda: CONTEXT.set(5.0)


@case
def functions_in_a_table() -> Case:
    factor = [2.0]
    table = {"times": lambda a: a * factor[0]}
    return (lambda a: table["times"](a)), lambda: assign(0, 5.0)(factor)


@case
def generator_expression() -> Case:
    items = [2.0, 3.0]
    return (lambda a: a * sum(item * item for item in items)), lambda: assign(0, 5.0)(items)


@case
def closure_in_a_function_made_inside() -> Case:
    items = [2.0]

    def body(a: Any) -> Any:
        def inner() -> Any:
            return items[0]

        return a * inner()

    return body, lambda: assign(0, 5.0)(items)


@case
def traced_function_inside() -> Case:
    items = [2.0]
    inner = ex.function(lambda a: a * items[0])

    def body(a: Any) -> Any:
        return inner(a) if isinstance(a, ex.Expr) else a * items[0]

    return body, lambda: assign(0, 5.0)(items)


@case
def traced_method_inside() -> Case:
    class Model:
        def __init__(self) -> None:
            self.weights = {"w": np.ones(3)}

        @ex.function
        def layer(self, a: Any) -> Any:
            return a * self.weights["w"]

    model = Model()

    def body(a: Any) -> Any:
        return model.layer(a) if isinstance(a, ex.Expr) else a * model.weights["w"]

    return body, lambda: assign(0, 7.0)(model.weights["w"])


@pytest.mark.parametrize("name", CASES)
def test_a_function_sees_in_place_changes(name: str) -> None:
    """For each kind of capture and each change, calls before and after equal the plain function's."""
    body, change = CASES[name]()
    traced = ex.function(body)
    x = ex.tensor(GIVEN)

    def both() -> None:
        expected = np.asarray(body(GIVEN))
        result = ex.evaluate(traced(x))
        assert result.tobytes() == expected.tobytes(), (result, expected)

    both()
    both()
    assert traced.traces == 1
    change()
    both()
    both()
    assert traced.traces == 2


def test_a_method_sees_changes_of_its_object() -> None:
    """self is a static argument: containers and arrays among its attributes are compared at each call."""

    class Model:
        def __init__(self) -> None:
            self.weights = {"w": np.ones(3)}

        @ex.function
        def __call__(self, a: Any) -> Any:
            return a * self.weights["w"]

    model = Model()
    assert ex.evaluate(model(GIVEN)).tolist() == [1, 2, 3]
    model.weights["w"][0] = 7
    assert ex.evaluate(model(GIVEN)).tolist() == [7, 2, 3]
    model.weights["w"] = np.zeros(3)
    assert ex.evaluate(model(GIVEN)).tolist() == [0, 0, 0]


def test_equal_static_arguments_with_different_bits_have_separate_bodies() -> None:
    """Frozen dataclasses with equal fields are distinguished if they contain 1, 1.0 or True."""

    @dataclass(frozen=True)
    class Config:
        by: Any

    @ex.function
    def scaled(a: Any, config: Config) -> Any:
        return a * config.by

    x = ex.tensor(np.array([1, 2]))
    for by in (2, 2.0, True, 1, -0.0, 0.0, 2):
        expected = np.array([1, 2]) * by
        result = ex.evaluate(scaled(x, Config(by)))
        assert (result.dtype, result.tobytes()) == (expected.dtype, expected.tobytes())
    scaled(x, Config(2))
    assert scaled.traces == 6


def large() -> Any:
    return np.zeros(ARRAY_BYTES // 8 + 1)


@pytest.mark.parametrize(
    ("value", "told"),
    [
        (large(), r"65,544 bytes that can be changed in place\n  rule: a large array .*\n  fix: .*held = ex.tensor"),
        (np.zeros((2, ARRAY_BYTES))[:, ::2], r"held from outside, a ndarray"),
        ([0] * (ITEMS + 1), r"a list of 10,001 items .*\n  rule: .* so small .*\n  fix: pass the items"),
        ({"k": [0] * (ITEMS + 1)}, r"held\[…\] from outside, a list"),
        (set(range(ITEMS + 1)), "a set of 10,001 items"),
        (bytearray(ARRAY_BYTES + 1), "a bytearray of 65,537 bytes"),
        (iter([1.0, 2.0]), r"a list_iterator\n  rule: .*another value each time\n  fix: draw"),
        (itertools.count(), "a count"),
        ((number for number in range(3)), "a generator"),
        (np.random.default_rng(0), "a Generator"),
    ],
)
def test_captures_that_cannot_be_compared_at_each_call_raise_an_error(value: Any, told: str) -> None:
    held = value

    def body(a: Any) -> Any:
        return a if held is None else a + 1

    with pytest.raises(ex.DeclarationError, match=told):
        ex.function(body)(GIVEN)
    held = None
    assert ex.evaluate(ex.function(body)(GIVEN)).tolist() == GIVEN.tolist()


def test_large_read_only_arrays_can_be_captured() -> None:
    """A frozen array is compared by identity; if it is made writable again, it raises the usual error."""
    held = large()
    held.flags.writeable = False
    f = ex.function(lambda a: a + held.sum())
    f(GIVEN)
    f(GIVEN)
    assert f.traces == 1
    held.flags.writeable = True
    with pytest.raises(ex.DeclarationError, match="can be changed in place"):
        f(GIVEN)
    held = large()[:]
    held.flags.writeable = False  # its base is still writable
    with pytest.raises(ex.DeclarationError, match="can be changed in place"):
        ex.function(lambda a: a + held.sum())(GIVEN)
    weight = ex.tensor(large())
    assert ex.evaluate(ex.function(lambda a: a + weight.sum())(GIVEN)).tolist() == GIVEN.tolist()


def test_objects_with_reference_cycles_are_visited_once() -> None:
    one, other = Held(), Held()
    one.v, other.v = [other], [one]  # type: ignore[assignment]
    f = ex.function(lambda a: a * len(one.v[0].v))
    assert ex.evaluate(f(GIVEN)).tolist() == GIVEN.tolist()
    other.v.append(one)  # type: ignore[attr-defined]
    assert ex.evaluate(f(GIVEN)).tolist() == (2 * GIVEN).tolist()


def test_changes_of_unread_attributes_do_not_trace_again() -> None:
    held = Held(2.0, count=0)
    f = ex.function(lambda a: a * held.v)
    for _ in range(3):
        f(GIVEN)
        held.count += 1  # type: ignore[attr-defined]
    assert f.traces == 1


@dataclass
class Options:
    factor: Any = 2.0
    table: Any = field(default_factory=large)


@dataclass(slots=True)
class SlottedOptions:
    factor: Any = 2.0
    table: Any = field(default_factory=large)


@pytest.mark.parametrize("kind", [Options, SlottedOptions])
def test_a_generated_comparison_allows_large_arrays(kind: Any) -> None:
    """It compares two large arrays by identity, or NumPy raises; large arrays that the body itself reads are
    rejected."""
    options, low, high = kind(), 1.0, 2.0
    f = ex.function(lambda a: a * options.factor if low < high and options.factor != 7.0 else a)
    for factor, traces in ((2.0, 1), (2.0, 1), (3.0, 2)):
        options.factor = factor
        assert ex.evaluate(f(GIVEN)).tolist() == (GIVEN * factor).tolist()
        assert f.traces == traces
        options.table[0] += 1

    @ex.function
    def chosen(a: Any, other: Any = kind(3.0, options.table)) -> Any:  # noqa: B008
        return a if options == other else a + 1

    if sys.version_info >= (3, 13):  # fields are compared one by one, and an array has no single truth value
        with pytest.raises(ValueError, match="ambiguous"):
            chosen(GIVEN)
    else:  # as tuples, in which an array equals itself, whatever it contains
        assert ex.evaluate(chosen(GIVEN)).tolist() == GIVEN.tolist()
    with refused(ex.DeclarationError, "options.table from outside"):
        ex.function(lambda a: a + options.table.sum() if low < high else a)(GIVEN)


class Ranked:
    """An object whose comparisons and hash read different attributes."""

    def __init__(self, rank: float, table: Any) -> None:
        self.rank, self.table = rank, table

    def __eq__(self, other: object) -> bool:
        return bool(np.array_equal(self.table, other.table))  # type: ignore[attr-defined]

    def __hash__(self) -> int:
        return hash(self.table.tobytes())

    def __lt__(self, other: Any) -> bool:
        return bool(self.rank < other.rank)


BY_OPERATORS: list[Callable[[Any, Any, Any], Any]] = [
    lambda a, one, other: a * one.rank,
    lambda a, one, other: a if one == other else a + 1,
    lambda a, one, other: a if one != other else a + 1,
    lambda a, one, other: a if one in [other] else a + 1,
    lambda a, one, other: a if one < other else a + 1,
    lambda a, one, other: a * hash(one),
    lambda a, one, other: a if {one: 1}.get(other) else a + 1,
]


@pytest.mark.parametrize("body", BY_OPERATORS)
def test_attributes_read_by_operators_of_a_class_are_compared(body: Callable[[Any, Any, Any], Any]) -> None:
    """Code contains no operator names, so all operators of a class count: a change traces again, a large array is
    rejected."""
    one, other = Ranked(1.0, np.zeros(3)), Ranked(2.0, np.zeros(3))
    f = ex.function(lambda a: body(a, one, other))
    for change in (lambda: None, lambda: setattr(one, "rank", 3.0), lambda: assign(0, 5.0)(one.table)):
        change()
        assert ex.evaluate(f(GIVEN)).tolist() == body(GIVEN, one, other).tolist()
    one.table = large()
    with refused(ex.DeclarationError, "table"):
        f(GIVEN)


def test_a_name_counts_as_a_variable_and_as_an_attribute() -> None:
    """A global with the name of an attribute is compared, too, since code does not show which of them is read."""
    names: dict[str, Any] = {"held": Held(2.0), "v": [1.0]}
    f = ex.function(types.FunctionType((lambda a: a * held.v).__code__, names))  # type: ignore[name-defined]  # noqa: F821
    assert ex.evaluate(f(GIVEN)).tolist() == (GIVEN * 2).tolist()
    names["v"].append(2.0)
    names["held"].v = 3.0
    assert ex.evaluate(f(GIVEN)).tolist() == (GIVEN * 3).tolist()
    names["v"] = large()
    with refused(ex.DeclarationError, "reads v from outside"):
        f(GIVEN)


def test_a_derived_operator_follows_the_method_that_it_uses() -> None:
    """``functools.total_ordering`` derives ``<=`` from ``<`` and ``==``."""

    @functools.total_ordering
    class Level:
        def __init__(self, height: float) -> None:
            self.height = height

        def __eq__(self, other: object) -> bool:
            return isinstance(other, Level) and self.height == other.height

        def __lt__(self, other: Any) -> bool:
            return bool(self.height < other.height)

    here, there = Level(1.0), Level(2.0)
    f = ex.function(lambda a: a * 2.0 if here <= there else a)
    assert ex.evaluate(f(GIVEN)).tolist() == (GIVEN * 2).tolist()
    here.height = 3.0
    assert ex.evaluate(f(GIVEN)).tolist() == GIVEN.tolist()


def test_builtins_that_read_variables_raise_an_error_as_attributes() -> None:
    module = builtins
    for hidden in (
        lambda a: a * builtins.eval("1.0"),
        lambda a: a * module.eval("1.0"),
        lambda a: a * [module][0].eval("1.0"),
        lambda a: ex.add_n(*[a * module.eval("1.0") for _ in range(2)]),
    ):
        with refused(ex.DeclarationError, "eval"):
            ex.function(hidden)(GIVEN)


def double(a: Any) -> Any:
    return 2 * a


class Scale:
    """A callable object with a method."""

    def __call__(self, a: Any) -> Any:
        return 2 * a

    def apply(self, a: Any) -> Any:
        return 2 * a


class Triple(Scale):
    """The same, with a factor of three."""

    def __call__(self, a: Any) -> Any:
        return 3 * a

    def apply(self, a: Any) -> Any:
        return 3 * a


class Lenient:
    """An object whose attribute lookup falls back to items, so that missing ones raise KeyError."""

    def __init__(self, **items: Any) -> None:
        self.__dict__["items"] = items

    def __getattr__(self, name: str) -> Any:
        return self.__dict__["items"][name]


def test_in_place_changes_of_autoreload_are_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """Test the code of a function, a method without a name in the code, and the class of an object."""
    scale, of, by = Scale(), operator.attrgetter("weight"), operator.methodcaller("apply", 1.0)
    held = types.SimpleNamespace(weight=2.0)

    @ex.function
    def through_helper(a: Any) -> Any:
        return double(a)

    @ex.function
    def through_object(a: Any) -> Any:
        return scale(a)

    @ex.function
    def through_getters(a: Any) -> Any:
        return a * of(held) * by(scale)

    functions = (through_helper, through_object, through_getters)
    assert [ex.evaluate(f(GIVEN)).tolist() for f in functions] == [[2, 4, 6], [2, 4, 6], [4, 8, 12]]
    monkeypatch.setattr(double, "__code__", (lambda a: 5 * a).__code__)
    monkeypatch.setattr(Scale, "__call__", lambda self, a: 7 * a)
    held.weight = 3.0
    assert [ex.evaluate(f(GIVEN)).tolist() for f in functions] == [[5, 10, 15], [7, 14, 21], [6, 12, 18]]
    scale.__class__ = Triple
    assert ex.evaluate(through_object(GIVEN)).tolist() == [3, 6, 9]
    assert ex.evaluate(through_getters(GIVEN)).tolist() == [9, 18, 27]


def test_attributes_are_not_looked_up_on_objects_with_getattr() -> None:
    held = Lenient(weight=2.0)
    scaled = ex.function(lambda a: a * held.weight)
    assert ex.evaluate(scaled(GIVEN)).tolist() == [2, 4, 6]
    vars(held)["items"]["weight"] = 3.0
    assert ex.evaluate(scaled(GIVEN)).tolist() == [3, 6, 9]


HIDDEN = 3.0


def environment_item(a: Any) -> Any:
    return a * float(os.environ["EXPLORER_TEST_FACTOR"])


def environment_get(a: Any) -> Any:
    return a * float(os.environ.get("EXPLORER_TEST_FACTOR", "1"))


def environment_getenv(a: Any) -> Any:
    return a * float(os.getenv("EXPLORER_TEST_FACTOR", "1"))


def environment_variable(a: Any) -> Any:
    return a * float(environ["EXPLORER_TEST_FACTOR"])


def environment_function(a: Any) -> Any:
    return a * float(getenv("EXPLORER_TEST_FACTOR") or 1)


def environment_import(a: Any) -> Any:
    import os as system

    return a * float(system.environ["EXPLORER_TEST_FACTOR"])


def environment_elsewhere(a: Any) -> Any:
    return environment_item(a)


@pytest.mark.parametrize(
    "body",
    [
        environment_item,
        environment_get,
        environment_getenv,
        environment_variable,
        environment_function,
        environment_import,
        environment_elsewhere,
    ],
)
def test_a_function_sees_a_change_of_the_environment(body: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """For every way to read environment variables, a changed value traces again and an equal one does not."""
    traced = ex.function(body)
    for factor, traces in (("2", 1), ("2", 1), ("5", 2)):
        monkeypatch.setenv("EXPLORER_TEST_FACTOR", factor)
        np.testing.assert_array_equal(ex.evaluate(traced(ex.tensor(GIVEN))), GIVEN * float(factor))
        assert traced.traces == traces


def by_globals(a: Any) -> Any:
    return a * globals()["HIDDEN"]


def by_eval(a: Any) -> Any:
    return a * eval("HIDDEN")


def by_exec(a: Any) -> Any:
    results: dict[str, Any] = {}
    exec("value = 3.0", results)
    return a * results["value"]


def by_another(a: Any) -> Any:
    return by_globals(a)


@pytest.mark.parametrize("body", [by_globals, by_eval, by_exec, by_another])
def test_variables_without_a_name_in_the_code_raise_an_error(body: Any) -> None:
    """The code does not show what ``globals()``, ``eval`` and ``exec`` read; the error contains a fix."""
    with pytest.raises(DeclarationError, match=rf"{body.__name__} uses (globals|eval|exec)\(…\)") as caught:
        ex.function(body)(ex.tensor(GIVEN))
    assert "by their names" in caught.value.rule
    assert "argument" in caught.value.fix


def test_a_user_defined_eval_is_an_ordinary_variable() -> None:
    """A module's own function with this name is not Python's."""
    names: dict[str, Any] = {"eval": lambda a: a * 3}
    body = types.FunctionType((lambda a: eval(a)).__code__, names)
    np.testing.assert_array_equal(ex.evaluate(ex.function(body)(ex.tensor(GIVEN))), GIVEN * 3)


@pytest.mark.parametrize("size", [1, 100])
@pytest.mark.parametrize(
    "change",
    [
        lambda items: items.__setitem__(-1, ex.tensor(1.0)),
        lambda items: items.__setitem__(0, items[0] + 0.0),
        lambda items: items.__setitem__(0, 1.0),
        lambda items: items.append(items[0]),
        lambda items: items.pop(),
    ],
    ids=["an equal tensor", "an expression", "an equal number", "one more", "one less"],
)
def test_a_list_of_expressions_is_compared_by_identity_without_recording(size: int, change: Any) -> None:
    items = [ex.tensor(1.0) for _ in range(size)]

    @ex.function
    def total(a: Any) -> Any:
        for item in items:
            a = a + item
        return a

    a = ex.tensor(2.0)
    first, second = total(a), total(a)
    assert second.uid == first.uid + 1
    assert total.traces == 1
    change(items)
    assert ex.evaluate(total(a)) == 2.0 + len(items)
    assert total.traces == 2
    assert isinstance(a == items[0] if items else a == a, ex.Expr)
