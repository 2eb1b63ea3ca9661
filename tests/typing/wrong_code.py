"""Wrong user code: each line that ends with a mypy error code in a comment is rejected with this code."""

from __future__ import annotations

import explorer as ex

x = ex.tensor([1.0, 2.0])
y = ex.tanhh(x)  # attr-defined
ex.softmax(x, axes=0)  # call-arg
x.cumsumm()  # attr-defined
view = ex.explore(x, theme="drak")  # arg-type
ex.explore(x, thme="dark")  # call-arg
x.explore(inputs=1)  # call-arg
view.theme = "blue"  # assignment
view.svae("x.html")  # attr-defined
ex.EvalPlan(record="all")  # arg-type
ex.EvalPlan(lines=2)  # call-arg
ex.evaluate(x, order="latest")  # call-overload
plan = ex.EvalPlan(numerics="safe")
plan.explore(direction="left")  # arg-type
net = ex.open("model.onnx")
net.plan((1, 3), costs="guessed")  # arg-type
net.explore((1, 3), theme=1)  # arg-type
ex.layers.Linear("hidden", 3, 2).explore(record="all")  # arg-type
