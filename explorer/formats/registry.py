"""The table of file formats: how each is recognized, read and written, and what its operator types mean.

A format is one row: endings, reader, writer, and the table of its operator types. Rows name modules, which are imported
when the first file of the format is opened (importing the ``onnx`` package takes 0.3 s). ``register_format`` adds rows,
and so does an installed package that declares one in the entry points of the group ``explorer.formats``:

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

_Registered = TypeVar("_Registered", bound=Builder)
GROUP = "explorer.formats"
"""group of the entry points by which installed packages add formats"""


@dataclass(frozen=True)
class Format:
    """A file format: its row in the table that ``open``, ``save`` and ``file_operator`` go by."""

    name: str
    endings: tuple[str, ...]
    """endings of its files, the one that ``save`` proposes first"""
    read: Callable[..., NetDefinition]
    """path (and the path of the weights or None, where these have an ending of their own) → definition"""
    write: Callable[[NetDefinition, Path], None] | None
    """writes a definition with its weights; None for a format that is read only"""
    types: OperatorTable | str
    """the table of its operator types, or the package whose TABLE it is: imported when it is asked for"""
    weights_ending: str = ""
    """ending of the file beside it that holds the weights; "" where the file holds or names them itself"""
    write_net: Callable[[Net, Path], None] | None = None
    """writes a net of another dialect, by the expressions that it records"""
    write_expressions: Callable[[str, Any, Mapping[str, Any] | None, Path], None] | None = None
    """writes expressions, or a function of tensors with the types of its inputs, under a name"""
    any_dialect: bool = False
    """whether its files name the table of their operator types, so that every net can be written"""
    own_dialect: str = ""
    """the name that definitions give its operator types, "" for that of the format, or of the table"""

    @property
    def operators(self) -> OperatorTable:
        """The table of its operator types."""
        table: OperatorTable = import_module(self.types).TABLE if isinstance(self.types, str) else self.types
        return table

    @property
    def dialect(self) -> str:
        """The name that definitions give its operator types."""
        return self.own_dialect or (self.name if isinstance(self.types, str) else self.types.format)

    def table(self, definition: NetDefinition) -> OperatorTable:
        """Return the operator types of one of its nets; raises FileError for a dialect that is not in the table."""
        return table_of(definition) if self.any_dialect else self.operators

    def writes(self, definition: NetDefinition) -> bool:
        """Tell whether a definition can be written in this format."""
        return self.write is not None and (self.any_dialect or definition.dialect == self.dialect)

    @property
    def file_names(self) -> str:
        """The names of its files: ``x.json with x.npz beside it``."""
        return f"x{self.endings[0]}" + f" with x{self.weights_ending} beside it" * bool(self.weights_ending)


def _own(module: str, name: str) -> Any:
    return late(f"explorer.formats.{module}:{name}")


def _weights(name: str, ending: str, read: str) -> Format:
    """Return the row of a format of files of weights alone."""
    module = "weight_tables"
    return Format(name, (ending,), _own(module, read), None, f"explorer.formats.{module}", own_dialect="weights")


FORMATS: Registry[str, Format] = Registry(
    "format of files",
    {
        entry.name: entry
        for entry in (
            Format(
                "pnnx",
                (".pnnx.param", ".param"),
                _own("pnnx", "read"),
                _own("pnnx", "save"),
                "explorer.formats.pnnx.operators",
                weights_ending=".bin",
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
            Format("tflite", (".tflite", ".lite"), _own("tflite", "read"), None, "explorer.formats.tflite.operators"),
            Format("torch", (".pt2",), _own("torch_export", "read"), None, "explorer.formats.onnx.operators"),
            Format(
                "explorer",
                (".json",),
                _own("explorer_json", "read"),
                _own("explorer_json", "save"),
                "explorer.net.operators.caffe2",
                weights_ending=".npz",
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
"""by name"""


@cache
def _add_installed() -> None:
    """Add the formats of installed packages, once; one that is there keeps its name."""
    from importlib.metadata import entry_points  # slow to import, and the built-in formats need none

    for entry_point in entry_points(group=GROUP):
        if entry_point.name not in FORMATS:
            FORMATS.register(entry_point.name, entry_point.load())


def endings() -> tuple[str, ...]:
    """Return the endings of all files that can be opened."""
    _add_installed()
    return tuple([ending for entry in FORMATS.values() for ending in entry.endings])


def format_of(name: str) -> Format | None:
    """Return the format of a file's name: of its longest ending, the last one registered; None where there is none."""
    entry = _by_ending(name)
    if entry is None:
        _add_installed()
        entry = _by_ending(name)
    return entry


def _by_ending(name: str) -> Format | None:
    # reversed, and max keeps the first of equals: a user's format comes before a built-in one of the same ending
    rows = [(ending, entry) for entry in reversed([*FORMATS.values()]) for ending in entry.endings]
    matches = [(len(ending), entry) for ending, entry in rows if name.lower().endswith(ending.lower())]
    return max(matches, key=lambda pair: pair[0])[1] if matches else None


