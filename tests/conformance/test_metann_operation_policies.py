"""Policies of operations, MetaNN's third template parameter: rule M-E9."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import explorer as ex
from explorer import layers
from explorer.core.ir.function import Call, Parameter
from explorer.core.ir.policy_operations import Adjustable, Adjusted
from explorer.core.ir.traversal import reachable
from explorer.plan.options import Options
from explorer.plan.planner import plan as planned
from explorer.run.plan_cache import structure
from tests.support.refusals import refused

BY_PRODUCT, WIDE = ex.PAccumulateByProduct, ex.PAccumulateIn("float64")
RANDOM = np.random.default_rng(0)
MANY = RANDOM.uniform(0, 1, (3, 5000)).astype(np.float32)


def under(*nodes: ex.Expr) -> list[str]:
    """Return the operations with policies among the nodes and in called functions."""
    results: list[str] = []
    pending = reachable(nodes)
    while pending:
        operation = pending.pop().operation
        if isinstance(operation, Call):
            pending += operation.body.nodes
        elif isinstance(operation, Adjusted):
            results.append(operation.name)
    return results


def planned_codes(*roots: ex.Expr, **options: Any) -> list[tuple[str, str]]:
    plan = ex.EvalPlan(**options)
    for root in roots:
        plan.register(root)
    plan.eval()
    return [(decision.rule, decision.code) for decision in plan.recording.decisions]


@pytest.mark.spec("M-E9")
def test_a_policy_accumulates_a_sum_as_a_product() -> None:
    """This is MetaNN's example; the kernel, the plan and the gradient obey the policy."""
    x = ex.tensor([[1.0, 2, 3], [4, 5, 0]])
    y = ex.sum(x, axis=1, policies=[BY_PRODUCT])
    for options in ({}, {"without": ("simplify",)}):
        plan = ex.EvalPlan(**options)  # type: ignore[arg-type]
        handle = plan.register(y)
        plan.eval()
        np.testing.assert_array_equal(handle.data(), [6, 0])
    np.testing.assert_array_equal(ex.evaluate(ex.grad(y.sum(), x)), [[6, 3, 2], [0, 0, 20]])
    assert "sum(axes=(1,), keepdims=False, AccumulationPolicy.by='product'): vector 2 float64" in str(y)
    assert ("UnderPolicies", "policies") in planned_codes(y)


@pytest.mark.spec("M-E9")
def test_a_policy_accumulates_single_precision_in_double() -> None:
    """Sums, means and matrix products of float32 and float16 accumulate in float64 and keep their dtype.

    This holds as well if the plan fuses a reduction with its producers.
    """
    x, exact = ex.tensor(MANY), MANY.astype(np.float64)
    wide = [
        (ex.sum(x, axis=1, policies=[WIDE]), exact.sum(axis=1)),
        (ex.mean(x, axis=1, policies=[WIDE]), exact.mean(axis=1)),
        (ex.prod(x + 0.5, axis=1, policies=[WIDE]), np.prod((MANY + np.float32(0.5)).astype(np.float64), axis=1)),
        (ex.matmul(x, x.T, policies=[WIDE]), exact @ exact.T),
        (ex.sum(ex.sqrt(x) * 2, axis=1, policies=[WIDE]), (np.sqrt(MANY) * np.float32(2)).astype(float).sum(axis=1)),
    ]
    for node, expected in wide:
        assert node.dtype == np.float32
        np.testing.assert_array_equal(ex.evaluate(node), expected.astype(np.float32))
    halves = ex.tensor(MANY.astype(np.float16))
    total = np.float16(MANY.astype(np.float16).astype(np.float64).sum())
    assert ex.evaluate(ex.sum(halves, policies=[WIDE])) == total
    lost = ex.tensor(np.array([2**24, 1, 1], np.float32))
    assert ex.evaluate((lost.sum(), ex.sum(lost, policies=[WIDE]))) == (2**24, 2**24 + 2)
    double = ex.tensor(exact)
    narrow = ex.sum(double, policies=[ex.PAccumulateIn(np.float32)])
    assert ex.evaluate(narrow) == ex.evaluate(double.sum()), "never narrower than the result"
    assert ex.evaluate(ex.sum(ex.tensor([2**53, 1]), policies=[WIDE])) == 2**53 + 1, "whole numbers stay whole"


