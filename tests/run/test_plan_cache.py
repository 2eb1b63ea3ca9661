"""The plan cache: graphs with one structure are planned once."""

from __future__ import annotations

import gc
import threading
import weakref
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import explorer as ex
from explorer.core.ir.storage import Storage
from explorer.core.ir.tensor import tensor_of
from explorer.plan.planner import plan
from explorer.run.execution.binding import Binding, rebound_binding
from explorer.run.execution.program import Program
from explorer.run.plan_cache import PlanCache, cache, entry, structure

RNG = np.random.default_rng(0)


@pytest.fixture(autouse=True)
def empty() -> Iterator[None]:
    cache.clear()
    yield
    cache.clear()


def array(*shape: int) -> Any:
    return RNG.standard_normal(shape).astype(np.float32)


def evaluated(*roots: Any, **options: Any) -> tuple[ex.EvalPlan, list[Any]]:
    plan = ex.EvalPlan(**options)
    handles = [plan.register(root) for root in roots]
    plan.eval()
    return plan, [handle.data() for handle in handles]


def perceptron(x: Any, w: Any) -> Any:
    return np.tanh(ex.tensor(x) @ ex.tensor(w) + 1.0)


@pytest.mark.spec("P-10", "P-14", headline=True)
def test_a_graph_of_the_same_structure_runs_the_cached_program() -> None:
    """Reuse a plan for a second graph of the same structure, with its own values and nodes and no planning."""
    x, w, y, v = array(2, 3), array(3, 4), array(2, 3), array(3, 4)
    root = perceptron(x, w)
    first, (one,) = evaluated(root)
    kept = one.copy()
    root = perceptron(y, v)
    second, (two,) = evaluated(root)
    assert (first.reused, second.reused) == (False, True)
    np.testing.assert_allclose(two, np.tanh(y @ v + 1), rtol=1e-6)
    np.testing.assert_array_equal(one, kept)
    assert second.planned.graph.recorded_roots == (root,)
    assert second.explain() == first.explain()
    assert len(second.recording.run.steps) == len(second.planned.schedule.kernels)
    assert second.recording.stages[-1].purpose != first.recording.stages[-1].purpose


@pytest.mark.spec("P-10")
def test_the_cache_key_contains_everything_that_a_plan_depends_on() -> None:
    """Other types, operations, attributes, edges, roots and options are planned again."""
    a, b = ex.tensor(array(3, 3)), ex.tensor(array(3, 3))
    evaluated(a @ b + 1.0)
    for root in (a @ a + 1.0, a @ b + 2.0, a @ b - 1.0, b @ b.T + 1.0, ex.tensor(np.eye(3)) @ b + 1.0):
        assert not evaluated(root)[0].reused
    assert not evaluated(a @ b + 1.0, a @ b)[0].reused
    assert not evaluated(a @ b + 1.0, without=["simplify"])[0].reused
    assert evaluated(ex.tensor(array(3, 3)) @ ex.tensor(array(3, 3)) + 1.0)[0].reused


@pytest.mark.spec("P-10")
@pytest.mark.parametrize("shared_first", [True, False])
def test_leaves_with_shared_and_with_separate_storage_have_separate_plans(shared_first: bool) -> None:
    """Two tensors with one storage are one value to a plan."""

    def program(p: ex.Tensor, q: ex.Tensor) -> ex.Expr:
        return ex.tanh(p) @ ex.tanh(q) - ex.sin(p) * ex.sin(q)

    def leaves(shared: bool) -> tuple[ex.Tensor, ex.Tensor]:
        held = Storage(array(4, 4))
        return tensor_of(held), tensor_of(held if shared else Storage(array(4, 4)))

    for shared in (shared_first, not shared_first):
        p, q = leaves(shared)
        plan, (value,) = evaluated(program(p, q))
        assert not plan.reused
        expected = np.tanh(p.array) @ np.tanh(q.array) - np.sin(p.array) * np.sin(q.array)
        np.testing.assert_allclose(value, expected, rtol=1e-5, atol=1e-6)
    for shared in (True, False):
        p, q = leaves(shared)
        plan, (value,) = evaluated(program(p, q))
        assert plan.reused
        expected = np.tanh(p.array) @ np.tanh(q.array) - np.sin(p.array) * np.sin(q.array)
        np.testing.assert_allclose(value, expected, rtol=1e-5, atol=1e-6)


@pytest.mark.spec("P-9", "P-10")
def test_a_rule_of_a_later_cell_is_used_for_known_structures() -> None:
    """Earlier plans are replaced; after the rule is unregistered, the old plan is used again."""

    def program() -> ex.Expr:
        return ex.log1p(ex.square(ex.tensor(array(3))))

    def reused(plan: ex.EvalPlan) -> bool:
        plan.register(program())
        return plan.eval().reused

    evaluated(program())
    assert evaluated(program())[0].reused
    lasting = ex.EvalPlan()
    assert reused(lasting)
    chain = list(ex.Rule.rules)
    try:

        class LogOfSquare(ex.Rule):
            """Replace the logarithm of one plus a square with zero."""

            numerics = "exact"
            roots = (type(ex.log1p(ex.tensor(1.0)).operation),)

            def match(self, node: ex.Expr, graph: Any) -> Any:
                return ex.Applied(node.operands[0] * 0.5, "a test", {}, "halved")

        assert not reused(lasting)
        plan, _ = evaluated(ex.log1p(ex.square(ex.tensor(array(5)))))
        assert not plan.reused
        assert "halved" in [decision.code for decision in plan.recording.decisions]
    finally:
        ex.Rule.rules[:] = chain
    assert evaluated(program())[0].reused


