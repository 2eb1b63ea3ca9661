"""Arguments that are not operands of all recording functions: numbers, tuples, booleans and strings."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from types import CodeType, FunctionType
from typing import Any

import numpy as np
import pytest

import explorer as ex
from explorer.core import registry
from explorer.core.argument_checks import PLAIN
from explorer.core.errors import ExplorerError, OperandError
from explorer.core.ir.policy_operations import Adjusted
from explorer.core.ir.traversal import reachable

RANDOM = np.random.default_rng(0)


def real(*shape: int) -> Any:
    return ex.tensor(RANDOM.uniform(0.2, 0.8, shape))


def whole(*shape: int) -> Any:
    return ex.tensor(RANDOM.integers(0, 2, shape))


GIVEN = (1, 0, -1, 2, (1,), (1, 1), (1, 1, 1), (1, 2, 3, 4, 5, 6), (), [1], ((1, 1), (0, 0)), 1.5, "a", None)
MORE = ((1.5, 1), np.int64(1), (np.int64(1), 1))
OPERANDS: dict[str, tuple[Any, ...]] = {
    "conv1d": (real(1, 2, 5), real(2, 2, 3)),
    "conv2d": (real(1, 2, 5, 5), real(2, 2, 3, 3)),
    "conv3d": (real(1, 2, 4, 4, 4), real(2, 2, 3, 3, 3)),
    "conv_transpose1d": (real(1, 2, 5), real(2, 2, 3)),
    "conv_transpose2d": (real(1, 2, 5, 5), real(2, 2, 3, 3)),
    "conv_transpose3d": (real(1, 2, 4, 4, 4), real(2, 2, 3, 3, 3)),
    **dict.fromkeys(
        ("max_pool2d", "avg_pool2d", "adaptive_avg_pool2d", "adaptive_max_pool", "resize", "pixel_shuffle"),
        (real(1, 4, 6, 6),),
    ),
    **dict.fromkeys(
        ("pixel_unshuffle", "channel_shuffle", "group_norm", "instance_norm", "local_response_norm"),
        (real(1, 4, 6, 6),),
    ),
    "attention": (real(2, 3, 4), real(2, 3, 4), real(2, 3, 4)),
    "batch_norm": (real(2, 3, 4), real(3), real(3)),
    "concatenate": ([real(2, 3), real(2, 3)],),
    "stack": ([real(2, 3), real(2, 3)],),
    "one_hot": (whole(4),),
    "take": (real(3, 4), whole(2)),
    "take_along_axis": (real(3, 4), whole(3, 4)),
    "inverse": (real(3, 3),),
    "tensordot": (real(2, 3), real(3, 2)),
    **dict.fromkeys(("put_along_axis", "add_along_axis"), (real(3, 4), whole(3, 4), real(3, 4))),
    "adaptive_avg_pool3d": (real(1, 2, 4, 4, 4),),
    "softmax_gradient": (real(2, 3), real(2, 3)),
    "where": (ex.tensor([True, False]), real(2), real(2)),
}
"""function → its operands, unless it is one matrix"""
NO_OPERANDS = {"as_expr", "dynamic", "einsum", "getitem", "grad", "tensor"}
"""functions whose first argument is not an operand, or that other tests cover"""


def recording() -> dict[str, tuple[Callable[..., Any], tuple[Any, ...], list[str]]]:
    """Yield each function with its operands and the names of its number and tuple arguments."""
    words = ("int", "tuple", "Pair", "Padding", "Shape")
    return functions(lambda annotation: any(word in annotation for word in words))


def functions(wanted: Callable[[str], bool]) -> dict[str, tuple[Callable[..., Any], tuple[Any, ...], list[str]]]:
    """Yield each function with its operands and the names of its arguments with the given annotations."""
    results = {}
    for name, call in sorted(registry.functions.items()):
        if not inspect.isfunction(call) or not call.__module__.startswith("explorer.ops") or name in NO_OPERANDS:
            continue
        operands = OPERANDS.get(name, (real(2, 3),))
        others = [
            key
            for key, value in [*inspect.signature(call).parameters.items()][len(operands) :]
            if wanted(str(value.annotation))
        ]
        if others:
            results[name] = (call, operands, others)
    return results


RECORDING = recording()


@pytest.mark.spec("M-O2")
@pytest.mark.parametrize("name", RECORDING)
def test_a_call_with_a_wrong_argument_records_or_raises_an_explorer_error(name: str) -> None:
    """Pass wrong values for numbers and tuples: no foreign exception escapes."""
    call, operands, others = RECORDING[name]
    required = [key for key, value in inspect.signature(call).parameters.items() if value.default is value.empty]
    lacking = required[len(operands) :]
    for key in others:
        for given in (*GIVEN, *MORE):
            for rest in (1, (1, 1)) if [each for each in lacking if each != key] else (1,):
                arguments = {**dict.fromkeys(lacking, rest), key: given}
                try:
                    call(*operands, **arguments)
                except ExplorerError:
                    continue
                except Exception as error:
                    raise AssertionError(f"{name}({arguments}): {error!r}") from error


NONSENSE: dict[str, tuple[Any, ...]] = {
    "bool": (np.ones(2), (1, 2), "yes", None, 2, 0.5, 1.5j, b"x", object(), float),
    "float": (np.ones(2), (1, 2), "nonsense", None, True, 1.5j, b"x", [[1]], {"a": 1}, object(), float),
    "float | None": (np.ones(2), (1, 2), "nonsense", True, 1.5j, b"x", object()),
    "str": (np.ones(2), (1, 2), None, 1, b"x", object(), str),
    "Items": (np.ones(2), "nonsense", None, 1, ex.layers.PUpdate, {"a": 1}, object()),
}
"""annotation → values that arguments with this annotation reject"""
VARIABLE = inspect.Parameter.VAR_POSITIONAL
PLAINLY = functions(PLAIN.__contains__)


@pytest.mark.spec("M-O2")
@pytest.mark.parametrize("name", PLAINLY)
def test_an_argument_of_another_type_raises_an_error_with_function_argument_rule_and_fix(name: str) -> None:
    """Check numbers, booleans, strings and policies."""
    call, operands, keys = PLAINLY[name]
    parameters = inspect.signature(call).parameters
    behind = [parameter for parameter in [*parameters.values()][len(operands) :] if parameter.kind is not VARIABLE]
    lacking = [parameter.name for parameter in behind if parameter.default is inspect.Parameter.empty]
    for key in keys:
        for value in NONSENSE[parameters[key].annotation]:
            with pytest.raises(OperandError) as refusal:
                call(*operands, **{**dict.fromkeys(lacking, 1), key: value})
            assert refusal.value.given.startswith(f"{name}: {key}=")
            assert refusal.value.rule.startswith(f"{key} must be ")
            assert refusal.value.fix.startswith(f"{key}=")


@pytest.mark.spec("M-O2")
def test_positional_arguments_of_another_type_raise_an_error_too() -> None:
    """NumPy's own scalar types, 0 and 1 are accepted where NumPy accepts them as numbers or booleans."""
    with pytest.raises(OperandError, match="keepdims"):
        ex.sum(real(2, 3), 0, "yes")
    with pytest.raises(OperandError, match="alpha"):
        ex.elu(real(2), np.ones(2))
    assert ex.sum(real(2, 3), 0, np.True_).shape == ex.sum(real(2, 3), 0, 1).shape == (1, 3)
    assert ex.elu(real(2), 2).dtype == ex.elu(real(2), np.float64(2)).dtype == np.float64


