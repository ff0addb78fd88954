"""What the schema and its kernels allow: names, limits, and the parts that each operation must have."""

from __future__ import annotations

from collections.abc import Iterator

from pccl.formats.mscclpp.plan import Op

__all__ = ["misshapen"]

BUFFERS = {"i": "input", "o": "output", "s": "scratch"}
MAX_OPS, MAX_CHANNELS, MAX_BUFFERS, MAX_BARRIERS = 64, 16, 16, 16
MAX_CHANNELS_OF_OP, MAX_BUFFERS_OF_OP, MAX_SEMAPHORES_OF_OP = 8, 10, 16
MAX_THREADS = 1024
SYNCHRONIZES = {"nop", "barrier"}
SIGNALS, WAITS = {"signal", "rlxsignal"}, {"wait", "rlxwait"}
PUTS = {"put", "pws", "pwsf"}
SUMS = {"re", "rre", "res", "rres"}
MOVES = PUTS | SUMS | {"get", "copy"}
_OVER_CHANNELS = SIGNALS | WAITS | {"flush"}
KNOWN = SYNCHRONIZES | SIGNALS | WAITS | MOVES | {"flush", "sem_acquire", "sem_release"}
DEFECTS = {
    "get": "kernels swap the offsets of source and destination of a get; put from the other side",
    "flush": "kernels skip a flush that stands alone; let the receiver answer with a signal instead",
}


def misshapen(op: Op) -> Iterator[str]:
    """Whether an operation has the parts it needs, and no more than there is room for."""
    channels, semaphores = len(op.channel_ids), len(op.semaphore_ids)
    if channels > MAX_CHANNELS_OF_OP:
        yield f"{channels} channel ids; there is room for {MAX_CHANNELS_OF_OP}"
    if len(op.src_buff) > MAX_BUFFERS_OF_OP:
        yield f"{len(op.src_buff)} sources; there is room for {MAX_BUFFERS_OF_OP}"
    if len(op.dst_buff) > MAX_BUFFERS_OF_OP:
        yield f"{len(op.dst_buff)} destinations; there is room for {MAX_BUFFERS_OF_OP}"
    if semaphores > MAX_SEMAPHORES_OF_OP:
        yield f"{semaphores} semaphores; there is room for {MAX_SEMAPHORES_OF_OP}"
    if op.reduce_op not in (None, "sum"):
        yield f"there is no reduction {op.reduce_op!r}, only the sum"
    if op.tbg_info and not 0 <= op.tbg_info.tb_id < op.tbg_info.tbg_size:
        yield f"it is share {op.tbg_info.tb_id} of {op.tbg_info.tbg_size}"
    if not channels and op.name in _OVER_CHANNELS:
        yield "it has no channel"
    if len(set(op.channel_ids)) < channels or len(set(op.semaphore_ids)) < semaphores:
        yield "it names a channel or a semaphore twice"
    if not semaphores and op.name in ("sem_acquire", "sem_release"):
        yield "it has no semaphore"
    if op.name == "barrier" and not (
        op.barrier_id is not None
        and 0 <= op.barrier_id < MAX_BARRIERS
        and (op.num_threadblocks or 0) > 0
    ):
        yield f"a barrier needs a barrier_id below {MAX_BARRIERS} and num_threadblocks"
    if op.name in MOVES:
        yield from _shape_of_move(op)


def _shape_of_move(op: Op) -> Iterator[str]:
    local = (
        [chunks.type is not None for chunks in op.src_buff],
        [chunks.type is not None for chunks in op.dst_buff],
    )
    reads, sends = op.name in ("rre", "rres"), op.name in ("res", "rres")
    if not op.src_buff or not op.dst_buff:
        yield "it needs a source and a destination"
        return
    if len({chunks.size for chunks in (*op.src_buff, *op.dst_buff)}) > 1:
        yield "its sources and destinations differ in size"
    if op.name in SUMS:
        wanted = (
            [True] + [not reads] * (len(local[0]) - 1),
            [True] + [not sends] * (len(local[1]) - 1),
        )
        if op.name in ("re", "rre") and len(local[1]) > 1:
            yield "it has several destinations"
    else:
        wanted = [op.name != "get"] * len(local[0]), [op.name not in PUTS] * len(local[1])
        if len(local[0]) != len(local[1]) or (op.name == "copy" and len(local[0]) > 1):
            yield "it needs one source for each destination"
    if local != wanted:
        yield "it mixes up local (type) and remote (buffer_id) buffers"
    if op.name in ("pws", "pwsf") and op.channel_type != "port":
        yield "only port channels put with a signal"
    if op.name in PUTS and op.channel_type == "port" and len(op.channel_ids) != len(op.dst_buff):
        yield "it needs one channel for each destination"
    if (op.name == "get" or reads or sends) and op.channel_type != "memory":
        yield "only memory channels reach remote buffers for it"
    if op.name in PUTS and op.channel_type not in ("memory", "port"):
        yield "it needs a channel_type, memory or port"
