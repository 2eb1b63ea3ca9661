"""Parameter groups, which an optimizer trains with other settings, or not at all.

A group names its parameters by a pattern or by their layer, because an optimizer is created before the layers. Names
are matched when the optimizer is attached.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import fields
from fnmatch import fnmatchcase
from itertools import accumulate
from typing import Any

from explorer.core.argument_checks import check_type, named_methods
from explorer.core.errors import DeclarationError, UnknownNameError
from explorer.ops.nn.hyperparameters import NOT_NEGATIVE, check_number
from explorer.ops.nn.learning_rates import Fixed, LearningRate
from explorer.train.attribute_errors import refuse_setting

_EXAMPLE = 'ex.train.ParameterGroup("hidden", rate=0.001)'


@named_methods
class ParameterGroup:
    """Parameters with separate settings: ``rate``, ``weight_decay``, or ``frozen`` to keep them unchanged.

    Each name is a parameter (``"hidden/weight"``), a layer with all its parameters (``"hidden"``), or a pattern of
    parameter names (``"*/bias"``). All other settings are taken from the optimizer. No gradients are computed for
    frozen parameters, and ``clip_norm`` ignores them. Raises DeclarationError for a group without names or settings,
    and for frozen parameters with a rate or a decay.

    >>> ex.train.AdamW(0.001, groups=[
    ...     ex.train.ParameterGroup("backbone", rate=0.0001), ex.train.ParameterGroup("embedding", frozen=True),
    ... ]).groups[1]
    ParameterGroup('embedding', frozen=True)
    """

    def __init__(
        self,
        *names: str,
        rate: float | LearningRate | None = None,
        weight_decay: float | None = None,
        frozen: bool = False,
    ) -> None:
        if not names or not all(isinstance(name, str) and name for name in names) or len({*names}) < len(names):
            raise DeclarationError(
                f"ParameterGroup({', '.join(map(repr, names))})",
                rule="a group must name parameters or layers, each once, by strings",
                fix=_EXAMPLE,
            )
        check_type(frozen, "frozen", bool, "True or False", "frozen=True")
        self.names = names
        self.rate = None if rate is None else as_rate(rate)
        self.weight_decay: float | None = (
            None
            if weight_decay is None
            else check_number("ParameterGroup", "weight_decay", "float", weight_decay, NOT_NEGATIVE)
        )
        self.frozen = frozen  # last, because no attribute can be set afterwards
        if frozen == bool(self._changes()):
            raise DeclarationError(
                repr(self),
                rule="a group must be frozen, or have a separate rate or weight_decay, but not both",
                fix=f"{_EXAMPLE}, or frozen=True",
            )

    def chosen(self, parameters: Iterable[str]) -> list[str]:
        """Return the names among ``parameters`` that belong to the group, in their order.

        Raises UnknownNameError if a name of the group matches no parameter.
        """
        names = [*parameters]
        layers = {layer for name in names for layer in _layers(name)}
        members: set[str] = set()
        for pattern in self.names:
            # Exact names first, since layer names may contain pattern characters.
            if pattern in names or pattern in layers:
                matching = [name for name in names if name == pattern or pattern in _layers(name)]
            else:
                matching = [name for name in names if fnmatchcase(name, pattern)]
            if not matching:
                raise UnknownNameError(
                    pattern,
                    kind="trained parameter or layer of a ParameterGroup",
                    known={*names, *layers},
                    fix='a name, or a pattern such as "*/bias"',
                )
            members.update(matching)
        return [name for name in names if name in members]

    def settings(self) -> dict[str, Any]:
        """Return the names and the changed settings as numbers and strings."""
        changes = {key: rate_settings(x) if isinstance(x, LearningRate) else x for key, x in self._changes().items()}
        return {"names": [*self.names], "frozen": self.frozen, **changes}

    def _changes(self) -> dict[str, Any]:
        settings = {"rate": self.rate, "weight_decay": self.weight_decay}
        return {name: value for name, value in settings.items() if value is not None}

    def __setattr__(self, name: str, value: Any) -> None:
        if "frozen" in vars(self):
            rule = "a group's settings must not change once it is made: steps are planned with them"
            refuse_setting(self, name, value, rule, "a policy as its rate: rate=ex.train.Step(0.1, size=100)")
        super().__setattr__(name, value)

    def __repr__(self) -> str:
        changes = {**self._changes(), **({"frozen": True} if self.frozen else {})}
        return f"ParameterGroup({', '.join([*map(repr, self.names), *[f'{k}={v!r}' for k, v in changes.items()]])})"


def as_groups(groups: Any) -> tuple[ParameterGroup, ...]:
    """Return ``groups`` as a tuple; raise DeclarationError unless it is a list of groups."""
    fits = isinstance(groups, Sequence) and not isinstance(groups, str)
    if not fits or not all(isinstance(group, ParameterGroup) for group in groups):
        raise DeclarationError(
            f"groups={groups!r}", rule="groups must be a list of ParameterGroup", fix=f"groups=[{_EXAMPLE}]"
        )
    return tuple(groups)


def group_of(groups: Sequence[ParameterGroup], parameters: Iterable[str]) -> Mapping[str, ParameterGroup]:
    """Return parameter name → group, for parameters in a group.

    Raises UnknownNameError if a name matches no parameter, and DeclarationError for a parameter in two groups.
    """
    names = [*parameters]
    assigned: dict[str, ParameterGroup] = {}
    for group in groups:
        for name in group.chosen(names):
            previous = assigned.setdefault(name, group)
            if previous is not group:
                raise DeclarationError(
                    f"the parameter {name!r} in {previous!r} and in {group!r}",
                    rule="a parameter must be in at most one group",
                    fix="name it in one of them, or choose patterns that do not overlap",
                )
    return assigned


def _layers(parameter: str) -> list[str]:
    """Return the layers that contain a parameter: "block" and "block/linear" for "block/linear/weight"."""
    return [*accumulate(parameter.split("/")[:-1], lambda outer, inner: f"{outer}/{inner}")]


def as_rate(rate: float | LearningRate) -> LearningRate:
    """Return ``rate`` as a learning-rate policy; a number becomes a fixed rate.

    Raises DeclarationError for other values, for a rate that starts below 0 and would increase the loss, and for a
    policy with attributes that are not fields, because only fields are compared.
    """
    policy = rate if isinstance(rate, LearningRate) else Fixed(rate)
    for part in _policies(policy):
        compared = [field.name for field in fields(part) if field.compare]
        hidden = next((name for name in getattr(part, "__dict__", {}) if name not in compared), None)
        # Equal policies share one plan, so a policy with an uncompared value could get another policy's rate.
        if hidden is not None:
            raise DeclarationError(
                f"the attribute {hidden!r} of the learning-rate policy {part!r}",
                rule="a policy must be a frozen dataclass, whose numbers are fields that are compared",
                fix=f"@dataclass(frozen=True), and in the class {hidden}: float",
            )
    innermost: Any = policy
    while isinstance(following := getattr(innermost, "then", None), LearningRate):
        innermost = following
    base = getattr(innermost, "base", 0)
    if isinstance(base, (int, float)) and base < 0:
        raise DeclarationError(
            f"an optimizer of the rate {policy!r}",
            rule="a learning rate must be 0 or more, because a step goes against the gradient",
            fix=f"{-base!r}; to increase a loss, minimize its negative",
        )
    return policy


def rate_settings(rate: LearningRate) -> dict[str, Any]:
    """Return a learning-rate policy as numbers and strings."""
    values = {field.name: getattr(rate, field.name) for field in fields(rate)}
    return {
        "type": type(rate).__name__,
        **{name: rate_settings(value) if isinstance(value, LearningRate) else value for name, value in values.items()},
    }


def _policies(policy: LearningRate) -> Iterator[LearningRate]:
    pending = [policy]
    while pending:
        part = pending.pop()
        yield part
        pending += [value for field in fields(part) if isinstance(value := getattr(part, field.name), LearningRate)]
