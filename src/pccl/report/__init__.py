"""Algorithms to look at.

figures    what plot() draws, in SVG, PNG or PDF; figures_* do the drawing, with matplotlib
layout     where to draw devices and links; layouts/ holds one module per family of networks
html       report(): a page with everything about an algorithm, made by the modules html_* and assets/

Calling the package writes a report: ``pccl.report(algorithm, "report.html")``.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from types import ModuleType
from typing import Any

from pccl.report.figures import plot
from pccl.report.html import report
from pccl.report.layout import Frame, Layout, layout

__all__ = ["Frame", "Layout", "layout", "plot", "report"]


class _Callable(ModuleType):
    """A module that can be called, since ``pccl.report`` names both the package and the verb."""

    def __call__(self, *args: Any, **kwargs: Any) -> Mapping[str, str]:
        return report(*args, **kwargs)


sys.modules[__name__].__class__ = _Callable
