"""A format's operator types: what each of them means, as a function that records expressions.

Types enter a table in one of two ways. :meth:`OperatorTable.register` takes a builder that asks an OperatorContext
for what it needs, as suits a file's types. :meth:`OperatorTable.declare` takes a function of expressions whose
signature is the type's schema: one declaration for constructor, schema and help; its gradient is that of the
expressions that it records.
"""

from __future__ import annotations

import inspect
import itertools
import json
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from functools import lru_cache
from importlib import import_module
from operator import add
from types import MappingProxyType
from typing import Any, NamedTuple, TypeAlias, TypeVar

import numpy as np

from explorer.core.errors import DeclarationError
from explorer.core.registry import Registry, changes
from explorer.net.definition.operator_definition import OperatorDefinition
from explorer.net.operators.context import OperatorContext
from explorer.net.operators.gradient_types import SUFFIX, gradient_builder
from explorer.net.operators.known_inputs import folded
from explorer.net.operators.reads import Ignored
from explorer.net.operators.schema import OperatorSchema
from explorer.net.operators.signature import Signature
from explorer.record.escape import visible

Builder: TypeAlias = Callable[[OperatorContext], Any]
"""records an operator: its value (an expression or a plain value), or a tuple of them where it has several outputs"""
_Registered = TypeVar("_Registered", bound=Callable[..., Any])
_Declared = TypeVar("_Declared", bound=Callable[..., Any])


class Remedy(NamedTuple):
    """Rule that a file with an unknown operator type breaks, and its fix."""

    rule: str
    fix: str


