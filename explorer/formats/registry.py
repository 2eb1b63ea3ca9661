"""Registry of file formats: how each format is recognized, read and written, and what its operator types mean.

Each format is one row: file extensions, reader, writer, and the table of its operator types. Rows name modules, which
are imported when the first file of the format is opened, since importing the ``onnx`` package takes 0.3 s.
``register_format`` adds a row. An installed package adds a row with an entry point of the group ``explorer.formats``:

    [project.entry-points."explorer.formats"]
    chain = "my_package:CHAIN"  # CHAIN = Format("chain", (".chain",), late("my_package.reader:read"), None, TABLE)

``file_operator`` adds operator types to a row's table.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any, TypeVar

from explorer.core.argument_checks import check_type, named
from explorer.core.errors import DeclarationError, FileError
from explorer.core.late import late
from explorer.core.registry import Registry
from explorer.net import Net
from explorer.net.definition.definition import NetDefinition
from explorer.net.operators.reads import Ignored
from explorer.net.operators.table import Builder, OperatorTable
from explorer.record.renamed import renamed_options

_Registered = TypeVar("_Registered", bound=Builder)
GROUP = "explorer.formats"
"""entry-point group in which installed packages declare formats"""


@dataclass(frozen=True)
class Format:
    """A file format: a row of the registry that ``open``, ``save`` and ``file_operator`` use."""

    name: str
    extensions: tuple[str, ...]
    """file extensions; ``save`` proposes the first one"""
    read: Callable[..., NetDefinition]
    """reads a path; if ``weights_extension`` is given, a second argument is the path of the weights or None"""
    write: Callable[[NetDefinition, Path], None] | None
    """writes a definition and its weights to a path; None for a read-only format"""
    types: OperatorTable | str
    """the table of operator types, or the name of the package with this table as ``TABLE``, imported on first use"""
    weights_extension: str = ""
    """extension of the separate file of weights; "" if there is no such file, or if the model file names it"""
    write_net: Callable[[Net, Path], None] | None = None
    """writes a net of another dialect, from its recorded expressions, to a path"""
    write_expressions: Callable[[str, Any, Mapping[str, Any] | None, Path], None] | None = None
    """writes named expressions, or a function of tensors with the types of its inputs, to a path"""
    any_dialect: bool = False
    """whether each file names its dialect; the format can then store any net"""
    has_signatures: bool = False
    """whether ``read`` accepts ``signature=``, which selects one of the graphs of a file"""
    own_dialect: str = ""
    """dialect of the definitions that ``read`` returns; "" if it is the name of the format or of its table"""

    @property
    def operators(self) -> OperatorTable:
        """Table of the format's operator types."""
        table: OperatorTable = import_module(self.types).TABLE if isinstance(self.types, str) else self.types
        return table

    @property
    def dialect(self) -> str:
        """Dialect of the format's definitions, which selects the meaning of their operator types."""
        return self.own_dialect or (self.name if isinstance(self.types, str) else self.types.format)

    def table(self, definition: NetDefinition) -> OperatorTable:
        """Return the table of the operator types in ``definition``; raise FileError if its dialect is unknown."""
        return table_of(definition) if self.any_dialect else self.operators

    def writes(self, definition: NetDefinition) -> bool:
        """Return whether ``definition`` can be written in this format."""
        return self.write is not None and (self.any_dialect or definition.dialect == self.dialect)

    @property
    def file_names(self) -> str:
        """Names of the format's files, such as ``x.json with x.npz next to it``."""
        return f"x{self.extensions[0]}" + f" with x{self.weights_extension} next to it" * bool(self.weights_extension)


def _own(module: str, name: str) -> Any:
    return late(f"explorer.formats.{module}:{name}")


def _weights(name: str, extension: str, read: str) -> Format:
    """Return the row of a format whose files contain only weights."""
    module = "weight_tables"
    return Format(name, (extension,), _own(module, read), None, f"explorer.formats.{module}", own_dialect="weights")


