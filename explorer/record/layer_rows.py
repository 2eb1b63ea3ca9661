"""Rows of layers: wiring, policies and gradients, and their text form.

A graph only contains a layer's operations. These rows record the wiring of the sublayers, the origin of each policy's
value, and why a gradient is built or not. They contain only strings and numbers, so reading a recording does not
require the layers' classes.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class Policy:
    """Value of a policy for a layer.

    ``by`` is the layer that set the value, "default", or how the value was inferred.
    """

    name: str
    value: str
    by: str

    @property
    def text(self) -> str:
        """The policy as it is written in code: ``Update = True``."""
        return f"{self.name} = {self.value}"


@dataclass(frozen=True, slots=True)
class Feedback:
    """Whether a gradient is built, and why.

    ``of`` is a sublayer, for the gradient of its inputs, or "" for the gradient of the layer's own parameter.
    """

    of: str
    built: bool
    reason: str

    @property
    def text(self) -> str:
        """The decision whether the gradient is built, as a sentence."""
        if not self.of:
            return f"its gradient is {'' if self.built else 'not '}built, because {self.reason}"
        return f"{self.of} sends {'a' if self.built else 'no'} gradient to its inputs, because {self.reason}"


@dataclass(frozen=True, slots=True)
class Layer:
    """Layer: full name ("root/linear"), class, inputs and outputs, and decisions.

    A layer without sublayers has no clauses.

    ``scopes`` are the scope rows of its boxes, including the box of its gradient.
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

    @property
    def ports(self) -> str:
        """Names of inputs and outputs, as ``input → output``."""
        return f"{', '.join(self.inputs) or 'none'} → {', '.join(self.outputs) or 'none'}"

    @property
    def use(self) -> str:
        """Purpose for which the layer was built: training or inference."""
        return "training" if self.training else "inference"

    @property
    def order_text(self) -> str:
        """Sublayers in topological order, as ``linear → activation``."""
        return " → ".join(self.order)


@dataclass(frozen=True, slots=True)
class Port:
    """Input or output of a layer's box, and the node that has its value."""

    scope: int
    side: Literal["input", "output"]
    name: str
    node: int


@dataclass(frozen=True, slots=True)
class Gradient:
    """A forward node, the nodes that compute its gradient, and the forward values that are saved for these nodes."""

    node: int
    backward: tuple[int, ...]
    saved: tuple[int, ...]


def layer_lines(layers: Iterable[Layer]) -> list[str]:
    """Return lines of text for each layer: order, clauses, policies and gradients. Sublayers are indented."""
    lines: list[str] = []
    enclosing: list[str] = []
    for layer in layers:
        # Each layer precedes its sublayers, so a stack of names follows the nesting.
        while enclosing and not layer.name.startswith(f"{enclosing[-1]}/"):
            enclosing.pop()
        name = layer.name[len(enclosing[-1]) + 1 :] if enclosing else layer.name
        indent = "  " * len(enclosing)
        use = "" if enclosing else f" · for {layer.use}"
        lines.append(f"{indent}{name} · {layer.type} · {layer.ports}{use}")
        enclosing.append(layer.name)
        indent += "    "
        if layer.order:
            lines.append(f"{indent}order: {layer.order_text}")
        lines += [f"{indent}{clause}" for clause in layer.clauses]
        lines += [f"{indent}{policy.text} · {policy.by}" for policy in layer.policies]
        for feedback in layer.feedback:
            lines.append(f"{indent}{'✓' if feedback.built else '✗'} {feedback.text}")
    return lines
