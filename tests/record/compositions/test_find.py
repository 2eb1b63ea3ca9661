"""Known compositions: found however they are written, and not in similar graphs."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import explorer as ex
from explorer.record import from_json, to_json
from explorer.record.compositions import find
from explorer.record.compositions.known_formulas import table
from explorer.run.recording import recorder

DTYPES = (np.float16, ml_dtypes.bfloat16, np.float32, np.float64)
ROOT = math.sqrt(2 / math.pi)


def leaf(dtype: Any = np.float32, name: str = "x") -> ex.Tensor:
    return ex.tensor(np.linspace(-2, 2, 32).reshape(4, 8).astype(dtype), name=name)


def recorded(*roots: ex.Expr) -> ex.Recording:
    plan = ex.EvalPlan()
    for root in roots:
        plan.register(root)
    return plan.prepare().recording


def names(*roots: ex.Expr) -> list[str]:
    return [row.name for row in recorded(*roots).compositions]


def kept(reduce: Callable[..., Any], x: ex.Expr, axis: Any = -1) -> ex.Expr:
    """Return a reduction that keeps its axis."""
    result: ex.Expr = reduce(x, axis=axis, keepdims=True)
    return result


def normalised(x: ex.Expr, axis: Any = -1) -> ex.Expr:
    """Return a layer norm without scale and shift."""
    return (x - kept(ex.mean, x, axis)) / ex.sqrt(kept(ex.var, x, axis) + 1e-5)


WAYS: list[tuple[str, Callable[[Any], Any]]] = [
    ("GELU", lambda x: 0.5 * x * (1 + ex.erf(x / math.sqrt(2)))),
    ("GELU", lambda x: x * 0.5 * (1.0 + ex.erf(x / math.sqrt(2.0)))),
    ("GELU", lambda x: x * (0.5 * (1 + ex.erf(0.7071067811865475 * x)))),
    ("GELU", lambda x: (ex.erf(x * math.sqrt(0.5)) + 1) * x / 2),
    ("GELU", lambda x: x * (0.5 + 0.5 * ex.erf(x / math.sqrt(2)))),
    ("GELU by tanh", lambda x: 0.5 * x * (1 + ex.tanh(ROOT * (x + 0.044715 * x**3)))),
    ("GELU by tanh", lambda x: 0.5 * x * (1 + ex.tanh(0.7978845608 * (x + 0.044715 * ex.power(x, 3))))),
    ("GELU by tanh", lambda x: x * 0.5 * (ex.tanh((0.044715 * x * x * x + x) * 0.7978845608) + 1)),
    ("GELU by tanh", lambda x: 0.5 * x * (1 + ex.tanh(0.79788456 * x * (1 + 0.044715 * x * x)))),
    ("GELU by tanh", lambda x: 0.5 * x * (1 + ex.tanh(ROOT * (x + 0.044715 * ex.square(x) * x)))),
    ("GELU by sigmoid", lambda x: x * ex.sigmoid(1.702 * x)),
    ("GELU by sigmoid", lambda x: x / (1 + ex.exp(-1.702 * x))),
    ("SiLU", lambda x: x * ex.sigmoid(x)),
    ("SiLU", lambda x: ex.sigmoid(x) * x),
    ("SiLU", lambda x: x / (1 + ex.exp(-x))),
    ("SiLU", lambda x: x * (1 / (1 + ex.exp(-x)))),
    ("sigmoid", lambda x: 1 / (1 + ex.exp(-x))),
    ("sigmoid", lambda x: ex.reciprocal(ex.exp(-x) + 1)),
    ("sigmoid", lambda x: ex.exp(x) / (ex.exp(x) + 1)),
    ("sigmoid", lambda x: 0.5 * (ex.tanh(0.5 * x) + 1)),
    ("softmax", lambda x: ex.exp(x) / kept(ex.sum, ex.exp(x))),
    ("softmax", lambda x: ex.exp(x) / kept(ex.sum, ex.exp(x), 0)),
    ("softmax", lambda x: ex.exp(x - kept(ex.max, x)) / kept(ex.sum, ex.exp(x - kept(ex.max, x)))),
    ("softmax", lambda x: ex.exp(x) / ex.sum(ex.exp(x), axis=1)[:, None]),
    ("softmax", lambda x: ex.exp(x) / ex.sum(ex.exp(x))),
    ("layer norm", normalised),
    ("layer norm", lambda x: (x - kept(ex.mean, x)) * ex.rsqrt(kept(ex.mean, (x - kept(ex.mean, x)) ** 2) + 1e-6)),
    ("layer norm", lambda x: (x - kept(ex.sum, x) / 8) / (kept(ex.var, x) + 1e-5) ** 0.5),
    ("layer norm", lambda x: (x - kept(ex.mean, x)) / ex.sqrt(kept(ex.mean, x * x) - kept(ex.mean, x) ** 2 + 1e-5)),
    ("layer norm", lambda x: normalised(x, (0, 1))),
    ("RMS norm", lambda x: x * ex.rsqrt(kept(ex.mean, x * x) + 1e-6)),
    ("RMS norm", lambda x: x / ex.sqrt(1e-6 + kept(ex.mean, ex.square(x)))),
    ("log-sum-exp", lambda x: ex.log(ex.sum(ex.exp(x), axis=1))),
    ("log-sum-exp", lambda x: kept(ex.max, x) + ex.log(kept(ex.sum, ex.exp(x - kept(ex.max, x))))),
    ("log-sum-exp", lambda x: ex.max(x, axis=1) + ex.log(ex.sum(ex.exp(x - kept(ex.max, x)), axis=1))),
]  # fmt: skip


@pytest.mark.spec("V-7", "V-8")
@pytest.mark.parametrize(("name", "write"), WAYS)
def test_a_composition_is_found_however_it_is_written(name: str, write: Callable[[Any], Any]) -> None:
    """Its operand, its result and all operations between are reported, for a leaf, a sum and a product."""
    x = leaf()
    for operand in (x, ex.sin(x) + x, 3 * x * ex.cos(x)):
        recording = recorded(write(operand))
        (row,) = recording.compositions
        assert row.name == name
        assert row.node == recording.roots[0]
        final = len(recording.nodes.operands)
        assert 0 <= row.operand < final
        assert recording.nodes.label[row.operand] == operand.label
        before = {row.operand, *_operands(recording, row.operand)}
        computed = {n for n in range(final) if recording.nodes.born[n] < 0 and recording.nodes.operands[n]}
        assert set(row.members) == computed - before


def _operands(recording: ex.Recording, node: int) -> set[int]:
    results = {node}
    for each in range(node, -1, -1):
        if each in results:
            results.update(recording.nodes.operands[each])
    return results


@pytest.mark.spec("V-7")
@pytest.mark.parametrize("dtype", DTYPES)
def test_numbers_are_compared_in_the_dtype_of_the_program(dtype: Any) -> None:
    """A constant is rounded to it, and a cast in between is no separate operation."""
    x = leaf(dtype)
    assert names(0.5 * x * (1 + ex.tanh(0.7978845608 * (x + 0.044715 * x * x * x)))) == ["GELU by tanh"]
    assert names(normalised(x.astype("float32"))) == ["layer norm"]


@pytest.mark.spec("V-7")
@pytest.mark.parametrize("shape", [(), (1,), (1, 1)])
def test_a_number_may_be_an_array_of_one_element(shape: tuple[int, ...]) -> None:
    def number(value: float) -> ex.Tensor:
        return ex.tensor(np.full(shape, value, "float32"))

    x = leaf()
    assert names(number(0.5) * x * (number(1) + ex.erf(x / number(math.sqrt(2))))) == ["GELU"]
    # the same array with another value
    assert names(number(0.5) * x * (number(1) + ex.erf(x / number(1.5)))) == []


@pytest.mark.spec("V-7")
@pytest.mark.parametrize(
    "write",
    [
        lambda x: 0.5 * x * (1 + ex.erf(x / 1.5)),
        lambda x: 0.4 * x * (1 + ex.erf(x / math.sqrt(2))),
        lambda x: 0.5 * x * (1 - ex.erf(x / math.sqrt(2))),
        lambda x: 0.5 * x * (1 + ex.erf(ex.sin(x) / math.sqrt(2))),
        lambda x: 0.5 * ex.sin(x) * (1 + ex.erf(x / math.sqrt(2))),
        lambda x: x * (1 + ex.tanh(ROOT * (x + 0.05 * x**3))),
        lambda x: 0.5 * x * (1 + ex.tanh(0.8 * (x + 0.044715 * x**3))) * 1.1,
        lambda x: x * ex.sigmoid(1.6 * x),
        lambda x: ex.sin(x) * ex.sigmoid(x),
        lambda x: 1 / (2 + ex.exp(-x)),
        lambda x: 1 / (1 - ex.exp(-x)),
        lambda x: ex.exp(x) / kept(ex.sum, ex.exp(2 * x)),
        lambda x: ex.exp(x) / kept(ex.mean, ex.exp(x)),
        lambda x: ex.exp(x) / kept(ex.max, ex.exp(x)),
        lambda x: ex.exp(x[:, :4]) / ex.sum(ex.exp(x[:, :4]), axis=1),  # each column divided by another row's sum
        lambda x: (x - kept(ex.mean, x, 0)) / ex.sqrt(kept(ex.var, x, 0) + 1e-5),  # over the batch
        lambda x: (x - kept(ex.mean, x, 0)) / ex.sqrt(kept(ex.var, x, 1) + 1e-5),
        lambda x: (x - kept(ex.max, x)) / ex.sqrt(kept(ex.var, x) + 1e-5),
        lambda x: x / ex.sqrt(kept(ex.mean, x * x) + 1),  # 1 is no eps
        lambda x: x / ex.sqrt(kept(ex.sum, x * x) + 1e-6),
        lambda x: x / ex.sqrt(kept(ex.mean, x * ex.sin(x)) + 1e-6),
        lambda x: x * ex.sqrt(kept(ex.mean, x * x) + 1e-6),
        lambda x: ex.log(ex.sum(ex.exp(x) + 1, axis=1)),
        lambda x: ex.log(ex.mean(ex.exp(x), axis=1)),
        lambda x: kept(ex.max, x) - ex.log(kept(ex.sum, ex.exp(x - kept(ex.max, x)))),
    ],
)  # fmt: skip
def test_similar_graphs_are_not_found(write: Callable[[Any], Any]) -> None:
    """Neither is the function itself, nor a larger graph with a composition in the middle."""
    recording = recorded(write(leaf()))
    assert recording.roots[0] not in {row.node for row in recording.compositions}


@pytest.mark.spec("V-7")
def test_intermediate_values_may_have_other_readers() -> None:
    x = leaf()
    inner = ex.erf(x / math.sqrt(2))
    assert names(0.5 * x * (1 + inner), ex.cos(inner)) == ["GELU"]


@pytest.mark.spec("V-7")
def test_only_the_outermost_of_nested_compositions_is_reported() -> None:
    """A softmax with its maximum is not one without it, too; the sigmoid is a part of a SiLU by hand."""
    x = leaf()
    shifted = ex.exp(x - kept(ex.max, x))
    first = shifted / kept(ex.sum, shifted)
    recording = recorded(first / (1 + ex.exp(-first)))
    assert [row.name for row in recording.compositions] == ["softmax", "SiLU"]
    softmax, silu = recording.compositions
    assert softmax.operand == recording.nodes.label.index("x")
    assert silu.operand == softmax.node


def test_compositions_are_only_labels(monkeypatch: pytest.MonkeyPatch) -> None:
    """The plan, its decisions and the fingerprint are unaffected by the search."""
    x = leaf()
    plan = ex.EvalPlan()
    plan.register(0.5 * x * (1 + ex.erf(x / math.sqrt(2))))
    plain = to_json(plan.prepare().recording)
    monkeypatch.setattr("explorer.run.recording.recorder.compositions", lambda recording, numbers: [])
    without = to_json(recorder.build(plan.planned, "", plain["options"]))
    assert plain.pop("compositions")
    assert plain == without


def test_compositions_are_stored_in_files_and_checked() -> None:
    x = leaf()
    recording = recorded(x * ex.sigmoid(x))
    plain = to_json(recording)
    assert from_json(plain).compositions == recording.compositions
    plain["compositions"][0]["members"][0] = 99
    with pytest.raises(ValueError, match="compositions: 99 is no row of nodes"):
        from_json(plain)


@pytest.mark.spec("M-E2")
@pytest.mark.parametrize("count", [2_000, pytest.param(10_000, marks=pytest.mark.soak)])
def test_a_deep_graph_is_searched_without_recursion(count: int) -> None:
    """Test thousands of activations in sequence, and a sum and a product of as many terms."""
    x = y = leaf()
    total = product = x
    for _ in range(count):
        y = y * ex.sigmoid(y)
        total = total + ex.sin(total)
        product = product * ex.sin(product)
    assert names(y) == ["SiLU"] * count
    assert names(total * ex.exp(total), product * ex.erf(product)) == []


def test_every_formula_in_the_table_can_be_searched_efficiently() -> None:
    """Each row has functions, with which graphs without them are skipped, and a value that is no variable."""
    algebra, rows = table()
    assert len({row.value for row in rows}) == len(rows)
    assert {name for name, _ in WAYS} == {row.name for row in rows}
    assert all(row.functions for row in rows)
    assert find.compositions(recorded(leaf() + 1), {}) == []
    assert algebra.terms
