"""The compiled part of synthesis.

tables      what kernels pass around
calendars   when links are busy, and how full finite buffers are
heap        a heap of (score, tie, device)
search      earliest arrival over the time-expanded network, chunk by chunk
passes      distances, moving transfers up, writing them down
priced      cheapest ways where links have prices
"""

from __future__ import annotations

from pccl.synthesis.kernels.passes import assemble, distances, nearest, number_slots, replay
from pccl.synthesis.kernels.priced import cheapest_loads, priced_distances
from pccl.synthesis.kernels.search import place
from pccl.synthesis.kernels.tables import (
    DONE,
    LANE_FULL,
    NEVER,
    OUTPUT_FULL,
    PAUSED,
    STORE_FULL,
    STUCK,
    Columns,
    Lanes,
    Moves,
    Network,
    Output,
    Stores,
    Tasks,
    Work,
)  # fmt: skip

__all__ = [
    "DONE", "LANE_FULL", "NEVER", "OUTPUT_FULL", "PAUSED", "STORE_FULL", "STUCK", "Columns", "Lanes", "Moves",
    "Network", "Output", "Stores", "Tasks", "Work", "assemble", "cheapest_loads", "distances", "nearest",
    "number_slots", "place", "priced_distances", "replay",
]  # fmt: skip
