"""User code, which test_user_code.py checks with mypy; nothing runs it. Pyright accepts it, too."""

from __future__ import annotations

from typing import Any, assert_type

import numpy as np

import explorer as ex

x = ex.tensor(np.ones((2, 3)))
W = ex.tensor(np.ones((3, 2)), dtype="float32")
y = ex.tanh(x @ W) + 2 * (x @ W)
assert_type(x, ex.Tensor)
assert_type(y, ex.Expr)
assert_type(ex.softmax(y, axis=-1), ex.Expr)
assert_type(ex.sum(y, axis=0, keepdims=True), ex.Expr)
assert_type(y.sum(axis=0), ex.Expr)
assert_type(ex.ops.relu(y), ex.Expr)

# Views and their options
view = ex.explore(y, theme="dark", direction="right", depth=1, position=0, height=560, record="values", run=True)
assert_type(view, ex.View)
view.save("y.html")
view.focus(y)
view.trace(y, "outputs")
assert_type(view.why(x, y), str)
assert_type(view.select_line("ex.tanh"), list[int])
view.overlay({y: 0.25, "conv1": 0.5}, unit="ms")
view.selected, view.theme, view.direction, view.depth, view.step = y, "light", "down", 2, 0
y.explore(theme="light", plan={"without": "fuse"})

# Plans and their options
plan = ex.EvalPlan(without=["fuse", "dedup"], record="values", executor="threads", numerics="fast", lanes=2)
handle = plan.register(y)
assert_type(handle, ex.Handle)
first, second = plan.register(x + 1, y)
assert_type(plan.eval(), ex.EvalPlan)
assert_type(plan.explain(y), str)
plan.explore(theme="dark", source=False).save("plan.svg")
value: np.ndarray[Any, Any] = handle.data()
array: np.ndarray[Any, Any] = ex.evaluate(y, without="fuse", costs="measured")
(slope,) = ex.grad(y.sum(), [W])

# Nets, and models in files
net = ex.open("model.onnx", weights=None)
assert_type(net, ex.Net)
results: dict[str, np.ndarray[Any, Any]] = net.run(np.ones((1, 3)))
net.run(image=np.ones((1, 3)))
net.explore((1, 3), theme="dark").save("net.html")
net.plan((1, 3), record="times", without="fuse")
print(net["conv1"])
net.compare(net)
ex.save(y, "y.onnx")


# Functions, layers and training
@ex.function
def swish(value: ex.Expr) -> ex.Expr:
    return value * ex.sigmoid(value)


assert_type(swish(y), ex.Expr)
layer = ex.layers.Linear("hidden", 3, 2)
chosen = [ex.layers.PNoUpdate]
frozen = ex.layers.Linear("frozen", 3, 2, policies=chosen)
layer.explore(theme="dark", record="off")
module = ex.train.Module("classifier")
