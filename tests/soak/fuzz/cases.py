"""Cases: a file of the corpus, damaged as a seed and a number say, and how far it is looked at."""

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
"""names to bytes; None for a pipe that nobody writes to"""


class Format(NamedTuple):
    """Files of one kind: where they come from, how they are damaged, and what reads them."""

    share: int
    """of a hundred cases"""
    main: str
    """the file that is opened"""
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
    """One damaged file: ``number`` under the campaign's ``seed``."""

    format: str
    seed: int
    number: int
    origin: str
    files: Files

    @property
    def chance(self) -> random.Random:
        """What the probe draws from: the same in a campaign and in a replay."""
        return random.Random(f"probe {self.seed} {self.format} {self.number}")

    @property
    def is_whole(self) -> bool:
        """Whether the files are those of the corpus: these are looked at in every way."""
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
        """Write the files and a note of what they are, so that ``replay`` finds them."""
        folder.mkdir(parents=True, exist_ok=True)
        for old in folder.iterdir():
            old.unlink()
        self.write(folder)
        note = {"format": self.format, "seed": self.seed, "number": self.number, "whole": self.is_whole}
        (folder / NOTE).write_text(json.dumps({**note, "origin": self.origin}, indent=1) + "\n", encoding="utf-8")


NOTE = "case.json"


def _whole(held: Format) -> list[str]:
    """The files of the corpus that are cases themselves, by name."""
    return sorted(name for name in held.seeds() if not name.startswith(MANY))


def plan(count: int, formats: list[str]) -> dict[str, int]:
    """How many of so many cases each format gets."""
    total = sum(FORMATS[name].share for name in formats)
    return {name: max(1, count * FORMATS[name].share // total) for name in formats}


def case(format: str, seed: int, number: int) -> Case:
    """The case of a number: the first ones are the corpus as it is, all others are damaged in one to four places."""
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
