"""The process groups of an algorithm, which figures and pages tell apart by colour."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pccl.collective import Collective, format_group
from pccl.topology import Topology


@dataclass(frozen=True)
class ProcessGroup:
    """NPUs that communicate with each other, what to call them, and the kinds of collectives that they run."""

    npus: tuple[int, ...]
    name: str
    kinds: tuple[str, ...]


def process_groups(
    topology: Topology, collectives: Sequence[Collective]
) -> tuple[list[ProcessGroup], list[int]]:
    """Return the different process groups, and for each collective the number of its group.

    Examples
    --------
    >>> import pccl
    >>> collectives = [pccl.AllGather("4MiB"), pccl.Broadcast("4MiB", group=(1, 0)), pccl.AllReduce("4MiB")]
    >>> groups, of_collective = process_groups(pccl.topology.ring(4), collectives)
    >>> [(group.name, group.kinds) for group in groups], of_collective
    ([('all NPUs', ('all-gather', 'all-reduce')), ('0-1', ('broadcast',))], [0, 1, 0])
    """
    everyone = tuple(topology.npus.tolist())
    # The order of ranks is nothing that can be seen: equal sets are one group.
    members = [tuple(sorted(collective.ranks)) or everyone for collective in collectives]
    # In the order of the collectives, which numbers the groups and so gives them their colours.
    kinds: dict[tuple[int, ...], list[str]] = {}
    for npus, collective in zip(members, collectives, strict=True):
        kinds.setdefault(npus, []).append(collective.kind)
    groups = []
    for npus, own in kinds.items():
        # A list of a thousand numbers says less.
        name = "all NPUs" if npus == everyone else format_group(npus)
        groups.append(ProcessGroup(npus, name, tuple(dict.fromkeys(own))))
    numbers = {npus: number for number, npus in enumerate(kinds)}
    return groups, [numbers[npus] for npus in members]


def shortened(text: str, most: int) -> str:
    """Return the text, without its end if it has more than `most` characters."""
    return text if len(text) <= most else f"{text[: most - 1]}…"
