"""Options of a plan: its passes, and the permitted changes to floating-point numbers.

The fields of a pass are its options. Keyword arguments such as ``lanes=2`` or ``without=("fuse",)`` are converted to
fields of passes only here. A plan depends only on its passes, so every option of a pass must be a field of the pass.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any, TypedDict, TypeVar, get_args

from explorer.core.argument_checks import check_name, check_type
from explorer.core.errors import OperandError, UnknownNameError
from explorer.core.ir.explore_options import Kernels
from explorer.plan.graph.cost_model import CostModel
from explorer.plan.graph.numerics import LEVELS, Level
from explorer.plan.graph.pass_base import Pass
from explorer.plan.passes import Batch, Codegen, Fuse, Inline, JoinRows, Order, Recall, UpdateInPlace
from explorer.plan.passes.order import Heuristic
from explorer.plan.pipeline import PIPELINE, Step, check_pipeline, pass_names, pass_of

P = TypeVar("P", bound=Pass)
S = TypeVar("S", bound=Step)

PASSES = tuple([name for name in pass_names(PIPELINE) if name != Recall.name])
"""names of the passes that can be excluded or configured"""
_REPLACED: dict[str, type[Pass]] = {"batch": Batch, "inline": Inline, "update": UpdateInPlace}
"""option that replaces a pass → class of the replaced pass"""
_REQUIRED = tuple([step.name for step in map(pass_of, PIPELINE) if step.required])


class PlannerOptions(TypedDict, total=False):
    """Options of the passes, for type checkers and editor completion; `Options` describes and checks them."""

    passes: Sequence[Step]
    """the passes, in order (ex.default_passes)"""
    kernels: Kernels
    """"native" adds the pass `Codegen`, which compiles kernels; "numpy" runs all kernels in NumPy"""
    inference: bool
    """whether the plan is for a net, whose weights are constant"""
    lanes: int | None
    """maximum number of kernels that run at the same time; None lets the executor choose"""
    order: Heuristic | None
    """which of the kernels that are ready is next: "earliest" or "depth_first" (the field ``heuristic`` of `Order`)"""
    cost_model: CostModel | None
    """the cost model of all passes, such as ``ex.calibrate()``"""
    batch: Batch | None
    """the pass that replaces the default `Batch`"""
    inline: Inline | None
    """the pass that replaces the default `Inline`"""
    update: UpdateInPlace | None
    """the pass that replaces the default `UpdateInPlace`"""


@dataclass(frozen=True, init=False)
class Options:
    """Passes of a plan, and the permitted changes to floating-point numbers. Hashable, for use in cache keys.

    ``kernels="native"`` adds the pass `Codegen`.
    ``without`` lists the names of passes to exclude. ``lanes`` and ``order`` set fields of `Order`. ``cost_model`` sets
    the field of every pass that uses a cost model. ``batch``, ``inline`` and ``update`` replace passes of the pipeline.
    Raises OperandError or UnknownNameError if no pass accepts an option.
    """

    passes: tuple[Step, ...]
    numerics: Level
    """permitted changes to numbers: "safe" or "fast" (plan/graph/numerics.py)"""
    inference: bool
    """whether the plan is for a net, whose weights are known and constant, so that rules may read them
    (plan/graph/numerics.py)"""

    def __init__(
        self,
        without: tuple[str, ...] = (),
        *,
        passes: tuple[Step, ...] = PIPELINE,
        numerics: Level = "safe",
        inference: bool = False,
        kernels: Kernels = "numpy",
        lanes: int | None = None,
        order: str | None = None,
        cost_model: CostModel | None = None,
        batch: Batch | None = None,
        inline: Inline | None = None,
        update: UpdateInPlace | None = None,
    ) -> None:
        check_name(numerics, "numerics", LEVELS)
        check_type(inference, "inference", bool, "True or False", "inference=True")
        check_name(kernels, "kernels", get_args(Kernels))
        if passes is not PIPELINE:
            check_pipeline(passes)
        _check_without(without, passes)
        replacements: dict[type[Pass], Pass] = {}
        for (option, kind), replacement in zip(_REPLACED.items(), (batch, inline, update), strict=True):
            if replacement is not None:
                check_type(
                    replacement, option, kind, f"the pass {kind.__name__}", f"{option}=ex.passes.{kind.__name__}()"
                )
                replacements[kind] = replacement
        if kernels == "native" and not any(isinstance(step, Codegen) for step in passes):
            passes = _with_codegen(passes)
        if cost_model is not None:
            fix = 'costs="measured", or cost_model=ex.calibrate()'
            check_type(cost_model, "cost_model", CostModel, "a cost model", fix)
        settings = {"lanes": lanes, "heuristic": order, "cost_model": cost_model}
        settings = {name: value for name, value in settings.items() if value is not None}
        if "batch" in without:
            settings["vectorize"] = False  # do not batch mapped calls either
        if replacements:
            passes = tuple([_replaced(step, replacements) for step in passes])
        if settings:
            passes = tuple([_with(step, settings) for step in passes])
        if without:
            passes = tuple([step for step in passes if pass_of(step).name not in without])
        for name, value in (("passes", passes), ("numerics", numerics), ("inference", inference)):
            object.__setattr__(self, name, value)

    def __hash__(self) -> int:
        return self._hash

    @functools.cached_property
    def _hash(self) -> int:
        """Hash of the options, cached because options are looked up at each evaluation."""
        return hash((self.passes, self.numerics, self.inference))

    def find(self, kind: type[P]) -> P:
        """Return the pass of class ``kind``; raise UnknownNameError if it was excluded."""
        for step in self.passes:
            if isinstance(step, kind):
                return step
        raise UnknownNameError(kind.name, kind="pass", known=pass_names(self.passes))

    def with_fields(self, kind: type[Pass], **changes: Any) -> Options:
        """Return options with changed fields of the pass of class ``kind``, unless it was excluded."""
        passes = tuple([_with(step, changes) if isinstance(step, kind) else step for step in self.passes])
        return self if passes == self.passes else replace(self, passes=passes)

    @functools.cached_property
    def of_bodies(self) -> Options:
        """Options for bodies of calls that are not inlined: one lane, no workers and no updates."""
        return self.with_fields(Order, lanes=1).with_fields(Inline, network=None).with_fields(UpdateInPlace, pairs=())


def _with_codegen(passes: tuple[Step, ...]) -> tuple[Step, ...]:
    """Return the passes with `JoinRows` after the fusion, and `Codegen` before the pass that assigns memory."""
    steps: list[Step] = []
    for step in passes:
        if pass_of(step).kind == "memory":
            steps.append(Codegen())
        steps.append(step)
        if isinstance(pass_of(step), Fuse):
            steps.append(JoinRows())
    return tuple(steps)


OPTIONS = tuple(inspect.signature(Options).parameters)
"""names of the options of a plan"""


def _check_without(without: object, passes: tuple[Step, ...]) -> None:
    known = PASSES if passes is PIPELINE else tuple(dict.fromkeys([*PASSES, *pass_names(passes)]))
    names = f"the names of passes to leave out ({', '.join(known)})"
    check_type(without, "without", tuple, names, 'without="fuse", or without=["fuse", "simplify"]')
    assert isinstance(without, tuple)
    for name in without:
        check_type(name, "without", str, names, 'without=["fuse", "simplify"]')
        if name not in known:
            raise UnknownNameError(name, kind="pass", known=known)
        if name in _REQUIRED:
            raise OperandError(
                f"a plan without {name}",
                rule=f"{' and '.join(_REQUIRED)} must run: they make the schedule",
                fix="leave out another pass",
            )


def _replaced(step: Step, replacements: Mapping[type[Pass], Pass]) -> Step:
    return next((replacement for kind, replacement in replacements.items() if isinstance(step, kind)), step)


def _with(step: S, settings: Mapping[str, Any]) -> S:
    """Return ``step`` with the settings that are fields of its pass, or ``step`` itself if nothing changes."""
    kind: type = type(step)
    names = _field_names(kind)
    if names.isdisjoint(settings):
        return step
    changes = {name: value for name, value in settings.items() if name in names and getattr(step, name) is not value}
    changed = replace(step, **changes) if changes else step  # type: ignore[type-var]  # it has fields: a dataclass
    return step if changed == step else changed


@functools.cache
def _field_names(kind: Any) -> frozenset[str]:
    return frozenset([field.name for field in fields(kind)]) if is_dataclass(kind) else frozenset()
