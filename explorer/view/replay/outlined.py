"""Groups that are outlined: fused kernels and batches, each until a later group takes one of its nodes."""

from __future__ import annotations

from explorer.record import Recording


def outlined(recording: Recording) -> list[int]:
    """Return for every group the last position at which it is outlined, −1 for one that never is.

    Groups grow: the group that a node joined last is outlined, from the position after its decision.
    """
    taken: dict[int, int] = {}
    last = [-1] * len(recording.groups)
    for number in range(len(recording.groups) - 1, -1, -1):
        group = recording.groups[number]
        if group.kind != "function":
            last[number] = min((taken[node] for node in group.members if node in taken), default=recording.end)
            taken.update(dict.fromkeys(group.members, group.decision))
    return last
