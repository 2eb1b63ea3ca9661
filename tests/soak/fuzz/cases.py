"""Fuzzing cases: a corpus file damaged as determined by a seed and a number, and how thoroughly it is probed."""

from __future__ import annotations

import json
import os
import random
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import NamedTuple

from tests.soak.fuzz.formats import inputs, nets, notebooks, onnx, pictures, pnnx, recordings, tables
from tests.soak.fuzz.formats.corpus import MANY

Files = Mapping[str, bytes | None]
"""file name → bytes, or None for a pipe without a writer"""


class Format(NamedTuple):
    """File format: its corpus, how its files are damaged, and what reads them."""

    share: int
    """percentage of the cases"""
    main: str
    """name of the file that is opened"""
    seeds: Callable[[], dict[str, Files]]
    mutate: Callable[[Files, random.Random], Files]
    probe: Callable[[Path, random.Random, bool], str]


FORMATS: dict[str, Format] = {
    name: Format(share, module.MAIN, cache(module.seeds), module.mutate, module.probe)
    for name, share, module in (
        ("pnnx", 25, pnnx),
        ("onnx", 25, onnx),
        ("nets", 14, nets),
        ("recordings", 10, recordings),
        ("inputs", 7, inputs),
        ("pictures", 6, pictures),
        ("tables", 5, tables),
        ("notebooks", 8, notebooks),
    )
}


class Case(NamedTuple):
    """One damaged file: case ``number`` of the campaign with ``seed``."""

    format: str
    seed: int
    number: int
    origin: str
    files: Files

    @property
    def chance(self) -> random.Random:
        """Return the probe's random generator, which is the same in a campaign and in a replay."""
        return random.Random(f"probe {self.seed} {self.format} {self.number}")

    @property
    def is_whole(self) -> bool:
        """Return whether the files are undamaged corpus files, which are probed in every way."""
        return self.number < len(_whole(FORMATS[self.format]))

    def write(self, folder: Path) -> Path:
        """Write the files, and return the path of the one that is opened."""
        for name, data in self.files.items():
            if data is None:
                os.mkfifo(folder / name)
            else:
                (folder / name).write_bytes(data)
        return folder / FORMATS[self.format].main

    def keep(self, folder: Path) -> None:
        """Write the files and a note about them, which ``replay`` reads."""
        folder.mkdir(parents=True, exist_ok=True)
        for old in folder.iterdir():
            old.unlink()
        self.write(folder)
        note = {"format": self.format, "seed": self.seed, "number": self.number, "whole": self.is_whole}
        (folder / NOTE).write_text(json.dumps({**note, "origin": self.origin}, indent=1) + "\n", encoding="utf-8")


NOTE = "case.json"


def _whole(held: Format) -> list[str]:
    """Return the names of the corpus files that are cases themselves."""
    return sorted(name for name in held.seeds() if not name.startswith(MANY))


def plan(count: int, formats: list[str]) -> dict[str, int]:
    """Return the number of cases for each format."""
    total = sum(FORMATS[name].share for name in formats)
    return {name: max(1, count * FORMATS[name].share // total) for name in formats}


def case(format: str, seed: int, number: int) -> Case:
    """Return the case with a number: first the undamaged corpus, then files damaged in one to four positions."""
    held = FORMATS[format]
    whole = _whole(held)
    if number < len(whole):
        return Case(format, seed, number, whole[number], held.seeds()[whole[number]])
    chance = random.Random(f"{seed} {format} {number}")
    origin = chance.choice(whole if chance.random() < 0.4 else sorted(held.seeds()))
    files = held.seeds()[origin]
    for _ in range(chance.choice((1, 1, 1, 2, 2, 3, 4))):
        files = held.mutate(files, chance)
    return Case(format, seed, number, origin, files)
