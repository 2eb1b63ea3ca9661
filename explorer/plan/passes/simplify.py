"""Simplify: at each node a chain of links; the first that recognises a structure replaces it, the tail is to leave it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from explorer.core.errors import DeclarationError
from explorer.core.expr import Expr, next_uid, state
from explorer.core.graph import reachable
from explorer.ops.structured import Zero
from explorer.plan.graph import Graph
from explorer.plan.rule import Applied, Declined, Link


@dataclass(frozen=True)
class Simplify:
    """Replace structures by simpler, cheaper or stabler ones."""

    sweeps: int = 4
    """how often to walk the graph at most: what one sweep replaced can leave a node without its other consumers"""
    name = "simplify"

    def run(self, graph: Graph) -> None:
        """Sweep until nothing changes."""
        for _ in range(self.sweeps):
            before = len(graph.substitutions)
            self._sweep(graph)
            if len(graph.substitutions) == before:
                return
            graph.refresh()

    def _sweep(self, graph: Graph) -> None:
        """Ask the chain at every node, operands first; what a link produces is asked about in turn."""
        chains: dict[type, list[tuple[int, Link]]] = {}
        numbered = list(enumerate(Link.chain))
        outer = state.scope, state.origin
        try:
            for node in graph.live:
                pending = [node]
                while pending:
                    current = pending.pop()
                    kind = type(current.operation)
                    links = chains.get(kind)
                    if links is None:
                        links = chains[kind] = [(i, link) for i, link in numbered if issubclass(kind, link.roots)]
                    if links and current.uid not in graph.replaced:
                        pending.extend(reversed(self._ask(current, links, graph)))
                    elif kind is Zero and current.operation.cause:  # type: ignore[attr-defined]
                        self._unreached(current, graph)
        finally:
            state.scope, state.origin = outer

    def _ask(self, node: Expr, links: list[tuple[int, Link]], graph: Graph) -> list[Expr]:
        state.scope, state.origin = node.scope, (node.code, node.instruction)
        before = next_uid()
        for index, link in links:
            answer: Any = link.match(node, graph)
            if answer is None:
                continue
            if isinstance(answer, Declined):
                graph.refuse(link, answer.code, answer.reason, answer.facts, node, index)
                continue
            if not isinstance(answer, Applied):
                raise DeclarationError(
                    f"link {link.name} answered {answer!r}", rule="a link answers Applied, Declined or None", fix="return one of them"
                )
            new = graph.resolve(answer.new)
            if new.type is not node.type:
                raise DeclarationError(
                    f"link {link.name} put {new.type} in the place of {node.type}",
                    rule="what stands for a node has its type",
                    fix="convert the result, or decline",
                )
            fresh = reachable([new], stop=lambda n: n.uid < before)
            fresh = [n for n in fresh if n.uid >= before and n.uid not in graph.known]
            decision = graph.decide(link, answer.code, answer.reason, answer.facts, [node], (new,), index)
            graph.introduce(decision, fresh, node)
            graph.substitute(decision, node, new)
            return fresh
        return []

    def _unreached(self, node: Expr, graph: Graph) -> None:
        if any(choice.code == "unreached" and choice.subjects[0] is node for choice in graph.choices):
            return
        graph.decide(
            self, "unreached", "the loss does not depend on this input: its gradient is the structured zero", {}, [node]
        )
