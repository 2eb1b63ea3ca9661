"""Topologies of composite layers: clauses in any order, checked and sorted topologically.

Clauses refer to sublayers and ports by name, so a topology can be checked when its class is declared, and errors show
which clause is wrong.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter
from itertools import pairwise
from typing import TypeAlias

from explorer.core.errors import DeclarationError, UnknownNameError
from explorer.layers.framework.class_checks import check_ports
from explorer.layers.framework.layer import Layer


@dataclass(frozen=True, slots=True)
class Sublayer:
    """Clause that declares a sublayer's name and class."""

    name: str
    kind: type[Layer]

    def __repr__(self) -> str:
        return f"Sublayer({self.name!r}, {getattr(self.kind, '__name__', self.kind)})"


@dataclass(frozen=True, slots=True)
class InConnect:
    """Clause that connects an input port of the composite to an input port of a sublayer."""

    port: str
    to: str
    to_port: str

    def __repr__(self) -> str:
        return f"InConnect({self.port!r}, {self.to!r}, {self.to_port!r})"


@dataclass(frozen=True, slots=True)
class InternalConnect:
    """Clause that connects an output port of a sublayer to an input port of another sublayer."""

    source: str
    source_port: str
    to: str
    to_port: str

    def __repr__(self) -> str:
        return f"InternalConnect({self.source!r}, {self.source_port!r}, {self.to!r}, {self.to_port!r})"


@dataclass(frozen=True, slots=True)
class OutConnect:
    """Clause that makes an output port of a sublayer an output port of the composite."""

    source: str
    source_port: str
    port: str

    def __repr__(self) -> str:
        return f"OutConnect({self.source!r}, {self.source_port!r}, {self.port!r})"


Clause: TypeAlias = Sublayer | InConnect | InternalConnect | OutConnect
Source: TypeAlias = tuple[str, str]
"""(sublayer, port); the sublayer "" is the composite itself"""


