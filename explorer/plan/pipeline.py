"""The pipeline: which passes run, in which order. It is data, so that plans can differ in it and show it.

Why this order:

- values of earlier plans first (recall): nothing has to be planned below them;
- rules before batching: what a rule removes is not stacked, and equal shapes of simplified operations batch better;
- dedup before batching: equal calls are one call, not members of a batch;
- batching before inlining, since calls are batched as a whole: their body is vectorized once for all members;
- products are joined after inlining, since calls hide them, and before the rules: a norm before one product moves
  into its weights, before three it does not;
- then the rewriting passes once more, where one of these changed the graph: bodies show their inside now;
- constants, then algorithms: whether filters can be transformed once depends on what is computed once;
- fusion last of the rewriting passes: a fused kernel is not taken apart any more;
- updates in place after it and before the order: kernels decide which can be, and those run last;
- order, memory format, buffers: each needs the result of the one before.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, TypeAlias

from explorer.core.errors import OperandError
from explorer.plan.graph.pass_base import KINDS, Again, Pass
from explorer.plan.passes import (
    Algorithms,
    Batch,
    Buffers,
    Constants,
    Dedup,
    Fuse,
    Inline,
    JoinProducts,
    MemoryFormat,
    Order,
    Prune,
    Recall,
    Simplify,
    UpdateInPlace,
)

Step: TypeAlias = Pass | Again
PassName: TypeAlias = Literal[
    "simplify", "dedup", "prune", "batch", "join", "constants", "algorithms", "fuse", "update", "memory_format"
]
"""names that ``without`` takes, for the editors that complete them; passes of one's own have names besides"""

PIPELINE: tuple[Step, ...] = (
    Recall(),
    Simplify(),
    Dedup(),
    Prune(),
    Batch(),
    Inline(),
    JoinProducts(),
    Again(Simplify(), after=("batch", "inline", "join")),
    Again(Dedup(), after=("batch", "inline", "join")),
    Again(Prune(), after=("batch", "inline", "join")),
    Recall(simplified=True),
    Again(Prune(), after=("recall again",)),
    Constants(),
    Algorithms(),
    Fuse(),
    UpdateInPlace(),
    Order(),
    MemoryFormat(),
    Buffers(),
)


def default_passes() -> list[Step]:
    """Return the passes of a plan in their order, as a new list to add to, leave out of, or reorder.

    ``ex.Again`` runs a pass a second time where earlier stages changed the graph.

    >>> passes = ex.default_passes()
    >>> ex.passes.Prune() in passes
    True
    >>> again = ex.Again(ex.passes.Dedup(), after=("simplify again",))  # a further step, where simplify ran twice
    >>> ex.EvalPlan(passes=[*passes[:8], again, *passes[8:]])
    <plan: 0 registered, not planned>
    """
    return list(PIPELINE)


def pass_of(step: Step) -> Pass:
    """Return the pass of a step."""
    return step.repeated if isinstance(step, Again) else step


def pass_names(pipeline: Sequence[Step]) -> tuple[str, ...]:
    """Return the names of the passes that can be left out or set, each once, in their order."""
    return tuple(dict.fromkeys([pass_of(step).name for step in pipeline]))


def check_pipeline(pipeline: object) -> None:
    """Raise OperandError where ``pipeline`` is not a sequence of passes that makes a schedule.

    Every required pass must be in it once, kinds of passes must stand in their order, and passes must have a hash.
    """
    fix = "passes=[Mine(), *ex.default_passes()]"
    if not isinstance(pipeline, tuple):
        raise OperandError(f"passes={pipeline!r}", rule="a pipeline must be a list of passes", fix=fix)
    for step in pipeline:
        if not isinstance(step, (Pass, Again)):
            fix_class = f"passes=[{step.__name__}(), …]" if isinstance(step, type) and issubclass(step, Pass) else fix
            raise OperandError(f"{step!r} among passes", rule="each of them must be an ex.Pass", fix=fix_class)
        try:
            hash(step)
        except TypeError:
            raise OperandError(
                f"the pass {pass_of(step).name}, which has no hash",
                rule="a pass must be a frozen dataclass with hashable fields, so that equal plans can be shared",
                fix="@dataclass(frozen=True) above the class; tuples for lists",
            ) from None
    passes = [pass_of(step) for step in pipeline]
    for needed in [pass_of(step) for step in PIPELINE if pass_of(step).required]:
        count = sum([isinstance(step, type(needed)) for step in pipeline])
        if count != 1:
            raise OperandError(
                f"passes with {count} of {type(needed).__name__}",
                rule=f"{needed.name} must be in a pipeline once",
                fix=fix,
            )
    kinds = [KINDS.index(step.kind) for step in passes]
    for before, after, step in zip(kinds, kinds[1:], passes[1:], strict=False):
        if after < before:
            raise OperandError(
                f"the pass {step.name} ({step.kind}) behind one of kind {KINDS[before]}",
                rule=f"passes must stand in the order of their kinds: {', '.join(KINDS)}",
                fix=fix,
            )
