"""C code of kernels: readable, independent of strings in the program, and only where operations declare it."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import explorer as ex
from explorer.core.types.tensor_type import Array
from explorer.ops.elementwise.unary import Tanh
from explorer.plan.codegen.elements import DEFINED, FUNCTIONS, functions_for, has_expression
from explorer.plan.codegen.generate import kernel_code
from explorer.plan.codegen.kernel_code import KernelCode, KernelSpec
from explorer.plan.passes import codegen
from tests.support.kernel_codes import codes, declined, planned

X = np.ones((4, 3, 40, 50), np.float32)


@pytest.mark.spec("K-1")
@pytest.mark.parametrize(
    ("code", "included"),
    [
        ("tanh_f32(x); least(1, 2);", []),
        ("sum_f32(row, 768);", ["sum_f32"]),
        ("product_f64(sums); sum_f32(row, 768);", ["sum_f32", "product_f64"]),
    ],
)
def test_code_comes_with_the_functions_of_rows_and_products_that_it_calls(code: str, included: list[str]) -> None:
    text = functions_for(code)
    assert "tanh_f64(f64 x) {" in text
    special = [f"{name}_{dtype}" for dtype in ("f32", "f64") for name in ("sum", "product")]
    assert [name for name in special if f" {name}(" in text] == included


@pytest.mark.spec("K-1", headline=True)
def test_a_chain_is_one_loop_with_one_line_per_operation() -> None:
    """Fused elementwise operations are one C loop, with one line per operation."""
    x = ex.tensor(X)
    (code,) = codes(ex.tanh(x * 0.1 + 1) - 2)
    assert code.text == (
        "/* 4 operations on 4×3×40×50 elements */\n"
        "void compute_multiply_add_tanh(void *const *arrays, int64_t start, int64_t stop) {\n"
        "    const f32 *tensor = arrays[0];\n"
        "    f32 *subtract = arrays[1];\n"
        "    VECTORIZE\n"
        "    for (int64_t i = start; i < stop; i++) {\n"
        "        f32 multiply = tensor[i] * 0.1f;\n"
        "        f32 add = multiply + 1.0f;\n"
        "        f32 tanh = tanh_f32(add);\n"
        "        subtract[i] = tanh - 2.0f;\n"
        "    }\n"
        "}\n"
    )
    lines = code.text.splitlines()
    assert [(lines[line - 1].split(" = ")[0].split()[-1], node.operation.name) for line, node in code.lines] == [
        ("multiply", "multiply"),
        ("add", "add"),
        ("tanh", "tanh"),
        ("subtract[i]", "subtract"),
    ]


@pytest.mark.spec("K-1")
def test_broadcast_operands_are_read_once_per_row() -> None:
    """Axes along which the same operands are broadcast are one loop."""
    x, bias, rows = ex.tensor(X), ex.tensor(X[0, :, :1, :1]), ex.tensor(X[:, :1, :, :1])
    (code,) = codes((x + bias) * rows)
    assert "for (int64_t row = start; row < stop; row++)" in code.text
    assert "tensor[row * 50 + i] + tensor_2[row / 40 % 3]" in code.text
    assert "tensor_3[(row / 120) * 40 + row % 40]" in code.text
    assert (code.length, code.row) == (480, 50)


@pytest.mark.spec("K-1")
def test_operations_after_a_product_are_a_loop_over_a_tile() -> None:
    x, bias = ex.tensor(np.ones((80, 900), np.float32)), ex.tensor(np.ones(80, np.float32))
    (code,) = codes(ex.relu(x @ x.T + bias))
    assert code.text == (
        "/* 2 operations on tiles of a product of 80×80 elements */\n"
        "void compute_matmul_add_relu(void *const *arrays, int64_t start, int64_t stop) {\n"
        "    const f32 *matmul = arrays[0];\n"
        "    const f32 *tensor = arrays[1];\n"
        "    f32 *relu = arrays[2];\n"
        "    const int64_t *part = arrays[3];\n"
        "    for (int64_t row = start; row < stop; row++) {\n"
        "        VECTORIZE\n"
        "        for (int64_t i = part[0]; i < part[1]; i++) {\n"
        "            f32 add = matmul[row * 80 + i] + tensor[i];\n"
        "            relu[row * 80 + i] = add < 0 ? 0 : add;\n"
        "        }\n"
        "    }\n"
        "}\n"
    )


@pytest.mark.spec("K-1")
def test_names_in_the_code_are_identifiers_that_are_not_taken() -> None:
    """Names of values come from anywhere; what is compiled contains only generated identifiers."""
    x = ex.tensor(X)
    plan = planned(ex.tanh(x * 2) + x).planned
    (kernel,) = [kernel for kernel in plan.schedule.kernels if kernel.code is not None]
    names = iter(['x */ system("rm");', "float", "exp_f32", "größe 2"])
    inputs = plan.graph.inputs
    code = kernel_code(
        KernelSpec(kernel.nodes, lambda node: inputs[node.uid], "k", kernel.order, name_of=lambda node: next(names))
    )
    assert isinstance(code, KernelCode)
    assert "const f32 *x_system_rm = arrays[0];" in code.text
    assert "f32 float_2 = x_system_rm[i] * 2.0f;" in code.text
    assert "f32 exp_f32_2 = tanh_f32(float_2);" in code.text


@pytest.mark.spec("K-1")
def test_macros_are_taken_names() -> None:
    """A value named like a macro would be replaced by its text."""
    assert {*re.findall(r"# *define (\w+)", FUNCTIONS)} <= DEFINED


def test_functions_have_no_names_of_c() -> None:
    """The name of an operation may be a keyword, a function of C's library, or no identifier."""

    class Größe(Tanh):
        """x + 1."""

        c, name = "{0} + 1", "größe"

        def kernel(self, out: Array, x: Array) -> Array:
            return np.add(x, 1, out=out)

    x = ex.tensor(X)
    assert [code.name for code in codes(ex.exp(ex.exp(x)))] == ["compute_exp"]
    (code,) = codes(Größe()(Größe()(x)))
    assert code.name == "compute_gr_e"
    assert "f32 gr_e = tensor[i] + 1;" in code.text


