"""From a net of any dialect to a model: built for its inputs' shapes, twice where these have unknown lengths.

What differs between two builds depends on an unknown length, and is written as an expression of the inputs' shapes;
everything else is a constant.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from onnx import ModelProto

from explorer.core.errors import ExplorerError
from explorer.core.ir.expr import Expr
from explorer.core.types.tensor_type import Shape
from explorer.formats.onnx.writing import expression_writer
from explorer.formats.onnx.writing.node_writer import NAMELESS, Counterparts
from explorer.formats.onnx.writing.written_model import Model, refused
from explorer.net import Net
from explorer.net.building.builder import Build
from explorer.net.definition.declared_types import is_open

_CHANGES: tuple[Callable[[int, int], int], ...] = (
    lambda size, place: size + 1 + place,
    lambda size, place: size * (2 + place),
)
"""other lengths than those of an example, different ones for each unknown length: longer ones, and multiples"""


def written(net: Net) -> tuple[Model, ModelProto]:
    """Return the model of a net; raises OperandError for an operation that no file can hold."""
    net.init()
    shapes = net.example_shapes()
    unknown = _unknown(net)
    if not is_open(net.definition):
        build = net.build_for(shapes)
        return expression_writer.written(net.name, build.inputs, build.outputs, _wanted(build))
    first, second, lengths = _two_builds(net, shapes, unknown)
    counterparts = Counterparts(lengths)
    counterparts.pair(list(first.inputs.values()), list(second.inputs.values()))
    counterparts.pair(list(first.outputs.values()), list(second.outputs.values()))
    return expression_writer.written(net.name, first.inputs, first.outputs, _wanted(first), counterparts)


def _unknown(net: Net) -> dict[tuple[str, int], str]:
    """Return the unknown lengths of the inputs: (input, axis) → name; one without a name gets one of its own."""
    return {
        (name, axis): size if isinstance(size, str) else f"{NAMELESS}{name} {axis}"
        for name in net.definition.inputs
        for axis, size in enumerate(net.definition.input(name).shape or ())
        if not isinstance(size, int)
    }


def _two_builds(
    net: Net, shapes: dict[str, Shape], unknown: dict[tuple[str, int], str]
) -> tuple[Build, Build, dict[tuple[int, int], str]]:
    """Return builds for two sets of lengths, and the name of each pair of lengths."""
    names = list(dict.fromkeys(unknown.values()))
    problem: ExplorerError | None = None
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
            problem = error
            continue
        return builds[0], builds[1], {(own[name], other[name]): name for name in names}
    raise refused(
        f"net {net.name!r}",
        f"it cannot be built for two sets of lengths: {problem}",
        "a net whose inputs have unknown lengths must be buildable for more than one of them",
        "note the lengths of the inputs in the net, and save it then",
    )


def _candidates(
    net: Net, shapes: dict[str, Shape], unknown: dict[tuple[str, int], str], names: list[str]
) -> Iterator[tuple[dict[str, int], dict[str, int]]]:
    example = {each: shapes[name][axis] for (name, axis), each in reversed([*unknown.items()])}
    for change in _CHANGES:
        first = {name: change(example[name], 2 * place) for place, name in enumerate(names)}
        second = {name: change(first[name], 2 * place + 1) for place, name in enumerate(names)}
        yield first, second


def _wanted(build: Build) -> dict[int, str]:
    """Return the names of a net's values by uid; the first name of a value that has several."""
    return {
        value.uid: name
        for name, value in reversed([*build.values.items()])
        if isinstance(value, Expr) and value.operands
    }
