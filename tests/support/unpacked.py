"""Unpack packed tables (explorer/view/payload/columns.py) for tests, as static/data/unpack.js does for pages."""

from __future__ import annotations

import re
from itertools import accumulate, chain, islice, repeat, zip_longest
from typing import Any

from explorer.view.payload.columns import DIGITS

_VALUES = {digit: value for value, digit in enumerate(DIGITS)}


def unpack(value: Any) -> Any:
    """Return the value of a packed form."""
    if isinstance(value, (list, tuple)):
        return [unpack(item) for item in value]
    if not isinstance(value, dict):
        return value
    if (columns := value.get("=columns")) is not None:
        lists = [unpack(column) for column in columns.values()]
        return [dict(zip(columns, row, strict=True)) for row in zip(*lists, strict=True)]
    if (rows := value.get("=rows")) is not None:
        return [list(row) for row in zip(*map(unpack, rows), strict=True)]
    if (runs := value.get("=runs")) is not None:
        return list(
            chain.from_iterable(accumulate(repeat(step, count - 1), initial=first) for first, count, step in runs)
        )
    if (text := value.get("=deltas")) is not None:
        return list(accumulate(_deltas(text)))
    if (flat := value.get("=flat")) is not None:
        rest = iter(unpack(flat))
        return [list(islice(rest, length)) for length in unpack(value["=lengths"])]
    if (parts := value.get("=woven")) is not None:
        woven = chain.from_iterable(zip_longest(*map(unpack, parts)))
        return [number for number in woven if number is not None]
    if (numbers := value.get("=thousandths")) is not None:
        return [number / 1000 for number in unpack(numbers)]
    if (numbers := value.get("=digits")) is not None:
        return list(map(str, unpack(numbers)))
    if (keys := value.get("=keys")) is not None:
        return dict(zip(map(str, unpack(keys)), unpack(value["=values"]), strict=True))
    if (parts := value.get("=forms")) is not None:
        rests = [iter(unpack(part)) for part in parts]
        return [next(rests[at]) for at in unpack(value["=at"])]
    if (words := value.get("=words")) is not None:
        words = unpack(words)
        return [words[at] for at in unpack(value["=at"])]
    if (texts := value.get("=numbered")) is not None:
        rest = map(str, unpack(value["=numbers"]))
        return [
            "".join(next(rest) if part == "#" else part for part in re.split("(#)", text)) for text in unpack(texts)
        ]
    return {key.removeprefix("=") if key.startswith("==") else key: unpack(item) for key, item in value.items()}


def _deltas(text: str) -> list[int]:
    numbers, rest, scale = [], 0, 1
    for digit in text:
        value = _VALUES[digit]
        rest += scale * (value % 32)
        scale *= 32
        if value < 32:
            numbers.append(-(rest + 1) // 2 if rest % 2 else rest // 2)
            rest, scale = 0, 1
    return numbers
