"""Layers as text, with nested layers, order, clauses, policies and gradients."""

from __future__ import annotations

from explorer.record import Feedback, Layer, Policy
from explorer.record.layer_rows import layer_lines


def layer(name: str, *, training: bool = True, **fields: tuple[object, ...]) -> Layer:
    return Layer(name, "Made", training, ("x",), (), **fields)  # type: ignore[arg-type]  # each test gives its own


def test_a_layer_lists_its_decisions() -> None:
    """Below a layer are its order, its clauses, its policies with their sources, and its gradients with reasons."""
    inner = layer(
        "net/a/b",
        policies=(Policy("GradPolicy.update", "True", "net"),),
        feedback=(Feedback("", True, "it updates"), Feedback("", False, "nothing asks")),
    )
    outer = layer(
        "net",
        clauses=("Sublayer('a', Made)",),
        order=("a", "c"),
        feedback=(Feedback("a", True, "c updates"), Feedback("c", False, "nothing updates")),
    )
    assert layer_lines([outer, layer("net/a"), inner, layer("net/c")]) == [
        "net · Made · x → none · for training",
        "    order: a → c",
        "    Sublayer('a', Made)",
        "    ✓ a sends a gradient to its inputs, because c updates",
        "    ✗ c sends no gradient to its inputs, because nothing updates",
        "  a · Made · x → none",
        "    b · Made · x → none",
        "        GradPolicy.update = True · net",
        "        ✓ its gradient is built, because it updates",
        "        ✗ its gradient is not built, because nothing asks",
        "  c · Made · x → none",
    ]


def test_a_layer_with_a_common_name_prefix_is_not_nested() -> None:
    """Only a slash denotes nesting; each outermost layer states its purpose."""
    assert layer_lines([layer("net"), layer("net2", training=False), layer("net2/a", training=False)]) == [
        "net · Made · x → none · for training",
        "net2 · Made · x → none · for inference",
        "  a · Made · x → none",
    ]
