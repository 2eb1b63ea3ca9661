"""PNNX: a ``.param`` file damaged according to its grammar, and the zip of weights."""

from __future__ import annotations

import random
import re
from collections.abc import Mapping
from functools import cache

import numpy as np

from explorer.formats.pnnx.expression_tree import ARITY
from explorer.formats.pnnx.operators import TABLE
from tests.soak.fuzz.formats.corpus import ASSETS, MANY, hostile, small_models
from tests.soak.fuzz.formats.probe import probe_model as probe
from tests.soak.fuzz.values import damaged_bytes, damaged_zip, integer, lengths, number, text

__all__ = ["MAIN", "mutate", "probe", "seeds"]

MAIN, BIN = "model.pnnx.param", "model.pnnx.bin"
_DTYPES = ("f32", "f64", "f16", "i32", "i64", "i8", "u8", "bool", "c64", "bf16", "null", "f128", "", "x")
_Files = Mapping[str, bytes | None]


def seeds() -> dict[str, _Files]:
    """Return the assets and hostile files with their weights, and each operator type in a file from pnnx."""
    results: dict[str, _Files] = {}
    for path in [*small_models(".param"), *hostile(".param")]:
        beside = path.with_suffix(".bin")
        results[path.name] = {MAIN: path.read_bytes()} | ({BIN: beside.read_bytes()} if beside.exists() else {})
    with np.load(ASSETS / "operators.npz") as held:
        for name in held.files:
            case, _, part = name.rpartition("/")
            if part == "param":
                files = {MAIN: str(held[name]).encode(), BIN: held[f"{case}/bin"].tobytes()}
                if sum(map(len, files.values())) < 20_000:
                    results[MANY + case] = files
    return results


@cache
def _arguments() -> dict[str, list[str]]:
    """Return the values in the corpus for each argument name."""
    results: dict[str, set[str]] = {}
    for files in seeds().values():
        for word in (files[MAIN] or b"").decode("utf-8", "replace").split():
            key, equals, value = word.partition("=")
            if equals and key[0] not in "#$":
                results.setdefault(key, set()).add(value[:200])
    return {key: sorted(values) for key, values in sorted(results.items())}


def mutate(files: _Files, chance: random.Random) -> _Files:
    held = dict(files)
    if BIN in held and chance.random() < 0.12:
        if chance.random() < 0.1:
            del held[BIN]
        else:
            held[BIN] = damaged_zip(held[BIN] or b"", chance)
        return held
    data = held[MAIN] or b""
    if chance.random() < 0.08:
        held[MAIN] = damaged_bytes(data, chance)
        return held
    lines = data.decode("utf-8", "replace").split("\n")
    rows = [index for index in range(2, len(lines)) if lines[index].strip()]
    if rows:
        _mutate_line(lines, rows, chance)
    if chance.random() < 0.9:
        _count(lines)
    held[MAIN] = "\n".join(lines).encode("utf-8", "replace")
    return held


def _mutate_line(lines: list[str], rows: list[int], chance: random.Random) -> None:
    at = chance.choice(rows)
    words = lines[at].split()
    operands = [word for row in rows for word in lines[row].split()[4:] if "=" not in word]
    pairs = [index for index, word in enumerate(words) if "=" in word]
    match chance.randrange(14):
        case 0:
            del lines[at]
        case 1:
            lines.insert(chance.choice(rows), lines[at])
        case 2:
            other = chance.choice(rows)
            lines[at], lines[other] = lines[other], lines[at]
        case 3:
            words[0] = chance.choice(TABLE.types()) if chance.random() < 0.8 else _word(text(chance, words))
        case 4 if len(words) > 4:
            words[chance.randrange(4, len(words))] = _word(text(chance, operands))
        case 5:
            words[chance.choice((1, 2, 3)) % len(words)] = _word(str(integer(chance)))
        case 6:
            _generate(lines, at, operands, chance)
            return
        case 7 if pairs:
            del words[chance.choice(pairs)]
        case 8:
            key, values = chance.choice(list(_arguments().items()))
            words.append(f"{key}={chance.choice(values)}")
        case _ if pairs:
            index = chance.choice(pairs)
            key, _, old = words[index].partition("=")
            words[index] = f"{key}={_value(key, old, operands, chance)}"
        case _:
            words.append(f"{_word(text(chance))}={_word(text(chance))}")
    if chance.random() < 0.99 and at < len(lines) and lines[at].split() != words and len(words) > 3:
        lines[at] = " ".join(words)


