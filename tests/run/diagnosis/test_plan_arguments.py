"""Options of a plan as keyword arguments: the source code in a reproducer gives equal options."""

from __future__ import annotations

from typing import Any

import pytest

import explorer as ex
from explorer.plan import Options
from explorer.plan.graph.cost_model import CostModel
from explorer.plan.passes import Batch, Inline, Prune
from explorer.plan.pipeline import PIPELINE
from explorer.run.diagnosis.reproducer import plan_arguments


@pytest.mark.spec("P-9")
@pytest.mark.parametrize(
    ("given", "source"),
    [
        ({}, ""),
        ({"without": ("fuse", "batch")}, "without=('batch', 'fuse')"),
        ({"lanes": 3, "order": "depth_first"}, "lanes=3, order='depth_first'"),
        ({"numerics": "fast", "inference": True}, "numerics='fast', inference=True"),
        ({"cost_model": CostModel(call=5.0)}, "cost_model=ex.plan.graph.cost_model.CostModel(call=5.0)"),
        ({"inline": Inline(4)}, "inline=ex.plan.passes.inline.Inline(limit=4)"),
        ({"batch": Batch(fewest=2), "lanes": 2}, "batch=ex.plan.passes.batch.Batch(fewest=2), lanes=2"),
    ],
)
def test_options_are_written_as_they_were_given(given: dict[str, Any], source: str) -> None:
    options = Options(**given)
    assert plan_arguments(options) == source
    assert eval(f"Options({source})", {"Options": Options, "ex": ex}) == options


def test_another_pipeline_is_written_as_the_passes_argument() -> None:
    options = Options(passes=(Prune(), *PIPELINE))
    source = plan_arguments(options)
    assert source.startswith("passes=(ex.plan.passes.prune.Prune(), ")
    assert eval(f"Options({source})", {"Options": Options, "ex": ex}) == options
