"""Refusal of settings that are assigned to an object whose steps are planned with the old ones."""

from __future__ import annotations

import reprlib
from typing import Any, NoReturn

from explorer.core.errors import StateError


def refuse_setting(owner: Any, name: str, value: Any, rule: str, fix: str) -> NoReturn:
    """Raise StateError for a setting that would be assigned and then not be used."""
    raise StateError(f"{name} of {owner!r} set to {reprlib.repr(value)}", rule=rule, fix=fix)
