"""Policies: named choices for a layer or an operation, inherited by everything inside it.

A *major* class groups *minor* classes, and a layer or operation has at most one value per minor class.
``GradPolicy.update(True)`` is a policy object, and ``PUpdate`` is its short name. A composite layer's policies apply to
its sublayers and to the operations that these record. ``Sub("weight", PNoUpdate)`` overrides them for one sublayer, and
can be nested.

Policies come from MetaNN, which resolves them at compile time from template parameters. Here they are objects, checked
when a layer is built. Keyword arguments would not suffice, because a composite would have to forward options of layers
it does not know.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, TypeAlias, TypeVar, overload

from explorer.core.argument_checks import named_methods
from explorer.core.errors import DeclarationError, UnknownNameError
from explorer.core.exact_keys import exact

Major = TypeVar("Major", bound="PolicyClass")


class _Missing:
    def __repr__(self) -> str:
        return "no default"


MISSING = _Missing()


@named_methods
class Minor:
    """Minor class: a set of values of which a layer has at most one, declared in the body of a major class.

    ``among`` lists the allowed values, or ``kind`` is their type; without either, any hashable value is allowed. A
    value may be a number or a string (a value policy), a class (a type policy, ``kind=type``), or a class that the
    layer instantiates (MetaNN's class templates: ``Minor(list, kind=type)``, read as ``chosen.container(items)``).
    ``convert`` converts a value. Without a ``default``, a layer that reads the policy must be given a value.

    ``recorded=False`` states that the value does not affect the recorded feed-forward, so layers that differ only in
    this value share one function. ``scoped=False`` states that the value changes an operation's result, and not just
    how it is computed. The value is then only read from the operation's call, and not from a scope.

    >>> class StepPolicy(ex.PolicyClass):
    ...     "How a layer moves on."
    ...     order = ex.Minor("forward", among=("forward", "backward"))
    >>> StepPolicy.order("backward")
    StepPolicy.order = 'backward'
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
        # The default is checked and converted like any other value.
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
        """Return the policy object for ``value``; raise DeclarationError if the minor class does not allow it."""
        allowed = ""
        if self.convert is not None:
            try:
                value = self.convert(value)
            except (TypeError, ValueError) as error:
                raise DeclarationError(
                    f"the policy {self!r} of {value!r}: {error}",
                    rule=f"{policy_text(self.convert)} must be able to convert the value",
                    fix="help() on the policy's class lists the allowed values",
                ) from None
        if self.among and not any(exact(value) == exact(choice) for choice in self.among):
            allowed = "one of " + ", ".join(map(repr, self.among))
        kinds = self.kind if isinstance(self.kind, tuple) else (self.kind,)
        if self.kind is not None and (
            # bool is a subclass of int, but True only counts as a number if bool is among the types
            not isinstance(value, self.kind) or (value is True or value is False) > (bool in kinds)
        ):
            allowed = "of type " + " or ".join([cls.__name__ for cls in kinds if cls is not None])
        if allowed:
            raise DeclarationError(
                f"the policy {self!r} of {value!r}",
                rule=f"its value must be {allowed}",
                fix=f"{self!r}(…), of such a value",
            )
        try:
            hash(exact(value))
        except TypeError:
            raise DeclarationError(
                f"the policy {self!r} of {value!r}", rule="a policy's value must be hashable", fix="pass a tuple"
            ) from None
        return Policy(self, value)

    def __repr__(self) -> str:
        return f"{self.major.__name__}.{self.name}" if self.major is not None else "a minor class without a major one"

    def _key(self) -> tuple[str, str, str] | None:
        return (self.major.__module__, self.major.__qualname__, self.name) if self.major is not None else None

    def __eq__(self, other: object) -> bool:
        """Compare by name, so that minor classes stay equal when a notebook cell declares their major class again."""
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
    """Return a policy's value as a string; classes, dtypes and devices are given by name."""
    return getattr(value, "__name__", None) or getattr(value, "name", None) or repr(value)


@dataclass(frozen=True, eq=False, slots=True)
class Policy:
    """Value of a minor class, which can be given to a layer or an operation.

    >>> policy = ex.PAccumulateIn("float64")
    >>> policy.minor, policy.value
    (AccumulationPolicy.dtype, dtype('float64'))
    """

    minor: Minor
    value: Any
    _hash: int = field(init=False, repr=False)
    """computed once, because weak tables hash their keys again during interpreter shutdown, when modules are gone"""

    def __post_init__(self) -> None:
        # Compare by bits, like operations, so that the values 1 and True differ.
        object.__setattr__(self, "_hash", hash((self.minor, exact(self.value))))

    def __reduce__(self) -> tuple[Any, ...]:
        return Policy, (self.minor, self.value)

    def __repr__(self) -> str:
        return f"{self.minor!r} = {policy_text(self.value)}"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Policy) and self.minor == other.minor and exact(self.value) == exact(other.value)

    def __hash__(self) -> int:
        return self._hash


