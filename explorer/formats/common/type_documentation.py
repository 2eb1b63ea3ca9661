"""Short documentation of operator types, from the text of a standard or from the docstrings of operator tables."""

from __future__ import annotations

import inspect
import re
from functools import lru_cache

from explorer.net.operators.table import OperatorTable

_SUMMARY = 300
"""maximum number of characters of a summary"""
_SHORT = 50
"""minimum number of characters of a summary that has a second sentence"""
_TAG = re.compile(r"</?[a-z]+ */?>")
_LINK = re.compile(r"\[([^\]]*)\]\([^)]*\)")
_SENTENCE = re.compile(r"(?<=[.!?]) +(?=[A-Z])|(?<=[a-z]{5}\.) +")
"""space between two sentences, which may begin with a lower-case letter, unless it follows an abbreviation"""


@lru_cache(maxsize=4096)
def summary(text: str) -> str:
    """Return the first sentence of a documentation, or two if the first is short, without markup."""
    paragraph = re.split(r"```|\n *\n", text.strip(), maxsplit=1)[0]
    plain = " ".join(_LINK.sub(r"\1", _TAG.sub(" ", paragraph)).replace("`", "").replace("**", "").split())
    first, *others = _SENTENCE.split(plain)
    if others and len(first) < _SHORT:
        first = f"{first} {others[0]}"
    return first if len(first) <= _SUMMARY else first[:_SUMMARY].rpartition(" ")[0] + " …"


def texts(text: str) -> tuple[str, str]:
    """Return the summary of a documentation, and the documentation, which is "" if it is only the summary."""
    first = summary(text)
    return first, "" if " ".join(text.replace("`", "").split()) == first else text


def docstring_texts(table: OperatorTable, type: str) -> tuple[str, str]:
    """Return the summary and the text of the docstring of a type's builder, "" if there is none."""
    builder, signature = table.get(type), table.signature(type)
    # A function that is registered for several types may receive its docstring after its registration.
    return texts(inspect.cleandoc((builder and builder.__doc__) or (signature and signature.function.__doc__) or ""))
