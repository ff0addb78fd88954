"""Small problems that reach all kernels, as plain Python; prints the kernels that were never called, if any.

With ``PCCL_CHECK_KERNELS=1`` in the environment, as `test_kernels.py` runs it, no kernel may read what is not there.
"""

from __future__ import annotations

import contextlib
import tempfile
from importlib import import_module
from pathlib import Path

import numpy as np

import pccl
from pccl._checked import CALLED, KERNELS
from pccl.bounds import rising
from pccl.bounds.patience import Patience
from pccl.formats.lowering import lower
from pccl.formats.mscclpp.batches import single
from pccl.formats.mscclpp.joining import Joining
from pccl.schemes.registry import SCHEMES
from pccl.schemes.workload import UnsupportedError
from pccl.synthesis.improve import reroute, retimed
from pccl.synthesis.methods import METHODS, guided_kernels, mirrored
from pccl.synthesis.methods.messages import within_limits
from pccl.synthesis.schedule import Schedule
from pccl.topology import parse_topology
from tests.algorithm.examples import PAIR
from tests.algorithm.examples import schedule as written
from tests.analysis.test_simulator import swap
from tests.synthesis.posing import pose

UNEVEN = pccl.AllToAllV(matrix=((0, 103, 7, 0), (5, 0, 99, 1), (12, 77, 0, 8), (40, 0, 3, 0)))
COLLECTIVES = (
    pccl.AllToAll("4kB", chunks=2),
    pccl.AllGather("4kB", chunks=2),
    pccl.AllReduce("4kB", chunks=1),
    pccl.Broadcast("4kB", root=0, chunks=3),
    UNEVEN,
)
# What links can do, and what switches can: plain ones pass messages on one by one.
NETWORKS = (
    "mesh:2x2,exclusive=yes", "ring:4,gap=1us", "switch:4", "switch:4,buffer=1",
    "switch:4,multicast=yes,reduce=yes", "switch:4,buffer=2,multicast=yes,reduce=yes",
)  # fmt: skip
FORMATS = {"msccl": "xml", "mscclpp": "json", "chakra": "et", "perfetto": "pftrace"}


def main() -> None:
    mirrored.WORK = 2_000
    reroute.ROUND = 3_000
    for name in NETWORKS:
        for collective in COLLECTIVES:
            topology = parse_topology(name)
            used(planned(topology, collective))
            run_otherwise(topology, collective)
    machines()
    what_is_rare()


def planned(topology: pccl.Topology, collective: pccl.Collective) -> Schedule:
    """The best of what all methods find, improved a little."""
    problem = pose(topology, collective)
    methods = [one.usual(problem) for one in METHODS.values() if one.refusal(problem) is None]
    schedules = [method.find(problem) for method in methods]
    best = min(schedules, key=lambda schedule: schedule.duration)
    timed = retimed(best, passes=1, enough=0)
    found = reroute.rerouted(timed, enough=0, budget=5_000, seed=0, minimal=False)
    return within_limits(found) if topology.limited else found


def used(schedule: Schedule) -> None:
    """Verified, simulated and exported."""
    algorithm = schedule.algorithm()
    pccl.verify(algorithm)
    pccl.simulate(algorithm)
    with contextlib.suppress(pccl.InfeasibleError):  # chunks may block each other
        pccl.simulate(algorithm, "fifo", jitter=0.5)
    with tempfile.TemporaryDirectory() as folder:
        for name, suffix in FORMATS.items():
            with contextlib.suppress(pccl.PcclError):  # not for every collective
                pccl.export(algorithm, Path(folder) / f"plan.{suffix}", name)


def run_otherwise(topology: pccl.Topology, collective: pccl.Collective) -> None:
    """By all schemes."""
    for scheme in SCHEMES:
        with contextlib.suppress(UnsupportedError):
            pccl.baseline(scheme.name, topology, collective)


def machines() -> None:
    """Boxes of NPUs, also with switches that add and multiply."""
    for name in ("h100:1", "h100:1,nvls=yes"):
        pccl.synthesize(parse_topology(name), pccl.AllReduce("8kB", chunks=1), effort="fast")
        pccl.baseline(
            "nvls" if "nvls" in name else "nccl-tree", parse_topology(name), pccl.AllReduce("8kB")
        )


def what_is_rare() -> None:
    """Chunks that wait in a circle, a sum that is wrong, messages that are joined, and what only large networks do."""
    pccl.simulate(swap(), slowdown={6: 50.0})
    twice = written(
        PAIR, pccl.Reduce("1kB", root=1, chunks=1), (0, 0, 1, 0, "add"), (0, 0, 1, 1, "add")
    )
    with contextlib.suppress(pccl.VerificationError):
        pccl.verify(twice)
    plan = pccl.synthesize(
        parse_topology("ring:4"), pccl.AllReduce("4MiB", chunks=4), effort="fast"
    )
    singles = single(lower(plan, collective=0, in_place=False, all_ranks=True), 4)
    Joining(singles, np.full(4, 1_000)).within(np.zeros(4, np.int64))
    rising.RELAXATIONS = 1
    square = parse_topology("mesh:2x2")
    demand = np.ones((4, 4)) - np.eye(4)
    rising.by_rising(square, demand, np.ones(8), np.ones(8), Patience())
    # One of two prices that a device has had, as a heap that runs full would find them.
    heap = np.array([1.0, 2.0]), np.array([3, 3])
    guided_kernels.without_stale(*heap, np.full(4, 1.0), 2)


if __name__ == "__main__":
    sources = Path(pccl.__file__).parents[1]
    for source in sources.rglob("*kernels.py"):
        import_module(".".join(source.relative_to(sources).with_suffix("").parts))
    main()
    print(*sorted(KERNELS - CALLED), sep="\n")
