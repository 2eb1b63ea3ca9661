"""Operations: the computation of a node, with type inference, kernel, gradient, batching and cost in one class body.

Fields of the class are the operation's attributes. A class that lacks a facet fails when it is declared, not when the
facet is needed: laws over the registry can rely on all of them. Instances are interned, so that comparing operations is
comparing identities; attributes are equal by type and bits (1, 1.0 and True differ, 0.0 and −0.0 too).

xDSL, from which the form is taken, keeps kernels apart from operations; here one class body answers all questions about
an operation, so that adding one touches one file. Facets of tiled kernels are inherited from ``Tiling`` (tiling.py).
"""

from __future__ import annotations

import functools
import inspect
import os
import re
import threading
from collections.abc import Callable
from dataclasses import dataclass, fields
from itertools import count
from operator import is_
from typing import TYPE_CHECKING, Any, ClassVar, Literal, TypeAlias, cast, dataclass_transform
from weakref import WeakValueDictionary

import numpy as np

from explorer.core import registry
from explorer.core.argument_checks import named_methods, refuse_option
from explorer.core.attributes import stands_for_expression
from explorer.core.bit_keys import exact
from explorer.core.errors import DeclarationError, OperandError
from explorer.core.ir.expr import Expr, record
from explorer.core.ir.hooks import hooks
from explorer.core.ir.kernel_registry import kernel_of, on_device, rule_of_devices, type_on_elements
from explorer.core.ir.operation_checks import check_facet_names, check_facets, extend, register_operation
from explorer.core.ir.recording_context import state
from explorer.core.ir.tiles import Tiling
from explorer.core.policy import NO_POLICIES, Items, Policies
from explorer.core.shape import Sizes
from explorer.core.types.custom_dtypes import is_text
from explorer.core.types.device import cpu
from explorer.core.types.tensor_type import AnyType, Array, TensorType, TupleType

if TYPE_CHECKING:
    from explorer.core.ir.examples import Example


_interning = threading.RLock()
"""guards the tables of instances; reentrant, because memory is collected inside, and a finaliser may make an operation
on the thread that holds it"""


def _renew() -> None:
    global _interning
    _interning = threading.RLock()


if hasattr(os, "register_at_fork"):
    # another thread of the parent may hold the lock while the process forks; in the child nobody would release it
    os.register_at_fork(after_in_child=_renew)


_PLAIN = frozenset((int, float, bool, str, tuple, type(None)))


class Interning(type):
    """Metaclass that makes one instance for each set of attributes."""

    _instances: WeakValueDictionary[Any, Any]

    attribute_names: tuple[str, ...]

    def __call__(cls, *arguments: Any, **named: Any) -> Any:
        """Return the instance with these attributes."""
        key: tuple[Any, ...] | None = None
        if len(arguments) == len(cls.attribute_names) and not named:
            key = cls._key(arguments)
            instance = cls._instances.get(key)
            if instance is not None:
                return instance
        if Sizes in map(type, arguments) or Sizes in map(type, named.values()):  # an attribute is a tuple of its own
            arguments = tuple([tuple(value) if type(value) is Sizes else value for value in arguments])
            named = {name: tuple(value) if type(value) is Sizes else value for name, value in named.items()}
        try:
            candidate = super().__call__(*arguments, **named)
        # the usual mistake, operands in place of attributes, gets an error of its own
        except TypeError:
            cls._check_attributes((*arguments, *named.values()))
            raise
        attributes = tuple([getattr(candidate, name) for name in cls.attribute_names])
        # __post_init__ may have replaced attributes by canonical ones: those are the key
        if key is None or not all(map(is_, attributes, arguments)):
            key = cls._key(attributes)
        with _interning:
            # Two threads may build the same operation: the first one entered is everybody's.
            instance = cls._instances.setdefault(key, candidate)
        if instance is candidate:
            cls._check_attributes(attributes)
        return instance

    def _check_attributes(cls, arguments: tuple[Any, ...]) -> None:
        """Raise DeclarationError if a class is called with operands instead of attributes."""
        operands = [
            value for value in arguments if type(value) not in _PLAIN and (isinstance(value, Expr) or _is_array(value))
        ]
        if operands:
            names = ", ".join(cls.attribute_names)
            raise DeclarationError(
                f"{cls.__name__}(…) with {len(operands)} of {len(arguments)} arguments that are operands",
                rule=f"a class of operations must be called with its attributes ({names or 'it has none'}), "
                "and the resulting operation with operands",
                fix=f"{cls.__name__}({', '.join(f'{name}=…' for name in cls.attribute_names)})(x, …)",
            )

    def _key(cls, attributes: tuple[Any, ...]) -> tuple[Any, ...]:
        key = tuple(map(exact, attributes))
        try:
            hash(key)
        except TypeError:
            raise DeclarationError(
                f"{cls.__name__} with the attributes {attributes}",
                rule="attributes must be numbers, strings, dtypes, functions, or tuples of them",
                fix="pass arrays as operands: ex.tensor(array)",
            ) from None
        return key


