"""Logs as nccl-tests writes them, made by our simulator on networks with a hidden fault."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from pccl import simulate
from pccl.collective import COLLECTIVES
from pccl.doctor import Expectation, Fault
from pccl.doctor.expectation import Run, best_of_nccl
from pccl.topology import Topology

PROGRAMS = {"all-reduce": "all_reduce", "all-gather": "all_gather", "all-to-all": "alltoall"}


def log_of(
    expectation: Expectation,
    kind: str,
    sizes: Sequence[int],
    *,
    group: Sequence[int] | None = None,
    fault: Fault | None = None,
    factor: float = 1.0,
    seed: int = 0,
    scatter: float = 0.01,
    start: float = 5e-6,
) -> str:
    """What nccl-tests would print; with an infinite factor the links of the fault are gone, and NCCL knows."""
    topology = expectation.topology
    members = tuple(topology.npus.tolist() if group is None else group)
    run = Run(kind, members, tuple(sizes))
    dice = np.random.default_rng(seed)
    seconds = []
    for size in sizes:
        time = _time(expectation, run, size, fault, factor, seed)
        # Starting costs something, and everything scatters; networks are a little slower than they should be.
        seconds.append((1.03 * time + start) * dice.normal(1, scatter))
    return text_of(topology, run, seconds)


def _time(
    expectation: Expectation, run: Run, size: int, fault: Fault | None, factor: float, seed: int
) -> float:
    topology = expectation.topology
    if fault is not None and np.isinf(factor):
        left = topology.without(links=fault.links)
        return int(best_of_nccl(left, run.collective(size)).duration) / 1e12
    world = topology if fault is None else fault.slowed(topology, factor)
    # In the planned order and with jitter, where the doctor expects first come, first served, and none.
    done = simulate(expectation.plan(run, size), topology=world, jitter=0.02, seed=seed)
    return int(done.finish) / 1e12


def text_of(topology: Topology, run: Run, seconds: Sequence[float]) -> str:
    """The text around the figures."""
    members = len(run.group)
    per_box = topology.shape[-1] if len(topology.shape) > 1 else topology.num_npus
    lines = [
        "# nccl-tests version 2.17.1 nccl-headers=22803 nccl-library=22803",
        f"# Collective test starting: {PROGRAMS[run.kind]}_perf",
        "# nThread 1 nGpus 1 minBytes 8 maxBytes 1073741824 step: 4(factor) warmup iters: 1 iters: 20",
        "#",
        "# Using devices",
    ]
    for rank, npu in enumerate(run.group):
        where = f"node{npu // per_box + 1} device {npu % per_box:2d} [0x{npu % per_box:02x}] NVIDIA H100"
        lines.append(f"#  Rank {rank:2d} Group  0 Pid {1000 + rank} on {where}")
    lines += [
        "#",
        "#                                        out-of-place                       in-place",
        "#       size   count   type  redop  root     time   algbw   busbw #wrong     time   algbw   busbw #wrong",
        "#        (B)  (elements)                     (us)  (GB/s)  (GB/s)            (us)  (GB/s)  (GB/s)",
    ]
    factor = COLLECTIVES[run.kind]("1MiB").bus_factor(members)
    operation = "sum" if run.kind == "all-reduce" else "none"
    for size, time in zip(run.sizes, seconds, strict=True):
        rate = size / time / 1e9
        figures = f"{time * 1e6:9.2f} {rate:7.2f} {rate * factor:7.2f}"
        lines.append(f"{size:12d} {size // 4:9d} float {operation:>6} -1 {figures} 0 {figures} N/A")
    lines += ["# Out of bounds values : 0 OK", "# Avg bus bandwidth    : 12.3456", "#"]
    return "\n".join(lines) + "\n"
