"""Operator tables, which map each operator type of a format to its builder, a function that records expressions.

:meth:`OperatorTable.register` adds types of files, whose builders may use an OperatorContext.
:meth:`OperatorTable.declare` adds functions of expressions. The signature of such a function is the schema and the help
of the type, and the gradient of the type is the gradient of the expressions.
"""

from __future__ import annotations

import inspect
import itertools
import json
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from importlib import import_module
from operator import add
from types import MappingProxyType
from typing import Any, NamedTuple, TypeAlias, TypeVar

import numpy as np

from explorer.core.errors import DeclarationError
from explorer.core.registry import Registry, changes
from explorer.net.definition.definition import NetDefinition
from explorer.net.definition.operator_definition import OperatorDefinition
from explorer.net.operators.context import OperatorContext
from explorer.net.operators.gradient_types import SUFFIX, gradient_builder
from explorer.net.operators.known_inputs import folded
from explorer.net.operators.reads import Ignored
from explorer.net.operators.schema import OperatorSchema
from explorer.net.operators.signature import Signature
from explorer.record import OperatorType
from explorer.record.escape import visible

Builder: TypeAlias = Callable[[OperatorContext], Any]
"""function that records an operator and returns its value (an expression or a plain value), or a tuple of values"""
_Registered = TypeVar("_Registered", bound=Callable[..., Any])
_Declared = TypeVar("_Declared", bound=Callable[..., Any])


class Remedy(NamedTuple):
    """Rule and fix in the error for a file with an unknown operator type."""

    rule: str
    fix: str


