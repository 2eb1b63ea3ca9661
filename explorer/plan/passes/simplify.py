"""Simplify: at each node a chain of links; the first that recognises a structure replaces it.

The tail of the chain is the general method: the node stays as it is.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any, TypeAlias

from explorer.core.errors import DeclarationError
from explorer.core.ir.expr import Expr, state
from explorer.core.ir.function import Call
from explorer.core.ir.kernel_registry import runs_on
from explorer.core.ir.traversal import reachable
from explorer.data.dynamic_data import Dynamic
from explorer.ops.creation.constants import Zero
from explorer.plan.graph.decisions import location
from explorer.plan.graph.pass_base import Pass
from explorer.plan.graph.plan_graph import Graph
from explorer.plan.rewrite.constant_folding import DESCRIBED, Folding
from explorer.plan.rewrite.rule import Applied, Declined, Link
from explorer.record.reasons import FIELD

_ENDLESS = 10_000
"""so many replacements of what replaced one node are taken for a chain of links that never ends"""


@dataclass(frozen=True)
class Simplify(Pass):
    """Replace structures by simpler, cheaper or stabler ones."""

    sweeps: int = 4
    """how often to walk the graph at most: what one sweep replaced can leave a node without its other consumers"""
    name = "simplify"

    def run(self, graph: Graph) -> None:
        """Sweep until nothing changes."""
        told = {choice.subjects[0].uid for choice in graph.choices if choice.code == "unreached"}
        again: set[int] | None = None
        for _ in range(self.sweeps):
            before = len(graph.substitutions)
            again = self._sweep(graph, told, again)
            if len(graph.substitutions) == before:
                return
            graph.refresh()

    def _sweep(self, graph: Graph, told: set[int], only: set[int] | None = None) -> set[int] | None:
        """Ask the chain at every node, operands first; what a link produces is asked about in turn.

        ``only`` are the nodes at which an answer can be another one than in the sweep before: where consumers were
        counted. Returns these for the next sweep; None where all nodes are to be asked, since constants below changed.
        """
        graph.counting.clear()
        chains, folding, inputs = _Chains(graph), Folding(), graph.inputs
        known = folding.known
        outer = state.scope, state.origin
        try:
            for node in graph.live:
                kind = type(node.operation)
                operands = inputs[node.uid]
                if not operands:
                    if kind in DESCRIBED:
                        known.add(node.uid)
                elif operands[0].uid in known:
                    folding.meet(node, operands)
                asked = chains[kind] and (only is None or node.uid in only)
                links = chains.at(kind, graph.operands(node)) if asked else ()
                if links:
                    pending = self._ask(node, links, graph)
                    if pending:
                        self._settle(node, pending, chains, graph)
                elif kind is Zero and node.operation.cause and node.uid not in told:  # type: ignore[attr-defined]
                    told.add(node.uid)
                    reason = "the loss does not depend on this input: its gradient is the structured zero"
                    graph.decide(self, "unreached", reason, {}, [node])
        finally:
            state.scope, state.origin = outer
            graph.asking = None
        links_applied = len(graph.substitutions)
        if Call not in chains or graph.opened:  # what a call reads can become part of a link's structure
            folding.run(graph)
        return set(graph.counting) if len(graph.substitutions) == links_applied else None

    def _settle(self, node: Expr, pending: list[Expr], chains: _Chains, graph: Graph) -> None:
        pending.reverse()
        for _ in range(_ENDLESS):
            if not pending:
                return
            current = pending.pop()
            if current.uid not in graph.replaced:
                links = chains.at(type(current.operation), graph.operands(current))
                pending.extend(reversed(self._ask(current, links, graph)))
        raise DeclarationError(
            f"links that replaced {node.operation.label} and its replacements {_ENDLESS:,} times",
            rule=f"a link answers None at what it produced itself; the last one was {graph.choices[-1].link}",
            fix="let match() tell what is still to be done from what is done",
        )

    def _ask(self, node: Expr, links: _Asked, graph: Graph) -> list[Expr]:
        """The nodes that the first link that applies made, in topological order."""
        state.scope, state.origin = node.scope, (node.code, node.instruction)
        graph.asking = node
        for index, link in links:
            try:
                answer: Any = link.match(node, graph)
            except Exception as error:
                raise DeclarationError(
                    f"link {link.name} ({location(type(link))}) failed at {node!r}: {type(error).__name__}: {error}",
                    rule="a link answers Applied, Declined or None at every node of its roots",
                    fix=f"correct its match(), or take it out: {link.name}.remove()",
                ) from error
            if answer is None:
                if link.concrete and graph.has_dynamic:
                    _tell_hidden(link, node, graph, index)
                continue
            if isinstance(answer, (Applied, Declined)):
                _check_reason(link, answer)
            if isinstance(answer, Declined):
                graph.refuse(link, answer.code, answer.reason, answer.facts, node, index)
                continue
            if not isinstance(answer, Applied):
                raise DeclarationError(
                    f"link {link.name} answered {answer!r}",
                    rule="a link answers Applied, Declined or None",
                    fix="return one of them",
                )
            new = graph.resolve(answer.new)
            # a link may also read what was recorded before, outside of the graph
            fresh = [n for n in reachable([new], stop=lambda n: n.uid in graph.known) if n.uid not in graph.known]
            _check(link, node, new, fresh, graph)
            missing = [made for made in fresh if not runs_on(made.operation, made.type.device)]
            if missing:
                facts = {"operation": missing[0].operation.name, "device": missing[0].type.device.name}
                graph.refuse(link, "no_kernel", "{operation} has no kernel on {device}", facts, node, index)
                continue
            decision = graph.decide(link, answer.code, answer.reason, answer.facts, [node], (new,), index)
            graph.introduce(decision, fresh, node)
            graph.substitute(decision, node, new)
            return fresh
        return []


def _tell_hidden(link: Link, node: Expr, graph: Graph, index: int) -> None:
    hidden = [operand for operand in graph.operands(node) if isinstance(operand.operation, Dynamic)]
    if hidden:
        reason = "{x} is dynamic data, whose concrete type is hidden: ex.try_cast(x, …) gives it back"
        graph.refuse(link, "hidden_type", reason, {"x": hidden[0]}, node, index)


_Asked: TypeAlias = list[tuple[int, Link]]
"""links, with their places in the chain"""


class _Chains(dict[type, _Asked]):
    """For each kind of operation the links that are asked at it."""

    def __init__(self, graph: Graph) -> None:
        super().__init__()
        self._over: dict[tuple[type, ...], _Asked] = {}
        kinds = {type(node.operation) for node in graph.live}
        self._links = [
            (index, link)
            for index, link in enumerate(Link.chain)
            if not link.among or any(issubclass(kind, link.among) for kind in kinds)
        ]

    def __missing__(self, kind: type) -> _Asked:
        self[kind] = found = [(index, link) for index, link in self._links if link.takes(kind)]
        return found

    def at(self, kind: type, operands: tuple[Expr, ...]) -> _Asked:
        """Those that are asked at a node of a kind, for what makes its operands."""
        if len(operands) == 1:
            (only,) = operands
            key: tuple[type, ...] = kind, type(only.operation)
        elif len(operands) == 2:
            first, second = operands
            key = kind, type(first.operation), type(second.operation)
        else:
            return self[kind]
        found = self._over.get(key)
        return self._chosen(key) if found is None else found

    def _chosen(self, key: tuple[type, ...]) -> _Asked:
        kind, *made = key
        hidden = any(issubclass(each, Dynamic) for each in made)
        found = [(i, link) for i, link in self[kind] if link.takes_over(tuple(made)) or (hidden and link.concrete)]
        self._over[key] = found
        return found


@functools.cache
def _facts_of(template: str) -> frozenset[str]:
    return frozenset(found[0] for found in FIELD.findall(template))


def _check_reason(link: Link, answer: Applied | Declined) -> None:
    missing = _facts_of(answer.reason) - answer.facts.keys()
    if missing:
        raise DeclarationError(
            f"link {link.name} gives the reason {answer.reason!r} with the facts {sorted(answer.facts)}",
            rule=f"a reason names facts that are given; missing: {', '.join(sorted(missing))}",
            fix=f"{type(answer).__name__}(…, facts={{{', '.join(f'{name!r}: …' for name in sorted(missing))}}})",
        )


def _check(link: Link, node: Expr, new: Expr, fresh: list[Expr], graph: Graph) -> None:
    if new.type is not node.type:
        raise DeclarationError(
            f"link {link.name} put {new.type} in the place of {node.type}",
            rule="what stands for a node has its type",
            fix="convert the result, or decline",
        )
    if new is node or any(operand is node for made in fresh for operand in graph.operands(made)):
        raise DeclarationError(
            f"link {link.name} put a value that reads {node!r} in the place of {node!r}",
            rule="what stands for a node does not read it",
            fix="build the new value from the node's operands, or answer None",
        )
