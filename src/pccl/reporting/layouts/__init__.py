"""Where to draw devices and links; one module per family of networks.

drawing    arrange(), which asks the families in turn, and the Drawing that it returns, with the curves of links
sketch     what families return, and the shapes that they are made of
npus       networks without switches: grids, lines, rings, cliques; and anything without order, spread
switches   boxes, stars, trees, groups of routers
"""

from __future__ import annotations

from pccl.reporting.layouts.drawing import Drawing, Frame, arrange, lost_cables

__all__ = ["Drawing", "Frame", "arrange", "lost_cables"]