def _is_array(value: Any) -> bool:
    """Whether a value is an array of any library; NumPy scalars and data of a user's type are not."""
    is_array = hasattr(value, "__array__") and not isinstance(value, np.generic)
    return is_array and not stands_for_expression(value)


Range: TypeAlias = Literal["real", "nonnegative", "positive", "unit"]
"""known range of every element of a result: any number, ≥ 0, > 0, between 0 and 1"""


_tokens = count()


class _Docstring:
    """Docstring of a class of operations: its own for the class, a page with all facts for an operation."""

    def __init__(self, text: str) -> None:
        self.text = text

    def __get__(self, operation: Operation | None, cls: type[Operation]) -> str:
        return self.text if operation is None else hooks.describe_operation(operation)


@named_methods
@dataclass_transform(frozen_default=True, eq_default=False)
class Operation(Tiling, metaclass=Interning):
    """Base of all operations; subclass ``Elementwise`` and the other bases of ``explorer.ops.base`` where they fit.

    ``infer`` returns the result's type or raises OperandError; ``kernel`` computes on NumPy arrays; ``gradient``
    returns the gradients of the operands as expressions (None where there is none); ``batch`` records the same
    operation over operands that have a leading batch axis; ``flops`` counts arithmetic.

    ``class X(Operation, extends=ex.matmul)`` adds operand combinations to an existing operation: for operands that its
    own rule rejects, X's rule is asked, and X is recorded if it accepts them.

    >>> class Antidiagonal(ex.Operation):
    ...     "Antidiagonal of a square matrix: (n, n) → (n,)."
    ...     nondifferentiable = unbatchable = "left out of this example"
    ...     examples = (ex.Example(ex.real(3, 3)),)
    ...     def infer(self, x):
    ...         return x.with_shape(x.shape[:1])
    ...     def kernel(self, out, x):
    ...         out[...] = np.diag(x[:, ::-1])
    ...         return out
    ...     def flops(self, result, x):
    ...         return 0
    >>> ex.evaluate(ex.antidiagonal(np.arange(9.0).reshape(3, 3)))
    array([2., 4., 6.])
    """

    name: ClassVar[str]
    """name in the registry and in pictures: the class name in snake_case unless it is set"""
    view: ClassVar[bool] = False
    """the kernel returns a view of its first operand, or a broadcast constant, and allocates nothing"""
    elementwise: ClassVar[bool] = False
    """each element of the result depends only on the operands' elements at the same position"""
    linear: ClassVar[bool] = False
    """linear in each operand while the others are constant"""
    commutative: ClassVar[bool] = False
    """f(a, b) = f(b, a)"""
    associative: ClassVar[bool] = False
    """f(f(a, b), c) = f(a, f(b, c)), up to rounding"""
    idempotent: ClassVar[bool] = False
    """f(f(x)) = f(x), and f(x, x) = x"""
    involution: ClassVar[bool] = False
    """f(f(x)) = x, up to rounding"""
    is_even: ClassVar[bool] = False
    """f(−x) = f(x)"""
    monotone: ClassVar[bool] = False
    """never decreasing in its first operand"""
    defined_everywhere: ClassVar[bool] = False
    """of one operand, and defined for every real number and ±∞: NaN comes from NaN alone"""
    pure: ClassVar[bool] = True
    """computes its result from its operands and has no other effect, so that it may be computed before the run, once
    for equal nodes, and in batches; an impure operation runs as often as it was recorded"""
    portable: ClassVar[bool] = True
    """its kernel needs nothing but NumPy's functions, and no arrays other than its operands and its result, so that it
    runs on a device whose arrays implement NumPy's protocols (``Device.runs_numpy``)"""
    reuses_operand: ClassVar[bool] = False
    """the kernel may write its result over an operand of the same type"""
    range: ClassVar[Range] = "real"
    nondifferentiable: ClassVar[str] = ""
    """why there is no gradient, where there is none"""
    refuses_gradient: ClassVar[bool] = False
    """asking for the gradient raises an error, instead of treating the result as a constant"""
    unbatchable: ClassVar[str] = ""
    """why there is no batching rule, where there is none"""
    channels_last: ClassVar[bool] = False
    """the kernel is fastest on images (N, C, H, W) whose channels are adjacent in memory, and returns such a result"""
    examples: ClassVar[tuple[Example, ...]] = ()
    """operands on which the laws are checked"""

    takes_tuples: ClassVar[bool] = False
    """operands may have several outputs"""
    takes_elements: ClassVar[bool] = False
    """the rule and the kernel handle users' element types; other operations get the decoded numbers"""
    takes_text: ClassVar[bool] = False
    """texts are moved or compared by it as numbers are"""
    text_operands: ClassVar[slice] = slice(None)
    """operands that may be texts, if all of them are"""
    changes_device: ClassVar[bool] = False
    """the result is on another device than the operand"""
    attribute_names: ClassVar[tuple[str, ...]] = ()
    """names of the attributes, in order"""

    _operand_count: ClassVar[int | None] = None
    """number of operands that ``infer`` takes, None for any number"""
    known_types: dict[tuple[AnyType, ...], AnyType]
    """operand types → result type, a cache of ``infer``"""

    def __init_subclass__(
        cls, *, abstract: bool = False, extends: Operation | type[Operation] | None = None, **options: Any
    ) -> None:
        super().__init_subclass__(**options)
        check_facet_names(cls, Operation)
        documented = bool((cls.__doc__ or "").strip())  # a dataclass makes a docstring up
        frozen_class: Any = dataclass(frozen=True, eq=False, repr=False)(cls)
        cls.attribute_names = tuple([field.name for field in fields(frozen_class)])
        # A table for each class, also for those that inherit: equal attributes of two classes are two operations.
        cls._instances = WeakValueDictionary()
        if abstract:
            return
        if "name" not in cls.__dict__:
            cls.name = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", cls.__name__).lower()
        check_facets(cls, Operation, documented)
        cls._operand_count = cls.count_operands()
        cls.__doc__ = cast("str", _Docstring(cls.__doc__ or ""))
        register_operation(cls, None if cls.attribute_names else cls)
        if extends is not None:
            extend(extends if isinstance(extends, type) else type(extends), cls)
        if cls.__module__ == "__main__":
            hooks.note_declaration(cls)

    token: int  # no other operation of this process has it, or had it

    def __post_init__(self) -> None:
        object.__setattr__(self, "known_types", {})
        object.__setattr__(self, "token", next(_tokens))

    # -- facets --------------------------------------------------------------------------------------------------

    # ``**_: Any`` after ``*args: Any`` tells type checkers that subclasses name their own operands.

    def infer(self, *types: Any, **_: Any) -> AnyType:
        """Return the type of the result; raises OperandError (see ``refuse``) for illegal operands."""
        raise NotImplementedError

    def kernel(self, out: Any, *operands: Any, **_: Any) -> Any:
        """Compute into ``out`` (an array of the inferred type; None for a view) and return it."""
        raise NotImplementedError

    def bind_kernel(self, out: Any, *operands: Any, **_: Any) -> Callable[[], Any]:
        """Return a function that computes as ``kernel`` does, from arrays that stay where they are, again and again.

        Only their elements change. An operation whose kernel decides something by dtype or shape may decide it here.
        """
        return functools.partial(self.kernel, out, *operands)

    def gradient(self, upstream: Any, result: Any, *operands: Any, **_: Any) -> tuple[Expr | None, ...]:
        """Return the operands' gradients as expressions of the upstream gradient, the result and the operands."""
        raise NotImplementedError

    def batch(self, size: int, batched: tuple[bool, ...], *operands: Any, **_: Any) -> Expr:
        """Record the operation over operands of which some have a leading axis of ``size`` members."""
        raise NotImplementedError

    def flops(self, result: Any, *types: Any, **_: Any) -> int:
        """Return the number of arithmetic operations."""
        raise NotImplementedError

    def workspace(self, *types: Any, **_: Any) -> int:
        """Return the bytes of temporaries that the kernel allocates, if they exceed the operands' size."""
        return 0

    def kept_axes(self, operand: int, *types: Any, **_: Any) -> tuple[tuple[int, int], ...]:
        """Return pairs of an operand's axis and a result's axis: scaling along the one equals scaling along the other.

        Products return them (a filter's output channel, a matrix's column), so that factors of the result can move into
        weights.
        """
        return ()

    # -- what every operation has --------------------------------------------------------------------------------

    def __call__(self, *operands: Any, policies: Items = NO_POLICIES, **others: Any) -> Expr:
        """Record this operation on expressions, arrays or numbers; policies that it does not read change nothing."""
        if others:
            refuse_option(next(iter(others)), self.label, ["policies"])
        # built only for its checks: a wrong policy is refused even where it would change nothing
        if policies is not NO_POLICIES:
            Policies(policies, self.label)
        for operand in operands:
            if not isinstance(operand, Expr):
                return record(self, self.operands_of(operands))
        return record(self, operands)

    def operands_of(self, values: tuple[Any, ...]) -> tuple[Expr, ...]:
        """Convert arrays and numbers among the operands to expressions."""
        return as_operands(values)

    @classmethod
    def count_operands(cls) -> int | None:
        """Return how many operands the operation takes, None for any number, as ``infer`` or else ``kernel``
        declares."""
        for facet, own in ((cls.infer, 1), (cls.kernel, 2)):
            parameters = list(inspect.signature(facet).parameters.values())[own:]
            if not any(parameter.kind is parameter.VAR_POSITIONAL for parameter in parameters):
                return len(parameters)
        return None

    def type_of(self, types: tuple[AnyType, ...]) -> AnyType:
        """Return the inferred type, cached for each tuple of operand types."""
        cached = self.known_types.get(types)
        if cached is not None:
            return cached
        for operand_type in types:
            if type(operand_type) is TupleType and not self.takes_tuples:
                raise self.refuse(types, "operands must have a single output", "unpack the value first: a, b = f(x)")
        expected = self._operand_count
        if expected is not None and len(types) != expected:
            raise self.refuse(types, f"{self.name} must have {expected} operand{'s' * (expected != 1)}")
        inferred = self.known_types[types] = self._inferred(types)
        return inferred

    def _inferred(self, types: tuple[AnyType, ...]) -> AnyType:
        devices = list(dict.fromkeys([type_.device for type_ in types if type(type_) is TensorType]))
        if len(devices) > 1:
            raise self.refuse(types, *rule_of_devices(devices, types))
        if not self.takes_tuples:
            self._check_texts(types)
        try:
            inferred = type_on_elements(self, types) or self.infer(*types)
        except np.exceptions.DTypePromotionError:
            rule, fix = "operands must have dtypes that NumPy promotes to a common one", "x.astype(np.float32)"
            raise self.refuse(types, rule, fix) from None
        return inferred if self.changes_device or not devices or devices[0] is cpu else on_device(inferred, devices[0])

    def _check_texts(self, types: tuple[AnyType, ...]) -> None:
        """Raise OperandError for texts that the operation does not take, or takes together with numbers."""
        texts = [type(type_) is TensorType and is_text(type_.dtype) for type_ in types]
        if not any(texts):
            return
        if not self.takes_text:
            raise self.refuse(types, f"{self.name} must have numbers as operands; texts are moved and compared only")
        alike = texts[self.text_operands]
        if not all(alike) or sum(alike) != sum(texts):
            raise self.refuse(
                types, f"{self.name} must have texts alone, or numbers alone, as operands that it moves or compares"
            )

    def refuse(self, types: tuple[AnyType, ...], rule: str, fix: str = "") -> OperandError:
        """Return the error for illegal operands."""
        operand_types = (", ".join(map(repr, types[:6])) or "nothing") + f", … ({len(types)} in all)" * (len(types) > 6)
        return OperandError(f"{self.label} of {operand_types}", rule=rule, fix=fix)

    @property
    def label(self) -> str:
        """Name of a node of this operation in pictures."""
        return self.name

    @property
    def attributes(self) -> dict[str, Any]:
        """Attributes by name."""
        return {name: getattr(self, name) for name in self.attribute_names}

    def compute(self, *operands: Array) -> Any:
        """Run the NumPy kernel on arrays, into freshly allocated results (a tuple of them for several outputs)."""
        types = tuple([TensorType(array.shape, array.dtype) for array in operands])
        type_ = self.type_of(types)
        if self.view:
            return self.kernel(None, *operands)
        kernel = kernel_of(self, cpu, *types, type_)
        if isinstance(type_, TupleType):
            return kernel(tuple(np.empty(part.shape, part.dtype) for part in type_.parts), *operands)
        return kernel(np.empty(type_.shape, type_.dtype), *operands)

    def __repr__(self) -> str:
        attributes = ", ".join(f"{name}={value!r}" for name, value in self.attributes.items())
        return f"{self.name}({attributes})"

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), tuple(self.attributes.values())


