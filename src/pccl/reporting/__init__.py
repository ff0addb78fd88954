"""Algorithms to look at.

figures/   plot(): pictures in SVG, PNG or PDF, drawn with matplotlib
page/      report(): an HTML page with everything about an algorithm
layouts/   arrange(): where devices and links are drawn, for both of them
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from pccl.reporting.figures import plot

if TYPE_CHECKING:
    from pccl.reporting.layouts import Drawing, Frame, arrange
    from pccl.reporting.page import report

__all__ = ["Drawing", "Frame", "arrange", "plot", "report"]


def __getattr__(name: str) -> Any:
    # Listing figures for the command line must not wait for NumPy, which everything else needs.
    if name in __all__:
        package = "page" if name == "report" else "layouts"
        return getattr(import_module(f"pccl.reporting.{package}"), name)
    raise AttributeError(f"module 'pccl.reporting' has no attribute {name!r}")
