"""Tables: CSV with damaged cells, rows and characters."""

from __future__ import annotations

import random
from collections.abc import Mapping
from pathlib import Path

import explorer as ex
from tests.soak.fuzz.values import damaged_bytes, damaged_text, number, text

MAIN = "table.csv"
_DTYPES = ("float32", "float64", "float16", "int64", "uint8", "int8", "uint64")
_Files = Mapping[str, bytes | None]


def seeds() -> dict[str, _Files]:
    """Tables with names, empty cells, quotes and other delimiters."""
    texts = {
        "numbers": "1,2,3\n4,5,6\n",
        "names": "a,b\n1.5,\n,2e-3\n\n7,8\n",
        "quotes": '"1","2"\r\n"3","4"\r\n',
        "semicolons": "x;y\n1;2\n3;4\n",
        "one": "5",
        "mark": "\ufeff1,2\n",
    }
    return {name: {MAIN: whole.encode()} for name, whole in texts.items()}


def mutate(files: _Files, chance: random.Random) -> _Files:
    data = files[MAIN] or b""
    if chance.random() < 0.3:
        return {MAIN: damaged_bytes(data, chance)}
    whole = data.decode("utf-8", "replace")
    if chance.random() < 0.3:
        return {MAIN: damaged_text(whole, chance).encode("utf-8", "replace")}
    rows = [row.split(",") for row in whole.split("\n")]
    row = chance.choice(rows)
    cell = text(chance) if chance.random() < 0.4 else str(number(chance))
    match chance.randrange(4):
        case 0:
            row.append(cell)
        case 1:
            rows.append([cell] * chance.choice((1, len(row), 10_000)))
        case _:
            row[chance.randrange(len(row))] = cell
    return {MAIN: "\n".join(",".join(row) for row in rows).encode("utf-8", "replace")}


def probe(path: Path, chance: random.Random, whole: bool) -> str:
    """Load the table with random options."""
    del whole
    options = {"header": chance.choice((None, None, True, False)), "delimiter": chance.choice((",", ",", ";", "\t"))}
    try:
        ex.load_csv(path, dtype=chance.choice(_DTYPES), empty=chance.choice((float("nan"), 0.0, -1.0)), **options)
    except ex.ExplorerError:
        return "clean"
    return "fine"
