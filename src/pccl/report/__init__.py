"""Algorithms to look at.

figures    what plot() draws, in SVG, PNG or PDF; figures_* do the drawing, with matplotlib
layout     where to draw devices and links; layouts/ holds one module per family of networks
"""

from __future__ import annotations

from pccl.report.figures import plot
from pccl.report.layout import Frame, Layout, layout

__all__ = ["Frame", "Layout", "layout", "plot"]
