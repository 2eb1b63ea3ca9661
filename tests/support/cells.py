"""Size of a notebook cell that shows an explorer."""

from __future__ import annotations

import json
from pathlib import Path

from explorer.view.widget.widget import GraphView

MODELS = Path(__file__).parents[2] / "assets" / "models"


def cell(view: GraphView) -> dict[str, int]:
    """Return the bytes of each part of a view's cell."""
    data, _ = view._repr_mimebundle_()  # type: ignore[misc]  # anywidget's may be None, a view's never is
    return {name: len(json.dumps(part).encode()) for name, part in {**data, "state": view.get_state()}.items()}