class OperatorTable:
    """Operator types of one file format to their builders; users add their own."""

    def __init__(
        self,
        format: str,
        *,
        rewrites: bool = False,
        remedy: Callable[[str], Remedy | None] = lambda type: None,
        input_names: Callable[[str, int], tuple[str, ...]] = lambda type, count: (),
        families: Mapping[str, Sequence[str]] = MappingProxyType({}),
    ) -> None:
        self.format = format
        self._families = dict(families)
        """first part of types → modules that register them, imported when such a type is first asked for"""
        self.input_names = input_names
        """names of the inputs of a type, for a number of them, as readers of its files name them; () if they do not"""
        self.remedy = remedy
        """what helps with an unknown type beside its registration: the file may be of another version of the format"""
        self.rewrites = rewrites
        """whether programs in these types run in their order and may write a blob again"""
        self.version = 0
        """number of registrations so far; a build of an earlier number is out of date"""
        self._builders: Registry[str, Builder] = Registry("operator type")
        self._signatures: Registry[str, Signature] = Registry("signature")
        """type → the signature of its registered function"""
        self._schemas: Registry[str, OperatorSchema] = Registry("schema")
        self._ignored: Registry[str, Ignored] = Registry("ignored parts")
        """type → what its builder need not read; a type that is not here may have parts that nobody reads"""
        self._gradients: Registry[str, str] = Registry("gradient type")
        """gradient type that follows from a declared one, and is not listed → the declared one"""
        self._declared: Registry[str, tuple[str, str]] = Registry("declaration")
        """type → module and name of the function that declares it"""
        self._near: tuple[int, NearTypes | None] = (0, None)
        """an index of the types, and the version of the table that it belongs to"""

    def __repr__(self) -> str:
        return f"OperatorTable({self.format!r}, types={len(self._builders)})"

    def register(
        self,
        *types: str,
        ignored: Ignored | None = None,
        check: Callable[[OperatorContext], None] | None = None,
        fold: bool = False,
    ) -> Callable[[_Registered], _Registered]:
        """Decorate the function of one or more operator types; a type that is known is replaced.

        The function takes the operator's inputs and arguments, as its signature says (signature.py), or an
        OperatorContext, and returns the operator's value, or a tuple with one value for each output. ``check`` is
        called before it; with ``fold``, results that follow from small constants only are computed at once.
        With ``ignored``, which may be empty, an operator is refused that has an argument, weight or operand besides
        those that the builder reads and the ignored ones; without it they are ignored. Raises DeclarationError where
        no type is named.
        """
        if not types or not all(isinstance(name, str) and name for name in types):
            raise DeclarationError(
                f"a builder for {', '.join(map(repr, types)) or 'no operator type'}",
                rule="a builder must be registered for operator types, as the file writes them",
                fix='write @file_operator("my.Layer") above the function',
            )

        def enter(builder: _Registered) -> _Registered:
            if not _is_own(builder.__module__):
                self._load(*types)  # what a user's function replaces must be there
            signature = Signature(builder)

            def build(op: OperatorContext) -> Any:
                if check is not None:
                    check(op)
                result = signature.call(op)
                return folded(op, result) if fold else result

            build.__doc__, build.__module__ = builder.__doc__, builder.__module__
            with changes.held:
                for name in types:
                    self._builders[name] = build
                    if name not in self._signatures or not signature.takes_context:
                        self._signatures[name] = signature
                    # What a replaced type declared of its arguments says nothing about the new builder's.
                    self._schemas.pop(name, None)
                    self._ignored.pop(name, None)
                    if ignored is not None:
                        self._ignored[name] = ignored
                self.version += 1
            return builder

        return enter

    def declare(self, *types: str, **options: Any) -> Callable[[_Declared], _Declared]:
        """Decorate the function of one or more operator types, of its own name where none is given.

        It takes expressions and returns one, or a tuple; its signature is the schema (see schema.py), to which
        ``options`` add ``in_place`` (True: the first output may overwrite the first input; or pairs of positions),
        ``enforced`` (pairs that must be one blob), the ``inputs`` and ``outputs`` counts that are allowed, and of its
        gradient: ``gradient`` ("own", that of its expressions; "none"; "refused"; "missing"), ``no_gradient``
        (positions of inputs that have none), ``by_output`` (whether the output over an
        input is enough, or for which inputs). Raises
        DeclarationError for a type that another function declares; the same function declared again replaces it.
        """

        def enter(function: _Declared) -> _Declared:
            # By name, since a cell that runs again makes another function.
            owner = function.__module__, function.__qualname__
            # All of one declaration at a time: another thread sees a type with its schema and its gradient, or none.
            with changes.held:
                for name in types or (function.__name__,):
                    if self._declared.get(name, owner) != owner:
                        raise DeclarationError(
                            f"a second declaration of the operator type {name!r}",
                            rule=f"a type must be declared once, and {'.'.join(self._declared[name])} declares it",
                            fix="choose another name",
                        )
                    schema = OperatorSchema.of(name, function, **options)
                    self._schemas[name], self._builders[name] = schema, _builder(function, schema)
                    self._declared[name] = owner
                    self._derive(name)
                self.version += 1
            return function

        return enter

    def _derive(self, type: str) -> None:
        """Enter the gradient type of a declared one, unless a user has declared it."""
        name = type + SUFFIX
        if name not in self._declared:
            # Entered like any builder, and made anew with each declaration: it closes over the one of this moment.
            self._builders[name] = gradient_builder(type, self._builders[type], dict(self._schemas[type].in_place))
            self._gradients[name] = type

    def signature(self, type: str) -> Signature | None:
        """Return the signature of a type's registered function; None for a type without one.

        A function that takes the operator's context reads the inputs by the names of the one that it replaces.
        """
        self._load(type)
        return self._signatures.get(type)

    def schema(self, type: str) -> OperatorSchema | None:
        """Return the schema of a type; None for a type whose builder alone knows its arguments."""
        return self._schemas.get(type)

    def check(self, operator: OperatorDefinition) -> None:
        """Raise OperandError or UnknownNameError where an operator is not as its type asks, before it is built."""
        schema = self._schemas.get(operator.type)
        if schema is not None:
            schema.check(operator)

    def check_reads(self, op: OperatorContext) -> None:
        """Raise OperandError where a built operator has parts that its type's builder must know, and has not read."""
        type = op.definition.type
        ignored = self._ignored.get(type)
        if ignored is not None:
            op.reads.check(op.definition, op.passed, ignored, self.registration(type))

    def is_own(self, type: str) -> bool:
        """Whether explorer's own code says what a type means, and not a user's."""
        declared = self._declared.get(type) if type in self._schemas else None
        module = declared[0] if declared is not None else self._builders[type].__module__
        return _is_own(module)

    def _load(self, *types: str) -> None:
        """Import the modules of the families of types."""
        for beginning in [each for each in self._families if any(type.startswith(each) for type in types)]:
            with changes.held:
                for module in self._families.pop(beginning, ()):
                    import_module(module)

    def __contains__(self, type: str) -> bool:
        self._load(type)
        return type in self._builders

    def __getitem__(self, type: str) -> Builder:
        self._load(type)
        return self._builders[type]

    def get(self, type: str) -> Builder | None:
        """The builder of a type, None for one that is not known."""
        self._load(type)
        return self._builders.get(type)

    def registration(self, type: str) -> str:
        """The line that registers a type."""
        format = "" if self.format == "pnnx" else f', format="{self.format}"'
        return f"@ex.file_operator({visible(json.dumps(type, ensure_ascii=False))}{format})"

    def types(self) -> list[str]:
        """All known operator types, sorted, without the gradient types that follow from them."""
        self._load(*self._families)
        return sorted(self._builders.keys() - self._gradients.keys())

    def near(self, type: str) -> list[str]:
        """The known types whose names are most like this one, at most three."""
        self._load(*self._families)
        version, near = self._near
        if version != self.version or near is None:
            # Made when first asked for: only an unknown type asks.
            near = NearTypes(self.types())
            self._near = self.version, near
        return list(near.of(type))


