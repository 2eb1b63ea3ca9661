"""Policies: choices that a layer or an operation is made with, given by name, inherited by what lies inside it.

A *major* class groups *minor* ones; the values of a minor class exclude each other. ``GradPolicy.update(True)`` is a
policy object, ``PUpdate`` its usual name. A composite's policies reach its sublayers and the operations that these
record; ``Sub("weight", PNoUpdate)`` overrides for one sublayer, and nests.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, ClassVar, TypeAlias, TypeVar, overload

from explorer.core.bit_keys import exact
from explorer.core.errors import DeclarationError, UnknownNameError

Major = TypeVar("Major", bound="PolicyClass")


class _Missing:
    def __repr__(self) -> str:
        return "no default"


MISSING = _Missing()


class Minor:
    """A minor class: values that exclude each other, declared in the body of a major class.

    ``among`` lists the values, or ``kind`` is their type, else any hashable value does. So a value may be a number or a
    text (a value policy), a class that is named (a type policy, ``kind=type``), or a class that whoever reads it makes
    objects of (MetaNN's class templates: ``Minor(list, kind=type)``, read as ``chosen.container(items)``). ``convert``
    makes a value of what is given. Without a ``default`` a layer that reads it must be given one.
    ``recorded`` is False where the value is no part of what a feed-forward records, so that layers which differ in it
    alone are still one function. ``scoped`` is False where the value changes what an operation computes, not how: it is
    then taken where the operation is called, and from no scope around it.
    """

    def __init__(
        self,
        default: Any = MISSING,
        *,
        among: tuple[Any, ...] = (),
        kind: type | tuple[type, ...] | None = None,
        convert: Callable[[Any], Any] | None = None,
        recorded: bool = True,
        scoped: bool = True,
    ) -> None:
        self.default, self.among, self.kind, self.convert = default, among, kind, convert
        self.recorded, self.scoped = recorded, scoped
        self.major: type[PolicyClass] | None = None
        self.name = ""
        if default is not MISSING and default is not None:
            self.default = self(default).value

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
        if self.convert is not None:
            try:
                value = self.convert(value)
            except (TypeError, ValueError) as error:
                raise DeclarationError(
                    f"the policy {self!r} of {value!r}: {error}", rule=f"it is converted by {policy_text(self.convert)}"
                ) from None
        if self.among and not any(exact(value) == exact(choice) for choice in self.among):
            allowed = "one of " + ", ".join(map(repr, self.among))
        kinds = self.kind if isinstance(self.kind, tuple) else (self.kind,)
        if self.kind is not None and (
            not isinstance(value, self.kind) or (value is True or value is False) > (bool in kinds)
        ):
            allowed = "of type " + " or ".join([cls.__name__ for cls in kinds if cls is not None])
        if allowed:
            raise DeclarationError(
                f"the policy {self!r} of {value!r}",
                rule=f"its value is {allowed}",
                fix=f"{self!r}(…), of such a value",
            )
        try:
            hash(exact(value))
        except TypeError:
            raise DeclarationError(
                f"the policy {self!r} of {value!r}", rule="a policy's value can be hashed", fix="pass a tuple"
            ) from None
        return Policy(self, value)

    def __repr__(self) -> str:
        return f"{self.major.__name__}.{self.name}" if self.major is not None else "a minor class without a major one"

    def _key(self) -> tuple[str, str, str] | None:
        return (self.major.__module__, self.major.__qualname__, self.name) if self.major is not None else None

    def __eq__(self, other: object) -> bool:
        """A major class that is declared again, in a notebook's cell, has the same minor ones."""
        return self is other or (isinstance(other, Minor) and self.major is not None and self._key() == other._key())

    def __hash__(self) -> int:
        return hash(self._key())

    def __copy__(self) -> Minor:
        return self

    def __deepcopy__(self, memo: Any) -> Minor:
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        return getattr, (self.major, self.name)


def policy_text(value: Any) -> str:
    """A policy's value as text: that of a class, a dtype or a device is its name."""
    return getattr(value, "__name__", None) or getattr(value, "name", None) or repr(value)


@dataclass(frozen=True, eq=False, slots=True)
class Policy:
    """A value of a minor class."""

    minor: Minor
    value: Any

    def __repr__(self) -> str:
        return f"{self.minor!r} = {policy_text(self.value)}"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Policy) and self.minor == other.minor and exact(self.value) == exact(other.value)

    def __hash__(self) -> int:
        return hash((self.minor, exact(self.value)))


