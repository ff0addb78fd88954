"""The program of the ranks: messages, copies, and what has to come before what."""

from __future__ import annotations

from dataclasses import dataclass

from pccl._arrays import Bools, Ints
from pccl.collective import Collective
from pccl.collective.groups import format_group
from pccl.formats.lowering.deliveries import Deliveries

# The buffers of a rank.
INPUT = 0
OUTPUT = 1
SCRATCH = 2


@dataclass(frozen=True, eq=False)
class Messages:
    """One row per message from one rank to another, ordered by start.

    Attributes
    ----------
    chunk, bytes
        Row of the conditions of the whole algorithm, and its size.
    src, dst, route
        Ranks, and which of the ways from one to the other it takes, counted from zero for each pair.
    start, arrival
        When it was planned to leave its sender and to have arrived, in picoseconds.
    reduce
        Whether the receiver writes the sum of the message and what lies at `add`; otherwise it writes the message.
    read_buffer, read_offset
        Where the sender reads it.
    write_buffer, write_offset
        Where the receiver writes it.
    add_buffer, add_offset
        What the receiver adds; the place written to, unless this is the first addition to a rank's own input.
    """

    chunk: Ints
    bytes: Ints
    src: Ints
    dst: Ints
    route: Ints
    start: Ints
    arrival: Ints
    reduce: Bools
    read_buffer: Ints
    read_offset: Ints
    write_buffer: Ints
    write_offset: Ints
    add_buffer: Ints
    add_offset: Ints

    def __len__(self) -> int:
        return len(self.chunk)


@dataclass(frozen=True, eq=False)
class Copies:
    """One row per copy inside a rank: what it keeps for itself, and what could not be received in place.

    Attributes
    ----------
    chunk
        Which of the chunks of the collective, counted from zero; -1 for a share that its rank keeps for itself.
    rank, bytes
        Whose buffers, and how much is copied.
    time
        Not before this moment of the plan, in picoseconds.
    read_buffer, read_offset
        Where it is read.
    write_buffer, write_offset
        Where it is written.
    """

    chunk: Ints
    rank: Ints
    bytes: Ints
    time: Ints
    read_buffer: Ints
    read_offset: Ints
    write_buffer: Ints
    write_offset: Ints

    def __len__(self) -> int:
        return len(self.rank)


@dataclass(frozen=True, eq=False)
class Program:
    """What the ranks do.

    Sending message ``m`` is event ``m``, receiving it is event ``len(messages) + m``, and copy ``k`` is event
    ``2 * len(messages) + k``.

    Attributes
    ----------
    collective
        What it is for.
    npus
        Per rank: the NPU it runs on.
    members
        The ranks that take part in the collective, in the order of the group; others only relay.
    messages, copies
        What happens.
    before, after
        Pairs of events of the same rank: the first has to be complete before the second begins.
    input_bytes, output_bytes, scratch_bytes
        Per rank: the size of its buffers.
    enlarged
        The collective with the sizes that are sent: larger than planned where its chunks would not be equal, or have no
        unit in common.
    delivered
        What NPUs deliver to one another for all collectives of the algorithm; not known if there are several.
    """

    collective: Collective
    npus: Ints
    members: Ints
    messages: Messages
    copies: Copies
    before: Ints
    after: Ints
    input_bytes: Ints
    output_bytes: Ints
    scratch_bytes: Ints
    enlarged: Collective
    delivered: Deliveries | None = None

    @property
    def padding(self) -> int:
        """By how many bytes the size of the collective was enlarged."""
        return int(self.enlarged.size) - int(self.collective.size)

    @property
    def group_facts(self) -> dict[str, str]:
        """Which ranks the collective is for, for people; nothing if it is for all of them."""
        if len(self.members) == len(self.npus):
            return {}
        return {"group": f"ranks {format_group(self.members.tolist())}; the others only relay"}

    @property
    def padding_facts(self) -> dict[str, str]:
        """What was padded, for people; nothing if nothing was."""
        if not self.padding:
            return {}
        size = self.collective.size
        return {"padded": f"from {size} to {self.enlarged.size}, so that all chunks are equal"}
