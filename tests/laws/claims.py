"""What each code of a decision claims, checked against the graph before and after it, the schedule, and values."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

import explorer as ex
from explorer.core.ir.function import Call, Item, Parameter
from explorer.core.types.tensor_type import TupleType
from explorer.plan import Plan
from explorer.plan.graph.cost_model import result_bytes
from explorer.plan.graph.decisions import PlanDecision
from explorer.plan.schedule.schedule import Kernel
from tests.support.interpreter import reference


class At:
    """The graph at a position, made anew from the recorded roots, the substitutions, and nothing else."""

    def __init__(self, planned: Plan, position: int) -> None:
        graph = planned.graph
        self._replaced = {old.uid: new for decision, old, new in graph.substitutions if decision < position}
        self.roots = [self.resolve(root) for root in graph.recorded_roots]
        self.live: dict[int, ex.Expr] = {}
        self.inputs: dict[int, list[ex.Expr]] = {}
        self.readers: dict[int, list[ex.Expr]] = {}
        pending = [*self.roots]
        while pending:
            node = pending.pop()
            if node.uid not in self.live:
                self.live[node.uid] = node
                self.inputs[node.uid] = [self.resolve(operand) for operand in node.operands]
                for operand in self.inputs[node.uid]:
                    self.readers.setdefault(operand.uid, []).append(node)
                pending += self.inputs[node.uid]

    def resolve(self, node: ex.Expr) -> ex.Expr:
        while node.uid in self._replaced:
            node = self._replaced[node.uid]
        return node

    def uses(self, node: ex.Expr) -> int:
        """How many places read a node, roots among them."""
        return len(self.readers.get(node.uid, [])) + sum(root is node for root in self.roots)

    def below(self, nodes: Iterable[ex.Expr]) -> set[int]:
        """The uids of all that nodes need, themselves excluded."""
        found: set[int] = set()
        pending = [operand for node in nodes for operand in self.inputs.get(node.uid, node.operands)]
        while pending:
            node = self.resolve(pending.pop())
            if node.uid not in found:
                found.add(node.uid)
                pending += self.inputs.get(node.uid, node.operands)
        return found


@dataclass
class Claim:
    """A decision with all that it can be checked against."""

    planned: Plan
    number: int

    @property
    def choice(self) -> PlanDecision:
        return self.planned.graph.decisions[self.number]

    @property
    def facts(self) -> dict[str, Any]:
        return self.choice.facts

    @property
    def subjects(self) -> list[ex.Expr]:
        return self.choice.subjects

    @cached_property
    def stage(self) -> At:
        """The graph when the stage began."""
        return At(self.planned, self.planned.graph.stages[self.choice.stage].first)

    @cached_property
    def before(self) -> At:
        return At(self.planned, self.number)

    @cached_property
    def after(self) -> At:
        return At(self.planned, self.number + 1)

    @cached_property
    def kernels(self) -> dict[int, Kernel]:
        """By uid of a node the kernel that computes it."""
        return {node.uid: kernel for kernel in self.planned.schedule.kernels for node in kernel.nodes}

    @property
    def replaced(self) -> list[tuple[ex.Expr, ex.Expr]]:
        return [(old, new) for decision, old, new in self.planned.graph.substitutions if decision == self.number]


def changes_nothing(claim: Claim) -> None:
    graph = claim.planned.graph
    assert claim.choice.subjects
    for rows in (graph.substitutions, graph.added, graph.removed):
        assert claim.number not in [row[0] for row in rows]
    assert claim.number not in [group.decision for group in graph.groups]


def same_values(claim: Claim) -> None:
    """What a decision puts in a node's place has the node's value, where the program as written has a finite one."""
    for old, new in claim.replaced:
        if any(isinstance(node.operation, Parameter) for node in (old, new)) or isinstance(old.type, TupleType):
            continue
        was, now = (np.asarray(value) for value in reference([old, new]))
        assert was.shape == now.shape
        good = np.isfinite(was) & (np.abs(was) < 1e6)
        np.testing.assert_allclose(now[good], was[good], rtol=1e-4, atol=1e-5)


def merged(claim: Claim) -> None:
    """The copies do what the first one does: one operation, read from operands that are one after the stage."""
    first = claim.facts["first"]
    last = At(claim.planned, claim.planned.graph.stages[claim.choice.stage].last)
    operands = [last.resolve(operand).uid for operand in first.operands]
    for copy in claim.subjects:
        assert copy.operation is first.operation
        assert claim.after.resolve(copy) is claim.after.resolve(first)
        own = [last.resolve(operand).uid for operand in copy.operands]
        assert own == operands or (claim.choice.code == "commuted" and own == operands[::-1])
    assert claim.facts["count"] == len(claim.subjects) + 1
    assert claim.facts["saved_bytes"] == sum(result_bytes(copy) for copy in claim.subjects)
    same_values(claim)


def constants(claim: Claim) -> None:
    assert claim.facts["count"] == len(claim.subjects)
    assert claim.facts["kept"] == len(claim.choice.produced)
    same_values(claim)


def unneeded(claim: Claim) -> None:
    """No root is reached from what is dropped."""
    assert claim.facts["count"] == len(claim.subjects)
    assert not {node.uid for node in claim.subjects} & claim.after.live.keys()


def independent(claim: Claim) -> None:
    """Members of a batch do not need each other, and are computed in fewer calls for a lower price."""
    members = {node.uid for node in claim.subjects}
    assert not members & claim.before.below(claim.subjects)
    assert claim.facts["count"] == len(claim.subjects) > 1
    assert claim.facts["together_us"] < claim.facts["separate_us"]


def costs_more(claim: Claim) -> None:
    changes_nothing(claim)
    assert claim.facts["together_us"] >= claim.facts["separate_us"]


def opened(claim: Claim) -> None:
    assert claim.facts["count"] == len(claim.subjects)
    for call in claim.subjects:
        assert isinstance(call.operation, Call)
        assert call.operation.body.name == claim.facts["name"]
    last = At(claim.planned, claim.planned.graph.stages[claim.choice.stage].last)
    assert not {node.uid for node in claim.subjects} & last.live.keys()


def too_large(claim: Claim) -> None:
    changes_nothing(claim)
    assert all(isinstance(node.operation, Call) for node in claim.subjects)
    limit = claim.planned.options.inline.limit
    assert claim.facts["limit"] == limit


def prepared_once(claim: Claim) -> None:
    """No parameter lies below what is computed once."""
    below = claim.stage.below(claim.subjects)
    assert not any(isinstance(claim.stage.live[uid].operation, Parameter) for uid in below)
    assert claim.facts["count"] == len(claim.subjects)


def one_kernel(claim: Claim) -> None:
    """The operations run as one kernel, inside which each value has one reader; the bytes saved are theirs."""
    members = {node.uid for node in claim.subjects}
    kernel = claim.kernels[claim.subjects[-1].uid]
    assert {node.uid for node in kernel.nodes} == members
    inner = [node for node in kernel.nodes if node is not kernel.result]
    for node in inner:
        readers = {reader.uid for reader in claim.stage.readers[node.uid]}
        assert len(readers) == 1
        assert readers <= members
        assert all(root is not node for root in claim.stage.roots)
        if claim.choice.code != "reduction":
            assert node.shape == kernel.result.shape
    assert kernel.blocks is not None
    made_whole = kernel.blocks.anchor is not None and not kernel.blocks.shares
    unwritten = inner[made_whole:]
    assert claim.facts["count"] == len(members)
    assert claim.facts["temporaries"] == len(unwritten)
    assert claim.facts["saved_bytes"] == sum(node.type.nbytes for node in unwritten)


def _apart(claim: Claim) -> None:
    changes_nothing(claim)
    assert claim.choice.unfused_edges
    for operand, reader in claim.choice.unfused_edges:
        own = claim.kernels.get(operand.uid)
        assert own is None or own is not claim.kernels[reader.uid]


def asked_for(claim: Claim) -> None:
    _apart(claim)
    assert any(root is claim.facts["operand"] for root in claim.stage.roots)


def other_consumers(claim: Claim) -> None:
    _apart(claim)
    operand = claim.facts["operand"]
    assert claim.facts["consumers"] == claim.stage.uses(operand)
    assert len({reader.uid for reader in claim.stage.readers[operand.uid]}) > 1


def shape(claim: Claim) -> None:
    _apart(claim)
    assert claim.facts["before"] != claim.facts["after"]
    said = {"×".join(map(str, node.shape)) or "scalar" for pair in claim.choice.unfused_edges for node in pair}
    assert said == {claim.facts["before"], claim.facts["after"]}


def second_product(claim: Claim) -> None:
    """Both are products; the first is in the reader's kernel or one that it reads, the second made with the operand."""
    _apart(claim)
    first, second = claim.facts["first"], claim.facts["second"]
    assert first is not second
    assert not first.operation.elementwise
    assert not second.operation.elementwise
    for operand, reader in claim.choice.unfused_edges:
        assert claim.kernels[operand.uid] is claim.kernels[second.uid]
        assert claim.kernels[reader.uid] is claim.kernels[first.uid]


