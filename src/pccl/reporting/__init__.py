"""Algorithms to look at.

figures    what plot() draws, in SVG, PNG or PDF; figures_* do the drawing, with matplotlib
layout     where to draw devices and links; layouts/ holds one module per family of networks
html       report(): a page with everything about an algorithm, made by the modules html_* and assets/
"""

from __future__ import annotations

from pccl.reporting.figures import plot
from pccl.reporting.html import report
from pccl.reporting.layout import Frame, Layout, layout

__all__ = ["Frame", "Layout", "layout", "plot", "report"]
