"""Layers as rows: how each is wired, the policies that reach it, and which gradients it builds; and as text."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class Policy:
    """The value of a policy that a layer has; ``by`` is the layer that gave it, "default", or how it was inferred."""

    name: str
    value: str
    by: str


@dataclass(frozen=True, slots=True)
class Feedback:
    """Whether a gradient is built, and why: ``of`` is a sublayer, for its inputs, or "", the layer's own parameter."""

    of: str
    built: bool
    reason: str

    @property
    def text(self) -> str:
        """The decision as a sentence."""
        if not self.of:
            return f"its gradient is {'' if self.built else 'not '}built: {self.reason}"
        return f"{self.of} feeds {'' if self.built else 'nothing '}back: {self.reason}"


@dataclass(frozen=True, slots=True)
class Layer:
    """A layer: its full name ("root/linear"), its class, ports and decisions; without sublayers it has no clauses.

    ``scopes`` are the rows of the boxes that stand for it, the one of its gradient too.
    """

    name: str
    type: str
    training: bool
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    clauses: tuple[str, ...] = ()
    order: tuple[str, ...] = ()
    policies: tuple[Policy, ...] = ()
    feedback: tuple[Feedback, ...] = ()
    scopes: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Port:
    """A port of a layer's box: the node whose value is there."""

    scope: int
    side: Literal["input", "output"]
    name: str
    node: int


@dataclass(frozen=True, slots=True)
class Gradient:
    """A forward node, the nodes that compute its gradient, and the forward values that these read: what is saved."""

    node: int
    backward: tuple[int, ...]
    saved: tuple[int, ...]


def layer_lines(layers: Iterable[Layer]) -> list[str]:
    """Say of each layer, those inside others below them, its order, clauses, policies and gradients."""
    lines: list[str] = []
    around: list[str] = []
    for layer in layers:
        while around and not layer.name.startswith(f"{around[-1]}/"):
            around.pop()
        name = layer.name[len(around[-1]) + 1 :] if around else layer.name
        indent = "  " * len(around)
        use = "" if around else " · for training" if layer.training else " · for inference"
        lines.append(f"{indent}{name} · {layer.type} · {_ports(layer.inputs)} → {_ports(layer.outputs)}{use}")
        around.append(layer.name)
        indent += "    "
        if layer.order:
            lines.append(f"{indent}order: {' → '.join(layer.order)}")
        lines += [f"{indent}{clause}" for clause in layer.clauses]
        lines += [f"{indent}{policy.name} = {policy.value} · {policy.by}" for policy in layer.policies]
        for each in layer.feedback:
            lines.append(f"{indent}{'✓' if each.built else '✗'} {each.text}")
    return lines


def _ports(names: tuple[str, ...]) -> str:
    return ", ".join(names) or "none"