def product(claim: Claim) -> None:
    _apart(claim)
    kernel = claim.kernels[claim.facts["operand"].uid]
    assert any(not node.operation.elementwise for node in kernel.nodes)


def a_view(claim: Claim) -> None:
    _apart(claim)
    assert claim.facts["operand"].operation.view


def producer(claim: Claim) -> None:
    _apart(claim)
    for operand, _ in claim.choice.unfused_edges:
        assert operand.operation.label == claim.facts["producer"]
        assert operand.operation.view or not operand.operation.elementwise


def computed_once(claim: Claim) -> None:
    _apart(claim)
    for operand, reader in claim.choice.unfused_edges:
        held = claim.stage.below([operand]) | {operand.uid}
        assert not any(isinstance(claim.stage.live[uid].operation, Parameter) for uid in held)
        assert any(isinstance(claim.stage.live[uid].operation, Parameter) for uid in claim.stage.below([reader]))


def alone(claim: Claim) -> None:
    """The operation is a kernel by itself."""
    changes_nothing(claim)
    for node in claim.subjects:
        assert len(claim.kernels[node.uid].nodes) == 1


def reader_takes_none(claim: Claim) -> None:
    alone(claim)
    for node in claim.subjects:
        labels = {reader.operation.label for reader in claim.stage.readers[node.uid]}
        assert claim.facts["reader"] in labels


