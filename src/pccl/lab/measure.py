"""Plans and baselines on the same network in a box: what was planned, and what it takes on real TCP."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from pccl.algorithm import Algorithm
from pccl.analysis import baseline, simulate
from pccl.analysis.baselines import find_baseline
from pccl.errors import PcclError, RunError
from pccl.lab.box import in_box
from pccl.lab.ranks import Task, run_tasks
from pccl.lab.wiring import Wiring
from pccl.runtime import scripts_of
from pccl.topology import Topology
from pccl.units import whole

# What is written for any network, and leaves the ways to the routers. All others choose ways by themselves.
_ROUTED = {"direct", "direct-ascending", "ring", "halving-doubling", "double-tree", "bruck"}
# Seconds after which a rank gives up waiting for another, and what a run may take besides what was planned.
_PATIENCE = 20.0
_START = 30.0


@dataclass(frozen=True)
class Row:
    """One plan or baseline, as planned and as measured.

    Attributes
    ----------
    name
        ``"plan"``, or the name of the baseline.
    planned
        Seconds that it takes by the model, on links as fast as those of the box, without latency.
    seconds
        Of every run.
    """

    name: str
    planned: float
    seconds: tuple[float, ...]

    @property
    def best(self) -> float:
        """Seconds of the best run: whatever else the machine does makes runs longer, and nothing makes them shorter."""
        return min(self.seconds)

    @property
    def ratio(self) -> float:
        """How many times as long as planned the best run took."""
        return self.best / self.planned if self.planned else 1.0


def measure(
    plan: Algorithm,
    *,
    rate: str | None = None,
    scale: float | None = None,
    against: Sequence[str] = (),
    runs: int = 5,
) -> list[Row]:
    """Run a plan, and baselines for the same collectives, in a box.

    Parameters
    ----------
    plan
        Any; its messages go from neighbour to neighbour, in the planned order.
    rate, scale
        How fast links are; see :meth:`Wiring.of`.
    against
        Baselines by name.
    runs
        How often each is measured, after one run that is not but is checked, element by element.

    Examples
    --------
    >>> import pccl
    >>> from pccl.lab import measure, why_not
    >>> row = pccl.AllToAll("256KiB", group=range(4, 8), chunks=4)
    >>> plan = pccl.synthesize(pccl.topology.mesh(4, 4), row, effort="fast")
    >>> if why_not() is None:
    ...     rows = measure(plan, rate="80mbit", against=["direct"], runs=1)
    ...     assert [row.name for row in rows] == ["plan", "direct"]
    """
    if whole(runs) is None or runs < 1:
        raise PcclError(f"the number of runs must be a whole number from 1 on, not {runs!r}")
    wiring = Wiring.of(plan.topology, rate=rate, scale=scale)
    names = ["plan"]
    planned = [int(simulate(plan, topology=wiring.topology).finish) / 1e12]
    tasks = [Task(scripts_of(plan), hop_by_hop=True)]
    for name in against:
        modelled = baseline(name, wiring.topology, *plan.collectives)
        names.append(name)
        planned.append(int(modelled.duration) / 1e12)
        tasks.append(_task(name, modelled))
    patience = _PATIENCE + 5 * max(planned)
    timeout = _START * len(tasks) + 5 * sum(planned) * (runs + 1)
    found = in_box(wiring, run_tasks, tasks, runs, patience, timeout=timeout)
    for name, times in zip(names, found, strict=True):
        if times.wrong:
            raise RunError(f"{name}: {times.wrong} elements are wrong")
    return [
        Row(name, time, tuple(times.seconds))
        for name, time, times in zip(names, planned, found, strict=True)
    ]


def _task(name: str, modelled: Algorithm) -> Task:
    """What ranks do for a baseline."""
    if name not in _ROUTED:
        return Task(scripts_of(modelled), hop_by_hop=True)
    everywhere = _all_pairs(modelled.topology)
    ends = find_baseline(name).run(everywhere, modelled.collectives)
    return Task(scripts_of(ends), hop_by_hop=False)


def _all_pairs(topology: Topology) -> Topology:
    """The same NPUs with a link from each to each: what a network looks like to those who leave ways to routers."""
    npus = topology.npus
    src = np.repeat(npus, len(npus))
    dst = np.tile(npus, len(npus))
    apart = src != dst
    nothing = np.zeros(np.count_nonzero(apart), np.int64)
    return topology.derived(
        name=f"{topology.name}, routed",
        src=src[apart].astype(np.int32),
        dst=dst[apart].astype(np.int32),
        bandwidth=np.full(len(nothing), int(topology.bandwidth.min())),
        latency=nothing,
        gap=nothing,
        exclusive=nothing.astype(np.bool_),
        shape=(len(npus),),
    )
