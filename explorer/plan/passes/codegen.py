"""Code generation: chooses the kernels that run as compiled C code.

The decision depends on the kernel only, not on the machine, so equal plans are equal everywhere. Whether there is
a C compiler is found out when the program is built (run/native). Without one, NumPy computes the same kernels.
"""

from __future__ import annotations

from collections.abc import Container, Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, TypeAlias

from explorer.core.ir.expr import Expr, Operation
from explorer.core.types.device import cpu
from explorer.core.types.tensor_type import TensorType
from explorer.ops.base import EXPENSIVE, Elementwise
from explorer.ops.control.scan import Scan
from explorer.ops.linalg.matmul import Matmul
from explorer.ops.nn.conv import Conv2d
from explorer.ops.reduction.reduce import Extreme
from explorer.ops.reduction.sorting import CumulativeSum
from explorer.plan.codegen.elements import has_rows
from explorer.plan.codegen.generate import kernel_code
from explorer.plan.codegen.kernel_code import (
    C,
    KernelCode,
    KernelSpec,
    Obstacle,
    ScanBody,
    StepFunction,
    StepsCode,
    renamed,
)
from explorer.plan.codegen.names import Identifiers, c_identifier
from explorer.plan.codegen.products import product_code
from explorer.plan.codegen.steps import steps_code
from explorer.plan.codegen.windows import combines_windows
from explorer.plan.graph.compiled_price import price, price_of_steps
from explorer.plan.graph.constancy import constants_of
from explorer.plan.graph.kernels import BodyPlans
from explorer.plan.graph.pass_base import Pass
from explorer.plan.graph.plan_graph import PlanGraph
from explorer.plan.graph.reasons import Reason, RuleInfo
from explorer.plan.memory.copied_reshapes import strides_of
from explorer.plan.schedule.schedule import Kernel

_OPERATIONS = 1000
"""maximum number of operations in a kernel: a compiler's time grows faster than its number of lines"""
_NAMED = 3
"""maximum number of operations that the name of a C function lists"""


