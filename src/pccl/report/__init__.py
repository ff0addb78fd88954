"""Algorithms to look at.

layout     where to draw devices and links; layouts/ holds one module per family of networks
"""

from __future__ import annotations

from pccl.report.layout import Frame, Layout, layout

__all__ = ["Frame", "Layout", "layout"]