class OperatorTable:
    """Mapping of a file format's operator types to builders; users can add types."""

    def __init__(
        self,
        format: str,
        *,
        rewrites: bool = False,
        remedy: Callable[[str], Remedy | None] = lambda type: None,
        input_names: Callable[[str, int], tuple[str, ...]] = lambda type, count: (),
        output_names: Callable[[str, int], tuple[str, ...]] = lambda type, count: ("",) * count,
        defaults: Callable[[str], Mapping[str, Any]] = lambda type: {},
        document: Callable[[str], OperatorType] | None = None,
        families: Mapping[str, Sequence[str]] = MappingProxyType({}),
    ) -> None:
        self.format = format
        self._families = dict(families)
        """prefix of operator types → modules that register them, imported when such a type is first requested"""
        self.input_names = input_names
        """function of a type and a number of inputs that returns the input names in files of the format, or ()"""
        self.output_names = output_names
        """function of a type and a number of outputs that returns the output names in files of the format, or """ ""
        self.defaults = defaults
        """function of a type that returns the values of arguments that files of the format may omit"""
        self._document = document
        """function that returns the documentation of a type; None if readers of the format document its operators"""
        self.remedy = remedy
        """function that returns the rule and fix for an unknown type with a better fix than registering it"""
        self.rewrites = rewrites
        """whether operators run in program order and may overwrite blobs"""
        self.version = 0
        """number of registrations so far; builds made with an earlier version are out of date"""
        self._builders: Registry[str, Builder] = Registry("operator type")
        self._signatures: Registry[str, Signature] = Registry("signature")
        """type → signature of its registered function"""
        self._schemas: Registry[str, OperatorSchema] = Registry("schema")
        self._ignored: Registry[str, Ignored] = Registry("ignored parts")
        """type → names and positions that its builder need not read; types without an entry are not checked"""
        self._gradients: Registry[str, str] = Registry("gradient type")
        """derived gradient type → declared type; ``types()`` omits derived gradient types"""
        self._declared: Registry[str, tuple[str, str]] = Registry("declaration")
        """type → module and name of the function that declares it"""
        self._similar: tuple[int, SimilarTypes | None] = (0, None)
        """version of the table, and the index of its types"""

    def __repr__(self) -> str:
        return f"OperatorTable({self.format!r}, types={len(self._builders)})"

    def register(
        self,
        *types: str,
        ignored: Ignored | None = None,
        check: Callable[[OperatorContext], None] | None = None,
        fold: bool = False,
    ) -> Callable[[_Registered], _Registered]:
        """Return a decorator that registers a function as the builder of operator types, replacing earlier builders.

        The parameters of the function are the operator's inputs and arguments (signature.py), or an OperatorContext. It
        returns the operator's value, or a tuple with one value for each output. ``check`` is called before it. With
        ``fold``, results that depend only on small constants are computed while the net is built. If ``ignored`` is
        given, arguments, weights and operands that are neither read nor in ``ignored`` raise an error; otherwise unread
        ones are ignored. Raise DeclarationError if no type is given.
        """
        if not types or not all(isinstance(name, str) and name for name in types):
            raise DeclarationError(
                f"a builder for {', '.join(map(repr, types)) or 'no operator type'}",
                rule="a builder must be registered for operator types, named as in the file",
                fix='write @file_operator("my.Layer") above the function',
            )

        def decorate(builder: _Registered) -> _Registered:
            if not _is_own(builder.__module__):
                self._load(*types)  # else loading them later would replace the user's function
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
                    # The schema of a replaced type does not apply to the new builder.
                    self._schemas.pop(name, None)
                    self._ignored.pop(name, None)
                    if ignored is not None:
                        self._ignored[name] = ignored
                self.version += 1
            return builder

        return decorate

    def declare(self, *types: str, **options: Any) -> Callable[[_Declared], _Declared]:
        """Return a decorator that declares a function as operator types; the default type is the function's name.

        The function's parameters are expressions, and it returns an expression or a tuple; its signature is the schema
        (schema.py). ``options`` are ``in_place`` (True if the first output may overwrite the first input, or pairs of
        positions), ``enforced`` (pairs that must be the same blob), ``inputs`` and ``outputs`` (allowed numbers),
        ``gradient`` ("own", the gradient of its expressions; "none"; "refused"; "missing"), ``no_gradient`` (positions
        of inputs without a gradient), and ``by_output`` (whether the gradient can be computed after an output has
        overwritten an input, or for which inputs). Raise DeclarationError for a type that another function declares;
        declaring the same function again replaces the type.
        """

        def decorate(function: _Declared) -> _Declared:
            # By name, since running a cell again creates another function.
            owner = function.__module__, function.__qualname__
            # Locked, so that other threads never see a type without its schema and gradient.
            with changes.held:
                for name in types or (function.__name__,):
                    if self._declared.get(name, owner) != owner:
                        raise DeclarationError(
                            f"a second declaration of the operator type {name!r}",
                            rule=f"a type must be declared once, but {'.'.join(self._declared[name])} declares it too",
                            fix="choose another name",
                        )
                    schema = OperatorSchema.of(name, function, **options)
                    self._schemas[name], self._builders[name] = schema, _builder(function, schema)
                    self._declared[name] = owner
                    self._add_gradient_type(name)
                self.version += 1
            return function

        return decorate

    def _add_gradient_type(self, type: str) -> None:
        """Add the gradient type of a declared type, unless a user has declared the gradient type."""
        name = type + SUFFIX
        if name not in self._declared:
            # Created again for each declaration, since it contains the current builder.
            self._builders[name] = gradient_builder(type, self._builders[type], dict(self._schemas[type].in_place))
            self._gradients[name] = type

    def signature(self, type: str) -> Signature | None:
        """Return the signature of a type's registered function, or None if the type has none.

        If the function takes the operator's context, this is the signature of the function that it replaced.
        """
        self._load(type)
        return self._signatures.get(type)

    def parameters(self, operator: OperatorDefinition) -> tuple[tuple[str, int], ...]:
        """Return (formal name, index in ``inputs``) pairs of an operator's inputs, in the type's order.

        The index is −1 for an input that the definition has as a weight or argument of this name. The name of an input
        is "" if the type has none.
        """
        position_of = {blob: position for position, blob in enumerate(operator.inputs)}
        named = {name: position_of.get(blob, -1) for name, blob in operator.input_names.items()}
        blobs = set(operator.input_names.values())
        rest = [position for position, blob in enumerate(operator.inputs) if blob not in blobs]
        signature = self.signature(operator.type)
        if rest and signature is not None:
            names = [name for name in signature.input_names(len(operator.inputs)) if name not in named]
            named.update(zip(names, rest, strict=False))
        apart = {**operator.weights, **operator.arguments}
        formals = self.input_names(operator.type, len(named) + len(apart))
        if not formals and signature is not None and not signature.takes_context:
            # Without positions, all arguments are attributes.
            formals, apart = tuple([each.names[0] for each in signature.parameters]), dict(operator.weights)
        named.update((name, -1) for name in formals if name in apart and name not in named)
        order = {name: position for position, name in enumerate(formals)}
        unnamed = [("", position) for position in rest if position not in named.values()]
        return (*sorted(named.items(), key=lambda pair: order.get(pair[0], len(order))), *unnamed)

    def documented(self, definition: NetDefinition) -> NetDefinition:
        """Return a definition whose operators have the documentation of their types."""
        if self._document is None:
            return definition
        operators = [replace(each, documentation=self._document(each.type)) for each in definition.operators]
        return replace(definition, operators=tuple(operators))

    def schema(self, type: str) -> OperatorSchema | None:
        """Return the schema of a type, or None for a type that was registered without a schema."""
        return self._schemas.get(type)

    def check(self, operator: OperatorDefinition) -> None:
        """Raise OperandError or UnknownNameError unless an operator conforms to its type's schema."""
        schema = self._schemas.get(operator.type)
        if schema is not None:
            schema.check(operator)

    def check_reads(self, op: OperatorContext) -> None:
        """Raise OperandError for arguments, weights or operands of a built operator that were not read or ignored."""
        type = op.definition.type
        ignored = self._ignored.get(type)
        if ignored is not None:
            op.reads.check(op.definition, op.passed, ignored, self.registration(type))

    def is_own(self, type: str) -> bool:
        """Return whether explorer, and not a user, defines a type."""
        declared = self._declared.get(type) if type in self._schemas else None
        module = declared[0] if declared is not None else self._builders[type].__module__
        return _is_own(module)

    def _load(self, *types: str) -> None:
        """Import the modules that register types."""
        for prefix in [each for each in self._families if any(type.startswith(each) for type in types)]:
            with changes.held:
                for module in self._families.pop(prefix, ()):
                    import_module(module)

    def __contains__(self, type: str) -> bool:
        self._load(type)
        return type in self._builders

    def __getitem__(self, type: str) -> Builder:
        self._load(type)
        return self._builders[type]

    def get(self, type: str) -> Builder | None:
        """Return the builder of a type, or None for an unknown type."""
        self._load(type)
        return self._builders.get(type)

    def registration(self, type: str) -> str:
        """Return the line of code that registers a type."""
        format = "" if self.format == "pnnx" else f', format="{self.format}"'
        return f"@ex.file_operator({visible(json.dumps(type, ensure_ascii=False))}{format})"

    def types(self) -> list[str]:
        """Return all known operator types, sorted, without derived gradient types."""
        self._load(*self._families)
        return sorted(self._builders.keys() - self._gradients.keys())

    def near(self, type: str) -> list[str]:
        """Return up to three known types with the most similar names."""
        self._load(*self._families)
        version, similar = self._similar
        if version != self.version or similar is None:
            # Created at the first unknown type.
            similar = SimilarTypes(self.types())
            self._similar = self.version, similar
        return list(similar.of(type))


