"""The runtimes that execute MSCCL-IR, and what they can take."""

from __future__ import annotations

from dataclasses import dataclass

from pccl.errors import PcclError

__all__ = [
    "COLLECTIVES",
    "DEPTHS",
    "MOST_COUNT",
    "MOST_DEPENDED_ON",
    "MOST_NODES",
    "TARGETS",
    "Target",
    "find_target",
]

MOST_COUNT = 71  # chunks of one step
MOST_DEPENDED_ON = 127  # the number of a threadblock that others wait for is kept in a signed byte
MOST_OFFSET = 2**15 - 1  # offsets are kept in 16 bits with a sign
MOST_NODES = (
    4095  # elements that one rank reads: the algorithm, all ranks, its own threadblocks and steps
)
MOST_FUSED = 16  # sums into one place that the runtimes do in one go
MOST_PEERS = 32  # peers that one rank sends to over one channel, and likewise receives from

# Messages that a connection holds before its sender has to wait for its receiver.
DEPTHS = {"Simple": 2, "LL": 8, "LL128": 8}

# Collectives whose files the runtimes choose by size and place alone, by the name in the file.
COLLECTIVES = {
    "allgather": "all-gather", "reducescatter": "reduce-scatter", "reduce_scatter": "reduce-scatter",
    "allreduce": "all-reduce", "alltoall": "all-to-all",
}  # fmt: skip


@dataclass(frozen=True)
class Target:
    """A runtime and its limits."""

    name: str
    runtime: str
    steps: int  # of a threadblock
    threadblocks: int  # of a rank
    channels: int

    def spell(self, kind: str) -> str:
        """What the runtime calls a collective."""
        names = [name for name, ours in COLLECTIVES.items() if ours == kind]
        return names[-1] if self.name == "msccl" else names[0]


TARGETS = {
    target.name: target
    for target in (
        Target("executor", "the MSCCL executor for NCCL", 64, 1024, 32),
        Target("rccl", "RCCL", 64, 64, 128),
        Target("msccl", "the original MSCCL", 256, 216, 32),
    )
}


def find_target(name: str) -> Target:
    """The runtime of this name.

    Examples
    --------
    >>> find_target("rccl").threadblocks
    64
    """
    if name not in TARGETS:
        raise PcclError(f"there is no target {name!r}; there are {', '.join(TARGETS)}")
    return TARGETS[name]
