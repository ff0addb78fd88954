"""How it is found: chunks placed on the time-expanded network, by several methods, until the result is proven good.

kernels/     what is compiled: searches, flooding, re-timing
bounds/      what no algorithm can beat
ten          what the kernels see of a topology: arcs, calendars, buffers
orders       in which order chunks are placed
jobs         from conditions to jobs, reductions mirrored
placement    jobs onto the TEN, and reductions turned round
flooding     all jobs at once
retiming     routes scheduled again
problem      what every method starts from
methods      one try, and its polish
learning     what the next try takes from the best
strategies   which methods to try, and how much
chunking     into how many chunks
solver       tries, keeps the best, stops
driver       synthesize()
"""

from __future__ import annotations

from pccl.synthesis.driver import synthesize
from pccl.synthesis.solver import Entry

__all__ = ["Entry", "synthesize"]