FORMATS: Registry[str, Format] = Registry(
    "file format",
    {
        entry.name: entry
        for entry in (
            Format(
                "pnnx",
                (".pnnx.param", ".param"),
                _own("pnnx", "read"),
                _own("pnnx", "save"),
                "explorer.formats.pnnx.operators",
                weights_extension=".bin",
            ),
            Format(
                "onnx",
                (".onnx",),
                _own("onnx", "read"),
                _own("onnx", "save"),
                "explorer.formats.onnx.operators",
                write_net=_own("onnx", "save_net"),
                write_expressions=_own("onnx", "save_expressions"),
            ),
            Format(
                "tflite",
                (".tflite", ".lite"),
                _own("tflite", "read"),
                None,
                "explorer.formats.tflite.operators",
                has_signatures=True,
            ),
            Format("torch", (".pt2",), _own("torch_export", "read"), None, "explorer.formats.onnx.operators"),
            Format(
                "explorer",
                (".json",),
                _own("explorer_json", "read"),
                _own("explorer_json", "save"),
                "explorer.net.operators.caffe2",
                weights_extension=".npz",
                any_dialect=True,
            ),
            _weights("safetensors", ".safetensors", "read_safetensors"),
            _weights("safetensors index", ".safetensors.index.json", "read_index"),
            _weights("gguf", ".gguf", "read_gguf"),
            _weights("npz", ".npz", "read_npz"),
            _weights("npy", ".npy", "read_npy"),
        )
    },
)
"""registered formats by name"""


@cache
def _add_installed() -> None:
    """Add the formats that installed packages declare, skipping names that are already registered."""
    from importlib.metadata import entry_points  # slow to import, not needed for built-in formats

    for entry_point in entry_points(group=GROUP):
        if entry_point.name not in FORMATS:
            FORMATS.register(entry_point.name, entry_point.load())


def extensions() -> tuple[str, ...]:
    """Return the extensions of all files that can be opened."""
    _add_installed()
    return tuple([extension for entry in FORMATS.values() for extension in entry.extensions])


def format_of(name: str) -> Format | None:
    """Return the format whose extension is the longest match for the file name ``name``, or None.

    If several formats have this extension, return the last registered format.
    """
    entry = _by_ending(name)
    if entry is None:
        _add_installed()
        entry = _by_ending(name)
    return entry


def _by_ending(name: str) -> Format | None:
    # max returns the first of several matches, so a user's format is preferred to a built-in one.
    rows = [(extension, entry) for entry in reversed([*FORMATS.values()]) for extension in entry.extensions]
    matches = [(len(extension), entry) for extension, entry in rows if name.lower().endswith(extension.lower())]
    return max(matches, key=lambda pair: pair[0])[1] if matches else None


def table_of(definition: NetDefinition) -> OperatorTable:
    """Return the operator table of a definition's dialect; raise FileError if the dialect is unknown."""
    entries = {entry.dialect: entry for entry in FORMATS.values()}
    if definition.dialect not in entries:
        raise FileError(
            f"the dialect {definition.dialect!r}",
            path=definition.source,
            rule=f"the dialect must be one of {', '.join(sorted(entries))}",
            fix="correct the dialect, or read the definition with explorer.net.definition.serialization "
            "and give Net its table",
        )
    return entries[definition.dialect].operators


