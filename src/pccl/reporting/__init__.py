"""Algorithms to look at.

figures/   plot(): pictures in SVG, PNG or PDF, drawn with matplotlib
page/      report(): an HTML page with everything about an algorithm
layouts/   arrange(): where devices and links are drawn, for both of them
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pccl._lazy import lazy_names
from pccl.reporting.figures import plot

if TYPE_CHECKING:
    from pccl.reporting.layouts import Drawing, Frame, arrange
    from pccl.reporting.page import report

__all__ = ["Drawing", "Frame", "arrange", "plot", "report"]

# Listing figures for the command line must not wait for NumPy, which everything else needs.
__getattr__ = lazy_names(__name__, __all__, ("page", "layouts"))
