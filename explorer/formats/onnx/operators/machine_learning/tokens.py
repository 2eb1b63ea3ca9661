"""Tokenizer and MurmurHash3 of com.microsoft, which exporters write for string vectorizers."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import cast

import numpy as np

from explorer.core.errors import OperandError
from explorer.core.ir.expr import Expr, Operation
from explorer.core.types.custom_dtypes import is_text
from explorer.core.types.tensor_type import AnyType, Array, TensorType
from explorer.formats.onnx.operators.base.table import operator
from explorer.net.operators.context import OperatorContext
from explorer.net.operators.known_inputs import is_known, value_of

_START, _END = "\x02", "\x03"
"""optional mark tokens before and after the tokens of a string"""
_WORD = 2**32 - 1


class Tokenize(Operation):
    """Tokens of each string along a new last axis, padded to the maximum number of tokens: (…) → (…, count).

    Tokens are the matches of ``pattern``, or the substrings between matches of ``separators``. Both are RE2 regular
    expressions, whose letters, digits and boundaries are ASCII. An empty separator splits a string into characters.
    """

    pattern: str
    separators: tuple[str, ...]
    least: int
    """minimum number of characters of a token"""
    pad: str
    marked: bool
    """whether mark tokens are added before the first and after the last token"""
    count: int = 0
    accepts_strings, takes_tuples = True, True
    portable = False
    nondifferentiable = unbatchable = "strings are only moved and compared"

    def infer(self, x: TensorType) -> TensorType:
        """Return the type of strings that are as long as the longest possible token."""
        if not is_text(x.dtype):
            raise self.refuse((x,), "the elements must be strings")
        length = max(x.dtype.itemsize // 4, len(self.pad), 1)
        return TensorType((*x.shape, self.count), np.dtype(f"U{length}"))

    def kernel(self, out: Array, x: Array) -> Array:
        """Write the tokens to rows, omitting tokens beyond ``count``."""
        out[...] = self.pad
        for row, string in zip(out.reshape(x.size, self.count), x.reshape(-1).tolist(), strict=True):
            tokens = self.split(string)[: self.count]
            row[: len(tokens)] = tokens
        return out

    def flops(self, result: AnyType, *types: TensorType) -> int:
        """Return one operation per character."""
        return types[0].size * types[0].dtype.itemsize // 4

    def longest(self, strings: Array) -> int:
        """Return the maximum number of tokens of a string; 0 if there are only mark tokens."""
        counts = [len(self.split(string)) for string in strings.reshape(-1).tolist()]
        maximum = max(counts, default=0)
        # The two mark tokens do not count if there are no tokens between them.
        return 0 if self.marked and maximum == 2 else maximum

    def split(self, string: str) -> list[str]:
        """Return the tokens of a string."""
        if self.pattern:
            pattern = re.compile(self.pattern, re.ASCII)
            # If a pattern has groups, findall returns the groups instead of the matches.
            parts = [match.group() for match in pattern.finditer(string)] if pattern.groups else pattern.findall(string)
        elif self.separators == ("",):
            parts = [*string]
        else:
            parts = [string]
            for separator in self.separators:
                parts = [piece for part in parts for piece in _split_at(separator, part)]
        long_enough = [part for part in parts if len(part) >= self.least] if self.least > 1 else [*filter(None, parts)]
        return [_START, *long_enough, _END] if self.marked else long_enough


def _split_at(separator: str, string: str) -> list[str]:
    pieces, start = [], 0
    for match in re.finditer(separator, string, re.ASCII):
        if match.end() > match.start():
            pieces.append(string[start : match.start()])
            start = match.end()
    return [*pieces, string[start:]]


@operator("com.microsoft.Tokenizer")
def tokenizer(
    op: OperatorContext,
    X: Expr,
    *,
    tokenexp: str = "",
    separators: tuple[str, ...] = (),
    mincharnum: int = 1,
    pad_value: str = "",
    mark: int = 0,
) -> Expr:
    """Return the tokens of strings, along a new axis whose length depends on the strings."""
    if bool(tokenexp) == bool(separators):
        raise OperandError(
            f"tokenexp={tokenexp!r:.80}, separators={separators!r:.80}",
            rule="Tokenizer must have either tokenexp or separators",
        )
    for pattern in (tokenexp, *separators):
        try:
            re.compile(pattern, re.ASCII)
        except (re.error, OverflowError, RecursionError) as error:
            raise OperandError(
                f"{pattern!r:.80}: {error}", rule="Tokenizer: patterns must be regular expressions"
            ) from None
    arguments = (tokenexp, separators, mincharnum, pad_value, bool(mark))
    tokenize = Tokenize(*arguments)
    if is_known(X):
        count = tokenize.longest(value_of(X))
    else:
        count = cast("int", op.ask("the most tokens of a string", [X], lambda arrays: tokenize.longest(arrays[0]), 1))
    return Tokenize(*arguments, count)(X)


class MurmurHash(Operation):
    """MurmurHash3 (32 bits, x86) of each element's bytes; strings are encoded as UTF-8."""

    seed: int
    positive: bool
    """whether the hash is uint32 instead of int32"""
    accepts_strings, takes_tuples = True, True
    portable = False
    nondifferentiable = "hashes are integers: they have no derivative"
    unbatchable = "elements are already a batch"

    def infer(self, x: TensorType) -> TensorType:
        """Return the shape of the elements."""
        if not is_text(x.dtype) and (x.dtype.kind not in "iuf" or x.dtype.itemsize not in (4, 8)):
            raise self.refuse((x,), "the elements must be strings, or numbers of 32 or 64 bits")
        return TensorType(x.shape, np.dtype(np.uint32 if self.positive else np.int32))

    def kernel(self, out: Array, x: Array) -> Array:
        """Hash the elements one by one."""
        if is_text(x.dtype):
            keys: Sequence[bytes] = [string.encode() for string in x.reshape(-1).tolist()]
        else:
            keys = [number.tobytes() for number in x.reshape(-1)]
        hashes = np.array([_hash(key, self.seed) for key in keys], np.uint32)
        out[...] = hashes.view(out.dtype).reshape(x.shape)
        return out

    def flops(self, result: AnyType, *types: TensorType) -> int:
        """Return eight operations per four bytes."""
        return 8 * types[0].nbytes // 4


def _hash(key: bytes, seed: int) -> int:
    """Return the hash of a key, as in Austin Appleby's MurmurHash3_x86_32."""
    value = seed & _WORD
    aligned = len(key) // 4 * 4
    for start in range(0, aligned, 4):
        value ^= _mixed(int.from_bytes(key[start : start + 4], "little"))
        value = (value << 13 | value >> 19) & _WORD
        value = (value * 5 + 0xE6546B64) & _WORD
    if aligned < len(key):
        value ^= _mixed(int.from_bytes(key[aligned:], "little"))
    value ^= len(key)
    for shift, factor in ((16, 0x85EBCA6B), (13, 0xC2B2AE35), (16, 1)):
        value = ((value ^ value >> shift) * factor) & _WORD
    return value


def _mixed(word: int) -> int:
    word = word * 0xCC9E2D51 & _WORD
    return (word << 15 | word >> 17) * 0x1B873593 & _WORD


@operator("com.microsoft.MurmurHash3")
def murmur_hash(X: Expr, *, seed: int = 0, positive: int = 1) -> Expr:
    """Return the hash of each element, as in scikit-learn's FeatureHasher."""
    return MurmurHash(seed, bool(positive))(X)