def table_of(definition: NetDefinition) -> OperatorTable:
    """Return the table of a definition's dialect; raises FileError that lists those that there are."""
    entries = {entry.dialect: entry for entry in FORMATS.values()}
    if definition.dialect not in entries:
        raise FileError(
            f"the dialect {definition.dialect!r}",
            path=definition.source,
            rule=f"operator types must be those of {', '.join(sorted(entries))}",
            fix="correct the dialect, or read the definition with explorer.net.definition.serialization "
            "and give Net its table",
        )
    return entries[definition.dialect].operators


@named
def register_format(
    name: str,
    endings: str | tuple[str, ...],
    read: Callable[..., NetDefinition],
    write: Callable[[NetDefinition, Path], None] | None = None,
    *,
    operators: str | None = None,
    weights_ending: str = "",
    replace: bool = False,
) -> None:
    """Add a file format: ``ex.open`` reads files of its endings, and ``net.save`` writes them where there is ``write``.

    ``read(path)`` returns an ``explorer.net.NetDefinition``, ``write(definition, path)`` writes one with its weights.
    ``operators`` names the format whose operator types the files have ("pnnx", "onnx", "explorer", …); for None they
    are its own, and ``@ex.file_operator(type, format=name)`` says what each means. With a ``weights_ending``
    weights lie in a file beside it, and ``read(path, weights)`` is given the path of ``ex.open(path, weights=…)``, or
    None. Raises DeclarationError for a name or an ending that is taken, unless ``replace`` is True.

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
    check_type(name, "name", str, "a text", 'name="my"')
    check_type(replace, "replace", bool, "True or False", "replace=True")
    check_type(weights_ending, "weights_ending", str, "an ending", 'weights_ending=".bin"')
    every = (endings,) if isinstance(endings, str) else endings
    _check_endings(name, every)
    for role, function in (("read", read), ("write", write)):
        if not (callable(function) or (function is None and role == "write")):
            raise DeclarationError(
                f"{role}={function!r} for the format {name!r}",
                rule=f"{role} must be a function of {'a path' if role == 'read' else 'a definition and a path'}",
                fix=f"{role}=function",
            )
    if not replace:
        _check_free(name, every)
    if operators is None:
        table = FORMATS[name].operators if name in FORMATS else OperatorTable(name)
    else:
        table = _table(operators)
    FORMATS.pop(name, None)  # the last one registered is asked first
    FORMATS[name] = Format(name, tuple(every), read, write, table, weights_ending)


@named
def file_operator(
    *types: str, format: str = "pnnx", ignored: Ignored | None = None
) -> Callable[[_Registered], _Registered]:
    """Decorate the builder of operator types of a format's files; a type that is known is replaced.

    The builder takes an OperatorContext and returns the operator's value, or a tuple with one value an output:
    ``op.input(0)``, or ``op.input("name")``, is an input, wherever the file has it, and None where it is left out;
    ``op.number``, ``op.integers`` and others read attributes. What else the file says of the operator is passed over;
    with ``ignored``, names of arguments and weights and places of inputs that change no value, anything beside these
    that the builder does not read is refused by its name: ``ignored=()`` allows nothing else. Raises DeclarationError
    where no type is named, UnknownNameError for a format that is none.

    >>> @ex.file_operator("my.Scale")
    ... def scale(op):
    ...     "x times a number of the file."
    ...     return op.x * op.number("factor", 1.0)
    >>> "my.Scale" in ex.layer_types()
    True
    """
    return _table(format).register(*types, ignored=ignored)


@named
def layer_types(format: str = "pnnx") -> list[str]:
    """Return the operator types of a format's files that explorer can run, sorted; file_operator adds to them.

    >>> "Conv" in ex.layer_types("onnx")
    True
    """
    return _table(format).types()


def _table(format: str) -> OperatorTable:
    check_type(format, "format", str, "the name of a format of files", 'format="pnnx"')
    if format not in FORMATS:
        _add_installed()
    return FORMATS.find(format).operators


def _check_endings(name: str, endings: Any) -> None:
    valid = isinstance(endings, tuple) and len(endings) > 0 and all(isinstance(ending, str) for ending in endings)
    if not name.strip() or not valid or not all(ending.startswith(".") and ending[1:].strip() for ending in endings):
        raise DeclarationError(
            f"a format {name!r} of the endings {endings!r}",
            rule="a format must have a name, and endings of its files that begin with a dot",
            fix='ex.register_format("my", ".my", read)',
        )


def _check_free(name: str, endings: tuple[str, ...]) -> None:
    owners = {ending: entry.name for entry in FORMATS.values() for ending in entry.endings}
    taken = [f"the ending {ending!r} of {owners[ending]!r}" for ending in endings if ending in owners]
    if name in FORMATS:
        taken.insert(0, f"the name {name!r}")
    if taken:
        raise DeclarationError(
            f"a second format for {' and '.join(taken)}",
            rule="a format's name and endings must be new",
            fix=f"choose others, or ex.register_format({name!r}, …, replace=True)",
        )
