"""Operations under policies, which are given where an operation is called, or by the scope around it.

An operation under policies is another operation than the plain one: rules that know that one alone do not see it. A
plan puts in its place what computes it.
"""

# ruff: noqa: D102  # an operation's facets are documented once, by Operation

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, ClassVar, TypeVar, cast

from explorer.core.bit_keys import exact
from explorer.core.errors import DeclarationError
from explorer.core.ir.expr import Expr, record, state
from explorer.core.ir.operation import Operation, as_operands
from explorer.core.policy import MISSING, Items, Minor, Policies, Policy, Sub
from explorer.core.types.tensor_type import AnyType

_Function = TypeVar("_Function", bound=Callable[..., Expr])

_read: set[Minor] = set()
"""the policies that some operation reads"""


class Adjustable(Operation, abstract=True):
    """A base of operations that read policies: ``policies`` lists them, ``under`` says what computes them.

    A policy that an operation does not read changes nothing; neither does one whose value is the default.
    """

    policies: ClassVar[tuple[Minor, ...]] = ()

    def __init_subclass__(cls, *, abstract: bool = False, **options: Any) -> None:
        super().__init_subclass__(abstract=abstract, **options)
        for minor in cls.policies:
            if not isinstance(minor, Minor) or minor.default is MISSING:
                raise DeclarationError(
                    f"the policy {minor!r} of the operation {cls.__name__}",
                    rule="an operation's policies are minor classes with a default",
                    fix="policies = (AccumulationPolicy.dtype,), for instance",
                )
        if cls.policies and cls.under is Adjustable.under:
            raise DeclarationError(
                f"operation {cls.__name__} reads {', '.join(map(repr, cls.policies))} and lacks under()",
                rule="an operation that reads policies must say what computes it under them",
                fix="def under(self, policies): return another operation, of the same operands and result",
            )
        _read.update(cls.policies)

    def under(self, policies: Policies) -> Operation:
        """The operation that computes what policies ask for, of the same operands and with a result of the same type.

        ``policies.select(AccumulationPolicy).dtype`` reads a value.
        """
        raise NotImplementedError

    def __call__(self, *operands: Any, policies: Items = ()) -> Expr:
        """Record this operation, under the policies given or else those of the scope, on expressions or arrays."""
        operation = (
            self if type(policies) is tuple and not policies and not state.policies else _adjusted(self, policies)
        )
        for operand in operands:
            if not isinstance(operand, Expr):
                operands = as_operands(operands)
                break
        return record(operation, operands)


def _adjusted(operation: Adjustable, items: Items) -> Operation:
    """The operation under the policies that it reads; itself where all of them are at their defaults."""
    own = Policies(items, operation.label)
    _refuse_subs(items, operation.label)
    chosen: list[Policy] = []
    for minor in operation.policies:
        given = own.given.get(minor)
        held = minor(given.value) if given is not None else state.policies.get(minor)
        if held is not None and exact(held.value) != exact(minor.default):
            chosen.append(held)
    return Adjusted(operation, tuple(chosen)) if chosen else operation


