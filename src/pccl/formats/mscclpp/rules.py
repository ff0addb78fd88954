"""The operations that the schema and its kernels know, and the parts that each of them must have."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import lru_cache

from pccl.formats.mscclpp.plan import (
    MAX_BARRIERS,
    MAX_BUFFERS_OF_OP,
    MAX_CHANNELS_OF_OP,
    MAX_SEMAPHORES_OF_OP,
    Chunks,
    Op,
)

SEMAPHORES = {"sem_acquire", "sem_release"}
PUTS_WITH_SIGNAL = {"pws", "pwsf"}
PUTS = PUTS_WITH_SIGNAL | {"put"}
WAITS = {"wait", "rlxwait", "sem_acquire"}
SIGNALS = PUTS_WITH_SIGNAL | {"signal", "rlxsignal", "sem_release"}
RELAXED = {"rlxwait", "rlxsignal"}
SUMS = {"re", "rre", "res", "rres"}
# What moves data: which of its sources and destinations are local (l) and which are remote (r).
MOVES = {
    "copy": "l+>l+",
    "get": "r+>l+",
    "re": "l+>l+",
    "rre": "lr*>l+",
    "res": "l+>lr*",
    "rres": "lr*>lr*",
} | dict.fromkeys(PUTS, "l+>r+")
_OVER_CHANNELS = (WAITS | SIGNALS | {"flush"}) - PUTS_WITH_SIGNAL - SEMAPHORES
KNOWN = _OVER_CHANNELS | MOVES.keys() | SEMAPHORES | {"nop", "barrier"}


def misshapen(op: Op) -> Iterator[str]:
    """Say which parts an operation needs and has not, or has too many of."""
    name = op.name
    if name not in KNOWN:
        yield "this operation is not understood here"
        return
    channels = op.channel_ids
    semaphores = op.semaphore_ids
    # Plans have tens of thousands of operations, nearly all of one channel, source and destination.
    several = len(channels) > 1 or len(semaphores) > 1
    if several or len(op.src_buff) > 1 or len(op.dst_buff) > 1:
        for what, found, most in (
            ("channel ids", channels, MAX_CHANNELS_OF_OP),
            ("sources", op.src_buff, MAX_BUFFERS_OF_OP),
            ("destinations", op.dst_buff, MAX_BUFFERS_OF_OP),
            ("semaphores", semaphores, MAX_SEMAPHORES_OF_OP),
        ):
            if len(found) > most:
                yield f"{len(found)} {what}; there is room for {most}"
    if op.reduce_op not in (None, "sum"):
        yield f"there is no reduction {op.reduce_op!r}, only the sum"
    # Threadblocks that share an operation count themselves from zero.
    share = op.tbg_info
    if share and not 0 <= share.tb_id < share.tbg_size:
        yield f"it is share {share.tb_id} of {share.tbg_size}"
    if not channels and name in _OVER_CHANNELS:
        yield "it has no channel"
    # Kernels handle the entries of a list at the same time, each by a thread of its own.
    if several and any(len({*ids}) < len(ids) for ids in (channels, semaphores)):
        yield "it names a channel or a semaphore twice"
    if not semaphores and name in SEMAPHORES:
        yield "it has no semaphore"
    # A GPU has a fixed number of barriers, which all threadblocks share.
    if name == "barrier":
        numbered = op.barrier_id is not None and 0 <= op.barrier_id < MAX_BARRIERS
        if not numbered or (op.num_threadblocks or 0) <= 0:
            yield f"a barrier needs a barrier_id below {MAX_BARRIERS} and num_threadblocks"
    if name in MOVES:
        yield from _misshapen_move(op, MOVES[name])


def _misshapen_move(op: Op, shape: str) -> Iterator[str]:
    sources = len(op.src_buff)
    destinations = len(op.dst_buff)
    if not sources or not destinations:
        yield "it needs a source and a destination"
        return
    if len({chunks.size for chunks in op.src_buff + op.dst_buff}) > 1:
        yield "its sources and destinations differ in size"
    if op.name in SUMS:
        # Kernels write a sum to one local place, and otherwise only to remote ones beside it.
        if destinations > 1 and "r" not in shape.partition(">")[2]:
            yield "it has several destinations"
    elif sources != destinations or (op.name == "copy" and sources > 1):
        yield "it needs one source for each destination"
    if not _has_shape(_sides(op.src_buff), _sides(op.dst_buff), shape):
        yield "it mixes up local (type) and remote (buffer_id) buffers"
    over = op.channel_type
    if op.name in PUTS_WITH_SIGNAL and over != "port":
        yield "only port channels put with a signal"
    if op.name not in PUTS:
        if over != "memory" and "r" in shape:
            yield "only memory channels reach remote buffers for it"
    elif over not in ("memory", "port"):
        yield "it needs a channel_type, memory or port"
    # The proxy of a channel writes to the memory of its peer, and to no other.
    elif over == "port" and len(op.channel_ids) != destinations:
        yield "it needs one channel for each destination"


def _sides(buffers: Sequence[Chunks]) -> str:
    if len(buffers) == 1:
        return "r" if buffers[0].type is None else "l"
    return "".join(map(_sides, zip(buffers, strict=True)))


@lru_cache
def _has_shape(sources: str, destinations: str, shape: str) -> bool:
    return re.fullmatch(shape, f"{sources}>{destinations}") is not None