@pytest.mark.spec("K-1")
def test_the_code_of_each_kernel_is_generated_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Equal code has one name, other code of the same operations has a number, and no name is tried twice."""
    generated = []
    monkeypatch.setattr(codegen, "kernel_code", lambda kernel: generated.append(kernel) or kernel_code(kernel))
    plan = ex.EvalPlan(kernels="native")
    for rows in (*range(64, 84), *range(64, 84)):
        plan.register(ex.tanh(ex.tensor(np.ones((rows, 80), np.float32)) * 2))
    kernels = plan.prepare().planned.schedule.kernels
    names = [kernel.code.name for kernel in kernels if kernel.code is not None]
    assert {*names} == {"compute_multiply_tanh", *[f"compute_multiply_tanh_{number}" for number in range(2, 21)]}
    assert len(generated) == len(names) == len(kernels)


@pytest.mark.spec("K-1")
def test_many_equal_names_are_numbered() -> None:
    x = y = ex.tensor(X)
    for _ in range(400):
        y = ex.relu(y - x)
    (code,) = codes(y)
    names = [line.split()[1] for line in code.text.splitlines() if line.startswith("        f32 ")]
    assert len(names) == len({*names}) == 799
    assert {"relu", "relu_2", "relu_399", "subtract_400"} <= {*names}


@pytest.mark.spec("K-3")
@pytest.mark.parametrize(
    ("build", "code"),
    [
        (lambda x: ex.prod(ex.tanh(x)), "combines"),
        (lambda x: ex.arctan(x) + 1, "function"),
        (lambda x: ex.hypot(x, x) + 1, "no_expression"),
        (lambda x: ex.tensor(np.ones((100, 100), np.float16)) * 2 + 1, "dtype"),
        (lambda x: ex.tensor(np.ones(9999, int)) * 2 + 1, "dtype"),
        (lambda x: ex.tanh(x), "single"),
        (lambda x: ex.tanh(x[:2]) + 1, "no_faster"),
    ],
)
def test_kernels_without_code_are_declined_with_the_reason(build: Any, code: str) -> None:
    assert code in declined(build(ex.tensor(np.ones((100, 100), np.float32))))


@pytest.mark.spec("K-3")
@pytest.mark.parametrize("function", [ex.hardsigmoid, ex.leaky_relu, ex.sign, ex.sqrt, ex.reciprocal, ex.relu])
def test_a_single_operation_is_compiled_if_it_takes_longer_than_a_fast_function(function: Any) -> None:
    """The estimate counts the memory that both read and write only once, so NumPy computes few elements."""
    (code,) = codes(function(ex.tensor(np.ones((1000, 1000), np.float32))))
    assert len(code.lines) == 1
    assert declined(function(ex.tensor(X[0, 0, :20, :20]))) == ["no_faster"]


@pytest.mark.spec("K-3")
def test_kernels_of_few_elements_are_compiled_if_the_compiler_runs_for_another_kernel() -> None:
    """Except those that NumPy computes by one call, or that have no elements."""
    x, w = ex.tensor(np.ones((100, 100), np.float32)), ex.tensor(np.ones((100, 2), np.float32))
    few = ex.tanh(x[:2]) + 1
    assert [len(code.lines) for code in codes(few)] == []
    assert sorted(len(code.lines) for code in codes([few, ex.tanh(x) * 3 - 2])) == [2, 3]
    assert declined([few, ex.tanh(x) * 3 - 2]) == []
    assert declined([few[:0] * 2 - 1, ex.tanh(x) * 3 - 2]) == ["no_faster"]
    assert declined([ex.tanh(x) * 3 - 2, x @ w + w[0]]) == ["no_faster"]
    assert declined([ex.tanh(x) * 3 - 2, x @ w * 2 + w[0]]) == []


@pytest.mark.spec("K-3")
def test_kernels_that_users_define_are_called() -> None:
    """Neither a replaced kernel nor a subclass's own kernel is compiled from the C expression of its base class."""

    class TwiceTanh(Tanh):
        """2 · tanh(x)."""

        def kernel(self, out: Array, x: Array) -> Array:
            return np.multiply(np.tanh(x, out=out), 2, out=out)

    assert has_expression(Tanh())
    assert not has_expression(TwiceTanh())
    assert declined(TwiceTanh()(ex.tensor(X)) + 1) == ["no_expression"]


