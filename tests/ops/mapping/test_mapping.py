"""ex.map: one node for many calls, computed together or one by one, with the values of a loop."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import explorer as ex
from explorer.core.errors import DeclarationError, ExplorerError, OperandError
from explorer.core.ir.mapped_call import MappedCall
from explorer.core.ir.traversal import reachable
from explorer.ops.linalg.matmul import Matmul
from explorer.plan import Options, plan
from explorer.record import from_json, to_json
from explorer.run.diagnosis.reproducer import Source
from tests.support.decisions import codes, facts
from tests.support.unbatchable import Backwards

pytestmark = pytest.mark.spec("P-4")
random = np.random.default_rng(7)
WAYS: list[dict[str, Any]] = [{}, {"without": "batch"}]
"""options with which a mapped call is computed as a batch, and member by member"""


def mapped_in(*roots: ex.Expr) -> list[ex.Expr]:
    return [node for node in reachable(roots) if isinstance(node.operation, MappedCall)]


@pytest.mark.parametrize("options", WAYS)
def test_mapped_rows_are_one_node_and_equal_a_loop_in_values_and_gradients(options: dict[str, Any]) -> None:
    """There is one node for any number of members."""
    rows = ex.tensor(random.normal(size=(50, 3)))
    w, b = ex.tensor(random.normal(size=(3, 4))), ex.tensor(random.normal(size=4))

    @ex.function
    def layer(x: Any) -> Any:
        return ex.tanh(x @ w * (w * w).sum() + b)

    results = ex.map(layer, rows)
    assert results.shape == (50, 4)
    assert [node.label for node in mapped_in(results)] == ["layer ×50"]
    loop = ex.stack([layer(rows[index]) for index in range(50)])
    np.testing.assert_allclose(ex.evaluate(results, **options), ex.evaluate(loop))
    gradients = ex.grad(ex.square(results).sum(), [rows, w, b])
    assert len(mapped_in(*gradients)) == 3  # without and with residuals, and the gradient
    for gradient, expected in zip(gradients, ex.grad(ex.square(loop).sum(), [rows, w, b]), strict=True):
        np.testing.assert_allclose(ex.evaluate(gradient, **options), ex.evaluate(expected))


def test_members_are_batched_and_a_shared_gradient_is_one_contraction() -> None:
    """The plan computes the function's body over stacked operands, with a decision that has both prices."""
    w = ex.tensor(random.normal(size=(16, 8)))
    results = ex.map(lambda x: ex.tanh(x @ w), random.normal(size=(100, 16)))
    planned = plan([results, ex.grad(results.sum(), w)])
    assert codes(planned, "inline").count("batched") == 2
    decision = facts(plan([results]), "batched")
    assert decision["count"] == 100
    assert decision["together_us"] < decision["separate_us"] / 10
    assert "sum_of_products" in codes(planned, "simplify again")
    products = [node for node in planned.graph.live if isinstance(node.operation, Matmul)]
    assert sorted(node.shape for node in products) == [(16, 8), (100, 8)]
    assert max(node.type.nbytes for node in planned.graph.live) == 100 * 16 * 8


def test_values_shared_by_all_members_are_no_residuals() -> None:
    """A gradient that needs w * w computes it again instead of storing it for each member."""
    w = ex.tensor(random.normal(size=(16, 16)))
    rows = random.normal(size=(100, 16))
    for weights in (lambda: ex.exp(w), lambda: w.T):
        results = ex.map(lambda x, weights=weights: x @ weights(), rows)
        gradient = ex.grad(ex.square(results).sum(), w)
        assert max(node.type.nbytes for node in plan([results, gradient]).graph.live) == 100 * 16 * 8
        by_hand = ex.grad(ex.square(ex.tensor(rows) @ weights()).sum(), w)
        np.testing.assert_allclose(ex.evaluate(gradient), ex.evaluate(by_hand))


def test_without_batching_a_mapped_call_uses_the_memory_of_one_member() -> None:
    """It is not opened, and its kernel runs the body once for each member."""
    results = ex.map(lambda x: ex.exp(x[:, None] + x[None]).sum(), random.normal(size=(20, 100)))
    looped = plan([results], Options(without=("batch",)))
    assert codes(looped, "inline", applied=False) == ["left_out"]
    assert [kernel.result.label for kernel in looped.schedule.kernels] == ["<lambda> ×20"]
    assert looped.schedule.peak < plan([results], Options(without=("fuse",))).schedule.peak / 10


