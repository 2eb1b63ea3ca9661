"""The program that another compiler compiles, and the options that select compilers."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from explorer.cli.support import opened_model
from explorer.core.errors import FileError, OperandError

if TYPE_CHECKING:
    from explorer.record import Recording


def arguments(parser: argparse.ArgumentParser, *, several: bool) -> None:
    """Declare the options: one or ``several`` compilers, of which there must be at least one, or at most one."""
    parser.add_argument(
        "--with",
        metavar="COMPILER[,…]" if several else "COMPILER",
        dest="compilers",
        required=several,
        type=_compilers if several else _compiler,
        default=[],
        help="other compilers: onnxruntime, inductor, xla"
        if several
        else "explain the decisions of another compiler: onnxruntime, inductor or xla",
    )
    parser.add_argument("--args", metavar="NAME", help="of a program x.py:f, the variable with its arguments (a tuple)")


def recordings(options: argparse.Namespace, *, run: bool = True) -> dict[str, Recording]:
    """Return the recording of each compiler: what it does with the file."""
    from explorer.compilers import record

    if not options.compilers:
        raise OperandError(
            f"--args {options.args} without --with",
            rule="only programs of other compilers have arguments",
            fix="--with inductor",
        )
    program, args = _program(options)
    return {name: record(name, program, *args, run=run) for name in options.compilers}


def _program(options: argparse.Namespace) -> tuple[Any, tuple[Any, ...]]:
    """Return a program and its arguments: a net and its inputs, or variables of a Python file."""
    path, separator, name = str(options.file).rpartition(".py:")
    if separator:
        if given := [f"--{option}" for option in ("input", "shape", "signature") if getattr(options, option, None)]:
            raise OperandError(
                f"{given[0]} for {options.file}",
                rule="the arguments of a program in Python must be a variable of its file",
                fix=f"--args {options.args or 'inputs'}",
            )
        variables = _variables(Path(f"{path}.py"))
        program = _variable(options, variables, name)
        args = _variable(options, variables, options.args) if options.args else ()
        return program, tuple(args) if isinstance(args, (tuple, list)) else (args,)
    if options.args:
        raise OperandError(
            f"--args {options.args} for {options.file}",
            rule="only a program in Python has variables with arguments",
            fix="--input x.npz, or a program such as model.py:net",
        )
    net = opened_model.opened(options)
    if not getattr(options, "input", None):
        return net, ()
    from explorer.cli.support.array_files import inputs

    return net, (inputs(net, options),)


def _variables(path: Path) -> dict[str, Any]:
    """Run a Python file, and return its variables."""
    import runpy

    if not path.is_file():
        raise FileError(
            "there is no such file", path=str(path), rule="x.py:f names a Python file", fix="check the path"
        )
    return runpy.run_path(str(path), run_name=path.stem)


def _variable(options: argparse.Namespace, variables: dict[str, Any], name: str) -> Any:
    if name in variables:
        return variables[name]
    known = ", ".join(each for each in variables if not each.startswith("_"))
    raise OperandError(
        f"{options.file} has no variable {name!r}",
        rule="a program and its arguments must be variables of the file",
        fix=f"name one of {known or 'its variables, of which it has none'}",
    )


def _compilers(text: str) -> list[str]:
    from explorer.compilers import compilers

    names = list(dict.fromkeys(text.split(",")))
    if unknown := [name for name in names if name not in compilers()]:
        raise argparse.ArgumentTypeError(f"{unknown[0]!r} is not a compiler; there are {', '.join(compilers())}")
    return names


def _compiler(text: str) -> list[str]:
    names = _compilers(text)
    if len(names) > 1:
        raise argparse.ArgumentTypeError(f"{text!r} names several compilers; name one")
    return names