@pytest.mark.spec("K-3", headline=True)
def test_the_default_is_numpy_and_the_decision_is_part_of_the_plan() -> None:
    """Whether a kernel is compiled is a decision of the stage codegen, which kernels="native" adds to a plan."""
    x = ex.tensor(X)
    plan = ex.EvalPlan()
    plan.register(ex.tanh(x * 2))
    assert "codegen" not in [stage.name for stage in plan.prepare().recording.stages]
    recording = planned(ex.tanh(x * 2)).recording
    names = [stage.name for stage in recording.stages]
    assert names.index("codegen") == names.index("buffers") - 1
    (decision,) = [row for row in recording.decisions if row.rule == "CompiledLoop"]
    assert decision.verdict == "applied"
    assert recording.reason(decision).endswith(
        "because one loop computes 2 operations on 24,000 elements in an estimated 18.1 µs, and NumPy takes 35.7 µs."
    )
    with pytest.raises(ex.UnknownNameError, match="kernels"):
        ex.EvalPlan(kernels="cuda")  # type: ignore[arg-type]


@pytest.mark.spec("K-3")
def test_a_cumulative_sum_is_a_loop_over_rows() -> None:
    x = ex.tensor(X)
    (inner,) = codes(ex.cumsum(x, 3))
    assert "            total += tensor[part * 50 + i];\n            cumsum[part * 50 + i] = total;\n" in inner.text
    (outer,) = codes(ex.cumsum(x, 2))
    assert "cumsum[first + column] = cumsum[first - 50 + column] + tensor[first + column];" in outer.text
    assert declined(ex.cumsum(ex.tensor(np.ones(9999, int)), 0)) == ["dtype"]
    assert declined(ex.cumsum(x[0, 0, 0], 0)) == ["no_faster"]
