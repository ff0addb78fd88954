"""What the threadblocks of a schedule refer to: places in buffers, channels and semaphores, all by number."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from typing import Any

import numpy as np

from pccl._arrays import Ints
from pccl.formats.lowering import INPUT, OUTPUT, SCRATCH, Program
from pccl.formats.mscclpp.packing import Block, Stream
from pccl.formats.mscclpp.plan import BufferType, ChannelType, Chunks
from pccl.formats.mscclpp.schedule import Schedule
from pccl.formats.runtime_files import unit_of

KINDS: tuple[ChannelType, ...] = ("memory", "port")
TYPES: Mapping[int, BufferType] = {INPUT: "i", OUTPUT: "o", SCRATCH: "s"}
Json = dict[str, Any]


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
    copy_from, copy_to
        Per copy: where it is read and written.
    peers
        Per type of channel and rank: the peers of its channels.
    channel_of
        Per rank and stream: its channel there.
    semaphores
        Per rank: how many.
    acquire, release
        Per event: the semaphores to acquire before and to release after it.
    """

    def __init__(self, schedule: Schedule, in_place: bool) -> None:
        p = schedule.program
        self.schedule = schedule
        self.program = p
        self.in_place = in_place
        self.unit = chunk_bytes(p)
        self._place_messages()
        self._number_channels()
        self._number_semaphores()

    def _place_messages(self) -> None:
        """Where senders read, where messages land, and where receivers put them in the end; the same for copies."""
        m = self.program.messages
        c = self.program.copies
        self.read = self._placed(m.src, m.read_buffer, m.read_offset, m.bytes)
        self.write = self._placed(m.dst, m.write_buffer, m.write_offset, m.bytes)
        self.add = self._placed(m.dst, m.add_buffer, m.add_offset, m.bytes)
        self.copy_from = self._placed(c.rank, c.read_buffer, c.read_offset, c.bytes)
        self.copy_to = self._placed(c.rank, c.write_buffer, c.write_offset, c.bytes)
        self.scratch: list[int] = (self.program.scratch_bytes // self.unit).tolist()
        # Messages land where they are written in the end, or each in scratch of its own.
        self.land = list(self.write)
        receivers = m.dst.tolist()
        for i in np.flatnonzero(self.schedule.batches.staged).tolist():
            rank = receivers[i]
            size = self.write[i].size
            self.land[i] = Chunks(self.scratch[rank], size, "s")
            self.scratch[rank] += size

    def _placed(self, rank: Ints, buffer: Ints, offset: Ints, size: Ints) -> list[Chunks]:
        """Places as buffer, first chunk and number of chunks; in place, always in the larger buffer."""
        # In place, kernels look for the smaller buffer of a peer at a wrong place: only the larger one is
        # addressed.
        index = offset // self.unit
        if self.in_place:
            inputs = self.program.input_bytes[rank] // self.unit
            outputs = self.program.output_bytes[rank] // self.unit
            larger = np.where(inputs > outputs, INPUT, OUTPUT)
            # The share of the rank in the larger buffer is where its smaller one lies.
            within = (buffer != SCRATCH) & (buffer != larger) & (inputs != outputs)
            index = index + within * rank * np.minimum(inputs, outputs)
            buffer = np.where(buffer == SCRATCH, SCRATCH, larger)
        columns = (index, size // self.unit, buffer)
        return [
            Chunks(first, count, TYPES[kind])
            for first, count, kind in zip(*(column.tolist() for column in columns), strict=True)
        ]

    def _number_channels(self) -> None:
        """Both ends of a stream add a channel to the other, in the same order, which pairs them."""
        self.peers: dict[str, list[list[int]]] = {
            kind: [[] for _ in self.program.npus] for kind in KINDS
        }
        self.channel_of: dict[tuple[int, Stream], int] = {}
        for stream in self.schedule.streams:
            peers = self.peers[KINDS[stream.port]]
            for mine, other in ((stream.src, stream.dst), (stream.dst, stream.src)):
                self.channel_of[mine, stream] = len(peers[mine])
                peers[mine].append(other)

    def _number_semaphores(self) -> None:
        """One semaphore for each pair of threadblocks of which one waits for the other.

        A threadblock that has waited for an event of another need not wait for earlier ones.
        """
        self.semaphores = [0] * len(self.program.npus)
        self.acquire: dict[int, list[int]] = defaultdict(list)
        self.release: dict[int, list[int]] = defaultdict(list)
        numbers: dict[tuple[Block, Block], int] = {}
        known: dict[tuple[Block, Block], int] = {}
        done = self.schedule.done
        before = self.schedule.batches.before
        for rank, blocks in enumerate(self.schedule.blocks):
            block_of = {event: block for block in blocks for event in block.events}
            for event, block in block_of.items():
                # The latest first: having waited for it often makes others needless.
                for first in sorted(before[event], key=done, reverse=True):
                    pair = (block_of[first], block)
                    if pair[0] is block or known.get(pair, -1) >= done(first):
                        continue
                    if pair not in numbers:
                        numbers[pair] = self.semaphores[rank]
                        self.semaphores[rank] += 1
                    known[pair] = done(first)
                    self.acquire[event].append(numbers[pair])
                    self.release[first].append(numbers[pair])


def chunk_bytes(program: Program) -> int:
    """The size of a chunk of the plan: everything is counted in chunks, so that they divide all sizes and places."""
    buffers = np.concatenate([program.input_bytes, program.output_bytes, program.scratch_bytes])
    unit = unit_of(program, int(np.gcd.reduce(buffers))) or 1
    if len(program.messages):
        return unit
    # Nothing else shows how large shares are, of which there may be one for each rank.
    ranks = len(program.npus)
    sizes = np.concatenate([[unit * ranks], program.input_bytes, program.output_bytes])
    return int(np.gcd.reduce(sizes[sizes % ranks == 0])) // ranks