@pytest.mark.spec("P-10", "M-E4")
def test_a_loop_over_samples_is_planned_once_for_all_epochs() -> None:
    """Only the first step, with a hundred calls, is planned; each step has its own values."""
    w = array(4, 2)

    @ex.function
    def model(x: Any, w: Any) -> Any:
        return np.tanh(x @ w)

    for epoch in range(3):
        weights = ex.tensor(w)
        samples = [array(4) for _ in range(100)]
        loss = ex.add_n(*[(model(ex.tensor(sample), weights) ** 2).sum() for sample in samples])
        plan, (value, gradient) = evaluated(loss, ex.grad(loss, weights))
        assert plan.reused == (epoch > 0)
        y = np.tanh(np.stack(samples) @ w)
        np.testing.assert_allclose(value, (y**2).sum(), rtol=1e-4)
        np.testing.assert_allclose(gradient, np.stack(samples).T @ (2 * y * (1 - y**2)), rtol=1e-3, atol=1e-4)
        w = w - 0.1 * gradient


def test_views_and_tensor_results_belong_to_the_current_run() -> None:
    for _ in range(3):
        x = array(4, 6)
        t = ex.tensor(x)
        _, (same, turned, part) = evaluated(t, t.T.reshape(4, 6)[1:] + 1.0, t[1:, ::2])
        np.testing.assert_array_equal(same, x)
        np.testing.assert_array_equal(turned, x.T.reshape(4, 6)[1:] + 1)
        np.testing.assert_array_equal(part, x[1:, ::2])


def test_a_failure_in_a_cached_program_names_the_lines_of_its_graph() -> None:
    """The error is the same as in a newly planned program."""
    failing = [False]

    class Fussy(ex.Elementwise):
        """x, or a failure."""

        weight, defined_everywhere = 1, True
        examples = (ex.Example(ex.real(2)),)

        def kernel(self, out: Any, x: Any) -> Any:
            if failing[0]:
                raise ValueError("not today")
            np.copyto(out, x)
            return out

        def gradient(self, g: Any, y: Any, x: Any) -> Any:
            return (g,)

    evaluated(Fussy()(ex.tensor(array(2))) + 1.0)
    failing[0] = True
    second = Fussy()(ex.tensor(array(2))) + 1.0  # the line in the error
    with pytest.raises(ex.RunError, match="the line in the error"):
        evaluated(second)
    failing[0] = False
    assert not evaluated(Fussy()(ex.tensor(array(2))) + 1.0)[0].reused
    assert evaluated(Fussy()(ex.tensor(array(2))) + 1.0)[0].reused


def test_threads_do_not_share_a_program_concurrently() -> None:
    wrong: list[int] = []

    def work(seed: int) -> None:
        rng = np.random.default_rng(seed)
        for _ in range(30):
            x, w = rng.standard_normal((64, 64)), rng.standard_normal((64, 64))
            if not np.allclose(evaluated(perceptron(x, w))[1][0], np.tanh(x @ w + 1)):
                wrong.append(seed)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_the_cache_is_bounded_and_keeps_no_value() -> None:
    """Old programs are removed, and tensors are not kept alive."""
    for length in range(1, 100):
        evaluated(ex.tensor(np.zeros(length)) + 1.0)
    assert len(cache) <= 64
    held = PlanCache()
    known = structure([ex.tensor(np.zeros(3)) + 1.0], ex.EvalPlan().options)
    assert known is not None
    assert held.take(known) is None
    evaluated(ex.tensor(np.zeros(1 << 24)) + 1.0)
    assert not evaluated(ex.tensor(np.zeros(1 << 24)) + 1.0)[0].reused


X, Y, Z = array(3, 3), array(3, 3), array(3, 3)
APART: dict[str, tuple[Any, Any]] = {
    "shapes": (lambda: [ex.exp(ex.tensor(X))], lambda: [ex.exp(ex.tensor(X[:2]))]),
    "dtypes": (lambda: [ex.exp(ex.tensor(X))], lambda: [ex.exp(ex.tensor(X.astype(np.float64)))]),
    "second operands": (lambda: third_factor(0), lambda: third_factor(1)),
    "numbers of operands": (lambda: two_sums(2), lambda: two_sums(1)),
    "order of roots": (lambda: sum_and_difference(1), lambda: sum_and_difference(-1)),
    "some of the roots": (lambda: sum_and_difference(1), lambda: sum_and_difference(1)[1:]),
}


