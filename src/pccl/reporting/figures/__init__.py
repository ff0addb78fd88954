"""Pictures of algorithms and topologies, in SVG, PNG or PDF.

registry   plot() and the kinds of figures; matplotlib is imported when one is drawn
network    topology and heatmap, on the network itself
time       utilization and timeline
sizes      time and bandwidth over sizes
ten        the time-expanded network
style      what all of them share: colours, paper, legends, saving
"""

from __future__ import annotations

from pccl.reporting.figures.registry import FIGURES, SUFFIXES, FigureKind, find_figure, plot

__all__ = ["FIGURES", "SUFFIXES", "FigureKind", "find_figure", "plot"]