@named_methods
class PolicyClass:
    """Major class, whose body declares its minor classes. An instance holds the values for one layer.

    For example, ``layer.select(GradPolicy).update`` reads a value.

    >>> class PrecisionPolicy(ex.PolicyClass):
    ...     "How a layer rounds."
    ...     digits = ex.Minor(3, kind=int)
    >>> PrecisionPolicy.digits, PrecisionPolicy.digits.default
    (PrecisionPolicy.digits, 3)
    """

    minors: ClassVar[dict[str, Minor]] = {}

    def __init_subclass__(cls) -> None:
        cls.minors = {**cls.minors, **{name: m for name, m in vars(cls).items() if isinstance(m, Minor)}}

    def __init__(self, policies: Policies, layer: str = "", unrecorded: Callable[[Minor], None] | None = None) -> None:
        self._policies, self._layer, self._unrecorded = policies, layer, unrecorded

    def __repr__(self) -> str:
        return f"<{type(self).__name__}{f' of {self._layer}' if self._layer else ''}>"

    def read(self, minor: Minor) -> Any:
        """Return the value of ``minor``; raise DeclarationError if it has neither a value nor a default."""
        if not minor.recorded and self._unrecorded is not None:
            self._unrecorded(minor)
        resolved = self._policies.given.get(minor)
        if resolved is not None:
            return resolved.value
        if minor.default is MISSING:
            raise DeclarationError(
                f"the layer {self._layer!r} without {minor!r}",
                rule=f"{minor!r} must have a value, because it has no default",
                fix=f"pass policies=[{minor!r}(…)]",
            )
        return minor.default


@dataclass(frozen=True, slots=True)
class ResolvedPolicy:
    """Resolved value of a policy, and its origin ``by``: the path of an outer layer, or a reason."""

    value: Any
    by: str


@dataclass(frozen=True, init=False, slots=True)
class Sub:
    """Policies for the sublayer with a given name, which override inherited policies."""

    name: str
    items: tuple[Policy | Sub, ...]

    def __init__(self, name: str, *items: Policy | Sub) -> None:
        if not isinstance(name, str) or not name:
            raise DeclarationError(
                f"Sub({name!r}, …)",
                rule="the first argument of Sub() must be the sublayer's name",
                fix='Sub("weight", PNoUpdate), for instance',
            )
        object.__setattr__(self, "name", name)
        object.__setattr__(self, "items", items)
        Policies(items)  # raise errors in the line that contains the Sub

    def __repr__(self) -> str:
        return f"Sub({', '.join([repr(self.name), *map(repr, self.items)])})"


Items: TypeAlias = "Sequence[Policy | Sub]"
NO_POLICIES: tuple[()] = ()
"""default of ``policies=``, recognised by identity"""


@named_methods
@dataclass(init=False, slots=True)
class Policies:
    """Policies of one layer: inherited policies, overridden by the layer's own. The order of items does not matter.

    Raises DeclarationError if a minor class has two values, or if two ``Sub`` have the same name.
    """

    given: dict[Minor, ResolvedPolicy] = field(default_factory=dict)
    subs: dict[str, tuple[Policy | Sub, ...]] = field(default_factory=dict)

    def __init__(self, items: Items = (), by: str = "", inherited: dict[Minor, ResolvedPolicy] | None = None) -> None:
        own_policies: dict[Minor, Policy] = {}
        self.subs = {}
        if not isinstance(items, list | tuple):
            raise DeclarationError(
                f"the policies {items!r}" + (f" of {by!r}" if by else ""),
                rule="policies must be a list or a tuple",
                fix="policies=[PUpdate], for instance",
            )
        for item in items:
            if isinstance(item, Sub):
                if item.name in self.subs:
                    raise DeclarationError(
                        f"two {item!r} and {Sub(item.name, *self.subs[item.name])!r}",
                        rule="the policies of a sublayer must be in one Sub",
                        fix=f"Sub({item.name!r}, …) with the policies of both",
                    )
                self.subs[item.name] = item.items
            elif not isinstance(item, Policy):
                raise DeclarationError(
                    f"{item!r} among the policies" + (f" of {by!r}" if by else ""),
                    rule="policies must be policy objects, such as PUpdate or GradPolicy.update(True), or Sub(name, …)",
                    fix=f"call it with a value: {item!r}(…)" if isinstance(item, Minor) else "pass one",
                )
            elif own_policies.setdefault(item.minor, item) != item:
                raise DeclarationError(
                    f"the policies {own_policies[item.minor]!r} and {item!r}" + (f" of {by!r}" if by else ""),
                    rule="a minor class must have at most one value",
                    fix="drop one of them",
                )
        # inherited policies first, because the layer's own override them
        self.given = dict(inherited or {})
        self.given.update({minor: ResolvedPolicy(policy.value, by) for minor, policy in own_policies.items()})

    def of(self, name: str, by: str = "") -> Policies:
        """Return the policies of the sublayer ``name``: this layer's policies, overridden by its Sub."""
        return Policies(self.subs.get(name, ()), f"{by}, for {name}" if by else "", self.given)

    def items(self) -> set[Policy | Sub]:
        """Return all policies and Subs, including inherited ones."""
        policies: set[Policy | Sub] = {Policy(minor, resolved.value) for minor, resolved in self.given.items()}
        return policies | {Sub(name, *items) for name, items in self.subs.items()}

    def check(self, names: Iterator[str] | tuple[str, ...], layer: str) -> None:
        """Raise UnknownNameError if the name of a Sub is not in ``names``, the names of the sublayers."""
        sublayers = tuple(names)
        for name in self.subs:
            if name not in sublayers:
                raise UnknownNameError(name, kind=f"sublayer of {layer!r} in its policies", known=sublayers)

    def select(self, major: type[Major], layer: str = "", unrecorded: Callable[[Minor], None] | None = None) -> Major:
        """Return the values of a major class.

        Whenever a value that no recording depends on is read, ``unrecorded`` is called.
        """
        if not isinstance(major, type) or not issubclass(major, PolicyClass):
            raise DeclarationError(
                f"select({major!r}) of {layer!r}",
                rule="the argument of select() must be a major class",
                fix="select(GradPolicy).update, for instance",
            )
        return major(self, layer, unrecorded)

    def recorded(self) -> frozenset[Policy]:
        """Return the policies on which a recorded feed-forward may depend."""
        return frozenset(Policy(minor, resolved.value) for minor, resolved in self.given.items() if minor.recorded)
