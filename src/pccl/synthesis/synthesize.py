"""``synthesize``: from a topology and collectives to a verified algorithm."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from pccl._kernels import kernels_are_cached
from pccl.algorithm import Algorithm, Provenance, verify
from pccl.collective import Collective
from pccl.collective.registry import check_task
from pccl.errors import InternalError, VerificationError
from pccl.settings import Settings
from pccl.synthesis.budget import clock_of
from pccl.synthesis.clock import Clock
from pccl.synthesis.incumbent import Entry, Log
from pccl.synthesis.problem import Progress
from pccl.synthesis.switches import find_plan
from pccl.topology import Topology


def synthesize(
    topology: Topology,
    *collectives: Collective,
    settings: Settings | None = None,
    progress: Progress | None = None,
    log: Log | None = None,
    **overrides: Any,
) -> Algorithm:
    """Find a congestion-free algorithm for all collectives running at the same time.

    Parameters
    ----------
    topology
        The network.
    *collectives
        What runs on it, each in its own process group. Devices outside a group relay its chunks where that helps. Where
        a collective does not say into how many ``chunks`` to cut its shares, that is searched for too.
    settings
        How to search, see :class:`pccl.Settings`: effort, time limit, seed and more.
    progress
        Called with (chunks placed, chunks in all, what is going on) a few times a second.
    log
        Called with an :class:`Entry` whenever something better is found. On Ctrl-C the best so far is returned.
    **overrides
        Single settings by name, such as ``effort="fast"``; they go before those of `settings`.

    Returns
    -------
    Algorithm

    Examples
    --------
    >>> import pccl
    >>> ring = pccl.topology.ring(4, latency="0ns", bandwidth="1GB/s")
    >>> pccl.synthesize(ring, pccl.AllGather(size="4kB", chunks=1))
    Algorithm(all-gather on ring:4: 12 transfers, 2.00 us)
    """
    settings = Settings.read(settings).with_overrides(overrides)
    check_task(topology, collectives)
    for collective in collectives:
        collective.check_pieces(topology)
    clock = clock_of(settings, topology.num_npus)
    progress = progress or _silent
    report = _with_what_is_left(clock, progress)
    if not kernels_are_cached():
        report(0, 1, "compiling kernels, first run only")

    def signed(algorithm: Algorithm, origin: str, interrupted: bool) -> Algorithm:
        aim = f" for {settings.target}" if settings.target else ""
        method = f"{settings.effort}{aim}: {origin}"
        cut_short = clock.is_cut_short or interrupted
        seconds = max(clock.elapsed, 0.0)
        provenance = Provenance(method, settings.seed, seconds, cut_short=cut_short)
        return replace(algorithm, provenance=provenance)

    def tell(entry: Entry) -> None:
        make = entry.algorithm
        # Whoever takes it before the search is over has cut it short.
        whole = None if make is None else lambda: signed(make(), entry.method, True)
        if log is not None:
            log(replace(entry, algorithm=whole))

    with clock.running():
        log_or_none = None if log is None else tell
        plan = find_plan(topology, collectives, settings, report, log_or_none, clock)
    found = replace(plan.algorithm, bound=plan.bound)
    algorithm = signed(found, plan.origin, plan.interrupted)
    if settings.verify:
        chunks = len(algorithm.conditions)
        progress(chunks, chunks, "verifying")
        verify_own(algorithm)
    return algorithm


def verify_own(algorithm: Algorithm) -> None:
    """Verify what was made here; what is wrong with it is a bug of ours, and not a mistake of the user."""
    try:
        verify(algorithm)
    except VerificationError as error:
        text = f"the synthesizer made an algorithm that is wrong: {error}"
        raise InternalError(text) from error


def _with_what_is_left(clock: Clock, progress: Progress) -> Progress:
    """Tell of progress, and how long it may take from now on."""

    def report(done: int, total: int, text: str) -> None:
        left = clock.time_left
        # The first pass is always completed: once there is no time left, nobody knows how long that takes.
        progress(done, total, f"{text}, at most {left:.0f} s left" if left else text)

    return report


def _silent(done: int, total: int, text: str) -> None:
    pass
