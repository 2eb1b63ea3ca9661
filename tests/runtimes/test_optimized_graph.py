"""Mapping of an optimized graph's nodes to the nodes of the file that they compute."""

from __future__ import annotations

from explorer.runtimes.contract import FileNode
from explorer.runtimes.optimized_graph import Computed, OptimizedNode, computed_nodes


def found(computed: Computed, index: int) -> tuple[tuple[int, ...], bool]:
    group = computed.groups[index]
    return computed.nodes[group], computed.exact[group]


GIVEN = [
    FileNode("Conv", ("x", "w"), ("c",), "n0"),
    FileNode("Relu", ("c",), ("r",), "n1"),
    FileNode("Conv", ("r", "v"), ("d",), "n2"),
    FileNode("Add", ("d", "r"), ("s",), "n3"),
    FileNode("Relu", ("s",), ("y",), "n4"),
]


def test_a_fused_node_computes_the_nodes_between_its_operands_and_its_result() -> None:
    optimized = [
        OptimizedNode("FusedConv", ("x", "w"), ("r",), "fused n0"),
        OptimizedNode("Conv", ("r", "v"), ("d",), "n2"),
        OptimizedNode("Add", ("d", "r"), ("s",), "n3"),
        OptimizedNode("Relu", ("s",), ("y",), "n4"),
    ]
    computed = computed_nodes(GIVEN, optimized, ["x"], ["w", "v"])
    assert [found(computed, index) for index in range(4)] == [((0, 1), True), ((2,), True), ((3,), True), ((4,), True)]


def test_nodes_in_a_blocked_memory_format_and_conversions_are_mapped() -> None:
    """A conversion belongs to the kernel whose result it converts; an added operand is followed to the sum."""
    optimized = [
        OptimizedNode("Conv", ("x", "w1"), ("t0",), "r_nchwc", "Relu"),
        OptimizedNode("Conv", ("t0", "v1", "", "t0"), ("t1",), "d_nchwc", "Relu"),
        OptimizedNode("ReorderOutput", ("t1",), ("y",), "ReorderOutput"),
    ]
    computed = computed_nodes(GIVEN, optimized, ["x"], ["w", "v", "w1", "v1"])
    assert found(computed, 0) == ((0, 1), True)
    assert found(computed, 1) == found(computed, 2) == ((2, 3, 4), True)
    assert computed.conversions == {2}


def test_new_values_join_nodes_to_one_group() -> None:
    given = [FileNode("MatMul", ("x", "w"), ("p",), "n0"), FileNode("Add", ("p", "b"), ("y",), "n1")]
    optimized = [
        OptimizedNode("Reshape", ("x", "shape"), ("new",), "a"),
        OptimizedNode("Gemm", ("new", "w", "b"), ("new2",), "b"),
        OptimizedNode("Reshape", ("new2", "shape"), ("y",), "c"),
    ]
    computed = computed_nodes(given, optimized, ["x"], ["w", "b", "shape"])
    assert [found(computed, index) for index in range(3)] == [((0, 1), True)] * 3


def test_constants_and_shapes_are_folded_and_equal_nodes_are_computed_once() -> None:
    given = [
        FileNode("Transpose", ("w",), ("wt",), "n0"),
        FileNode("Exp", ("x",), ("a",), "n1"),
        FileNode("Exp", ("x",), ("b",), "n2"),
        FileNode("Shape", ("x",), ("shape",), "n3"),
        FileNode("Mul", ("a", "b"), ("y",), "n4"),
    ]
    optimized = [OptimizedNode("Exp", ("x",), ("b",), "n2"), OptimizedNode("Mul", ("b", "b"), ("y",), "n4")]
    computed = computed_nodes(given, optimized, ["x"], ["w"])
    assert computed.folded == {0, 3}
    assert found(computed, 0) == ((2, 1), True)
    assert found(computed, 1) == ((4,), True)


def test_only_the_last_node_is_certain_if_the_operands_do_not_fit() -> None:
    given = [FileNode("Exp", ("x",), ("a",), "n0"), FileNode("Mul", ("a", "z"), ("y",), "n1")]
    computed = computed_nodes(given, [OptimizedNode("Magic", ("x",), ("y",), "m")], ["x", "z"], [])
    assert found(computed, 0) == ((1,), False)


def test_values_computed_in_another_dtype_have_the_names_of_the_file() -> None:
    cast = "InsertedPrecisionFreeCast_"
    optimized = [
        OptimizedNode("Cast", ("x",), (f"{cast}x",), f"{cast}x"),
        OptimizedNode("Conv", (f"{cast}x", "w1"), ("t0",), f"{cast}r_nchwc", "Relu"),
        OptimizedNode("Conv", ("t0", "v1", "", "t0"), ("t1",), f"{cast}d_nchwc", "Relu"),
        OptimizedNode("ReorderOutput", ("t1",), (f"{cast}y",), "ReorderOutput"),
        OptimizedNode("Cast", (f"{cast}y",), ("y",), f"{cast}y"),
    ]
    computed = computed_nodes(GIVEN, optimized, ["x"], ["w", "v", "w1", "v1"])
    assert found(computed, 0) == found(computed, 1) == ((0, 1), True)
    assert found(computed, 2) == found(computed, 4) == ((2, 3, 4), True)
