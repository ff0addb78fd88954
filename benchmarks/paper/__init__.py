"""The figures of the PCCL paper, made again: ``python -m benchmarks.paper``.

One module for each figure or example of the paper that states a number. Each has a ``TITLE``, the ``CHOICES`` that the
paper leaves open, ``run() -> rows``, ``claims(rows)``, which sets our numbers beside the paper's, and
``draw(rows, path)``.

setting    the network model, the groups, and the ways to run a collective that the modules compare
figures    how the figures look
page       the page that shows it all
"""

from __future__ import annotations

from importlib import import_module
from types import ModuleType

MODULES = (
    "synthesis_time",
    "collective_size",
    "switch_2d",
    "mesh_all_to_all",
    "worked_example",
    "group_bandwidth",
    "heat_map",
    "utilization",
    "group_count",
)


def module(name: str) -> ModuleType:
    """The module of this name."""
    return import_module(f"benchmarks.paper.{name}")
