"""Options of a plan become fields of its passes; equal options give equal passes, which are cache keys."""

from __future__ import annotations

import pytest

import explorer as ex
from explorer.plan import Options
from explorer.plan.graph.cost_model import REFERENCE_COST_MODEL, CostModel
from explorer.plan.passes import Batch, Buffers, Fuse, Inline, JoinProducts, Order, UpdateInPlace
from explorer.plan.pipeline import PIPELINE
from explorer.plan.schedule.task_assignment import Network

OTHER = CostModel(call=5.0)


@pytest.mark.spec("P-9")
def test_an_option_becomes_a_field_of_each_pass_that_has_it() -> None:
    options = Options(lanes=3, order="depth_first", cost_model=OTHER, batch=Batch(fewest=2))
    assert options.find(Order) == Order(cost_model=OTHER, lanes=3, heuristic="depth_first")
    assert options.find(Batch) == Batch(cost_model=OTHER, fewest=2)
    for kind in (Inline, JoinProducts, Buffers):
        assert options.find(kind).cost_model is OTHER


def test_a_pass_keeps_its_fields_without_an_option() -> None:
    passes = tuple(Order(cost_model=OTHER, lanes=2) if isinstance(step, Order) else step for step in PIPELINE)
    assert Options(passes=passes).find(Order) == Order(cost_model=OTHER, lanes=2)
    assert Options(passes=passes, lanes=1).find(Order) == Order(cost_model=OTHER)
    assert Options().passes is PIPELINE


def test_omitted_passes_are_not_in_the_plan() -> None:
    options = Options(("batch", "fuse"))
    for kind in (Batch, Fuse):
        with pytest.raises(ex.UnknownNameError, match=kind.name):
            options.find(kind)
    assert not options.find(Inline).vectorize


def test_equal_options_are_equal_and_have_one_hash() -> None:
    x = ex.tensor([1.0])
    y = x + 1.0
    for given in ({}, {"lanes": 2}, {"cost_model": OTHER}, {"update": UpdateInPlace(((x, y),))}):
        assert Options(**given) == Options(**given)
        assert hash(Options(**given)) == hash(Options(**given))
    assert Options() == Options(lanes=1, order="earliest", cost_model=REFERENCE_COST_MODEL)
    assert UpdateInPlace(((x, y),)) != UpdateInPlace(((x, x + 1.0),))


def test_bodies_of_unopened_calls_have_the_options_of_one_kernel() -> None:
    x = ex.tensor([1.0])
    network = Network(2, 1000.0, 100.0, 100.0)
    changed = Options(lanes=4, inline=Inline(network=network), update=UpdateInPlace(((x, x + 1.0),)), numerics="fast")
    assert changed.of_bodies == Options(numerics="fast")
    assert changed.of_bodies.of_bodies is changed.of_bodies


@pytest.mark.spec("P-9")
def test_options_are_checked() -> None:
    with pytest.raises(ex.UnknownNameError, match="fusing"):
        Options(without=("fusing",))
    with pytest.raises(ex.OperandError, match="order"):
        Options(without=("order",))
    with pytest.raises(ex.UnknownNameError, match="opne"):
        ex.EvalPlan(opne=Inline(3))
