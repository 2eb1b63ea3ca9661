"""Checkpoints: a module's weights, its optimizer's state, the steps and its loader's position, in one ``x.npz`` file.

The entry ``training`` holds a JSON text that says which module they belong to; the others are NumPy's own arrays, so
that ``np.load`` reads the weights. A file is replaced as a whole: whoever is killed while saving leaves the last one.
"""

from __future__ import annotations

import errno
import json
import os
import reprlib
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from explorer.core.argument_checks import check_type
from explorer.core.errors import ExplorerError, FileError, OperandError
from explorer.core.files.atomic_write import replacing, unwritable
from explorer.formats.common.npz import read_arrays, write_weights
from explorer.formats.common.zip_limits import UNREADABLE
from explorer.net.definition.operator_definition import WeightReference
from explorer.train import Module
from explorer.train.data_loader import Resumable

SCHEMA = 2
ENDING = ".npz"
NOTES = "training"
_SAID = {"options": "{}", "layers": "options of the layer {}"}
"""how a setting is called in an error, by its part"""
WEIGHT, STATE = "weight/", "state/"


def save(module: Module, path: str | os.PathLike[str], loader: Resumable | None = None) -> None:
    """Write a module's training state, and the position of its loader."""
    target = _checked(path)
    _check_loader(loader)
    optimizer = module.require_optimizer()
    notes = {
        "schema": SCHEMA,
        **_identity(module),
        "optimizer": optimizer.settings(),
        "loss options": module.require_loss().settings(),
        "layers": _layers(module),
        "iteration": optimizer.iteration,
        "loader": None if loader is None else loader.state(),
    }
    arrays: dict[str, Any] = {f"{WEIGHT}{name}": held.array for name, held in module.parameters.items()}
    arrays |= {f"{STATE}{name}": array for name, array in optimizer.state().items()}
    # As an array of bytes: an entry of another kind would make np.load ask for pickles.
    arrays[NOTES] = np.frombuffer(json.dumps(notes).encode(), np.uint8)
    declared = [WeightReference(key, array.shape, array.dtype.name) for key, array in arrays.items()]
    with replacing(target) as file:
        write_weights(file, arrays, declared, str(target))


def restore(
    module: Module, path: str | os.PathLike[str], loader: Resumable | None = None, own_settings: bool = False
) -> None:
    """Read a training state into a module and its loader; raises FileError before anything is assigned."""
    target = _checked(path)
    _check_loader(loader)
    try:
        arrays = read_arrays(target)
        notes = json.loads(arrays.pop(NOTES).tobytes().decode())
        if not isinstance(notes, dict):
            raise ValueError("its notes are no JSON object")
    except ExplorerError:
        raise
    except (*UNREADABLE, KeyError, ValueError) as error:
        raise _error(target, f"it holds no training state: {error}") from None
    _check_identity(module, notes, target)
    if not own_settings:
        _check_settings(module, notes, target)
    weights = {key.removeprefix(WEIGHT): array for key, array in arrays.items() if key.startswith(WEIGHT)}
    state = {key.removeprefix(STATE): array for key, array in arrays.items() if key.startswith(STATE)}
    _check_weights(module, weights, target)
    iteration = notes.get("iteration")
    position: Any = notes.get("loader")
    if type(iteration) is not int or iteration < 0:
        raise _error(target, f"its number of steps is {iteration!r}")
    if loader is not None and not isinstance(position, dict):
        raise FileError(
            f"the position {position!r} of a loader",
            path=str(target),
            rule="a loader's position must have been saved with the module",
            fix="module.save(path, loader), or restore without a loader",
        )
    optimizer = module.require_optimizer()
    try:
        # All checks come before the first assignment: a module is restored as a whole or not at all.
        optimizer.check_state(state)
        if loader is not None:
            loader.check_state(position)
    except OperandError as error:
        raise FileError(error.given, path=str(target), rule=error.rule, fix=error.fix) from None
    optimizer.load_state(state, iteration)
    for name, held in module.parameters.items():
        held.assign(weights[name])
    if loader is not None:
        loader.load_state(position)


def check_target(path: str | os.PathLike[str]) -> Path:
    """Return the file that a training state will be written to; raises FileError for its ending, or its folder."""
    target = _checked(path)
    if not target.parent.is_dir():
        raise unwritable(target, FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT)))
    return target


