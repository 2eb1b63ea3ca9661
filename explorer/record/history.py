"""The history of a node: the decisions about it, and what was declined before them.

Why a node was changed is often answered by the rules that were asked before and declined. Panel, text and
``plan.explain`` show them together, so that they are found here, for all alike.
"""

from __future__ import annotations

from explorer.record.recording import Recording

_MOST = 40
"""number of declined decisions that are kept before one decision: the last ones"""


def declined_before(recording: Recording) -> list[tuple[int, ...]]:
    """Return for each decision the declined ones of its stage that came before it, about the nodes that it changed.

    Only applied decisions have any. Beyond 40, the last ones are kept: a value that thousands of operations read is
    the subject of thousands of decisions.
    """
    before: list[tuple[int, ...]] = [()] * len(recording.decisions)
    for stage in recording.stages:
        declined: dict[int, list[int]] = {}
        for number in range(stage.first, stage.last):
            decision = recording.decisions[number]
            if decision.verdict == "declined":
                for node in decision.subjects:
                    declined.setdefault(node, []).append(number)
            elif declined:
                earlier = {refusal for node in decision.subjects for refusal in declined.get(node, ())[-_MOST:]}
                before[number] = tuple(sorted(earlier)[-_MOST:])
    return before


def decisions_about(recording: Recording, node: int) -> list[int]:
    """Return the numbers of the decisions about a node, each after the declined ones that belong before it."""
    own = [
        number
        for number, decision in enumerate(recording.decisions)
        if node in decision.subjects or node in decision.produced
    ]
    before = declined_before(recording) if own else []
    return sorted({*own, *[earlier for number in own for earlier in before[number]]})