def third_factor(place: int) -> list[Any]:
    operands = ex.tensor(X), ex.tensor(Y)
    return [(operands[0] - operands[1]) * operands[place]]


def two_sums(first: int) -> list[Any]:
    terms = [ex.tensor(value) for value in (X, Y, Z)]
    return [ex.add_n(*terms[:first]), ex.add_n(*terms[first:])]


def sum_and_difference(step: int) -> list[Any]:
    a, b = ex.tensor(X), ex.tensor(Y)
    return [a + b, a - b][::step]


@pytest.mark.spec("P-10")
@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize("name", APART)
def test_structures_that_differ_in_one_detail_have_separate_programs(name: str, turned: bool) -> None:
    """Each gives its uncached result, whichever of the two came first."""
    programs = APART[name][::-1] if turned else APART[name]
    results = []
    for program in programs:
        plan, values = evaluated(*program())
        assert not plan.reused
        results.append(values)
    for program, values in zip(programs, results, strict=True):
        for value, root in zip(values, program(), strict=True):
            np.testing.assert_array_equal(value, ex.evaluate(root))
            assert value.dtype == root.dtype


@pytest.mark.spec("P-10")
def test_a_parameter_has_the_value_of_the_current_run() -> None:
    """A graph with parameters is not cached, because the program would contain another run's values."""

    def program() -> tuple[ex.Expr, ex.Expr]:
        x = ex.operation("parameter")(kind=ex.tensor(X).type, title="x")()
        return x, ex.tanh(x) * 2.0

    assert structure(program(), ex.EvalPlan().options) is None
    for value in (X, Y, Z):
        parameter, root = program()
        plan = ex.EvalPlan()
        handle, itself = plan.register(root), plan.register(parameter)
        plan.eval({parameter: value})
        assert not plan.reused
        np.testing.assert_array_equal(handle.data(), np.tanh(value) * np.float32(2))
        np.testing.assert_array_equal(itself.data(), value)


def test_the_most_recently_used_programs_are_kept() -> None:
    def program(length: int) -> ex.Expr:
        return ex.tensor(np.zeros(length)) + 1.0

    evaluated(program(1))
    for length in range(2, 100):
        evaluated(program(length))
        assert evaluated(program(1))[0].reused
    assert evaluated(program(99))[0].reused
    assert not evaluated(program(2))[0].reused


def test_a_replaced_program_counts_once() -> None:
    """Two threads may plan one structure concurrently, so that the second program replaces the first."""
    held = PlanCache()
    for _ in range(8):
        root = ex.exp(ex.tensor(np.zeros(1 << 22)))
        known = structure([root], ex.EvalPlan().options)
        assert known is not None
        program = Program(plan([root], ex.EvalPlan().options), Binding(rebound=True))
        held.put(known.key, entry(program, known))
        assert len(held) == 1
    taken = held.take(known)
    assert taken is not None
    assert taken.nbytes >= 1 << 24


@pytest.mark.spec("P-10")
def test_a_cached_program_keeps_no_borrowed_value() -> None:
    """It keeps no view, either: a later graph's tensors are freed with the graph."""
    for lent in (False, True, True):
        tensor = ex.tensor(array(64, 64))
        gone = weakref.ref(tensor.storage.array)
        plan, _ = evaluated(ex.exp(tensor.T))
        assert plan.reused == lent
        del tensor, plan
        gc.collect()
        if lent:
            assert gone() is None


@pytest.mark.spec("P-10")
def test_a_cached_program_of_small_tensors_is_bound_and_copies_them() -> None:
    """Kernels get fixed addresses. Earlier results keep their values, and later graphs' tensors are freed."""
    results, expected = [], []
    for _ in range(5):
        given = array(3, 4)
        tensor = ex.tensor(given)
        gone = weakref.ref(tensor.storage.array)
        plan, (value,) = evaluated(ex.tanh(tensor) * tensor + 1)
        results.append(value)
        expected.append(np.tanh(given) * given + 1)
    assert plan.reused
    np.testing.assert_array_equal(results, expected)
    known = structure([ex.tanh(tensor) * tensor + 1], plan.options)
    assert known is not None
    taken = cache.take(known)
    assert taken is not None
    assert taken.program.bound is not None
    assert taken.program.bound.kernels_bound == 1
    del tensor, plan, known
    gc.collect()
    assert gone() is None


@pytest.mark.spec("P-10")
def test_programs_of_many_or_large_tensors_copy_none() -> None:
    """A loop of calls reads thousands of tensors; a result that is a tensor, or a view of one, needs no copy."""
    tensor, large = ex.tensor(array(3, 4)), ex.tensor(array(100, 100))
    many = ex.add_n(*[ex.tensor(array(3, 4)) for _ in range(9)])
    for roots in ([many], [ex.exp(large) + 1], [ex.exp(tensor.T) + 1], [ex.exp(tensor), tensor]):
        assert not rebound_binding(plan(roots, ex.EvalPlan().options)).memory
    assert rebound_binding(plan([ex.exp(tensor) + tensor], ex.EvalPlan().options)).memory