@dataclass(frozen=True)
class Codegen(Pass):
    """Compute fused kernels by compiled C code, which keeps values between operations in registers."""

    name, kind, numerics = "codegen", "format", "rounding"
    rule = RuleInfo("CompiledLoop", "A kernel of elementwise operations and reductions of rows becomes a loop in C.")
    compiled = Reason(
        "compiled",
        "`{result}` is computed by the C function {function}, because one loop computes {count:operation} on "
        "{elements} elements in an estimated {compiled_us}, and NumPy takes {numpy_us}.",
        meaning="NumPy calls one function per operation, which reads and writes arrays in the cache. In C, the values "
        "between operations stay in registers. The estimates contain calls and arithmetic: both read and write the "
        "same memory. Addition, multiplication, division and square root give the same bits as in NumPy; exp, expm1, "
        "log, log1p, tanh, sigmoid and erf are within 2 ulp of the exact value.",
        change='ex.EvalPlan(kernels="numpy") runs all kernels in NumPy.',
    )
    compiled_rows = Reason(
        "compiled_rows",
        "`{result}` is computed by the C function {function}, because {count:operation} on {rows:row} of "
        "{length:element} take an estimated {compiled_us} if a row stays in the cache, and NumPy takes {numpy_us}.",
        meaning="A row consists of the elements that a reduction such as a sum combines. NumPy calls several "
        "functions, each of which reads and writes all rows. Sums are added pairwise, in an order that is the same in "
        "every run but not NumPy's, so the last digits may differ.",
        change='ex.EvalPlan(kernels="numpy") runs all kernels in NumPy.',
        numerics="reordering",
    )
    compiled_columns = Reason(
        "compiled_columns",
        "`{result}` is computed by the C function {function}, because a loop over {rows:row} of {length:element} "
        "takes an estimated {compiled_us} for {count:operation}, and NumPy takes {numpy_us}.",
        meaning="The rows are combined element by element, as in the sum of a batch along its first axis. NumPy calls "
        "several functions, each of which reads and writes whole arrays. Sums are added in blocks of rows, in an order "
        "that is the same in every run but not NumPy's, so the last digits may differ.",
        change='ex.EvalPlan(kernels="numpy") runs all kernels in NumPy.',
        numerics="reordering",
    )
    no_expression = Reason(
        "no_expression",
        "`{result}` is computed by NumPy, because `{operation}` has no C expression.",
        meaning="An elementwise operation declares its C expression in its class (Elementwise.c).",
        change="Compute the value by operations that have C expressions, such as arithmetic, exp, tanh and where.",
    )
    dtype = Reason(
        "dtype",
        "`{result}` is computed by NumPy, because `{operation}` has operands of dtype {dtype}. C code requires one "
        "dtype, float32 or float64.",
        meaning="Other dtypes have conversion rules that NumPy defines, such as rounding to float16 in each step.",
        change="Convert the operands first: x.astype(np.float32).",
    )
    function = Reason(
        "function",
        "`{result}` is computed by NumPy, because there is no C function of `{operation}` for {dtype}.",
        meaning="The C functions are exp, expm1, log, log1p, tanh, sigmoid and erf, which are accurate to 2 ulp. NumPy "
        "computes the other functions.",
    )
    single = Reason(
        "single",
        "`{result}` is computed by NumPy, because it is a single operation, for which NumPy's loop is as fast.",
        meaning="C code is faster if it combines several operations, so that values between them need no memory.",
    )
    no_faster = Reason(
        "no_faster",
        "`{result}` is computed by NumPy, because NumPy takes an estimated {numpy_us}, and C code would take "
        "{compiled_us}.",
        meaning="Calling a C function takes as long as four of NumPy's functions on few elements. If the plan has "
        "other C code, one call runs both, and then fewer operations pay.",
    )
    many_operations = Reason(
        "many_operations",
        "`{result}` is computed by NumPy, because its loop has {count:operation}. C code is generated only for "
        "loops of {most} operations or fewer.",
        meaning="The time of a C compiler grows faster than the number of operations in a function: 10,000 operations "
        "took ten seconds.",
        change="Register a value in between: plan.register(x) ends a loop at x.",
    )
    windows = Reason(
        "windows",
        "`{result}` is computed by the C function {function}, because {count:operation} for each of {elements} "
        "windows take an estimated {compiled_us}, and NumPy takes {numpy_us}.",
        meaning="NumPy's functions read and write arrays in the cache for each pixel of a window and each operation. "
        "The products of a convolution are added in the order of the pixels, without rounding them before.",
        change='ex.EvalPlan(kernels="numpy") runs all kernels in NumPy.',
    )
    epilogue = Reason(
        "epilogue",
        "`{result}` is computed by the C function {function} on each tile of `{product}`, because {count:operation} "
        "on {elements} elements take an estimated {compiled_us} in one loop, and NumPy takes {numpy_us}.",
        meaning="A tile is a part of the product that is computed at once. BLAS or NumPy computes it, and the C "
        "function computes the operations after the product.",
        change='ex.EvalPlan(kernels="numpy") runs all kernels in NumPy.',
    )
    product = Reason(
        "product",
        "`{result}` is computed by the C function {function}, because one loop then computes {count:operation} on "
        "{elements} elements, and the sums of `{product}` stay in registers.",
        meaning="The code multiplies rows of numbers, or windows of an image, by a matrix, a tile at a time. The other "
        "operations follow while the tile is in the cache. Each sum is added in the order of its numbers, so the last "
        "digits may differ from those of BLAS.",
        change='ex.EvalPlan(kernels="numpy") runs all kernels in NumPy.',
        numerics="reordering",
    )
    large_window = Reason(
        "large_window",
        "`{result}` is computed by NumPy, because the windows of `{operation}` have {count:pixel}. C code is "
        "generated only for {most} pixels or fewer.",
        meaning="The loop over the pixels of a window is unrolled. Compiling it takes long if there are many.",
    )
    long_run = Reason(
        "long_run",
        "`{result}` is computed by NumPy, because the images of `{operation}` have {count} {along}. C code is "
        "generated only for {most} {along} or fewer.",
        meaning="The inner loop reads adjacent numbers. Pixels outside the images, or a copy of the pixels that rows "
        "of windows cover, must fit into the cache.",
    )
    memory_order = Reason(
        "memory_order",
        "`{result}` is computed by NumPy, because it is stored {written}, and the images `{operand}` are stored "
        "{read}. C code of `{operation}` requires the same order for both.",
        meaning="C code of poolings and depthwise convolutions reads and writes adjacent numbers: columns of one "
        "channel, or channels of one pixel.",
        change='ex.EvalPlan(kernels="native", without=["memory_format"]) stores all images channel by channel.',
    )
    combines = Reason(
        "combines",
        "`{result}` is computed by NumPy, because the same loop computes `{operation}`, for which there is no C code.",
        meaning="C code is generated for elementwise operations, poolings, convolutions, matrix products, cumulative "
        "sums, and sums, means, extrema and softmax of rows. Other operations that combine elements have different "
        "loops.",
    )
    spaced_pixels = Reason(
        "spaced_pixels",
        "`{result}` is computed by NumPy, because `{operation}` computes tiles of pixels that are not adjacent.",
        meaning="A transposed convolution with a stride computes all pixels that read the same weights together, and "
        "these are one stride apart. C code computes adjacent elements.",
    )
    steps = Reason(
        "steps",
        "The steps of `{result}` are computed by C code, {functions}, because {count:operation} in each of "
        "{steps:step} take an estimated {compiled_us}, and NumPy takes {numpy_us}.",
        meaning="NumPy calls one function per operation in each step, which takes longer than its arithmetic if the "
        "state is small. Products by a matrix that is the same in all steps are C functions, too; BLAS computes the "
        "others. Values that are the same in all steps are computed once.",
        change='ex.EvalPlan(kernels="numpy") runs all kernels in NumPy.',
    )
    columns = Reason(
        "columns",
        "`{result}` is computed by NumPy, because the axes that `{operation}` combines alternate with others in "
        "memory.",
        meaning="C code is generated for operations that combine adjacent axes, or the outermost and the innermost "
        "ones.",
        change="Combine the innermost axes first, and the others in a second operation: "
        "ex.sum(ex.sum(x, axis=3), axis=1).",
    )

    def has_work(self, graph: PlanGraph) -> bool:
        """Return whether a kernel is fused, or has an operation with temporary arrays."""
        return any(
            isinstance(kernel.result.operation, Scan) or _is_candidate(kernel, graph)
            for kernel in graph.ordered.kernels
        )

    def run(self, graph: PlanGraph) -> None:
        """Generate code for the kernels for which it is faster, and record why not for the others."""
        kernels: list[Kernel] = []
        names = _Names()
        ordered = graph.ordered
        channels_last = {kernel.result.uid for kernel in ordered.kernels if kernel.channels_last}
        layout = _Layout(channels_last, strides_of(ordered.leaves, ordered.kernels, graph.inputs))

        def choice(kernel: Kernel, compiler_runs: bool) -> _Choice:
            facts: dict[str, Any] = {"result": kernel.result}
            if (body := _scan_body(kernel.result, graph)) is not None:
                return self._steps(body, names, facts), facts
            if not _is_candidate(kernel, graph) and not (compiler_runs and _is_product_of_stacks(kernel)):
                return None, facts
            return self._code(kernel, graph, names, layout, compiler_runs, facts), facts

        choices = [choice(kernel, False) for kernel in graph.ordered.kernels]
        compiler_runs = any(isinstance(code, (KernelCode, StepsCode)) for code, _ in choices)
        for kernel, first_choice in zip(graph.ordered.kernels, choices, strict=True):
            is_small = first_choice[0] is self.no_faster or _is_product_of_stacks(kernel)
            code, facts = choice(kernel, True) if is_small and compiler_runs else first_choice
            if isinstance(code, Reason):
                graph.decline(self.rule, code, facts, *kernel.nodes)
            elif isinstance(code, StepsCode):
                graph.decide(self.rule, self.steps, facts, kernel.nodes)
                kernel = replace(kernel, steps=code)
            elif code is not None:
                kernel = self._compiled(kernel, code, graph, facts)
            kernels.append(kernel)
        graph.schedule = replace(graph.ordered, kernels=tuple(kernels))

    def _compiled(self, kernel: Kernel, code: KernelCode, graph: PlanGraph, facts: dict[str, Any]) -> Kernel:
        """Return a kernel with its code, and record the decision."""
        first = kernel.nodes[0]
        facts |= {"function": code.name, "count": len(kernel.nodes)}
        if code.columns:
            combining = next(node for node in kernel.nodes if has_rows(node.operation))
            size = graph.inputs[combining.uid][0].size
            facts |= {"length": code.columns, "rows": size // code.columns}
            reason = self.compiled_columns
        elif any(has_rows(node.operation) for node in kernel.nodes):
            facts |= {"length": code.row, "rows": code.length}
            reason = self.compiled_rows
        else:
            facts["elements"] = kernel.result.tensor_type.size
            reason = self.windows if _combines_windows(first, graph) else self.compiled
        if code.is_product:
            facts["product"] = first
            reason = self.product
        if any(read is first for read in code.reads):
            facts |= {"count": len(kernel.nodes) - 1, "product": first}
            reason = self.epilogue
        else:
            # C code needs no registers, only copies of operands, and the partial results in the arena.
            copies = sum([code.reads[each.operand].type.nbytes for each in code.packed])
            cost = kernel.cost._replace(workspace=kernel.cost.scratch + copies)
            kernel = replace(kernel, cost=cost)
        graph.decide(self.rule, reason, facts, kernel.nodes)
        return replace(kernel, code=code)

    def counts(self, graph: PlanGraph) -> Mapping[str, int]:
        """Return the number of kernels that have code."""
        kernels = graph.ordered.kernels
        return {"kernels_with_code": sum([bool(kernel.functions) for kernel in kernels])}

    def _code(
        self,
        kernel: Kernel,
        graph: PlanGraph,
        names: _Names,
        layout: _Layout,
        compiler_runs: bool,
        facts: dict[str, Any],
    ) -> KernelCode | Reason | None:
        """Return the code of a kernel, or the reason why it has none, whose facts are added to ``facts``.

        With ``compiler_runs``, code of another kernel is compiled. Returns None for a product that BLAS computes,
        without other operations.
        """
        result, nodes = kernel.result, kernel.nodes
        spec = _spec(kernel, graph, layout)
        if (product := product_code(spec)) is not None:
            return names.renamed(product)
        has_own_loop = _combines_windows(nodes[0], graph) or isinstance(nodes[0].operation, CumulativeSum)
        is_product = nodes[0].operation.is_tileable and not has_own_loop
        if is_product and len(nodes) == 1:
            return None
        others = nodes[1:] if is_product or has_own_loop else nodes
        combining = [node for node in others if not node.operation.elementwise]
        for node in combining:
            if not has_rows(node.operation):
                facts["operation"] = node.operation.label
                return self.combines
        if len(nodes) == 1 and (isinstance(result.operation, Extreme) or _is_one_call(result.operation)):
            return self.single
        loop = nodes[1:] if is_product else nodes
        estimate = price(loop, spec.operands, is_called_with_others=compiler_runs, follows_product=is_product)
        if not estimate.pays:
            facts |= estimate.facts()
            return self.no_faster
        if len(nodes) > _OPERATIONS:
            facts |= {"count": len(nodes), "most": _OPERATIONS}
            return self.many_operations
        code = kernel_code(spec)
        if isinstance(code, KernelCode):
            facts |= estimate.facts()
            return names.renamed(code)
        facts |= {"operation": code.node.operation.label, **code.facts}
        reason: Reason = getattr(self, code.kind)
        return reason

    def _steps(self, body: ScanBody, names: _Names, facts: dict[str, Any]) -> StepsCode | Reason | None:
        """Return the code of a scan, or the reason why it has none; None if it has no elementwise operations.

        Facts of the decision are added to ``facts``.
        """
        operations = [node for node in body.nodes if node.operation.elementwise]
        if not operations:
            return None
        estimate = price_of_steps(body)
        if not estimate.pays:
            facts |= estimate.facts()
            return self.no_faster
        if len(operations) > _OPERATIONS:
            facts |= {"count": len(operations), "most": _OPERATIONS}
            return self.many_operations
        code = steps_code(body, f"compute_{c_identifier(body.scan.label)}")
        if isinstance(code, Obstacle):
            facts |= {"operation": code.node.operation.label, **code.facts}
            reason: Reason = getattr(self, code.kind)
            return reason
        parts = [names.renamed(part) if isinstance(part, StepFunction) else part for part in code.parts]
        code = replace(code, parts=tuple(parts))
        functions = " and ".join([function.name for function in code.functions])
        facts |= {"functions": functions, "count": len(operations), "steps": body.scan.length, **estimate.facts()}
        return code


_Choice: TypeAlias = tuple[KernelCode | StepsCode | Reason | None, dict[str, Any]]
"""code of a kernel, or the reason why it has none, and the facts of the decision; None: the pass does not apply"""


def _scan_body(node: Expr, graph: PlanGraph) -> ScanBody | None:
    """Return the planned body of a scan of numbers on the CPU; None for other operations."""
    scan = node.operation
    if not isinstance(scan, Scan) or not node.type.plain:
        return None
    schedule, inputs, parameters = graph.notes(BodyPlans)[id(scan.body)]
    nodes = [*schedule.leaves, *[node for kernel in schedule.kernels for node in kernel.nodes]]
    return ScanBody(scan, parameters, [*dict.fromkeys([*parameters, *nodes])], inputs, schedule.roots)


def _is_candidate(kernel: Kernel, graph: PlanGraph) -> bool:
    """Return whether C code could make a kernel faster.

    This is possible for fused kernels, operations with temporary arrays, windows, and reductions of rows.
    """
    operation, type_ = kernel.result.operation, kernel.result.type
    if type_.device is not cpu or not isinstance(type_, TensorType):
        return False
    if (
        len(kernel.nodes) > 1
        or isinstance(operation, (Conv2d, CumulativeSum))
        or _combines_windows(kernel.result, graph)
        or has_rows(operation)
    ):
        return True
    return isinstance(operation, Elementwise) and (operation.weight >= EXPENSIVE or operation.numpy_calls > 1)


def _is_one_call(operation: Operation) -> bool:
    return isinstance(operation, Elementwise) and operation.numpy_calls == 1


def _is_product_of_stacks(kernel: Kernel) -> bool:
    """Return whether a kernel is only a product of stacks of matrices, which C code computes together with others."""
    (*others, node) = kernel.nodes
    return not others and isinstance(node.operation, Matmul) and len(node.shape) > 2 and node.type.device is cpu


def _combines_windows(node: Expr, graph: PlanGraph) -> bool:
    return combines_windows(node, graph.inputs[node.uid])


class _Layout(NamedTuple):
    """Memory layouts of values that are not row-major."""

    channels_last: Container[int]
    """uids of images that are stored pixel by pixel"""
    strides: Mapping[int, tuple[int, ...]]
    """uid → stride of each axis, in elements"""


class _Names:
    """Names of the functions of a plan; equal code has one name."""

    def __init__(self) -> None:
        self._of_text: dict[str, str] = {}
        self._identifiers = Identifiers(set())

    def renamed(self, code: C) -> C:
        """Return the code with a name that no other code has."""
        name = self._of_text.get(code.text)
        if name is None:
            name = self._of_text[code.text] = self._identifiers.unused(code.name)
        return renamed(code, name)


def _spec(kernel: Kernel, graph: PlanGraph, layout: _Layout) -> KernelSpec:
    """Return what the code of a kernel depends on.

    The name begins with "compute", because exp, erf, main and double are names of C or of its library.
    """
    listed = [*dict.fromkeys(node.operation.name for node in kernel.nodes)][:_NAMED]
    name = "_".join(["compute", *map(c_identifier, listed)])
    inputs = graph.inputs
    constants = constants_of(kernel, graph)
    operands = lambda node: inputs[node.uid]  # noqa: E731
    last, strides = layout
    return KernelSpec(kernel.nodes, operands, name, kernel.order, last, constants, strides=strides)
