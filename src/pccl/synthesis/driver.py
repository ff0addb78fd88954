"""``synthesize``: from a topology and collectives to a verified algorithm."""

from __future__ import annotations

import time

from numba.core.event import install_timer

from pccl._kernels import kernels_are_cached
from pccl.algorithm import Algorithm, Provenance
from pccl.algorithm import verify as check
from pccl.collective import Collective, compile_conditions
from pccl.errors import InternalError, PcclError, VerificationError
from pccl.synthesis.methods import assembled
from pccl.synthesis.problem import Report
from pccl.synthesis.solver import Best, Log, Solver
from pccl.synthesis.strategies import asked_for
from pccl.topology import Topology
from pccl.units import whole

__all__ = ["synthesize"]


def synthesize(
    topology: Topology,
    *collectives: Collective,
    effort: str = "balanced",
    time_limit: float | None = None,
    gap: float | None = None,
    seed: int = 0,
    method: str | None = None,
    order: str | None = None,
    routes: str | None = None,
    verify: bool = True,
    progress: Report | None = None,
    log: Log | None = None,
) -> Algorithm:
    """Find a congestion-free algorithm for all collectives running at the same time.

    Parameters
    ----------
    topology
        The network.
    *collectives
        What runs on it, each in its own process group. Devices outside a group relay its chunks where that helps. Where
        a collective does not say into how many ``chunks`` to cut its shares, that is searched for too.
    effort
        ``"fast"``: one pass of the method that promises most. ``"balanced"``: other methods, knobs and orders as well,
        until the gap to the bound is below 1 % or nothing more is gained. ``"thorough"``: many more of them.
    time_limit
        Seconds after which the best so far is returned; the first pass is always completed. With a limit, the result
        depends on the speed of the machine.
    gap
        Stop when the duration exceeds the lower bound by no more than this share: ``0.05`` for 5 %.
    seed
        Breaks ties among equally distant chunks. The same input, seed and effort give the same algorithm, bit for bit.
    method
        ``"earliest-arrival"`` (the paper's), ``"price-guided"`` or ``"flooding"``; by default whichever does best.
    order
        In which chunks are placed: ``"farthest-first"`` (the paper's), ``"rounds"`` or ``"random"``.
    routes
        ``"minimal"`` to keep chunks with one destination on shortest routes, ``"any"`` to allow detours.
    verify
        Whether to have the verifier check the result.
    progress
        Called with (chunks placed, chunks in all, what is going on) a few times a second.
    log
        Called with an :class:`Entry` whenever something better is found. On Ctrl-C the best so far is returned.

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
    asked = asked_for(effort, gap, method, order, routes, time_limit)
    if not isinstance(topology, Topology):
        raise PcclError(
            f"the topology is {topology!r}; make one with pccl.topology, for example parse_topology('mesh:8x8')"
        )
    if whole(seed) is None or seed < 0:
        raise PcclError(f"the seed must be a whole number from 0 on, not {seed!r}")
    report = progress or _silent
    compile_conditions(topology, collectives)  # refuses what cannot be done
    if progress is not None and not kernels_are_cached():
        report(0, 1, "compiling kernels, first run only")
    compiling: list[float] = []
    with install_timer("numba:compile", compiling.append):
        best = Solver(topology, collectives, seed, report, asked, log, begin).solve()
    seconds = time.perf_counter() - begin - sum(compiling)
    return _built(
        topology,
        best,
        Provenance(f"{effort}: {best.solution}", seed, max(seconds, 0.0)),
        verify,
        report,
    )


def _built(
    topology: Topology, best: Best, provenance: Provenance, verify: bool, report: Report
) -> Algorithm:
    conditions = best.problem.conditions
    columns = assembled(best.solution, len(conditions))
    algorithm = Algorithm.build(
        topology, best.collectives, *columns, provenance=provenance, conditions=conditions
    )
    if verify:
        report(len(conditions), len(conditions), "verifying")
        try:
            check(algorithm)
        except VerificationError as error:
            raise InternalError(
                f"the synthesizer made an algorithm that is wrong: {error}"
            ) from error
    return algorithm


def _silent(done: int, total: int, text: str) -> None:
    pass
