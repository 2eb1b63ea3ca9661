"""``open`` and ``save``: from a model's file to its net, and back.

Both go by the table of formats (registry.py), so that a format that a user adds is opened, saved, and named in error
messages like those that are there. Opening reads the graph only; saving takes the weights that the net has now, which
may have been replaced, one by one, since it was opened.
"""

from __future__ import annotations

import os
import reprlib
import sys
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from explorer.core.argument_checks import named
from explorer.core.errors import FileError, OperandError, class_text
from explorer.core.files.open_untrusted import near_file, printable
from explorer.core.progress import Progress, current_callback, long_running
from explorer.core.types.tensor_type import TensorType
from explorer.formats.common.foreign_formats import SAVED_MODEL, foreign_format
from explorer.formats.registry import FORMATS, Format, endings, format_of
from explorer.net import Net, NetDefinition, OperatorDefinition
from explorer.net.building.weights import FileStorage
from explorer.net.definition.definition import WeightReference
from explorer.record.gc_pause import gc_paused


@named
@long_running
def open(
    path: Any, example_inputs: Any = None, *, weights: str | os.PathLike[str] | None = None, dynamic_shapes: Any = None
) -> Net:
    """The net in a model's file, by its ending: ``x.pnnx.param``, ``x.onnx``, ``x.tflite``, ``x.json``, or your own.

    ``weights`` names the file of the weights where it lies elsewhere. Weights are read when they are needed. A file of
    weights alone (``x.safetensors``, ``x.gguf``, ``x.npz``, ``x.npy``) is opened to be looked at and compared. Raises
    FileError that names file, line, rule and fix.

    ``ex.open(module, example_inputs)`` opens a torch module by torch's own exporter: submodules are boxes, parameters
    weights, and operators have their lines of ``forward``. Inputs are a tensor or array, a tuple of the arguments, or a
    dict by name; ``dynamic_shapes={"x": {0: "batch"}}`` leaves lengths open. An ``x.pt2`` is read by torch, too, which
    may unpickle it: open only those that you trust. ``pip install "explorer-graphs[torch]"`` brings all of it.

    >>> net = ex.Net("positive")
    >>> net.output(net.Relu(net.input("x", (2,)), "y"))
    >>> net.save("positive.json")
    >>> ex.open("positive.json").run(np.array([-1, 2], dtype="float32"))
    array([0., 2.], dtype=float32)
    """
    if _is_torch(path):
        return _open_torch(path, example_inputs, dynamic_shapes, weights)
    if isinstance(path, type):
        raise _class_error(path)
    if example_inputs is not None or dynamic_shapes is not None:
        raise _inputs_error(path, "example_inputs" if example_inputs is not None else "dynamic_shapes")
    for value in (path,) if weights is None else (path, weights):
        if not isinstance(value, (str, os.PathLike)):
            raise FileError(
                f"{class_text(value)} is no path",
                path=reprlib.repr(value),
                rule="a model must be opened by the path of its file",
                fix="ex.open('model.onnx')",
            )
    model_path = Path(path)
    definition, entry = _read(model_path, None if weights is None else Path(weights))
    return Net(definition, entry.table(definition))


def _is_torch(what: object) -> bool:
    """Tell whether something is a torch module or exported program; torch is not imported for it."""
    torch: Any = sys.modules.get("torch")
    if torch is None or not hasattr(torch, "nn"):
        return False
    # Nobody can hold a program of a module that was never imported; () is no class at all for isinstance.
    program = getattr(sys.modules.get("torch.export"), "ExportedProgram", ())
    return isinstance(what, (torch.nn.Module, program)) and not isinstance(what, type)


def _open_torch(model: Any, example_inputs: Any, dynamic_shapes: Any, weights: object) -> Net:
    """Open a torch module or an exported program."""
    if weights is not None:
        raise OperandError(
            "weights= for a torch module",
            rule="a module must be opened with the weights that it holds",
            fix="module.load_state_dict(…), then ex.open(module, example_inputs)",
        )
    from explorer.formats.torch_export import definition  # only torch's own models need it

    return Net(definition(model, example_inputs, dynamic_shapes), FORMATS["onnx"].operators)


