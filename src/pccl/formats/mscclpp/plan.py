"""Execution plans of MSCCL++ as data: the schema that its loader reads, and the limits of its kernels."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import msgspec

from pccl._files import refuse_endless
from pccl.errors import FormatError
from pccl.units import counted

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


BufferType = Literal["i", "o", "s"]
ChannelType = Literal["memory", "port", "switch", "none"]


# Of what there are tens of thousands, nothing refers back to what it is part of: nobody need look for cycles there.
class Chunks(msgspec.Struct, gc=False, omit_defaults=True):
    """Some chunks of a buffer of this GPU (by type) or of another (by number)."""

    index: int
    size: int
    type: BufferType | None = None
    buffer_id: int | None = None


class Share(msgspec.Struct):
    """Which part of an operation that several threadblocks share is this one's."""

    tb_id: int
    tbg_size: int


class Op(msgspec.Struct, gc=False, omit_defaults=True):
    """One operation of a threadblock."""

    name: str
    channel_type: ChannelType | None = None
    channel_ids: tuple[int, ...] = ()
    src_buff: tuple[Chunks, ...] = ()
    dst_buff: tuple[Chunks, ...] = ()
    tbg_info: Share | None = None
    barrier_id: int | None = None
    num_threadblocks: int | None = None
    semaphore_ids: tuple[int, ...] = ()
    reduce_op: str | None = None


# The schema has other names for each of the three lists that follow; ours are alike, so that one function reads all.
class Channels(msgspec.Struct):
    """The peers of channels of one type, in order; the channels of each type are numbered in that order."""

    kind: Literal["memory", "port", "switch"] = msgspec.field(name="channel_type")
    numbers: list[int] = msgspec.field(name="connected_to", default=[])


class ChannelRefs(msgspec.Struct):
    """The channels of one type that a threadblock uses."""

    kind: Literal["memory", "port", "switch"] = msgspec.field(name="channel_type")
    numbers: list[int] = msgspec.field(name="channel_ids")


class BufferRefs(msgspec.Struct):
    """The remote buffers that a threadblock reaches over channels of one type."""

    kind: Literal["memory", "port"] = msgspec.field(name="access_channel_type")
    numbers: list[int] = msgspec.field(name="remote_buffer_ids")


class Threadblock(msgspec.Struct):
    """One threadblock; operations name channels and remote buffers by their places in its lists."""

    id: int
    ops: list[Op]
    channels: list[ChannelRefs]
    remote_buffer_refs: list[BufferRefs] = []


class RemoteBuffer(msgspec.Struct):
    """A buffer of another GPU."""

    rank: int
    type: BufferType
    access_channel_types: list[Literal["memory", "port"]]


class Semaphore(msgspec.Struct):
    """A counter between threadblocks."""

    init_value: int


class Gpu(msgspec.Struct):
    """What one GPU does."""

    id: int
    input_chunks: int
    output_chunks: int
    scratch_chunks: int
    threadblocks: list[Threadblock]
    channels: list[Channels]
    remote_buffers: list[RemoteBuffer]
    semaphores: list[Semaphore] = []

    @property
    def chunks(self) -> dict[str, int]:
        """How many chunks each buffer has."""
        return {"i": self.input_chunks, "o": self.output_chunks, "s": self.scratch_chunks}


class About(msgspec.Struct):
    """What the loader does not read (it ignores fields that it does not know), but results can be checked with."""

    members: list[int] | None = None
    root: int | None = None
    cyclic: bool = True
    matrix: list[list[int]] | None = None


class ExecutionPlan(msgspec.Struct):
    """An execution plan."""

    name: str
    collective: str
    protocol: Literal["Simple", "LL"]
    inplace: bool
    gpus: list[Gpu]
    reuse_resources: bool = False
    num_threads_per_block: int = 1024
    use_double_scratch_buffer: bool = False
    buffer_alignment: int = 16
    min_message_size: int = 0
    max_message_size: int = 2**64 - 1
    pccl: About = msgspec.field(default_factory=About)


def numbers_of(lists: Sequence[Channels | ChannelRefs | BufferRefs], kind: str) -> list[int]:
    """All numbers in the lists for one type of channel, one list after another, as the loader joins them."""
    return [number for one in lists if one.kind == kind for number in one.numbers]


def read(path: str | Path) -> ExecutionPlan:
    """Read a plan from a file."""
    refuse_endless(path)
    try:
        # Bytes: decoding is part of parsing, and fails as such.
        return parse(Path(path).read_bytes())
    except OSError as error:
        raise FormatError(f"cannot read {path}: {error.strerror or error}") from None
    except FormatError as error:
        raise FormatError(f"{path} is not an execution plan of MSCCL++: {error}") from None


def parse(text: str | bytes) -> ExecutionPlan:
    """Read a plan from JSON.

    Examples
    --------
    >>> parse('{"name": "empty"}')
    Traceback (most recent call last):
    ...
    pccl.errors.FormatError: Object missing required field `collective`
    """
    try:
        return msgspec.json.decode(text, type=ExecutionPlan)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise FormatError(str(error)) from None


def facts(plan: ExecutionPlan) -> dict[str, Any]:
    """What a plan is, for people."""
    blocks = [len(gpu.threadblocks) for gpu in plan.gpus]
    ops = [len(block.ops) for gpu in plan.gpus for block in gpu.threadblocks]
    place = "in place" if plan.inplace else "out of place"
    scratch = max((gpu.scratch_chunks for gpu in plan.gpus), default=0)
    return {
        "plan": f"{plan.name}: {plan.collective} of {counted(len(plan.gpus), 'rank')}, {place}",
        "threadblocks": f"{sum(blocks):,}, at most {max(blocks, default=0)} on a rank",
        "operations": f"{sum(ops):,}, at most {max(ops, default=0)} in a threadblock",
        "scratch": f"at most {counted(scratch, 'chunk')} on a rank",
    }
