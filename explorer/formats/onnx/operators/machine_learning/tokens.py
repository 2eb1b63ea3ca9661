"""Tokens of strings, and hashes: the operators of com.microsoft that vectorizers of strings are exported with."""

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
"""tokens around those of a text, where a file asks for marks"""
_WORD = 2**32 - 1


class Tokenize(Operation):
    """Tokens of each text, along a new last axis as long as the most tokens of one: (…) → (…, count).

    Tokens are the matches of ``pattern``, or what lies between the matches of each of the ``separators``; a file
    writes both for RE2, where letters, digits and boundaries are those of ASCII. An empty separator takes single
    characters. Shorter rows are padded.
    """

    pattern: str
    separators: tuple[str, ...]
    least: int
    """characters of the shortest token"""
    pad: str
    marked: bool
    """a mark before the first token and one after the last"""
    count: int = 0
    takes_text, takes_tuples = True, True
    portable = False
    nondifferentiable = unbatchable = "texts are moved and compared only"

    def infer(self, x: TensorType) -> TensorType:
        """Return texts with room for the longest token."""
        if not is_text(x.dtype):
            raise self.refuse((x,), "the elements must be texts")
        room = max(x.dtype.itemsize // 4, len(self.pad), 1)
        return TensorType((*x.shape, self.count), np.dtype(f"U{room}"))

    def kernel(self, out: Array, x: Array) -> Array:
        """Fill the rows; a row of more tokens than were counted is cut."""
        out[...] = self.pad
        for row, text in zip(out.reshape(x.size, self.count), x.reshape(-1).tolist(), strict=True):
            tokens = self.split(text)[: self.count]
            row[: len(tokens)] = tokens
        return out

    def flops(self, result: AnyType, *types: TensorType) -> int:
        """Return one operation for each character."""
        return types[0].size * types[0].dtype.itemsize // 4

    def longest(self, texts: Array) -> int:
        """Return the most tokens of one text: 0 where none has any, whether they are marked or not."""
        counts = [len(self.split(text)) for text in texts.reshape(-1).tolist()]
        most = max(counts, default=0)
        # Marks around nothing are no tokens.
        return 0 if self.marked and most == 2 else most

    def split(self, text: str) -> list[str]:
        """Return the tokens of one text."""
        if self.pattern:
            pattern = re.compile(self.pattern, re.ASCII)
            # findall gives the groups, where a pattern has some, instead of the match.
            parts = [match.group() for match in pattern.finditer(text)] if pattern.groups else pattern.findall(text)
        elif self.separators == ("",):
            parts = [*text]
        else:
            parts = [text]
            for separator in self.separators:
                parts = [piece for part in parts for piece in _between(separator, part)]
        kept = [part for part in parts if len(part) >= self.least] if self.least > 1 else [*filter(None, parts)]
        return [_START, *kept, _END] if self.marked else kept


def _between(separator: str, text: str) -> list[str]:
    """Return what lies between the matches of a separator, which may have groups."""
    pieces, start = [], 0
    for match in re.finditer(separator, text, re.ASCII):
        if match.end() > match.start():
            pieces.append(text[start : match.start()])
            start = match.end()
    return [*pieces, text[start:]]


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
    """The tokens of strings; how many there are in a row depends on the strings."""
    if bool(tokenexp) == bool(separators):
        raise OperandError(
            f"tokenexp={tokenexp!r:.80}, separators={separators!r:.80}",
            rule="Tokenizer must have one of them: a pattern of tokens, or a list of separators",
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
    """MurmurHash3 (32 bits, x86) of the bytes of each element, of texts those of UTF-8."""

    seed: int
    positive: bool
    """the hash is uint32, else int32"""
    takes_text, takes_tuples = True, True
    portable = False
    nondifferentiable = "hashes are integers: they have no derivative"
    unbatchable = "elements are a batch already"

    def infer(self, x: TensorType) -> TensorType:
        """Return the elements' shape."""
        if not is_text(x.dtype) and (x.dtype.kind not in "iuf" or x.dtype.itemsize not in (4, 8)):
            raise self.refuse((x,), "the elements must be texts, or numbers of 32 or 64 bits")
        return TensorType(x.shape, np.dtype(np.uint32 if self.positive else np.int32))

    def kernel(self, out: Array, x: Array) -> Array:
        """Hash one element after the other."""
        if is_text(x.dtype):
            keys: Sequence[bytes] = [text.encode() for text in x.reshape(-1).tolist()]
        else:
            keys = [number.tobytes() for number in x.reshape(-1)]
        hashes = np.array([_hash(key, self.seed) for key in keys], np.uint32)
        out[...] = hashes.view(out.dtype).reshape(x.shape)
        return out

    def flops(self, result: AnyType, *types: TensorType) -> int:
        """Return some operations for each four bytes."""
        return 8 * types[0].nbytes // 4


def _hash(key: bytes, seed: int) -> int:
    """Return the hash of Austin Appleby's MurmurHash3_x86_32."""
    value = seed & _WORD
    whole = len(key) // 4 * 4
    for start in range(0, whole, 4):
        value ^= _mixed(int.from_bytes(key[start : start + 4], "little"))
        value = (value << 13 | value >> 19) & _WORD
        value = (value * 5 + 0xE6546B64) & _WORD
    if whole < len(key):
        value ^= _mixed(int.from_bytes(key[whole:], "little"))
    value ^= len(key)
    for shift, factor in ((16, 0x85EBCA6B), (13, 0xC2B2AE35), (16, 1)):
        value = ((value ^ value >> shift) * factor) & _WORD
    return value


def _mixed(word: int) -> int:
    word = word * 0xCC9E2D51 & _WORD
    return (word << 15 | word >> 17) * 0x1B873593 & _WORD


@operator("com.microsoft.MurmurHash3")
def murmur_hash(X: Expr, *, seed: int = 0, positive: int = 1) -> Expr:
    """The hash of each element, as scikit-learn's FeatureHasher takes it."""
    return MurmurHash(seed, bool(positive))(X)