def _read(path: Path, weights: Path | None) -> tuple[NetDefinition, Format]:
    """Read a file by the format of its name's ending, with the weights of another file unless None."""
    if os.path.isdir(path) or not path.name:
        raise _folder(path)
    follow = current_callback()
    if follow is not None:
        follow(Progress("reading", path.name))
    entry = format_of(path.name)
    if entry is None:
        raise _unknown_ending(path)
    if not os.path.lexists(path):
        raise _absent(path)
    if weights is not None and not entry.weights_ending:
        raise FileError(
            f"weights={os.fspath(weights)!r} for a file of the format {entry.name!r}",
            path=str(path),
            rule="such a file must be opened by itself: it holds its weights, or names the files that do",
            fix=f"ex.open({str(path)!r})",
        )
    # reading makes many objects and frees none: the collector would walk all of them again and again
    with gc_paused():
        definition = entry.read(path, weights) if entry.weights_ending else entry.read(path)
    if not isinstance(definition, NetDefinition):
        raise FileError(
            f"the reader of the format {entry.name!r} returned a {type(definition).__name__}",
            path=str(path),
            rule="a format's reader must return a NetDefinition",
            fix="return explorer.net.NetDefinition.of(name, operators, inputs, outputs)",
        )
    return definition, entry


def _class_error(type_: type) -> OperandError:
    """Return the error for the class of a module in place of a module."""
    return OperandError(
        f"ex.open of the class {type_.__name__}",
        rule="a torch module must be an instance of its class, which holds the weights",
        fix=f"ex.open({type_.__name__}(…), example_inputs)",
    )


def _inputs_error(path: Any, argument: str) -> OperandError:
    """Return the error for an argument of torch modules that is given for something else."""
    if callable(path):  # a function, which may be one of TorchScript
        return OperandError(
            f"{argument}= for {class_text(path)}",
            rule=f"{argument} must be given for a torch module, of which a function is none",
            fix="ex.open(module, example_inputs) of a torch.nn.Module whose forward calls the function",
        )
    return OperandError(
        f"{argument}= for {type(path).__name__} {path!r}",
        rule=f"{argument} must be given for a torch module only: a file holds its inputs' types",
        fix="ex.open(module, example_inputs), or ex.open(path) without them",
    )


def _absent(path: Path) -> FileError:
    """Return the error for a file that is not there."""
    near = near_file(path, endings())
    fix = f"correct the path of the {path.suffix} file"
    return FileError(
        "the file cannot be read: No such file or directory",
        path=printable(path),
        fix=f"{fix}; near is {near}" if near else fix,
    )


def _folder(folder: Path) -> FileError:
    """Return the error for a folder, which some formats are kept in."""
    graph = folder / SAVED_MODEL
    foreign = foreign_format(graph if os.path.exists(graph) else folder)
    return FileError(
        f"this is a folder of {foreign.name}, which is not opened" if foreign is not None else "this is a folder",
        path=printable(folder),
        rule=f"a model must be a file: {', '.join(endings())}",
        fix="name a file in it" if foreign is None else foreign.fix_for(graph if os.path.exists(graph) else folder),
    )


def _unknown_ending(path: Path) -> FileError:
    graphs = [
        path.with_name(path.name.removesuffix(entry.weights_ending) + ending)
        for entry in FORMATS.values()
        if entry.weights_ending and path.name.endswith(entry.weights_ending)
        for ending in entry.endings
    ]
    graph = next((candidate for candidate in graphs if os.path.exists(candidate)), None)
    foreign = foreign_format(path)
    if graph is not None:
        fix = f"open {graph}, which says what the weights in {path.name} are for"
    elif foreign is not None:
        fix = foreign.fix_for(path)
    else:
        near = "" if path.exists() else near_file(path, endings())
        such = f"give such a file, near is {near}" if near else "give such a file"
        fix = f"{such}; a torch module is opened by ex.open(module, example_inputs)"
    owner = "not that of a model's file" if foreign is None else f"that of {foreign.name}, which is not opened"
    return FileError(
        f"the ending {path.suffix!r} is {owner}" if path.suffix else "the name has no ending",
        path=printable(path),
        rule=f"a model's file must end with one of {', '.join(endings())}",
        fix=fix,
    )


