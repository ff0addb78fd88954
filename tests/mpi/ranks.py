"""Runs plans on the ranks that mpiexec starts, and has rank 0 print how many elements are wrong, plan by plan.

``mpiexec -n 4 python -m tests.mpi.ranks``; with ``die``, rank 2 goes away while others wait for it, and with ``differ``
it has another plan than they.
"""

from __future__ import annotations

import json
import os
import sys

import numpy as np
from mpi4py import MPI

import pccl
import pccl.mpi
from pccl.runtime.checking import trial_buffers, trials

NETWORK = pccl.topology.mesh(2, 2)
# Collectives, their elements, the operation, and the type.
CASES = [
    ([pccl.AllReduce("4kB", chunks=2)], [37], "sum", "int32"),
    ([pccl.AllGather("4kB")], [10], "sum", "bfloat16"),
    ([pccl.ReduceScatter("4kB")], [30], "avg", "float32"),
    ([pccl.AllToAll("4kB", group=[0, 1], chunks=4)], [50], "sum", "float64"),
    ([pccl.AllReduce("4kB", group=pair) for pair in ([0, 1], [2, 3])], [9, 8], "max", "float16"),
    ([pccl.Broadcast("4kB", root=3)], [100_000], "sum", "uint8"),
]


def wrong(collectives, elements, op, dtype):
    """Run the collectives at once; how many elements of this rank are wrong."""
    run = pccl.mpi.compile(pccl.synthesize(NETWORK, *collectives, effort="fast"))
    found = trials(run.scripts, elements, op=op, dtype=dtype)
    rank = MPI.COMM_WORLD.Get_rank()
    mine = trial_buffers(run.scripts, found)[rank]
    run([pair.output for pair in mine], [pair.input for pair in mine], op=op)
    part = [trial for trial in found if rank in trial.members]
    return sum(
        trial.wrong(trial.members.index(rank), pair.output)
        for trial, pair in zip(part, mine, strict=True)
    )


def main():
    rank = MPI.COMM_WORLD.Get_rank()
    if "die" in sys.argv:
        run = pccl.mpi.compile(pccl.synthesize(NETWORK, pccl.AllReduce("4kB")))
        if rank == 2:
            os._exit(7)
        run(np.zeros(5), np.ones(5))
        return
    if "differ" in sys.argv:
        size = "8kB" if rank == 2 else "4kB"
        try:
            pccl.mpi.compile(pccl.synthesize(NETWORK, pccl.AllReduce(size)))
        except pccl.RunError as error:
            print(error, flush=True)
        return
    counts = [MPI.COMM_WORLD.allreduce(wrong(*case)) for case in CASES]
    if rank == 0:
        print(json.dumps(counts))


if __name__ == "__main__":
    main()
