"""Options of an EvalPlan: their choices, and the checks that name a wrong one before anything is planned.

An EvalPlan has options of its own (how it runs and what it records) and those of the planner, in one list of keywords:
to a user they are one. Here the first are checked, and the second collected in `Options`, which has their checks.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal, TypeAlias, get_args

from explorer.core.argument_checks import check_name, check_type
from explorer.core.ir.view_options import RecordOption
from explorer.core.types.device import Device, check_device
from explorer.plan.passes import Inline
from explorer.plan.pipeline import PassName
from explorer.plan.planner import Options
from explorer.run.calibrate import measured_cost_model
from explorer.run.execution.executors import EXECUTORS
from explorer.run.workers.workers import open_network

CostsOption: TypeAlias = Literal["reference", "measured"]
Without: TypeAlias = PassName | str | Sequence[PassName | str]


def plan_options(
    further: Mapping[str, Any],
    *,
    without: Without,
    record: str,
    executor: str,
    title: str,
    device: Device | None,
    recall: bool,
    costs: str,
    numerics: str,
) -> Options:
    """Return the planner's options by those of an EvalPlan; ``further`` are options of the planner itself.

    Raises UnknownNameError or OperandError, which names the option.
    """
    check_name(record, "record", get_args(RecordOption))
    check_name(executor, "executor", EXECUTORS)
    check_name(costs, "costs", get_args(CostsOption))
    check_type(title, "title", str, "a text", f'title="{title}"')
    check_type(recall, "recall", bool, "True or False", "recall=True")
    if device is not None:
        check_device(device)
    changes = {"without": _names(without), "lanes": EXECUTORS[executor].lanes, "numerics": numerics, **further}
    if costs == "measured":
        changes = {"cost_model": measured_cost_model(), **changes}
    if executor == "dask":
        changes["inline"] = _divided(changes.get("inline"))
    # Options are hashed: equal ones share cached programs.
    if isinstance(changes.get("passes"), list):
        changes["passes"] = tuple(changes["passes"])
    return Options().with_changes("record", "executor", "title", "device", "recall", "costs", **changes)


def _divided(inline: Any) -> Any:
    """Return the pass that inlines calls with the workers that are open, over which it divides mapped calls."""
    inline = Inline() if inline is None else inline
    if not isinstance(inline, Inline) or inline.network is not None or (network := open_network()) is None:
        return inline
    return replace(inline, network=network)


def _names(without: Any) -> Any:
    """Return one or several names as a tuple; leave other types for the planner to reject."""
    if isinstance(without, str):
        return (without,)
    return tuple(without) if isinstance(without, (list, set, frozenset)) else without