@named
def save(
    what: Any, path: str | os.PathLike[str], inputs: Mapping[str, tuple[int | str, ...] | TensorType] | None = None
) -> None:
    """Write a net with the weights that it has now, or expressions; opening the file gives an equal net.

    ``x.json`` with ``x.npz`` beside it holds any net; ``x.onnx`` any net whose operations ONNX has; ``x.param`` with
    ``x.bin`` those of PNNX; a format of yours (ex.register_format) those of its operator types. Files are replaced as a
    whole. Raises FileError for another ending or dialect, and where a weight cannot be read; OperandError for an
    operation that ONNX has not.

    Expressions, one or a container of them, are written to ``x.onnx``. A layer or a function of tensors is recorded for
    ``inputs``: shapes by name, whose lengths may be names too, of float32, or types.

    >>> weights = ex.tensor(np.eye(3, dtype="float32"))
    >>> ex.save(lambda x: ex.relu(x @ weights), "positive.onnx", {"x": ("batch", 3)})
    >>> ex.open("positive.onnx").inputs["x"].shape
    ('batch', 3)
    """
    target = Path(path)
    entry = format_of(target.name)
    if not isinstance(what, Net):
        _save_expressions(what, target, entry, inputs)
        return
    net = what
    if inputs is not None:
        raise OperandError(
            "inputs= for a net", rule="the inputs of a net must be those that it has", fix="net.save(path)"
        )
    if entry is not None and entry.write_net is not None and not entry.writes(net.definition):
        entry.write_net(net, target)
        return
    if entry is None or entry.write is None or not entry.writes(net.definition):
        raise _not_written(net, target, entry)
    entry.write(_with_weights(net), target)


def _save_expressions(what: Any, path: Path, entry: Format | None, inputs: Mapping[str, Any] | None) -> None:
    if entry is None or entry.write_expressions is None:
        able = [other.endings[0] for other in FORMATS.values() if other.write_expressions is not None]
        raise FileError(
            f"expressions for the ending {path.suffix!r}",
            path=str(path),
            rule=f"expressions must be written to a file that ends with {' or '.join(able)}",
            fix=f"write to {_stem(path, entry)}{able[0]}",
        )
    entry.write_expressions(_stem(path, entry), what, inputs, path)


def _not_written(net: Net, path: Path, entry: Format | None) -> FileError:
    """Return the error for a net that cannot be written to a file of this name."""
    able = [other for other in FORMATS.values() if other.writes(net.definition)]
    # the file's own format before explorer's, which holds every dialect
    best = min(able, key=lambda other: other.any_dialect, default=None)
    names = ", or as ".join([other.file_names for other in able])
    stem = path / net.name if path.is_dir() else _stem(path, entry)
    fix = "" if best is None else f"write to {stem}{best.endings[0]}"
    if entry is not None and entry.write is not None:
        return FileError(
            f"net {net.name!r} has operator types of {net.definition.dialect!r}",
            path=str(path),
            rule=f"a file of the format {entry.name!r} must hold operator types of {entry.dialect!r}",
            fix=fix,
        )
    return FileError(
        f"the ending {path.suffix!r}" if path.suffix else "a name without an ending",
        path=str(path),
        rule=f"this net must be written as {names or 'no known format'}",
        fix=fix,
    )


def _stem(path: Path, entry: Format | None) -> str:
    """Return a file's name without the ending that its format knows."""
    own_endings = () if entry is None else entry.endings
    # the longest: x.pnnx.param ends with .param, too
    ending = max((ending for ending in own_endings if path.name.endswith(ending)), key=len, default=path.suffix)
    return path.name.removesuffix(ending)


def _with_weights(net: Net) -> NetDefinition:
    """Return the definition with the weights' present values; a shared one that was replaced alone gets its own key."""
    references = [weight for operator in net.definition.operators for weight in operator.weights.values()]
    shared = {key for key, times in Counter(reference.key for reference in references).items() if times > 1}
    values = {}
    operators = []
    for operator in net.definition.operators:
        kept: dict[str, WeightReference] = {}
        for attribute, reference in operator.weights.items():
            tensor = net.weights.tensor(operator.name, attribute)
            # Two operators may share a stored weight; one that was replaced in one of them alone is no longer shared.
            if reference.key in shared and not isinstance(tensor.storage, FileStorage):
                reference = replace(reference, key=_own_key(operator, attribute, references))
            values[reference.key] = tensor.array
            kept[attribute] = reference
        operators.append(replace(operator, weights=kept) if kept != operator.weights else operator)
    return replace(net.definition, operators=tuple(operators), weights=values)


def _own_key(operator: OperatorDefinition, attribute: str, others: list[WeightReference]) -> str:
    key, keys = f"{operator.name}.{attribute}", {other.key for other in others}
    while key in keys:
        key += "'"
    return key
