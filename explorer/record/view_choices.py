"""Themes of views, and the directions in which values flow in them."""

from __future__ import annotations

from typing import Literal, TypeAlias, get_args

Theme: TypeAlias = Literal["auto", "light", "dark"]
THEMES: tuple[Theme, ...] = get_args(Theme)
Direction: TypeAlias = Literal["down", "right"]
DIRECTIONS: tuple[Direction, ...] = get_args(Direction)
