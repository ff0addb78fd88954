"""The operations that the schema and its kernels know, and the parts that each of them must have."""

from __future__ import annotations

from collections.abc import Iterator

from pccl.formats.mscclpp.plan import (
    MAX_BARRIERS,
    MAX_BUFFERS_OF_OP,
    MAX_CHANNELS_OF_OP,
    MAX_SEMAPHORES_OF_OP,
    Op,
)

WAITS = {"wait", "rlxwait"}
PUTS_WITH_SIGNAL = {"pws", "pwsf"}
PUTS = PUTS_WITH_SIGNAL | {"put"}
SIGNALS = PUTS_WITH_SIGNAL | {"signal", "rlxsignal"}
SUMS = {"re", "rre", "res", "rres"}
# What moves data: whether its first source, other sources, first destination and other destinations are local.
MOVES = {
    "copy": (True, True, True, True),
    "get": (False, False, True, True),
    "re": (True, True, True, True),
    "rre": (True, False, True, True),
    "res": (True, True, True, False),
    "rres": (True, False, True, False),
} | dict.fromkeys(PUTS, (True, True, False, False))
_SEMAPHORES = {"sem_acquire", "sem_release"}
_OVER_CHANNELS = WAITS | (SIGNALS - PUTS_WITH_SIGNAL) | {"flush"}
KNOWN = _OVER_CHANNELS | MOVES.keys() | _SEMAPHORES | {"nop", "barrier"}


def misshapen(op: Op) -> Iterator[str]:
    """Say which parts an operation needs and has not, or has too many of."""
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
    share = op.tbg_info
    if share and not 0 <= share.tb_id < share.tbg_size:
        yield f"it is share {share.tb_id} of {share.tbg_size}"
    if not channels and op.name in _OVER_CHANNELS:
        yield "it has no channel"
    if several and any(len({*ids}) < len(ids) for ids in (channels, semaphores)):
        yield "it names a channel or a semaphore twice"
    if not semaphores and op.name in _SEMAPHORES:
        yield "it has no semaphore"
    if op.name == "barrier":
        numbered = op.barrier_id is not None and 0 <= op.barrier_id < MAX_BARRIERS
        if not numbered or (op.num_threadblocks or 0) <= 0:
            yield f"a barrier needs a barrier_id below {MAX_BARRIERS} and num_threadblocks"
    if op.name in MOVES:
        yield from _shape_of_move(op)


def _shape_of_move(op: Op) -> Iterator[str]:
    sources = [chunks.type is not None for chunks in op.src_buff]
    destinations = [chunks.type is not None for chunks in op.dst_buff]
    if not sources or not destinations:
        yield "it needs a source and a destination"
        return
    if len({chunks.size for chunks in (*op.src_buff, *op.dst_buff)}) > 1:
        yield "its sources and destinations differ in size"
    source, more_sources, destination, more_destinations = MOVES[op.name]
    if op.name in SUMS:
        if more_destinations and len(destinations) > 1:
            yield "it has several destinations"
    elif len(sources) != len(destinations) or (op.name == "copy" and len(sources) > 1):
        yield "it needs one source for each destination"
    if sources != [source, *[more_sources] * (len(sources) - 1)] or destinations != [
        destination,
        *[more_destinations] * (len(destinations) - 1),
    ]:
        yield "it mixes up local (type) and remote (buffer_id) buffers"
    over = op.channel_type
    if op.name in PUTS_WITH_SIGNAL and over != "port":
        yield "only port channels put with a signal"
    if op.name not in PUTS:
        if over != "memory" and not all(MOVES[op.name]):
            yield "only memory channels reach remote buffers for it"
    elif over not in ("memory", "port"):
        yield "it needs a channel_type, memory or port"
    elif over == "port" and len(op.channel_ids) != len(destinations):
        yield "it needs one channel for each destination"