def test_an_operation_without_a_batching_rule_runs_for_each_member() -> None:
    """The declined decision names the operation."""
    rows = random.normal(size=(4, 3))
    results = ex.map(lambda x: Backwards()(x) * 2, rows)
    planned = plan([results])
    assert codes(planned, "inline", applied=False) == ["not_batchable"]
    assert "backwards" in facts(planned, "not_batchable")["inner"]
    np.testing.assert_array_equal(ex.evaluate(results), rows[:, ::-1] * 2)


def test_a_sequence_gives_a_sequence() -> None:
    """The result of a list is a sequence of expressions, evaluated to a list of arrays."""
    rows = [*random.normal(size=(5, 3))]
    members = ex.map(lambda x: x * 2, rows)
    assert len(mapped_in(*members.leaves)) == 1
    assert (len(members), members[0].shape, repr(members)) == (5, (3,), "<5 members of shape (3,)>")
    for value, row in zip(ex.evaluate(members), rows, strict=True):
        np.testing.assert_array_equal(value, row * 2)
    np.testing.assert_array_equal(
        ex.evaluate([members[-1], *members[1:3], *members][:4]), np.array(rows)[[4, 1, 2, 0]] * 2
    )
    np.testing.assert_array_equal(np.asarray(members), np.array(rows) * 2)
    assert members.stacked is members.leaves[0]
    with pytest.raises(OperandError, match="from -5 to 4"):
        members[5]


@pytest.mark.parametrize("options", WAYS)
def test_samples_of_different_shapes_are_one_node_for_each_shape(options: dict[str, Any]) -> None:
    """Ragged lists are grouped by shape, returned in order, and stacked if the results have one shape."""
    samples = [random.normal(size=size) for size in (2, 3, 2, 4, 3)]
    w = ex.tensor(2.0)
    totals = ex.map(lambda x: (x * x).sum() * w, samples)
    assert len(mapped_in(*totals.leaves)) == 3
    expected = [2 * (x * x).sum() for x in samples]
    np.testing.assert_allclose(ex.evaluate(totals, **options), expected)
    np.testing.assert_allclose(ex.evaluate(totals.stacked, **options), expected)
    np.testing.assert_allclose(ex.evaluate(ex.grad(totals.stacked.sum(), w), **options), sum(expected) / 2)
    doubled = ex.map(lambda x: x + x, samples)
    again = ex.map(lambda x, factor: x.max() * factor, doubled, range(5))
    for place, value in enumerate(ex.evaluate(again, **options)):
        np.testing.assert_allclose(value, samples[place].max() * 2 * place)
    with pytest.raises(OperandError, match="must have the same shape"):
        doubled.stacked  # noqa: B018


def test_several_operands_nested_samples_and_several_results() -> None:
    """Arguments are mapped together; samples and results may be nested containers."""
    rows, factors = random.normal(size=(3, 2)), [1.0, 2.0, 3.0]
    total, parts = ex.map(lambda x, factor: (x.sum() * factor, {"x": x, "twice": [x * 2]}), rows, factors)
    np.testing.assert_allclose(ex.evaluate(total), rows.sum(axis=1) * factors)
    np.testing.assert_allclose(ex.evaluate(parts)["twice"][0], rows * 2)
    summed, product = ex.map(lambda x, y: (x + y, x * y), rows, ex.tensor(rows))
    np.testing.assert_allclose(ex.evaluate([summed, product]), [rows + rows, rows * rows])
    pairs = ex.map(lambda pair: pair["a"] + pair["b"][0], [{"a": row, "b": (1.0,)} for row in rows])
    np.testing.assert_allclose(ex.evaluate(pairs), rows + 1)
    ragged = ex.map(lambda x: x.sum(), [[1, 2], [3, 4, 5], [6, 7]])
    assert ex.evaluate(ragged) == [3, 12, 13]
    mixed = ex.map(lambda x, y: x + y, rows, [np.zeros(2), np.zeros(1), np.zeros(2)])
    np.testing.assert_allclose(ex.evaluate(mixed), rows)
    recorded = ex.map(lambda x: x + 1, [ex.tensor(row) for row in rows])
    np.testing.assert_allclose(ex.evaluate(recorded), rows + 1)


@pytest.mark.parametrize("options", WAYS)
def test_maps_can_be_nested_and_combined_with_calls(options: dict[str, Any]) -> None:
    """Test a map in a map, in a traced function, and of a function that calls another, with gradients."""
    x = ex.tensor(random.normal(size=(4, 3)))

    @ex.function
    def scaled(v: Any, factor: Any) -> Any:
        return ex.exp(v) * factor

    def row(values: Any) -> Any:
        return ex.map(lambda v: scaled(v, values.sum()) + x.sum(), values)

    @ex.function
    def whole(values: Any) -> Any:
        return ex.map(row, values), ex.map(lambda r, s: (r.sum() * s, r @ x.T), values, values[:, 0])

    nested, (sums, products) = whole(x)
    by_hand = ex.exp(x) * x.sum(axis=1, keepdims=True) + x.sum(), x.sum(axis=1) * x[:, 0], x @ x.T
    for value, expected in zip((nested, sums, products), by_hand, strict=True):
        np.testing.assert_allclose(ex.evaluate(value, **options), ex.evaluate(expected))
    losses = [sum(ex.square(value).sum() for value in values) for values in ((nested, sums, products), by_hand)]
    first, second = (ex.evaluate(ex.grad(loss, x), **options) for loss in losses)
    np.testing.assert_allclose(first, second)


