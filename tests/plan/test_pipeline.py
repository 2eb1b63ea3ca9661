"""Pipelines as data: user-defined, omitted and reordered passes; invalid pipelines raise an error."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

import numpy as np
import pytest

import explorer as ex
from explorer.core.errors import DeclarationError, OperandError, StateError, UnknownNameError
from explorer.plan.graph.plan_graph import PlanGraph
from explorer.plan.passes import Buffers, Dedup, Fuse, MemoryFormat, Order, Prune, Simplify
from explorer.plan.pipeline import PIPELINE, pass_of


@dataclass(frozen=True)
class CountExp(ex.Pass):
    """Report the number of exponentials."""

    name = "count_exp"
    fewest: int = 1

    def has_work(self, graph: PlanGraph) -> bool:
        """Return whether there are enough exponentials to report."""
        return sum([node.operation.name == "exp" for node in graph.live]) >= self.fewest

    def run(self, graph: PlanGraph) -> None:
        """Add one decision."""
        nodes = [node for node in graph.live if node.operation.name == "exp"]
        graph.decide(self, ex.Reason("counted", "{count:exponential}"), {"count": len(nodes)}, nodes)

    def counts(self, graph: PlanGraph) -> dict[str, int]:
        """Return the number of nodes."""
        return {"counted": len(graph.live)}


def test_each_pass_is_in_the_file_of_its_name() -> None:
    for name in ex.passes.__all__:
        file = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower()
        assert getattr(ex.passes, name).__module__ == f"explorer.plan.passes.{file}"


def _program() -> tuple[ex.Expr, ex.Expr]:
    x = ex.tensor(np.linspace(-1, 1, 6, dtype=np.float32), name="x")
    return ex.exp(x) + ex.exp(x), ex.exp(ex.exp(x)) * 1.0


def _evaluated(**options: object) -> tuple[ex.EvalPlan, list[np.ndarray]]:
    plan = ex.EvalPlan(**options)  # type: ignore[arg-type]  # options of every type, declined by the plan
    handles = [plan.register(root) for root in _program()]
    plan.eval()
    return plan, [handle.data() for handle in handles]


@pytest.mark.spec("P-9")
def test_a_user_defined_pass_has_a_stage_with_its_decisions_and_counts() -> None:
    passes = ex.default_passes()
    plan, values = _evaluated(passes=[CountExp(), *passes])
    stages = plan.recording.stages
    assert [stage.name for stage in stages][:2] == ["recorded", "count_exp"]
    assert stages[1].kind == "rewrite"
    assert stages[1].purpose == CountExp.purpose == "Report the number of exponentials."
    assert stages[1].counts["counted"] == stages[1].counts["nodes"]
    (decision,) = plan.recording.decisions[stages[1].first : stages[1].last]
    assert (decision.code, decision.facts["count"]) == ("counted", 4)
    assert plan.recording.options["passes"][0] == "count_exp"
    for value, expected in zip(values, _evaluated()[1], strict=True):
        np.testing.assert_array_equal(value, expected)


@pytest.mark.spec("P-9")
def test_a_pass_without_work_has_no_stage_and_can_be_omitted_by_name() -> None:
    passes = [CountExp(fewest=99), *ex.default_passes()]
    assert "count_exp" not in [stage.name for stage in _evaluated(passes=passes)[0].recording.stages]
    left_out = _evaluated(passes=[CountExp(), *ex.default_passes()], without=["count_exp", "fuse"])[0]
    assert not {"count_exp", "fuse"} & {stage.name for stage in left_out.recording.stages}
    with pytest.raises(UnknownNameError, match="count_exp"):
        ex.EvalPlan(without="count_expo", passes=[CountExp(), *ex.default_passes()])


@pytest.mark.spec("P-9")
def test_passes_can_be_reordered_and_omitted() -> None:
    kept = [step for step in ex.default_passes() if not isinstance(pass_of(step), Simplify)]
    first = next(n for n, step in enumerate(kept) if isinstance(step, Dedup))
    kept[first], kept[first + 1] = kept[first + 1], kept[first]
    assert isinstance(kept[first], Prune)
    plan, values = _evaluated(passes=kept)
    names = [stage.name for stage in plan.recording.stages]
    assert names.index("prune") == names.index("dedup") - 1
    assert "simplify" not in names
    for value, expected in zip(values, _evaluated()[1], strict=True):
        np.testing.assert_array_equal(value, expected)


@pytest.mark.spec("P-9", "P-10")
def test_plans_with_equal_passes_share_a_program() -> None:
    passes = [CountExp(), *ex.default_passes()]
    _evaluated(passes=passes)
    again, _ = _evaluated(passes=[CountExp(), *ex.default_passes()])
    other, _ = _evaluated(passes=[CountExp(fewest=2), *ex.default_passes()])
    assert again.reused
    assert not other.reused


@pytest.mark.spec("P-9")
def test_the_default_pipeline_is_a_new_list() -> None:
    ex.default_passes().clear()
    assert ex.default_passes() == list(PIPELINE)


@pytest.mark.parametrize(
    ("passes", "names"),
    [
        ("simplify", "passes='simplify'"),
        ([CountExp, *PIPELINE], "CountExp"),
        (["simplify", *PIPELINE], "simplify"),
        ([], "0 of"),
        ([*PIPELINE, Order()], "2 of Order"),
        ([step for step in PIPELINE if not isinstance(step, Order)], "0 of Order"),
        ([*PIPELINE, CountExp()], "count_exp"),
    ],
)
@pytest.mark.spec("P-9")
def test_an_invalid_pipeline_raises_an_error(passes: object, names: str) -> None:
    with pytest.raises(OperandError, match=names) as caught:
        ex.EvalPlan(passes=passes)
    assert caught.value.rule
    assert caught.value.fix


@pytest.mark.spec("P-9")
def test_a_pass_with_an_unhashable_field_raises_an_error() -> None:
    @dataclass(frozen=True)
    class Listed(ex.Pass):
        """Pass with a list as a field."""

        name = "listed"
        values: list[int] = field(default_factory=list)

        def run(self, graph: PlanGraph) -> None:
            """Do nothing."""

    with pytest.raises(OperandError, match="listed"):
        ex.EvalPlan(passes=[Listed(), *ex.default_passes()])


@pytest.mark.spec("P-9")
def test_a_pass_has_a_name_a_kind_and_a_purpose() -> None:
    for fields in ({"__doc__": "Do."}, {"name": "x"}, {"name": "x", "__doc__": "Do.", "kind": "late"}):
        with pytest.raises(DeclarationError):
            type("Wrong", (ex.Pass,), {**fields, "run": lambda self, graph: None})


@pytest.mark.spec("P-7")
def test_reading_the_schedule_before_the_pass_that_creates_it_raises_an_error() -> None:
    """The kernel order is available from the pass order on, placements from the pass buffers on."""
    graph = PlanGraph(_program())
    for read in (lambda: graph.ordered, lambda: graph.scheduled):
        with pytest.raises(StateError):
            read()
    Order().run(graph)
    assert graph.ordered.picks
    with pytest.raises(StateError):
        _ = graph.scheduled
    Buffers().run(graph)
    assert graph.scheduled.placements


@pytest.mark.spec("P-7", "P-8")
def test_schedule_records_cannot_be_modified_by_later_passes() -> None:
    """Kernels, their order and their placements are each created by one pass and are immutable."""
    images, filters = ex.tensor(np.ones((2, 8, 16, 16))), ex.tensor(np.ones((8, 8, 3, 3)))
    graph = PlanGraph([ex.relu(ex.max_pool2d(ex.conv2d(images, filters), 2)).sum()])
    Order().run(graph)
    ordered = graph.ordered
    assert not any(kernel.channels_last for kernel in ordered.kernels)
    MemoryFormat().run(graph)
    formatted = graph.ordered
    assert any(kernel.channels_last for kernel in formatted.kernels)
    Buffers().run(graph)
    assert not any(kernel.channels_last for kernel in ordered.kernels)
    assert graph.scheduled.kernels == formatted.kernels
    kernel, placement = ordered.kernels[0], graph.scheduled.placements[0]
    records = [(ordered, "kernels"), (graph.scheduled, "arena"), (kernel, "cost"), (kernel.cost, "bytes")]
    for record, name in [*records, (ordered.picks[0], "reason"), (placement, "offset")]:
        with pytest.raises(AttributeError):
            setattr(record, name, getattr(record, name))


@pytest.mark.spec("P-7", "P-13")
def test_kernels_of_one_pattern_share_their_cost() -> None:
    """Equal operations on equal types are priced once, fused or not."""
    x, y = ex.tensor(np.ones((3, 4))), ex.tensor(np.ones((3, 4)))
    roots = [ex.cumsum(x, 0), ex.cumsum(y, 0), ex.tanh(x + y) * x, ex.tanh(y + x) * y, ex.tanh(y + x) * x]
    graph = PlanGraph(roots)
    Fuse().run(graph)
    Order().run(graph)
    kernels = {kernel.result.uid: kernel for kernel in graph.ordered.kernels}
    sums, fused = [kernels[root.uid] for root in roots[:2]], [kernels[root.uid] for root in roots[2:]]
    assert [len(kernel.nodes) for kernel in (*sums, *fused)] == [1, 1, 3, 3, 3]
    assert sums[0].cost is sums[1].cost
    assert fused[0].cost is fused[1].cost
    assert fused[1].cost is not fused[2].cost  # its product reads the sum's other operand
