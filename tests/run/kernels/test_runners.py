"""Kernels of a program: their values, what they keep between runs, and the operation that a failure names."""

from __future__ import annotations

import gc
import itertools
import tracemalloc
import weakref
from typing import Any

import numpy as np
import pytest

import explorer as ex
from explorer.core import registry
from explorer.core.ir.function import Parameter
from explorer.core.ir.tiles import TILE_BYTES, Tile
from explorer.plan import Options, plan
from explorer.plan.schedule.blocked_kernel import BLOCK_BYTES
from explorer.run.execution.executors import run_simple
from explorer.run.execution.program import Program
from explorer.run.kernels.elementwise_chain import blocks


def parameter(*shape: int, dtype: str = "float64") -> Any:
    return Parameter(ex.TensorType(shape, np.dtype(dtype)), "x")()


def run(program: Program, value: Any) -> list[Any]:
    program.bind(dict.fromkeys(program.parameters, value))
    run_simple(program)
    return program.take()


def test_elementwise_operations_after_a_product_of_two_vectors() -> None:
    """The product is a single number, and its kernel continues with it."""
    x = parameter(3)
    program = Program(plan([ex.tanh(x @ np.array([1.0, 2.0, 3.0])) * 2.0]))
    assert len(program.runners) == 1
    np.testing.assert_allclose(run(program, np.full(3, 0.1))[0], 2 * np.tanh(0.6))


@pytest.mark.parametrize("most", [1, 64, 1000, BLOCK_BYTES])
@pytest.mark.parametrize("shape", [(), (0, 3), (7,), (2, 3, 5, 7), (1, 2, 150), (3, 1, 5, 1, 9)])
def test_blocks_cover_a_result_within_their_size_limit(shape: tuple[int, ...], most: int) -> None:
    """Rows larger than a block are split, too, so that registers have the planned size."""
    for axes in itertools.islice(itertools.permutations(range(len(shape))), 6):
        out = np.zeros(shape, np.float32).transpose(axes)
        for index in blocks(out, most):
            part = out[(*index, ...)]
            assert part.nbytes <= max(most, out.itemsize)
            part += 1
        assert np.all(out == 1)


ACTIVATIONS = {
    "clip": lambda x: ex.clip(x, 0.0, 6.0),
    "erf": ex.erf,
    "gelu": ex.gelu,
    "hard sigmoid": ex.hardsigmoid,
    "hard swish": ex.hardswish,
    "leaky relu": ex.leaky_relu,
    "relu's gradient": lambda x: ex.where(np.arange(12.0).reshape(4, 3) > 5, x, 0.0),
    "silu": ex.silu,
}


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_activations_overwrite_the_product_in_the_result(name: str) -> None:
    """No run allocates memory for the product, because the activation runs in place, one tile at a time."""
    x = parameter(4, 2)
    planned = plan([ACTIVATIONS[name](x @ np.array([[1.0, -2.0, 3.0], [0.5, 0.0, -1.0]]))])
    (kernel,) = [kernel for kernel in planned.schedule.kernels if kernel.blocks is not None]
    assert kernel.blocks is not None
    assert kernel.blocks.anchor is not None
    assert kernel.blocks.shares


def test_epilogues_of_large_pieces_run_in_blocks() -> None:
    """A piece larger than the planned registers is completed block by block."""
    seen: list[int] = []

    class NotesItsSize(ex.Elementwise):
        """x; records its size."""

        nondifferentiable = "a test"
        examples = (ex.Example(ex.real(3)),)

        def kernel(self, out: Any, x: Any) -> Any:
            seen.append(out.nbytes)
            np.copyto(out, x)
            return out

    try:
        x = parameter(2, 300, 300)
        y = NotesItsSize()(ex.tanh(x @ np.eye(300)) * np.arange(300.0))
        (result,) = run(Program(plan([y])), np.full((2, 300, 300), 0.5))
    finally:
        del registry.operations["notes_its_size"]
    np.testing.assert_allclose(result, np.tanh(0.5) * np.arange(300.0) * np.ones((2, 300, 1)))
    assert len(seen) > 2
    assert max(seen) <= TILE_BYTES


