"""Checkpoints in ``x.npz`` files: a module's weights, optimizer state, number of steps and loader position.

The entry ``training`` contains JSON that identifies the module. The other entries are NumPy arrays, so ``np.load`` can
read the weights. A file is replaced atomically: if the process is killed while it saves, the previous file remains.
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
METADATA = "training"
_SETTING_LABELS = {"options": "{}", "layers": "options of the layer {}"}
"""labels of settings in errors, by the group of the setting"""
WEIGHT, STATE = "weight/", "state/"


def save(module: Module, path: str | os.PathLike[str], loader: Resumable | None = None) -> None:
    """Write the training state of ``module`` and the position of ``loader`` to the file ``path``."""
    target = _checked(path)
    _check_loader(loader)
    optimizer = module.require_optimizer()
    metadata = {
        "schema": SCHEMA,
        **_identity(module),
        "optimizer": optimizer.settings(),
        "loss options": module.require_loss().settings(),
        "layers": _layers(module),
        "iteration": optimizer.iteration,
        "loader": None if loader is None else loader.state(),
    }
    arrays: dict[str, Any] = {f"{WEIGHT}{name}": parameter.array for name, parameter in module.parameters.items()}
    arrays |= {f"{STATE}{name}": array for name, array in optimizer.state().items()}
    # stored as bytes, because np.load would need pickles to read an array of strings
    arrays[METADATA] = np.frombuffer(json.dumps(metadata).encode(), np.uint8)
    declared = [WeightReference(key, array.shape, array.dtype.name) for key, array in arrays.items()]
    with replacing(target) as file:
        write_weights(file, arrays, declared, str(target))


def restore(
    module: Module, path: str | os.PathLike[str], loader: Resumable | None = None, own_settings: bool = False
) -> None:
    """Restore the training state of ``module`` and the position of ``loader`` from the file ``path``.

    If a check fails, raise FileError and leave the module and the loader unchanged.
    """
    target = _checked(path)
    _check_loader(loader)
    try:
        arrays = read_arrays(target)
        metadata = json.loads(arrays.pop(METADATA).tobytes().decode())
        if not isinstance(metadata, dict):
            raise ValueError("its metadata is not a JSON object")
    except ExplorerError:
        raise
    except (*UNREADABLE, KeyError, ValueError) as error:
        raise _error(target, f"it contains no training state: {error}") from None
    _check_identity(module, metadata, target)
    if not own_settings:
        _check_settings(module, metadata, target)
    weights = {key.removeprefix(WEIGHT): array for key, array in arrays.items() if key.startswith(WEIGHT)}
    state = {key.removeprefix(STATE): array for key, array in arrays.items() if key.startswith(STATE)}
    _check_weights(module, weights, target)
    iteration = metadata.get("iteration")
    position: Any = metadata.get("loader")
    if type(iteration) is not int or iteration < 0:
        raise _error(target, f"its number of steps is {iteration!r}")
    if loader is not None and not isinstance(position, dict):
        raise FileError(
            f"the loader position {position!r}",
            path=str(target),
            rule="a loader's position must have been saved with the module",
            fix="module.save(path, loader), or restore without a loader",
        )
    optimizer = module.require_optimizer()
    try:
        # All checks run before the first assignment, so a module is restored completely or not at all.
        optimizer.check_state(state)
        if loader is not None:
            loader.check_state(position)
    except OperandError as error:
        raise FileError(error.given, path=str(target), rule=error.rule, fix=error.fix) from None
    optimizer.load_state(state, iteration)
    for name, parameter in module.parameters.items():
        parameter.assign(weights[name])
    if loader is not None:
        loader.load_state(position)


def check_target(path: str | os.PathLike[str]) -> Path:
    """Return ``path`` as a Path; raise FileError if its extension is not ``.npz`` or its folder is missing."""
    target = _checked(path)
    if not target.parent.is_dir():
        raise unwritable(target, FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT)))
    return target


def _checked(path: str | os.PathLike[str]) -> Path:
    check_type(path, "path", (str, os.PathLike), "a file name", 'module.save("digits.npz")')
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
            rule="a loader must have the methods state(), check_state() and load_state()",
            fix="ex.train.DataLoader(dataset), or omit the loader",
        )


def _identity(module: Module) -> dict[str, Any]:
    """Return the properties of ``module`` that must be the same in a saved module."""
    return {
        "dtype": str(module.dtype),
        "samples": module.samples,
        "nodes": [[name, node.type] for name, node in module.nodes.items()],
        "rule": type(module.require_optimizer().rule).__name__,
        "loss": module.require_loss().type,
    }


def _check_identity(module: Module, metadata: dict[str, Any], target: Path) -> None:
    if metadata.get("schema") != SCHEMA:
        raise _error(target, f"its schema is {metadata.get('schema')!r}, this version reads {SCHEMA}")
    for key, own in _identity(module).items():
        # Files of older versions do not store the loss.
        if metadata.get(key, own if key == "loss" else None) != own:
            raise FileError(
                f"a training state whose {key} is {metadata.get(key)!r}",
                path=str(target),
                rule=f"the module's {key} must be the same, but it is {own!r}",
                fix="restore into a module that is built like the saved one",
            )


def _layers(module: Module) -> dict[str, Any]:
    """Return the options of each layer that its weights do not determine."""
    return {layer.name: layer.settings() for layer in module.training_layers}


def _check_settings(module: Module, metadata: dict[str, Any], target: Path) -> None:
    """Raise FileError if the settings of the optimizer, loss or layers differ from the saved settings."""
    # JSON stores tuples as lists, so the current settings are converted in the same way
    own = json.loads(
        json.dumps(
            {
                **module.require_optimizer().settings(),
                "loss": module.require_loss().settings(),
                "layers": _layers(module),
            }
        )
    )
    optimizer = metadata.get("optimizer")
    saved = {
        **(optimizer if isinstance(optimizer, dict) else {}),
        "loss": metadata.get("loss options"),
        "layers": metadata.get("layers"),
    }
    for part, settings in own.items():
        stored = saved.get(part)
        # Files of older versions lack some of the settings.
        if stored is None or stored == settings:
            continue
        names = [*settings, *stored] if isinstance(settings, dict) and isinstance(stored, dict) else []
        name = next((each for each in names if settings.get(each) != stored.get(each)), None)
        theirs, ours = (stored, settings) if name is None else (stored.get(name), settings.get(name))
        label = part if name is None else _SETTING_LABELS.get(part, f"{part}'s {{}}").format(name)
        raise FileError(
            f"a training state with the {label} {reprlib.repr(theirs)}",
            path=str(target),
            rule=f"the module's {label} must be the same, but it is {reprlib.repr(ours)}",
            fix="build the module like the saved one, or use restore(path, own_settings=True) to keep its settings",
        )


def _check_weights(module: Module, weights: dict[str, NDArray[Any]], target: Path) -> None:
    own = module.parameters
    for name in sorted({*own, *weights}):
        expected = f"{own[name].value.type}" if name in own else "no parameter"
        stored = f"{weights[name].dtype} {weights[name].shape}" if name in weights else "missing"
        fits = name in own and name in weights and weights[name].shape == own[name].value.shape
        if not fits or weights[name].dtype != own[name].value.dtype:
            raise FileError(
                f"the weight {name!r} is {stored}",
                path=str(target),
                rule=f"it must match the module's parameter, which is {expected}",
                fix="restore into a module that is built like the saved one",
            )


def _error(target: Path, problem: str) -> FileError:
    return FileError(
        problem, path=str(target), rule="the file must have been written by module.save", fix="save the module again"
    )
