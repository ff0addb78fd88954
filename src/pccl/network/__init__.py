"""What stands below synthesis and analysis: a topology as arcs, distances over them, and calendars of what is taken.

graph      arcs with whole times; distances by time or by price
calendar   the time-expanded network: when links are busy, how full finite buffers are
"""

from __future__ import annotations

from pccl.network.calendar import Ten
from pccl.network.graph import (
    LONGEST,
    arc_of_link,
    few_sizes,
    network,
    no_way,
    price_table,
    steps_help,
    times_from_nearest,
    unloaded_times,
)
from pccl.network.graph_kernels import NEVER, Network

__all__ = [
    "LONGEST",
    "NEVER",
    "Network",
    "Ten",
    "arc_of_link",
    "few_sizes",
    "network",
    "no_way",
    "price_table",
    "steps_help",
    "times_from_nearest",
    "unloaded_times",
]