def _value(key: str, old: str, operands: list[str], chance: random.Random) -> str:
    """Return another value for an argument, mostly of the same kind."""
    if key == "expr":
        return _expression(chance, 3)
    if key[:1] == "$":
        return _word(text(chance, operands))
    if key[:1] in ("@", "#"):
        shape = re.match(r"\(([^)]*)\)", old)
        axes = shape[1].split(",") if shape and chance.random() < 0.6 else [str(length) for length in lengths(chance)]
        if shape and axes:
            axes[chance.randrange(len(axes))] = chance.choice((str(integer(chance)), "?", "%n", "-1"))
        dtype = old.rpartition(")")[2] if chance.random() < 0.7 else chance.choice(_DTYPES)
        return f"({','.join(axes)}){dtype}"
    if chance.random() < 0.2 and key in _arguments():
        return chance.choice(_arguments()[key])
    if chance.random() < 0.15:
        return _word(text(chance))
    if chance.random() < 0.1:
        return chance.choice(("None", "True", "False", "()", "[]", "(1,2", "((1,2),(3,4))", "1.0+2.0j", "nan"))
    if old[:1] in ("(", "["):
        items = old[1:-1].split(",")
        match chance.randrange(4):
            case 0:
                items = [str(length) for length in lengths(chance)]
            case 1:
                items = items * 2
            case 2:
                items = items[1:]
            case _:
                items[chance.randrange(len(items))] = str(number(chance))
        return f"({','.join(items)})"
    return str(number(chance)) if chance.random() < 0.8 else f"({','.join(map(str, lengths(chance)))})"


def _expression(chance: random.Random, depth: int) -> str:
    if depth == 0 or chance.random() < 0.25:
        kind = chance.randrange(6)
        if kind < 3:
            return f"@{chance.choice((0, 0, 1, 1, 2, 9, -1))}"
        return (
            str(number(chance)) if kind < 5 else chance.choice(("None", "True", "torch.float", "cpu", "[]", "1e5+2.0j"))
        )
    if chance.random() < 0.15:
        return f"[{','.join(_expression(chance, depth - 1) for _ in range(chance.randint(0, 4)))}]"
    name = chance.choice(list(ARITY))
    count = chance.choice(ARITY[name]) if chance.random() < 0.9 else chance.randint(0, 4)
    return f"{name}({','.join(_expression(chance, depth - 1) for _ in range(count))})"


def _generate(lines: list[str], at: int, operands: list[str], chance: random.Random) -> None:
    """Insert an operator of a known type after a line, and let later lines read its result."""
    name = f"new_{chance.randrange(10**6)}"
    reads = [chance.choice(operands) for _ in range(chance.choice((0, 1, 1, 1, 2, 2, 3, 5)))] if operands else []
    writes = [f"{name}_{index}" for index in range(chance.choice((1, 1, 1, 1, 2, 3, 0)))]
    pairs = []
    for key, values in chance.sample(list(_arguments().items()), chance.randint(0, 4)):
        value = chance.choice(values)
        pairs.append(f"{key}={value if chance.random() < 0.6 else _value(key, value, operands, chance)}")
    if chance.random() < 0.3:
        kind, pairs = "pnnx.Expression", [f"expr={_expression(chance, 4)}"]
    elif chance.random() < 0.2:
        kind, reads = "prim::Constant", []
        pairs = [f"value={number(chance) if chance.random() < 0.7 else _word(text(chance))}"]
    else:
        kind = chance.choice(TABLE.types())
    lines.insert(at + 1, " ".join([kind, name, str(len(reads)), str(len(writes)), *reads, *writes, *pairs]))
    if writes and reads and chance.random() < 0.7:
        replaced = chance.choice(reads)
        for row in range(at + 2, len(lines)):
            words = lines[row].split()
            if len(words) > 4 and not words[0].startswith("pnnx.Input"):
                count = int(words[2]) if words[2].isdecimal() and len(words[2]) < 4 else 0
                words[4 : 4 + count] = [writes[0] if word == replaced else word for word in words[4 : 4 + count]]
                lines[row] = " ".join(words)


def _count(lines: list[str]) -> None:
    """Write correct counts into the second line."""
    values: set[str] = set()
    rows = 0
    for line in lines[2:]:
        words = line.split()
        if len(words) < 4:
            continue
        rows += 1
        if words[2].isdecimal() and words[3].isdecimal() and len(words[2] + words[3]) < 8:
            values.update(words[4 + int(words[2]) :][: int(words[3])])
    if len(lines) > 1:
        lines[1] = f"{rows} {len(values)}"


def _word(value: str) -> str:
    """Return a string without blanks, as the format requires for a word."""
    return re.sub(r"\s", "_", value) or "_"
