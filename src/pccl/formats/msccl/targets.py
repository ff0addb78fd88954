"""The runtimes that execute MSCCL-IR, and what they can take."""

from __future__ import annotations

from dataclasses import dataclass

from pccl.errors import PcclError

# Chunks of one step.
MOST_COUNT = 71
# The number of a threadblock that others wait for is kept in a signed byte.
MOST_DEPENDED_ON = 127
# Offsets are kept in 16 bits with a sign.
MOST_OFFSET = 2**15 - 1
# Elements that one rank reads: the algorithm, all ranks, its own threadblocks and steps.
MOST_NODES = 4095
# Sums into one place that the runtimes do in one go.
MOST_FUSED = 16
# Peers that one rank sends to over one channel, and likewise receives from.
MOST_PEERS = 32
# Messages that a connection holds before its sender has to wait for its receiver, by protocol.
DEPTHS = {"Simple": 2, "LL": 8, "LL128": 8}
# Collectives whose files the runtimes choose by size and place alone.
CHOSEN = ("allgather", "reducescatter", "allreduce", "alltoall")


@dataclass(frozen=True)
class Target:
    """A runtime and its limits."""

    name: str
    runtime: str
    steps: int  # of a threadblock
    threadblocks: int  # of a rank
    channels: int
    collectives: tuple[str, ...] = CHOSEN  # as it spells them
    exchanges_in_place: bool = True  # whether its alltoall has a form in place
    takes_any_maximum: bool = True  # whether a largest size of zero means that there is none

    def spell(self, name: str) -> str:
        """What the runtime calls a collective."""
        return next(spelled for spelled in self.collectives if plain_name(spelled) == name)


TARGETS = {
    target.name: target
    for target in (
        Target("executor", "the MSCCL executor for NCCL", 64, 1024, 32),
        Target("rccl", "RCCL", 64, 64, 128),
        Target(
            "msccl",
            "the original MSCCL",
            256,
            216,
            32,
            ("allgather", "reduce_scatter", "allreduce", "alltoall"),
            exchanges_in_place=False,
            takes_any_maximum=False,
        ),
    )
}


def find_target(name: str) -> Target:
    """Return the runtime of this name.

    Examples
    --------
    >>> find_target("rccl").threadblocks
    64
    """
    if name not in TARGETS:
        raise PcclError(f"there is no target {name!r}; there are {', '.join(TARGETS)}")
    return TARGETS[name]


def plain_name(name: str) -> str:
    """Return the name of a collective as most runtimes spell it."""
    return name.replace("_", "")
