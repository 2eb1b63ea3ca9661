"""Wrong names and wrong kinds of argument: near names only, and what to do."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import explorer as ex


@pytest.mark.parametrize("function", [np.median, np.nonzero, np.trace])
def test_functions_that_are_not_recorded_are_told_to_evaluate(function: Any) -> None:
    with pytest.raises(ex.ExplorerError) as caught:
        function(ex.tensor(np.ones((3, 3))))
    assert caught.value.fix.endswith(f"evaluate first: np.{function.__name__}(ex.evaluate(x))")
    assert "subtract" not in str(caught.value)
    assert "absolute" not in str(caught.value)


def test_only_near_names_are_listed() -> None:
    many = [f"operation{index}" for index in range(20)]
    assert "operation7" in ex.UnknownNameError("operatoin7", kind="operation", known=many).rule
    assert ex.UnknownNameError("zzz", kind="operation", known=many).rule == "none of the 20 known names is near"
    assert ex.UnknownNameError("zzz", kind="record", known=["b", "a"]).rule == "known: a, b"


def test_near_names_come_nearest_first_and_names_that_hold_it_last() -> None:
    known = ["conv2", "conv10", "layer1.conv.weight", "1", "2", "pool", *[f"blob{index}" for index in range(20)]]
    assert ex.UnknownNameError("conv", kind="name", known=known).rule.startswith(
        "known: conv2, conv10, layer1.conv.weight …"
    )
    assert ex.UnknownNameError("blob", kind="name", known=known).rule.startswith("known: blob0, blob1, blob2, ")
    assert ex.UnknownNameError("CONV.W", kind="name", known=known).rule.startswith("known: layer1.conv.weight …")


def test_open_refuses_folders_and_what_is_no_path(tmp_path: Path) -> None:
    for wrong in (".", "", "/", tmp_path):
        with pytest.raises(ex.FileError, match="folder"):
            ex.open(wrong)
    with pytest.raises(ex.FileError, match="int is no path"):
        ex.open(3)  # type: ignore[arg-type]


def test_function_takes_a_function() -> None:
    with pytest.raises(ex.DeclarationError, match="int"):
        ex.function(3)  # type: ignore[call-overload, arg-type]