@pytest.mark.parametrize("last", ["chain", "pieces", "view"])
def test_a_program_keeps_neither_inputs_nor_results(last: str) -> None:
    """Between runs a program keeps its planned memory and its constants."""
    x = parameter(40, 40)
    y = {"chain": ex.tanh(x * 2.0), "pieces": ex.relu(x @ np.eye(40)), "view": x.T @ np.eye(40)}[last]
    program = Program(plan([y, ex.exp(x.T).reshape((1600,)).sum()]))
    for _ in range(2):
        given = np.ones((40, 40))
        result = run(program, given)
        left = [weakref.ref(given), weakref.ref(result[0].base)]
        del given, result
        gc.collect()
        assert [each() for each in left] == [None, None]


def test_the_memory_of_a_product_of_another_dtype_is_freed() -> None:
    program = Program(plan([(parameter(256, 256) @ np.eye(256) > 0.5).sum()]))
    assert run(program, np.eye(256)) == [256]
    gc.collect()
    tracemalloc.start()
    try:
        assert run(program, np.eye(256)) == [256]
        gc.collect()
        kept, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert most > 8 * 256 * 256 > 4 * kept


@pytest.mark.spec("P-8")
def test_constants_read_only_by_constants_are_freed() -> None:
    """A program keeps only those constants that runs read."""
    x, weights = parameter(6, 6), ex.tensor(np.arange(36.0).reshape(6, 6))
    product = ex.exp(weights * 0.1) @ weights.T
    program = Program(plan([x @ ex.sqrt(product.sum(axis=0, keepdims=True) + 1.0)[:, :6].T]))
    constant = [kernel.result for kernel in program.planned.schedule.kernels if kernel.constant]
    first = run(program, np.eye(6))[0]
    kept = [node for node in constant if program.values[program.slots[node.uid]] is not None]
    assert len(constant) > 2
    assert len(kept) == 1
    np.testing.assert_array_equal(run(program, np.eye(6))[0], first)
    np.testing.assert_allclose(first, np.sqrt((np.exp(weights.array * 0.1) @ weights.array.T).sum(0) + 1)[:, None])


class FailsInPieces(ex.Operation):
    """x, in one piece, unless it contains a negative number."""

    nondifferentiable = unbatchable = "a test"
    examples = (ex.Example(ex.real(3, low=0.0)),)

    def infer(self, x: Any) -> Any:
        return x

    def kernel(self, out: Any, x: Any) -> Any:
        if (x < 0).any():
            raise ValueError("a negative number")
        np.copyto(out, x)
        return out

    def tiles(self, out: Any, prepared: None, x: Any) -> list[Tile]:
        return [Tile((slice(None),), lambda: self.kernel(out, x))]

    def flops(self, result: Any, *types: Any) -> int:
        return 0


class FailsAboveTen(ex.Elementwise):
    """x, unless a number is above 10."""

    nondifferentiable = "a test"
    examples = (ex.Example(ex.real(3)),)

    def kernel(self, out: Any, x: Any) -> Any:
        if (x > 10).any():
            raise ValueError("above ten")
        np.copyto(out, x)
        return out


def test_the_failing_operation_is_named_in_every_run() -> None:
    """A failure is attributed to the operation that raised it, whatever failed before."""
    program = Program(plan([FailsAboveTen()(FailsInPieces()(parameter(3)))]))
    assert len(program.runners) == 1
    for value, named in ((-1.0, "fails_in_pieces"), (11.0, "fails_above_ten"), (-1.0, "fails_in_pieces")):
        with pytest.raises(ex.RunError, match=rf"^{named} of"):
            run(program, np.full(3, value))
    np.testing.assert_array_equal(run(program, np.ones(3))[0], np.ones(3))


@pytest.mark.spec("P-6")
@pytest.mark.parametrize(
    "turned",
    [
        lambda a: ex.transpose(a),
        lambda a: a[::-1],
        lambda a: a[:, ::-1],
        lambda a: ex.transpose(a)[::-1],
        lambda a: ex.concatenate([a, a])[::2],
        lambda a: ex.broadcast_to(a[:1], a.shape),
    ],
)
def test_a_chain_over_many_blocks_reads_operands_of_any_layout(turned: Any) -> None:
    """Operands with the result's shape but another layout are not read as flat rows."""
    a = ex.tensor(np.random.default_rng(0).normal(size=(400, 400)))
    assert a.type.nbytes > 2 * BLOCK_BYTES
    b = turned(a)
    result = ex.evaluate(ex.tanh(a * 2.0 + b) - b, executor="simple")
    held = ex.evaluate(b, executor="simple")
    np.testing.assert_allclose(result, np.tanh(a.array * 2.0 + held) - held, rtol=1e-12, atol=1e-15)