@pytest.mark.spec("M-E9")
def test_policies_of_a_scope_reach_the_operations_in_it() -> None:
    """``with ex.policies(…)`` affects operators, functions and gradients; an inner scope or a call overrides it."""
    x = ex.tensor(MANY)

    @ex.function
    def centred(a: ex.Expr) -> ex.Expr:
        return a - ex.mean(a)

    plain = centred(x)
    with ex.policies(WIDE):
        inside = [x.sum(), x @ x.T, ex.var(x), centred(x), ex.grad((x * x).sum(axis=0).sum(), x)]
        with ex.policies(ex.PAccumulateIn(None)):
            assert under(x.sum()) == []
        assert under(ex.sum(x, policies=[ex.PAccumulateIn(None)])) == []
        assert under(ex.exp(x)) == []
        bias = ex.tensor(np.zeros(5000, np.float32))
        assert under(ex.grad((x + bias).sum(), bias)) == ["sum"], "what was broadcast is summed back in float64"
    assert [under(node) for node in inside] == [["sum"], ["matmul"], ["mean", "mean"], ["mean"], []]
    assert under(x.sum(), plain, centred(x)) == []
    assert centred.traces == 2, "one body for each set of policies"
    gradient = ex.grad((inside[3] ** 2).sum(), x)
    assert "sum" in under(gradient) or "mean" in under(gradient), "a body's gradient is under the body's policies"
    np.testing.assert_allclose(ex.evaluate(inside[3]), MANY - MANY.astype(np.float64).mean(), rtol=1e-5, atol=1e-7)


def policies_of(*nodes: ex.Expr) -> set[tuple[str, str]]:
    """Return the names and policies of operations with policies among the nodes."""
    operations = [node.operation for node in reachable(nodes) if isinstance(node.operation, Adjusted)]
    return {(operation.name, repr(policy)) for operation in operations for policy in operation.policies}


@pytest.mark.spec("M-E9")
def test_an_inner_scope_adds_policies_and_restores_the_outer_ones() -> None:
    """Other kinds of policies are inherited; the outer policies are restored even after an exception."""
    images, filters = ex.tensor(np.ones((1, 1, 4, 4))), ex.tensor(np.ones((1, 1, 3, 3)))
    direct = ex.ConvolutionPolicy.algorithm("direct")
    narrow = ("sum", "AccumulationPolicy.dtype = float64")
    with ex.policies(WIDE):
        with ex.policies(direct):
            result = policies_of(ex.conv2d(images, filters).sum())
        assert result == {narrow, ("conv2d", "ConvolutionPolicy.algorithm = 'direct'")}
        with pytest.raises(ValueError, match="left"), ex.policies(ex.PAccumulateIn(None), direct):
            raise ValueError("left")
        assert policies_of(ex.conv2d(images, filters).sum()) == {narrow}
    with pytest.raises(ValueError, match="left"), ex.policies(WIDE):
        raise ValueError("left")
    assert policies_of(images.sum()) == set()


@pytest.mark.spec("M-E9")
def test_gradients_and_batches_of_an_operation_inherit_its_policies() -> None:
    """This includes policies of a call: the products of a product's gradient accumulate as it does."""
    x, w = ex.tensor(MANY[:, :16]), ex.tensor(MANY[:, :16].T.copy())
    product = ex.matmul(x, w, policies=[WIDE])
    wide = ("matmul", "AccumulationPolicy.dtype = float64")
    for gradient in ex.grad(product.sum(), [x, w]):
        assert policies_of(gradient) == {wide}
        matrices = [node for node in reachable([gradient]) if node.operation.name == "matmul"]
        assert matrices
        assert all(isinstance(node.operation, Adjusted) for node in matrices)
    stacked = ex.tensor(np.ones((5, 3, 16), np.float32))
    batched = product.operation.batch(5, (True, False), stacked, w)
    assert policies_of(batched) == {wide}


