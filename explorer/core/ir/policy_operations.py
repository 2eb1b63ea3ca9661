"""Operations under policies, which come from an operation's call or from the surrounding scope.

An operation with policies is recorded as a separate operation, ``Adjusted``, so that rewrite rules for the plain
operation do not match it. Planning replaces ``Adjusted`` by the operation that ``with_policies`` returns. If policies
were a field of the plain operation instead, every rule would have to check that field.
"""

# ruff: noqa: D102 # the class Operation documents the facets of all operations

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, ClassVar, TypeVar, cast

from explorer.core.argument_checks import refuse_option
from explorer.core.errors import DeclarationError
from explorer.core.exact_keys import exact
from explorer.core.ir.expr import Expr, Operation, as_operands, record
from explorer.core.ir.recording_context import state
from explorer.core.policy import MISSING, NO_POLICIES, Items, Minor, Policies, Policy, Sub
from explorer.core.types.tensor_type import AnyType

_Function = TypeVar("_Function", bound=Callable[..., Expr])

_read: set[Minor] = set()
"""policies that at least one operation reads"""


class Adjustable(Operation, abstract=True):
    """Base class of operations that read policies, which the class lists in ``policies``.

    A policy has no effect if the operation does not read it, or if its value is the default.

    >>> ex.operation("sum").policies
    (AccumulationPolicy.by, AccumulationPolicy.dtype)
    """

    policies: ClassVar[tuple[Minor, ...]] = ()

    def __init_subclass__(cls, *, abstract: bool = False, **options: Any) -> None:
        super().__init_subclass__(abstract=abstract, **options)
        for minor in cls.policies:
            if not isinstance(minor, Minor) or minor.default is MISSING:
                raise DeclarationError(
                    f"the policy {minor!r} of the operation {cls.__name__}",
                    rule="an operation's policies must be minor classes with a default",
                    fix="policies = (AccumulationPolicy.dtype,), for instance",
                )
        if cls.policies and cls.with_policies is Adjustable.with_policies:
            raise DeclarationError(
                f"operation {cls.__name__} reads {', '.join(map(repr, cls.policies))} and lacks with_policies()",
                rule="an operation that reads policies must define with_policies(), which returns the operation to use",
                fix="def with_policies(self, policies): return another operation, of the same operands and result",
            )
        _read.update(cls.policies)

    def with_policies(self, policies: Policies) -> Operation:
        """Return the operation that follows ``policies``, with the same operands and the same result type.

        ``policies.select(AccumulationPolicy).dtype`` reads a value.
        """
        raise NotImplementedError

    def __call__(self, *operands: Any, policies: Items = NO_POLICIES, **others: Any) -> Expr:
        """Record this operation on expressions or arrays; the call's policies override those of the scope."""
        if others:
            refuse_option(next(iter(others)), self.label, ["policies"])
        operation: Operation = self
        if policies is not NO_POLICIES or state.policies:
            operation = _adjusted(self, policies)
        for operand in operands:
            if not isinstance(operand, Expr):
                operands = as_operands(operands)
                break
        return record(operation, operands)


def _adjusted(operation: Adjustable, items: Items) -> Operation:
    """Return the operation under the policies it reads, or the operation itself if all have default values."""
    call_policies = Policies(items, operation.label)
    _refuse_subs(items, operation.label)
    non_default: list[Policy] = []
    for minor in operation.policies:
        resolved = call_policies.given.get(minor)
        policy = minor(resolved.value) if resolved is not None else state.policies.get(minor)
        if policy is not None and exact(policy.value) != exact(minor.default):
            non_default.append(policy)
    return Adjusted(operation, tuple(non_default)) if non_default else operation


