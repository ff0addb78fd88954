"""The rules that an MSCCL-IR file must keep and that can be seen without running it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from pccl.formats.msccl.file import Algo, Gpu, Step, Threadblock
from pccl.formats.msccl.targets import (
    COLLECTIVES,
    DEPTHS,
    MOST_COUNT,
    MOST_DEPENDED_ON,
    MOST_FUSED,
    MOST_NODES,
    MOST_OFFSET,
    MOST_PEERS,
    Target,
)

__all__ = ["RECEIVES", "SENDS", "broken_parts", "broken_rules"]

SENDS = frozenset({"s", "rcs", "rrs", "rrcs"})
RECEIVES = frozenset({"r", "rcs", "rrs", "rrc", "rrcs"})
_TYPES = SENDS | RECEIVES | {"cpy", "re", "nop"}
_ROOTED = ("broadcast", "reduce", "gather", "scatter")


def broken_rules(algo: Algo, target: Target) -> list[str]:
    """Every rule that the file breaks, each one line."""
    problems = [*_of_algo(algo, target), *_of_promise(algo), *_unanswered(algo)]
    for gpu in algo.gpus:
        problems += _of_gpu(gpu, algo, target)
        for tb in gpu.threadblocks:
            problems += _of_threadblock(gpu, tb, algo, target)
    return problems + broken_parts(algo)


def broken_parts(algo: Algo) -> list[str]:
    """The rules about ranks, buffers and steps: without them there is nothing to make sense of."""
    problems = list(_of_sizes(algo))
    for gpu in algo.gpus:
        others = {tb.id: tb for tb in reversed(gpu.threadblocks)}
        for tb in gpu.threadblocks:
            for index, step in enumerate(tb.steps):
                where = f"gpu {gpu.id} tb {tb.id} step {index}"
                problems += (f"{where}: {text}" for text in _of_step(gpu, tb, index, step, others))
    return problems


def _of_sizes(algo: Algo) -> Iterator[str]:
    ids = sorted(gpu.id for gpu in algo.gpus)
    if not _counts(ids, algo.ngpus):
        yield f"algo: ngpus is {algo.ngpus}, but there are {len(ids)} gpus with the ids {_few(ids)}"
    if not 1 <= algo.nchunksperloop <= MOST_OFFSET + 1:
        yield f"algo: nchunksperloop is {algo.nchunksperloop}; it must be from 1 to {MOST_OFFSET + 1}"
    for gpu in algo.gpus:
        largest = max(gpu.i_chunks, gpu.o_chunks, gpu.s_chunks)
        if largest > MOST_OFFSET + 1:
            yield f"gpu {gpu.id}: a buffer of {largest} chunks; the runtimes can number {MOST_OFFSET + 1}"


def _counts(ids: list[int], count: int) -> bool:
    """Whether these are all numbers from 0 on, that many."""
    return len(ids) == count and sorted(ids) == list(range(len(ids)))


def _of_algo(algo: Algo, target: Target) -> Iterator[str]:
    if algo.proto not in DEPTHS:
        yield f"algo: proto {algo.proto!r} is not one of {', '.join(DEPTHS)}"
    if algo.coll in _ROOTED:
        yield f"algo: the runtimes do not compare the root of a {algo.coll}, and would run the file for any root"
    elif algo.coll == "alltoallv":
        yield "algo: the runtimes never choose a file for alltoallv"
    elif algo.coll not in COLLECTIVES or target.spell(COLLECTIVES[algo.coll]) != algo.coll:
        names = ", ".join(target.spell(kind) for kind in dict.fromkeys(COLLECTIVES.values()))
        yield f"algo: coll {algo.coll!r} is not one that {target.runtime} chooses: {names}"
    if algo.coll == "alltoall" and algo.inplace and target.name == "msccl":
        yield "algo: the original MSCCL has no alltoall in place"
    if not 1 <= algo.nchannels <= target.channels:
        yield f"algo: {algo.nchannels} channels; {target.runtime} has 1 to {target.channels}"
    for name in ("inplace", "outofplace"):
        if getattr(algo, name) not in (0, 1):
            yield f"algo: {name} is {getattr(algo, name)}; it must be 0 or 1"
    if not (algo.inplace or algo.outofplace):
        yield "algo: it is neither for in place nor for out of place, so that the runtimes never choose it"
    if algo.maxBytes == 0 and target.name == "msccl":
        yield "algo: a maxBytes of 0, which other runtimes take for no limit, keeps the original MSCCL from using it"
    elif algo.maxBytes != 0 and algo.maxBytes < max(algo.minBytes, 1):
        yield f"algo: there are no sizes from {algo.minBytes} to {algo.maxBytes} bytes"
    if (
        algo.coll != "allreduce"
        and algo.coll in COLLECTIVES
        and algo.nchunksperloop % max(algo.ngpus, 1)
    ):
        yield f"algo: nchunksperloop {algo.nchunksperloop} does not divide by {algo.ngpus} gpus"


def _of_promise(algo: Algo) -> Iterator[str]:
    members, shares = algo.promise.members, algo.promise.shares
    if len(set(members)) < len(members) or not all(0 <= member < algo.ngpus for member in members):
        yield f"pccl: the members {_few(members)} are not different ranks of 0 to {algo.ngpus - 1}"
    if not shares:
        return
    room = algo.nchunksperloop // max(algo.ngpus, 1)
    if algo.coll != "alltoall":
        yield f"pccl: it says how much of its shares is sent, which {algo.coll} has no use for"
    if not _counts(list(shares), algo.ngpus):
        yield f"pccl: it says how much gpus {_few(sorted(shares))} send, which is not each of 0 to {algo.ngpus - 1}"
    for sender, row in shares.items():
        if len(row) != algo.ngpus or not all(0 <= count <= room for count in row):
            yield f"pccl: gpu {sender} sends {_few(row)} chunks, which are not {algo.ngpus} numbers from 0 to {room}"


def _unanswered(algo: Algo) -> Iterator[str]:
    """Threadblocks whose peer has none for the other end: the runtimes would wait for it when they connect."""
    ends = {(gpu.id, tb.send, tb.recv, tb.chan) for gpu in algo.gpus for tb in gpu.threadblocks}
    sends = {(gpu, peer, chan) for gpu, peer, _, chan in ends}
    receives = {(peer, gpu, chan) for gpu, _, peer, chan in ends}
    for gpu in algo.gpus:
        for tb in gpu.threadblocks:
            where = f"gpu {gpu.id} tb {tb.id}"
            if tb.send >= 0 and (gpu.id, tb.send, tb.chan) not in receives:
                yield f"{where}: gpu {tb.send} has no threadblock to receive from it on channel {tb.chan}"
            if tb.recv >= 0 and (tb.recv, gpu.id, tb.chan) not in sends:
                yield f"{where}: gpu {tb.recv} has no threadblock to send to it on channel {tb.chan}"


def _of_gpu(gpu: Gpu, algo: Algo, target: Target) -> Iterator[str]:
    count = len(gpu.threadblocks)
    if [tb.id for tb in gpu.threadblocks] != list(range(count)):
        yield f"gpu {gpu.id}: its threadblocks are {_few([tb.id for tb in gpu.threadblocks])}; they count from 0 on"
    if count > target.threadblocks:
        yield f"gpu {gpu.id}: {count} threadblocks; {target.runtime} has at most {target.threadblocks}"
    nodes = 1 + algo.ngpus + count + sum(len(tb.steps) for tb in gpu.threadblocks)
    if nodes > MOST_NODES:
        yield f"gpu {gpu.id}: it has to read {nodes} elements; the runtimes keep {MOST_NODES}"
    for way in ("send", "recv"):
        used = Counter(
            (tb.chan, getattr(tb, way)) for tb in gpu.threadblocks if getattr(tb, way) >= 0
        )
        for (chan, peer), times in used.items():
            if times > 1:
                yield f"gpu {gpu.id}: {times} threadblocks {way} with gpu {peer} on channel {chan}; there may be one"
        for chan, peers in Counter(chan for chan, _ in used).items():
            if peers > MOST_PEERS:
                yield f"gpu {gpu.id}: channel {chan} has {peers} peers to {way} with; the runtimes keep {MOST_PEERS}"


def _of_threadblock(gpu: Gpu, tb: Threadblock, algo: Algo, target: Target) -> Iterator[str]:
    where = f"gpu {gpu.id} tb {tb.id}"
    if not 0 <= tb.chan < algo.nchannels:
        yield f"{where}: channel {tb.chan} of {algo.nchannels}"
    for way in ("send", "recv"):
        peer = getattr(tb, way)
        if peer == gpu.id or not -1 <= peer < algo.ngpus:
            yield f"{where}: {way}={peer} is no peer of gpu {gpu.id}"
    if len(tb.steps) > target.steps:
        yield f"{where}: {len(tb.steps)} steps; {target.runtime} has at most {target.steps}"
    if [step.s for step in tb.steps] != list(range(len(tb.steps))):
        yield f"{where}: its steps are {_few([step.s for step in tb.steps])}; they count from 0 on"
    fused = 0
    for step, before in zip(tb.steps[1:], tb.steps, strict=False):
        same = (step.type, step.srcbuf, step.dstbuf, step.dstoff) == (
            "re",
            before.srcbuf,
            before.dstbuf,
            before.dstoff,
        )
        fused = (
            fused + 1
            if same and before.type == "re" and step.depid < 0 and not before.hasdep
            else 0
        )
        if fused == MOST_FUSED:
            yield f"{where}: more than {MOST_FUSED} sums into one place in a row; break them up with hasdep=1"


def _of_step(
    gpu: Gpu, tb: Threadblock, index: int, step: Step, others: dict[int, Threadblock]
) -> Iterator[str]:
    if step.type not in _TYPES:
        yield f"there is no type {step.type!r}"
    if step.depid >= 0:
        yield from _dependency(tb, index, step, others.get(step.depid))
    if step.type == "nop":
        if step.depid < 0 or step.hasdep or index == len(tb.steps) - 1:
            yield "a nop must carry a dependency, be no dependency itself, and not come last"
        elif tb.steps[index + 1].depid < 0:
            yield "the step after a nop must carry a dependency as well"
        return
    if step.type in SENDS and tb.send < 0:
        yield f"type {step.type} sends, but the threadblock has no peer to send to"
    if step.type in RECEIVES and tb.recv < 0:
        yield f"type {step.type} receives, but the threadblock has no peer to receive from"
    if not 1 <= step.cnt <= MOST_COUNT:
        yield f"cnt is {step.cnt}; it must be from 1 to {MOST_COUNT}"
    if step.hasdep not in (0, 1):
        yield f"hasdep is {step.hasdep}; it must be 0 or 1"
    if step.type not in ("r", "rcs"):
        yield from _place(gpu, step.srcbuf, step.srcoff, step.cnt)
    if step.type not in ("s", "rrs"):
        yield from _place(gpu, step.dstbuf, step.dstoff, step.cnt)


def _dependency(
    tb: Threadblock, index: int, step: Step, other: Threadblock | None
) -> Iterator[str]:
    if other is None or not 0 <= step.deps < len(other.steps):
        yield f"it waits for step {step.deps} of tb {step.depid}, which is not there"
    elif step.depid > MOST_DEPENDED_ON:
        yield f"it waits for tb {step.depid}; the runtimes can wait for tb 0 to {MOST_DEPENDED_ON}"
    elif other is tb and step.deps >= index:
        yield "it waits for itself"
    elif not other.steps[step.deps].hasdep:
        yield f"it waits for tb {step.depid} step {step.deps}, which has hasdep=0 and tells nobody"


def _place(gpu: Gpu, buffer: str, offset: int, count: int) -> Iterator[str]:
    if buffer not in ("i", "o", "s"):
        yield f"there is no buffer {buffer!r}; there are i, o and s"
        return
    chunks = gpu.i_chunks if buffer == "i" else gpu.o_chunks if buffer == "o" else gpu.s_chunks
    if offset < 0 or offset + count > chunks:
        yield f"{buffer}[{offset}:{offset + count}] is outside a buffer of {chunks} chunks"
    elif offset > MOST_OFFSET:
        yield f"the offset {offset} is beyond {MOST_OFFSET}, the largest that the runtimes keep"


def _few(numbers: list[int]) -> str:
    return ", ".join(map(str, numbers[:8])) + (", ..." if len(numbers) > 8 else "")