@pytest.mark.spec("M-E9", "M-L11")
def test_an_unread_policy_is_harmless_and_a_conflict_is_an_error() -> None:
    """A policy that the operation does not read, or its default, changes nothing."""
    x = ex.tensor(MANY)
    for node in (
        ex.exp(x, policies=[BY_PRODUCT, layers.PUpdate]),
        ex.mean(x, policies=[BY_PRODUCT]),
        ex.sum(x, policies=[ex.PAccumulateBySum, ex.PAccumulateIn(None), layers.PUpdate]),
    ):
        assert under(node) == []
    assert ex.sum(x, policies=[ex.PAccumulateBySum]).operation is ex.sum(x).operation
    wrong: list[tuple[Any, str]] = [
        (lambda: ex.sum(x, policies=[BY_PRODUCT, ex.PAccumulateBySum]), "at most one value"),
        (lambda: ex.exp(x, policies=[BY_PRODUCT, ex.PAccumulateBySum]), "at most one value"),
        (lambda: ex.sum(x, policies=BY_PRODUCT), "a list or a tuple"),
        (lambda: ex.sum(x, policies=[layers.Sub("a", BY_PRODUCT)]), "no sublayers"),
        (lambda: ex.policies(BY_PRODUCT).__enter__(), "changes what is computed must be passed where"),
        (lambda: ex.policies(layers.Sub("a", WIDE)).__enter__(), "no sublayers"),  # type: ignore[arg-type]
        (lambda: ex.PAccumulateIn(int), "int64 is not floating"),
        (lambda: ex.AccumulationPolicy.by("max"), "one of 'sum', 'product'"),
    ]
    for call, message in wrong:
        error = ex.OperandError if message == "a list or a tuple" else ex.DeclarationError
        with pytest.raises(error, match=message):
            call()


@pytest.mark.spec("M-E9", "P-2")
def test_operations_with_different_policies_are_different_operations() -> None:
    """Equal sums with equal policies are one operation in deduplication, the plan cache and the fingerprint."""
    x = ex.tensor(MANY)

    def roots() -> list[ex.Expr]:
        return [x.sum(), ex.sum(x, policies=[WIDE]), ex.sum(x, policies=[BY_PRODUCT])]

    twice = [*roots(), *roots()]
    assert len({id(node.operation) for node in twice}) == 3
    for options in ({}, {"without": ("simplify",)}):
        plan = ex.EvalPlan(**options)  # type: ignore[arg-type]
        for root in twice:
            plan.register(root)
        plan.prepare()
        assert len(plan.recording.schedule.kernels) == 3
    keys = [structure([root], planned([root]).options) for root in roots()]
    assert len({key.key for key in keys if key is not None}) == 3
    prints = set()
    for root in roots():
        plan = ex.EvalPlan(without=("simplify",))
        plan.register(root)
        prints.add(plan.prepare().recording.fingerprint)
    assert len(prints) == 3
    operation = twice[1].operation
    assert pickle.loads(pickle.dumps(operation)) is operation


