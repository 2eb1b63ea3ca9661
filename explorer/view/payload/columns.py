"""Packing of long JSON tables by column, so that a thousand equal rows take as much space as one.

Lists of 16 values and more are written as one of::

    {"=columns": {key: list, …}}    objects with the same keys in the same order
    {"=forms": [list, …], "=at": list}     objects with few key sets: the objects of each set in order, and set indices
        {"=rows": [list, …]}            lists of one nonzero length: their first values, their second values, …
    {"=flat": list, "=lengths": list}      lists of several lengths: all their values, and the lengths
    {"=runs": [[value, count, step], …]}   integers: count values, each greater than the previous one by step
    {"=deltas": text}               integers: differences from the previous integer, the first from 0
    {"=words": list, "=at": list}           values with few distinct ones, and the index of each
    {"=numbered": list, "=numbers": list}   strings with a "#" for each number in them, and all these numbers
    {"=woven": [list, …]}           numbers that repeat periodically: every n-th from the first, from the second, …
    {"=thousandths": list}          numbers with at most three decimals, in thousandths
    {"=digits": list}               strings that are integers

Objects with 16 or more integer keys are written as ``{"=keys": list, "=values": list}`` if that is shorter; each of
these lists may be packed again. Keys of other objects that begin with "=" get another "="; everything else is
unchanged. In a string of deltas, ``d`` is encoded as 2 d, or as −2 d − 1 if it is negative, in digits of five bits, the
lowest first, each a base-64 letter; all digits but the last are increased by 32.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from itertools import chain, groupby, islice
from operator import attrgetter, itemgetter, ne, sub
from typing import Any

from explorer.record.json_form.codec import row_names, stands

LONG = 16
"""minimum length of a packed list, since shorter lists are easier to read unpacked"""
_WORDS, _FORMS, _PREFIX = 64, 16, 4096
_NUMBER = re.compile("(?<![0-9])(0|[1-9][0-9]{0,14})(?![0-9])")
"""number in a string that is exact, and written alike, in every JSON parser"""
_LONGEST_PERIOD, _SAMPLE, _GLANCE = 32, 1024, 24
"""maximum period of numbers, number of values in which it is searched, and of these the number compared first"""
_EXACT = 2**52
"""limit for integers whose differences are exact in every JSON parser"""
DIGITS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"


class _EncodedDeltas(dict[int, str]):
    """Table of encoded differences, each of which is encoded once."""

    def __missing__(self, difference: int) -> str:
        # Small differences of either sign become small numbers, most of which are one letter.
        rest = 2 * difference if difference >= 0 else -2 * difference - 1
        text = ""
        while rest >= 32:
            text += DIGITS[32 + rest % 32]
            rest //= 32
        text += DIGITS[rest]
        # Larger differences are rarely repeated, and the table lives as long as the process.
        if len(text) < 4:
            self[difference] = text
        return text


_encoded_deltas = _EncodedDeltas()


def pack(value: Any) -> Any:
    """Return the packed form of a JSON value or of a row of a recording; static/data/unpack.js is the inverse."""
    if isinstance(value, Mapping):
        if len(value) >= LONG and all(map(_is_integer, value)):
            return {"=keys": _pack_numbers([int(key) for key in value]), "=values": pack(list(value.values()))}
        return {_key(str(key)): pack(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        if len(value) >= LONG:
            return _pack_long(value)
        return list(value) if all(map(_is_scalar, value)) else [pack(item) for item in value]
    if names := row_names(type(value)):
        return {name: pack(rows) for name in names if stands(name, rows := getattr(value, name))}
    return value


def _key(key: str) -> str:
    """Escape an object key, so that no name from a file is mistaken for a packed table."""
    return f"={key}" if key.startswith("=") else key


def _is_scalar(value: Any) -> bool:
    return type(value) in (int, str, float, bool, type(None))


def _is_integer(value: Any) -> bool:
    """Return whether a key or a string is an integer in JSON notation, exact in every parser."""
    if type(value) is int:
        return abs(value) < _EXACT
    text = value.removeprefix("-") if isinstance(value, str) else ""
    plain = text.isascii() and text.isdigit() and len(text) < 16 and (text[0] != "0" or text == value == "0")
    return plain and int(text) < _EXACT


def _pack_long(values: Sequence[Any]) -> Any:
    """Pack a long list according to the type of its values; a mixed list stays a list."""
    kinds = set(map(type, values))
    if kinds <= {list, tuple}:
        lengths = list(map(len, values))
        if lengths[0] and lengths.count(lengths[0]) == len(lengths):
            return {"=rows": [pack(column) for column in zip(*values, strict=True)]}
        return {"=flat": pack(list(chain.from_iterable(values))), "=lengths": _pack_numbers(lengths)}
    if kinds == {int}:
        return _pack_numbers(values)
    if kinds == {dict}:
        return _pack_objects(values)
    if kinds in ({str}, {bool}, {float}, {type(None)}):
        return _pack_words(values)
    if len(kinds) == 1 and (names := row_names(kinds.pop())):
        return {"=columns": {name: pack(list(map(attrgetter(name), values))) for name in names}}
    return [pack(item) for item in values]


def _pack_objects(values: Sequence[dict[str, Any]]) -> Any:
    forms = {keys: at for at, keys in enumerate(dict.fromkeys(map(tuple, values)))}
    if len(forms) == 1 and (keys := next(iter(forms))):
        return {"=columns": {key: pack(list(map(itemgetter(key), values))) for key in keys}}
    if not 1 < len(forms) <= _FORMS:
        return [pack(item) for item in values]
    form_indices = [forms[tuple(row)] for row in values]
    rows: list[list[Any]] = [[] for _ in forms]
    for index, row in zip(form_indices, values, strict=True):
        rows[index].append(row)
    return {"=forms": [pack(part) for part in rows], "=at": _pack_numbers(form_indices)}


def _pack_words(values: Sequence[Any]) -> Any:
    if isinstance(values[0], str) and all(map(_is_integer, values)):
        return {"=digits": _pack_numbers(list(map(int, values)))}
    words = {word: at for at, word in enumerate(dict.fromkeys(values))}
    are_strings, are_few = isinstance(values[0], str), 2 * len(words) <= len(values)
    if are_strings and (len(words) > _WORDS or not are_few) and (packed := _pack_numbered(values)):
        return packed
    # −0.0 and 0.0 would be the same key.
    has_signed_zero = 0.0 in words and any(math.copysign(1, value) < 0 for value in values if value == 0)
    if not are_few or has_signed_zero or (len(words) > _WORDS and not are_strings):
        return _pack_thousandths(values) if isinstance(values[0], float) else values
    return {"=words": pack(list(words)), "=at": _pack_numbers(list(map(words.__getitem__, values)))}


def _pack_numbered(values: Sequence[str]) -> Any:
    """Pack strings that differ mostly in numbers, such as ``layers.0.weight``; None for other strings."""
    sample = [_NUMBER.sub("#", value) for value in values[:: -(-len(values) // _SAMPLE)]]
    if 4 * len(set(sample)) > len(sample) or any("#" in value for value in values):
        return None
    parts = list(map(_NUMBER.split, values))
    numbers = [int(number) for row in parts for number in row[1::2]]
    if not numbers:
        return None
    return {"=numbered": pack(["#".join(row[::2]) for row in parts]), "=numbers": _pack_numbers(numbers)}


def _pack_thousandths(values: Sequence[float]) -> Any:
    """Pack times in µs, which have nanosecond precision, and other numbers with at most three decimals."""
    if not all(map(math.isfinite, values)) or max(map(abs, values)) >= _EXACT / 1000:
        return values
    thousandths = [round(1000 * value) for value in values]
    # −0.0 would lose its sign.
    exact = all(number / 1000 == value for number, value in zip(thousandths, values, strict=True))
    signed = any(value == 0 and math.copysign(1, value) < 0 for value in values)
    return {"=thousandths": _pack_numbers(thousandths)} if exact and not signed else values


def _pack_numbers(values: Sequence[int]) -> Any:
    """Pack integers as runs, as a periodic series or as deltas, whichever is probably the shortest."""
    if len(values) < LONG or max(values) >= _EXACT or min(values) <= -_EXACT:
        return values
    if values.count(values[0]) == len(values):
        return {"=runs": [[values[0], len(values), 0]]}
    deltas = list(map(sub, values, chain((0,), values)))
    # The first values determine whether searching for runs is worthwhile.
    changes = sum(map(ne, islice(deltas, 1, _PREFIX), islice(deltas, 2, _PREFIX)))
    if 8 * changes < min(len(values), _PREFIX) and len(runs := _runs(values, deltas)) * 6 < len(values):
        return {"=runs": runs}
    if period := _period(values):
        return {"=woven": [_pack_numbers(values[start::period]) for start in range(period)]}
    return {"=deltas": "".join(map(_encoded_deltas.__getitem__, deltas))}


def _period(values: Sequence[int]) -> int:
    """Return the period with which values continue with equal steps; 0 if there is none."""
    middle = len(values) // 2
    sample = values[max(0, middle - _SAMPLE // 2) : middle + _SAMPLE // 2]
    for period in range(2, min(_LONGEST_PERIOD, len(values) // LONG) + 1):
        # Most periods fail so often in the first part that the rest cannot compensate for it.
        if 2 * _breaks(sample[: 2 * period + _GLANCE], period) > _GLANCE:
            continue
        first = sample[: 2 * period + len(sample) // 6]
        if all(8 * _breaks(part, period) < len(sample) for part in (first, sample)):
            return period
    return 0


def _breaks(values: Sequence[int], period: int) -> int:
    """Return how often a value does not continue the steps at its position in the period."""
    steps = list(map(sub, islice(values, period, None), values))
    return sum(map(ne, islice(steps, period, None), steps))


def _runs(values: Sequence[int], deltas: Sequence[int]) -> list[list[int]]:
    runs: list[list[int]] = []
    start, is_single = 0, True
    for step, equal_steps in groupby(islice(deltas, 1, None)):
        # The first difference of a group leads to its first value, unless that value has no step yet.
        count = len(list(equal_steps)) + is_single
        is_single = count == 1
        if not is_single:
            runs.append([values[start], count, step])
            start += count
    return [*runs, [values[start], 1, 0]] if is_single else runs
