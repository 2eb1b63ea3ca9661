"""``open`` and ``save``: read a model file as a net, and write a net to a file.

Both use the registry of formats (registry.py), so a user's format is opened, saved and named in errors like a built-in
one. Opening reads only the graph. Saving writes the net's current weights, some of which may have been replaced since
it was opened.
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
from explorer.formats.common.unsupported_formats import SAVED_MODEL, foreign_format
from explorer.formats.registry import FORMATS, Format, extensions, format_of
from explorer.net import Net, NetDefinition, OperatorDefinition
from explorer.net.building.weights import FileStorage
from explorer.net.definition.definition import WeightReference
from explorer.record.gc_pause import gc_paused


@named
@long_running
def open(
    path: Any,
    example_inputs: Any = None,
    *,
    weights: str | os.PathLike[str] | None = None,
    signature: str | None = None,
    dynamic_shapes: Any = None,
) -> Net:
    """Open a model file as a net: ``x.pnnx.param``, ``x.onnx``, ``x.tflite``, ``x.json``, or a format of your own.

    The file's extension selects the format. ``weights`` is the path of the weights if they are not next to the file.
    ``signature`` selects a graph of a TensorFlow Lite file with several; by default, the file's first graph is opened.
    Each weight is read when it is first needed. A file that contains only weights (``x.safetensors``, ``x.gguf``,
    ``x.npz``, ``x.npy``) can be viewed and compared, but not run. If a file cannot be read, raise FileError with the
    file, the line, the rule and the fix.

    ``ex.open(module, example_inputs)`` converts a torch module with torch's exporter. Submodules become boxes,
    parameters become weights, and each operator refers to its line of ``forward``. ``example_inputs`` is a tensor, an
    array, a tuple of arguments, or a dict of arguments by name. ``dynamic_shapes={"x": {0: "batch"}}`` makes the length
    of axis 0 of ``x`` variable. torch also reads exported programs (``x.pt2``), and may unpickle parts of them, so open
    only files that you trust. ``pip install "explorer-graphs[torch]"`` installs torch and its exporter.

    >>> net = ex.Net("positive")
    >>> net.output(net.Relu(net.input("x", (2,)), "y"))
    >>> net.save("positive.json")
    >>> ex.open("positive.json").run(np.array([-1, 2], dtype="float32"))
    array([0., 2.], dtype=float32)
    """
    if is_torch(path):
        return _open_torch(path, example_inputs, dynamic_shapes, weights)
    if isinstance(path, type):
        raise _class_error(path)
    if example_inputs is not None or dynamic_shapes is not None:
        raise _inputs_error(path, "example_inputs" if example_inputs is not None else "dynamic_shapes")
    for value in (path,) if weights is None else (path, weights):
        if not isinstance(value, (str, os.PathLike)):
            raise FileError(
                f"{class_text(value)} is not a path",
                path=reprlib.repr(value),
                rule="ex.open must be given the path of a model file",
                fix="ex.open('model.onnx')",
            )
    model_path = Path(path)
    definition, entry = _read(model_path, None if weights is None else Path(weights), signature)
    table = entry.table(definition)
    return Net(table.documented(definition), table)


def is_torch(what: object) -> bool:
    """Return whether ``what`` is a torch module or an exported program, without importing torch."""
    torch: Any = sys.modules.get("torch")
    if torch is None or not hasattr(torch, "nn"):
        return False
    # if torch.export was never imported, no exported program can exist
    program = getattr(sys.modules.get("torch.export"), "ExportedProgram", ())
    return isinstance(what, (torch.nn.Module, program)) and not isinstance(what, type)


def _open_torch(model: Any, example_inputs: Any, dynamic_shapes: Any, weights: object) -> Net:
    if weights is not None:
        raise OperandError(
            "weights= for a torch module",
            rule="a module must be opened with its own weights",
            fix="module.load_state_dict(…), then ex.open(module, example_inputs)",
        )
    from explorer.formats.torch_export import definition  # imported here because only torch models need this module

    return Net(definition(model, example_inputs, dynamic_shapes), FORMATS["onnx"].operators)


def _read(path: Path, weights: Path | None, signature: str | None) -> tuple[NetDefinition, Format]:
    """Read the file ``path``; return its definition and its format, which the extension selects.

    ``weights`` is the path of the weights, or None for the format's default path. ``signature`` selects a graph.
    """
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
    if weights is not None and not entry.weights_extension:
        raise FileError(
            f"weights={os.fspath(weights)!r} for a file in the format {entry.name!r}",
            path=str(path),
            rule="such a file must be opened without weights=: it contains its weights, or names their files",
            fix=f"ex.open({str(path)!r})",
        )
    if signature is not None and not entry.has_signatures:
        raise FileError(
            f"signature={signature!r} for a file in the format {entry.name!r}",
            path=str(path),
            rule="only files with several graphs, such as x.tflite, have signatures",
            fix=f"ex.open({str(path)!r})",
        )
    selected = {} if signature is None else {"signature": signature}
    # Reading creates many objects and frees none, so garbage collection would only cost time.
    with gc_paused():
        definition = entry.read(path, weights) if entry.weights_extension else entry.read(path, **selected)
    if not isinstance(definition, NetDefinition):
        raise FileError(
            f"the reader of the format {entry.name!r} returned a {type(definition).__name__}",
            path=str(path),
            rule="the reader of a format must return a NetDefinition",
            fix="return explorer.net.NetDefinition.of(name, operators, inputs, outputs)",
        )
    return definition, entry


def _class_error(type_: type) -> OperandError:
    """Return the error for a module class that was passed instead of a module."""
    return OperandError(
        f"ex.open of the class {type_.__name__}",
        rule="a torch module must be an instance of its class, which has the weights",
        fix=f"ex.open({type_.__name__}(…), example_inputs)",
    )


def _inputs_error(path: Any, argument: str) -> OperandError:
    """Return the error for an ``argument`` of ``open`` that only torch modules accept."""
    if callable(path):  # a function, which may be a TorchScript function
        return OperandError(
            f"{argument}= for {class_text(path)}",
            rule=f"{argument} must be given only for a torch module, and a function is not a module",
            fix="ex.open(module, example_inputs) of a torch.nn.Module whose forward calls the function",
        )
    return OperandError(
        f"{argument}= for {type(path).__name__} {path!r}",
        rule=f"{argument} must be given only for a torch module: a file contains the types of its inputs",
        fix="ex.open(module, example_inputs), or ex.open(path) without them",
    )


def _absent(path: Path) -> FileError:
    near = near_file(path, extensions())
    fix = f"correct the path of the {path.suffix} file"
    return FileError(
        "the file cannot be read: No such file or directory",
        path=printable(path),
        fix=f"{fix}; near is {near}" if near else fix,
    )


def _folder(folder: Path) -> FileError:
    """Return the error for a folder, which may contain a model in an unsupported format."""
    graph = folder / SAVED_MODEL
    foreign = foreign_format(graph if os.path.exists(graph) else folder)
    return FileError(
        f"this is a folder of {foreign.name}, which is not supported" if foreign is not None else "this is a folder",
        path=printable(folder),
        rule=f"a model must be a file: {', '.join(extensions())}",
        fix="name a file in it" if foreign is None else foreign.fix_for(graph if os.path.exists(graph) else folder),
    )


def _unknown_ending(path: Path) -> FileError:
    graphs = [
        path.with_name(path.name.removesuffix(entry.weights_extension) + extension)
        for entry in FORMATS.values()
        if entry.weights_extension and path.name.endswith(entry.weights_extension)
        for extension in entry.extensions
    ]
    graph = next((candidate for candidate in graphs if os.path.exists(candidate)), None)
    foreign = foreign_format(path)
    if graph is not None:
        fix = f"open {graph}, the graph to which the weights in {path.name} belong"
    elif foreign is not None:
        fix = foreign.fix_for(path)
    else:
        near = "" if path.exists() else near_file(path, extensions())
        such = f"give such a file; near is {near}" if near else "give such a file"
        fix = f"{such}; open a torch module with ex.open(module, example_inputs)"
    meaning = "no model format" if foreign is None else f"{foreign.name}, which is not supported"
    return FileError(
        f"the extension {path.suffix!r} denotes {meaning}" if path.suffix else "the name has no extension",
        path=printable(path),
        rule=f"the name of a model file must end with one of {', '.join(extensions())}",
        fix=fix,
    )


@named
@long_running
def save(
    what: Any, path: str | os.PathLike[str], inputs: Mapping[str, tuple[int | str, ...] | TensorType] | None = None
) -> None:
    """Write a net with its current weights, or write expressions; opening the file gives an equal net.

    ``x.json`` with ``x.npz`` can store any net. ``x.onnx`` can store any net whose operations exist in ONNX.
    ``x.param`` with ``x.bin`` can store nets with PNNX operator types, and a registered format (``ex.register_format``)
    can store nets with its operator types. Files are replaced atomically. Raise FileError if the extension is unknown,
    the format cannot store the net's dialect, or a weight cannot be read. Raise OperandError if ONNX lacks an
    operation.

    An expression or a container of expressions is written to ``x.onnx``. A layer or a function of tensors is first
    recorded for ``inputs``, a mapping of input names to types. A type can also be given as the shape of a float32
    tensor, and lengths in a shape may be symbolic names.

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
        raise OperandError("inputs= for a net", rule="a net must be saved with its own inputs", fix="net.save(path)")
    if entry is not None and entry.write_net is not None and not entry.writes(net.definition):
        entry.write_net(net, target)
        return
    if entry is None or entry.write is None or not entry.writes(net.definition):
        raise _not_written(net, target, entry)
    entry.write(_with_weights(net), target)


