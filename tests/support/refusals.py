"""Assertions on errors of explorer's family, by class and contained names, not by wording."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TypeVar

import pytest

import explorer as ex

Refusal = TypeVar("Refusal", bound=ex.ExplorerError)


@contextmanager
def refused(kind: type[Refusal], *names: str) -> Iterator[pytest.ExceptionInfo[Refusal]]:
    """Expect an error of a class with the given value, and the rule or the fix, that contains these names."""
    with pytest.raises(kind) as caught:
        yield caught
    error = caught.value
    assert error.given
    assert error.rule or error.fix, f"{error.given}: neither a rule nor a fix"
    for name in names:
        assert name in str(error)