@named
@renamed_options(endings="extensions", weights_ending="weights_extension")
def register_format(
    name: str,
    extensions: str | tuple[str, ...],
    read: Callable[..., NetDefinition],
    write: Callable[[NetDefinition, Path], None] | None = None,
    *,
    operators: str | None = None,
    weights_extension: str = "",
    replace: bool = False,
) -> None:
    """Add a file format: ``ex.open`` reads its files, and ``net.save`` writes them if ``write`` is given.

    ``extensions`` is one or more file extensions. ``read(path)`` returns an ``explorer.net.NetDefinition``, and
    ``write(definition, path)`` writes a definition with its weights. ``operators`` names the format whose operator
    types the files use ("pnnx", "onnx", "explorer", …). If it is None, the format has its own types, which
    ``@ex.file_operator(type, format=name)`` defines. ``weights_extension`` is the extension of a separate file of
    weights. If it is given, ``ex.open`` calls ``read(path, weights)``, where ``weights`` is the argument that the user
    gave to ``ex.open``, or None. Raise DeclarationError if the name or an extension is already registered and
    ``replace`` is False.

    >>> from explorer.net import NetDefinition, OperatorDefinition
    >>> def read(path):
    ...     types = path.read_text().split()
    ...     chain = [OperatorDefinition(type, f"{i}", (f"x{i}",), (f"x{i + 1}",)) for i, type in enumerate(types)]
    ...     return NetDefinition.of(path.stem, chain, ["x0"], [f"x{len(types)}"])
    >>> ex.register_format("chain", ".chain", read)
    >>> @ex.file_operator("Double", format="chain")
    ... def double(op):
    ...     "x + x."
    ...     return op.x + op.x
    >>> with open("net.chain", "w") as file:
    ...     print("Double Double", file=file)
    >>> ex.open("net.chain").run(np.array([1.0, 2.0]))
    array([4., 8.])
    """
    check_type(name, "name", str, "a string", 'name="my"')
    check_type(replace, "replace", bool, "True or False", "replace=True")
    check_type(weights_extension, "weights_extension", str, "a file extension", 'weights_extension=".bin"')
    all_extensions = (extensions,) if isinstance(extensions, str) else extensions
    _check_extensions(name, all_extensions)
    for role, function in (("read", read), ("write", write)):
        if not (callable(function) or (function is None and role == "write")):
            raise DeclarationError(
                f"{role}={function!r} for the format {name!r}",
                rule=f"{role} must be a function of {'a path' if role == 'read' else 'a definition and a path'}",
                fix=f"{role}=function",
            )
    if not replace:
        _check_free(name, all_extensions)
    if operators is None:
        table = FORMATS[name].operators if name in FORMATS else OperatorTable(name)
    else:
        table = _table(operators)
    FORMATS.pop(name, None)  # the format that was registered last is matched first
    FORMATS[name] = Format(name, tuple(all_extensions), read, write, table, weights_extension)


@named
def file_operator(
    *types: str, format: str = "pnnx", ignored: Ignored | None = None
) -> Callable[[_Registered], _Registered]:
    """Decorate the builder of one or more operator types of a format; a known type is replaced.

    The builder is called with an OperatorContext and returns the operator's value, or a tuple with one value for each
    output. ``op.input(0)`` or ``op.input("name")`` returns an input, or None if the file omits the input.
    ``op.number``, ``op.integers`` and similar methods read attributes. By default, everything that the builder does not
    read is ignored. ``ignored`` lists the names of arguments and weights, and the positions of inputs, that do not
    affect values. If ``ignored`` is given, the builder must read everything else in the file, or opening the file
    fails. ``ignored=()`` ignores nothing. Raise DeclarationError if no type is given, UnknownNameError if the format is
    unknown.

    >>> @ex.file_operator("my.Scale")
    ... def scale(op):
    ...     "Multiply x by a number from the file."
    ...     return op.x * op.number("factor", 1.0)
    >>> "my.Scale" in ex.layer_types()
    True
    """
    return _table(format).register(*types, ignored=ignored)


@named
def layer_types(format: str = "pnnx") -> list[str]:
    """Return the sorted operator types of a format that explorer can run; ``ex.file_operator`` adds types.

    >>> "Conv" in ex.layer_types("onnx")
    True
    """
    return _table(format).types()


def _table(format: str) -> OperatorTable:
    check_type(format, "format", str, "the name of a file format", 'format="pnnx"')
    if format not in FORMATS:
        _add_installed()
    return FORMATS.find(format).operators


def _check_extensions(name: str, extensions: Any) -> None:
    valid = (
        isinstance(extensions, tuple)
        and len(extensions) > 0
        and all(isinstance(extension, str) for extension in extensions)
    )
    if (
        not name.strip()
        or not valid
        or not all(extension.startswith(".") and extension[1:].strip() for extension in extensions)
    ):
        raise DeclarationError(
            f"the format {name!r} with the extensions {extensions!r}",
            rule="a format must have a name, and file extensions that begin with a dot",
            fix='ex.register_format("my", ".my", read)',
        )


def _check_free(name: str, extensions: tuple[str, ...]) -> None:
    owners = {extension: entry.name for entry in FORMATS.values() for extension in entry.extensions}
    taken = [f"the extension {extension!r} of {owners[extension]!r}" for extension in extensions if extension in owners]
    if name in FORMATS:
        taken.insert(0, f"the name {name!r}")
    if taken:
        raise DeclarationError(
            f"a second format for {' and '.join(taken)}",
            rule="a format's name and extensions must be new",
            fix=f"choose other ones, or ex.register_format({name!r}, …, replace=True)",
        )