def together(claim: Claim) -> None:
    kernels = claim.planned.schedule.kernels
    assert claim.facts["count"] == len(kernels)
    assert claim.facts["chains"] == len(set(claim.planned.schedule.chains))
    assert abs(claim.facts["alone_us"] - sum(kernel.cost.estimate for kernel in kernels)) < 0.01
    assert claim.facts["together_us"] <= claim.facts["alone_us"] + 0.01
    runs_until = claim.planned.schedule.runs_until
    overlapping = {kernel.result.uid for number, kernel in enumerate(kernels) if runs_until[number] > number}
    assert {node.uid for node in claim.subjects} == overlapping


def nothing_independent(claim: Claim) -> None:
    schedule = claim.planned.schedule
    assert schedule.runs_until == tuple(range(len(schedule.kernels)))
    assert claim.facts["count"] == len(schedule.kernels)


def packed(claim: Claim) -> None:
    schedule = claim.planned.schedule
    held = [placement for placement in schedule.placements if placement.buffer >= 0]
    assert claim.facts["count"] == len(held) == len(claim.subjects)
    assert claim.facts["alive_bytes"] <= claim.facts["arena_bytes"] == schedule.arena < claim.facts["beside_bytes"]


def reused(claim: Claim) -> None:
    steps = zip(claim.planned.schedule.kernels, claim.planned.schedule.placements, strict=True)
    kernels = [kernel for kernel, placement in steps if placement.buffer == claim.facts["buffer"]]
    assert [kernel.result.uid for kernel in kernels] == [node.uid for node in claim.subjects]
    assert claim.facts["count"] == len(kernels) > 1
    assert claim.facts["size_bytes"] == claim.planned.schedule.buffers[claim.facts["buffer"]]


