"""``synthesize``: from a topology and collectives to a verified algorithm."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

from numba.core.event import install_timer

from pccl._kernels import kernels_are_cached
from pccl.algorithm import Algorithm, Provenance
from pccl.algorithm import verify as check
from pccl.collective import Collective
from pccl.collective.registry import check_task
from pccl.errors import InternalError, VerificationError
from pccl.settings import Settings
from pccl.synthesis.incumbent import Log
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
    begin = time.perf_counter()
    settings = Settings.read(settings).with_overrides(overrides)
    check_task(topology, collectives)
    for collective in collectives:
        collective.check_pieces(topology)
    report = progress or _silent
    if not kernels_are_cached():
        report(0, 1, "compiling kernels, first run only")
    compiling: list[float] = []
    with install_timer("numba:compile", compiling.append):
        plan = find_plan(topology, collectives, settings, report, log)
    seconds = time.perf_counter() - begin - sum(compiling)
    aim = f" for {settings.target}" if settings.target else ""
    method = f"{settings.effort}{aim}: {plan.origin}"
    provenance = Provenance(method, settings.seed, max(seconds, 0.0))
    algorithm = replace(plan.algorithm, provenance=provenance, bound=plan.bound)
    if settings.verify:
        chunks = len(algorithm.conditions)
        report(chunks, chunks, "verifying")
        try:
            check(algorithm)
        except VerificationError as error:
            text = f"the synthesizer made an algorithm that is wrong: {error}"
            raise InternalError(text) from error
    return algorithm


def _silent(done: int, total: int, text: str) -> None:
    pass
