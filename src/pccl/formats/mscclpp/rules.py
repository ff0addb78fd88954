"""What the schema and its kernels allow: names, limits, and the parts that each operation must have."""

from __future__ import annotations

from collections.abc import Iterator

from pccl.formats.mscclpp.plan import Op

__all__ = ["misshapen"]

BUFFERS = {"i": "input", "o": "output", "s": "scratch"}
# Of a threadblock.
MAX_OPS = 64
MAX_CHANNELS = 16
MAX_BUFFERS = 16
MAX_THREADS = 1024
# Of an operation.
MAX_CHANNELS_OF_OP = 8
MAX_BUFFERS_OF_OP = 10
MAX_SEMAPHORES_OF_OP = 16
# Of a GPU.
MAX_BARRIERS = 16

WAITS = {"wait", "rlxwait"}
PUTS_WITH_SIGNAL = {"pws", "pwsf"}
PUTS = PUTS_WITH_SIGNAL | {"put"}
SIGNALS = PUTS_WITH_SIGNAL | {"signal", "rlxsignal"}
SUMS = {"re", "rre", "res", "rres"}
MOVES = PUTS | SUMS | {"get", "copy"}
_SEMAPHORES = {"sem_acquire", "sem_release"}
_OVER_CHANNELS = WAITS | (SIGNALS - PUTS_WITH_SIGNAL) | {"flush"}
KNOWN = _OVER_CHANNELS | MOVES | _SEMAPHORES | {"nop", "barrier"}
DEFECTS = {
    "get": "kernels swap the offsets of source and destination of a get; put from the other side",
    "flush": "kernels skip a flush that stands alone; let the receiver answer with a signal instead",
}


def misshapen(op: Op) -> Iterator[str]:
    """Say which parts an operation needs and has not, or has too many of."""
    channels = op.channel_ids
    semaphores = op.semaphore_ids
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
    if op.tbg_info and not 0 <= op.tbg_info.tb_id < op.tbg_info.tbg_size:
        yield f"it is share {op.tbg_info.tb_id} of {op.tbg_info.tbg_size}"
    if not channels and op.name in _OVER_CHANNELS:
        yield "it has no channel"
    if len({*channels}) < len(channels) or len({*semaphores}) < len(semaphores):
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
    if not op.src_buff or not op.dst_buff:
        yield "it needs a source and a destination"
        return
    if len({chunks.size for chunks in (*op.src_buff, *op.dst_buff)}) > 1:
        yield "its sources and destinations differ in size"
    sources = [chunks.type is not None for chunks in op.src_buff]
    destinations = [chunks.type is not None for chunks in op.dst_buff]
    reaches_out = op.name in ("get", "rre", "res", "rres")
    if op.name in SUMS:
        # The first of each is local; of the others, rre and rres read remote ones, res and rres write remote ones.
        local = (op.name not in ("rre", "rres"), op.name not in ("res", "rres"))
        wanted = (
            [True, *[local[0]] * (len(sources) - 1)],
            [True, *[local[1]] * (len(destinations) - 1)],
        )
        if local[1] and len(destinations) > 1:
            yield "it has several destinations"
    else:
        wanted = ([op.name != "get"] * len(sources), [op.name not in PUTS] * len(destinations))
        if len(sources) != len(destinations) or (op.name == "copy" and len(sources) > 1):
            yield "it needs one source for each destination"
    if (sources, destinations) != wanted:
        yield "it mixes up local (type) and remote (buffer_id) buffers"
    if op.name in PUTS_WITH_SIGNAL and op.channel_type != "port":
        yield "only port channels put with a signal"
    if reaches_out and op.channel_type != "memory":
        yield "only memory channels reach remote buffers for it"
    if op.name in PUTS:
        if op.channel_type not in ("memory", "port"):
            yield "it needs a channel_type, memory or port"
        elif op.channel_type == "port" and len(op.channel_ids) != len(destinations):
            yield "it needs one channel for each destination"
