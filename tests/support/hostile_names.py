"""Plan with only hostile names: markup, terminal commands, spreadsheet formulas, lines of other programs."""

from __future__ import annotations

from typing import Any

import numpy as np

import explorer as ex

NAMES = (
    "<img src=x onerror=window.__pwned=1>", "</script><script>window.__pwned=1</script>",
    '"onmouseover="window.__pwned=1',
    "javascript:window.__pwned=1", "\x1b]0;pwned\x07\x1b[31mred", "\u202egnp.exe", "a\nfake: line\r\nand one more",
    "=cmd|' /C calc'!A0", "${window.__pwned=1}{{constructor}}", "__proto__", "]]>&lt;b&gt;",
    "`x` [a](javascript:1) ![b](http://127.0.0.1:1/)",
)  # fmt: skip


def hostile_plan(**options: Any) -> ex.EvalPlan:
    """Return a plan, not yet run, whose title, leaves and scopes have hostile names."""
    plan = ex.EvalPlan(title=NAMES[0], **options)
    x: Any = ex.tensor(np.ones((3, 4), np.float32), name=NAMES[0])
    for name in NAMES:
        with ex.scope(name):
            x = ex.tanh(x * ex.tensor(np.ones(4, np.float32), name=name) + 1)
    plan.register(ex.sum(x))
    return plan