class PolicyClass:
    """A major class: its minor classes are declared in its body; an instance holds what a layer was given.

    ``layer.select(GradPolicy).update`` reads a value.
    """

    minors: ClassVar[dict[str, Minor]] = {}

    def __init_subclass__(cls) -> None:
        cls.minors = {**cls.minors, **{name: m for name, m in vars(cls).items() if isinstance(m, Minor)}}

    def __init__(self, policies: Policies, layer: str = "", unrecorded: Callable[[Minor], None] | None = None) -> None:
        self._policies, self._layer, self._unrecorded = policies, layer, unrecorded

    def read(self, minor: Minor) -> Any:
        """The value of a minor class; raises DeclarationError where none is given and there is no default."""
        if not minor.recorded and self._unrecorded is not None:
            self._unrecorded(minor)
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
class ResolvedPolicy:
    """A resolved value, and who gave it: an ancestor's path, or a reason."""

    value: Any
    by: str


@dataclass(frozen=True, init=False, slots=True)
class Sub:
    """Policies for one sublayer, by its name; they override what it inherits."""

    name: str
    items: tuple[Policy | Sub, ...]

    def __init__(self, name: str, *items: Policy | Sub) -> None:
        if not isinstance(name, str) or not name:
            raise DeclarationError(
                f"Sub({name!r}, …)", rule="it names a sublayer first", fix='Sub("weight", PNoUpdate), for instance'
            )
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

    given: dict[Minor, ResolvedPolicy] = field(default_factory=dict)
    subs: dict[str, tuple[Policy | Sub, ...]] = field(default_factory=dict)

    def __init__(self, items: Items = (), by: str = "", inherited: dict[Minor, ResolvedPolicy] | None = None) -> None:
        own: dict[Minor, Policy] = {}
        self.subs = {}
        if not isinstance(items, list | tuple):
            raise DeclarationError(
                f"the policies {items!r}" + (f" of {by!r}" if by else ""),
                rule="policies are given in a list or a tuple",
                fix="policies=[PUpdate], for instance",
            )
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
                    fix=f"call it with a value: {item!r}(…)" if isinstance(item, Minor) else "pass one",
                )
            elif own.setdefault(item.minor, item) != item:
                raise DeclarationError(
                    f"the policies {own[item.minor]!r} and {item!r}" + (f" of {by!r}" if by else ""),
                    rule="two values of one minor class exclude each other",
                    fix="drop one of them",
                )
        self.given = dict(inherited or {})
        self.given.update({minor: ResolvedPolicy(policy.value, by) for minor, policy in own.items()})

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

    def select(self, major: type[Major], layer: str = "", unrecorded: Callable[[Minor], None] | None = None) -> Major:
        """The values of a major class; ``unrecorded`` is called before one is read that is no part of a recording."""
        if not isinstance(major, type) or not issubclass(major, PolicyClass):
            raise DeclarationError(
                f"select({major!r}) of {layer!r}",
                rule="values are read by their major class",
                fix="select(GradPolicy).update, for instance",
            )
        return major(self, layer, unrecorded)

    def recorded(self) -> frozenset[Policy]:
        """What a feed-forward may depend on."""
        return frozenset(Policy(minor, given.value) for minor, given in self.given.items() if minor.recorded)