class Adjusted(Operation, abstract=True):
    """An operation under policies: it hands on the facets of what computes it, and none of its characteristics."""

    name = "adjusted"
    operation: Adjustable
    policies: tuple[Policy, ...]

    def __post_init__(self) -> None:
        super().__post_init__()
        standing = self.operation.under(Policies(self.policies, self.operation.label))
        object.__setattr__(self, "_standing", standing)
        object.__setattr__(self, "name", self.operation.name)
        for facet in ("nondifferentiable", "refuses_gradient", "unbatchable", "pure"):
            object.__setattr__(self, facet, getattr(standing, facet))

    @property
    def standing(self) -> Operation:
        """What computes it."""
        held: Operation = vars(self)["_standing"]
        return held

    @property
    def attributes(self) -> dict[str, Any]:
        """Those of the plain operation, then the policies by name."""
        return {**self.operation.attributes, **{repr(policy.minor): policy.value for policy in self.policies}}

    @property
    def label(self) -> str:
        return self.operation.label

    def infer(self, *types: AnyType) -> AnyType:
        found = self.standing.type_of(types)
        plain = self.operation.type_of(types)
        if found is not plain:
            raise DeclarationError(
                f"{self!r}, which {self.standing!r} computes",
                rule=f"a policy must not change the type of a result: {plain} without, {found} under it",
                fix=f"let under() of {type(self.operation).__name__} return an operation of the same type",
            )
        return found

    def kernel(self, out: Any, *operands: Any) -> Any:
        return self.standing.kernel(out, *operands)

    def flops(self, result: AnyType, *types: AnyType) -> int:
        return self.standing.flops(result, *types)

    def workspace(self, *types: AnyType) -> int:
        return self.standing.workspace(*types)

    def gradient(self, upstream: Any, result: Any, *operands: Any) -> tuple[Expr | None, ...]:
        """The gradient of what computes it, under the same policies."""
        with under(self._scope()):
            return self.standing.gradient(upstream, result, *operands)

    def batch(self, size: int, batched: tuple[bool, ...], *operands: Any) -> Expr:
        """A batch of what computes it, under the same policies."""
        with under(self._scope()):
            return self.standing.batch(size, batched, *operands)

    def _scope(self) -> dict[Minor, Policy]:
        return {**state.policies, **{policy.minor: policy for policy in self.policies if policy.minor.scoped}}

    def __reduce__(self) -> tuple[Any, ...]:
        return Adjusted, (self.operation, self.policies)


@contextmanager
def under(chosen: Mapping[Minor, Policy]) -> Iterator[None]:
    """Record what follows under these policies, and no others."""
    outer, state.policies = state.policies, chosen
    try:
        yield
    finally:
        state.policies = outer


def in_force() -> frozenset[Policy]:
    """The policies of the scope, which what is recorded now is under."""
    return frozenset(state.policies.values())


@contextmanager
def policies(*items: Policy) -> Iterator[None]:
    """Record what follows under policies: those of a scope inside override it, those of a call both.

    They reach the operations that read them, also inside functions and layers, and gradients; others they leave alone.
    Raises DeclarationError for a policy that changes what is computed: it is given where the operation is called.
    """
    own = Policies(items, "ex.policies")
    _refuse_subs(items, "ex.policies")
    for minor in own.given:
        if not minor.scoped:
            raise DeclarationError(
                f"{minor!r} for all that is recorded in a scope",
                rule="a policy that changes what is computed must be given where the operation is called",
                fix=f"ex.sum(x, policies=[{minor!r}(…)]), for instance",
            )
    with under({**state.policies, **_scoped(own)}):
        yield


def composition(function: _Function) -> _Function:
    """Hand the ``policies=`` of a function that is written with operations to the operations that it records.

    Those that are given where an operation is called, since they change what it computes, reach none of them.
    """

    @functools.wraps(function)
    def call(*operands: Any, policies: Items = (), **options: Any) -> Expr:
        if type(policies) is tuple and not policies:
            return function(*operands, **options)
        _refuse_subs(policies, function.__name__)
        with under({**state.policies, **_scoped(Policies(policies, function.__name__))}):
            return function(*operands, **options)

    return cast(_Function, call)


def _scoped(given: Policies) -> dict[Minor, Policy]:
    return {minor: minor(held.value) for minor, held in given.given.items() if minor.scoped}


def reaching(given: Policies) -> dict[Minor, Policy]:
    """Those of a layer's policies that reach the operations that it records."""
    return {minor: policy for minor, policy in _scoped(given).items() if minor in _read}


def _refuse_subs(items: Items, by: str) -> None:
    for item in items:
        if isinstance(item, Sub):
            raise DeclarationError(
                f"{item!r} among the policies of {by}",
                rule="an operation has no sublayers that a Sub could name",
                fix="give its policies themselves",
            )
