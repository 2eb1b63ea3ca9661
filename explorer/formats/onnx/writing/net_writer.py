"""Conversion of a net of any dialect to a model.

A net with unknown input lengths is built twice with different lengths. A number that differs between the two builds
depends on an unknown length, and is written as a computation from input shapes. All other numbers are constants.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from onnx import ModelProto

from explorer.core.errors import ExplorerError
from explorer.core.ir.expr import Expr
from explorer.core.types.tensor_type import Shape
from explorer.formats.onnx.writing import expression_writer
from explorer.formats.onnx.writing.node_writer import UNNAMED_PREFIX, Counterparts
from explorer.formats.onnx.writing.written_model import Model, unsupported_operator_error
from explorer.net import Net
from explorer.net.building.builder import Build
from explorer.net.definition.declared_types import is_open

_CHANGES: tuple[Callable[[int, int], int], ...] = (
    lambda size, index: size + 1 + index,
    lambda size, index: size * (2 + index),
)
"""functions of (example length, index) that return another length; sums are tried first, then multiples"""


def model_of(net: Net) -> tuple[Model, ModelProto]:
    """Return the model of a net; raise OperandError if ONNX cannot represent an operation."""
    net.init()
    shapes = net.example_shapes()
    unknown = _unknown_lengths(net)
    if not is_open(net.definition):
        build = net.build_for(shapes)
        return expression_writer.model_of(net.name, build.inputs, build.outputs, _value_names(build))
    first, second, lengths = _two_builds(net, shapes, unknown)
    counterparts = Counterparts(lengths)
    counterparts.pair(list(first.inputs.values()), list(second.inputs.values()))
    counterparts.pair(list(first.outputs.values()), list(second.outputs.values()))
    return expression_writer.model_of(net.name, first.inputs, first.outputs, _value_names(first), counterparts)


def _unknown_lengths(net: Net) -> dict[tuple[str, int], str]:
    """Return the names of unknown lengths by (input, axis); unnamed lengths get unique names."""
    return {
        (name, axis): size if isinstance(size, str) else f"{UNNAMED_PREFIX}{name} {axis}"
        for name in net.definition.inputs
        for axis, size in enumerate(net.definition.input(name).shape or ())
        if not isinstance(size, int)
    }


def _two_builds(
    net: Net, shapes: dict[str, Shape], unknown: dict[tuple[str, int], str]
) -> tuple[Build, Build, dict[tuple[int, int], str]]:
    """Return two builds with different lengths, and a dict from each length's two values to its name."""
    names = list(dict.fromkeys(unknown.values()))
    last_error: ExplorerError | None = None
    for own, other in _candidates(net, shapes, unknown, names):
        try:
            builds = [
                net.build_for(
                    {
                        name: tuple(
                            [lengths.get(unknown.get((name, axis), ""), size) for axis, size in enumerate(shape)]
                        )
                        for name, shape in shapes.items()
                    }
                )
                for lengths in (own, other)
            ]
        except ExplorerError as error:
            last_error = error
            continue
        return builds[0], builds[1], {(own[name], other[name]): name for name in names}
    raise unsupported_operator_error(
        f"net {net.name!r}",
        f"it cannot be built for two sets of lengths: {last_error}",
        "a net whose inputs have unknown lengths must be buildable for several lengths",
        "declare the lengths of the inputs in the net before saving it",
    )


def _candidates(
    net: Net, shapes: dict[str, Shape], unknown: dict[tuple[str, int], str], names: list[str]
) -> Iterator[tuple[dict[str, int], dict[str, int]]]:
    example = {each: shapes[name][axis] for (name, axis), each in reversed([*unknown.items()])}
    for change in _CHANGES:
        first = {name: change(example[name], 2 * index) for index, name in enumerate(names)}
        second = {name: change(first[name], 2 * index + 1) for index, name in enumerate(names)}
        yield first, second


def _value_names(build: Build) -> dict[int, str]:
    """Return value names by uid; a value with several names gets the first one."""
    return {
        value.uid: name
        for name, value in reversed([*build.values.items()])
        if isinstance(value, Expr) and value.operands
    }