class Adjusted(Operation, abstract=True):
    """Operation under policies. It delegates to the computing operation, but has none of its algebraic properties."""

    name = "adjusted"
    operation: Adjustable
    policies: tuple[Policy, ...]

    def __post_init__(self) -> None:
        super().__post_init__()
        implementation = self.operation.with_policies(Policies(self.policies, self.operation.label))
        # Not an attribute, because attributes form the interning key, and the implementation follows from the other
        # two.
        object.__setattr__(self, "_implementation", implementation)
        object.__setattr__(self, "name", self.operation.name)
        for name in ("nondifferentiable", "refuses_gradient", "unbatchable", "pure", "accumulates"):
            object.__setattr__(self, name, getattr(implementation, name))

    @property
    def implementation(self) -> Operation:
        """Operation that follows the policies and computes the result."""
        operation: Operation = vars(self)["_implementation"]
        return operation

    @property
    def attributes(self) -> dict[str, Any]:
        """Attributes of the plain operation, followed by the policies by name."""
        return {**self.operation.attributes, **{repr(policy.minor): policy.value for policy in self.policies}}

    @property
    def label(self) -> str:
        return self.operation.label

    def infer(self, *types: AnyType) -> AnyType:
        inferred = self.implementation.type_of(types)
        plain = self.operation.type_of(types)
        if inferred is not plain:
            raise DeclarationError(
                f"{self!r}, which {self.implementation!r} computes",
                rule=f"a policy must not change the type of a result: {plain} without it, {inferred} with it",
                fix=f"let with_policies() of {type(self.operation).__name__} return an operation of the same type",
            )
        return inferred

    def kernel(self, out: Any, *operands: Any) -> Any:
        return self.implementation.kernel(out, *operands)

    def flops(self, result: AnyType, *types: AnyType) -> int:
        return self.implementation.flops(result, *types)

    def workspace(self, *types: AnyType) -> int:
        return self.implementation.workspace(*types)

    def gradient(self, upstream: Any, result: Any, *operands: Any) -> tuple[Expr | None, ...]:
        """Return the gradients of the computing operation, recorded under the same policies."""
        with under(self._scope()):
            return self.implementation.gradient(upstream, result, *operands)

    def batch(self, size: int, batched: tuple[bool, ...], *operands: Any) -> Expr:
        """Record the batched form of the computing operation under the same policies."""
        with under(self._scope()):
            return self.implementation.batch(size, batched, *operands)

    def _scope(self) -> dict[Minor, Policy]:
        return {**state.policies, **{policy.minor: policy for policy in self.policies if policy.minor.scoped}}

    def __reduce__(self) -> tuple[Any, ...]:
        return Adjusted, (self.operation, self.policies)


@contextmanager
def under(scope_policies: Mapping[Minor, Policy]) -> Iterator[None]:
    """Record the block's nodes under ``scope_policies`` only."""
    outer, state.policies = state.policies, scope_policies
    try:
        yield
    finally:
        state.policies = outer


def in_force() -> frozenset[Policy]:
    """Return the scope's policies, which apply to operations recorded now."""
    return frozenset(state.policies.values())


@contextmanager
def policies(*items: Policy) -> Iterator[None]:
    """Record the block's nodes under the policies ``items``; inner scopes and calls override them.

    The policies apply to all operations that read them, also inside functions, layers and gradients. Raises
    DeclarationError for a policy that changes what is computed, because it must be passed in the operation's call.

    >>> x = ex.tensor(np.full(4, 0.1, "float32"))
    >>> with ex.policies(ex.PAccumulateIn("float64")):
    ...     total = x.sum()
    >>> total.dtype
    dtype('float32')
    """
    given_policies = Policies(items, "ex.policies")
    _refuse_subs(items, "ex.policies")
    for minor in given_policies.given:
        if not minor.scoped:
            raise DeclarationError(
                f"{minor!r} as the policy of a scope",
                rule="a policy that changes what is computed must be passed where the operation is called",
                fix=f"ex.sum(x, policies=[{minor!r}(…)]), for instance",
            )
    with under({**state.policies, **_scoped(given_policies)}):
        yield


def composition(function: _Function) -> _Function:
    """Decorate a function composed of operations, so that its ``policies=`` apply to all operations that it records.

    This excludes policies that change an operation's result, which must be passed to that operation.
    """

    @functools.wraps(function)
    def call(*operands: Any, policies: Items = (), **options: Any) -> Expr:
        if type(policies) is tuple and not policies:
            return function(*operands, **options)
        _refuse_subs(policies, function.__name__)
        with under({**state.policies, **_scoped(Policies(policies, function.__name__))}):
            return function(*operands, **options)

    return cast(_Function, call)


def _scoped(policies: Policies) -> dict[Minor, Policy]:
    return {minor: minor(policy.value) for minor, policy in policies.given.items() if minor.scoped}


def reaching(policies: Policies) -> dict[Minor, Policy]:
    """Return a layer's policies that at least one operation reads."""
    return {minor: policy for minor, policy in _scoped(policies).items() if minor in _read}


def _refuse_subs(items: Items, owner: str) -> None:
    for item in items:
        if isinstance(item, Sub):
            raise DeclarationError(
                f"{item!r} among the policies of {owner}",
                rule="the policies of an operation must not contain a Sub, because it has no sublayers",
                fix="pass the policies themselves: policies=[PUpdate], for instance",
            )
