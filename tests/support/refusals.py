"""Refusals: errors of explorer's family, known by their class and by the names in them, not by their wording."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TypeVar

import pytest

import explorer as ex

Refusal = TypeVar("Refusal", bound=ex.ExplorerError)


@contextmanager
def refused(kind: type[Refusal], *names: str) -> Iterator[pytest.ExceptionInfo[Refusal]]:
    """Expect an error of a class that says what was given, and the rule or the fix, with these names in them."""
    with pytest.raises(kind) as caught:
        yield caught
    error = caught.value
    assert error.given
    assert error.rule or error.fix, f"{error.given}: neither a rule nor a fix"
    for name in names:
        assert name in str(error)