def _checked(path: str | os.PathLike[str]) -> Path:
    check_type(path, "path", (str, os.PathLike), "the name of a file", 'module.save("digits.npz")')
    target = Path(path)
    if target.suffix != ENDING:
        raise FileError(
            f"the name {target.name!r}",
            path=str(target),
            rule=f"a training state must be a file whose name ends with {ENDING}",
            fix=f"{(target.with_suffix(ENDING).name if target.name else f'training{ENDING}')!r}",
        )
    return target


def _check_loader(loader: Any) -> None:
    if loader is not None and not isinstance(loader, Resumable):
        raise OperandError(
            f"the loader {loader!r}",
            rule="a loader whose position is kept must have state(), check_state() and load_state()",
            fix="ex.train.DataLoader(dataset), or leave the loader out",
        )


def _identity(module: Module) -> dict[str, Any]:
    """Properties that a module must share with the one that was saved."""
    return {
        "dtype": str(module.dtype),
        "samples": module.samples,
        "nodes": [[name, node.type] for name, node in module.nodes.items()],
        "rule": type(module.require_optimizer().rule).__name__,
        "loss": module.require_loss().type,
    }


def _check_identity(module: Module, notes: dict[str, Any], target: Path) -> None:
    if notes.get("schema") != SCHEMA:
        raise _error(target, f"its schema is {notes.get('schema')!r}, this version reads {SCHEMA}")
    for key, own in _identity(module).items():
        # Files of older versions do not say their loss.
        if notes.get(key, own if key == "loss" else None) != own:
            raise FileError(
                f"a training state whose {key} is {notes.get(key)!r}",
                path=str(target),
                rule=f"the module's must be the same, and it is {own!r}",
                fix="restore into a module that is built like the saved one",
            )


def _layers(module: Module) -> dict[str, Any]:
    """Options of layers, by name, which no weight tells."""
    return {layer.name: layer.settings() for layer in module.training_layers}


def _check_settings(module: Module, notes: dict[str, Any], target: Path) -> None:
    """Raise FileError where rates or options are not those of the saved module."""
    # As a file has them: lists for tuples.
    own = json.loads(
        json.dumps(
            {
                **module.require_optimizer().settings(),
                "loss": module.require_loss().settings(),
                "layers": _layers(module),
            }
        )
    )
    optimizer = notes.get("optimizer")
    saved = {
        **(optimizer if isinstance(optimizer, dict) else {}),
        "loss": notes.get("loss options"),
        "layers": notes.get("layers"),
    }
    for part, settings in own.items():
        stored = saved.get(part)
        # Files of older versions do not have all parts.
        if stored is None or stored == settings:
            continue
        names = [*settings, *stored] if isinstance(settings, dict) and isinstance(stored, dict) else []
        name = next((each for each in names if settings.get(each) != stored.get(each)), None)
        theirs, ours = (stored, settings) if name is None else (stored.get(name), settings.get(name))
        what = part if name is None else _SAID.get(part, f"{part}'s {{}}").format(name)
        raise FileError(
            f"a training state with the {what} {reprlib.repr(theirs)}",
            path=str(target),
            rule=f"the module's must be the same, and it is {reprlib.repr(ours)}",
            fix="build the module as the saved one was, or restore(path, own_settings=True) to go on with its own",
        )


def _check_weights(module: Module, weights: dict[str, NDArray[Any]], target: Path) -> None:
    own = module.parameters
    for name in sorted({*own, *weights}):
        wanted = f"{own[name].value.type}" if name in own else "no parameter"
        stored = f"{weights[name].dtype} {weights[name].shape}" if name in weights else "missing"
        fits = name in own and name in weights and weights[name].shape == own[name].value.shape
        if not fits or weights[name].dtype != own[name].value.dtype:
            raise FileError(
                f"the weight {name!r} is {stored}",
                path=str(target),
                rule=f"it must fit the module, which has {wanted} of this name",
                fix="restore into a module that is built like the saved one",
            )


def _error(target: Path, problem: str) -> FileError:
    return FileError(
        problem, path=str(target), rule="the file must be what module.save wrote", fix="save the module again"
    )
