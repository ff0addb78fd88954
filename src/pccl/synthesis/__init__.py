"""How it is found: conditions in, one table of routed and timed transfers, algorithms out.

synthesize   synthesize(): the public entry
switches     plans where switches hold few chunks, or can do more than pass them on
fitting      plans that runtimes can take
judging      what plans are judged by
known        schemes that others run, where they are faster
search       phases over a budget and the best so far
incumbent    the best so far, and the log
budget       how much to try, and what is left of it
clock        the time and the work that all searches of a call may take together
chunking     into how many chunks
problem      what every method starts from
roots        where sums are collected
jobs         from conditions to jobs, reductions mirrored
orders       in which order chunks are placed
calls        kernels that come back before they are done
schedule     the one table of routed and timed transfers
methods/     ways to find a schedule
improve/     ways to make one better
"""

from __future__ import annotations

from pccl.synthesis.incumbent import Entry
from pccl.synthesis.synthesize import synthesize

__all__ = ["Entry", "synthesize"]
