"""What the threadblocks of a schedule refer to: places in buffers, channels and semaphores, all by number."""

from __future__ import annotations

from collections import defaultdict

import numpy as np

from pccl.formats.lowering import INPUT, OUTPUT, SCRATCH
from pccl.formats.mscclpp.schedule import Schedule
from pccl.formats.runtime_files import unit_of

KINDS = ("memory", "port")
TYPES = {INPUT: "i", OUTPUT: "o", SCRATCH: "s"}
Place = tuple[str, int, int]  # a buffer, its first chunk, and how many


class Resources:
    """Numbers for everything.

    Attributes
    ----------
    unit
        Bytes of a chunk of the plan, at the size that the algorithm is for.
    scratch
        Per rank: chunks of scratch.
    read, land, add, write
        Per message: where it is read, where it lands, what is added to it, and where the result goes.
    peers
        Per type of channel and rank: the peers of its channels.
    channel_of
        Per stream (by identity) and rank: its channel there.
    semaphores
        Per rank: how many.
    acquire, release
        Per event: the semaphores to acquire before and to release after it.
    """

    def __init__(self, schedule: Schedule, in_place: bool) -> None:
        self.schedule, self.program, self.in_place = schedule, schedule.program, in_place
        p = self.program
        buffers = np.concatenate([p.input_bytes, p.output_bytes, p.scratch_bytes])
        self.unit = unit_of(p, int(np.gcd.reduce(buffers))) or 1
        if not len(p.messages):
            # Nothing else shows how large shares are, of which there may be one for each rank.
            ranks = len(p.npus)
            sizes = np.concatenate([[self.unit * ranks], p.input_bytes, p.output_bytes])
            self.unit = int(np.gcd.reduce(sizes[sizes % ranks == 0])) // ranks
        self._place_messages()
        self._number_channels()
        self._number_semaphores()

    def place(self, rank: int, buffer: int, offset: int, size: int) -> Place:
        """A place as buffer, first chunk and number of chunks; in place, always in the larger buffer."""
        index = offset // self.unit
        if self.in_place and buffer != SCRATCH:
            have = [
                int(b[rank]) // self.unit
                for b in (self.program.input_bytes, self.program.output_bytes)
            ]
            larger = INPUT if have[0] > have[1] else OUTPUT
            if buffer != larger and have[0] != have[1]:
                index += rank * min(have)
            buffer = larger
        return TYPES[buffer], index, size // self.unit

    def _place_messages(self) -> None:
        """Where senders read, where messages land, and where receivers put them in the end."""
        m, count = self.program.messages, len(self.program.messages)
        rows = [column.tolist() for column in (m.src, m.dst, m.bytes)]
        read, write, add = (
            list(zip(column.tolist(), offset.tolist(), strict=True))
            for column, offset in (
                (m.read_buffer, m.read_offset), (m.write_buffer, m.write_offset), (m.add_buffer, m.add_offset),
            )
        )  # fmt: skip
        self.scratch = [int(size) // self.unit for size in self.program.scratch_bytes]
        self.read = [self.place(rows[0][i], *read[i], rows[2][i]) for i in range(count)]
        self.write = [self.place(rows[1][i], *write[i], rows[2][i]) for i in range(count)]
        self.add = [self.place(rows[1][i], *add[i], rows[2][i]) for i in range(count)]
        self.land = list(self.write)
        for i in range(count):
            if self.schedule.batches.staged[i]:
                size = self.write[i][2]
                self.land[i] = ("s", self.scratch[rows[1][i]], size)
                self.scratch[rows[1][i]] += size

    def _number_channels(self) -> None:
        """Both ends of a stream add a channel to the other, in the same order, which pairs them."""
        self.peers: dict[str, list[list[int]]] = {
            kind: [[] for _ in self.program.npus] for kind in KINDS
        }
        self.channel_of: dict[tuple[int, int], int] = {}
        for stream in self.schedule.streams:
            peers = self.peers[KINDS[stream.port]]
            for mine, other in ((stream.src, stream.dst), (stream.dst, stream.src)):
                self.channel_of[id(stream), mine] = len(peers[mine])
                peers[mine].append(other)

    def _number_semaphores(self) -> None:
        """One semaphore for each pair of threadblocks of which one waits for the other.

        A threadblock that has waited for an event of another need not wait for earlier ones.
        """
        self.semaphores = [0] * len(self.program.npus)
        self.acquire: dict[int, list[int]] = defaultdict(list)
        self.release: dict[int, list[int]] = defaultdict(list)
        numbers: dict[tuple[int, int], int] = {}
        known: dict[tuple[int, int], int] = {}
        schedule, block_of = self.schedule, self.schedule.block_of
        for block in (block for own in schedule.blocks for block in own):
            for event in block.events:
                for first in sorted(
                    schedule.batches.before[event], key=schedule.done, reverse=True
                ):
                    pair = id(block_of[first]), id(block)
                    if block_of[first] is block or known.get(pair, -1) >= schedule.done(first):
                        continue
                    if pair not in numbers:
                        numbers[pair] = self.semaphores[block.rank]
                        self.semaphores[block.rank] += 1
                    known[pair] = schedule.done(first)
                    self.acquire[event].append(numbers[pair])
                    self.release[first].append(numbers[pair])