def in_place(claim: Claim) -> None:
    """The operand that is overwritten is dead: no kernel that begins later reads it, and nobody asked for it."""
    kernels = claim.planned.schedule.kernels
    saved = 0
    for node in claim.subjects:
        number = next(number for number, kernel in enumerate(kernels) if kernel.result is node)
        dead = claim.planned.schedule.placements[number].reuses
        assert dead is not None
        assert any(read is dead for read in kernels[number].reads)
        assert not any(read is dead for kernel in kernels[number + 1 :] for read in kernel.reads)
        assert not any(root is dead for root in claim.planned.schedule.roots)
        saved += kernels[number].cost.bytes
    assert (claim.facts["count"], claim.facts["saved_bytes"]) == (len(claim.subjects), saved)


def block_memory(claim: Claim) -> None:
    schedule = claim.planned.schedule
    steps = zip(schedule.kernels, schedule.placements, strict=True)
    worst = [kernel for kernel, placement in steps if placement.live == schedule.peak_lower_bound]
    assert all(len(kernel.nodes) > 1 and kernel.cost.workspace for kernel in worst)
    assert [node.uid for kernel in worst for node in kernel.nodes] == [node.uid for node in claim.subjects]
    assert claim.facts["working_bytes"] == worst[0].cost.workspace
    assert claim.facts["apart_bytes"] < claim.facts["alive_bytes"] == schedule.peak_lower_bound


def items(claim: Claim) -> None:
    """Calls stand for calls of the same name that give more."""
    assert claim.facts["count"] == len(claim.subjects)
    for call in claim.subjects:
        assert isinstance(call.operation, (Call, Item))
        assert call.uid not in claim.after.live


CLAIMS: dict[tuple[str, str], Callable[[Claim], None]] = {
    ("dedup", "merged"): merged,
    ("dedup", "commuted"): merged,
    ("dedup", "constants"): constants,
    ("dedup", "augmented"): items,
    ("dedup", "order_of_zeros"): changes_nothing,
    ("prune", "unneeded"): unneeded,
    ("batch", "batched"): independent,
    ("batch", "stacking_costs_more"): costs_more,
    ("inline", "inlined"): opened,
    ("inline", "too_large"): too_large,
    ("constants", "prepared_once"): prepared_once,
    ("fuse", "chain"): one_kernel,
    ("fuse", "epilogue"): one_kernel,
    ("fuse", "reduction"): one_kernel,
    ("fuse", "asked_for"): asked_for,
    ("fuse", "other_consumers"): other_consumers,
    ("fuse", "shape"): shape,
    ("fuse", "second_product"): second_product,
    ("fuse", "product"): product,
    ("fuse", "view"): a_view,
    ("fuse", "producer"): producer,
    ("fuse", "computed_once"): computed_once,
    ("fuse", "nothing_to_join"): alone,
    ("fuse", "reader"): reader_takes_none,
    ("fuse", "long_rows"): _apart,
    ("fuse", "too_large"): _apart,
    ("order", "together"): together,
    ("order", "nothing_independent"): nothing_independent,
    ("buffers", "packed"): packed,
    ("buffers", "reused"): reused,
    ("buffers", "in_place"): in_place,
    ("buffers", "block_memory"): block_memory,
}
"""(pass, code) → what it claims"""

ELSEWHERE = {
    ("recall", "recalled"): "rests on what earlier plans have evaluated: tests/run/test_result_cache.py",
    ("memory_format", "channels_last"): "the order of a result in memory: tests/run/kernels/test_runners.py",
    ("memory_format", "asked_for"): "the same",
    ("algorithms", "tiles"): "products of transformed tiles: tests/plan/passes/test_algorithms.py",
    ("algorithms", "windows"): "the same",
    ("algorithms", "few_channels"): "the same",
    ("algorithms", "few_tiles"): "the same",
    ("algorithms", "filters_vary"): "the same",
    ("fuse", "element_type"): "types that users declare: tests/conformance/test_metann_data.py",
    ("fuse", "device"): "the same",
}
"""codes that are checked elsewhere, with the reason"""


def checker(stage: str, decision: PlanDecision) -> Callable[[Claim], None] | None:
    """What checks a decision of a stage; rules have codes of their own, and are checked by what they change."""
    stage = stage.removesuffix(" again")
    if stage == "simplify":
        return same_values if decision.applied else changes_nothing
    if stage == "batch" and not decision.applied and (stage, decision.code) not in CLAIMS:
        return changes_nothing
    return CLAIMS.get((stage, decision.code))
