"""The compiled part of synthesis.

tables      what kernels pass around
calendars   when links are busy, and how full finite buffers are
heap        a heap of (score, tie, device)
search      earliest arrival over the time-expanded network, chunk by chunk
guided      cheapest trees, where links get dearer with what they carry
flooding    all chunks at once, event by event
placing     tasks one after another, by one search or the other
passes      distances, moving transfers up, writing them down
priced      cheapest ways where links have prices
retiming    routes scheduled again, by rank
rerouting   late chunks, and what is in their way, search anew
"""

from __future__ import annotations

from pccl.synthesis.kernels.flooding import Flood, flood, prune
from pccl.synthesis.kernels.guided import Guide
from pccl.synthesis.kernels.passes import assemble, distances, nearest, number_slots, replay
from pccl.synthesis.kernels.placing import place
from pccl.synthesis.kernels.priced import cheapest_loads, priced_distances
from pccl.synthesis.kernels.rerouting import Routes, Tries, reroute
from pccl.synthesis.kernels.retiming import Queues, Waiting, serve_by_rank, weigh
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
    "DONE", "LANE_FULL", "NEVER", "OUTPUT_FULL", "PAUSED", "STORE_FULL", "STUCK", "Columns", "Flood", "Guide",
    "Lanes", "Moves", "Network", "Output", "Queues", "Routes", "Stores", "Tasks", "Tries", "Waiting", "Work",
    "assemble", "cheapest_loads", "distances", "flood", "nearest", "number_slots", "place", "priced_distances",
    "prune", "replay", "reroute", "serve_by_rank", "weigh",
]  # fmt: skip