@pytest.mark.parametrize("options", WAYS)
def test_one_value_can_be_mapped_and_shared(options: dict[str, Any]) -> None:
    """An operand may be read as a member and as a whole."""
    x = ex.tensor(random.normal(size=(4, 4)))
    np.testing.assert_allclose(ex.evaluate(ex.map(lambda row: x @ row, x), **options), x.array @ x.array.T)


def test_equal_functions_share_a_body() -> None:
    """A traced function has one body for each shape, and so has a one-line lambda, even if it is another object."""

    @ex.function
    def double(x: Any) -> Any:
        return x + x

    nodes = [ex.map(double, np.ones((5, size))) for size in (2, 2, 3, 2)]
    assert double.traces == 2
    assert len({node.operation for node in nodes}) == 2
    scaled = [ex.map(lambda x: x * ex.tensor(factor), np.ones((5, 2))) for factor in (2.0, 3.0)]  # noqa: B023
    assert scaled[0].operation is scaled[1].operation
    assert [value[0, 0] for value in ex.evaluate(scaled)] == [2, 3]


def test_a_run_with_other_samples_uses_the_cached_plan() -> None:
    """The plan cache supports mapped calls."""
    w = ex.tensor(random.normal(size=(3, 2)))

    @ex.function
    def product(x: Any) -> Any:
        return x @ w

    for turn in range(2):
        samples = random.normal(size=(6, 3))
        plan = ex.EvalPlan()
        handle = plan.register(ex.map(product, samples))
        plan.eval()
        np.testing.assert_allclose(handle.data(), samples @ w.array)
        assert plan.reused is bool(turn)


def test_empty_inputs_are_mapped() -> None:
    """An array without rows has a known shape; an empty sequence does not."""
    assert ex.evaluate(ex.map(lambda x: x * 2, np.empty((0, 3)))).shape == (0, 3)
    with pytest.raises(OperandError, match="empty sequence"):
        ex.map(ex.tanh, [])


@pytest.mark.parametrize(
    ("wrong", "error", "message"),
    [
        (lambda: ex.map(3, np.ones(3)), DeclarationError, "ex.map of an int"),
        (lambda: ex.map(ex.tanh), OperandError, "without samples"),
        (lambda: ex.map(ex.tanh, 3.0), OperandError, "over a float"),
        (lambda: ex.map(ex.tanh, ex.tensor(3.0)), OperandError, "over the scalar"),
        (lambda: ex.map(ex.tanh, {"a": 1}), OperandError, "over a dict"),
        (lambda: ex.map(ex.tanh, ["a"]), OperandError, "samples with a str"),
        (lambda: ex.map(ex.tanh, [1, 2**70]), OperandError, "elements of dtype object"),
        (lambda: ex.map(ex.tanh, "abc"), OperandError, "over a str"),
        (lambda: ex.map(ex.add, np.ones(3), np.ones(2)), OperandError, "lengths 3, 2"),
        (lambda: ex.map(lambda x: 3, np.ones(3)), DeclarationError, "returned int"),
        (lambda: ex.map(lambda x: (x,) * x.size, [np.ones(1), np.ones(2)]), DeclarationError, "different containers"),
        (
            lambda: MappedCall(mapped_in(ex.map(ex.tanh, np.ones(2)))[0].operation.body, 3, (True,))(np.ones(2)),
            OperandError,
            "must have 3",
        ),
    ],
)
def test_arguments_that_cannot_be_mapped_raise_an_error(
    wrong: Callable[[], Any], error: type[ExplorerError], message: str
) -> None:
    """The error contains the given value."""
    with pytest.raises(error, match=message):
        wrong()


