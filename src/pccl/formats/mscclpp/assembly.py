"""The operations of threadblocks.

What kernels need is put between operations where it is needed and nowhere else: a ``nop`` between hearing of something
and using it, between moving data and telling of it, and between two moves that touch the same place.
"""

from __future__ import annotations

from itertools import product

from pccl.errors import InternalError
from pccl.formats.mscclpp.packing import RECEIVER, SENDER, Block, Stream
from pccl.formats.mscclpp.plan import (
    MAX_CHANNELS_OF_OP,
    MAX_OPS,
    MAX_SEMAPHORES_OF_OP,
    BufferType,
    ChannelType,
    Chunks,
    Op,
    Share,
)
from pccl.formats.mscclpp.resources import KINDS, Json, Resources

NOP = Op("nop")
# Kernels need a threadblock, also where there is nothing to do.
IDLE: Json = {"id": 0, "ops": [NOP], "channels": [], "remote_buffer_refs": []}


def assemble(resources: Resources, rank: int, instances: int) -> Json:
    """What one rank does, as the loader reads it."""
    program = resources.program
    unit = resources.unit
    # Remote buffers get their numbers in the order in which threadblocks first use them.
    buffers: dict[tuple[int, BufferType | None, ChannelType], int] = {}
    # Instances of a threadblock follow one another.
    blocks = [
        _Assembly(resources, rank, block, instance, instances, buffers).threadblock(number)
        for number, (block, instance) in enumerate(
            product(resources.schedule.blocks[rank], range(instances))
        )
    ]
    return {
        "id": rank,
        "input_chunks": max(int(program.input_bytes[rank]) // unit, 1),
        "output_chunks": max(int(program.output_bytes[rank]) // unit, 1),
        "scratch_chunks": resources.scratch[rank],
        "threadblocks": blocks or [IDLE],
        "channels": [
            {"channel_type": kind, "connected_to": peers[rank] * instances}
            for kind, peers in resources.peers.items()
            if peers[rank]
        ],
        "remote_buffers": [
            {"rank": peer, "type": buffer, "access_channel_types": [kind]}
            for peer, buffer, kind in buffers
        ],
        "semaphores": [{"init_value": 0}] * (resources.semaphores[rank] * instances),
    }


class _Assembly:
    """One threadblock, operation by operation."""

    def __init__(
        self,
        resources: Resources,
        rank: int,
        block: Block,
        instance: int,
        instances: int,
        buffers: dict[tuple[int, BufferType | None, ChannelType], int],
    ) -> None:
        self.resources = resources
        self.rank = rank
        self.block = block
        self.instance = instance
        self.instances = instances
        self.buffers = buffers
        self.schedule = resources.schedule
        self.batches = resources.schedule.batches
        self.ops: list[Op] = []
        # Operations name channels by their place among those of one type, within the threadblock.
        self.streams = {kind: [s for s in block.streams if KINDS[s.port] == kind] for kind in KINDS}
        self.number = {s: i for own in self.streams.values() for i, s in enumerate(own)}
        self.refs: dict[str, dict[int, int]] = {kind: {} for kind in KINDS}
        # Since the last nop: whether something was heard or moved, and the events that moved something.
        self.heard = False
        self.moved = False
        self.recent: set[int] = set()

    def threadblock(self, number: int) -> Json:
        """The threadblock as the loader reads it."""
        block = self.block
        # The handshake: nobody may write into the memory of a rank whose kernel has not started. All signal
        # before anybody waits, so that no two ranks wait for each other here.
        self._over("rlxsignal", block.streams)
        self._over("rlxwait", block.streams)
        work = [(self.schedule.position[event], event, False) for event in block.events]
        # After the receipt, senders over ports hear that what they sent may be overwritten.
        answered = self.schedule.answered.intersection(block.events)
        work += [(self.schedule.done(event), event, True) for event in answered]
        for _, event, is_answer in sorted(work):
            # What is overwritten afterwards may count on the answer, so that only now others are told.
            if is_answer:
                self._over_one("wait", self.schedule.stream_of[event])
                self.recent.add(event)
                self._tell(event)
            else:
                self._do(event)
        # Senders over ports hear that what they sent has been read: their kernels must not end before.
        if block.role == RECEIVER:
            if self.streams["port"]:
                self._synchronize()
            self._over("signal", self.streams["port"])
        else:
            self._over("wait", self.streams["port"])
        if len(self.ops) > MAX_OPS:
            raise InternalError(
                f"threadblock {number} of rank {self.rank} has {len(self.ops)} operations"
            )
        return {
            "id": number,
            "ops": self.ops,
            "channels": [
                {
                    "channel_type": kind,
                    "channel_ids": [
                        self.instance * len(self.resources.peers[kind][self.rank])
                        + self.resources.channel_of[self.rank, stream]
                        for stream in streams
                    ],
                }
                for kind, streams in self.streams.items()
                if streams
            ],
            "remote_buffer_refs": [
                {"access_channel_type": kind, "remote_buffer_ids": list(refs)}
                for kind, refs in self.refs.items()
                if refs
            ],
        }

    def _do(self, event: int) -> None:
        role = self.block.role
        # Those of other threadblocks are waited for; after those of the same one a nop is enough.
        if event in self.resources.acquire:
            self._semaphores("sem_acquire", self.resources.acquire[event])
        if self.recent and self.recent.intersection(self.batches.before[event]):
            self._synchronize()
        if role == SENDER:
            self._send(event)
            # It is complete, and others hear of it, when it is answered.
            if event in self.schedule.answered:
                return
        elif role == RECEIVER:
            self._receive(event - len(self.batches), event)
        else:
            k = event - 2 * len(self.batches)
            source = self.resources.copy_from[k]
            target = self.resources.copy_to[k]
            self._move(Op("copy", src_buff=(source,), dst_buff=(target,)))
            self.recent.add(event)
        self._tell(event)

    def _send(self, batch: int) -> None:
        stream = self.schedule.stream_of[batch]
        messages = self.batches.messages[batch]
        kind = KINDS[stream.port]
        refs = self.refs[kind]
        channels = (self.number[stream],)
        for message in messages:
            land = self.resources.land[message]
            number = self.buffers.setdefault((stream.dst, land.type, kind), len(self.buffers))
            place = refs.setdefault(number, len(refs))
            remote = Chunks(land.index, land.size, buffer_id=place)
            # A port keeps its order, so that the last put of a batch can signal for all of them.
            signals = stream.port and message == messages[-1]
            name = "pws" if signals else "put"
            self._move(Op(name, kind, channels, (self.resources.read[message],), (remote,)))
        # Over memory all threads copy at once: a signal is safe only after they have met.
        if not stream.port:
            self.recent.add(batch)
            self._synchronize()
            self._over_one("signal", stream)

    def _receive(self, batch: int, event: int) -> None:
        r = self.resources
        stream = self.schedule.stream_of[batch]
        self._over_one("wait", stream)
        for message in self.batches.messages[batch]:
            if not self.batches.staged[message]:
                continue
            # From scratch to where it belongs.
            landed = r.land[message]
            target = r.write[message]
            if r.program.messages.reduce[message]:
                sources = (r.add[message], landed)
                op = Op("re", src_buff=sources, dst_buff=(target,), reduce_op="sum")
            else:
                op = Op("copy", src_buff=(landed,), dst_buff=(target,))
            self._move(op)
            self.recent.add(event)
        # The sender may overwrite what was sent as soon as it has been read here.
        if batch in self.schedule.answered:
            self._synchronize()
            self._over_one("signal", stream)

    def _move(self, op: Op) -> None:
        # One thread waits; the others know of it only after a nop.
        if self.heard:
            self._synchronize()
        if self.instances > 1:
            op.tbg_info = Share(self.instance, self.instances)
        self.ops.append(op)
        self.moved = True

    def _tell(self, event: int) -> None:
        """Release the semaphores of those who wait for this event."""
        numbers = self.resources.release.get(event)
        if numbers:
            self._synchronize()
            self._semaphores("sem_release", numbers)

    def _synchronize(self) -> None:
        if self.heard or self.moved:
            self.ops.append(NOP)
            self.heard = False
            self.moved = False
            self.recent.clear()

    def _over(self, name: str, streams: list[Stream]) -> None:
        """A signal or a wait over the channels of streams."""
        for kind in KINDS:
            own = (stream for stream in streams if KINDS[stream.port] == kind)
            numbers = tuple(map(self.number.__getitem__, own))
            if numbers:
                self._over_channels(name, kind, numbers)

    def _over_one(self, name: str, stream: Stream) -> None:
        """A signal or a wait over the channel of a stream."""
        self._over_channels(name, KINDS[stream.port], (self.number[stream],))

    def _over_channels(self, name: str, kind: ChannelType, numbers: tuple[int, ...]) -> None:
        """A signal or a wait over channels; waits that follow each other become one."""
        self.heard |= name in ("wait", "rlxwait")
        last = self.ops[-1] if self.ops else NOP
        # Waiting for several at once saves operations, of which there are few.
        if name == "wait" and last.name == name and last.channel_type == kind:
            joined = last.channel_ids + numbers
            if len(set(joined)) == len(joined) <= MAX_CHANNELS_OF_OP:
                last.channel_ids = joined
                return
        self.ops += [Op(name, kind, part) for part in _parts(numbers, MAX_CHANNELS_OF_OP)]

    def _semaphores(self, name: str, numbers: list[int]) -> None:
        # Every instance has semaphores of its own, numbered behind those of the instances before it.
        shift = self.instance * self.resources.semaphores[self.rank]
        shifted = tuple(shift + number for number in numbers)
        for part in _parts(shifted, MAX_SEMAPHORES_OF_OP):
            self.ops.append(Op(name, semaphore_ids=part))
            self.heard |= name == "sem_acquire"


def _parts(numbers: tuple[int, ...], most: int) -> list[tuple[int, ...]]:
    return [numbers[i : i + most] for i in range(0, len(numbers), most)]
