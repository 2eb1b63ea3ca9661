"""Example lengths for a model's unknown dimensions, so that its graph can be shown without inputs.

Only an operator's builder knows which lengths it accepts, so the net is built with each candidate, starting with common
shapes of model inputs. Building computes nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from itertools import islice
from typing import TypeAlias

from explorer.core.errors import ExplorerError, OperandError, UnknownNameError
from explorer.core.types.tensor_type import Shape
from explorer.net.building.builder import Build
from explorer.net.building.containers import EXAMPLE_LENGTH
from explorer.net.building.diagnostics import behind_unknown_types, unknown_types
from explorer.net.definition.declared_types import Lengths, is_name, is_open, shape_text
from explorer.net.definition.definition import Dimension, NetDefinition, graph_error
from explorer.net.operators.table import OperatorTable

Shapes: TypeAlias = Mapping[str, Shape]

_CHANNELS = (3, 1, 4)
"""numbers of channels: RGB, grey, RGBA"""
_SIDES = (224, 32, 28, 64, 96, 128, 227, 256, 299, 320, 384, 416, 512, 640)
"""image heights and widths, most common first"""
_REST = (16, 1)
"""lengths tried for axes that are neither batch nor image axes: first a short sequence"""
_LONG = (512, 4096, 16_000)
"""lengths tried for these axes of nets without images, such as nets that cut audio into frames"""
_ALL = (1, 2, 16, 64)
"""lengths tried for all axes if nothing else fits"""
_RANKS = (2, 1, 3, 4, 0)
"""ranks of inputs without a declared shape, most common first"""
_MAX_OPERATORS = 20_000
"""maximum number of operators built to find lengths, in addition to four nets"""
_CHARACTERS = 20
"""number of characters of arguments that take as long as one operator, since every build parses the arguments"""


def declared_shapes(definition: NetDefinition) -> dict[str, Shape]:
    """Return the input shapes that the file declares; raise OperandError if a length is unknown."""
    return _filled(definition, lambda name, axis: None)


def same_shapes(definition: NetDefinition, length: int, known: Shapes, rank: int | None = None) -> dict[str, Shape]:
    """Return all input shapes, with ``length`` for each unknown dimension; ``known`` maps inputs to given shapes.

    Inputs without a declared shape have ``rank`` axes.
    """
    return _filled(definition, lambda name, axis: length, known=known, rank=rank)


def fitting_shapes(
    definition: NetDefinition, table: OperatorTable, build: Callable[[Shapes], Build], known: Shapes
) -> dict[str, Shape]:
    """Return the first candidate with which all known operators can be built, or else the one with the fewest problems.

    ``known`` maps inputs to given shapes, which are kept and determine named lengths of other inputs.
    """
    without_rank = any(definition.input(name).shape is None for name in definition.inputs if name not in known)
    if not (is_open(definition) or without_rank) or len(known) == len(definition.inputs):
        return _filled(definition, lambda name, axis: None, known=known)
    unknown = {operator.name for type in unknown_types(definition, table) for operator in type.operators}
    unknown |= behind_unknown_types(definition, table)
    best: tuple[int, dict[str, Shape]] | None = None
    # Each attempt builds the whole net, so large nets get fewer attempts to keep opening fast.
    for shapes in islice(_candidates(definition, known), max(4, _MAX_OPERATORS // _build_cost(definition))):
        # Operators of unknown types, and operators behind them, may fail for every shape.
        misfits = len(build(shapes).problems.keys() - unknown)
        if not misfits:
            return shapes
        if best is None or misfits < best[0]:
            best = misfits, shapes
    assert best is not None
    return best[1]


def _build_cost(definition: NetDefinition) -> int:
    """Return the cost of building a net, in operators."""
    strings = [
        value for operator in definition.operators for value in operator.arguments.values() if isinstance(value, str)
    ]
    return max(1, len(definition.operators) + sum([len(string) // _CHARACTERS for string in strings]))


def assumptions(definition: NetDefinition, shapes: Shapes) -> str:
    """Return the assumed lengths as text, with the file's dimension names: "batch = 1, seq = 16".

    Dimensions without a name, or with a generated name ("s77" from torch's exporter), are described by
    "unknown length = 1" if all of them are equal, and by the shapes of their inputs otherwise.
    """
    named: dict[str, int] = {}
    unnamed: list[int] = []
    lines = []
    for name, shape in shapes.items():
        declared = definition.input(name).shape
        pairs = [*zip((None,) * len(shape) if declared is None else declared, shape, strict=True)]
        named.update((size, length) for size, length in pairs if is_name(size))
        others = [length for size, length in pairs if not isinstance(size, int) and size not in named]
        if others:
            lines.append(f"{name}: {'×'.join(map(str, shape))}")
            unnamed += others
    known = [f"{name} = {length}" for name, length in named.items()]
    known += [f"{name}: {EXAMPLE_LENGTH} elements" for name in shapes if definition.input(name).is_sequence]
    if unnamed and len(set(unnamed)) == 1:
        lines = [f"unknown length{'s' * (len(unnamed) > 1)} = {unnamed[0]}"]
    return ", ".join([*known, *lines])


def guesses(definition: NetDefinition, shapes: Shapes) -> str:
    """Return a line about the lengths that the file leaves open and that were guessed; "" if there are none."""
    guessed = {
        name: shape
        for name, shape in shapes.items()
        if name in definition.inputs and definition.input(name).shape != shape
    }
    if not guessed:
        return ""
    name, shape = next(iter(guessed.items()))
    return (
        f"guessed: {assumptions(definition, guessed)}, because the file leaves these lengths open\n"
        f"  fix: if they do not fit, give others: --shape {name}={'x'.join(map(str, shape))}, "
        f"or net.assume({{{name!r}: {shape}}})"
    )


def _filled(
    definition: NetDefinition,
    length: Callable[[str, int], int | None],
    named: Mapping[str, int] | None = None,
    known: Shapes | None = None,
    rank: int | None = None,
) -> dict[str, Shape]:
    """Return the shapes of all inputs with values for unknown lengths; dimensions with equal names get equal lengths.

    Inputs without a declared shape have ``rank`` axes.
    """
    given = known or {}
    lengths = {**(named or {}), **Lengths.of(definition, given).named}
    shapes = {}
    for name in definition.inputs:
        if name in given:
            shapes[name] = given[name]
            continue
        declared = definition.input(name).shape
        if declared is None and rank is not None:
            declared = (None,) * rank
        shape: list[int] = []
        for axis, dimension in enumerate(declared or ()):
            size = dimension if isinstance(dimension, int) else length(name, axis)
            if isinstance(dimension, str) and size is not None:
                # The first input with a name determines its length for all others.
                size = lengths.setdefault(dimension, size)
            if size is not None:
                shape.append(size)
        if declared is None or len(shape) < len(declared):
            raise OperandError(
                f"net {definition.name!r} without inputs: the file declares {shape_text(declared)} for {name!r}",
                rule="without inputs, the file must declare all lengths",
                fix="pass shapes or inputs: net.build((1, …))",
            )
        shapes[name] = tuple(shape)
    return shapes


def _candidates(definition: NetDefinition, known: Shapes) -> Iterator[dict[str, Shape]]:
    """Yield candidate shapes: first images of common sizes, then a short sequence, then one length for all axes.

    If the file declares no shape for an input, each candidate is tried with several ranks.
    """
    declared = {name: definition.input(name).shape or () for name in definition.inputs}
    sides = {name: _sides(shape) for name, shape in declared.items()}
    has_images = any(sides.values())
    tried: list[dict[str, Shape]] = []
    ranks = _RANKS if any(definition.input(name).shape is None for name in declared) else (None,)
    for rest in (*_CHANNELS, *_REST) if has_images else (*_REST, *_LONG):
        for side in _SIDES if has_images else (0,):
            # Defaults bind the loop's values now, since a closure would see the last iteration's values.
            def length(name: str, axis: int, side: int = side, rest: int = rest) -> int:
                return side if axis in sides[name] else 1 if axis == 0 else rest

            axes = [declared[name][axis] for name, unknown_axes in sides.items() for axis in unknown_axes]
            named = {axis: side for axis in axes if isinstance(axis, str)}
            tried += [_filled(definition, length, named, known, rank) for rank in ranks]
    tried += [same_shapes(definition, length, known, rank) for length in _ALL for rank in ranks]
    # Different candidates may be equal if the inputs have few unknown lengths.
    yield from (shapes for index, shapes in enumerate(tried) if shapes not in tried[:index])


def _sides(declared: tuple[Dimension, ...]) -> tuple[int, ...]:
    """Return the unknown axes of the height and width if an input may be an image with channels first or last."""
    orders = {3: ((0, 1, 2),), 4: ((1, 2, 3), (3, 1, 2))}.get(len(declared), ())
    for channels, *sides in orders:
        # Three or four axes are an image only if one of them can be the channels.
        if declared[channels] in _CHANNELS:
            return tuple(axis for axis in sides if not isinstance(declared[axis], int))
    return (2, 3) if len(declared) == 4 and not any(isinstance(length, int) for length in declared[1:]) else ()


def unknown_input(definition: NetDefinition, name: str) -> UnknownNameError:
    """Return the error for a name that is not an input, with a hint if it is the name of a length."""
    known = definition.inputs
    owner = next((own for own in known if name in (definition.input(own).shape or ())), None)
    fix = "name an input" if owner is None else f"name the input: {name} is a length of {owner}"
    return UnknownNameError(name, kind=f"input of net {definition.name!r}", known=known, fix=fix)


def impossible_shape(definition: NetDefinition, name: str, error: ExplorerError) -> ExplorerError:
    """Return the error for an input whose declared shape no array can have."""
    return graph_error(
        definition.source,
        None,
        f"input {name!r} is {error.given}",
        rule=error.rule,
        fix="export the file again with smaller or unknown lengths",
    )
