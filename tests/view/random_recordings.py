"""Random recordings: programs in nested scopes, with stages that replace, merge, remove and group nodes."""

from __future__ import annotations

import random

from explorer.record import Kernel, Recording, Run, Schedule, Step
from tests.view.sample import Builder

NAMES = ("add", "tanh", "matmul", "exp")


class RandomRecording(Builder):
    """Builder of a random recording; nodes read only nodes of a lower rank, so that no decision creates a cycle."""

    def __init__(self, seed: int) -> None:
        super().__init__(f"random {seed}", f"{seed:04x}")
        self.pick = random.Random(seed)
        self.rows = [self.type(4, 4), self.type(8)]
        self.scopes = [0]
        for number in range(self.pick.randrange(9)):
            kind = self.pick.choice(("scope", "layer", "file"))
            self.scopes.append(self.scope(f"s{number % 4}", kind, self.pick.choice(self.scopes)))
        self.rank: dict[int, int] = {}

    def current(self) -> list[int]:
        """Return the operations that currently exist."""
        nodes = self.recording.nodes
        return [node for node in self.rank if nodes.gone[node] < 0 and nodes.kind[node] == "operation"]

    def operation(self, rank: int, born: int = -1) -> int:
        """Add an operation that reads current nodes below a rank."""
        nodes = self.recording.nodes
        known = [node for node, other in self.rank.items() if other < rank and nodes.gone[node] < 0]
        operands = [self.pick.choice(known) for _ in range(self.pick.choice((1, 2, 2)))]
        scope, row = self.pick.choice(self.scopes), self.pick.choice(self.rows)
        operator = self.node(self.pick.choice(NAMES), *operands, type=row, scope=scope, born=born, flops=9, bytes=64)
        self.rank[operator] = rank
        return operator

    def change(self) -> None:
        """Add one decision about current nodes."""
        nodes, current = self.recording.nodes, self.current()
        kind = self.pick.choice(("replace", "merge", "merge", "drop", "group", "declined"))
        subject = self.pick.choice(current)
        lower = [node for node in current if self.rank[node] < self.rank[subject]]
        alike = [node for node in lower if nodes.operation[node] == nodes.operation[subject]]
        if kind == "replace":
            new = self.operation(self.rank[subject], self.next_decision())
            self.decide("Rule", "better", "better", (subject,), (new,), replace=[(subject, new)])
        elif kind == "merge" and lower:
            kept = self.pick.choice(alike or lower)
            self.decide("Dedup", "same", "the same", (subject,), (kept,), replace=[(subject, kept)])
        elif kind == "drop" and len(current) > 3:
            final = self.recording.resolver(self.recording.end)
            read = {final.get(n, n) for node in current for n in nodes.operands[node]}
            unread = [node for node in current if node not in read]
            self.decide("Prune", "unread", "nobody reads it", unread[:1], gone=unread[:1])
        elif kind == "group" and len(current) > 3:
            members = self.pick.sample(current, self.pick.randrange(2, 4))
            self.decide("Fuse", "one", "one kernel", members, group=("kernel", "some"))
        else:
            self.decide("Rule", "no", "not here", (subject,), applied=False)

    def planned(self) -> Recording:
        """Schedule the remaining nodes, one kernel each, and run them."""
        current = self.current()
        kernels = tuple(
            Kernel((node,), 1, 0, 9, 64, 0, 1.0, number, False, (node,), 1, "only", (), 64)
            for number, node in enumerate(current)
        )
        self.recording.schedule = Schedule(kernels, (64,) * len(kernels), 64, 64)
        self.stage("order", "order")
        self.stage("buffers", "memory")
        self.stage("run", "run")
        steps = tuple(Step(number, float(number), 1.0, 64) for number in range(len(kernels)))
        self.recording.run = Run("simple", steps, float(len(kernels)), {})
        return self.roots(*self.pick.sample(current, min(2, len(current))))


def random_recording(seed: int) -> Recording:
    """Return the random recording for a seed."""
    make = RandomRecording(seed)
    for number in range(3):
        make.rank[make.leaf(f"x{number}", make.rows[0], scope=make.pick.choice(make.scopes))] = number
    for rank in range(3, make.pick.randrange(10, 40)):
        make.operation(rank)
    make.stage("recorded", "record")
    for number in range(make.pick.randrange(1, 5)):
        make.stage(f"pass {number}", "rewrite")
        for _ in range(make.pick.randrange(6)):
            make.change()
    return make.planned()
