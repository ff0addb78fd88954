"""A tour in a few seconds: process groups that share a network, synthesized, verified, and compared.

Run it with ``make demo`` or ``python examples/demo.py``.
"""

from __future__ import annotations

import time

import pccl
from pccl.lab import measure, why_not
from pccl.runtime.measure import Job, run_in_processes


def tell(done: int, total: int, text: str) -> None:  # noqa: ARG001
    if "compiling" in text:
        print(f"   ({text}: it takes up to a minute)\n", flush=True)


def tell_best(entry: pccl.synthesis.Entry) -> None:
    best, bound = (f"{int(time) / 1e6:.2f} us" for time in (entry.best, entry.bound))
    print(f"   {best:>12}{bound:>12}{entry.gap:>9.1%}   {entry.method}", flush=True)


def main() -> None:
    mesh = pccl.topology.mesh(8, 8, bandwidth="50GB/s", latency="500ns")
    print(
        "1. Two process groups of an 8x8 mesh at the same time: an All-to-All in row 0, an All-Gather in row 1\n"
    )
    row_0, row_1 = pccl.device_mesh(row=8, column=8).groups("column")[:2]
    alltoall = pccl.AllToAll(size="8MiB", group=row_0, chunks=2)
    allgather = pccl.AllGather(size="8MiB", group=row_1, chunks=2)
    quick = pccl.synthesize(mesh, alltoall, allgather, effort="fast", progress=tell)
    print(quick.summary(), "\n")

    print("   That was one pass. With the usual effort, the solver goes on from there:\n")
    print(f"   {'best':>12}{'bound':>12}{'gap':>9}   found by")
    algorithm = pccl.synthesize(mesh, alltoall, allgather, log=tell_best)
    print("\n   No algorithm can be faster than the bound:", algorithm.bound, "\n")

    print(
        "2. What process groups gain when the rest of the network helps (one row of the mesh, alone)\n"
    )
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

    print(
        "\n3. All-to-All among all 512 NPUs of an 8x8x8 mesh (the paper's synthesizer: 11.68 minutes)\n"
    )
    cube = pccl.topology.mesh(8, 8, 8, bandwidth="50GB/s", latency="500ns", exclusive=True)
    begin = time.perf_counter()
    everybody = pccl.AllToAll(size="512MiB")
    big = pccl.synthesize(cube, everybody)
    seconds = time.perf_counter() - begin
    step = int(big.transfers.arrival[0] - big.transfers.start[0])
    bound = pccl.lower_bound(cube, everybody)
    print(
        f"   {len(big.transfers):,} transfers, found and verified in {seconds:.1f} s: {big.duration / step:,.0f} steps."
    )
    print(
        f"   Half of the mesh cannot reach the other in fewer than {bound.value / step:,.0f}, so that no algorithm"
    )
    print(f"   is more than {big.duration / bound.value - 1:.1%} faster.")

    print("\n4. The row of a 3x3 mesh on real processes: nine of them, of which six only relay\n")
    small = pccl.topology.mesh(3, 3, bandwidth="50GB/s", latency="500ns")
    row = pccl.synthesize(small, pccl.AllToAll(size="3MiB", group=[3, 4, 5], chunks=4))
    elements = 3 * 2**20 // 4
    report = run_in_processes(row, Job(elements=((elements,),), dtype="float32"))
    outcome = report.outcomes[0]
    print(
        f"   {elements:,} floats sent, received and checked: {sum(outcome.wrong)} wrong, "
        f"{outcome.seconds * 1e3:.0f} ms by TCP on this machine."
    )

    print("\n5. A row of a 4x4 mesh on a network in a box: namespaces, links of 40 Mbit/s, TCP\n")
    reason = why_not()
    if reason is not None:
        print(f"   Not here: {reason}.")
        return
    box = pccl.topology.mesh(4, 4, bandwidth="5MB/s", latency="0ns")
    few = pccl.synthesize(box, pccl.AllToAll(size="4MiB", group=range(4, 8), chunks=16))
    print(f"   {'':<8}{'planned':>12}{'measured':>12}")
    ours, direct = measure(few, against=["direct"], runs=5)
    for one in (ours, direct):
        print(f"   {one.name:<8}{one.planned * 1e3:>9.0f} ms{one.best * 1e3:>9.0f} ms")
    print(f"\n   {direct.best / ours.best:.1f} times as fast, as the rest of the mesh relays.")


if __name__ == "__main__":
    main()
