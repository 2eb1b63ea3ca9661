"""The pipeline: which passes run, and in which order.

A pipeline is a tuple, so plans can use different pipelines and display them. The default order has these reasons:

- Values of earlier plans are reused first (recall), so that operations needed only for these values are not planned.
- Rules apply before batching, because removed operations are not stacked, and because simplified operations with equal
  shapes can be batched better.
- Dedup comes before batching, because equal calls become one call instead of several batch elements.
- Batching comes before inlining, because calls are batched as a whole, and their body is vectorized only once.
- Products are joined after inlining, because calls hide products. They are joined before the rules apply again, because
  a rule moves a norm into the weights of one product, but not into the weights of three.
- If one of these passes changed the graph, the rewriting passes then run again, because inlined bodies are now visible.
- Constants come before algorithms, because filters can be transformed once only if they are computed once.
- Fusion comes after all other rewriting, because a fused kernel is not divided again.
- Updates in place come after fusion, because they depend on kernels. They come before the order, because they must run
  last.
- Order, memory format and buffers come last; each of them needs the result of the previous one.
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
"""names that ``without`` accepts, for completion in editors; user-defined passes have other names"""

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
    """Return the passes of a plan in order, as a new list that can be extended, shortened or reordered.

    ``ex.Again`` runs a pass a second time if earlier stages changed the graph.

    >>> passes = ex.default_passes()
    >>> ex.passes.Prune() in passes
    True
    >>> again = ex.Again(ex.passes.Dedup(), after=("simplify again",))  # a further step, where simplify ran twice
    >>> ex.EvalPlan(passes=[*passes[:8], again, *passes[8:]])
    <plan: 0 registered, not planned>
    """
    return list(PIPELINE)


def pass_of(step: Step) -> Pass:
    """Return the pass of ``step``."""
    return step.repeated if isinstance(step, Again) else step


def pass_names(pipeline: Sequence[Step]) -> tuple[str, ...]:
    """Return the distinct names of the passes in ``pipeline``, in order."""
    return tuple(dict.fromkeys([pass_of(step).name for step in pipeline]))


def check_pipeline(pipeline: object) -> None:
    """Raise OperandError if ``pipeline`` is not a sequence of passes that produces a schedule.

    The pipeline must contain every required pass once, its passes must be in the order of their kinds, and they must be
    hashable.
    """
    fix = "passes=[Mine(), *ex.default_passes()]"
    if not isinstance(pipeline, tuple):
        raise OperandError(f"passes={pipeline!r}", rule="a pipeline must be a list of passes", fix=fix)
    for step in pipeline:
        if not isinstance(step, (Pass, Again)):
            fix_class = f"passes=[{step.__name__}(), …]" if isinstance(step, type) and issubclass(step, Pass) else fix
            raise OperandError(f"{step!r} among passes", rule="every pass must be an ex.Pass", fix=fix_class)
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
                rule=f"a pipeline must contain {needed.name} exactly once",
                fix=fix,
            )
    kinds = [KINDS.index(step.kind) for step in passes]
    for before, after, step in zip(kinds, kinds[1:], passes[1:], strict=False):
        if after < before:
            raise OperandError(
                f"the pass {step.name} ({step.kind}) after one of kind {KINDS[before]}",
                rule=f"passes must be in the order of their kinds: {', '.join(KINDS)}",
                fix=fix,
            )
