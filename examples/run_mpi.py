"""A plan between the ranks of MPI, for a row whose neighbours relay: ``mpiexec -n 4 python examples/run_mpi.py``."""

from __future__ import annotations

import numpy as np
from mpi4py import MPI

import pccl
import pccl.mpi


def main() -> None:
    rank = MPI.COMM_WORLD.Get_rank()
    row = pccl.AllGather("1MiB", group=[0, 1], chunks=4)
    plan = pccl.synthesize(pccl.topology.mesh(2, 2), row)
    all_gather = pccl.mpi.compile(plan)
    if rank not in row.ranks:
        # Those outside the group take part as well, and have no arrays.
        all_gather()
        return
    output = np.zeros(6)
    all_gather(output, np.full(3, 10.0 * rank))
    assert output.tolist() == [0.0] * 3 + [10.0] * 3
    if rank == 0:
        print("rank 0 has", output.tolist())


if __name__ == "__main__":
    main()
