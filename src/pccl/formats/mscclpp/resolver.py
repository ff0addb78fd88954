"""Execution plans of MSCCL++ with all indirections followed, and all that can be said of them without running.

The loader trusts a plan: an index that is out of range, or one buffer too many, ends in memory that belongs to somebody
else. An operation names entries of the lists of its threadblock, and those name entries of the lists of its GPU.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from math import lcm
from typing import NamedTuple

from pccl.formats.mscclpp.plan import Chunks, Gpu, Op, Plan, Threadblock
from pccl.formats.mscclpp.rules import (
    BUFFERS,
    DEFECTS,
    KNOWN,
    MAX_BUFFERS,
    MAX_CHANNELS,
    MAX_OPS,
    MAX_THREADS,
    MOVES,
    PUTS,
    SIGNALS,
    WAITS,
    misshapen,
)  # fmt: skip

__all__ = ["Program", "Range", "Step", "resolve"]

MOST_CHUNKS = 2**28  # of 16 bytes, in a buffer that kernels can address
_NOP = Op("nop")
# Which counter of its channels an operation moves.
_WAYS = dict.fromkeys(WAITS, "wait") | dict.fromkeys((*SIGNALS, "pws", "pwsf"), "signal")


class Range(NamedTuple):
    """Chunks of a buffer, wherever they lie."""

    rank: int
    buffer: str
    begin: int
    size: int

    def __str__(self) -> str:
        chunks = (
            f"{self.begin}" if self.size == 1 else f"{self.begin} to {self.begin + self.size - 1}"
        )
        return f"{BUFFERS[self.buffer]} chunk{'s' if self.size > 1 else ''} {chunks} of rank {self.rank}"


@dataclass(slots=True)
class Step:
    """An operation with all its indirections followed.

    Attributes
    ----------
    channels
        As (type, this rank, number of the channel there, peer, number at the peer or -1 if it has none).
    sources, destinations
        What is read and written, wherever it lies.
    """

    rank: int
    threadblock: int
    index: int
    op: Op
    channels: list[tuple[str, int, int, int, int]] = field(default_factory=list)
    sources: list[Range] = field(default_factory=list)
    destinations: list[Range] = field(default_factory=list)

    def __str__(self) -> str:
        return f"rank {self.rank} threadblock {self.threadblock} op {self.index} ({self.op.name})"


@dataclass
class Program:
    """A plan with all its indirections followed: steps by rank and threadblock, and what is wrong with them.

    With `errors` the plan cannot be run at all; with `defects` it can, but kernels of MSCCL++ get it wrong.
    """

    plan: Plan
    steps: list[list[list[Step]]]
    errors: list[str]
    defects: list[str]

    @property
    def parts(self) -> int:
        """Into how many parts chunks must be cut for every share of an operation to be a number of parts."""
        shares = {
            s.op.tbg_info.tbg_size for gpu in self.steps for tb in gpu for s in tb if s.op.tbg_info
        }
        return lcm(*shares)


def resolve(plan: Plan) -> Program:
    """Follow all indirections, and check all that can be checked without running.

    Examples
    --------
    >>> from pccl.formats.mscclpp.plan import parse
    >>> gpu = '{"id": 1, "input_chunks": 1, "output_chunks": 1, "scratch_chunks": 0, "threadblocks": [], '
    >>> gpu += '"channels": [], "remote_buffers": []}'
    >>> head = '"name": "nothing", "collective": "allreduce", "protocol": "Simple", "inplace": true'
    >>> resolve(parse(f'{{{head}, "gpus": [{gpu}]}}')).errors
    ['gpu 0 has id 1; ids must be the positions']
    """
    return _Resolver(plan).program()


class _Resolver:
    def __init__(self, plan: Plan) -> None:
        self.plan, self.errors, self.defects = plan, list[str](), list[str]()
        self.pairs: dict[tuple[str, int, int], tuple[int, int]] = {}

    def program(self) -> Program:
        self._check_top()
        for rank, gpu in enumerate(self.plan.gpus):
            self._check_gpu(rank, gpu)
        steps: list[list[list[Step]]] = []
        if not self.errors:
            self._pair_channels()
            for rank, gpu in enumerate(self.plan.gpus):
                steps.append([self._threadblock(rank, gpu, tb) for tb in gpu.threadblocks])
            self._check_sharing(steps)
        return Program(self.plan, steps, self.errors, self.defects)

    def _check_top(self) -> None:
        plan = self.plan
        self._require(
            plan.protocol == "Simple",
            "the protocol LL (packets) is not understood here, only Simple",
        )
        self._require(
            not plan.reuse_resources and not plan.use_double_scratch_buffer,
            "reused or doubled scratch buffers are not understood here",
        )
        self._require(
            1 <= plan.num_threads_per_block <= MAX_THREADS,
            f"num_threads_per_block must be 1 to {MAX_THREADS}",
        )
        self._require(
            plan.buffer_alignment > 0 and plan.buffer_alignment % 16 == 0,
            "buffer_alignment must be a multiple of 16: kernels reduce the rest wrongly",
        )
        self._require(
            0 <= plan.min_message_size <= plan.max_message_size,
            "min_message_size must be at most max_message_size",
        )
        self._require(bool(plan.gpus), "there are no gpus")

    def _check_gpu(self, rank: int, gpu: Gpu) -> None:
        self._require(gpu.id == rank, f"gpu {rank} has id {gpu.id}; ids must be the positions")
        self._require(
            gpu.input_chunks > 0, f"gpu {rank}: input_chunks must not be {gpu.input_chunks}"
        )
        self._require(
            gpu.output_chunks > 0, f"gpu {rank}: output_chunks must not be {gpu.output_chunks}"
        )
        self._require(gpu.scratch_chunks >= 0, f"gpu {rank}: scratch_chunks must not be negative")
        most = max(gpu.input_chunks, gpu.output_chunks, gpu.scratch_chunks)
        self._require(
            most < MOST_CHUNKS, f"gpu {rank}: {most} chunks are more than kernels can address"
        )
        small, large = sorted((gpu.input_chunks, gpu.output_chunks))
        fits = not self.plan.inplace or small == large or (rank + 1) * small <= large
        self._require(
            fits, f"gpu {rank}: in place, {small} chunks do not lie within {large} at place {rank}"
        )
        world = len(self.plan.gpus)
        for channels in gpu.channels:
            self._require(
                channels.channel_type != "switch",
                f"gpu {rank}: switch channels are not understood here",
            )
            for peer in channels.connected_to:
                self._require(
                    0 <= peer < world and peer != rank, f"gpu {rank} has a channel to rank {peer}"
                )
        for i, remote in enumerate(gpu.remote_buffers):
            text = f"gpu {rank}: remote buffer {i} is on rank {remote.rank}"
            self._require(0 <= remote.rank < world and remote.rank != rank, text)
        for position, tb in enumerate(gpu.threadblocks):
            self._check_threadblock(rank, gpu, position, tb)

    def _check_threadblock(self, rank: int, gpu: Gpu, position: int, tb: Threadblock) -> None:
        where = f"rank {rank} threadblock {position}"
        self._require(tb.id == position, f"{where} has id {tb.id}; ids must be the positions")
        self._require(
            len(tb.ops) <= MAX_OPS, f"{where} has {len(tb.ops)} ops; there is room for {MAX_OPS}"
        )
        for kind in ("memory", "port"):
            for ids, there, most, what in (
                (tb.channel_list(kind), len(gpu.peers(kind)), MAX_CHANNELS, f"{kind} channel"),
                (tb.buffer_list(kind), len(gpu.remote_buffers), MAX_BUFFERS, "remote buffer"),
            ):
                self._require(
                    len(ids) <= most, f"{where} has {len(ids)} {what}s; there is room for {most}"
                )
                for i in ids:
                    self._require(
                        0 <= i < there, f"{where} uses {what} {i}, but gpu {rank} has {there}"
                    )
            for i in tb.buffer_list(kind):
                if 0 <= i < len(gpu.remote_buffers):
                    reachable = kind in gpu.remote_buffers[i].access_channel_types
                    self._require(
                        reachable,
                        f"{where}: remote buffer {i} is not one that {kind} channels may access",
                    )

    def _pair_channels(self) -> None:
        """The k-th channel from A to B belongs to the k-th from B to A of the same type."""
        for kind in ("memory", "port"):
            numbered: dict[tuple[int, int], list[int]] = {}
            for rank, gpu in enumerate(self.plan.gpus):
                for number, peer in enumerate(gpu.peers(kind)):
                    numbered.setdefault((rank, peer), []).append(number)
            for (rank, peer), numbers in numbered.items():
                others = numbered.get((peer, rank), [])
                for k, number in enumerate(numbers):
                    self.pairs[kind, rank, number] = (peer, others[k] if k < len(others) else -1)

    def _threadblock(self, rank: int, gpu: Gpu, tb: Threadblock) -> list[Step]:
        steps = [Step(rank, tb.id, index, op) for index, op in enumerate(tb.ops)]
        lists = {kind: (tb.channel_list(kind), tb.buffer_list(kind)) for kind in ("memory", "port")}
        none: tuple[list[int], list[int]] = ([], [])
        for step in steps:
            for problem in self._fill(step, gpu, *lists.get(step.op.channel_type or "", none)):
                self.errors.append(f"{step}: {problem}")
            if step.op.name in MOVES or step.op.name in DEFECTS:
                for problem in _defects(self.plan, step):
                    self.defects.append(f"{step}: {problem}")
        return steps

    def _fill(self, step: Step, gpu: Gpu, channels: list[int], buffers: list[int]) -> Iterator[str]:
        op = step.op
        if op == _NOP:
            return
        if op.name not in KNOWN:
            yield "this operation is not understood here"
            return
        yield from misshapen(op)
        for i in op.channel_ids:
            if not 0 <= i < len(channels):
                yield f"channel id {i} is none of the {len(channels)} {op.channel_type} channels of its threadblock"
            else:
                peer, other = self.pairs[op.channel_type or "", step.rank, channels[i]]
                step.channels.append((op.channel_type or "", step.rank, channels[i], peer, other))
        for i in op.semaphore_ids:
            if not 0 <= i < len(gpu.semaphores):
                yield f"there is no semaphore {i}, only {len(gpu.semaphores)}"
        for given, found in ((op.src_buff, step.sources), (op.dst_buff, step.destinations)):
            for chunks in given:
                place, problem = self._place(step, gpu, chunks, buffers)
                if problem:
                    yield problem
                if place:
                    found.append(place)

    def _place(
        self, step: Step, gpu: Gpu, chunks: Chunks, buffers: list[int]
    ) -> tuple[Range | None, str]:
        if (chunks.type is None) == (chunks.buffer_id is None):
            return None, "a buffer must have either a type or a buffer_id"
        if chunks.type is not None:
            rank, kind = step.rank, str(chunks.type)
        elif not 0 <= (number := chunks.buffer_id or 0) < len(buffers):
            listed = f"{len(buffers)} remote buffers over {step.op.channel_type} channels"
            return None, f"buffer id {number} is none of the {listed} of its threadblock"
        else:
            remote = gpu.remote_buffers[buffers[number]]
            rank, kind = remote.rank, remote.type
        place = Range(rank, kind, chunks.index, chunks.size)
        there = self.plan.gpus[rank].chunks(kind)
        if chunks.index < 0 or chunks.size < 1 or chunks.index + chunks.size > there:
            return None, f"there is no {place}, only {there} chunks"
        return place, ""

    def _check_sharing(self, steps: list[list[list[Step]]]) -> None:
        """Counters that several threadblocks count with go wrong, and so do barriers that some do not reach."""
        users: dict[tuple[str, int, int, str | None], set[int]] = {}
        barriers: dict[tuple[int, int], Counter[int]] = {}
        sizes: dict[tuple[int, int], set[int]] = {}
        for step in (step for gpu in steps for tb in gpu for step in tb):
            way = _WAYS.get(step.op.name)
            for kind, rank, number, _, _ in step.channels if way else ():
                users.setdefault((f"{kind} channel", number, rank, way), set()).add(
                    step.threadblock
                )
            if step.op.name == "sem_acquire":
                for number in step.op.semaphore_ids:
                    users.setdefault(("semaphore", number, step.rank, "acquire"), set()).add(
                        step.threadblock
                    )
            elif step.op.name == "barrier":
                key = (step.rank, step.op.barrier_id or 0)
                barriers.setdefault(key, Counter())[step.threadblock] += 1
                sizes.setdefault(key, set()).add(step.op.num_threadblocks or 0)
        for (what, number, rank, way), blocks in users.items():
            if len(blocks) > 1:
                text = f"rank {rank}: threadblocks {_listed(blocks)} all {way} on {what} {number}; only one may"
                self._require(False, text)
        for (rank, number), uses in barriers.items():
            fits = sizes[rank, number] == {len(uses)} and len(set(uses.values())) == 1
            text = f"rank {rank}: barrier {number} is not used equally often by the threadblocks that it is for"
            self._require(fits, text)

    def _require(self, holds: bool, text: str) -> None:
        if not holds and text not in self.errors:
            self.errors.append(text)


def _defects(plan: Plan, step: Step) -> Iterator[str]:
    """What kernels of MSCCL++ get wrong, although the schema allows it."""
    op = step.op
    if op.name in DEFECTS:
        yield DEFECTS[op.name]
    if op.name == "put" and op.channel_type == "memory" and len(op.src_buff) > 1:
        yield "kernels read all sources of a put over memory channels from the buffer of the first; split it"
    shifted = (
        {"allgather": "i", "reducescatter": "o"}.get(plan.collective) if plan.inplace else None
    )
    if shifted is None:
        return
    places = step.sources + step.destinations
    if any(place.rank != step.rank and place.buffer == shifted for place in places):
        yield f"in place, the {BUFFERS[shifted]} of a peer lies elsewhere than one's own; address the other buffer"
    if (
        op.name in PUTS
        and op.channel_type == "port"
        and any(place.buffer == shifted for place in step.sources)
    ):
        yield f"ports take the {BUFFERS[shifted]} to begin where its allocation does; address the other buffer"


def _listed(numbers: set[int]) -> str:
    *first, last = map(str, sorted(numbers))
    return f"{', '.join(first)} and {last}" if first else last