@pytest.mark.spec("P-6")
@pytest.mark.parametrize("shape", [(1, 400), (400, 1), (1, 1), (400,), ()])
@pytest.mark.parametrize("reduced", [False, True])
def test_every_block_reads_its_part_of_a_broadcast_operand(shape: tuple[int, ...], reduced: bool) -> None:
    a = ex.tensor(np.random.default_rng(0).normal(size=(400, 400)))
    assert a.type.nbytes > 2 * BLOCK_BYTES
    b = ex.tensor(np.random.default_rng(1).normal(size=shape))
    value, expected = ex.tanh(a * 2.0 + b), np.tanh(a.array * 2.0 + b.array)
    result = ex.evaluate(value.sum(axis=1) if reduced else value, executor="simple")
    np.testing.assert_allclose(result, expected.sum(axis=1) if reduced else expected, rtol=1e-12, atol=1e-12)


@pytest.mark.spec("P-15")
def test_a_constant_that_each_run_reads_is_kept_even_if_constants_read_it() -> None:
    given, weight = parameter(3), ex.tensor(np.array([1.0, 2.0, 3.0]))
    once = ex.exp(weight)
    twice = ex.sin(once)
    options = Options(without=("fuse", "simplify"))
    for roots in ([given * once, given + twice], [given + twice, given * once]):
        program = Program(plan(roots, options))
        for value in (1.0, 2.0, 3.0):
            results = dict(zip([root.operation.name for root in roots], run(program, np.full(3, value)), strict=True))
            np.testing.assert_allclose(results["multiply"], value * np.exp(weight.array), rtol=1e-15)
            np.testing.assert_allclose(results["add"], value + np.sin(np.exp(weight.array)), rtol=1e-15)


@pytest.mark.spec("P-7")
def test_a_view_that_must_copy_copies_in_each_run() -> None:
    """Channels-last images are copied to another shape, which must not show an earlier run."""
    given = parameter(2, 3, 4, 4)
    pooled = ex.max_pool2d(ex.conv2d(given, np.eye(3)[:, :, None, None]), 2)
    program = Program(plan([ex.reshape(pooled, (2, 12)) * 2.0], Options(without=("fuse", "simplify"))))
    assert program.planned.schedule.kernels[1].channels_last
    for seed in range(3):
        value = np.random.default_rng(seed).normal(size=(2, 3, 4, 4))
        (result,) = run(program, value)
        np.testing.assert_array_equal(result, value.reshape(2, 3, 2, 2, 2, 2).max(axis=(3, 5)).reshape(2, 12) * 2)


@pytest.mark.spec("P-7")
@pytest.mark.parametrize("made", [False, True])
def test_variable_filters_are_prepared_for_each_run(made: bool) -> None:
    """Filters and images may have the same memory in each run."""
    images, given = ex.tensor(np.random.default_rng(0).normal(size=(1, 2, 6, 6))), parameter(3, 2, 3, 3)
    fixed = ex.tanh(parameter(1, 2, 6, 6)) if made else images
    result = ex.conv2d(fixed, ex.sin(given)) + 1.0
    program = Program(plan([ex.cumsum(result, 3)], Options(without=("simplify",))))
    for seed in range(3):
        values = {node: np.random.default_rng(seed + node.size).normal(size=node.shape) for node in program.parameters}
        program.bind(values)
        run_simple(program)
        (outcome,) = program.take()
        pixels = np.tanh(next(value for node, value in values.items() if node.size == 72)) if made else images.array
        filters = np.sin(values[given])
        windows = np.lib.stride_tricks.sliding_window_view(pixels, (3, 3), (2, 3))
        expected = np.cumsum(np.einsum("nchwij,ocij->nohw", windows, filters) + 1, axis=3)
        np.testing.assert_allclose(outcome, expected, rtol=1e-12, atol=1e-12)