class Topology:
    """Clauses of a composite in any order; raises DeclarationError if a clause is invalid.

    ``inputs`` and ``outputs`` are the composite's ports, in the order in which clauses first mention them, and
    ``order`` lists the sublayers in topological order.
    """

    def __init__(self, *clauses: Clause) -> None:
        for clause in clauses:
            if not isinstance(clause, Sublayer | InConnect | InternalConnect | OutConnect):
                raise DeclarationError(
                    f"{clause!r} in a topology",
                    rule="clauses must be Sublayer, InConnect, InternalConnect or OutConnect",
                    fix="pass each clause as an argument: Topology(Sublayer(…), …)",
                )
        self.clauses = clauses
        self.sublayers = self._sublayer_classes()
        self.sources: dict[Source, Source] = {}
        """(sublayer, input port) → the source that it reads"""
        self.results: dict[str, Source] = {}
        """output port of the composite → the source that it reads"""
        self._uses: dict[str, list[tuple[Clause, str, str]]] = {}
        """sublayer → (clause that refers to it, "input" or "output", port)"""
        for clause in clauses:
            if isinstance(clause, InConnect):
                self._feed(clause, ("", clause.port))
            elif isinstance(clause, InternalConnect):
                self._check_use(clause, clause.source, clause.source_port, "output")
                self._feed(clause, (clause.source, clause.source_port))
            elif isinstance(clause, OutConnect):
                self._check_use(clause, clause.source, clause.source_port, "output")
                if clause.port in self.results:
                    raise DeclarationError(
                        f"{clause!r}: the output port {clause.port!r} has two sources",
                        rule="an output port of a composite must have exactly one source",
                        fix="rename one of the ports, or combine the outputs in a sublayer",
                    )
                self.results[clause.port] = clause.source, clause.source_port
        self.inputs = _unique(clause.port for clause in clauses if isinstance(clause, InConnect))
        self.outputs = tuple(self.results)
        self._check_connections()
        check_ports("a topology", self.inputs, self.outputs)
        self.order = self._sorted()
        # ignore the order, so that topologies that differ only in the order of clauses share functions
        self._hash = hash(frozenset(clauses))

    def _sublayer_classes(self) -> dict[str, type[Layer]]:
        classes: dict[str, type[Layer]] = {}
        for clause in self.clauses:
            if isinstance(clause, Sublayer):
                if clause.name in classes:
                    raise DeclarationError(
                        f"{clause!r}: a second sublayer {clause.name!r}",
                        rule="sublayers must have different names",
                        fix=f"Sublayer({clause.name + '_2'!r}, …)",
                    )
                if not isinstance(clause.name, str) or not clause.name or "/" in clause.name:
                    raise DeclarationError(
                        f"{clause!r}",
                        rule="a sublayer's name must be a string without a slash",
                        fix="Sublayer('weight', …)",
                    )
                if not isinstance(clause.kind, type) or not issubclass(clause.kind, Layer):
                    raise DeclarationError(
                        f"{clause!r}",
                        rule="a sublayer must be given as a class, because the composite creates the layer",
                        fix="pass the class, and return its constructor arguments from arguments()",
                    )
                classes[clause.name] = clause.kind
        if not classes:
            raise DeclarationError(
                f"a topology without sublayers: {list(self.clauses)}",
                rule="a composite must have at least one sublayer",
                fix='add Sublayer("name", a layer class)',
            )
        return classes

    def _check_use(self, clause: Clause, name: str, port: str, what: str) -> None:
        if name not in self.sublayers:
            raise UnknownNameError(name, kind=f"sublayer in {clause!r}", known=self.sublayers)
        sublayer_class = self.sublayers[name]
        ports = sublayer_class.inputs if what == "input" else sublayer_class.outputs
        # a composite whose topology depends on policies has no ports until it is built, when check_made checks them
        if sublayer_class.outputs and port not in ports:
            raise UnknownNameError(port, kind=f"{what} port of {sublayer_class.__name__} in {clause!r}", known=ports)
        self._uses.setdefault(name, []).append((clause, what, port))

    def _feed(self, clause: InConnect | InternalConnect, source: Source) -> None:
        self._check_use(clause, clause.to, clause.to_port, "input")
        first_source = self.sources.setdefault((clause.to, clause.to_port), source)
        if first_source is not source:
            raise DeclarationError(
                f"{clause!r}: the input {clause.to_port!r} of {clause.to!r} has two sources",
                rule="an input port must have exactly one source",
                fix="combine the sources in a sublayer, such as Add",
            )

    def _check_connections(self) -> None:
        connected_names = {name for name, _ in [*self.sources, *self.sources.values(), *self.results.values()]}
        for clause in self.clauses:
            if not isinstance(clause, Sublayer):
                continue
            if clause.name not in connected_names:
                raise DeclarationError(
                    f"{clause!r} is connected to nothing",
                    rule="every sublayer must occur in a connection clause",
                    fix="connect it, or remove it",
                )
            self._check_inputs(clause.name, clause.kind.inputs)
        if not self.results:
            raise DeclarationError(
                f"a topology without OutConnect: {list(self.clauses)}",
                rule="a composite must have at least one output port",
                fix='add OutConnect(sublayer, its port, "output")',
            )

    def _check_inputs(self, name: str, ports: Iterable[str]) -> None:
        missing = [port for port in ports if (name, port) not in self.sources]
        if missing:
            raise DeclarationError(
                f"{Sublayer(name, self.sublayers[name])!r}: nothing is connected to its input {', '.join(missing)}",
                rule="every input port of a sublayer must have a source",
                fix=f"add InConnect(…, {name!r}, {missing[0]!r}) or an InternalConnect to it",
            )

    def check_made(self, name: str, layer: Layer) -> None:
        """Raise UnknownNameError if a clause refers to a port that the created sublayer ``layer`` does not have."""
        for clause, what, port in self._uses.get(name, ()):
            ports = layer.inputs if what == "input" else layer.outputs
            if port not in ports:
                raise UnknownNameError(port, kind=f"{what} port of {layer!r} in {clause!r}", known=ports)
        self._check_inputs(name, layer.inputs)

    def _sorted(self) -> tuple[str, ...]:
        graph: TopologicalSorter[str] = TopologicalSorter(dict.fromkeys(self.sublayers, ()))
        for (name, _), (source, _) in self.sources.items():
            if source:
                graph.add(name, source)
        try:
            return tuple(graph.static_order())
        except CycleError as error:
            cycle = error.args[1]
            steps = set(pairwise(cycle))  # pairs (source, reader)
            clauses = [c for c in self.clauses if isinstance(c, InternalConnect) and (c.source, c.to) in steps]
            raise DeclarationError(
                f"a cycle of sublayers: {' → '.join(cycle)}; in {', '.join(map(repr, clauses))}",
                rule="a sublayer must not depend on its own output",
                fix="use a Recurrent layer for values that are passed from step to step",
            ) from None

    def feeding(self, name: str) -> list[str]:
        """Return the names of the sublayers whose outputs the sublayer ``name`` reads; "" represents the composite's
        inputs."""
        ports = [port for _, what, port in self._uses.get(name, ()) if what == "input"]
        return list(_unique(self.sources[name, port][0] for port in ports))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Topology) and set(self.clauses) == set(other.clauses)

    def __hash__(self) -> int:
        return self._hash

    def __repr__(self) -> str:
        return f"Topology({', '.join(map(repr, self.clauses))})"


def _unique(names: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(names))