def as_operands(values: tuple[Any, ...]) -> tuple[Expr, ...]:
    """Convert operands to expressions: numbers to constants of the weakest dtype that fits, arrays to tensors.

    These lie where the first expression does. Raises OperandError if all operands are numbers: they need no expression.
    """
    convert = registry.functions["as_expr"]
    # the frequent case x · 2 without lists and loops: recording costs two microseconds in all
    if len(values) == 2:
        first, second = values
        if type(first) in WEAK and isinstance(second, Expr):
            type_ = second.tensor_type
            return convert(first, (type_.dtype,), type_.device), second
        if type(second) in WEAK and isinstance(first, Expr):
            type_ = first.tensor_type
            return first, convert(second, (type_.dtype,), type_.device)
    for value in values:
        if not isinstance(value, Expr):
            break
    else:
        return values
    device = next((value.tensor_type.device for value in values if isinstance(value, Expr)), state.device)
    converted = [each if isinstance(each, Expr) or type(each) in WEAK else convert(each, (), device) for each in values]
    types = [value.tensor_type for value in converted if isinstance(value, Expr)]
    if not types and values:
        raise OperandError(
            f"the numbers {', '.join(map(repr, values))} without any tensor",
            rule="an operation must have a tensor or an expression among its operands",
            fix="use Python's own arithmetic for numbers, or wrap one: ex.tensor(2.0)",
        )
    dtypes = tuple([type_.dtype for type_ in types])
    return tuple([value if isinstance(value, Expr) else convert(value, dtypes, types[0].device) for value in converted])


WEAK = (float, int, bool, complex)  # Python's numbers: they take the dtype of the tensor operands if it can hold them
