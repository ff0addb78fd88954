"""A tour in a few seconds: process groups that share a network, synthesized, verified, and compared.

Run it with ``make demo`` or ``python examples/demo.py``.
"""

from __future__ import annotations

import time

import pccl


def tell(done: int, total: int, text: str) -> None:  # noqa: ARG001
    if "compiling" in text:
        print(f"   ({text}: it takes some seconds)\n", flush=True)


def main() -> None:
    mesh = pccl.topology.mesh(8, 8, bandwidth="50GB/s", latency="500ns")
    print("1. Two process groups of an 8x8 mesh at the same time: an All-to-All in row 0, an All-Gather in row 1\n")
    row_0, row_1 = pccl.device_mesh(row=8, column=8).groups("column")[:2]
    alltoall = pccl.AllToAll(size="8MiB", group=row_0, chunks=2)
    allgather = pccl.AllGather(size="8MiB", group=row_1, chunks=2)
    algorithm = pccl.synthesize(mesh, alltoall, allgather, progress=tell)
    print(algorithm.summary(), "\n")

    print("2. What process groups gain when the rest of the network helps (one row of the mesh, alone)\n")
    print(f"   {'collective':<16}{'row only':>12}{'whole mesh':>12}{'speed-up':>10}")
    for collective in (
        alltoall,
        pccl.AllGather(size="8MiB", group=row_0, chunks=2),
        pccl.AllReduce(size="8MiB", group=row_0, chunks=2),
    ):
        confined = pccl.synthesize(mesh.restrict(row_0), collective)
        free = pccl.synthesize(mesh, collective)
        print(
            f"   {collective.kind:<16}{confined.duration / 1e6:>9.1f} us{free.duration / 1e6:>9.1f} us"
            f"{confined.duration / free.duration:>9.2f}x"
        )

    print("\n3. All-to-All among all 512 NPUs of an 8x8x8 mesh (the paper's synthesizer: 11.68 minutes)\n")
    cube = pccl.topology.mesh(8, 8, 8, bandwidth="50GB/s", latency="500ns", exclusive=True)
    begin = time.perf_counter()
    big = pccl.synthesize(cube, pccl.AllToAll(size="512MiB"))
    seconds = time.perf_counter() - begin
    steps = big.duration / int(big.transfers.arrival[0] - big.transfers.start[0])
    print(f"   {len(big.transfers):,} transfers, found and verified in {seconds:.1f} s,")
    print(f"   {steps:,.0f} steps, where the middle cut of the mesh proves that no algorithm needs fewer than 1,024")


if __name__ == "__main__":
    main()
