"""How it is found: chunk by chunk, each as early as the time-expanded network lets it.

kernels/    the search itself, compiled
ten         what the kernels see of a topology: arcs, calendars, buffers
orders      in which order chunks are placed
jobs        from conditions to jobs, reductions mirrored
placement   jobs onto the TEN, and reductions turned round
driver      synthesize()
"""

from __future__ import annotations

from pccl.synthesis.driver import synthesize

__all__ = ["synthesize"]