@pytest.mark.spec("M-E9", "P-1")
def test_rules_do_not_match_an_operation_with_policies() -> None:
    """Rules for the plain operation do not apply, at any depth of the pattern."""
    chain = [rule for rule in ex.Rule.rules if rule.applies_to(Adjusted)]
    assert [rule.name for rule in chain] == ["UnderPolicies"]
    x = ex.tensor(RANDOM.normal(size=(3, 4)).astype(np.float32))
    y = ex.log(ex.sum(ex.exp(x), axis=1, policies=[BY_PRODUCT]))
    assert ("LogSumExponentials", "logsumexp") in planned_codes(ex.log(ex.sum(ex.exp(x), axis=1)))
    assert ("LogSumExponentials", "logsumexp") not in planned_codes(y)
    np.testing.assert_allclose(ex.evaluate(y), x.array.sum(axis=1), rtol=1e-5)
    zero = ex.sum(ex.ZeroTensor((0, 3)), axis=0, policies=[BY_PRODUCT])
    np.testing.assert_array_equal(ex.evaluate(zero), np.ones(3))


@pytest.mark.spec("M-E9", "P-4")
def test_loops_over_operations_with_policies_become_batches() -> None:
    """A loop of sums with a policy is batched like plain sums, with the values of separate calls."""

    @ex.function
    def row(a: ex.Expr, w: ex.Expr) -> ex.Expr:
        return ex.sum(ex.tanh(ex.matmul(a, w, policies=[WIDE])), policies=[BY_PRODUCT])

    w = ex.tensor(RANDOM.normal(size=(16, 16)).astype(np.float32))
    rows = [ex.tensor(RANDOM.normal(size=16).astype(np.float32)) for _ in range(200)]
    plan = ex.EvalPlan()
    handles = [plan.register(row(each, w)) for each in rows]
    plan.eval()
    assert any(decision.code == "batched" for decision in plan.recording.decisions)
    expected = [np.tanh((each.array.astype(float) @ w.array).astype(np.float32)).prod() for each in rows]
    np.testing.assert_allclose([handle.data() for handle in handles], expected, rtol=1e-4)


@pytest.mark.spec("M-E9", "V-1")
def test_policies_are_recorded_with_the_node_and_reproduced() -> None:
    """A recording stores a node's policies with its attributes, and a reproducer contains them."""
    x = ex.tensor(MANY)
    plan = ex.EvalPlan()
    plan.register(ex.sum(x, axis=1, policies=[BY_PRODUCT, WIDE]))
    plan.prepare()
    nodes = plan.recording.nodes
    (texts,) = [given for given in nodes.attributes.values() if "AccumulationPolicy.by" in given]
    assert texts["AccumulationPolicy.by"] == "product"
    assert texts["AccumulationPolicy.dtype"] == "float64"
    for decision in plan.recording.decisions:
        if decision.rule == "UnderPolicies":
            source = plan.reproducer(decision)
            assert "AccumulationPolicy.by('product')" in source
            exec(source, {})


class Rounding(ex.PolicyClass):
    """A user-defined policy."""

    mode = ex.Minor("nearest", among=("nearest", "down"))


class Whole(ex.Adjustable, ex.Elementwise):
    """Numbers without their fraction, rounded as a policy selects."""

    name = "whole_for_policies"
    policies = (Rounding.mode,)
    nondifferentiable = "it is constant between whole numbers"
    examples = (ex.Example(ex.real(3)),)

    def with_policies(self, policies: Any) -> ex.Operation:
        """Round down if the policy requests it."""
        down: ex.Operation = ex.operation("floor")()
        return down if policies.select(Rounding).mode == "down" else self

    def kernel(self, out: Any, x: Any) -> Any:
        return np.rint(x, out=out)


