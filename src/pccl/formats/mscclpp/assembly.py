"""The operations of threadblocks.

What kernels need is put between operations where it is needed and nowhere else: a ``nop`` between hearing of something
and using it, between moving data and telling of it, and between two moves that touch the same place.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from pccl.errors import InternalError
from pccl.formats.mscclpp.plan import MAX_CHANNELS_OF_OP, MAX_OPS, MAX_SEMAPHORES_OF_OP
from pccl.formats.mscclpp.resources import KINDS, Place, Resources
from pccl.formats.mscclpp.schedule import RECEIVER, SENDER, Block, Stream

Json = dict[str, Any]


def assemble(resources: Resources, rank: int, instances: int) -> Json:
    """What one rank does, as the loader reads it."""
    buffers: dict[tuple[int, str, str], int] = {}
    blocks = [
        _Assembly(resources, block, instance, instances, buffers).threadblock()
        for block in resources.schedule.blocks[rank] for instance in range(instances)
    ]  # fmt: skip
    idle = {
        "id": 0,
        "ops": [{"name": "nop"}],
        "channels": [],
        "remote_buffer_refs": [],
    }  # kernels need one
    return {
        "id": rank,
        "input_chunks": max(int(resources.program.input_bytes[rank]) // resources.unit, 1),
        "output_chunks": max(int(resources.program.output_bytes[rank]) // resources.unit, 1),
        "scratch_chunks": resources.scratch[rank],
        "threadblocks": blocks or [idle],
        "channels": [
            {"channel_type": kind, "connected_to": peers[rank] * instances}
            for kind, peers in resources.peers.items() if peers[rank]
        ],
        "remote_buffers": [
            {"rank": peer, "type": buffer, "access_channel_types": [kind]} for peer, buffer, kind in buffers
        ],
        "semaphores": [{"init_value": 0}] * (resources.semaphores[rank] * instances),
    }  # fmt: skip


class _Assembly:
    """One threadblock, operation by operation."""

    def __init__(
        self,
        resources: Resources,
        block: Block,
        instance: int,
        instances: int,
        buffers: dict[Any, int],
    ) -> None:
        self.resources, self.block, self.buffers = resources, block, buffers
        self.instance, self.instances = instance, instances
        self.schedule, self.batches = resources.schedule, resources.schedule.batches
        self.count = len(self.batches)
        self.ops: list[Json] = []
        self.streams = {kind: [s for s in block.streams if KINDS[s.port] == kind] for kind in KINDS}
        self.number = {
            id(stream): i for streams in self.streams.values() for i, stream in enumerate(streams)
        }
        self.refs: dict[str, dict[int, int]] = {kind: {} for kind in KINDS}
        self.heard = self.moved = False  # since the last nop
        self.recent: set[int] = set()  # events whose moves came after the last nop

    def threadblock(self) -> Json:
        """The threadblock as the loader reads it."""
        block = self.block
        self._over("rlxsignal", block.streams)
        self._over("rlxwait", block.streams)
        for _, event, is_answer in sorted(self._work()):
            if is_answer:
                self._hear_answer(event)
            else:
                self._do(event)
        self._close()
        if len(self.ops) > MAX_OPS:
            raise InternalError(
                f"threadblock {block.number} of rank {block.rank} has {len(self.ops)} operations"
            )
        return {
            "id": block.number * self.instances + self.instance,
            "ops": self.ops,
            "channels": [
                {"channel_type": kind, "channel_ids": [self._channel(kind, stream) for stream in streams]}
                for kind, streams in self.streams.items() if streams
            ],
            "remote_buffer_refs": [
                {"access_channel_type": kind, "remote_buffer_ids": list(refs)}
                for kind, refs in self.refs.items() if refs
            ],
        }  # fmt: skip

    def _channel(self, kind: str, stream: Stream) -> int:
        total = len(self.resources.peers[kind][self.block.rank])
        return self.resources.channel_of[id(stream), self.block.rank] + self.instance * total

    def _close(self) -> None:
        """Tell senders over ports that what they sent has been read: their kernels must not end before."""
        ports = self.streams["port"]
        if ports and self.block.role == RECEIVER:
            self._synchronize()
            self._over("signal", ports)
        elif ports and self.block.role == SENDER:
            self._over("wait", ports)

    def _work(self) -> Iterable[tuple[int, int, bool]]:
        """Events by position; senders also hear, after the receipt, that what they sent may be overwritten."""
        position = self.schedule.position
        for event in self.block.events:
            yield position[event], event, False
            if self.block.role == SENDER and event in self.schedule.answered:
                yield self.schedule.done(event), event, True

    def _do(self, event: int) -> None:
        self._sem("sem_acquire", self.resources.acquire.get(event, []))
        if self.recent.intersection(self.batches.before[event]):
            self._synchronize()
        if self.block.role == SENDER:
            self._send(event)
        elif self.block.role == RECEIVER:
            self._receive(event - self.count, event)
        else:
            self._copy(event - 2 * self.count)
            self.recent.add(event)
        if not (self.block.role == SENDER and event in self.schedule.answered):
            self._tell(event)

    def _send(self, batch: int) -> None:
        stream, messages = self.schedule.stream_of[batch], self.batches.messages[batch]
        kind = KINDS[stream.port]
        over = {"channel_ids": [self.number[id(stream)]], "channel_type": kind}
        for message in messages:
            name = "pws" if stream.port and message == messages[-1] else "put"
            read, land = self.resources.read[message], self.resources.land[message]
            self._move(
                {
                    "name": name,
                    "src_buff": [_local(read)],
                    "dst_buff": [self._remote(stream.dst, kind, land)],
                }
                | over
            )
        if not stream.port:
            self.recent.add(batch)
            self._synchronize()
            self._over("signal", [stream])

    def _receive(self, batch: int, event: int) -> None:
        stream = self.schedule.stream_of[batch]
        self._over("wait", [stream])
        for message in self.batches.messages[batch]:
            if self.batches.staged[message]:
                self._take(message)
                self.recent.add(event)
        if batch in self.schedule.answered:
            self._synchronize()
            self._over("signal", [stream])

    def _take(self, message: int) -> None:
        """Bring a message from scratch to where it belongs."""
        r = self.resources
        landed, target = _local(r.land[message]), _local(r.write[message])
        if r.program.messages.reduce[message]:
            added = _local(r.add[message])
            self._move(
                {
                    "name": "re",
                    "src_buff": [added, landed],
                    "dst_buff": [target],
                    "reduce_op": "sum",
                }
            )
        else:
            self._move({"name": "copy", "src_buff": [landed], "dst_buff": [target]})

    def _hear_answer(self, batch: int) -> None:
        self._over("wait", [self.schedule.stream_of[batch]])
        self.recent.add(batch)
        self._tell(batch)

    def _copy(self, k: int) -> None:
        c, place = self.resources.program.copies, self.resources.place
        rank, size = int(c.rank[k]), int(c.bytes[k])
        source = _local(place(rank, int(c.read_buffer[k]), int(c.read_offset[k]), size))
        target = _local(place(rank, int(c.write_buffer[k]), int(c.write_offset[k]), size))
        self._move({"name": "copy", "src_buff": [source], "dst_buff": [target]})

    def _move(self, op: Json) -> None:
        if self.heard:
            self._synchronize()
        if self.instances > 1:
            op["tbg_info"] = {"tb_id": self.instance, "tbg_size": self.instances}
        self.ops.append(op)
        self.moved = True

    def _tell(self, event: int) -> None:
        """Release the semaphores of those who wait for this event."""
        numbers = self.resources.release.get(event)
        if numbers:
            self._synchronize()
            self._sem("sem_release", numbers)

    def _synchronize(self) -> None:
        if self.heard or self.moved:
            self.ops.append({"name": "nop"})
            self.heard = self.moved = False
            self.recent.clear()

    def _over(self, name: str, streams: list[Stream]) -> None:
        """A signal or a wait over the channels of streams; waits that follow each other become one."""
        for kind in KINDS:
            numbers = [self.number[id(stream)] for stream in streams if KINDS[stream.port] == kind]
            last = self.ops[-1] if self.ops and self.ops[-1]["name"] == name == "wait" else {}
            joined = [*last.get("channel_ids", ()), *numbers]
            if (
                last.get("channel_type") == kind
                and len(set(joined)) == len(joined) <= MAX_CHANNELS_OF_OP
            ):
                last["channel_ids"] = joined
            else:
                self.ops += [
                    {"name": name, "channel_ids": part, "channel_type": kind}
                    for part in _parts(numbers, MAX_CHANNELS_OF_OP)
                ]
        self.heard |= name in ("wait", "rlxwait") and bool(streams)

    def _sem(self, name: str, numbers: list[int]) -> None:
        if not numbers:
            return
        shift = self.instance * self.resources.semaphores[self.block.rank]
        for part in _parts([shift + number for number in numbers], MAX_SEMAPHORES_OF_OP):
            self.ops.append({"name": name, "semaphore_ids": part})
            self.heard |= name == "sem_acquire"

    def _remote(self, rank: int, kind: str, place: Place) -> Json:
        buffer, index, size = place
        number = self.buffers.setdefault((rank, buffer, kind), len(self.buffers))
        refs = self.refs[kind]
        return {"buffer_id": refs.setdefault(number, len(refs)), "index": index, "size": size}


def _local(place: Place) -> Json:
    kind, index, size = place
    return {"type": kind, "index": index, "size": size}


def _parts(numbers: list[int], most: int) -> list[list[int]]:
    return [numbers[i : i + most] for i in range(0, len(numbers), most)]
