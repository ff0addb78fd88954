"""The rules that an MSCCL-IR file must keep and that can be seen without running it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise

from pccl.formats.machine import BY_NAME, Kind, Problem
from pccl.formats.msccl.file import Element, Gpu, Step, Threadblock, XmlAlgorithm
from pccl.formats.msccl.targets import (
    DEPTHS,
    MOST_COUNT,
    MOST_DEPENDED_ON,
    MOST_FUSED,
    MOST_NODES,
    MOST_OFFSET,
    MOST_PEERS,
    Target,
    plain_name,
)
from pccl.units import counted

# What steps do, by type; those that read, read something of their own rank.
SENDS = frozenset({"s", "rcs", "rrs", "rrcs"})
RECEIVES = frozenset({"r", "rcs", "rrs", "rrc", "rrcs"})
READS = frozenset({"s", "rrs", "rrc", "rrcs", "cpy", "re"})
WRITES = frozenset({"r", "rcs", "rrc", "rrcs", "cpy", "re"})
TYPES = READS | WRITES


def broken_rules(algorithm: XmlAlgorithm, target: Target) -> list[Problem]:
    """Find every rule that the file breaks."""
    problems = _broken(algorithm, _of_choice(algorithm, target))
    problems += _broken(algorithm, _of_algorithm(algorithm, target))
    problems += (Problem(Kind.RULE, f"pccl: {text}") for text in _of_purpose(algorithm))
    # Connections that have a threadblock to send, and those that have one to receive.
    sent_on = {tb.sends_on for tb in algorithm.blocks}
    received_on = {tb.receives_on for tb in algorithm.blocks}
    for gpu in algorithm.gpus:
        problems += _broken(gpu, _of_gpu(gpu, target))
        for tb in gpu.threadblocks:
            problems += _broken(tb, _of_threadblock(tb, target))
            problems += _broken(tb, _of_sums(tb))
            # Without a threadblock at the other end, runtimes would wait for it when they connect.
            if tb.send >= 0 and tb.sends_on not in received_on:
                text = f"gpu {tb.send} has no threadblock to receive from it on channel {tb.chan}"
                problems += _broken(tb, [text])
            if tb.recv >= 0 and tb.receives_on not in sent_on:
                text = f"gpu {tb.recv} has no threadblock to send to it on channel {tb.chan}"
                problems += _broken(tb, [text])
    return problems + broken_parts(algorithm)


def broken_parts(algorithm: XmlAlgorithm) -> list[Problem]:
    """Find what is wrong with ranks, buffers and steps: without these there is nothing to make sense of."""
    problems = _broken(algorithm, _of_sizes(algorithm))
    for gpu in algorithm.gpus:
        largest = max(gpu.i_chunks, gpu.o_chunks, gpu.s_chunks)
        if largest > MOST_OFFSET + 1:
            text = f"a buffer of {counted(largest, 'chunk')}; the runtimes can number {MOST_OFFSET + 1}"
            problems += _broken(gpu, [text])
        # Of two with the same number, the first counts.
        others = {tb.id: tb for tb in reversed(gpu.threadblocks)}
        for tb in gpu.threadblocks:
            for step in tb.steps:
                # Most steps wait for nothing.
                if step.depid >= 0:
                    problems += _broken(step, _of_dependency(step, others))
                # There are tens of thousands of steps, with which mostly nothing is wrong: no list for each.
                for text in _of_nop(step) if step.type == "nop" else _of_step(step):
                    problems.append(step.problem(Kind.RULE, text))
    return problems


def beyond_buffers(algorithm: XmlAlgorithm, sizes: Sequence[Mapping[str, int]]) -> list[Problem]:
    """Find steps that reach beyond the buffers that there are, although not beyond those that the file says."""
    problems = []
    for step in algorithm.steps:
        rank = step.around.around.id
        for buffer, offset in _accesses(step):
            size = sizes[rank][buffer]
            end = offset + step.cnt
            if end > size:
                text = (
                    f"{buffer}[{offset}:{end}] is outside the buffer, which has {size} of "
                    f"{counted(algorithm.nchunksperloop, 'chunk')}"
                )
                problems += _broken(step, [text])
    return problems


def _accesses(step: Step) -> Iterator[tuple[str, int]]:
    """Where a step reads and where it writes on its own rank: buffers and offsets."""
    if step.type in READS:
        yield step.srcbuf, step.srcoff
    if step.type in WRITES:
        yield step.dstbuf, step.dstoff


def _broken(element: Element, texts: Iterable[str]) -> list[Problem]:
    return [element.problem(Kind.RULE, text) for text in texts]


def _of_sizes(algorithm: XmlAlgorithm) -> Iterator[str]:
    ids = sorted(gpu.id for gpu in algorithm.gpus)
    if not _counts(ids, algorithm.ngpus):
        yield f"ngpus is {algorithm.ngpus}, but there are {len(ids)} gpus with the ids {_few(ids)}"
    if not 1 <= algorithm.nchunksperloop <= MOST_OFFSET + 1:
        yield f"nchunksperloop is {algorithm.nchunksperloop}; it must be from 1 to {MOST_OFFSET + 1}"


def _counts(ids: list[int], count: int) -> bool:
    """Whether these are all numbers from 0 on, that many; the file may say any number of them."""
    return len(ids) == count and ids == list(range(count))


def _of_choice(algorithm: XmlAlgorithm, target: Target) -> Iterator[str]:
    """Runtimes choose a file by its collective, its sizes, and in place or not; they compare nothing else."""
    coll = algorithm.coll
    kind = BY_NAME.get(plain_name(coll))
    if kind and kind.rooted:
        yield f"the runtimes do not compare the root of a {coll}, and would run the file for any root"
    elif kind and not kind.has_one_size:
        yield f"the runtimes never choose a file for {coll}"
    elif coll not in target.collectives:
        names = ", ".join(target.collectives)
        yield f"coll {coll!r} is not one that {target.runtime} chooses: {names}"
    elif kind and kind.in_place_differs and algorithm.inplace and not target.exchanges_in_place:
        yield f"{target.runtime} has no {coll} in place"
    for name in ("inplace", "outofplace"):
        flag = getattr(algorithm, name)
        if flag not in (0, 1):
            yield f"{name} is {flag}; it must be 0 or 1"
    if not (algorithm.inplace or algorithm.outofplace):
        yield "it is neither for in place nor for out of place, so that the runtimes never choose it"
    low = algorithm.minBytes
    high = algorithm.maxBytes
    if high == 0 and not target.takes_any_maximum:
        yield f"a maxBytes of 0, which other runtimes take for no limit, keeps {target.runtime} from using it"
    elif high != 0 and high < max(low, 1):
        yield f"there are no sizes from {low} to {high} bytes"


def _of_algorithm(algorithm: XmlAlgorithm, target: Target) -> Iterator[str]:
    kind = BY_NAME.get(plain_name(algorithm.coll))
    if algorithm.proto not in DEPTHS:
        yield f"proto {algorithm.proto!r} is not one of {', '.join(DEPTHS)}"
    if not 1 <= algorithm.nchannels <= target.channels:
        yield f"{algorithm.nchannels} channels; {target.runtime} has 1 to {target.channels}"
    # In a sum that all end with, ranks have no shares of their own.
    has_shares = kind and not (kind.collects and kind.spreads)
    if has_shares and algorithm.nchunksperloop % max(algorithm.ngpus, 1):
        yield f"nchunksperloop {algorithm.nchunksperloop} does not divide by {algorithm.ngpus} gpus"


def _of_purpose(algorithm: XmlAlgorithm) -> Iterator[str]:
    members = algorithm.purpose.members
    shares = algorithm.purpose.shares
    ranks = algorithm.ngpus
    if len({*members}) < len(members) or not all(0 <= member < ranks for member in members):
        yield f"the members {_few(members)} are not different ranks of 0 to {ranks - 1}"
    if not shares:
        return
    # A share has as much room as the largest needs; there are as many as there are ranks.
    room = algorithm.nchunksperloop // max(ranks, 1)
    if algorithm.coll != "alltoall":
        yield f"it says how much of its shares is sent, which {algorithm.coll} has no use for"
    if not _counts(sorted(shares), ranks):
        yield f"it says how much gpus {_few(sorted(shares))} send, which is not each of 0 to {ranks - 1}"
    for sender, row in shares.items():
        if len(row) != ranks or not all(0 <= count <= room for count in row):
            yield f"gpu {sender} sends {_few(row)} chunks, which are not {ranks} numbers from 0 to {room}"


def _of_gpu(gpu: Gpu, target: Target) -> Iterator[str]:
    ids = [tb.id for tb in gpu.threadblocks]
    if ids != list(range(len(ids))):
        yield f"its threadblocks are {_few(ids)}; they count from 0 on"
    if len(ids) > target.threadblocks:
        yield f"{len(ids)} threadblocks; {target.runtime} has at most {target.threadblocks}"
    # A rank reads the tags of all others too, but only its own threadblocks and steps.
    nodes = 1 + gpu.around.ngpus + len(ids) + sum(len(tb.steps) for tb in gpu.threadblocks)
    if nodes > MOST_NODES:
        yield f"it has to read {nodes} elements; the runtimes keep {MOST_NODES}"
    for way in ("send", "recv"):
        peers = ((tb.chan, getattr(tb, way)) for tb in gpu.threadblocks)
        used = Counter((chan, peer) for chan, peer in peers if peer >= 0)
        for (chan, peer), times in used.items():
            if times > 1:
                yield f"{times} threadblocks {way} with gpu {peer} on channel {chan}; there may be one"
        for chan, count in Counter(chan for chan, _ in used).items():
            if count > MOST_PEERS:
                yield f"channel {chan} has {count} peers to {way} with; the runtimes keep {MOST_PEERS}"


def _of_threadblock(tb: Threadblock, target: Target) -> Iterator[str]:
    gpu = tb.around
    algorithm = gpu.around
    if not 0 <= tb.chan < algorithm.nchannels:
        yield f"channel {tb.chan} of {algorithm.nchannels}"
    for way in ("send", "recv"):
        peer = getattr(tb, way)
        if peer == gpu.id or not -1 <= peer < algorithm.ngpus:
            yield f"{way}={peer} is no peer of gpu {gpu.id}"
    if len(tb.steps) > target.steps:
        yield f"{len(tb.steps)} steps; {target.runtime} has at most {target.steps}"
    numbers = [step.s for step in tb.steps]
    if numbers != list(range(len(numbers))):
        yield f"its steps are {_few(numbers)}; they count from 0 on"


def _of_sums(tb: Threadblock) -> Iterator[str]:
    """The runtimes do sums in a row into one place in one go, but only so many; a dependency ends such a row."""
    fused = 0
    for before, step in pairwise(tb.steps):
        goes_on = (
            before.type == step.type == "re"
            and (step.srcbuf, step.dstbuf) == (before.srcbuf, before.dstbuf)
            and step.dstoff == before.dstoff
            and step.depid < 0
            and not before.hasdep
        )
        fused = fused + 1 if goes_on else 0
        if fused == MOST_FUSED:
            yield f"more than {MOST_FUSED} sums into one place in a row; break them up with hasdep=1"


def _of_dependency(step: Step, others: dict[int, Threadblock]) -> Iterator[str]:
    other = others.get(step.depid)
    if other is None or not 0 <= step.deps < len(other.steps):
        yield f"it waits for step {step.deps} of tb {step.depid}, which is not there"
    elif step.depid > MOST_DEPENDED_ON:
        yield f"it waits for tb {step.depid}; the runtimes can wait for tb 0 to {MOST_DEPENDED_ON}"
    elif other is step.around and step.deps >= step.index:
        yield "it waits for itself"
    elif not other.steps[step.deps].hasdep:
        yield f"it waits for tb {step.depid} step {step.deps}, which has hasdep=0 and tells nobody"


def _of_nop(step: Step) -> Iterator[str]:
    """The runtimes collect the dependencies of nops, and let the step after them wait for all."""
    steps = step.around.steps
    if step.depid < 0 or step.hasdep or step is steps[-1]:
        yield "a nop must carry a dependency, be no dependency itself, and not come last"
    elif steps[step.index + 1].depid < 0:
        yield "the step after a nop must carry a dependency as well"


def _of_step(step: Step) -> Iterator[str]:
    tb = step.around
    kind = step.type
    if kind not in TYPES:
        yield f"there is no type {kind!r}"
    if kind in SENDS and tb.send < 0:
        yield f"type {kind} sends, but the threadblock has no peer to send to"
    if kind in RECEIVES and tb.recv < 0:
        yield f"type {kind} receives, but the threadblock has no peer to receive from"
    if not 1 <= step.cnt <= MOST_COUNT:
        yield f"cnt is {step.cnt}; it must be from 1 to {MOST_COUNT}"
    if step.hasdep not in (0, 1):
        yield f"hasdep is {step.hasdep}; it must be 0 or 1"
    for buffer, offset in _accesses(step):
        end = offset + step.cnt
        if buffer not in ("i", "o", "s"):
            yield f"there is no buffer {buffer!r}; there are i, o and s"
            continue
        chunks = getattr(tb.around, f"{buffer}_chunks")
        if offset < 0 or end > chunks:
            yield f"{buffer}[{offset}:{end}] is outside a buffer of {counted(chunks, 'chunk')}"
        elif offset > MOST_OFFSET:
            yield f"the offset {offset} is beyond {MOST_OFFSET}, the largest that the runtimes keep"


def _few(numbers: list[int]) -> str:
    return ", ".join(map(str, numbers[:8])) + (", ..." if len(numbers) > 8 else "")
