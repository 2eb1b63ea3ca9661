"""Descriptions of layers: sublayers in order, policies and where they were set, and which gradients are built and why.

``layer.describe()`` returns a description as text, and recordings store descriptions as rows for the views. A
description depends only on a layer's class, arguments and policies, so nothing is recorded or run.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping
from functools import cache
from types import FunctionType
from typing import Any

from explorer.core.policy import MISSING, Minor, PolicyClass, ResolvedPolicy, policy_text
from explorer.layers.framework.policy_classes import GradPolicy
from explorer.record.layer_rows import Feedback, Policy, layer_lines
from explorer.record.layer_rows import Layer as LayerRow


def layer_row(layer: Any) -> LayerRow:
    """Return a layer's description as a row, without its sublayers."""
    wiring = vars(layer).get("wiring")
    return LayerRow(
        layer.name,
        type(layer).__name__,
        layer.train,
        tuple(layer.inputs),
        tuple(layer.outputs),
        tuple(map(repr, wiring.clauses)) if wiring is not None else (),
        tuple(wiring.order) if wiring is not None else (),
        tuple(_policies(layer)),
        tuple(_feedback(layer)),
    )


def description(layer: Any) -> str:
    """Return a description of a layer and its sublayers: order, topology clauses, policies, gradients, and reasons."""
    rows: list[LayerRow] = []
    pending: list[Any] = [layer]
    while pending:
        layer = pending.pop()
        rows.append(layer_row(layer))
        pending += reversed([*sublayers(layer).values()])
    return "\n".join(layer_lines(rows)) + "\n"


def sublayers(layer: Any) -> Mapping[str, Any]:
    """Return a layer's sublayers by name."""
    inside: Mapping[str, Any] = vars(layer).get("sublayers", {})
    return inside


def _policies(layer: Any) -> Iterator[Policy]:
    """Yield all policies set for ``layer``, and the defaults of other policies that its class reads."""
    policies = layer.policies.given
    layer_class: Any = type(layer)
    read = _policies_read(layer_class)
    majors = dict.fromkeys([*read, *[minor.major for minor in policies if minor.major is not None]])
    for major in majors:
        for minor in major.minors.values():
            if minor in policies:
                yield Policy(repr(minor), policy_text(policies[minor].value), _policy_source(policies[minor]))
            elif major in read:
                missing = minor.default is MISSING
                yield Policy(repr(minor), policy_text(minor.default), "must be given" if missing else "default")


def _policy_source(policy: ResolvedPolicy) -> str:
    return policy.by if policy.by.startswith("inferred") else f"given by {policy.by}"


@cache
def _policies_read(cls: type) -> tuple[type[PolicyClass], ...]:
    """Return the policy classes to which methods of the layer class ``cls`` refer."""
    majors: dict[Any, None] = {}
    for base in reversed(cls.__mro__):
        for member in vars(base).values():
            method = inspect.unwrap(member.fget) if isinstance(member, property) and member.fget else member
            if isinstance(method, FunctionType):
                # Layers do not declare which policies they read, so look for policy classes among the globals that
                # methods use.
                global_values = [method.__globals__.get(name) for name in method.__code__.co_names]
                majors.update(dict.fromkeys(filter(_is_major, global_values)))
    return tuple(majors)


def _is_major(value: Any) -> bool:
    return isinstance(value, type) and issubclass(value, PolicyClass) and value is not PolicyClass


def _feedback(layer: Any) -> Iterator[Feedback]:
    """Yield whether each sublayer feeds back, or whether a parameter's gradient is built, with the reason."""
    trains = layer.train
    for feedback in vars(layer).get("feedback", ()):
        inside = sublayers(layer).get(feedback.sublayer)
        if inside is None or not inside.inputs:  # sources have no inputs to feed back to
            continue
        yield Feedback(
            feedback.sublayer, trains and feedback.needed, feedback.reason if trains else "the layer is for inference"
        )
    if vars(layer).get("shape") is None or layer.inputs:
        return
    if not trains:
        yield Feedback("", False, "the layer is for inference")
    else:
        built = bool(layer.updates())
        yield Feedback("", built, _feedback_reason(layer, GradPolicy.update, built))


def _feedback_reason(layer: Any, minor: Minor, built: bool) -> str:
    policy = layer.policies.given.get(minor)
    if policy is None:
        return f"{minor!r} is {policy_text(minor.default)} by default"
    if bool(policy.value) != built:
        return "it is a constant"
    return f"{minor!r} = {policy_text(policy.value)} was given by {policy.by}"
