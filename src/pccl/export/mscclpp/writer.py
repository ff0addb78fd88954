"""The plan as a file: every threadblock of a schedule as a list of operations.

What kernels need is put between operations where it is needed and nowhere else: a ``nop`` between hearing of something
and using it, between moving data and telling of it, and between two moves that touch the same place.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from math import gcd
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from pccl.algorithm import Algorithm
from pccl.errors import FormatError, InternalError, PcclError
from pccl.export.lowering import INPUT, OUTPUT, SCRATCH, Program, lower
from pccl.export.mscclpp.resolver import MAX_CHANNELS_OF_OP, MAX_OPS, MAX_SEMAPHORES_OF_OP
from pccl.export.mscclpp.schedule import RECEIVER, SENDER, Block, Schedule, Stream, arrange
from pccl.units import Bytes, parse, whole

__all__ = ["write"]

Json = dict[str, Any]
NAMES = {
    "all-gather": "allgather",
    "all-reduce": "allreduce",
    "reduce-scatter": "reducescatter",
    "all-to-all": "alltoall",
    "all-to-all-v": "alltoallv",
    "broadcast": "broadcast",
    "reduce": "reduce",
    "gather": "gather",
    "scatter": "scatter",
    "send-recv": "sendrecv",
}
KINDS = ("memory", "port")
TYPES = {INPUT: "i", OUTPUT: "o", SCRATCH: "s"}
MOST_THREADBLOCKS = 80  # all must run at once, and a GPU of 2017 runs this many; later ones run more
ALIGNMENT = 16


def write(
    algorithm: Algorithm,
    path: str | Path,
    *,
    in_place: bool = False,
    all_ranks: bool = False,
    instances: int = 1,
    ranks_per_box: int | None = None,
    max_threadblocks: int = MOST_THREADBLOCKS,
    min_bytes: str | int | None = None,
    max_bytes: str | int | None = None,
) -> Mapping[str, str]:
    """Write an algorithm as an execution plan of MSCCL++.

    Parameters
    ----------
    algorithm
        An algorithm for one collective.
    path
        The JSON file.
    in_place
        Whether input and output are one buffer, as NCCL defines it for the collective.
    all_ranks
        Whether all NPUs are ranks, also those that only relay; otherwise the ranks are the group, in its order.
    instances
        How many threadblocks share every piece of work.
    ranks_per_box
        How many consecutive ranks reach each other's memory, and so use memory channels; others use port channels. By
        default all do.
    max_threadblocks
        How many threadblocks a GPU runs at once.
    min_bytes, max_bytes
        The sizes that the plan is for.
    """
    task = algorithm.collectives[0]
    if len(algorithm.collectives) == 1 and task.kind not in NAMES:
        known = ", ".join(NAMES)
        raise PcclError(f"no call of MSCCL++ says where the chunks of a {task.kind} collective lie; it has {known}")
    most, copies = _count(max_threadblocks, "max_threadblocks"), _count(instances, "instances")
    sizes = [_size(min_bytes, 0, "min_bytes"), _size(max_bytes, 2**64 - 1, "max_bytes")]
    if sizes[0] > sizes[1]:
        raise PcclError(f"min_bytes ({sizes[0]}) is larger than max_bytes ({sizes[1]})")
    if most // copies < 2:
        raise PcclError(f"{copies} instances need at least {2 * copies} threadblocks (max_threadblocks), not {most}")
    program = lower(algorithm, in_place=in_place, all_ranks=all_ranks)
    box = len(program.npus) if ranks_per_box is None else _count(ranks_per_box, "ranks_per_box")
    schedule = arrange(program, box=box, most=most // copies)
    writer = _Writer(schedule, in_place, copies)
    document = {
        "name": f"{NAMES[task.kind]}_{len(program.npus)}_pccl",
        "collective": NAMES[task.kind],
        "protocol": "Simple",
        "inplace": in_place,
        "reuse_resources": False,
        "gpus": [writer.gpu(rank) for rank in range(len(program.npus))],
        "num_threads_per_block": 1024,
        "use_double_scratch_buffer": False,
        "buffer_alignment": ALIGNMENT,
        "min_message_size": sizes[0],
        "max_message_size": sizes[1],
        "pccl": _about(program, writer.unit),
    }
    try:
        Path(path).write_bytes(msgspec.json.format(msgspec.json.encode(document), indent=1))
    except OSError as error:
        raise FormatError(f"cannot write {path}: {error.strerror or error}") from None
    return _facts(document)


def _count(value: object, name: str) -> int:
    count = whole(value)
    if count is None or count < 1:
        raise PcclError(f"{name} must be a positive whole number, not {value!r}")
    return count


def _size(value: str | int | None, default: int, name: str) -> int:
    return default if value is None else int(parse(Bytes, Bytes(value) if isinstance(value, int) else value, name))


def _about(program: Program, unit: int) -> Json:
    """What the loader has no place for, but whoever checks results must know."""
    task = program.collective
    about: Json = {"members": program.members.tolist()}
    if getattr(task, "root", None) is not None:
        about["root"] = int(np.flatnonzero(program.npus == task.root)[0])  # type: ignore[attr-defined]
    if task.kind == "send-recv":
        about["cyclic"] = task.cyclic  # type: ignore[attr-defined]
    if task.kind == "all-to-all-v":
        matrix = np.zeros((len(program.npus),) * 2, np.int64)
        matrix[np.ix_(program.members, program.members)] = np.array(task.matrix) // unit  # type: ignore[attr-defined]
        about["matrix"] = matrix.tolist()
    return about


def _facts(document: Json) -> dict[str, str]:
    gpus = document["gpus"]
    blocks = [len(gpu["threadblocks"]) for gpu in gpus]
    ops = [len(block["ops"]) for gpu in gpus for block in gpu["threadblocks"]]
    chunks = max(max(gpu["input_chunks"], gpu["output_chunks"]) for gpu in gpus)
    return {
        "ranks": f"{len(gpus)}",
        "threadblocks": f"{sum(blocks):,}, at most {max(blocks)} on a rank",
        "operations": f"{sum(ops):,}, at most {max(ops)} of {MAX_OPS} in a threadblock",
        "scratch": f"at most {max(gpu['scratch_chunks'] for gpu in gpus):,} chunks on a rank",
        "sizes": f"buffers of {chunks:,} chunks, each a multiple of {ALIGNMENT}B",
    }


class _Writer:
    """Places in units of chunks, channels and semaphores by number, and the operations of each rank."""

    def __init__(self, schedule: Schedule, in_place: bool, instances: int) -> None:
        self.schedule, self.program = schedule, schedule.program
        self.in_place, self.instances = in_place, instances
        m, c, p = self.program.messages, self.program.copies, self.program
        self.unit = _unit(m.bytes, m.read_offset, m.write_offset, m.add_offset, c.bytes, c.read_offset, c.write_offset,
                          p.input_bytes, p.output_bytes, p.scratch_bytes)  # fmt: skip
        self._place_messages()
        self._number_channels()
        self._number_semaphores()

    def gpu(self, rank: int) -> Json:
        """What one rank does."""
        buffers: dict[tuple[int, str, str], int] = {}
        blocks = [
            _Assembly(self, block, instance, buffers).threadblock()
            for block in self.schedule.blocks[rank] for instance in range(self.instances)
        ]  # fmt: skip
        idle = {"id": 0, "ops": [{"name": "nop"}], "channels": [], "remote_buffer_refs": []}  # kernels need one
        return {
            "id": rank,
            "input_chunks": max(int(self.program.input_bytes[rank]) // self.unit, 1),
            "output_chunks": max(int(self.program.output_bytes[rank]) // self.unit, 1),
            "scratch_chunks": self.scratch[rank],
            "threadblocks": blocks or [idle],
            "channels": [
                {"channel_type": kind, "connected_to": peers[rank] * self.instances}
                for kind, peers in self.peers.items() if peers[rank]
            ],
            "remote_buffers": [
                {"rank": peer, "type": buffer, "access_channel_types": [kind]} for peer, buffer, kind in buffers
            ],
            "semaphores": [{"init_value": 0}] * (self.semaphores[rank] * self.instances),
        }  # fmt: skip

    def place(self, rank: int, buffer: int, offset: int, size: int) -> tuple[str, int, int]:
        """A place as buffer, first chunk and number of chunks; in place, always in the larger buffer."""
        index = offset // self.unit
        if self.in_place and buffer != SCRATCH:
            have = [int(b[rank]) // self.unit for b in (self.program.input_bytes, self.program.output_bytes)]
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
            if self.schedule.staged[i]:
                size = self.write[i][2]
                self.land[i] = ("s", self.scratch[rows[1][i]], size)
                self.scratch[rows[1][i]] += size

    def _number_channels(self) -> None:
        """Both ends of a stream add a channel to the other, in the same order, which pairs them."""
        self.peers: dict[str, list[list[int]]] = {kind: [[] for _ in self.program.npus] for kind in KINDS}
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
        position, block_of = self.schedule.position, self.schedule.block_of
        for block in (block for own in self.schedule.blocks for block in own):
            for event in block.events:
                for first in sorted(self.schedule.before[event], key=position.__getitem__, reverse=True):
                    pair = id(block_of[first]), id(block)
                    if block_of[first] is block or known.get(pair, -1) >= position[first]:
                        continue
                    if pair not in numbers:
                        numbers[pair] = self.semaphores[block.rank]
                        self.semaphores[block.rank] += 1
                    known[pair] = position[first]
                    self.acquire[event].append(numbers[pair])
                    self.release[first].append(numbers[pair])


def _unit(*columns: np.ndarray[Any, Any]) -> int:
    """The largest size that all sizes and offsets are multiples of."""
    return gcd(*(int(np.gcd.reduce(column)) for column in columns if len(column))) or 1


class _Assembly:
    """The operations of one threadblock."""

    def __init__(self, writer: _Writer, block: Block, instance: int, buffers: dict[tuple[int, str, str], int]) -> None:
        self.writer, self.block, self.instance, self.buffers = writer, block, instance, buffers
        self.schedule, self.count = writer.schedule, len(writer.program.messages)
        self.ops: list[Json] = []
        self.streams = {kind: [s for s in block.streams if KINDS[s.port] == kind] for kind in KINDS}
        self.number = {id(stream): i for streams in self.streams.values() for i, stream in enumerate(streams)}
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
            raise InternalError(f"threadblock {block.number} of rank {block.rank} has {len(self.ops)} operations")
        return {
            "id": block.number * self.writer.instances + self.instance,
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
        total = len(self.writer.peers[kind][self.block.rank])
        return self.writer.channel_of[id(stream), self.block.rank] + self.instance * total

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
                yield position[self.count + event], event, True

    def _do(self, event: int) -> None:
        self._sem("sem_acquire", self.writer.acquire.get(event, []))
        if self.recent.intersection(self.schedule.before[event]):
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

    def _send(self, message: int) -> None:
        stream = self.schedule.stream_of[message]
        kind = KINDS[stream.port]
        read, land = _local(self.writer.read[message]), self._remote(stream.dst, kind, self.writer.land[message])
        put: Json = {"name": "pws" if stream.port else "put", "src_buff": [read], "dst_buff": [land]}
        self._move(put | {"channel_ids": [self.number[id(stream)]], "channel_type": kind})
        if not stream.port:
            self.recent.add(message)
            self._synchronize()
            self._over("signal", [stream])

    def _receive(self, message: int, event: int) -> None:
        stream, writer = self.schedule.stream_of[message], self.writer
        self._over("wait", [stream])
        if self.schedule.staged[message]:
            landed, target = _local(writer.land[message]), _local(writer.write[message])
            if writer.program.messages.reduce[message]:
                added = _local(writer.add[message])
                self._move({"name": "re", "src_buff": [added, landed], "dst_buff": [target], "reduce_op": "sum"})
            else:
                self._move({"name": "copy", "src_buff": [landed], "dst_buff": [target]})
            self.recent.add(event)
        if message in self.schedule.answered:
            self._synchronize()
            self._over("signal", [stream])

    def _hear_answer(self, message: int) -> None:
        self._over("wait", [self.schedule.stream_of[message]])
        self.recent.add(message)
        self._tell(message)

    def _copy(self, k: int) -> None:
        c, place = self.writer.program.copies, self.writer.place
        rank, size = int(c.rank[k]), int(c.bytes[k])
        source = _local(place(rank, int(c.read_buffer[k]), int(c.read_offset[k]), size))
        target = _local(place(rank, int(c.write_buffer[k]), int(c.write_offset[k]), size))
        self._move({"name": "copy", "src_buff": [source], "dst_buff": [target]})

    def _move(self, op: Json) -> None:
        if self.heard:
            self._synchronize()
        if self.writer.instances > 1:
            op["tbg_info"] = {"tb_id": self.instance, "tbg_size": self.writer.instances}
        self.ops.append(op)
        self.moved = True

    def _tell(self, event: int) -> None:
        """Release the semaphores of those who wait for this event."""
        numbers = self.writer.release.get(event)
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
            if last.get("channel_type") == kind and len(set(joined)) == len(joined) <= MAX_CHANNELS_OF_OP:
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
        shift = self.instance * self.writer.semaphores[self.block.rank]
        for part in _parts([shift + number for number in numbers], MAX_SEMAPHORES_OF_OP):
            self.ops.append({"name": name, "semaphore_ids": part})
            self.heard |= name == "sem_acquire"

    def _remote(self, rank: int, kind: str, place: tuple[str, int, int]) -> Json:
        buffer, index, size = place
        number = self.buffers.setdefault((rank, buffer, kind), len(self.buffers))
        refs = self.refs[kind]
        return {"buffer_id": refs.setdefault(number, len(refs)), "index": index, "size": size}


def _local(place: tuple[str, int, int]) -> Json:
    kind, index, size = place
    return {"type": kind, "index": index, "size": size}


def _parts(numbers: list[int], most: int) -> list[list[int]]:
    return [numbers[i : i + most] for i in range(0, len(numbers), most)]
