"""Words of NumPy, torch and JAX are answered with explorer's, and errors about shapes name axes and operands."""

from __future__ import annotations

import functools
import re

import numpy as np
import pytest

import explorer as ex
from explorer.names.other_libraries import WORDS, advice

pytestmark = pytest.mark.spec("H-5")

x = ex.tensor(np.ones((32, 64)), name="x")
w = ex.tensor(np.ones((64, 47)), name="w")
b = ex.tensor(np.ones(48), name="b")


@pytest.mark.parametrize(
    ("write", "answer"),
    [
        (lambda: x.sum(dim=1), "dim is called axis here"),
        (lambda: ex.softmax(x, dim=1), "dim is called axis here"),
        (lambda: x.sum(dim=1, keepdim=True), "dim is called axis here, and keepdim is called keepdims here"),
        (lambda: ex.relu(x, inplace=True), "an expression never changes"),
        (lambda: x.cuda(), "use x.to_device('cuda')"),
        (lambda: x.clamp_(0), "an expression never changes"),
        (lambda: ex.mm(x, w), "use x @ y"),
        (lambda: ex.dropout(x), "use ex.train.Dropout, in a module"),
        (lambda: ex.EvalPlan().prepare(without=["dedup"]), "ex.EvalPlan(without=[…])"),
        (lambda: x.view(3), "use x.reshape(shape)"),
        (lambda: x.numpy(), "ex.evaluate(x)"),
        (lambda: ex.zeros((3,)), "use ex.tensor(np.zeros(…))"),
        (lambda: ex.randn(3), "use ex.tensor(np.random.default_rng(0).normal(size=shape))"),
        (lambda: ex.cat([x, x]), "use ex.concatenate(arrays, axis)"),
        (lambda: ex.concat([x, x]), "use ex.concatenate(arrays, axis)"),
        (lambda: ex.Sequential(), "use ex.train.Module"),
        (lambda: ex.layers.Dense, "use ex.layers.Linear"),
        (lambda: ex.vmap, "use ex.map(function, samples)"),
        (lambda: ex.tensor([1.0], requires_grad=True), "not needed: ex.grad(loss, [x])"),
        (lambda: ex.EvalPlan(fuse=False), "ex.EvalPlan(without=['fuse'])"),
        (lambda: ex.EvalPlan().run(), "use plan.eval()"),
        (lambda: ex.no_grad(), "only ex.grad records gradients"),
    ],
)
def test_a_word_of_another_library_is_answered(write, answer):
    with pytest.raises((ex.ExplorerError, AttributeError)) as caught:
        write()
    assert answer in str(caught.value)


@pytest.mark.parametrize("word", WORDS)
def test_advice_about_a_word_names_what_exists(word):
    """Where expressions and modules lack a name, the advice is the same, and each name in it exists."""
    for owner in (x, ex, ex.layers, ex.train):
        if hasattr(owner, word):
            continue
        with pytest.raises(AttributeError) as caught:
            getattr(owner, word)
        assert str(caught.value).endswith(f"; {advice(word)}")
    owners = {"ex": ex, "x": x, "np": np}
    for path in re.findall(r"\b(?:ex|np|x)(?:\.\w+)+", advice(word).replace("ex.evaluate(x).", "")):
        first, *names = path.split(".")
        functools.reduce(getattr, names, owners[first])


def test_an_error_about_shapes_names_the_axis_and_the_operands():
    """The sizes that clash and the user's names are in the message."""
    with pytest.raises(ex.OperandError) as caught:
        x @ w + b
    assert "(matmul, b)" in str(caught.value)
    assert "axis -1 has 47 and 48 elements" in str(caught.value)
    with pytest.raises(ex.OperandError, match=r"\(x, b\)"):
        x @ b


def test_plans_are_asked_by_names():
    """``plan.explain`` and ``plan.why`` accept names, as views do."""
    plan = ex.EvalPlan()
    total = ex.sum(ex.tanh(x))
    plan.register(total)
    plan.prepare()
    assert "tanh" in plan.explain("tanh")
    assert plan.why("tanh", "sum").startswith("tanh and sum")
    with pytest.raises(ValueError, match="is called 'tahn'"):
        plan.explain("tahn")
    with pytest.raises(ex.OperandError, match=r"3 as a node of this plan\n.*or a name of"):
        plan.explain(3)