@pytest.mark.spec("M-E9", "M-O4")
def test_a_user_defined_operation_reads_user_defined_policies() -> None:
    """The operation names its policies and the operation that implements them."""
    x = ex.tensor([0.7, 1.2])
    np.testing.assert_array_equal(ex.evaluate(Whole()(x)), [1, 1])
    np.testing.assert_array_equal(ex.evaluate(Whole()(x, policies=[Rounding.mode("down")])), [0, 1])
    with ex.policies(Rounding.mode("down")):
        np.testing.assert_array_equal(ex.evaluate(Whole()(x)), [0, 1])
    body = {
        "__doc__": "Lacks with_policies.",
        "policies": (Rounding.mode,),
        "kernel": Whole.kernel,
        "name": "lacks_under",
    }
    body |= {"nondifferentiable": "x", "examples": Whole.examples}
    with pytest.raises(ex.DeclarationError, match=r"lacks with_policies\(\)"):
        type("Lacks", (ex.Adjustable, ex.Elementwise), body)
    with refused(ex.DeclarationError, "default"):
        type("Odd", (Whole,), {**body, "policies": (layers.RecurrentPolicy.step,), "name": "odd_policies"})

    class Cast(ex.Adjustable, ex.Elementwise):
        """An operation that breaks the rule that the result type is kept."""

        name = "cast_by_policy"
        policies = (Rounding.mode,)
        nondifferentiable = "it is none"
        examples = Whole.examples

        def with_policies(self, policies: Any) -> ex.Operation:
            """Return an operation with another result type."""
            operation: ex.Operation = ex.operation("equal")()
            return operation

        def infer(self, *types: Any) -> Any:
            return types[0]

        def kernel(self, out: Any, *operands: Any) -> Any:
            return out

    with refused(ex.DeclarationError, "type"):
        Cast()(x, x, policies=[Rounding.mode("down")])


@pytest.mark.spec("M-E9", "M-L12")
def test_the_policies_of_a_layer_reach_its_operations_and_their_gradients() -> None:
    """Operations in the layer inherit the policies, unless a Sub overrides them."""

    def linear(*chosen: Any) -> layers.Linear:
        layer = layers.Linear("l", 5000, 2, policies=[layers.PUpdate, *chosen], train=True)
        layer.init(layers.Initializer(filler=layers.Uniform()))
        return layer

    assert under(linear()(MANY)) == []
    wide = linear(WIDE)
    y = wide(MANY)
    assert under(y) == ["matmul"]
    wide.feed_backward(np.ones((3, 2)))
    collector = layers.GradCollector()
    wide.grad_collect(collector)
    results = {parameter.name: under(gradient) for parameter, gradient in collector}
    assert "matmul" in results["l/weight/parameter"]
    assert "sum" in results["l/bias/parameter"]
    assert under(linear(WIDE, layers.Sub("weight", ex.PAccumulateIn(None)))(MANY)) == []
    shown = wide.explore({"input": ex.TensorType((3, 5000), np.dtype(np.float32))}, run=False).recording.nodes
    labels = [shown.label[node] for node, given in shown.attributes.items() if "AccumulationPolicy.dtype" in given]
    assert {*labels} == {"matmul", "sum"}
    weight = wide.save_weights()["l/weight/parameter"].astype(np.float64)
    bias = wide.save_weights()["l/bias/parameter"]
    np.testing.assert_array_equal(ex.evaluate(y), (MANY.astype(np.float64) @ weight).astype(np.float32) + bias)


@pytest.mark.spec("M-E9", "P-15")
def test_a_policy_keeps_a_convolution_direct() -> None:
    """The plan reads the algorithm policy and does not use Winograd's method for a direct convolution."""
    x = Parameter(ex.TensorType((2, 32, 15, 14), np.dtype(np.float32)), "x")()
    w = ex.tensor(RANDOM.normal(size=(32, 32, 3, 3)).astype(np.float32))
    for chosen, expected in (([], ["tiles"]), ([ex.ConvolutionPolicy.algorithm("direct")], [])):
        result = planned([ex.conv2d(x, w, padding=1, policies=chosen)], Options(inference=True)).graph.decisions
        assert [decision.code for decision in result if decision.rule == "Winograd"] == expected


