"""TfIdfVectorizer, which counts the n-grams of a vocabulary in rows of strings or numbers.

The vocabulary, which may be long, is stored as a tree of sorted pairs. Binary searches advance all rows together, token
by token, so that a run creates no strings or tuples.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Annotated, Any, Literal

import numpy as np

from explorer.core.errors import OperandError
from explorer.core.ir.expr import Expr, Operation
from explorer.core.ir.tensor import tensor
from explorer.core.memory_budget import claim_constant
from explorer.core.types.custom_dtypes import is_text
from explorer.core.types.tensor_type import AnyType, Array, TensorType
from explorer.formats.onnx.operators.base.table import operator
from explorer.formats.onnx.operators.machine_learning.class_scores import constant, labels
from explorer.formats.onnx.operators.machine_learning.lookup import Lookup
from explorer.net.operators.signature import Ints, Known, Names
from explorer.ops.base import cast

_LENGTH_LIMIT = 256
"""exclusive upper limit of the number of tokens of an n-gram"""
_NONE = np.int64(-1)
"""index of an n-gram that is not in the vocabulary, even as a prefix"""


class NgramCounts(Operation):
    """Counts of n-grams in rows of token indices: (n, tokens) or (tokens,) → (n, columns) or (columns,).

    The vocabulary is a tree in which an n-gram is a pair of a shorter n-gram and a token. For each length, there are
    two tables: the sorted pairs, and the columns that count them (−1 for an n-gram that is only a prefix).
    """

    size: int
    """number of columns of the result"""
    tokens: int
    """number of distinct tokens; larger indices mean unknown tokens"""
    least: int
    """number of tokens of the shortest n-grams"""
    skips: int
    """maximum number of tokens skipped between two tokens of an n-gram"""
    takes_tuples = True
    portable = False
    nondifferentiable = "counts are integers: they have no derivative"
    unbatchable = "rows are already a batch: pass all rows at once"

    def infer(self, x: TensorType, *tables: TensorType) -> TensorType:
        """Return the type of the counts, float32."""
        if x.rank not in (1, 2) or x.dtype.kind != "i":
            raise self.refuse((x, *tables), "the tokens must be an integer tensor with one or two axes")
        return TensorType((*x.shape[:-1], self.size), np.dtype(np.float32))

    def kernel(self, out: Array, x: Array, *tables: Array) -> Array:
        """For each number of skipped tokens, descend the tree from all positions together, token by token."""
        rows = x.reshape(x.shape[0] if x.ndim == 2 else 1, x.shape[-1])
        steps, columns = tables[::2], tables[1::2]
        counts = np.zeros((len(rows), self.size), np.int64).reshape(-1)
        starts = np.arange(len(rows))[:, None] * self.size
        for skip in range(self.skips + 1):
            ngrams = np.zeros(rows.shape, np.int64)
            for length, (pairs, column) in enumerate(zip(steps, columns, strict=True), 1):
                offset = (length - 1) * (skip + 1)
                if offset >= rows.shape[1]:
                    break
                ngrams = self._extended(ngrams[:, : rows.shape[1] - offset], rows[:, offset:], pairs)
                if length < self.least or (length == 1 and skip):  # single tokens are counted once, without skipping
                    continue
                indices = np.where(ngrams == _NONE, _NONE, column.take(ngrams) if len(column) else _NONE)
                # One bincount for all rows, because each row has its own range of columns.
                counts += np.bincount((indices + starts)[indices >= 0], minlength=counts.size)
        out[...] = counts.reshape(out.shape)
        return out

    def _extended(self, ngrams: Array, tokens: Array, pairs: Array) -> Array:
        # An (n-gram, token) pair is encoded as one integer, so that a level is one sorted list.
        pair_indices = np.where((ngrams == _NONE) | (tokens >= self.tokens), _NONE, ngrams * self.tokens + tokens)
        if not len(pairs):
            return np.full(pair_indices.shape, _NONE)
        indices = np.minimum(np.searchsorted(pairs, pair_indices), len(pairs) - 1)
        return np.where(pairs[indices] == pair_indices, indices, _NONE)

    def workspace(self, x: TensorType, *tables: TensorType) -> int:
        """Return the bytes of two arrays of counts."""
        return 2 * 8 * self.size * (x.size // max(1, x.shape[-1]))

    def flops(self, result: AnyType, *types: TensorType) -> int:
        """Return the cost of one search per token, length and number of skipped tokens."""
        return types[0].size * (len(types) // 2) * (self.skips + 1) * 8


def _lengths(ngram_counts: Ints, pool: Array) -> list[Array]:
    """Split ``pool`` into n-grams: one array of rows per length."""
    starts = [*ngram_counts, len(pool)]
    if starts != sorted(starts) or starts[0] < 0:
        raise OperandError(
            f"ngram_counts={starts[:-1]}", rule="TfIdfVectorizer: ngram_counts must be indices into the pool"
        )
    lists = []
    for length, (start, end) in enumerate(pairwise(starts), 1):
        if (end - start) % length:
            raise OperandError(
                f"{end - start} tokens in n-grams of {length}", rule="TfIdfVectorizer: each n-gram must be complete"
            )
        lists.append(pool[start:end].reshape(-1, length))
    return lists


def _tree(ngrams: list[Array], columns: list[Array], tokens: int) -> list[Array]:
    """Return, for each length, the sorted (n-gram, token) pairs and their columns."""
    tables: list[Array] = []
    levels: list[dict[tuple[int, ...], int]] = [{(): 0}]
    for length in range(1, len(ngrams) + 1):
        column_of = {
            tuple(row): column for row, column in zip(ngrams[length - 1].tolist(), columns[length - 1], strict=True)
        }
        # Prefixes of longer n-grams are also in the tree, without a column.
        prefixes = {tuple(row[:length]) for longer in ngrams[length - 1 :] for row in longer.tolist()}
        pairs = {levels[-1][ngram[:-1]] * tokens + ngram[-1]: ngram for ngram in prefixes}
        order = sorted(pairs)
        levels.append({pairs[pair]: index for index, pair in enumerate(order)})
        tables += [np.array(order, np.int64), np.array([column_of.get(pairs[pair], -1) for pair in order], np.int64)]
    return tables


@operator("TfIdfVectorizer")
def tf_idf_vectorizer(
    X: Expr,
    *,
    mode: Literal["TF", "IDF", "TFIDF"] = "TF",
    min_gram_length: int,
    max_gram_length: int,
    max_skip_count: int,
    ngram_counts: Ints,
    ngram_indexes: Ints,
    pool: Annotated[Ints | tuple[str, ...], Names("pool_int64s", "pool_strings")],
    weights: Known[Array] | None = None,
) -> Expr:
    """Return the count of each n-gram, or 1 if it occurs and 0 otherwise, multiplied by its weight."""
    indexes, tokens = np.array(ngram_indexes, np.int64), labels(pool)
    if tokens.dtype.kind == "i" and not is_text(X.dtype):
        tokens = tokens.astype(X.dtype)
    has_lengths = 1 <= min_gram_length <= max_gram_length < _LENGTH_LIMIT and 0 <= max_skip_count < 1 << 16
    if not has_lengths or not indexes.size or indexes.min() < 0:
        raise OperandError(
            f"n-grams of {min_gram_length} to {max_gram_length} tokens, {max_skip_count} skipped, "
            f"{indexes.size} indexes",
            rule="TfIdfVectorizer: n-grams must have at least one token, and each must have a column",
        )
    vocabulary, numbers = np.unique(tokens, return_inverse=True)
    ngrams = _lengths(ngram_counts, numbers.reshape(-1))
    if sum(map(len, ngrams)) != indexes.size:
        raise OperandError(f"{indexes.size} indexes", rule="TfIdfVectorizer: each n-gram must have an index")
    columns = np.split(indexes, np.cumsum([len(rows) for rows in ngrams])[:-1])
    size = int(indexes.max()) + 1
    steps = _tree(ngrams[:max_gram_length], columns[:max_gram_length], len(vocabulary))
    counts: Any = NgramCounts(size, len(vocabulary), min_gram_length, max_skip_count)(
        Lookup()(X, constant(vocabulary)), *map(tensor, steps)
    )
    if mode != "TF":
        claim_constant("TfIdfVectorizer", size, 4)
        factors = np.ones(size, np.float32)
        if weights is not None:
            if weights.size != indexes.size:
                raise OperandError(
                    f"{weights.size} weights for {indexes.size} n-grams",
                    rule="TfIdfVectorizer: each n-gram must have a weight",
                )
            factors[indexes] = weights.reshape(-1)
        counts = (cast(counts > 0, np.dtype(np.float32)) if mode == "IDF" else counts) * tensor(factors)
    return cast(counts, np.dtype(np.float32))