@pytest.mark.spec("M-O2", "I-6")
def test_an_integer_option_applies_to_every_axis() -> None:
    """strides=1 and padding=1 equal a tuple of ones in every convolution and pooling function."""
    for name, key, rank in (
        *[("conv3d", key, 3) for key in ("strides", "padding", "dilation")],
        *[("conv2d", key, 2) for key in ("strides", "padding", "dilation")],
        *[("conv_transpose2d", key, 2) for key in ("strides", "padding", "dilation")],
        *[("max_pool2d", "size", 2), ("avg_pool2d", "size", 2), ("adaptive_avg_pool2d", "output", 2)],
    ):
        operands = OPERANDS[name]
        once = getattr(ex, name)(*operands, **{key: 1})
        each = getattr(ex, name)(*operands, **{key: (1,) * rank})
        np.testing.assert_array_equal(ex.evaluate(once), ex.evaluate(each), err_msg=f"{name} {key}")


COMPOSITIONS: dict[str, Any] = {
    "var": lambda x, **p: ex.var(x, 1, **p),
    "var corrected": lambda x, **p: ex.var(x, 1, 1, **p),
    "std": lambda x, **p: ex.std(x, **p),
    "vector_norm": lambda x, **p: ex.vector_norm(x, 3, **p),
    "normalize": lambda x, **p: ex.normalize(x, **p),
    "layer_norm": lambda x, **p: ex.layer_norm(x, **p),
    "rms_norm": lambda x, **p: ex.rms_norm(x, **p),
    "group_norm": lambda x, **p: ex.group_norm(x[None], 2, **p),
    "instance_norm": lambda x, **p: ex.instance_norm(x[None], **p),
    "einsum": lambda x, **p: ex.einsum("ij,kj->ik", x, x, **p),
    "einsum, a sum": lambda x, **p: ex.einsum("ij->i", x, **p),
    "attention_weights": lambda x, **p: ex.attention_weights(x, x, **p),
    "attention": lambda x, **p: ex.attention(x, x, x, **p),
}


