"""Functions that call a layer's method, or do nothing for objects without it, such as parts without parameters."""

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
    """Initialize the parameters of ``thing``; do nothing if it has no ``init``."""
    _call_method(thing, "init", initializer, buffer)


def load_weights(thing: Any, weights: Mapping[str, Any]) -> None:
    """Assign arrays by parameter name; do nothing if ``thing`` has no ``load_weights``."""
    _call_method(thing, "load_weights", weights)


def save_weights(thing: Any) -> dict[str, Any]:
    """Return the parameters' arrays by name, or an empty dict if ``thing`` has no ``save_weights``."""
    weights: dict[str, Any] | None = _call_method(thing, "save_weights")
    return {} if weights is None else weights


def grad_collect(thing: Any, collector: GradCollector) -> None:
    """Add the gradients of ``thing`` to ``collector``; do nothing if it has no ``grad_collect``."""
    _call_method(thing, "grad_collect", collector)


def neutral_invariant(thing: Any) -> None:
    """Raise StateError if ``thing`` is not neutral; do nothing if it has no ``neutral_invariant``."""
    _call_method(thing, "neutral_invariant")


def feed_forward(thing: Any, *inputs: Any, **named: Any) -> Any:
    """Return the result of ``thing.feed_forward``, or None if there is no such method."""
    return _call_method(thing, "feed_forward", *inputs, **named)


def feed_backward(thing: Any, *gradients: Any, **named: Any) -> Any:
    """Return the result of ``thing.feed_backward``, or None if there is no such method."""
    return _call_method(thing, "feed_backward", *gradients, **named)


def _call_method(thing: Any, name: str, *arguments: Any, **named: Any) -> Any:
    method = getattr(thing, name, None)
    if not callable(method):
        return None
    if isinstance(thing, type):
        raise DeclarationError(
            f"{name} of the class {thing.__name__}",
            rule=f"{name} must be called with an object, not a class",
            fix=f'create an object first: {thing.__name__}("name", …)',
        )
    return method(*arguments, **named)
