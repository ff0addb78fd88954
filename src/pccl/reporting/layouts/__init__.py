"""Where to draw devices and links; one module per family of networks.

drawing    arrange(), which asks the families in turn, and the Drawing that it returns
sketch     what families return, and the shapes that they are made of
grids      meshes, tori and hypercubes
npus       NPUs joined directly: lines, rings, cube meshes, cliques
switches   stars, trees, groups of routers
boxes      machines of several boxes
spread     anything else
curves     links between devices, and round those in their way
"""

from __future__ import annotations

from pccl.reporting.layouts.drawing import Drawing, arrange
from pccl.reporting.layouts.sketch import Frame

__all__ = ["Drawing", "Frame", "arrange"]