@pytest.mark.spec("M-L11")
@pytest.mark.parametrize(
    "write",
    [
        lambda x, **p: ex.conv1d(x[:, 0], x[:, 0], **p),
        lambda x, **p: ex.conv2d(x, x, **p),
        lambda x, **p: ex.conv3d(x[None], x[None], **p),
    ],
    ids=["conv1d", "conv2d", "conv3d"],
)
def test_policies_reach_convolutions(write: Any) -> None:
    """One- and three-dimensional convolutions, which are recorded as two-dimensional ones, are included."""
    x = ex.tensor(np.random.default_rng(0).normal(size=(2, 2, 3, 3)))
    given = write(x, policies=[ex.ConvolutionPolicy.algorithm("direct")])
    assert {node.operation.name for node in reachable([given]) if isinstance(node.operation, Adjusted)} == {"conv2d"}
    np.testing.assert_allclose(ex.evaluate(given), ex.evaluate(write(x)))


@pytest.mark.spec("M-L11")
def test_compositions_of_operations_with_policies_have_a_policies_argument() -> None:
    """Otherwise policies would reach them only through a scope."""
    lacking = {
        name
        for name, function in registry.functions.items()
        if isinstance(function, FunctionType)
        and "policies" not in inspect.signature(function).parameters
        and _with_policies(inspect.unwrap(function))
    }
    assert not lacking


def _with_policies(function: Any) -> bool:
    """Return whether one of our functions calls one with policies, directly or through functions without policies."""
    pending, seen = [function], set[Any]()
    while pending:
        code, names = pending[-1].__code__, pending.pop().__globals__
        for name in _names_in(code):
            held = names.get(name)
            if isinstance(held, FunctionType) and held.__module__.startswith("explorer.ops") and held not in seen:
                seen.add(held)
                if "policies" in inspect.signature(held).parameters and registry.functions.get(name) is held:
                    return True
                pending.append(inspect.unwrap(held))
    return False


def _names_in(code: CodeType) -> set[str]:
    return {*code.co_names}.union(*[_names_in(inner) for inner in code.co_consts if isinstance(inner, CodeType)])


@pytest.mark.spec("M-E9", "M-L11")
@pytest.mark.parametrize(
    ("write", "plain"),
    [
        (lambda x, p: x.sum(policies=p), lambda x: x.sum()),
        (lambda x, p: x.mean(0, policies=p), lambda x: x.mean(0)),
        (lambda x, p: ex.tensordot(x, x, ((0,), (0,)), policies=p), lambda x: ex.tensordot(x, x, ((0,), (0,)))),
        (lambda x, p: ex.dot(x, x.T, policies=p), lambda x: ex.dot(x, x.T)),
        *[
            (lambda x, p, write=write: write(x, policies=p), lambda x, write=write: write(x))
            for write in COMPOSITIONS.values()
        ],
    ],
    ids=["x.sum", "x.mean", "tensordot", "dot", *COMPOSITIONS],
)
def test_policies_reach_the_operation_that_reads_them(write: Any, plain: Any) -> None:
    """The result equals a call inside a policies scope: accumulated in float64, which the default does not do."""
    policy = ex.PAccumulateIn("float64")
    x = ex.tensor(np.array([[1e8, 1.0, -1e8], [3.0, 1e-3, 7.0]], np.float32))
    with ex.policies(policy):
        scoped = plain(x)
    given = write(x, [policy])
    assert {type(node.operation) for node in reachable([given])} == {
        type(node.operation) for node in reachable([scoped])
    }
    assert any(isinstance(node.operation, Adjusted) for node in reachable([given]))
    assert not any(isinstance(node.operation, Adjusted) for node in reachable([plain(x)]))
    np.testing.assert_array_equal(ex.evaluate(given), ex.evaluate(scoped))
