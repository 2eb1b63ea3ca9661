"""Policies: choices that a layer is made with, given by name, inherited by what lies inside it.

A *major* class groups *minor* ones; the values of a minor class exclude each other. ``GradPolicy.update(True)`` is a
policy object, ``PUpdate`` its usual name. A composite's policies reach its sublayers; ``Sub("weight", PNoUpdate)``
overrides for one sublayer, and nests.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, ClassVar, TypeAlias, TypeVar, overload

from explorer.core.errors import DeclarationError, UnknownNameError
from explorer.core.exact import exact

Major = TypeVar("Major", bound="PolicyClass")


class _Missing:
    def __repr__(self) -> str:
        return "no default"


MISSING = _Missing()


class Minor:
    """A minor class: values that exclude each other, declared in the body of a major class.

    ``among`` lists the values, or ``kind`` is their type (a value policy, a type policy), else any hashable value
    does. Without a ``default`` a layer that reads it must be given one. ``recorded`` is False where the value is no
    part of what a feed-forward records, so that layers which differ in it alone are still one function.
    """

    def __init__(
        self,
        default: Any = MISSING,
        *,
        among: tuple[Any, ...] = (),
        kind: type | tuple[type, ...] | None = None,
        recorded: bool = True,
    ) -> None:
        self.default, self.among, self.kind, self.recorded = default, among, kind, recorded
        self.major: type[PolicyClass] | None = None
        self.name = ""

    def __set_name__(self, owner: type[PolicyClass], name: str) -> None:
        self.major, self.name = owner, name

    @overload
    def __get__(self, instance: None, owner: type) -> Minor: ...
    @overload
    def __get__(self, instance: PolicyClass, owner: type) -> Any: ...
    def __get__(self, instance: PolicyClass | None, owner: type) -> Any:
        return self if instance is None else instance.read(self)

    def __call__(self, value: Any) -> Policy:
        """The policy object of a value; raises DeclarationError for one that the class does not have."""
        allowed = ""
        if self.among and not any(exact(value) == exact(choice) for choice in self.among):
            allowed = "one of " + ", ".join(map(repr, self.among))
        elif self.kind is not None and not isinstance(value, self.kind):
            kinds = self.kind if isinstance(self.kind, tuple) else (self.kind,)
            allowed = "of type " + " or ".join([kind.__name__ for kind in kinds])
        if allowed:
            raise DeclarationError(f"the policy {self!r} of {value!r}", rule=f"its value is {allowed}")
        try:
            hash(exact(value))
        except TypeError:
            raise DeclarationError(
                f"the policy {self!r} of {value!r}", rule="a policy's value can be hashed", fix="pass a tuple"
            ) from None
        return Policy(self, value)

    def __repr__(self) -> str:
        return f"{self.major.__name__}.{self.name}" if self.major is not None else "a minor class without a major one"


@dataclass(frozen=True, eq=False, slots=True)
class Policy:
    """A value of a minor class."""

    minor: Minor
    value: Any

    def __repr__(self) -> str:
        return f"{self.minor!r} = {getattr(self.value, '__name__', None) or repr(self.value)}"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Policy) and self.minor is other.minor and exact(self.value) == exact(other.value)

    def __hash__(self) -> int:
        return hash((id(self.minor), exact(self.value)))


class PolicyClass:
    """A major class: its minor classes are declared in its body; an instance holds what a layer was given.

    ``layer.select(GradPolicy).update`` reads a value.
    """

    minors: ClassVar[dict[str, Minor]] = {}

    def __init_subclass__(cls) -> None:
        cls.minors = {**cls.minors, **{name: m for name, m in vars(cls).items() if isinstance(m, Minor)}}

    def __init__(self, policies: Policies, layer: str = "") -> None:
        self._policies, self._layer = policies, layer

    def read(self, minor: Minor) -> Any:
        """The value of a minor class; raises DeclarationError where none is given and there is no default."""
        given = self._policies.given.get(minor)
        if given is not None:
            return given.value
        if minor.default is MISSING:
            raise DeclarationError(
                f"the layer {self._layer!r} without {minor!r}",
                rule=f"{minor!r} has no default: it must be given",
                fix=f"pass policies=[{minor!r}(…)]",
            )
        return minor.default


@dataclass(frozen=True, slots=True)
class Given:
    """A resolved value, and who gave it: an ancestor's path, or a reason."""

    value: Any
    by: str


@dataclass(frozen=True, init=False, slots=True)
class Sub:
    """Policies for one sublayer, by its name; they override what it inherits."""

    name: str
    items: tuple[Policy | Sub, ...]

    def __init__(self, name: str, *items: Policy | Sub) -> None:
        object.__setattr__(self, "name", name)
        object.__setattr__(self, "items", items)
        Policies(items)  # refused where it is written

    def __repr__(self) -> str:
        return f"Sub({', '.join([repr(self.name), *map(repr, self.items)])})"


Items: TypeAlias = "tuple[Policy | Sub, ...] | list[Policy | Sub]"


@dataclass(init=False, slots=True)
class Policies:
    """The policies of one layer: what it inherits, overridden by its own; the order does not matter.

    Raises DeclarationError for two values of one minor class, or two ``Sub`` of one name.
    """

    given: dict[Minor, Given] = field(default_factory=dict)
    subs: dict[str, tuple[Policy | Sub, ...]] = field(default_factory=dict)

    def __init__(self, items: Items = (), by: str = "", inherited: dict[Minor, Given] | None = None) -> None:
        own: dict[Minor, Policy] = {}
        self.subs = {}
        for item in items:
            if isinstance(item, Sub):
                if item.name in self.subs:
                    raise DeclarationError(
                        f"two {item!r} and {Sub(item.name, *self.subs[item.name])!r}",
                        rule="a sublayer's policies stand in one Sub",
                        fix="put them together",
                    )
                self.subs[item.name] = item.items
            elif not isinstance(item, Policy):
                raise DeclarationError(
                    f"{item!r} among the policies" + (f" of {by!r}" if by else ""),
                    rule="policies are policy objects, such as PUpdate or GradPolicy.update(True), and Sub(name, …)",
                )
            elif own.setdefault(item.minor, item) != item:
                raise DeclarationError(
                    f"the policies {own[item.minor]!r} and {item!r}" + (f" of {by!r}" if by else ""),
                    rule="two values of one minor class exclude each other",
                    fix="drop one of them",
                )
        self.given = dict(inherited or {})
        self.given.update({minor: Given(policy.value, by) for minor, policy in own.items()})

    def of(self, name: str, by: str = "") -> Policies:
        """What a sublayer of this name gets: this layer's policies, overridden by those of its Sub."""
        return Policies(self.subs.get(name, ()), f"{by}, for {name}" if by else "", self.given)

    def items(self) -> set[Policy | Sub]:
        """Policies and Subs, whoever gave them."""
        own: set[Policy | Sub] = {Policy(minor, given.value) for minor, given in self.given.items()}
        return own | {Sub(name, *items) for name, items in self.subs.items()}

    def check(self, names: Iterator[str] | tuple[str, ...], layer: str) -> None:
        """Raise UnknownNameError for a Sub of no sublayer."""
        known = tuple(names)
        for name in self.subs:
            if name not in known:
                raise UnknownNameError(name, kind=f"sublayer of {layer!r} in its policies", known=known)

    def select(self, major: type[Major], layer: str = "") -> Major:
        """The values of a major class."""
        return major(self, layer)

    def recorded(self) -> frozenset[Policy]:
        """What a feed-forward may depend on."""
        return frozenset(Policy(minor, given.value) for minor, given in self.given.items() if minor.recorded)