def _is_own(module: str) -> bool:
    return module.partition(".")[0] == __name__.partition(".")[0]


def _builder(function: Callable[..., Any], schema: OperatorSchema) -> Builder:
    parameters = inspect.signature(function).parameters
    counts, names = "outputs" in parameters, "blob" in parameters

    def build(op: OperatorContext) -> Any:
        arguments: dict[str, Any] = dict(op.arguments)
        if counts:
            arguments["outputs"] = len(op.definition.outputs)
        if names:
            arguments["blob"] = op.definition.outputs[0]
        weights = {name: op.weight(name) for name in schema.weights if name in op.definition.weights}
        result = function(*(op.tensor(position) for position in range(len(op.passed))), **arguments, **weights)
        # A function of one or more outputs returns a tuple for one, too.
        return result[0] if isinstance(result, tuple) and len(op.definition.outputs) == len(result) == 1 else result

    build.__doc__ = function.__doc__
    return build


_MOST = 3
"""types that are named at most"""
_ALIKE = 0.42
"""the least similarity, a Dice coefficient, of two names that are near each other"""


class NearTypes:
    """The known operator types of one moment, to be asked which of them are most like another type.

    Two names are alike as far as they have letters in common, and pairs of letters that are neighbours or one apart
    (the Dice coefficient of all of these; case does not count). A file may hold thousands of unknown types, so the
    known ones are taken apart once.
    """

    def __init__(self, types: Iterable[str]) -> None:
        self._types = list(types)
        parts = [_parts(name) for name in self._types]
        self._rows = {part: row for row, part in enumerate(dict.fromkeys(itertools.chain.from_iterable(parts)))}
        self._has = np.zeros((len(self._rows), len(parts)), np.uint8)
        """whether each letter or pair is in each type: as often as that"""
        for column, own in enumerate(parts):
            self._has[[self._rows[part] for part in own], column] = 1
        self._totals = self._has.sum(axis=0, dtype=np.int64)
        self._words: dict[str, list[int]] = {}
        for column, name in enumerate(self._types):
            self._words.setdefault(_word(name), []).append(column)
        self.of = lru_cache(maxsize=1 << 16)(self._of)
        """the known types most like one, the most alike first: those alike enough, and those of its very word"""

    def _of(self, type: str) -> tuple[str, ...]:
        own = _parts(type)
        rows = [row for row in map(self._rows.get, own) if row is not None]
        wide = np.uint8 if len(rows) < 256 else np.int64  # a sum in the matrix's own dtype takes a tenth of the time
        common = np.add.reduce(self._has.take(rows, axis=0), axis=0, dtype=wide)
        alike = common / (len(own) + self._totals)
        word = _word(type)
        # Half of the coefficient: the factor 2 of its numerator is left out above.
        near = (alike >= _ALIKE / 2).nonzero()[0].tolist()
        like = [column for column in near if _likeness(word, _word(self._types[column])) >= _ALIKE]
        candidates = {*like, *self._words.get(word, ())}
        return tuple(
            [name for _, name in sorted([(-alike[column], self._types[column]) for column in candidates])[:_MOST]]
        )


def _likeness(word: str, other: str) -> float:
    """How alike two names are without their families, which many types share: 1 for equal ones."""
    own, theirs = set(_parts(word)), set(_parts(other))
    return 2 * len(own & theirs) / (len(own) + len(theirs))


def _parts(type: str) -> list[Hashable]:
    """Each letter of a name, each pair of neighbours, and each pair with one letter between; the second one counted."""
    folded = type.lower()
    parts: list[Hashable] = [*folded, *map(add, folded, folded[1:]), *zip(folded, folded[2:], strict=False)]
    seen = dict.fromkeys(parts, 0)
    if len(seen) == len(parts):
        return parts
    again: list[Hashable] = []
    for part in parts:
        number = seen[part]
        if number:
            again.append((part, number))
        seen[part] = number + 1
    return [*seen, *again]


def _word(type: str) -> str:
    """The type without its family and opset: relu of ``nn.ReLU``, ``aten::relu`` and ``Relu (opset 1)``."""
    return type.partition(" (")[0].replace("::", ".").rpartition(".")[2].lower()