def _save_expressions(what: Any, path: Path, entry: Format | None, inputs: Mapping[str, Any] | None) -> None:
    if entry is None or entry.write_expressions is None:
        supported = [other.extensions[0] for other in FORMATS.values() if other.write_expressions is not None]
        raise FileError(
            f"expressions for the extension {path.suffix!r}",
            path=str(path),
            rule=f"expressions must be written to a file whose name ends with {' or '.join(supported)}",
            fix=f"write to {_stem(path, entry)}{supported[0]}",
        )
    entry.write_expressions(_stem(path, entry), what, inputs, path)


def _not_written(net: Net, path: Path, entry: Format | None) -> FileError:
    supported = [other for other in FORMATS.values() if other.writes(net.definition)]
    # The format of the net's own dialect is suggested before explorer's format, which supports every dialect.
    best = min(supported, key=lambda other: other.any_dialect, default=None)
    names = ", or as ".join([other.file_names for other in supported])
    stem = path / net.name if path.is_dir() else _stem(path, entry)
    fix = "" if best is None else f"write to {stem}{best.extensions[0]}"
    if entry is not None and entry.write is not None:
        return FileError(
            f"net {net.name!r} has operator types of {net.definition.dialect!r}",
            path=str(path),
            rule=f"a file in the format {entry.name!r} must have operator types of {entry.dialect!r}",
            fix=fix,
        )
    return FileError(
        f"the extension {path.suffix!r}" if path.suffix else "a name without an extension",
        path=str(path),
        rule=f"this net must be written as {names or 'no known format'}",
        fix=fix,
    )


def _stem(path: Path, entry: Format | None) -> str:
    """Return the name of the file ``path`` without the extension of the format ``entry``."""
    extensions = () if entry is None else entry.extensions
    # the longest extension, because x.pnnx.param also ends with .param
    extension = max((each for each in extensions if path.name.endswith(each)), key=len, default=path.suffix)
    return path.name.removesuffix(extension)


def _with_weights(net: Net) -> NetDefinition:
    """Return the definition of ``net`` with its current weights.

    If operators share a stored weight and one of them replaces it, the new weight gets its own key, and the others keep
    the stored weight.
    """
    references = [weight for operator in net.definition.operators for weight in operator.weights.values()]
    shared = {key for key, uses in Counter(reference.key for reference in references).items() if uses > 1}
    values = {}
    operators = []
    follow, count = current_callback(), len(net.definition.operators)
    for number, operator in enumerate(net.definition.operators):
        if follow is not None:
            follow(Progress("writing", operator.name, number, count))
        kept: dict[str, WeightReference] = {}
        for attribute, reference in operator.weights.items():
            tensor = net.weights.tensor(operator.name, attribute)
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
