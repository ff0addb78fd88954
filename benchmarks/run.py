"""Plans of the quality table on real ranks: ``python -m benchmarks.run [--only TEXT] [--effort NAME] [--numpy]``.

Every workload of the table with at most 16 NPUs is synthesized and run on NumPy; on torch with gloo processes if a rank
has at most 2,000 transfers. Every element is checked: integers, and floats of 16 bits. Besides them: a row of a mesh
whose neighbours relay for it, and several groups at once.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator

import numpy as np

import pccl
from benchmarks.quality import Workload, even, workloads
from pccl.runtime import Scripts, run_locally, scripts_of
from pccl.runtime.checking import trial_buffers, trials, wrong_elements
from pccl.runtime.measure import Job
from pccl.runtime.pool import Pool

MOST_NPUS = 16
MOST_TRANSFERS = 2_000
# Few, since it is exactness that counts; not a multiple of anything, so that shares and pieces differ.
ELEMENTS = 4099


def groups() -> Iterator[Workload]:
    mesh = even(pccl.topology.mesh, 4, 4)
    row = range(4, 8)
    rows = [range(4 * row, 4 * row + 4) for row in range(4)]
    kinds = (pccl.AllToAll, pccl.AllGather, pccl.ReduceScatter, pccl.AllReduce)
    for kind in kinds:
        yield Workload(
            "Groups", f"{kind.kind}, a row of 4x4", mesh, lambda _, k=kind: [k("16kB", row, 4)]
        )
        yield Workload(
            "Groups",
            f"{kind.kind}, all rows of 4x4",
            mesh,
            lambda _, k=kind: [k("16kB", r, 4) for r in rows],
        )


def most_transfers(scripts: Scripts) -> int:
    """Of a rank: chunks that it sends or receives."""
    m = scripts.messages
    chunks = np.diff(m.chunk_offsets)
    sent = np.bincount(m.src, chunks, scripts.ranks)
    received = np.bincount(m.dst, chunks, scripts.ranks)
    return int((sent + received).max(initial=0))


def on_numpy(scripts: Scripts, dtype: str) -> int:
    elements = [ELEMENTS] * len(scripts.parts)
    found = trials(scripts, elements, dtype=dtype)
    buffers = trial_buffers(scripts, found)
    run_locally(scripts, buffers, elements=elements)
    return sum(wrong_elements(found, buffers))


def on_gloo(scripts: Scripts, pools: dict[int, Pool]) -> int:
    if scripts.ranks not in pools:
        # One at a time: idle processes are not idle enough.
        for old in list(pools):
            pools.pop(old).close()
        pools[scripts.ranks] = Pool(scripts.ranks, "pccl.torch.measure:connect", timeout=120)
    wrong = 0
    for dtype in ("int32", "bfloat16", "float16"):
        job = Job(((ELEMENTS,) * len(scripts.parts),), dtype=dtype, iterations=1, warmup=0)
        outcomes = pools[scripts.ranks].run("pccl.runtime.measure:measure_rank", scripts, job)
        wrong += sum(sum(row[0].wrong) for row in outcomes)
    return wrong


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument("--only", default="", help="workloads whose section or name contains this")
    parser.add_argument("--effort", default="balanced")
    parser.add_argument("--numpy", action="store_true", help="on NumPy alone")
    asked = parser.parse_args()
    pools: dict[int, Pool] = {}
    bad = 0
    for workload in (*workloads(), *groups()):
        name = f"{workload.section}: {workload.name}"
        topology = workload.topology()
        if asked.only not in name or topology.num_npus > MOST_NPUS:
            continue
        collectives = workload.collectives(topology.num_npus)
        scripts = scripts_of(pccl.synthesize(topology, *collectives, effort=asked.effort))
        busy = most_transfers(scripts)
        begin = time.perf_counter()
        wrong = {dtype: on_numpy(scripts, dtype) for dtype in ("int32", "float16")}
        if busy <= MOST_TRANSFERS and not asked.numpy:
            wrong["gloo"] = on_gloo(scripts, pools)
        bad += sum(wrong.values())
        said = ", ".join(f"{where} {count} wrong" for where, count in wrong.items())
        seconds = time.perf_counter() - begin
        print(
            f"{name}: {scripts.ranks} ranks, at most {busy} transfers, {seconds:.1f} s: {said}",
            flush=True,
        )
    for pool in pools.values():
        pool.close()
    sys.exit(1 if bad else 0)


if __name__ == "__main__":
    main()
