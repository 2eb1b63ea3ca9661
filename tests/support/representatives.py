"""Representative cases for ``make test``; ``make soak`` runs the remaining ones."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any

import pytest


def representatives(cases: Iterable[Any], chosen: Collection[Any]) -> list[Any]:
    """Mark all cases except the chosen ones for soak; a case is one parameter value, or a tuple of several."""
    listed = list(cases)
    unknown = [case for case in chosen if case not in listed]
    if unknown or not chosen:
        raise ValueError(f"{unknown or 'nothing'} was chosen; representatives must be some of the cases: {listed}")
    return [
        case
        if case in chosen
        else pytest.param(*(case if isinstance(case, tuple) else (case,)), marks=pytest.mark.soak)
        for case in listed
    ]