def _is_own(module: str) -> bool:
    return module.partition(".")[0] == __name__.partition(".")[0]


def _builder(function: Callable[..., Any], schema: OperatorSchema) -> Builder:
    parameters = inspect.signature(function).parameters
    takes_count, takes_name = "outputs" in parameters, "blob" in parameters

    def build(op: OperatorContext) -> Any:
        arguments: dict[str, Any] = dict(op.arguments)
        if takes_count:
            arguments["outputs"] = len(op.definition.outputs)
        if takes_name:
            arguments["blob"] = op.definition.outputs[0]
        weights = {name: op.weight(name) for name in schema.weights if name in op.definition.weights}
        result = function(*(op.tensor(position) for position in range(len(op.passed))), **arguments, **weights)
        # A function with a variable number of outputs returns a tuple even for one.
        return result[0] if isinstance(result, tuple) and len(op.definition.outputs) == len(result) == 1 else result

    build.__doc__ = function.__doc__
    return build


_MAX_SUGGESTIONS = 3
"""maximum number of suggested types"""
_MIN_SIMILARITY = 0.42
"""minimum Dice coefficient of two similar names"""


class SimilarTypes:
    """Index of the known operator types that finds types with similar names.

    The similarity of two names is the Dice coefficient of their letters, pairs of adjacent letters, and pairs with one
    letter between them, ignoring case. Known names are split once, since a file may contain thousands of unknown types.
    """

    def __init__(self, types: Iterable[str]) -> None:
        self._types = list(types)
        parts = [_parts(name) for name in self._types]
        self._rows = {part: row for row, part in enumerate(dict.fromkeys(itertools.chain.from_iterable(parts)))}
        self._contains = np.zeros((len(self._rows), len(parts)), np.uint8)
        """matrix (parts, types), 1 if the type's name contains the part"""
        for column, own in enumerate(parts):
            self._contains[[self._rows[part] for part in own], column] = 1
        self._totals = self._contains.sum(axis=0, dtype=np.int64)
        self._words: dict[str, list[int]] = {}
        for column, name in enumerate(self._types):
            self._words.setdefault(_word(name), []).append(column)
        self.of = lru_cache(maxsize=1 << 16)(self._of)
        """cached function of a type that returns the similar known types, most similar first"""

    def _of(self, type: str) -> tuple[str, ...]:
        own = _parts(type)
        rows = [row for row in map(self._rows.get, own) if row is not None]
        wide = np.uint8 if len(rows) < 256 else np.int64  # summing in the matrix's own dtype is ten times as fast
        common = np.add.reduce(self._contains.take(rows, axis=0), axis=0, dtype=wide)
        # Half of the coefficient, whose numerator has a factor of 2.
        halves = common / (len(own) + self._totals)
        word = _word(type)
        columns = (halves >= _MIN_SIMILARITY / 2).nonzero()[0].tolist()
        similar = [column for column in columns if _similarity(word, _word(self._types[column])) >= _MIN_SIMILARITY]
        candidates = sorted(
            [(-halves[column], self._types[column]) for column in {*similar, *self._words.get(word, ())}]
        )
        return tuple([name for _, name in candidates[:_MAX_SUGGESTIONS]])


def _similarity(word: str, other: str) -> float:
    """Return the Dice coefficient of two words, 1 if they are equal."""
    own, theirs = set(_parts(word)), set(_parts(other))
    return 2 * len(own & theirs) / (len(own) + len(theirs))


def _parts(type: str) -> list[Hashable]:
    """Return a name's letters, adjacent pairs, and pairs with one letter between them; repetitions are numbered."""
    folded = type.lower()
    parts: list[Hashable] = [*folded, *map(add, folded, folded[1:]), *zip(folded, folded[2:], strict=False)]
    counts = dict.fromkeys(parts, 0)
    if len(counts) == len(parts):
        return parts
    repeats: list[Hashable] = []
    for part in parts:
        count = counts[part]
        if count:
            repeats.append((part, count))
        counts[part] = count + 1
    return [*counts, *repeats]


def _word(type: str) -> str:
    """Return the lower-case type without prefix and opset: relu for ``nn.ReLU`` and ``Relu (opset 1)``."""
    return type.partition(" (")[0].replace("::", ".").rpartition(".")[2].lower()
