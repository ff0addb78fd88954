"""Execution plans of MSCCL++ with all indirections followed, and all that can be said of them without running.

The loader trusts a plan: an index that is out of range, or one buffer too many, ends in memory that belongs to somebody
else. An operation names entries of the lists of its threadblock, and those name entries of the lists of its GPU.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

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
    Threadblock,
)
from pccl.formats.mscclpp.rules import KNOWN, MOVES, PUTS, SIGNALS, WAITS, misshapen

BUFFERS = {"i": "input", "o": "output", "s": "scratch"}
DEFECTS = {
    "get": "kernels swap the offsets of source and destination of a get; put from the other side",
    "flush": "kernels skip a flush that stands alone; let the receiver answer with a signal instead",
}
# Of 16 bytes, in a buffer that kernels can address.
MOST_CHUNKS = 2**28
KINDS = ("memory", "port")
_NOP = Op("nop")

# A counter: "memory", "port" or "semaphore", the rank that waits for it, and its number there (or -1 if it has none).
Key = tuple[str, int, int]


class Range(NamedTuple):
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


class Channel(NamedTuple):
    """A channel: the counter that its owner waits for, and the one that the peer waits for."""

    own: Key
    other: Key


@dataclass(slots=True)
class Step:
    """An operation with all its indirections followed.

    Attributes
    ----------
    channels
        What it goes over.
    sources, destinations
        What is read and written, wherever it lies.
    waits, gives
        The counters that it waits for, and those that it makes go up.
    """

    rank: int
    threadblock: int
    index: int
    op: Op
    channels: list[Channel] = field(default_factory=list)
    sources: list[Range] = field(default_factory=list)
    destinations: list[Range] = field(default_factory=list)
    waits: list[Key] = field(default_factory=list)
    gives: list[Key] = field(default_factory=list)

    @property
    def place(self) -> Place:
        """Where it is."""
        return Place(self.rank, self.threadblock, self.index)

    def __str__(self) -> str:
        return f"rank {self.rank} threadblock {self.threadblock} op {self.index} ({self.op.name})"


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
    _require(found.errors, Place(), _of_plan(plan))
    for rank, gpu in enumerate(plan.gpus):
        _require(found.errors, Place(rank), _of_gpu(plan, rank, gpu))
        for position, block in enumerate(gpu.threadblocks):
            texts = _of_threadblock(rank, gpu, position, block)
            _require(found.errors, Place(rank, position), texts)
    if found.errors:
        return found
    pairs = _paired_channels(plan)
    for gpu in plan.gpus:
        found.blocks.append([_steps(found, gpu, block, pairs) for block in gpu.threadblocks])
    _require(found.errors, Place(), _of_sharing(found.steps))
    return found


def _require(problems: Problems, place: Place, rules: Iterable[tuple[bool, str]]) -> None:
    """Add a problem for every rule that does not hold."""
    for holds, text in rules:
        if not holds:
            problems.add(Kind.RULE, text, place)


def _of_plan(plan: ExecutionPlan) -> Iterable[tuple[bool, str]]:
    return (
        (
            plan.protocol == "Simple",
            "the protocol LL (packets) is not understood here, only Simple",
        ),
        (
            not plan.reuse_resources and not plan.use_double_scratch_buffer,
            "reused or doubled scratch buffers are not understood here",
        ),
        (
            1 <= plan.num_threads_per_block <= MAX_THREADS,
            f"num_threads_per_block must be 1 to {MAX_THREADS}",
        ),
        (
            plan.buffer_alignment > 0 and plan.buffer_alignment % 16 == 0,
            "buffer_alignment must be a multiple of 16: kernels reduce the rest wrongly",
        ),
        (
            0 <= plan.min_message_size <= plan.max_message_size,
            "min_message_size must be at most max_message_size",
        ),
        (bool(plan.gpus), "there are no gpus"),
    )


def _of_gpu(plan: ExecutionPlan, rank: int, gpu: Gpu) -> Iterator[tuple[bool, str]]:
    yield gpu.id == rank, f"gpu {rank} has id {gpu.id}; ids must be the positions"
    for buffer, least in (("input", 1), ("output", 1), ("scratch", 0)):
        chunks = getattr(gpu, f"{buffer}_chunks")
        yield chunks >= least, f"gpu {rank}: {buffer}_chunks must not be {chunks}"
    most = max(gpu.chunks.values())
    yield most < MOST_CHUNKS, f"gpu {rank}: {most} chunks are more than kernels can address"
    small, large = sorted((gpu.input_chunks, gpu.output_chunks))
    yield (
        not plan.inplace or small == large or (rank + 1) * small <= large,
        f"gpu {rank}: in place, {small} chunks do not lie within {large} at place {rank}",
    )
    others = {*range(len(plan.gpus))} - {rank}
    for channels in gpu.channels:
        text = f"gpu {rank}: switch channels are not understood here"
        yield channels.channel_type != "switch", text
        for peer in channels.connected_to:
            yield peer in others, f"gpu {rank} has a channel to rank {peer}"
    for i, remote in enumerate(gpu.remote_buffers):
        yield remote.rank in others, f"gpu {rank}: remote buffer {i} is on rank {remote.rank}"


def _of_threadblock(
    rank: int, gpu: Gpu, position: int, block: Threadblock
) -> Iterator[tuple[bool, str]]:
    where = f"rank {rank} threadblock {position}"
    ops = len(block.ops)
    yield block.id == position, f"{where} has id {block.id}; ids must be the positions"
    yield ops <= MAX_OPS, f"{where} has {ops} ops; there is room for {MAX_OPS}"
    for kind in KINDS:
        buffers = block.buffer_list(kind)
        for what, ids, there, most in (
            (f"{kind} channel", block.channel_list(kind), len(gpu.peers(kind)), MAX_CHANNELS),
            ("remote buffer", buffers, len(gpu.remote_buffers), MAX_BUFFERS),
        ):
            yield len(ids) <= most, f"{where} has {len(ids)} {what}s; there is room for {most}"
            for i in ids:
                yield 0 <= i < there, f"{where} uses {what} {i}, but gpu {rank} has {there}"
        for i in buffers:
            remote = gpu.remote_buffers[i : i + 1] if i >= 0 else []
            yield (
                all(kind in buffer.access_channel_types for buffer in remote),
                f"{where}: remote buffer {i} is not one that {kind} channels may access",
            )


def _paired_channels(plan: ExecutionPlan) -> dict[Key, Channel]:
    """The k-th channel from A to B belongs to the k-th from B to A of the same type."""
    found = {}
    for kind in KINDS:
        numbered: dict[tuple[int, int], list[int]] = defaultdict(list)
        for rank, gpu in enumerate(plan.gpus):
            for number, peer in enumerate(gpu.peers(kind)):
                numbered[rank, peer].append(number)
        for (rank, peer), numbers in numbered.items():
            others = numbered.get((peer, rank), [])
            for k, number in enumerate(numbers):
                theirs = others[k] if k < len(others) else -1
                own = (kind, rank, number)
                found[own] = Channel(own, (kind, peer, theirs))
    return found


def _steps(
    found: ResolvedPlan, gpu: Gpu, block: Threadblock, pairs: dict[Key, Channel]
) -> list[Step]:
    steps = [Step(gpu.id, block.id, index, op) for index, op in enumerate(block.ops)]
    channels: dict[str, list[Channel]] = {}
    buffers: dict[str, list[tuple[int, str]]] = {}
    for kind in KINDS:
        remote = [gpu.remote_buffers[i] for i in block.buffer_list(kind)]
        channels[kind] = [pairs[kind, gpu.id, i] for i in block.channel_list(kind)]
        buffers[kind] = [(buffer.rank, buffer.type) for buffer in remote]
    shifted = _shifted(found.plan, gpu)
    for step in steps:
        if step.op == _NOP:
            continue
        over = step.op.channel_type or ""
        reachable = (channels.get(over, []), buffers.get(over, []))
        for text in _follow(step, found.sizes, len(gpu.semaphores), *reachable):
            found.errors.add(Kind.RULE, f"{step}: {text}", step.place)
        if step.op.name in MOVES or step.op.name in DEFECTS:
            for text in _defects(step, shifted):
                found.defects.add(Kind.DEFECT, f"{step}: {text}", step.place)
    return steps


def _follow(
    step: Step,
    sizes: list[dict[str, int]],
    semaphores: int,
    channels: list[Channel],
    buffers: list[tuple[int, str]],
) -> Iterator[str]:
    """Find what a step refers to, among the channels and remote buffers of its threadblock; say what is not there."""
    op = step.op
    if op.name not in KNOWN:
        yield "this operation is not understood here"
        return
    yield from misshapen(op)
    for i in op.channel_ids:
        if 0 <= i < len(channels):
            step.channels.append(channels[i])
        else:
            yield f"channel id {i} is none of the {len(channels)} {op.channel_type} channels of its threadblock"
    for i in op.semaphore_ids:
        if not 0 <= i < semaphores:
            yield f"there is no semaphore {i}, only {semaphores}"
    counters: list[Key] = [("semaphore", step.rank, i) for i in op.semaphore_ids]
    if op.name in WAITS:
        step.waits = [channel.own for channel in step.channels]
    elif op.name in SIGNALS:
        step.gives = [channel.other for channel in step.channels]
    elif op.name == "sem_acquire":
        step.waits = counters
    elif op.name == "sem_release":
        step.gives = counters
    for given, places in ((op.src_buff, step.sources), (op.dst_buff, step.destinations)):
        for chunks in given:
            found = _located(step, chunks, buffers, sizes)
            if isinstance(found, str):
                yield found
            else:
                places.append(found)


def _located(
    step: Step, chunks: Chunks, buffers: list[tuple[int, str]], sizes: list[dict[str, int]]
) -> Range | str:
    """Where some chunks are, or why they are nowhere."""
    if (chunks.type is None) == (chunks.buffer_id is None):
        return "a buffer must have either a type or a buffer_id"
    number = chunks.buffer_id or 0
    if chunks.type is not None:
        rank, buffer = step.rank, str(chunks.type)
    elif 0 <= number < len(buffers):
        rank, buffer = buffers[number]
    else:
        listed = f"{len(buffers)} remote buffers over {step.op.channel_type} channels"
        return f"buffer id {number} is none of the {listed} of its threadblock"
    place = Range(rank, buffer, chunks.index, chunks.size)
    there = sizes[rank][buffer]
    if chunks.index < 0 or chunks.size < 1 or chunks.index + chunks.size > there:
        return f"there is no {place}, only {there} chunks"
    return place


def _of_sharing(steps: Iterable[Step]) -> Iterator[tuple[bool, str]]:
    """Counters that several threadblocks count with go wrong, and so do barriers that some do not reach."""
    users: dict[tuple[Key, str], set[int]] = defaultdict(set)
    barriers: dict[tuple[int, int], list[Step]] = defaultdict(list)
    for step in steps:
        for key in step.waits:
            users[key, "acquire" if key[0] == "semaphore" else "wait"].add(step.threadblock)
        for channel in step.channels if step.op.name in SIGNALS else ():
            users[channel.own, "signal"].add(step.threadblock)
        if step.op.name == "barrier":
            barriers[step.rank, step.op.barrier_id or 0].append(step)
    for ((kind, rank, number), does), blocks in users.items():
        *first, last = map(str, sorted(blocks))
        what = kind if kind == "semaphore" else f"{kind} channel"
        text = f"threadblocks {', '.join(first)} and {last} all {does} on {what} {number}"
        yield not first, f"rank {rank}: {text}; only one may"
    for (rank, number), uses in barriers.items():
        blocks = {step.threadblock for step in uses}
        sizes = {step.op.num_threadblocks for step in uses}
        times = {sum(step.threadblock == block for step in uses) for block in blocks}
        text = f"rank {rank}: barrier {number} is not used equally often by the threadblocks that it is for"
        yield sizes == {len(blocks)} and len(times) == 1, text


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
    places = step.sources + step.destinations
    if any(place.rank != step.rank and place.buffer == shifted for place in places):
        yield f"in place, the {BUFFERS[shifted]} of a peer lies elsewhere than one's own; address the other buffer"
    over_port = op.name in PUTS and op.channel_type == "port"
    if over_port and any(place.buffer == shifted for place in step.sources):
        yield f"ports take the {BUFFERS[shifted]} to begin where its allocation does; address the other buffer"
