"""Long tables of plain JSON values written once a column and once a run: a thousand equal rows cost as much as one.

Lists of 48 values and more are written as one of::

    {"=columns": {key: list, …}}    objects with the same keys in the same order
    {"=rows": [list, …]}            lists of one length, which is not 0: their first values, their second ones, …
    {"=runs": [[value, count, step], …]}   scalars: count values, of numbers each by step more than the one before
    {"=words": [text, …], "=at": list}     texts of which few differ, and which of them stands at each place

    {"=lists": [list, …], "=at": list}      lists of a few lengths: those of each length in order, and whose turn it is

where that is shorter; each of these lists may be written so again. Everything else stays as it is.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate, chain, repeat
from typing import Any

LONG = 48
"""values that a list has at least to be packed: shorter ones are easier to read as they are"""
_WORDS, _LENGTHS = 64, 8


def pack(value: Any) -> Any:
    """Return the packed form of a JSON value; ``unpack`` gives the value back."""
    if isinstance(value, dict):
        return {key: pack(item) for key, item in value.items()}
    if not isinstance(value, (list, tuple)) or not value:
        return value
    if len(value) < LONG:
        return [pack(item) for item in value] if isinstance(value[0], (dict, list, tuple)) else value
    return _pack_long(value)


def _pack_long(values: Sequence[Any]) -> Any:
    kinds = set(map(type, values))
    if kinds == {dict}:
        keys = tuple(values[0])
        if keys and all(tuple(row) == keys for row in values):
            return {"=columns": {key: pack([row[key] for row in values]) for key in keys}}
    elif kinds <= {list, tuple}:
        lengths = {length: at for at, length in enumerate(dict.fromkeys(map(len, values)))}
        if len(lengths) == 1 and 0 not in lengths:
            return {"=rows": [pack(list(column)) for column in zip(*values, strict=True)]}
        if 1 < len(lengths) <= _LENGTHS:
            lists = [pack([row for row in values if len(row) == length]) for length in lengths]
            return {"=lists": lists, "=at": _pack_numbers([lengths[len(row)] for row in values])}
    elif kinds == {int}:
        return _pack_numbers(values)
    elif kinds == {str}:
        words = {word: at for at, word in enumerate(dict.fromkeys(values))}
        if len(words) <= _WORDS:
            return {"=words": list(words), "=at": _pack_numbers([words[word] for word in values])}
        return values
    return [pack(item) for item in values]


def _pack_numbers(values: Sequence[int]) -> Any:
    runs: list[list[int]] = []
    start, last = 0, len(values)
    while start < last and 6 * len(runs) < last:
        end, step = start + 1, 0
        if end < last:
            value = values[end]
            step = value - values[start]
            end += 1
            while end < last and values[end] - value == step:
                value += step
                end += 1
        runs.append([values[start], end - start, step])
        start = end
    return {"=runs": runs} if start == last else values


def unpack(value: Any) -> Any:
    """Return the value of a packed form."""
    if isinstance(value, (list, tuple)):
        return [unpack(item) for item in value]
    if not isinstance(value, dict):
        return value
    if isinstance(columns := value.get("=columns"), dict):
        lists = [unpack(column) for column in columns.values()]
        return [dict(zip(columns, row, strict=True)) for row in zip(*lists, strict=True)]
    if isinstance(rows := value.get("=rows"), list):
        return [list(row) for row in zip(*map(unpack, rows), strict=True)]
    if isinstance(runs := value.get("=runs"), list):
        return list(
            chain.from_iterable(accumulate(repeat(step, count - 1), initial=first) for first, count, step in runs)
        )
    if isinstance(parts := value.get("=lists"), list):
        rests = [iter(unpack(part)) for part in parts]
        return [next(rests[at]) for at in unpack(value["=at"])]
    if isinstance(words := value.get("=words"), list):
        return [words[at] for at in unpack(value["=at"])]
    return {key: unpack(item) for key, item in value.items()}
