"""Layer functions for any object: they do nothing if it lacks the method.

A loop over the parts of a program thus need not know which of them have parameters or keep state.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from explorer.core.argument_checks import named
from explorer.core.errors import DeclarationError

if TYPE_CHECKING:
    from explorer.layers.framework.initializer import Buffer, Initializer
    from explorer.layers.framework.parameters import GradCollector


@named
def init(thing: Any, initializer: Initializer | None = None, buffer: Buffer | None = None) -> None:
    """Initialise the parameters of an object; nothing if it has no ``init``."""
    _ask(thing, "init", initializer, buffer)


def load_weights(thing: Any, weights: Mapping[str, Any]) -> None:
    """Assign arrays by parameter name; nothing if it has no ``load_weights``."""
    _ask(thing, "load_weights", weights)


def save_weights(thing: Any) -> dict[str, Any]:
    """Return the arrays of its parameters by name; an empty dict if it has no ``save_weights``."""
    weights: dict[str, Any] | None = _ask(thing, "save_weights")
    return {} if weights is None else weights


def grad_collect(thing: Any, collector: GradCollector) -> None:
    """Add its gradients to a collector; nothing if it has no ``grad_collect``."""
    _ask(thing, "grad_collect", collector)


def neutral_invariant(thing: Any) -> None:
    """Raise StateError if it keeps state of a pass; nothing if it has no ``neutral_invariant``."""
    _ask(thing, "neutral_invariant")


def feed_forward(thing: Any, *inputs: Any, **named: Any) -> Any:
    """Return the outputs of ``thing.feed_forward``; None if it has none."""
    return _ask(thing, "feed_forward", *inputs, **named)


def feed_backward(thing: Any, *gradients: Any, **named: Any) -> Any:
    """Return the gradients from ``thing.feed_backward``; None if it has none."""
    return _ask(thing, "feed_backward", *gradients, **named)


def _ask(thing: Any, name: str, *arguments: Any, **named: Any) -> Any:
    method = getattr(thing, name, None)
    if not callable(method):
        return None
    if isinstance(thing, type):
        raise DeclarationError(
            f"{name} of the class {thing.__name__}",
            rule=f"{name} must be given an object, not a class",
            fix=f'make one first: {thing.__name__}("name", …)',
        )
    return method(*arguments, **named)
