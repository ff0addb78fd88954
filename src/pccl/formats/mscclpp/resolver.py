"""Execution plans of MSCCL++ with all indirections followed, and all that can be said of them without running.

The loader trusts a plan: an index that is out of range, or one buffer too many, ends in memory that belongs to somebody
else. An operation names entries of the lists of its threadblock, and those name entries of the lists of its GPU.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from sys import intern
from typing import NamedTuple

import msgspec

from pccl.formats.machine import BY_NAME, Kind, Place, Problems
from pccl.formats.mscclpp.plan import (
    MAX_BUFFERS,
    MAX_CHANNELS,
    MAX_OPS,
    MAX_THREADS,
    Chunks,
    ExecutionPlan,
    Gpu,
    Op,
    RemoteBuffer,
    Threadblock,
    numbers_of,
)
from pccl.formats.mscclpp.rules import KNOWN, PUTS, SEMAPHORES, SIGNALS, WAITS, misshapen
from pccl.units import counted

BUFFERS = {"i": "input", "o": "output", "s": "scratch"}
DEFECTS = {
    "get": "kernels swap the offsets of source and destination of a get; put from the other side",
    "flush": "kernels skip a flush that stands alone; let the receiver answer with a signal instead",
}
# Of 16 bytes, in a buffer that kernels can address.
MOST_CHUNKS = 2**28
KINDS = ("memory", "port")
_NOP = Op("nop")


class Key(NamedTuple):
    """A counter: of a memory or port channel, or a semaphore.

    `rank` waits for it, and `number` is its number there; -1 stands for a channel that the rank does not have.
    """

    kind: str
    rank: int
    number: int

    def __str__(self) -> str:
        what = "semaphore" if self.kind == "semaphore" else f"{self.kind} channel"
        return f"{what} {self.number}"


class Range(msgspec.Struct, frozen=True, gc=False):
    """Chunks of a buffer, wherever they lie."""

    rank: int
    buffer: str
    begin: int
    size: int

    def __str__(self) -> str:
        chunks = f"chunk {self.begin}"
        if self.size > 1:
            chunks = f"chunks {self.begin} to {self.begin + self.size - 1}"
        return f"{BUFFERS[self.buffer]} {chunks} of rank {self.rank}"


_NOWHERE = Range(-1, "", 0, 0)


class Channel(NamedTuple):
    """A channel: the counter that its owner waits for, and the one that the peer waits for.

    A semaphore counts as a channel of a rank to itself, whose counters are one.
    """

    own: Key
    other: Key


class Step(msgspec.Struct, gc=False):
    """An operation with all its indirections followed.

    Attributes
    ----------
    channels
        What it goes over: channels, or semaphores.
    sources, destinations
        What is read and written, wherever it lies.
    """

    rank: int
    threadblock: int
    position: int
    op: Op
    channels: Sequence[Channel] = ()
    sources: Sequence[Range] = ()
    destinations: Sequence[Range] = ()

    @property
    def waits(self) -> list[Key]:
        """The counters that it waits for."""
        return [channel.own for channel in self.channels if self.op.name in WAITS]

    @property
    def gives(self) -> list[Key]:
        """The counters that it makes go up."""
        return [channel.other for channel in self.channels if self.op.name in SIGNALS]

    @property
    def place(self) -> Place:
        """Where it is."""
        return Place(self.rank, self.threadblock, self.position)

    def __str__(self) -> str:
        return (
            f"rank {self.rank} threadblock {self.threadblock} op {self.position} ({self.op.name})"
        )


@dataclass
class ResolvedPlan:
    """A plan with all its indirections followed: steps by rank and threadblock, and what is wrong with them.

    `sizes` has, per rank, the number of chunks of each buffer.
    A plan with `errors` cannot be run at all; one with `defects` can, but kernels of MSCCL++ get it wrong.
    """

    plan: ExecutionPlan
    sizes: list[dict[str, int]]
    blocks: list[list[list[Step]]] = field(default_factory=list)
    errors: Problems = field(default_factory=Problems)
    defects: Problems = field(default_factory=Problems)

    @property
    def steps(self) -> Iterator[Step]:
        """All steps."""
        return (step for gpu in self.blocks for block in gpu for step in block)

    def refuse(self, place: Place, texts: Iterable[str]) -> None:
        """Add errors."""
        for text in texts:
            self.errors.add(Kind.RULE, text, place)


def resolve(plan: ExecutionPlan) -> ResolvedPlan:
    """Follow all indirections, and check all that can be checked without running.

    Examples
    --------
    >>> from pccl.formats.mscclpp.plan import parse
    >>> gpu = '{"id": 1, "input_chunks": 1, "output_chunks": 1, "scratch_chunks": 0, "threadblocks": [], '
    >>> gpu += '"channels": [], "remote_buffers": []}'
    >>> head = '"name": "nothing", "collective": "allreduce", "protocol": "Simple", "inplace": true'
    >>> for problem in resolve(parse(f'{{{head}, "gpus": [{gpu}]}}')).errors:
    ...     print(problem)
    gpu 0 has id 1; ids must be the positions
    """
    found = ResolvedPlan(plan, [gpu.chunks for gpu in plan.gpus])
    found.refuse(Place(), _wrong_of_plan(plan))
    for rank, gpu in enumerate(plan.gpus):
        found.refuse(Place(rank), _wrong_of_gpu(plan, rank, gpu))
        for position, block in enumerate(gpu.threadblocks):
            texts = _wrong_of_threadblock(rank, gpu, position, block)
            found.refuse(Place(rank, position), texts)
    # Lists that lead nowhere cannot be followed.
    if found.errors:
        return found
    channels = _paired_channels(plan)
    for gpu in plan.gpus:
        keys = [Key("semaphore", gpu.id, i) for i in range(len(gpu.semaphores))]
        semaphores = [Channel(key, key) for key in keys]
        blocks = [
            _Names(found, gpu, block, channels, semaphores).steps(block)
            for block in gpu.threadblocks
        ]
        found.blocks.append(blocks)
    found.refuse(Place(), _wrong_sharing(found.steps))
    return found


def _wrong_of_plan(plan: ExecutionPlan) -> Iterator[str]:
    if plan.protocol != "Simple":
        yield "the protocol LL (packets) is not understood here, only Simple"
    if plan.reuse_resources or plan.use_double_scratch_buffer:
        yield "reused or doubled scratch buffers are not understood here"
    if not 1 <= plan.num_threads_per_block <= MAX_THREADS:
        yield f"num_threads_per_block must be 1 to {MAX_THREADS}"
    # Kernels move 16 bytes at a time.
    if plan.buffer_alignment <= 0 or plan.buffer_alignment % 16:
        yield "buffer_alignment must be a multiple of 16: kernels reduce the rest wrongly"
    if not 0 <= plan.min_message_size <= plan.max_message_size:
        yield "min_message_size must be at most max_message_size"
    if not plan.gpus:
        yield "there are no gpus"


def _wrong_of_gpu(plan: ExecutionPlan, rank: int, gpu: Gpu) -> Iterator[str]:
    who = f"gpu {rank}"
    if gpu.id != rank:
        yield f"{who} has id {gpu.id}; ids must be the positions"
    for buffer, chunks in gpu.chunks.items():
        # Loaders divide by the chunks of inputs and outputs.
        if chunks < (buffer != "s"):
            yield f"{who}: {BUFFERS[buffer]}_chunks must not be {chunks}"
    most = max(gpu.chunks.values())
    if most >= MOST_CHUNKS:
        yield f"{who}: {counted(most, 'chunk')} are more than kernels can address"
    small, large = sorted((gpu.input_chunks, gpu.output_chunks))
    # In place, the smaller buffer of a rank is its share of the larger one, as NCCL has it.
    if plan.inplace and small != large < (rank + 1) * small:
        yield f"{who}: in place, {counted(small, 'chunk')} cannot lie within {large} at place {rank}"
    others = {*range(len(plan.gpus))} - {rank}
    for channels in gpu.channels:
        if channels.kind == "switch":
            yield f"{who}: switch channels are not understood here"
        for peer in channels.numbers:
            if peer not in others:
                yield f"{who} has a channel to rank {peer}"
    for i, remote in enumerate(gpu.remote_buffers):
        if remote.rank not in others:
            yield f"{who}: remote buffer {i} is on rank {remote.rank}"


def _wrong_of_threadblock(rank: int, gpu: Gpu, position: int, block: Threadblock) -> Iterator[str]:
    where = f"rank {rank} threadblock {position}"
    ops = len(block.ops)
    if block.id != position:
        yield f"{where} has id {block.id}; ids must be the positions"
    if ops > MAX_OPS:
        yield f"{where} has {ops} ops; there is room for {MAX_OPS}"
    for kind in KINDS:
        channels = numbers_of(block.channels, kind)
        buffers = numbers_of(block.remote_buffer_refs, kind)
        remote = gpu.remote_buffers
        for what, ids, there, most in (
            (f"{kind} channel", channels, len(numbers_of(gpu.channels, kind)), MAX_CHANNELS),
            ("remote buffer", buffers, len(remote), MAX_BUFFERS),
        ):
            if len(ids) > most:
                yield f"{where} has {len(ids)} {what}s; there is room for {most}"
            for i in ids:
                if not 0 <= i < there:
                    yield f"{where} uses {what} {i}, but gpu {rank} has {there}"
        # Numbers out of range have been reported above.
        for i in buffers:
            if 0 <= i < len(remote) and kind not in remote[i].access_channel_types:
                yield f"{where}: remote buffer {i} is not one that {kind} channels may access"


def _paired_channels(plan: ExecutionPlan) -> dict[Key, Channel]:
    """The k-th channel from A to B belongs to the k-th from B to A of the same type."""
    found = {}
    for kind in KINDS:
        numbered: dict[tuple[int, int], list[int]] = defaultdict(list)
        for rank, gpu in enumerate(plan.gpus):
            for number, peer in enumerate(numbers_of(gpu.channels, kind)):
                numbered[rank, peer].append(number)
        # One side may list more than the other; what is signalled over those arrives nowhere.
        for (rank, peer), numbers in numbered.items():
            others = numbered.get((peer, rank), [])
            for k, number in enumerate(numbers):
                theirs = others[k] if k < len(others) else -1
                own = Key(kind, rank, number)
                found[own] = Channel(own, Key(kind, peer, theirs))
    return found


class _Names:
    """What the operations of a threadblock may name: channels and remote buffers, by the type of their channel."""

    def __init__(
        self,
        found: ResolvedPlan,
        gpu: Gpu,
        block: Threadblock,
        paired: dict[Key, Channel],
        semaphores: list[Channel],
    ) -> None:
        self.found = found
        self.rank = gpu.id
        self.semaphores = semaphores
        self.shifted = _shifted(found.plan, gpu)
        self.channels: dict[str | None, list[Channel]] = {}
        self.buffers: dict[str | None, Sequence[RemoteBuffer]] = {}
        for kind in KINDS:
            own = [Key(kind, gpu.id, i) for i in numbers_of(block.channels, kind)]
            self.channels[kind] = [paired[key] for key in own]
            remote = numbers_of(block.remote_buffer_refs, kind)
            self.buffers[kind] = [gpu.remote_buffers[i] for i in remote]

    def steps(self, block: Threadblock) -> list[Step]:
        """The operations of the threadblock; what is wrong with them is added to what was found."""
        steps = []
        for position, op in enumerate(block.ops):
            # Few names differ, but the decoder makes a string for every operation.
            op.name = intern(op.name)
            step = Step(self.rank, block.id, position, op)
            # A third of all operations are nops, in which nothing can be wrong.
            if op != _NOP:
                wrong = [*misshapen(op)]
                # Of an operation that is not understood, nobody knows what it refers to.
                if op.name in KNOWN:
                    self._follow(step, wrong)
                if wrong:
                    self.found.refuse(step.place, [f"{step}: {text}" for text in wrong])
                # Only these have defects: the others need not be looked at.
                if op.name in DEFECTS or len(op.src_buff) > 1 or self.shifted is not None:
                    for text in _defects(step, self.shifted):
                        self.found.defects.add(Kind.DEFECT, f"{step}: {text}", step.place)
            steps.append(step)
        return steps

    def _follow(self, step: Step, wrong: list[str]) -> None:
        """Complete a step with what it refers to; what is not there is added to what is wrong."""
        op = step.op
        channels = self.channels.get(op.channel_type, [])
        over = []
        for i in op.channel_ids:
            if 0 <= i < len(channels):
                over.append(channels[i])
            else:
                listed = f"{len(channels)} {op.channel_type} channels"
                wrong.append(f"channel id {i} is none of the {listed} of its threadblock")
        semaphores = []
        for i in op.semaphore_ids:
            if 0 <= i < len(self.semaphores):
                semaphores.append(self.semaphores[i])
            else:
                key = Key("semaphore", self.rank, i)
                wrong.append(f"there is no {key}, only {len(self.semaphores)}")
        # Of channels and semaphores, kernels look at one or the other.
        step.channels = semaphores if op.name in SEMAPHORES else over
        # Most operations move nothing.
        if op.src_buff or op.dst_buff:
            step.sources = [self._located(op, chunks, wrong) for chunks in op.src_buff]
            step.destinations = [self._located(op, chunks, wrong) for chunks in op.dst_buff]

    def _located(self, op: Op, chunks: Chunks, wrong: list[str]) -> Range:
        """Where some chunks are; if they are nowhere, that is added to what is wrong."""
        rank = self.rank
        buffer = chunks.type
        number = chunks.buffer_id
        remote = () if number is None else self.buffers.get(op.channel_type, ())
        if (buffer is None) == (number is None):
            text = "a buffer must have either a type or a buffer_id"
        # Remote buffers are numbered within the list of the channel type.
        elif number is not None and not 0 <= number < len(remote):
            listed = f"{len(remote)} remote buffers over {op.channel_type} channels"
            text = f"buffer id {number} is none of the {listed} of its threadblock"
        else:
            if number is not None:
                rank = remote[number].rank
                buffer = remote[number].type
            begin = chunks.index
            place = Range(rank, str(buffer), begin, chunks.size)
            there = self.found.sizes[rank][place.buffer]
            if 0 <= begin < begin + chunks.size <= there:
                return place
            text = f"there is no {place}, only {counted(there, 'chunk')}"
        wrong.append(text)
        return _NOWHERE


def _wrong_sharing(steps: Iterable[Step]) -> Iterator[str]:
    """Counters that several threadblocks count with go wrong, and so do barriers that some do not reach."""
    users: dict[tuple[Key, str], set[int]] = defaultdict(set)
    barriers: dict[tuple[int, int], list[Step]] = defaultdict(list)
    for step in steps:
        name = step.op.name
        # A channel counts the signals of one threadblock; a semaphore may be released by many.
        if name == "sem_acquire":
            for key, _ in step.channels:
                users[key, "acquire"].add(step.threadblock)
        elif name in WAITS:
            for key, _ in step.channels:
                users[key, "wait"].add(step.threadblock)
        elif name in SIGNALS and name != "sem_release":
            for key, _ in step.channels:
                users[key, "signal"].add(step.threadblock)
        elif name == "barrier":
            barriers[step.rank, step.op.barrier_id or 0].append(step)
    for (key, does), blocks in users.items():
        if len(blocks) > 1:
            *first, last = map(str, sorted(blocks))
            text = f"threadblocks {', '.join(first)} and {last} all {does} on {key}"
            yield f"rank {key.rank}: {text}; only one may"
    for (rank, number), uses in barriers.items():
        times = Counter(step.threadblock for step in uses)
        sizes = {step.op.num_threadblocks for step in uses}
        # A barrier counts arrivals: it opens early or never if somebody comes more often than others.
        if sizes != {len(times)} or len({*times.values()}) > 1:
            yield f"rank {rank}: barrier {number} is not used equally often by the threadblocks that it is for"


def _shifted(plan: ExecutionPlan, gpu: Gpu) -> str | None:
    """The buffer of a rank that, in place, begins where its share of the larger one does; none if both begin alike."""
    kind = BY_NAME.get(plan.collective)
    alike = gpu.input_chunks == gpu.output_chunks
    if not plan.inplace or alike or kind is None or kind.rooted:
        return None
    return min("io", key=gpu.chunks.__getitem__)


def _defects(step: Step, shifted: str | None) -> Iterator[str]:
    """What kernels of MSCCL++ get wrong, although the schema allows it."""
    op = step.op
    if op.name in DEFECTS:
        yield DEFECTS[op.name]
    if op.name == "put" and op.channel_type == "memory" and len(op.src_buff) > 1:
        yield "kernels read all sources of a put over memory channels from the buffer of the first; split it"
    if shifted is None:
        return
    places = (*step.sources, *step.destinations)
    if any(place.rank != step.rank and place.buffer == shifted for place in places):
        yield f"in place, the {BUFFERS[shifted]} of a peer lies elsewhere than one's own; address the other buffer"
    over_port = op.name in PUTS and op.channel_type == "port"
    if over_port and any(place.buffer == shifted for place in step.sources):
        yield f"ports take the {BUFFERS[shifted]} to begin where its allocation does; address the other buffer"
