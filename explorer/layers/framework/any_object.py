"""The interface of layers as functions of any object: they do nothing where it lacks the method.

So a loop over the parts of a program need not know which of them have parameters, or keep anything.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from explorer.core.errors import DeclarationError

if TYPE_CHECKING:
    from explorer.layers.framework.initializer import Buffer, Initializer
    from explorer.layers.framework.parameters import GradCollector


def init(thing: Any, initializer: Initializer | None = None, buffer: Buffer | None = None) -> None:
    """Give its parameters what they begin with; nothing where it has no ``init``."""
    _ask(thing, "init", initializer, buffer)


def load_weights(thing: Any, weights: Mapping[str, Any]) -> None:
    """Assign arrays by parameter name; nothing where it has no ``load_weights``."""
    _ask(thing, "load_weights", weights)


def save_weights(thing: Any) -> dict[str, Any]:
    """Its parameters' arrays by name; an empty dict where it has no ``save_weights``."""
    found: dict[str, Any] | None = _ask(thing, "save_weights")
    return {} if found is None else found


def grad_collect(thing: Any, collector: GradCollector) -> None:
    """Hand its gradients to a collector; nothing where it has no ``grad_collect``."""
    _ask(thing, "grad_collect", collector)


def neutral_invariant(thing: Any) -> None:
    """Raise StateError where it keeps something of a pass; nothing where it has no ``neutral_invariant``."""
    _ask(thing, "neutral_invariant")


def feed_forward(thing: Any, *inputs: Any, **named: Any) -> Any:
    """The outputs of ``thing.feed_forward``; None where it has none."""
    return _ask(thing, "feed_forward", *inputs, **named)


def feed_backward(thing: Any, *gradients: Any, **named: Any) -> Any:
    """The gradients that ``thing.feed_backward`` gives; None where it has none."""
    return _ask(thing, "feed_backward", *gradients, **named)


def _ask(thing: Any, name: str, *arguments: Any, **named: Any) -> Any:
    method = getattr(thing, name, None)
    if not callable(method):
        return None
    if isinstance(thing, type):
        raise DeclarationError(
            f"{name} of the class {thing.__name__}",
            rule=f"{name} must be given an object, which has parameters and a state of its own",
            fix=f'make one first: {thing.__name__}("name", …)',
        )
    return method(*arguments, **named)