class Centred(ex.Operation):
    """x − mean x, whose gradient and batch contain a mean, too."""

    nondifferentiable = ""
    examples = (ex.Example(ex.real(4)),)

    def infer(self, x: ex.TensorType) -> ex.TensorType:
        return x

    def kernel(self, out: Any, x: Any) -> Any:
        return np.subtract(x, x.mean(), out=out)

    def gradient(self, g: ex.Expr, y: ex.Expr, x: ex.Expr) -> tuple[ex.Expr]:
        return (g - ex.mean(g),)

    def batch(self, size: int, batched: tuple[bool, ...], x: ex.Expr) -> ex.Expr:
        return x - ex.mean(x, axis=tuple(range(1, x.ndim)), keepdims=True)

    def flops(self, result: Any, *types: Any) -> int:
        return 2 * types[0].size


class CentredAsTold(Adjustable):
    """x − mean x, accumulated as policies select."""

    policies = (ex.AccumulationPolicy.dtype,)
    nondifferentiable = ""
    examples = (ex.Example(ex.real(4)),)

    def with_policies(self, policies: Any) -> ex.Operation:
        return Centred()

    def infer(self, x: ex.TensorType) -> ex.TensorType:
        return x

    def kernel(self, out: Any, x: Any) -> Any:
        return Centred().kernel(out, x)

    def gradient(self, g: ex.Expr, y: ex.Expr, x: ex.Expr) -> tuple[ex.Expr]:
        return Centred().gradient(g, y, x)

    def batch(self, size: int, batched: tuple[bool, ...], x: ex.Expr) -> ex.Expr:
        return Centred().batch(size, batched, x)

    def flops(self, result: Any, *types: Any) -> int:
        return 2 * types[0].size


@pytest.mark.spec("M-E9")
def test_operations_in_gradients_and_batches_inherit_policies() -> None:
    """They also inherit policies of the scope that the operation itself does not read."""
    x = ex.tensor(MANY[0, :8])
    given = CentredAsTold()(x, policies=[WIDE])
    wide = ("mean", "AccumulationPolicy.dtype = float64")
    assert wide in policies_of(ex.grad(given, x, seed=x))
    assert wide in policies_of(given.operation.batch(3, (True,), ex.tensor(MANY[:, :8])))
    assert policies_of(ex.grad(CentredAsTold()(x), x, seed=x)) == set()


@pytest.mark.spec("M-E9")
def test_a_result_is_recalled_only_for_its_own_policies() -> None:
    """Expressions that differ only in policies do not share results."""
    x = ex.tensor(np.array([2**24, 1, 1], np.float32))

    def write(*items: Any) -> ex.Expr:
        return ex.einsum("i->", x, policies=items)

    plain, wide = ex.evaluate(write()), ex.evaluate(write(WIDE))
    assert (plain, wide) == (2**24, 2**24 + 2)
    assert ex.evaluate(write(WIDE)) is wide
    assert ex.evaluate(write()) is plain
    with ex.policies(WIDE):
        assert ex.evaluate(write()) is wide
    assert ex.evaluate(write(ex.PAccumulateIn("float32"))) is not wide


@pytest.mark.spec("M-E9")
def test_a_net_runs_with_the_policies_of_each_call(tmp_path: Path) -> None:
    """A net stores operators by name without policies, so saving it is unaffected, and each run has its own."""
    net = ex.Net("mean")
    net.input("x", (3,))
    net.AveragedLoss("x", "y")
    net.output("y")
    x = np.array([2**24, 1, 1], np.float32)
    plain, wide = np.float32(2**24 / 3), np.float32((2**24 + 2) / 3)
    assert plain != wide
    with ex.policies(WIDE):
        net.save(tmp_path / "mean.json")
    opened = ex.open(tmp_path / "mean.json")
    for held in (net, opened):
        assert held.run(x) == plain
        with ex.policies(WIDE):
            assert held.run(x) == wide
            assert under(held.build()) == ["mean"]
            assert ("UnderPolicies", "policies") in {(d.rule, d.code) for d in held.preview_plan().recording.decisions}
        assert held.run(x) == plain
        assert under(held.build()) == []
        assert ("UnderPolicies", "policies") not in {(d.rule, d.code) for d in held.preview_plan().recording.decisions}
