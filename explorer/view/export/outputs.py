"""Notebook outputs: ``ex.outputs`` selects which parts all cells store along with the widget and the text."""

from __future__ import annotations


class Outputs:
    """Parts of a view's output; each can be omitted with ``ex.outputs.pictures = False`` in the first cell.

    Raise TypeError for a value that is not a bool, AttributeError for another name.
    """

    __slots__ = ("pictures", "png", "views")

    def __init__(self) -> None:
        self.pictures = True
        """the static picture, as SVG and as an image, for readers without this package"""
        self.png = False
        """the picture as PNG instead of SVG, as LaTeX and PDF need; requires the package resvg-py"""
        self.views = True
        """the stored view, which JupyterLab steps through without a kernel"""

    def __setattr__(self, name: str, value: bool) -> None:
        if name in self.__slots__ and type(value) is not bool:
            raise TypeError(f"ex.outputs.{name} must be True or False, not {value!r}")
        super().__setattr__(name, value)

    def __repr__(self) -> str:
        return f"<outputs of notebooks: pictures={self.pictures}, png={self.png}, views={self.views}>"


outputs = Outputs()
