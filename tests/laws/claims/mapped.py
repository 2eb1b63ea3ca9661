"""Checks of the inlining pass: mapped calls, mapped calls divided among workers, and calls that workers run whole."""

from __future__ import annotations

from explorer.core.ir.mapped_call import MappedCall
from explorer.plan.batching.divided_calls import PartCall
from explorer.plan.batching.vectorize import batch_body
from explorer.plan.graph.cost_model import REFERENCE_COST_MODEL
from explorer.plan.graph.reasons import Facts
from explorer.plan.passes import Inline
from tests.laws.claims.batching import price_of_body
from tests.laws.claims.decisions import Claim, of_decision


def call_of(claim: Claim) -> MappedCall:
    (node,) = claim.subjects
    assert isinstance(node.operation, MappedCall)
    return node.operation


def prices(claim: Claim) -> Facts:
    """Return the costs of a loop, which reads rows and copies each result into the whole, and of the batched body."""
    call = call_of(claim)
    model = REFERENCE_COST_MODEL
    copied = sum(output.type.nbytes for output in call.body.outputs)
    views = sum(call.batched) + len(call.body.outputs)
    separate = call.size * (price_of_body(call.body) + views * model.view + copied / model.bandwidth)
    together = price_of_body(batch_body(call.body, call.size, call.batched))
    return {
        "name": call.body.name,
        "count": call.size,
        "separate_us": round(separate, 2),
        "together_us": round(together, 2),
    }


@of_decision(Inline.batched)
def batched(claim: Claim) -> Facts:
    facts = prices(claim)
    assert facts["together_us"] <= facts["separate_us"]
    assert {node.uid for node in claim.subjects}.isdisjoint(claim.last.live)
    return facts


@of_decision(Inline.dear)
def dear(claim: Claim) -> Facts:
    facts = prices(claim)
    assert facts["together_us"] > facts["separate_us"]
    assert {node.uid for node in claim.subjects} <= claim.last.live.keys()
    return facts


def divided_prices(claim: Claim) -> Facts:
    """Return the cost of dividing members among workers, with one message for operands and one for results each."""
    step, call = claim.planned.options.find(Inline), call_of(claim)
    (node,) = claim.subjects
    assert step.network is not None
    network, members = step.network, -(-call.size // min(step.network.workers, call.size))
    together = price_of_body(batch_body(call.body, call.size, call.batched))
    sent = sum(
        [x.type.nbytes * (members / call.size if b else 1) for x, b in zip(node.operands, call.batched, strict=True)]
    )
    sent += members * sum(output.type.nbytes for output in call.body.outputs)
    messages = 2 * network.latency + network.overhead + sent / network.bandwidth
    return {
        "name": call.body.name,
        "count": call.size,
        "divided_us": round(together * members / call.size + messages, 2),
        "together_us": round(together, 2),
    }


@of_decision(Inline.divided)
def divided(claim: Claim) -> Facts:
    facts = divided_prices(claim)
    assert facts["divided_us"] < facts["together_us"]
    parts = [node.operation for node in claim.last.live.values() if isinstance(node.operation, PartCall)]
    assert sum([part.body.outputs[0].shape[0] for part in parts]) == call_of(claim).size
    return {**facts, "parts": len(parts)}


@of_decision(Inline.undivided)
def undivided(claim: Claim) -> Facts:
    facts = divided_prices(claim)
    assert facts["divided_us"] >= facts["together_us"]
    network = claim.planned.options.find(Inline).network
    assert network is not None
    return {**facts, "workers": network.workers}


@of_decision(Inline.not_asked)
def not_asked(claim: Claim) -> Facts:
    assert not claim.planned.options.find(Inline).vectorize
    return {"name": call_of(claim).body.name, "count": call_of(claim).size}


@of_decision(Inline.not_batchable)
def not_batchable(claim: Claim) -> Facts:
    """Check that an operation of the body states why it has no batching rule."""
    call = call_of(claim)
    (node,) = [node for node in call.body.nodes if node.operation.unbatchable and node.operands]
    return {
        "name": call.body.name,
        "count": call.size,
        "inner": node.operation.label,
        "why": node.operation.unbatchable,
    }


@of_decision(Inline.kept_whole)
def kept_whole(claim: Claim) -> Facts:
    (name,) = {call.operation.body.name for call in claim.subjects}  # type: ignore[attr-defined]
    step = claim.planned.options.find(Inline)
    assert name in step.whole
    assert {node.uid for node in claim.subjects} <= claim.last.live.keys() | claim.stage.live.keys()
    return {"name": name}
