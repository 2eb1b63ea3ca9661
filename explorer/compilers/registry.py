"""Compilers by name, and the function that records what one of them does with a program.

The modules of the package `explorer.compilers.adapters` are the compilers; a module's name is the compiler's name, and
its ``COMPILER`` describes it. A new adapter is therefore one file.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from pkgutil import iter_modules
from typing import Any

from explorer.compilers import adapters
from explorer.core.argument_checks import check_name
from explorer.core.errors import StateError
from explorer.record import Recording


@dataclass(frozen=True, slots=True)
class Compiler:
    """Compiler whose passes and decisions can be recorded."""

    package: str
    """package that must be installed, as it is imported"""
    install: str
    """command that installs the package"""
    record: Callable[..., Recording]
    """``record(program, *args, run=True)`` returns the recording of a program, called with arrays; it raises
    OperandError for programs that this compiler does not accept"""


def compilers() -> tuple[str, ...]:
    """Return the names of the compilers that Explorer can record, whether or not they are installed.

    >>> from explorer.compilers import compilers
    >>> isinstance(compilers(), tuple)
    True
    """
    return tuple(sorted(module.name for module in iter_modules(adapters.__path__)))


def record(compiler: str, program: Any, *args: Any, run: bool = True) -> Recording:
    """Return the recording of what a compiler does with a program.

    Args:
        compiler: name of the compiler, such as "xla", "inductor" or "onnxruntime".
        program: function, module or file that the compiler accepts.
        args: arrays with which the program is called.
        run: whether to run the compiled program and to record its times.

    Raises:
        UnknownNameError: for an unknown compiler.
        StateError: if its package is not installed.
        OperandError: if it does not accept the program.
    """
    check_name(compiler, "compiler", compilers())
    adapter: Compiler = import_module(f"{adapters.__name__}.{compiler}").COMPILER
    if find_spec(adapter.package) is None:
        raise StateError(
            f"{adapter.package} is not installed",
            rule=f"recording what {compiler} does requires the package {adapter.package}",
            fix=adapter.install,
        )
    return adapter.record(program, *args, run=run)
