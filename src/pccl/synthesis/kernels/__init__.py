"""The compiled part of synthesis.

tables      what kernels pass around
search      earliest arrival over the time-expanded network, chunk by chunk
guided      cheapest trees, where links get dearer with what they carry
flooding    all chunks at once, event by event
placing     tasks one after another, by one search or the other
passes      moving transfers up, writing them down
retiming    routes scheduled again, by rank
rerouting   late chunks, and what is in their way, search anew
"""

from __future__ import annotations

from pccl.synthesis.kernels.flooding import Flood, flood, prune
from pccl.synthesis.kernels.guided import Guide
from pccl.synthesis.kernels.passes import assemble, number_slots, replay
from pccl.synthesis.kernels.placing import place
from pccl.synthesis.kernels.rerouting import Routes, Tries, reroute
from pccl.synthesis.kernels.retiming import Queues, Waiting, serve_by_rank, weigh
from pccl.synthesis.kernels.tables import (
    DONE,
    LANE_FULL,
    OUTPUT_FULL,
    PAUSED,
    STORE_FULL,
    STUCK,
    Columns,
    Moves,
    Output,
    Tasks,
    Work,
)

__all__ = [
    "DONE",
    "LANE_FULL",
    "OUTPUT_FULL",
    "PAUSED",
    "STORE_FULL",
    "STUCK",
    "Columns",
    "Flood",
    "Guide",
    "Moves",
    "Output",
    "Queues",
    "Routes",
    "Tasks",
    "Tries",
    "Waiting",
    "Work",
    "assemble",
    "flood",
    "number_slots",
    "place",
    "prune",
    "replay",
    "reroute",
    "serve_by_rank",
    "weigh",
]