def test_a_mapped_call_is_written_as_source_and_as_a_recording() -> None:
    """The source records it again; a recording is read with the body into which the node opens."""
    w = ex.tensor(random.normal(size=(3, 2)), name="w")

    @ex.function
    def product(x: Any) -> Any:
        return x @ w

    results = ex.map(product, ex.tensor(random.normal(size=(4, 3)), name="x"))
    others = ex.map(ex.function(lambda x, y: x * y), results, results)
    others.operation.body.name = "scaled"
    source = Source(reachable([others]), ())
    space: dict[str, Any] = {"ex": ex, "np": np, "random": random}
    exec("\n".join([*source.functions, *source.lines]), space)
    again = space[source.names[others.uid]]
    assert [node.label for node in mapped_in(again)] == ["product ×4", "scaled ×4"]
    assert ex.evaluate(again).shape == (4, 2)
    prepared = ex.EvalPlan()
    prepared.register(others)
    recording = from_json(to_json(prepared.prepare().recording))
    calls = [node for node, label in enumerate(recording.nodes.label) if label in ("product ×4", "scaled ×4")]
    assert len(calls) == 2
    assert len({recording.nodes.callee[node] for node in calls} - {-1}) == 2


@pytest.mark.parametrize("options", WAYS)
def test_control_flow_and_convolutions_in_and_around_maps(options: dict[str, Any]) -> None:
    """Test a conditional, a scan and a convolution in a mapped function, and a mapped function in a scan."""
    rows = random.normal(size=(4, 3))
    chosen = ex.map(lambda x: ex.cond(x.sum() > 0, lambda v: v * 2, lambda v: -v, x), rows)
    positive = rows.sum(axis=1, keepdims=True) > 0
    np.testing.assert_allclose(ex.evaluate(chosen, **options), np.where(positive, rows * 2, -rows))
    sums = ex.map(lambda x: ex.scan(lambda total, v: (total + v, None), ex.tensor(0.0), x)[0], rows)
    np.testing.assert_allclose(ex.evaluate(sums, **options), rows.sum(axis=1))
    images, filters = random.normal(size=(3, 2, 6, 6)), ex.tensor(random.normal(size=(4, 2, 3, 3)))
    maps, expected = ex.map(lambda image: ex.conv2d(image[None], filters)[0], images), ex.conv2d(images, filters)
    np.testing.assert_allclose(ex.evaluate(maps, **options), ex.evaluate(expected))
    gradients = [ex.evaluate(ex.grad(ex.square(y).sum(), filters), **options) for y in (maps, expected)]
    np.testing.assert_allclose(*gradients)
    x = ex.tensor(rows)
    total, _ = ex.scan(lambda total, row: (total + ex.map(lambda v: v * v, row).sum(), None), ex.tensor(0.0), x)
    np.testing.assert_allclose(ex.evaluate(ex.grad(total, x), **options), 2 * rows)


@pytest.mark.parametrize("options", WAYS)
def test_second_gradients_equal_those_of_a_batch_written_by_hand(options: dict[str, Any]) -> None:
    rows, w = random.normal(size=(4, 3)), ex.tensor(random.normal(size=3))

    def second(loss: Any) -> Any:
        gradient = ex.grad(loss, w)
        return ex.evaluate(ex.grad((gradient * gradient).sum(), w), **options)

    mapped = ex.map(lambda row: ex.tanh((row * w).sum()), rows).sum()
    np.testing.assert_allclose(second(mapped), second(ex.tanh((ex.tensor(rows) * w).sum(axis=1)).sum()))


@pytest.mark.parametrize("options", WAYS)
def test_an_operation_that_fails_for_a_member_is_named(options: dict[str, Any]) -> None:
    picked = ex.map(lambda number: ex.take(ex.tensor([1.0, 2.0]), number), np.array([0, 5]))
    with pytest.raises(ex.RunError, match=r"take of .* recorded at .*row 5 of a table with rows 0 … 1"):
        ex.evaluate(picked, **options)


def test_layers_can_be_mapped() -> None:
    """A layer is a function of one sample, and all share its parameters."""
    layer = ex.layers.Linear("linear", 3, 2)
    layer.init(ex.layers.Initializer(filler=ex.layers.VarScale()))
    rows = random.normal(size=(5, 3)).astype(np.float32)
    np.testing.assert_allclose(
        ex.evaluate(ex.map(lambda row: layer(row), rows)), ex.evaluate([layer(row) for row in rows]), rtol=1e-6
    )


def test_the_decision_of_a_measured_run_has_the_time_of_the_members() -> None:
    """The measured time of the kernels is next to the two estimates."""

    @ex.function
    def inner(x: Any) -> Any:
        return ex.tanh(x)

    measured = ex.EvalPlan()
    measured.register(ex.map(lambda x: inner(x).sum(), random.normal(size=(20, 8))))
    (decision,) = [each for each in measured.eval().recording.decisions if each.code == "batched"]
    assert decision.facts["kernels"] == len(measured.recording.schedule.kernels)  # type: ignore[union-attr]
    assert decision.facts["measured_us"] > 0
